// Operations over time: all of them by what became of them, the same for each class below, and files open; on one
// axis of time, with one cursor.

import { max } from "d3-array";
import { scaleLinear } from "d3-scale";
import { area, curveStepAfter, stack } from "d3-shape";
import type { Activity, OpenFiles, ReportView, Series } from "../generated/report";
import { button, el, svg, whenResized } from "./dom";
import { grouped, percent, rate, seconds, short } from "./format";
import { MEANING, PARTS, type Part } from "./parts";
import * as tooltip from "./tooltip";

/** The narrowest column that is drawn. Unit: pixels. */
const COLUMN = 3;
/** Room for the numbers of the vertical axis, left of every band; `.plot` in `charts.css` has the same. Unit: pixels. */
const GUTTER = 44;
const MAIN_HEIGHT = 220;
/** Of the class with the highest peak; the others are drawn to the same scale. */
const STRIP_HEIGHT = 48;
const LOWEST_STRIP = 8;
const OPEN_HEIGHT = 72;
/** A drag shorter than this is a click. Unit: pixels. */
const DRAG = 6;
/** Below this share of the run, the start-up is what is shown first. */
const SHORT_START = 0.25;

type Counts = Record<Part, number[]>;

/** A band of the chart: a name and its counts by part. */
interface Band {
    name: string;
    counts: Counts;
    totals: Record<Part, number>;
    operations: number;
}

/** The columns that are drawn: so many intervals each, from the first of the view. */
interface Columns {
    first: number;
    each: number;
    count: number;
}

const byPart = <T>(make: (part: Part) => T): Record<Part, T> =>
    Object.fromEntries(PARTS.map((part) => [part, make(part)])) as Record<Part, T>;

const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);

function band(name: string, series: Series[], length: number): Band {
    const counts = byPart((part) => {
        const all = new Array<number>(length).fill(0);
        for (const one of series.filter((one) => one.part === part)) {
            one.operations.forEach((count, at) => (all[at] = (all[at] ?? 0) + count));
        }
        return all;
    });
    const totals = byPart((part) => sum(counts[part]));
    return { name, counts, totals, operations: sum(Object.values(totals)) };
}

/** All operations first, then each class, most operations first. */
function bands(activity: Activity): Band[] {
    const length = max(activity.series, (one) => one.operations.length) ?? 0;
    const classes = [...new Set(activity.series.map((one) => one.class))];
    const each = classes.map((name) => band(name, activity.series.filter((one) => one.class === name), length));
    each.sort((a, b) => b.operations - a.operations);
    return [band("all", activity.series, length), ...each];
}

class Timeline {
    readonly element: HTMLElement;
    private readonly bands: Band[];
    private readonly interval: number;
    private readonly open: OpenFiles | null;
    private readonly end: number;
    private readonly hidden = new Set<Part>();
    private view: [number, number];
    private width = 0;
    private columns: Columns = { first: 0, each: 1, count: 1 };
    private readonly plot = el("div", {
        class: "plot",
        tabindex: 0,
        role: "group",
        "aria-label": "Operations over time. Left and right arrows move the cursor, Escape shows the whole run.",
    });
    private readonly cursor = el("div", { class: "cursor", hidden: true });
    private readonly selection = el("div", { class: "selection", hidden: true });
    private readonly spoken = el("p", { class: "unseen", "aria-live": "polite" });
    private readonly views = el("div", { class: "switch", role: "group", "aria-label": "Part of the run" });
    private at: number | null = null;

    constructor(private readonly report: ReportView) {
        const { activity, open_files } = report;
        this.bands = bands(activity);
        this.interval = activity.interval_seconds;
        this.open = open_files.most.length > 0 ? open_files : null;
        const length = (this.bands[0]?.counts.missed.length ?? 0) * this.interval;
        this.end = Math.max(length, this.open ? this.open.most.length * this.open.interval_seconds : 0);
        const start = report.start_up?.seconds ?? this.end;
        this.view = [0, start < this.end * SHORT_START ? this.startEnd() : this.end];
        this.element = el("figure", { class: "timeline" },
            el("div", { class: "tools" }, this.legend(), this.views), this.plot, this.spoken);
        this.listen();
        whenResized(this.plot, (width) => {
            this.width = width - GUTTER;
            this.draw();
        });
    }

