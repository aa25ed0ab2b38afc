// Seconds over nodes, both in logarithms: a line and a band for each file system, bounds, knees, bottlenecks, and what
// was measured.

import { scaleLog } from "d3-scale";
import { area, line } from "d3-shape";
import type { Curve, CurvePoint, MeasuredPoint } from "../../generated/prediction";
import { button, el, svg, whenResized } from "../dom";
import { counted, grouped, seconds } from "../format";
import * as tooltip from "../tooltip";

/** Room for the times of the vertical axis; `.curves` in `prediction.css` has the same. Unit: pixels. */
const GUTTER = 60;
/** Room for the second half of the last number of nodes; as in `prediction.css`. Unit: pixels. */
const EDGE = 24;
/** Room for the numbers of nodes. Unit: pixels. */
const FOOT = 40;
/** Room above, for the names of knees: two rows; more stand over the chart. Unit: pixels. */
const HEAD = 34;
/** Colours that there are; a further curve begins again. */
export const COLOURS = 6;
/** Names of bottlenecks are written where there are no more curves than these. */
const NAMED = 2;
/** A name needs so much room beside the next one. Unit: pixels. */
const APART = 96;
/** About the width of a character of a name. Unit: pixels. */
const CHARACTER = 7;
/** The height of a row of names. Unit: pixels. */
const ROW = 15;

type Scale = (value: number) => number;

class Curves {
    readonly element: HTMLElement;
    private readonly hidden = new Set<string>();
    private readonly nodes: number[];
    private width = 0;
    private at: number | null = null;
    private readonly plot = el("div", {
        class: "curves",
        tabindex: 0,
        role: "group",
        "aria-label": "Time by nodes. Left and right arrows move the cursor.",
    });
    private readonly cursor = el("div", { class: "cursor", hidden: true });
    private readonly spoken = el("p", { class: "unseen", "aria-live": "polite" });

    constructor(private readonly all: Curve[], private readonly measured: MeasuredPoint[]) {
        const counts = all.flatMap((curve) => curve.points.map((point) => point.nodes));
        this.nodes = [...new Set([...counts, ...measured.map((point) => point.nodes)])].sort((a, b) => a - b);
        this.element = el("figure", {}, el("div", { class: "tools" }, this.legend()), this.plot, this.spoken);
        this.listen();
        whenResized(this.plot, (width) => {
            this.width = width - GUTTER - EDGE;
            this.draw();
        });
    }

    private legend(): HTMLElement {
        const entry = (curve: Curve, at: number) => {
            const made = button({ class: "key", "aria-pressed": "true", title: curve.note ?? undefined }, () => {
                if (!this.hidden.delete(curve.name)) this.hidden.add(curve.name);
                made.setAttribute("aria-pressed", String(!this.hidden.has(curve.name)));
                this.draw();
            }, el("i", { class: `curve-${at % COLOURS}` }), curve.name, el("small", {}, curve.kind));
            return made;
        };
        const measured = this.measured.length > 0 &&
            el("span", { class: "key-text" }, el("i", { class: "measured-key" }), counted(this.measured.length, "measured point"));
        return el("div", { class: "legend", role: "group", "aria-label": "File systems shown" }, ...this.all.map(entry), measured);
    }

    private shown(): { curve: Curve; colour: number }[] {
        return this.all.map((curve, at) => ({ curve, colour: at % COLOURS })).filter(({ curve }) => !this.hidden.has(curve.name));
    }

    /** Both scales. The bounds may leave the picture: what is likely must fill it. */
    private scales(height: number): { x: ReturnType<typeof scaleLog<number>>; y: ReturnType<typeof scaleLog<number>> } {
        const points = this.shown().flatMap(({ curve }) => curve.points);
        const times = [
            ...points.flatMap((point) => [point.seconds.p10, point.seconds.p90]),
            ...this.measured.map((point) => point.seconds),
        ].filter((time) => time > 0);
        const [low, high] = [Math.min(...times, 1e9), Math.max(...times, 1e-9)];
        const [first, last] = [this.nodes[0] ?? 1, this.nodes[this.nodes.length - 1] ?? 1];
        const alone = first === last ? 2 : 1;
        const floor = low > high ? 0.1 : low / 1.25;
        const ceiling = low > high ? 10 : Math.max(high * 1.25, floor * 4);
        return {
            x: scaleLog([first / alone, last * alone], [0, this.width]),
            y: scaleLog([floor, ceiling], [HEAD + height, HEAD]),
        };
    }

