// Search lists as they are searched: one line an entry, in the order of the list, with what it cost and what it found.

import type { SearchEntry } from "../generated/report";
import { el } from "./dom";
import { counted, grouped, visible } from "./format";
import { bar, path } from "./table";

/** Lists shown, and entries of each: the tables below have all. */
const LISTS = 6;
const ENTRIES = 12;

export const KINDS: Record<string, string> = {
    loader: "dynamic loader",
    path: "PATH",
    python: "Python",
    julia: "Julia",
    perl: "Perl",
    r: "R",
    lua: "Lua",
    modules: "module trees",
};

interface List {
    kind: string;
    origin: string;
    entries: SearchEntry[];
    missed: number;
}

function lists(entries: SearchEntry[]): List[] {
    const found = new Map<string, List>();
    for (const entry of entries) {
        const key = `${entry.kind}\u0000${entry.origin}`;
        const list = found.get(key) ?? { kind: entry.kind, origin: entry.origin, entries: [], missed: 0 };
        list.entries.push(entry);
        list.missed += entry.missed;
        found.set(key, list);
    }
    const all = [...found.values()].filter((list) => list.missed > 0);
    all.forEach((list) => list.entries.sort((a, b) => a.position - b.position || b.missed - a.missed));
    return all.sort((a, b) => b.missed - a.missed);
}

function ladder(list: List, longest: number): HTMLElement {
    const rung = (entry: SearchEntry) => {
        const found = entry.hits > 0 ? `${grouped(entry.hits)} found` : "nothing found";
        return el("li", { class: entry.hits === 0 ? "vain" : null, value: entry.position + 1 },
            path(entry.directory), bar(entry.probes, entry.missed, longest),
            el("span", { class: "cost" }, `${grouped(entry.missed)} missed, ${found}`));
    };
    const more = list.entries.length - ENTRIES;
    return el("article", { class: "ladder" },
        el("h3", {}, KINDS[list.kind] ?? list.kind, " ", el("span", {}, visible(list.origin))),
        el("p", {}, `${grouped(list.missed)} missed in ${counted(list.entries.length, "directory", "directories")}`),
        el("ol", {}, ...list.entries.slice(0, ENTRIES).map(rung)),
        more > 0 && el("p", { class: "note" }, `and ${grouped(more)} more, in the table below`));
}

/** The lists with most misses; `null` where none missed. */
export function ladders(entries: SearchEntry[]): HTMLElement | null {
    const shown = lists(entries).slice(0, LISTS);
    if (shown.length === 0) return null;
    const longest = Math.max(...shown.flatMap((list) => list.entries.map((entry) => entry.probes)));
    return el("div", { class: "ladders" }, ...shown.map((list) => ladder(list, longest)));
}
