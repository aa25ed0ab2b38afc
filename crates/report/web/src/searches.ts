// Search lists as they are searched: one line an entry, in the order of the list, with what it cost and what it found.

import type { SearchEntry } from "../generated/report";
import { el } from "./dom";
import { counted, grouped, visible } from "./format";
import { bar, path } from "./table";

/** Lists shown, and entries of each: the tables below have all. */
const LISTS = 6;
const ENTRIES = 10;

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
    entries: SearchEntry[];
    missed: number;
}

/** One list a kind of search; most misses first. */
function lists(entries: SearchEntry[]): List[] {
    const kinds = [...new Set(entries.map((entry) => entry.kind))];
    const all = kinds.map((kind) => {
        const own = entries.filter((entry) => entry.kind === kind);
        return { kind, entries: own, missed: own.reduce((sum, entry) => sum + entry.missed, 0) };
    });
    return all.filter((list) => list.missed > 0).sort((a, b) => b.missed - a.missed);
}

/** The dearest entries, in the order in which they are searched. */
function shown(list: List): SearchEntry[] {
    const dearest = [...list.entries].sort((a, b) => b.missed - a.missed || b.probes - a.probes).slice(0, ENTRIES);
    return dearest.sort((a, b) => a.position - b.position || b.missed - a.missed);
}

function rung(entry: SearchEntry, kind: string, longest: number): HTMLElement {
    const found = entry.hits > 0 ? `${grouped(entry.hits)} found` : "none found";
    return el("li", { class: entry.hits === 0 ? "vain" : null, value: entry.position + 1 },
        path(entry.directory),
        entry.origin !== kind && el("span", { class: "origin" }, visible(entry.origin)),
        el("div", {}, bar(entry.probes, entry.missed, longest),
            el("span", { class: "cost" }, `${grouped(entry.missed)} missed, ${found}`)));
}

function ladder(list: List, longest: number): HTMLElement {
    const kind = KINDS[list.kind] ?? list.kind;
    const more = list.entries.length - ENTRIES;
    const among = counted(list.entries.length, "directory", "directories");
    return el("article", { class: "ladder" },
        el("h3", {}, kind),
        el("p", {}, `${grouped(list.missed)} missed in ${among}`),
        el("ol", {}, ...shown(list).map((entry) => rung(entry, kind, longest))),
        more > 0 && el("p", { class: "note" }, `and ${grouped(more)} more, in the table below`));
}

/** The lists with most misses; `null` where none missed. */
export function ladders(entries: SearchEntry[]): HTMLElement | null {
    const all = lists(entries).slice(0, LISTS);
    const longest = Math.max(...all.flatMap((list) => list.entries.map((entry) => entry.probes)));
    return all.length > 0 ? el("div", { class: "ladders" }, ...all.map((list) => ladder(list, longest))) : null;
}
