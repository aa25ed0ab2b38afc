// The map of directories: area is operations, colour is the share that missed. A click goes into a directory.

import { hierarchy, treemap, type HierarchyRectangularNode } from "d3-hierarchy";
import type { ReportView } from "../generated/report";
import { button, el, whenResized } from "./dom";
import { counted, grouped, percent, visible } from "./format";
import { tree, type Branch } from "./tree";
import * as tooltip from "./tooltip";

const TITLE = 20;
/** A group narrower or lower than this has no title. Unit: pixels. */
const TITLED = { width: 44, height: 40 };
/** A tile lower than this holds no name, and below a pixel or two none is drawn. Unit: pixels. */
const NAMED = 16;
const SMALLEST = 2;
/** A name is written where so many characters of it can be read. Unit of a character: pixels. */
const READABLE = 9;
const CHARACTER = 7.5;
/** A group that is nearly all of the group around it shares its title. */
const NEARLY_ALL = 0.85;
/** From this share of misses on, text on a tile is light. */
const HOT = 0.5;

/** A tile: a directory with what is below it, or the names directly in a directory that has others below. */
interface Tile {
    branch: Branch;
    name: string;
    operations: number;
    missed: number;
    children: Tile[];
    /** Its name stands in the title of the group around it. */
    joined?: boolean;
    /** Where a click on its title goes. */
    enter?: Branch;
}

type Placed = HierarchyRectangularNode<Tile>;

function tile(branch: Branch): Tile {
    const children = branch.children.map(tile);
    if (branch.own && children.length > 0) {
        const { metadata_operations: operations, missed } = branch.own;
        children.push({ branch, name: "here", operations, missed, children: [] });
    }
    return { branch, name: branch.name, operations: branch.operations, missed: branch.missed, children };
}

function place(focus: Branch, width: number, height: number): Placed {
    const root = hierarchy(tile(focus), (of) => of.children)
        .sum((of) => (of.children.length === 0 ? of.operations : 0))
        .sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
    join(root as Placed);
    const titled = (node: Placed) =>
        !node.data.joined && node.depth > 0 && node.x1 - node.x0 > TITLED.width && node.y1 - node.y0 > TITLED.height;
    return treemap<Tile>()
        .size([width, height])
        .round(true)
        .paddingInner((node) => (node.depth === 0 ? 3 : 1))
        .paddingOuter((node) => (node.depth === 0 || node.data.joined ? 0 : 2))
        .paddingTop((node) => (titled(node as Placed) ? TITLE : node.depth === 0 || node.data.joined ? 0 : 2))(root);
}

/** Gives one title to groups of which each is nearly all of the one around it. */
function join(node: Placed): void {
    let inner = node;
    for (let largest = inner.children?.[0]; node.depth > 0 && largest?.children; largest = inner.children?.[0]) {
        if ((largest.value ?? 0) < (node.value ?? 0) * NEARLY_ALL) break;
        largest.data.joined = true;
        node.data.name += `/${largest.data.name}`;
        inner = largest;
    }
    node.data.enter = inner.data.branch;
    (inner.children ?? []).concat(inner === node ? [] : siblings(node, inner)).forEach(join);
}

/** The groups beside a chain from `outer` to `inner`. */
function siblings(outer: Placed, inner: Placed): Placed[] {
    const beside: Placed[] = [];
    for (let at: Placed = inner; at !== outer && at.parent; at = at.parent) {
        beside.push(...(at.parent.children ?? []).filter((child) => child !== at));
    }
    return beside;
}

class DirectoryMap {
    readonly element: HTMLElement;
    private readonly root: Branch;
    private focus: Branch;
    private readonly trail: Branch[] = [];
    private readonly field = el("div", { class: "map" });
    private readonly crumbs = el("nav", { class: "crumbs", "aria-label": "Directory shown" });
    private width = 0;

    constructor(report: ReportView, private readonly choose: (path: string) => void) {
        this.root = this.focus = tree(report.top_directories);
        const placed = `${percent(this.root.operations, report.totals.metadata_operations)} of the operations`;
        this.element = el("figure", { class: "directories" },
            el("div", { class: "tools" }, this.crumbs,
                el("div", { class: "scale", "aria-label": "Colour: share missed" },
                    el("span", {}, `0\u202f%`), el("i", {}), el("span", {}, `100\u202f% missed`))),
            this.field,
            el("figcaption", {}, `Area: operations on names directly in a directory (${placed}). A click goes in.`));
        this.field.addEventListener("pointerleave", tooltip.hide);
        whenResized(this.field, (width) => {
            this.width = width;
            this.draw();
        });
    }