    private draw(): void {
        if (this.width <= 0) return;
        const tall = Math.round(Math.min(440, Math.max(240, this.width * 0.5)));
        const { x, y } = this.scales(tall);
        const clip = svg("clipPath", { id: "inside" }, svg("rect", { y: HEAD, width: this.width, height: tall }));
        const shown = this.shown();
        const picture = svg("svg", { width: this.width, height: HEAD + tall + FOOT, "aria-hidden": "true" },
            clip,
            ...this.grid(x, y, tall),
            svg("g", { "clip-path": "url(#inside)", class: shown.length > NAMED ? "crowded" : undefined },
                ...shown.map(({ curve, colour }) => band(curve, colour, x, y)),
                ...shown.flatMap(({ curve, colour }) => lines(curve, colour, x, y))),
            ...this.knees(shown, x, tall),
            ...(shown.length <= NAMED ? shown.flatMap(({ curve, colour }) => this.bottlenecks(curve, colour, x, y)) : []),
            ...this.measured.map((point) => diamond(x(point.nodes), y(point.seconds))));
        this.plot.replaceChildren(picture, this.cursor);
        this.drawCursor();
    }

    private grid(x: ReturnType<typeof scaleLog<number>>, y: ReturnType<typeof scaleLog<number>>, height: number): Element[] {
        const across = roundTimes(y, y.domain(), 26).map((tick) => [
            svg("line", { x2: this.width, y1: y(tick), y2: y(tick), class: "grid" }),
            svg("text", { x: -8, y: y(tick) + 4, "text-anchor": "end", class: "tick" }, plain(tick)),
        ]);
        const down = thinned(this.nodes, x, 64).map((nodes) => [
            svg("line", { x1: x(nodes), x2: x(nodes), y1: HEAD + height, y2: HEAD + height + 5, class: "axis" }),
            svg("text", { ...this.centred(x(nodes), grouped(nodes)), y: HEAD + height + 19, class: "tick" }, grouped(nodes)),
        ]);
        return [
            ...across.flat(),
            svg("line", { x2: this.width, y1: HEAD + height, y2: HEAD + height, class: "axis" }),
            ...down.flat(),
            svg("text", { x: this.width, y: HEAD + height + 37, "text-anchor": "end", class: "tick" }, "nodes"),
        ];
    }

    /** The place of a label below `at`. One that would leave the page ends at the page's edge. */
    private centred(at: number, label: string): { x: number; "text-anchor": string } {
        const edge = this.width + EDGE;
        return at + (label.length * CHARACTER) / 2 > edge ? { x: edge, "text-anchor": "end" } : { x: at, "text-anchor": "middle" };
    }

    /** A line at each knee, and its name above, in the first row where there is room. */
    private knees(shown: { curve: Curve; colour: number }[], x: Scale, height: number): Element[] {
        const [first, last] = [this.nodes[0] ?? 1, this.nodes[this.nodes.length - 1] ?? 1];
        const there = shown.filter(({ curve }) => curve.knee != null && curve.knee >= first && curve.knee <= last);
        there.sort((a, b) => (a.curve.knee ?? 0) - (b.curve.knee ?? 0));
        const taken: [number, number][][] = [];
        return there.flatMap(({ curve, colour }) => {
            const at = x(curve.knee ?? 1);
            const name = `knee, ${counted(Math.round(curve.knee ?? 0), "node")}`;
            const room = name.length * CHARACTER;
            const end = at + room > this.width;
            const [from, to] = end ? [at - 5 - room, at] : [at, at + 5 + room];
            const free = (row: [number, number][] | undefined) => !row?.some(([a, b]) => from < b && a < to);
            let row = 0;
            while (!free(taken[row])) row += 1;
            (taken[row] ??= []).push([from, to]);
            const place = { x: at + (end ? -5 : 5), y: 12 + row * ROW, "text-anchor": end ? "end" : "start" };
            return [
                svg("line", { x1: at, x2: at, y1: 2 + row * ROW, y2: HEAD + height, class: `knee edge-${colour}` }),
                svg("text", { ...place, class: `name ink-${colour}` }, name),
            ];
        });
    }