    /** A little more than the start-up, so that its end is seen. */
    private startEnd(): number {
        return Math.min(this.end, (this.report.start_up?.seconds ?? this.end) * 1.1);
    }

    private legend(): HTMLElement {
        const totals = this.bands[0]?.totals;
        const entry = (part: Part) => {
            const made = button({ class: "key", "aria-pressed": "true", title: MEANING[part] }, () => {
                if (!this.hidden.delete(part)) this.hidden.add(part);
                made.setAttribute("aria-pressed", String(!this.hidden.has(part)));
                this.draw();
            }, el("i", { class: `part-${part}` }), part, " ", el("b", {}, grouped(totals?.[part] ?? 0)));
            return made;
        };
        const there = PARTS.filter((part) => (totals?.[part] ?? 0) > 0);
        return el("div", { class: "legend", role: "group", "aria-label": "Parts shown" }, ...there.map(entry));
    }

    private drawViews(): void {
        const whole = this.view[0] === 0 && this.view[1] === this.end;
        const start = this.view[0] === 0 && this.view[1] === this.startEnd();
        const view = (name: string, on: boolean, to: [number, number]) =>
            button({ "aria-pressed": String(on) }, () => this.show(to), name);
        this.views.replaceChildren(
            ...(this.startEnd() < this.end * 0.8 ? [view("Start-up", start && !whole, [0, this.startEnd()])] : []),
            view("Whole run", whole, [0, this.end]),
            ...(whole || start ? [] : [el("span", { class: "range" }, this.range(...this.view))]),
        );
        const focused = this.views.contains(document.activeElement);
        this.views.hidden = this.views.childElementCount < 2 && !focused;
    }

    private show(view: [number, number]): void {
        this.view = view;
        this.at = null;
        this.draw();
    }

    private x() {
        return scaleLinear([...this.view], [0, this.width]);
    }

    private draw(): void {
        if (this.width === 0) return;
        const first = Math.floor(this.view[0] / this.interval + 1e-9);
        const intervals = Math.max(1, Math.ceil(this.view[1] / this.interval - 1e-9) - first);
        const each = Math.max(1, Math.ceil((intervals * COLUMN) / this.width));
        this.columns = { first, each, count: Math.ceil(intervals / each) };
        const [all, ...classes] = this.bands;
        const strips = classes.length > 1 ? this.strips(classes) : [];
        this.plot.replaceChildren(
            ...(all ? [this.main(all)] : []),
            this.axis(),
            ...(strips.length > 0 ? [el("div", { class: "strips" }, ...strips)] : []),
            ...(this.open ? [this.openFiles(this.open)] : []),
            this.cursor,
            this.selection,
        );
        this.drawViews();
        this.drawCursor();
    }

    /** Counts of a part in the columns of the view. */
    private rebinned(counts: number[]): number[] {
        const { first, each, count } = this.columns;
        return Array.from({ length: count }, (_, column) =>
            sum(counts.slice(first + column * each, first + (column + 1) * each)));
    }

    /** The layers of a band, and the height of its highest column in operations a second. */
    private layers(one: Band) {
        const shown = PARTS.filter((part) => !this.hidden.has(part) && one.totals[part] > 0);
        const perSecond = 1 / (this.columns.each * this.interval);
        const counts = byPart((part) => (shown.includes(part) ? this.rebinned(one.counts[part]) : []));
        const rows = Array.from({ length: this.columns.count }, (_, at) =>
            byPart((part) => (counts[part][at] ?? 0) * perSecond));
        const layers = stack<unknown, Record<Part, number>, Part>().keys(shown)(rows);
        return { layers, highest: max(layers, (layer) => max(layer, (point) => point[1])) ?? 0 };
    }

    private paths(one: Band, layers: ReturnType<Timeline["layers"]>["layers"], y: (value: number) => number) {
        const x = this.x();
        const edge = (at: number) => x((this.columns.first + at * this.columns.each) * this.interval);
        return layers.map((layer) => {
            // A column ends where the next begins, so the last needs an end of its own.
            const points = [...layer.map((point) => [point[0], point[1]] as const)];
            points.push(points[points.length - 1] ?? [0, 0]);
            const shape = area<readonly [number, number]>()
                .x((_, at) => edge(at))
                .y0((point) => y(point[0]))
                .y1((point) => y(point[1]))
                .curve(curveStepAfter);
            return svg("path", { class: `part-${layer.key}`, d: shape(points), "data-band": one.name });
        });
    }

