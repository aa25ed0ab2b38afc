// The one tooltip of the page, beside the pointer and inside the window.

import { el, type Child } from "./dom";

const GAP = 14;
const box = el("div", { class: "tooltip", hidden: true });

/** Shows content beside a point of the window. */
export function show(x: number, y: number, ...content: Child[]): void {
    if (!box.isConnected) document.body.append(box);
    box.replaceChildren(...content.filter((child): child is Node | string => Boolean(child)));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const right = x + GAP + width <= window.innerWidth - GAP;
    const below = y + GAP + height <= window.innerHeight - GAP;
    box.style.left = `${Math.max(GAP / 2, right ? x + GAP : x - GAP - width)}px`;
    box.style.top = `${Math.max(GAP / 2, below ? y + GAP : y - GAP - height)}px`;
}

export function hide(): void {
    box.hidden = true;
}

/** Rows of a name and a value, with a key of colour where there is one. */
export function rows(entries: [string, string, string?][]): HTMLElement {
    const row = ([name, value, part]: [string, string, string?]) =>
        el("tr", {}, el("th", { scope: "row" }, part && el("i", { class: `part-${part}` }), name), el("td", {}, value));
    return el("table", {}, el("tbody", {}, ...entries.map(row)));
}

document.addEventListener("scroll", hide, { passive: true });
document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
