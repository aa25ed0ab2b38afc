// The spread of a range by its causes: for each figure of a profile, how far it alone moves the median.

import { scaleLog } from "d3-scale";
import type { Swing, Tornado } from "../../generated/prediction";
import { el, svg } from "../dom";
import { counted } from "../format";
import { lasting } from "./curves";

/** Figures that are shown; the others move less. */
const SHOWN = 10;

function bar(swing: Swing, tornado: Tornado, x: (time: number) => number): Element {
    const base = x(tornado.seconds);
    const half = (to: number, name: string) =>
        svg("rect", { class: name, x: Math.min(base, x(to)), width: Math.max(1, Math.abs(x(to) - base)), y: 1, height: 12 });
    return svg("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" },
        half(swing.at_p10, "at-p10"), half(swing.at_p90, "at-p90"),
        svg("rect", { class: "base", x: base - 1, width: 2, height: 14 }));
}

function tornado(one: Tornado): HTMLElement {
    const figures = one.figures.slice(0, SHOWN);
    const times = [one.seconds, ...figures.flatMap((swing) => [swing.at_p10, swing.at_p90])].filter((time) => time > 0);
    const x = scaleLog([Math.min(...times) / 1.02, Math.max(...times) * 1.02], [0, 1000]);
    const line = (swing: Swing) =>
        el("tr", {},
            el("th", { scope: "row" }, el("code", {}, swing.key)),
            el("td", {}, bar(swing, one, x)),
            el("td", {}, `${lasting(swing.at_p10)} to ${lasting(swing.at_p90)}`));
    const key = (name: string, words: string) => el("span", { class: "key-text" }, el("i", { class: name }), words);
    return el("figure", { class: "tornado" },
        el("h3", {}, `${one.name}, ${counted(one.nodes, "node")}`),
        el("p", { class: "legend" }, key("at-p10", "figure at its p10"), key("at-p90", "figure at its p90"),
            key("base", `all at their medians, ${lasting(one.seconds)}`)),
        el("table", {}, el("caption", { class: "unseen" }, `What spreads the range of ${one.name}`), el("tbody", {}, ...figures.map(line))));
}

/** One for each file system that has a spread. */
export function tornadoes(all: Tornado[]): HTMLElement[] {
    return all.filter((one) => one.figures.length > 0 && one.seconds > 0).map(tornado);
}