    private main(all: Band): Element {
        const { layers, highest } = this.layers(all);
        const y = scaleLinear([0, highest || 1], [MAIN_HEIGHT, 12]).nice(4);
        const lines = y.ticks(4).filter((tick) => tick > 0).map((tick) => {
            const label = svg("text", { x: -8, y: y(tick) + 4, "text-anchor": "end", class: "tick" }, short(tick));
            return svg("g", {}, svg("line", { x2: this.width, y1: y(tick), y2: y(tick), class: "grid" }), label);
        });
        return el("div", { class: "band main" },
            el("p", { class: "band-title" }, el("b", {}, "metadata operations a second")),
            svg("svg", { width: this.width, height: MAIN_HEIGHT, "aria-hidden": "true" },
                ...lines.map((line) => line.firstChild), ...this.paths(all, layers, y),
                ...lines.map((line) => line.lastChild)));
    }

    /** One band a class, all to one scale, so that areas can be compared. */
    private strips(classes: Band[]): Element[] {
        const all = classes.map((one) => ({ one, ...this.layers(one) }));
        const highest = max(all, (strip) => strip.highest) || 1;
        return all.map(({ one, layers, highest: own }) => {
            const height = Math.max(LOWEST_STRIP, Math.ceil((own / highest) * STRIP_HEIGHT));
            const y = scaleLinear([0, highest], [height, height - STRIP_HEIGHT]);
            const missed = one.totals.missed > 0 ? `, ${percent(one.totals.missed, one.operations)} missed` : "";
            return el("div", { class: "band strip" },
                el("p", { class: "band-title" }, el("b", {}, one.name), ` ${grouped(one.operations)}${missed}`),
                svg("svg", { width: this.width, height, "aria-hidden": "true" }, ...this.paths(one, layers, y)));
        });
    }

    private axis(): Element {
        const x = this.x();
        const unit = this.view[1] < 1 ? { name: "ms", scale: 1e3 } : { name: "s", scale: 1 };
        const ticks = x.ticks(Math.max(2, Math.floor(this.width / 110)));
        const label = (tick: number) => {
            const anchor = x(tick) > this.width - 30 ? "end" : "middle";
            const text = `${Number((tick * unit.scale).toPrecision(6))}\u202f${unit.name}`;
            return svg("text", { x: x(tick), y: 16, "text-anchor": anchor, class: "tick" }, text);
        };
        const mark = (tick: number) => svg("line", { x1: x(tick), x2: x(tick), y2: 4, class: "axis" });
        return svg("svg", { width: this.width, height: 22, class: "time-axis", "aria-hidden": "true" },
            svg("line", { x2: this.width, class: "axis" }), ...ticks.map(mark), ...ticks.map(label));
    }

    private openFiles(open: OpenFiles): Element {
        const x = this.x();
        const interval = open.interval_seconds;
        const from = Math.max(0, Math.floor(this.view[0] / interval));
        const shown = open.most.slice(from, Math.ceil(this.view[1] / interval) + 1);
        const highest = max(shown) ?? 0;
        const y = scaleLinear([0, highest || 1], [OPEN_HEIGHT, 6]);
        const shape = area<number>().x((_, at) => x((from + at) * interval)).y0(OPEN_HEIGHT).y1(y).curve(curveStepAfter);
        return el("div", { class: "band open" },
            el("p", { class: "band-title" }, el("b", {}, "files open"), ` at most ${grouped(highest)} at a time`),
            svg("svg", { width: this.width, height: OPEN_HEIGHT, "aria-hidden": "true" },
                svg("path", { class: "open-files", d: shape([...shown, shown[shown.length - 1] ?? 0]) })));
    }

    private range(from: number, to: number): string {
        return `${seconds(from)} to ${seconds(Math.min(to, this.end))}`;
    }

    /** The times of a column. */
    private span(column: number): [number, number] {
        const { first, each } = this.columns;
        return [(first + column * each) * this.interval, (first + (column + 1) * each) * this.interval];
    }

