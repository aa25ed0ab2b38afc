// Phases: how the time and the operations of the run are divided, and the rate of each, because a storm is a rate.

import type { Phase } from "../generated/report";
import { el, svg } from "./dom";
import { grouped, percent, rate, seconds } from "./format";

const NAMES: Record<string, string> = {
    loader: "loader",
    initialisation: "initialisation",
    "mpi-init": "MPI_Init",
    steady: "steady state",
};

/** One bar divided among the phases. */
function divided(title: string, phases: Phase[], of: (phase: Phase) => number): HTMLElement {
    const all = phases.reduce((sum, phase) => sum + of(phase), 0) || 1;
    let at = 0;
    const pieces = phases.map((phase) => {
        const width = (of(phase) / all) * 1000;
        const piece = svg("rect", { x: at, width, height: 10, class: `phase-${phase.name}` });
        at += width;
        return piece;
    });
    return el("div", { class: "divided" }, el("span", {}, title),
        svg("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" }, ...pieces));
}

/** The phases; `null` where none is known. */
export function phases(all: Phase[]): HTMLElement | null {
    if (all.length === 0) return null;
    const highest = Math.max(...all.map((phase) => phase.metadata_operations_per_second ?? 0), 1);
    const row = (phase: Phase) => {
        const meter = el("i", { class: `phase-${phase.name}` });
        const perSecond = phase.metadata_operations_per_second ?? 0;
        meter.style.width = `${(perSecond / highest) * 100}%`;
        return el("tr", {},
            el("th", { scope: "row" }, el("i", { class: `phase-${phase.name}` }), NAMES[phase.name] ?? phase.name),
            el("td", { class: "cell-number" }, seconds(phase.seconds)),
            el("td", { class: "cell-number" }, grouped(phase.metadata_operations)),
            el("td", { class: "cell-number" }, percent(phase.missed, phase.metadata_operations)),
            el("td", { class: "cell-number" }, perSecond > 0 ? rate(perSecond) : ""),
            el("td", { class: "meter" }, meter));
    };
    const titles = ["phase", "time", "operations", "missed", "a second"];
    const head = titles.map((title, at) => el("th", { scope: "col", class: at === 0 ? "cell-text" : "cell-number" }, title));
    return el("div", { class: "phases" },
        divided("time", all, (phase) => phase.seconds),
        divided("operations", all, (phase) => phase.metadata_operations),
        el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Phases" },
            el("table", {}, el("caption", { class: "unseen" }, "Phases"),
                el("thead", {}, el("tr", {}, ...head, el("td"))), el("tbody", {}, ...all.map(row)))));
}
