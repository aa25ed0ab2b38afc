// Several tables in one place, one at a time.

import { button, el } from "./dom";
import { grouped } from "./format";
import type { Table } from "./table";

/** A table with what its tab says. */
export interface Tab {
    title: string;
    rows: number;
    table: Table | null;
}

/** The tabs that have a table; `null` where none has. */
export function tabs(name: string, all: Tab[]): { element: HTMLElement; open: (title: string) => Table | null } | null {
    const there = all.flatMap((tab) => (tab.table ? [{ ...tab, table: tab.table }] : []));
    if (there.length === 0) return null;
    const panel = el("div", { class: "panel" });
    const buttons = there.map((tab, at) =>
        button({ role: "tab" }, () => choose(at), tab.title, " ", el("span", {}, grouped(tab.rows))));
    const choose = (at: number) => {
        buttons.forEach((made, index) => {
            made.setAttribute("aria-selected", String(index === at));
            made.tabIndex = index === at ? 0 : -1;
        });
        const tab = there[at];
        if (tab) panel.replaceChildren(tab.table.element);
    };
    const list = el("div", { class: "tabs", role: "tablist", "aria-label": name }, ...buttons);
    list.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step === undefined) return;
        const now = buttons.findIndex((made) => made.getAttribute("aria-selected") === "true");
        const next = (now + step + buttons.length) % buttons.length;
        choose(next);
        buttons[next]?.focus();
    });
    choose(0);
    const open = (title: string) => {
        const at = there.findIndex((tab) => tab.title === title);
        if (at >= 0) choose(at);
        return there[at]?.table ?? null;
    };
    return { element: el("div", {}, list, panel), open };
}