    private go(to: Branch): void {
        const at = this.trail.indexOf(to);
        if (at >= 0) this.trail.splice(at);
        else this.trail.push(this.focus);
        this.focus = to;
        tooltip.hide();
        this.draw();
        this.crumbs.querySelector("button")?.focus({ preventScroll: true });
    }

    private draw(): void {
        const height = Math.round(Math.max(300, Math.min(460, this.width * 0.5)));
        this.field.style.height = `${height}px`;
        const root = place(this.focus, this.width, height);
        const nodes = root.descendants().filter((node) =>
            node.depth > 0 && !node.data.joined && node.x1 - node.x0 >= SMALLEST && node.y1 - node.y0 >= SMALLEST);
        this.field.replaceChildren(...nodes.map((node) => this.box(node)));
        this.drawCrumbs();
    }

    private box(node: Placed): HTMLElement {
        const { data } = node;
        const [width, height] = [node.x1 - node.x0, node.y1 - node.y0];
        const group = data.children.length > 0;
        const share = data.operations > 0 ? data.missed / data.operations : 0;
        const name = visible(data.name);
        const readable = Math.min(name.length, READABLE) * CHARACTER < width - 8 && height > NAMED;
        const named = group ? width > TITLED.width && height > TITLED.height : readable;
        const own = !group && data.name !== data.branch.name;
        const classes = ["tile", group && "group", own && "own", !group && share > HOT && "hot"].filter(Boolean);
        const made = el("div", { class: classes.join(" ") }, named && el("span", {}, name));
        made.style.cssText = `left:${node.x0}px;top:${node.y0}px;width:${width}px;height:${height}px`;
        made.style.setProperty("--share", String(share));
        const target = this.target(node);
        made.addEventListener("pointermove", (event) => {
            event.stopPropagation();
            tooltip.show(event.clientX, event.clientY, ...this.explain(data));
        });
        if (target) {
            made.addEventListener("click", () => this.go(target));
            made.classList.add("enters");
        }
        if (target && node.depth === 1) this.makeReachable(made, data, target);
        return made;
    }

    /** Groups one level below can be reached with the keyboard; deeper ones after going in. */
    private makeReachable(made: HTMLElement, data: Tile, target: Branch): void {
        made.tabIndex = 0;
        made.setAttribute("role", "button");
        made.setAttribute("aria-label",
            `${visible(data.name)}: ${counted(data.operations, "operation")}, ${percent(data.missed, data.operations)} missed`);
        made.addEventListener("keydown", (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            this.go(target);
        });
    }

    /** Where a click on a tile goes: into the group itself, else into the group that holds the tile. */
    private target(node: Placed): Branch | null {
        let group = node.data.children.length > 0 ? node : node.parent;
        while (group?.data.joined) group = group.parent;
        return group && group.depth > 0 ? (group.data.enter ?? group.data.branch) : null;
    }

    private explain(data: Tile): Node[] {
        const { own } = data.branch;
        const entries: [string, string, string?][] = [
            ["operations", grouped(data.operations)],
            ["missed", `${grouped(data.missed)} (${percent(data.missed, data.operations)})`, "missed"],
        ];
        if (own && data.children.length === 0) {
            entries.push(["names asked for", grouped(own.names)], ["names absent", grouped(own.absent)]);
        }
        const path = el("p", { class: "path" }, visible(data.branch.path));
        return [path, tooltip.rows(entries)];
    }

    private drawCrumbs(): void {
        const crumb = (branch: Branch, above: Branch | undefined) => {
            const short = above && branch.path.startsWith(above.path)
                ? branch.path.slice(above.path.length).replace(/^\/+/, "") : branch.path;
            return visible(short);
        };
        const steps = [...this.trail, this.focus];
        this.crumbs.replaceChildren(
            ...steps.map((branch, at) => {
                const name = crumb(branch, steps[at - 1]);
                return branch === this.focus
                    ? el("b", { "aria-current": "true" }, name)
                    : button({}, () => this.go(branch), name);
            }),
            button({ class: "quiet" }, () => this.choose(this.focus.path), "List its paths"),
        );
    }
}

/** The map; `null` where no directory was asked. `choose` is told the directory whose paths are wanted. */
export function directoryMap(report: ReportView, choose: (path: string) => void): HTMLElement | null {
    return report.top_directories.length > 0 ? new DirectoryMap(report, choose).element : null;
}