    /** What takes most of the time, written below the middle of the stretch where it does, if there is room. */
    private bottlenecks(curve: Curve, colour: number, x: Scale, y: Scale): Element[] {
        const { points } = curve;
        const begins = points.map((_, at) => at).filter((at) => points[at]?.bottleneck !== points[at - 1]?.bottleneck);
        return begins.flatMap((first, index) => {
            const last = (begins[index + 1] ?? points.length) - 1;
            const [from, to] = [points[first], points[last]];
            const middle = points[Math.ceil((first + last) / 2)];
            if (!from || !to || !middle || (points.length > 1 && x(to.nodes) - x(from.nodes) < APART)) return [];
            const end = x(middle.nodes) + 10 + middle.bottleneck.length * CHARACTER > this.width + EDGE;
            const place = {
                x: x(middle.nodes) + (end ? -10 : 10), y: height(y)(middle.seconds.p50) + 18, "text-anchor": end ? "end" : "start",
            };
            return [svg("text", { ...place, class: `name ink-${colour}` }, middle.bottleneck)];
        });
    }

    private x(): Scale {
        return this.scales(1).x;
    }

    private drawCursor(): void {
        this.cursor.hidden = this.at === null;
        if (this.at === null) return tooltip.hide();
        this.cursor.style.left = `${GUTTER + this.x()(this.nodes[this.at] ?? 1)}px`;
    }

    /** What every curve says of a number of nodes. */
    private readout(nodes: number): [string, string, string?][] {
        const entries = this.shown().flatMap(({ curve, colour }): [string, string, string?][] => {
            const point = curve.points.find((point) => point.nodes === nodes);
            return point ? [[curve.name, said(point), String(colour)]] : [];
        });
        const measured = this.measured.filter((point) => point.nodes === nodes);
        return [...entries, ...measured.map((point): [string, string] => [`measured, ${point.ppn} a node`, lasting(point.seconds)])];
    }

    private point(at: number, event?: PointerEvent): void {
        this.at = Math.max(0, Math.min(this.nodes.length - 1, at));
        this.drawCursor();
        const nodes = this.nodes[this.at] ?? 1;
        const entries = this.readout(nodes);
        const box = this.plot.getBoundingClientRect();
        const left = event?.clientX ?? box.left + GUTTER + this.x()(nodes);
        tooltip.show(left, event?.clientY ?? box.top + 40, el("p", {}, counted(nodes, "node")), rows(entries));
        if (!event) this.spoken.textContent = `${counted(nodes, "node")}: ${entries.map(([name, value]) => `${name} ${value}`).join(", ")}`;
    }

    private nearest(left: number): number {
        const x = this.x();
        const distance = (at: number) => Math.abs(x(this.nodes[at] ?? 1) - left);
        return this.nodes.reduce((best, _, at) => (distance(at) < distance(best) ? at : best), 0);
    }

    private listen(): void {
        this.plot.addEventListener("pointermove", (event) =>
            this.point(this.nearest(event.clientX - this.plot.getBoundingClientRect().left - GUTTER), event));
        const leave = () => {
            this.at = null;
            this.drawCursor();
        };
        this.plot.addEventListener("pointerleave", leave);
        this.plot.addEventListener("blur", leave);
        this.plot.addEventListener("keydown", (event) => {
            const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (event.key === "Escape") return leave();
            if (step === undefined) return;
            event.preventDefault();
            this.point(this.at === null ? 0 : this.at + step);
        });
    }
}

/** Rows of a tooltip, with the colours of curves. */
function rows(entries: [string, string, string?][]): HTMLElement {
    const row = ([name, value, colour]: [string, string, string?]) =>
        el("tr", {}, el("th", { scope: "row" }, colour && el("i", { class: `curve-${colour}` }), name), el("td", {}, value));
    return el("table", {}, el("tbody", {}, ...entries.map(row)));
}

function said(point: CurvePoint): string {
    const { p10, p50, p90 } = point.seconds;
    const over = point.saturated ? "; over capacity" : "";
    return `${lasting(p50)}, ${lasting(p10)} to ${lasting(p90)}; ${point.bottleneck}${over}`;
}

/** Where a time is drawn. What takes no time at all lies below every picture. */
const height = (y: Scale) => (time: number) => y(Math.max(time, 1e-9));

