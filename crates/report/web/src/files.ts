// The data side, file by file: what was read, what was written, in which sizes.

import type { Family, FileData, Transfers } from "../generated/report";
import { el, svg } from "./dom";
import { bytes, grouped, percent } from "./format";
import { table, type Column } from "./table";
import type { Tab } from "./tabs";

const average = (total: number, count: number): number | null => (count > 0 ? total / count : null);

/** Requests that moved data: a read at the end of a file does not. */
const moved = (of: Transfers): number => of.calls - (of.sizes[0] ?? 0);

/** The smallest size of a class of [`Transfers.sizes`]. */
const size = (index: number): number => (index === 0 ? 0 : 2 ** (index - 1));

/** Requests by size: one column a power of two. */
function sizes(of: Transfers): SVGElement | null {
    const highest = Math.max(...of.sizes, 0);
    if (highest === 0) return null;
    const first = of.sizes.findIndex((calls) => calls > 0);
    const columns = of.sizes.map((calls, index) => {
        const height = calls > 0 ? Math.max(1.5, (calls / highest) * 16) : 0;
        return svg("rect", { x: (index - first) * 6, y: 16 - height, width: 5, height, class: "size" },
            svg("title", {}, `${grouped(calls)} of ${bytes(size(index))} and more`));
    });
    const common = of.sizes.indexOf(highest);
    const words = `mostly ${bytes(size(common))} to ${bytes(size(common + 1))}`;
    return svg("svg", { width: (of.sizes.length - first) * 6, height: 16, role: "img", "aria-label": words }, ...columns);
}

type Direction = "reads" | "writes";

function columns(direction: Direction): Column<FileData>[] {
    const reads = direction === "reads";
    return [
        { title: "file", kind: "path", value: (file) => file.path },
        { title: "opens", kind: "number", value: (file) => file.opens },
        { title: "open time", kind: "seconds", value: (file) => file.open_seconds, help: "The recorder's work inside" },
        { title: reads ? "reads" : "writes", kind: "number", value: (file) => file[direction].calls },
        {
            title: "bytes", kind: "bytes", value: (file) => file[direction].bytes,
            show: (file) => reads && file.bytes_unknown
                ? el("span", {}, file.reads.bytes > 0 ? `${bytes(file.reads.bytes)} + ` : "",
                    el("em", { title: "Read through a mapping: how much is not known" }, "unknown"))
                : bytes(file[direction].bytes),
        },
        { title: "average", kind: "bytes", value: (file) => file[direction].average_bytes },
        {
            title: "sequential", kind: "number",
            help: "Requests that moved data and began where the one before ended",
            value: (file) => average(file[direction].sequential * 100, moved(file[direction])),
            show: (file) => moved(file[direction]) > 0
                ? percent(file[direction].sequential, moved(file[direction])) : "",
        },
        { title: "stripe-sized", kind: "number", value: (file) => file[direction].stripe_sized, help: "Whole stripes from the begin of one" },
        { title: "gaps", kind: "number", value: (file) => file[direction].gaps },
        { title: "average gap", kind: "bytes", value: (file) => file[direction].average_gap_bytes },
        { title: "time", kind: "seconds", value: (file) => file[direction].seconds, help: "The recorder's work inside" },
        { title: "request sizes", kind: "bar", value: (file) => file[direction].average_bytes, show: (file) => sizes(file[direction]) },
        { title: "ranks", kind: "number", value: (file) => (reads ? file.reading_ranks : file.writing_ranks) },
        {
            title: "stripes", kind: "number", value: (file) => file.stripe_count ?? null,
            show: (file) => file.stripe_count ? `${grouped(file.stripe_count)} x ${bytes(file.stripe_size ?? 0)}` : "",
        },
    ];
}

/** Who moves the data, when several ranks recorded. */
function families(all: Family[]): Tab {
    const columns: Column<Family>[] = [
        { title: "files", kind: "path", value: (row) => row.name, help: "A number that differs is #" },
        { title: "direction", kind: "text", value: (row) => row.direction },
        { title: "pattern", kind: "text", value: (row) => row.pattern.replace(/-/g, " ") },
        { title: "count", kind: "number", value: (row) => row.files },
        { title: "ranks", kind: "number", value: (row) => row.ranks },
        { title: "calls", kind: "number", value: (row) => row.calls },
        { title: "bytes", kind: "bytes", value: (row) => row.bytes },
    ];
    return { title: "Ranks and files", rows: all.length, table: table("Ranks and files", columns, all) };
}

/** A table of reads, one of writes, and who moves the data. */
export function fileTabs(files: FileData[], patterns: Family[]): Tab[] {
    const tab = (title: string, direction: Direction, rows: FileData[]): Tab => {
        // A column is shown only for facts that the file system tells and that happened.
        const told = (column: Column<FileData>) =>
            !["stripes", "stripe-sized", "gaps", "average gap"].includes(column.title)
            || rows.some((row) => Boolean(column.value(row)));
        return { title, rows: rows.length, table: table(title, columns(direction).filter(told), rows) };
    };
    return [
        tab("Files read", "reads", files.filter((file) => file.reads.calls > 0 || file.bytes_unknown)),
        tab("Files written", "writes", files.filter((file) => file.writes.calls > 0)),
        families(patterns),
    ];
}

/** What was written to standard output and standard error, in words; `null` without any. */
export function streams(calls: number, amount: number): HTMLElement | null {
    const words = `Standard output and error: ${grouped(calls)} writes, ${bytes(amount)}.`;
    return calls > 0 ? el("p", { class: "note" }, words) : null;
}
