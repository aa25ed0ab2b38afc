// Fills the page of a prediction: the curve over nodes and what spreads it, from the object inside.

import type { PredictionPage } from "../../generated/prediction";
import { makeCommandsCopyable, save } from "../copy";
import { button, el } from "../dom";
import { themeButton } from "../theme";
import { curves } from "./curves";
import { tornadoes } from "./tornado";

const read = (id: string): string => document.getElementById(id)?.textContent ?? "";
const page = JSON.parse(read("page")) as PredictionPage;

/** Links to the sections that are there. */
function navigation(): void {
    const nav = document.querySelector("header nav");
    const titled = document.querySelectorAll<HTMLElement>("main section[id]");
    const link = (section: HTMLElement) =>
        el("a", { href: `#${section.id}` }, section.querySelector("h2[id]")?.textContent ?? "");
    nav?.append(...[...titled].filter((section) => section.id !== "prediction").map(link));
    nav?.after(themeButton());
}

const section = (id: string, title: string, lead: string, ...content: HTMLElement[]): HTMLElement =>
    el("section", { id, "aria-labelledby": `${id}-title` },
        el("h2", { id: `${id}-title` }, title), el("p", { class: "lead" }, lead), ...content);

const chart = curves(page.curves, page.measured);
const swings = tornadoes(page.tornadoes);
document.getElementById("charts")?.append(
    section("curve", "Time by nodes",
        `Line: the median. Band: four chances in five. Dots: ${page.bounds}.`, chart),
    ...(swings.length > 0
        ? [section("tornado", "What spreads the range",
            "The median with one figure at its p10, then at its p90, and all others at their medians.", ...swings)]
        : []),
);
makeCommandsCopyable();
navigation();
document.querySelector("footer")?.append(
    button({ class: "quiet" }, () => save("prediction.json", "application/json", read("report")), "Save the numbers as JSON"),
);
