// Tables that sort by a click on a title, filter by words, and give themselves away as CSV.

import { button, el, type Child } from "./dom";
import { copyButton, csv } from "./copy";
import { bytes, grouped, seconds, visible } from "./format";

/** Rows that are shown before a reader asks for all. */
const FIRST = 12;

type Value = number | string | null;

/** A column of rows `R`. */
export interface Column<R> {
    title: string;
    /** How the value looks and sorts; numbers are to the right, and their first click puts the largest first. */
    kind: "number" | "bytes" | "seconds" | "text" | "path" | "bar";
    value: (row: R) => Value;
    /** Content where the value alone is not enough. */
    show?: (row: R) => Child;
    /** What it means, where the title is short. */
    help?: string;
}

/** A table and the way to set its filter. */
export interface Table {
    element: HTMLElement;
    filter: (words: string) => void;
}

const isNumber = (kind: Column<unknown>["kind"]): boolean => kind !== "text" && kind !== "path";

function cell<R>(column: Column<R>, row: R): HTMLElement {
    const value = column.value(row);
    const content = column.show ? column.show(row) : written(column.kind, value);
    const text = typeof content === "string" && content.length > 60 ? content : undefined;
    return el("td", { class: `cell-${column.kind}`, title: text }, content);
}

function written(kind: Column<unknown>["kind"], value: Value): Child {
    if (value === null || (value === 0 && kind !== "text")) return "";
    if (typeof value === "string") return kind === "path" ? path(value) : visible(value);
    if (kind === "bytes") return bytes(value);
    return kind === "seconds" ? seconds(value) : grouped(value);
}

/** A path with its last component set off; the whole of a very long one on request. */
export function path(raw: string): HTMLElement {
    const text = visible(raw);
    const slash = text.lastIndexOf("/", text.length - 2) + 1;
    const made = el("bdi", { class: "path", dir: "ltr" }, el("span", {}, ...breakable(text.slice(0, slash))), text.slice(slash));
    if (text.length > 160) {
        made.classList.add("long");
        made.title = "Show all of it";
        made.addEventListener("click", () => made.classList.toggle("long"));
    }
    return made;
}

/** Directories between which a line may break. */
function breakable(text: string): Child[] {
    return text.split(/(?<=\/)/).flatMap((name) => [name, el("wbr")]);
}

/** How much of the longest: misses in their colour, what was found in its own. */
export function bar(operations: number, missed: number, longest: number): HTMLElement {
    const part = (name: string, share: number) => {
        const made = el("i", { class: `part-${name}` });
        made.style.width = `${share * 100}%`;
        return made;
    };
    const of = Math.max(longest, 1);
    return el("span", { class: "mix", "aria-hidden": "true" },
        part("missed", missed / of), part("needed", (operations - missed) / of));
}

class SortedTable<R> implements Table {
    readonly element: HTMLElement;
    private readonly cells = new Map<R, HTMLElement>();
    private readonly texts: Map<R, string>;
    private readonly head = el("tr");
    private readonly body = el("tbody");
    private readonly count = el("output", { class: "count" });
    private readonly search: HTMLInputElement;
    private readonly more: HTMLButtonElement;
    private readonly scroll: HTMLElement;
    private sorted: { column: number; direction: 1 | -1 } | null = null;
    private all = false;

    constructor(name: string, private readonly columns: Column<R>[], private readonly rows: R[]) {
        const words = (row: R) => columns.filter((column) => !isNumber(column.kind))
            .map((column) => String(column.value(row) ?? "")).join(" ").toLowerCase();
        this.texts = new Map(rows.map((row) => [row, words(row)]));
        this.search = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, spellcheck: "false" });
        this.search.addEventListener("input", () => this.draw());
        this.more = button({ class: "more" }, () => {
            this.all = !this.all;
            this.draw();
        });
        this.scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
            el("table", {}, el("caption", { class: "unseen" }, name), el("thead", {}, this.head), this.body));
        const tools = el("div", { class: "tools" }, this.search, this.count,
            copyButton("Copy as CSV", () => this.csv(), `Copy ${name} as CSV`));
        this.element = el("div", { class: "sorted" }, rows.length > 3 && tools, this.scroll, this.more);
        this.drawHead();
        this.draw();
    }

    filter(words: string): void {
        this.search.value = words;
        this.draw();
    }

    private chosen(): R[] {
        const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
        const matches = (row: R) => words.every((word) => this.texts.get(row)?.includes(word));
        const chosen = words.length === 0 ? [...this.rows] : this.rows.filter(matches);
        const column = this.sorted && this.columns[this.sorted.column];
        if (!this.sorted || !column) return chosen;
        const { direction } = this.sorted;
        return chosen.sort((a, b) => compare(column.value(a), column.value(b), direction));
    }

    private drawHead(): void {
        this.head.replaceChildren(...this.columns.map((column, at) => {
            const here = this.sorted?.column === at ? this.sorted.direction : null;
            const sort = here === null ? "none" : here === 1 ? "ascending" : "descending";
            return el("th", { scope: "col", class: `cell-${column.kind}`, "aria-sort": sort },
                button({ title: column.help }, () => this.sortBy(at), column.title));
        }));
    }

    private sortBy(at: number): void {
        const first = isNumber(this.columns[at]?.kind ?? "text") ? -1 : 1;
        const again = this.sorted?.column === at ? this.sorted.direction : null;
        this.sorted = { column: at, direction: again === null ? first : again === 1 ? -1 : 1 };
        this.drawHead();
        this.head.querySelectorAll("button")[at]?.focus();
        this.draw();
    }

    private draw(): void {
        const chosen = this.chosen();
        const shown = this.all ? chosen : chosen.slice(0, FIRST);
        this.body.replaceChildren(...shown.map((row) => this.line(row)));
        if (shown.length === 0) {
            this.body.append(el("tr", {}, el("td", { colspan: this.columns.length, class: "cell-none" }, "Nothing matches.")));
        }
        const of = grouped(this.rows.length);
        this.count.textContent = chosen.length === this.rows.length ? `${of} rows` : `${grouped(chosen.length)} of ${of}`;
        this.more.hidden = chosen.length <= FIRST;
        this.more.textContent = this.all ? "Show fewer" : `Show ${grouped(chosen.length - FIRST)} more`;
        this.scroll.classList.toggle("all", this.all);
    }

    private line(row: R): HTMLElement {
        let line = this.cells.get(row);
        if (!line) this.cells.set(row, (line = el("tr", {}, ...this.columns.map((column) => cell(column, row)))));
        return line;
    }

    private csv(): string {
        const columns = this.columns.filter((column) => column.kind !== "bar");
        const titles = columns.map((column) => column.title);
        return csv([titles, ...this.chosen().map((row) => columns.map((column) => column.value(row)))]);
    }
}

/** Numbers by size, text by its characters; what is not there comes last either way. */
function compare(a: Value, b: Value, direction: 1 | -1): number {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
    return (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0) * direction;
}

/** A table of rows; `null` without any. */
export function table<R>(name: string, columns: Column<R>[], rows: R[]): Table | null {
    return rows.length > 0 ? new SortedTable(name, columns, rows) : null;
}
