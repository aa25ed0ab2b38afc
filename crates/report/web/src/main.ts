// Fills the page that quell has written: charts and tables from the numbers inside it.

import type { ReportView } from "../generated/report";
import { makeCommandsCopyable, save } from "./copy";
import { button, el } from "./dom";
import { sections } from "./sections";
import { themeButton } from "./theme";

const numbers = document.getElementById("report")?.textContent ?? "";
const report = JSON.parse(numbers) as ReportView;

/** Links to the sections that are there. */
function navigation(): void {
    const nav = document.querySelector("header nav");
    const titled = document.querySelectorAll<HTMLElement>("main section[id]");
    const link = (section: HTMLElement) =>
        el("a", { href: `#${section.id}` }, section.querySelector("h2[id]")?.textContent ?? "");
    nav?.append(...[...titled].filter((section) => section.id !== "storm").map(link));
    nav?.after(themeButton());
}

document.getElementById("charts")?.append(...sections(report));
makeCommandsCopyable();
navigation();
document.querySelector("footer")?.append(
    button({ class: "quiet" }, () => save("report.json", "application/json", numbers), "Save the numbers as JSON"),
);