/** The likely range of one curve. */
function band(curve: Curve, colour: number, x: Scale, y: Scale): Element {
    const [at, only] = [height(y), curve.points[0]];
    if (curve.points.length === 1 && only) {
        return svg("line", {
            class: `range-line edge-${colour}`, x1: x(only.nodes), x2: x(only.nodes), y1: at(only.seconds.p10), y2: at(only.seconds.p90),
        });
    }
    const shape = area<CurvePoint>().x((point) => x(point.nodes)).y0((point) => at(point.seconds.p10)).y1((point) => at(point.seconds.p90));
    return svg("path", { class: `band curve-${colour}`, d: shape(curve.points) });
}

/** Bounds, median and points of one curve. */
function lines(curve: Curve, colour: number, x: Scale, y: Scale): Element[] {
    const at = height(y);
    const through = (time: (point: CurvePoint) => number) =>
        line<CurvePoint>().x((point) => x(point.nodes)).y((point) => at(time(point)))(curve.points);
    return [
        svg("path", { class: `bound edge-${colour}`, d: through((point) => point.bounds.lower) }),
        svg("path", { class: `bound edge-${colour}`, d: through((point) => point.bounds.upper) }),
        svg("path", { class: `median edge-${colour}`, d: through((point) => point.seconds.p50) }),
        ...curve.points.map((point) => svg("circle", {
            class: point.saturated ? `over edge-${colour}` : `curve-${colour}`,
            cx: x(point.nodes), cy: at(point.seconds.p50), r: 3.5,
        })),
    ];
}

function diamond(x: number, y: number): Element {
    return svg("path", { class: "measured", d: `M${x},${y - 7}l6,7l-6,7l-6,-7z` });
}

/** Times that begin an interval of the axis: tens of seconds, minutes and hours, and then of days. Unit: seconds. */
const STEPS = [
    ...Array.from({ length: 11 }, (_, at) => 10 ** (at - 9)), 60, 600, 3600, 36_000,
    ...Array.from({ length: 6 }, (_, at) => 86_400 * 10 ** at),
];

/** Round times of the picture: as many of each interval as have room. Unit of `room`: pixels. */
function roundTimes(scale: Scale, [from, to]: number[], room: number): number[] {
    const apart = (times: number[]) =>
        times.every((time, at) => at === 0 || Math.abs(scale(time) - scale(times[at - 1] ?? time)) >= room);
    const steps = STEPS.reduce<number[]>((kept, step) => (apart([...kept.slice(-1), step]) ? [...kept, step] : kept), []);
    const between = (step: number, at: number) => {
        const end = steps[at + 1] ?? step * 10;
        const inner = (factors: number[]) => factors.map((factor) => step * factor).filter((time) => time < end);
        return [step, ...([[2, 5], [3]].map(inner).find((times) => apart([step, ...times, end])) ?? [])];
    };
    return steps.flatMap(between).filter((time) => time >= (from ?? 0) && time <= (to ?? Infinity));
}

/** Those of the numbers that have room, the last for certain. */
function thinned(numbers: number[], scale: Scale, room: number): number[] {
    const chosen: number[] = [];
    for (const number of [...numbers].reverse()) {
        const before = chosen[chosen.length - 1];
        if (before === undefined || Math.abs(scale(before) - scale(number)) >= room) chosen.push(number);
    }
    return chosen;
}

/** The least time that each unit shows, and how long the unit is, in seconds. From 1000 days on the label needs the room of the word. */
const UNITS = [[86_400_000, 86_400, "d"], [172_800, 86_400, "days"], [7200, 3600, "h"], [120, 60, "min"], [1, 1, "s"], [1e-3, 1e-3, "ms"]] as const;

/** A round time without needless digits. */
function plain(time: number): string {
    const [, length, unit] = UNITS.find(([from]) => time >= from) ?? [0, 1e-6, "us"];
    const value = Number((time / length).toPrecision(2));
    return `${value >= 1000 ? grouped(value) : value}\u202f${unit}`;
}

/** A time with three digits, or from two minutes on in minutes, hours and days. */
export function lasting(time: number): string {
    return time >= 120 ? plain(time) : seconds(time);
}

/** The chart. */
export function curves(all: Curve[], measured: MeasuredPoint[]): HTMLElement {
    return new Curves(all, measured).element;
}