    private drawCursor(): void {
        this.cursor.hidden = this.at === null;
        if (this.at === null) return tooltip.hide();
        const [from, to] = this.span(this.at);
        this.cursor.style.left = `${GUTTER + this.x()(from)}px`;
        this.cursor.style.width = `${Math.max(1, this.x()(to) - this.x()(from))}px`;
    }

    /** What the columns under the cursor hold. */
    private readout(): [string, string, string?][] {
        const at = this.at ?? 0;
        const all = this.bands[0];
        if (!all) return [];
        const there = PARTS.filter((part) => all.totals[part] > 0 && !this.hidden.has(part));
        const count = (part: Part) => this.rebinned(all.counts[part])[at] ?? 0;
        const entries = there.map((part): [string, string, string?] => [part, grouped(count(part)), part]);
        const [from, to] = this.span(at);
        const total = sum(there.map(count));
        entries.push(["together", grouped(total)], ["a second", rate(total / (to - from))]);
        if (this.open) {
            const { most, interval_seconds } = this.open;
            const open = most.slice(Math.floor(from / interval_seconds), Math.ceil(to / interval_seconds));
            entries.push(["files open", grouped(max(open) ?? 0)]);
        }
        return entries;
    }

    private point(column: number, event?: PointerEvent): void {
        this.at = Math.max(0, Math.min(this.columns.count - 1, column));
        this.drawCursor();
        const title = this.range(...this.span(this.at));
        const readout = this.readout();
        const box = this.plot.getBoundingClientRect();
        const left = event?.clientX ?? box.left + GUTTER + this.x()(this.span(this.at)[1]);
        tooltip.show(left, event?.clientY ?? box.top + 20, el("p", {}, title), tooltip.rows(readout));
        if (!event) this.spoken.textContent = `${title}: ${readout.map(([name, value]) => `${name} ${value}`).join(", ")}`;
    }

    private listen(): void {
        const offset = (event: PointerEvent) => event.clientX - this.plot.getBoundingClientRect().left - GUTTER;
        const time = (pixels: number) => this.x().invert(Math.max(0, Math.min(this.width, pixels)));
        let from: number | null = null;
        this.plot.addEventListener("pointerdown", (event) => {
            if (event.button === 0 && event.pointerType !== "touch") from = offset(event);
        });
        this.plot.addEventListener("pointermove", (event) => {
            const to = offset(event);
            const { first, each } = this.columns;
            this.point(Math.floor((time(to) / this.interval - first) / each), event);
            this.selection.hidden = from === null || Math.abs(to - from) < DRAG;
            if (from !== null && !this.selection.hidden) {
                this.selection.style.left = `${GUTTER + Math.min(from, to)}px`;
                this.selection.style.width = `${Math.abs(to - from)}px`;
            }
        });
        const finish = (event: PointerEvent) => {
            const to = offset(event);
            if (from !== null && Math.abs(to - from) >= DRAG) this.zoom(time(Math.min(from, to)), time(Math.max(from, to)));
            from = null;
            this.selection.hidden = true;
        };
        window.addEventListener("pointerup", (event) => from !== null && finish(event));
        this.plot.addEventListener("pointerleave", () => {
            this.at = null;
            this.drawCursor();
        });
        this.plot.addEventListener("dblclick", () => this.show([0, this.end]));
        this.plot.addEventListener("keydown", (event) => this.key(event));
        this.plot.addEventListener("blur", () => {
            this.at = null;
            this.drawCursor();
        });
    }

    private key(event: KeyboardEvent): void {
        const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
        if (event.key === "Escape") return this.show([0, this.end]);
        if (step === undefined) return;
        event.preventDefault();
        this.point((this.at ?? -1) + step);
    }

    /** Shows whole intervals only: nothing finer is known. */
    private zoom(from: number, to: number): void {
        const begin = Math.floor(from / this.interval) * this.interval;
        const end = Math.min(this.end, Math.ceil(to / this.interval) * this.interval);
        if (end - begin >= this.interval) this.show([begin, end]);
    }
}

/** The chart; `null` where nothing was asked. */
export function timeline(report: ReportView): HTMLElement | null {
    const asked = report.activity.series.some((one) => one.operations.some((count) => count > 0));
    return asked || report.open_files.most.length > 0 ? new Timeline(report).element : null;
}
