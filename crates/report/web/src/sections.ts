// The sections that the script adds, in the order of the page. What a report does not have leaves no trace.

import type { Command, Directory, MissedName, PathRow, Recording, ReportView, FoldRow, SearchEntry, Wanted } from "../generated/report";
import { el } from "./dom";
import { fileTabs, streams } from "./files";
import { command } from "./format";
import { directoryMap } from "./map";
import { phases } from "./phases";
import { KINDS, ladders } from "./searches";
import { bar, table, type Column, type Table } from "./table";
import { tabs, type Tab } from "./tabs";
import { timeline } from "./timeline";

interface Counted {
    metadata_operations: number;
    missed: number;
}

/** The columns that most tables begin with: a bar, operations, misses. */
function counts<R>(rows: R[], of: (row: R) => Counted): Column<R>[] {
    const longest = Math.max(...rows.map((row) => of(row).metadata_operations), 1);
    return [
        {
            title: "share", kind: "bar", value: (row) => of(row).metadata_operations,
            show: (row) => bar(of(row).metadata_operations, of(row).missed, longest),
        },
        { title: "operations", kind: "number", value: (row) => of(row).metadata_operations },
        { title: "missed", kind: "number", value: (row) => of(row).missed },
    ];
}

const tab = <R>(title: string, rows: R[], columns: Column<R>[]): Tab =>
    ({ title, rows: rows.length, table: table(title, columns, rows) });

const servedBy = <R extends { served_by?: string | null }>(): Column<R> =>
    ({ title: "served by", kind: "text", value: (row) => row.served_by ?? "unknown" });

function pathTabs(report: ReportView): Tab[] {
    const { top_paths, top_directories, missed_names } = report;
    const misses = (row: MissedName) => ({ metadata_operations: row.missed, missed: row.missed });
    return [
        tab<PathRow>("Paths", top_paths, [
            { title: "path", kind: "path", value: (row) => row.path },
            ...counts(top_paths, (row) => row),
            servedBy(),
        ]),
        tab<Directory>("Directories", top_directories, [
            { title: "directory", kind: "path", value: (row) => row.path },
            ...counts(top_directories, (row) => row),
            { title: "names", kind: "number", value: (row) => row.names, help: "Names that were asked for" },
            { title: "absent", kind: "number", value: (row) => row.absent, help: "Names that were never found" },
            servedBy(),
        ]),
        tab<MissedName>("Missed names", missed_names, [
            { title: "name", kind: "path", value: (row) => row.name },
            counts(missed_names, misses)[0] as Column<MissedName>,
            { title: "missed", kind: "number", value: (row) => row.missed },
            { title: "directories", kind: "number", value: (row) => row.directories, help: "Directories in which it was missed" },
        ]),
    ];
}

function searchTabs({ entries, wanted }: ReportView["searches"]): Tab[] {
    const probes = (row: { probes: number; missed: number }) =>
        ({ metadata_operations: row.probes, missed: row.missed });
    const kind = <R extends { kind: string }>(): Column<R> =>
        ({ title: "search", kind: "text", value: (row) => KINDS[row.kind] ?? row.kind });
    return [
        tab<SearchEntry>("Entries", entries, [
            { title: "entry", kind: "path", value: (row) => row.directory },
            kind(),
            { title: "from", kind: "text", value: (row) => row.origin, help: "What put it into the list" },
            { title: "place", kind: "number", value: (row) => row.position + 1, help: "Its place in the list" },
            ...counts(entries, probes),
            { title: "searches", kind: "number", value: (row) => row.searches },
            { title: "found", kind: "number", value: (row) => row.hits, help: "Searches that ended here" },
        ]),
        tab<Wanted>("Wanted", wanted, [
            { title: "name", kind: "path", value: (row) => row.name },
            kind(),
            ...counts(wanted, probes),
            { title: "searches", kind: "number", value: (row) => row.searches },
            { title: "found at", kind: "path", value: (row) => row.found ?? null },
            { title: "asked by", kind: "path", value: (row) => row.asked_by ?? null },
        ]),
    ];
}

function processTabs(report: ReportView): Tab[] {
    const status = (row: Recording) => (row.partial ? "partial" : row.exit_status == null ? "unknown" : String(row.exit_status));
    return [
        tab<Command>("Commands", report.commands, [
            { title: "command", kind: "text", value: (row) => command(row.arguments), show: (row) => el("code", {}, command(row.arguments)) },
            ...counts(report.commands, (row) => row),
            { title: "calls", kind: "number", value: (row) => row.calls },
            { title: "processes", kind: "number", value: (row) => row.processes },
        ]),
        // One group says nothing that the headline does not.
        tab<FoldRow>("Equal ranks", report.folds.length > 1 || report.recordings.length > 1 ? report.folds : [], [
            { title: "ranks", kind: "text", value: (row) => row.ranks },
            { title: "recordings", kind: "number", value: (row) => row.recordings },
            { title: "operations of each", kind: "number", value: (row) => row.metadata_operations },
            { title: "missed by each", kind: "number", value: (row) => row.missed },
        ]),
        tab<Recording>("Recordings", report.recordings, [
            { title: "recording", kind: "path", value: (row) => row.name },
            { title: "rank", kind: "number", value: (row) => row.rank ?? null, show: (row) => (row.rank == null ? "" : String(row.rank)) },
            { title: "node", kind: "text", value: (row) => row.host },
            { title: "status", kind: "text", value: status },
            { title: "time", kind: "seconds", value: (row) => row.seconds ?? null },
            { title: "events", kind: "number", value: (row) => row.events },
            { title: "lost", kind: "number", value: (row) => row.lost },
        ]),
    ];
}

function callTabs(report: ReportView): Tab[] {
    return [
        tab("System calls", report.syscalls, [
            { title: "call", kind: "text", value: (row) => row.name, show: (row) => el("code", {}, row.name) },
            { title: "calls", kind: "number", value: (row) => row.calls },
            { title: "errors", kind: "number", value: (row) => row.errors },
            { title: "time", kind: "seconds", value: (row) => row.seconds, help: "The recorder's work inside" },
        ]),
        tab("Failures", report.failures, [
            { title: "call", kind: "text", value: (row) => row.name, show: (row) => el("code", {}, row.name) },
            { title: "error", kind: "text", value: (row) => row.errno, show: (row) => el("code", {}, row.errno) },
            { title: "calls", kind: "number", value: (row) => row.calls },
        ]),
        tab("File systems", report.file_systems, [
            { title: "mount point", kind: "path", value: (row) => row.mount_point },
            { title: "type", kind: "text", value: (row) => row.type },
            servedBy(),
            ...counts(report.file_systems, (row) => row),
            { title: "read", kind: "bytes", value: (row) => row.bytes_read },
            { title: "written", kind: "bytes", value: (row) => row.bytes_written },
        ]),
    ];
}

function section(id: string, title: string, lead: string, ...content: (HTMLElement | null | undefined)[]): HTMLElement | null {
    const there = content.filter((element): element is HTMLElement => Boolean(element));
    if (there.length === 0) return null;
    return el("section", { id, "aria-labelledby": `${id}-title` },
        el("h2", { id: `${id}-title` }, title), el("p", { class: "lead" }, lead), ...there);
}

/** All sections that the report has something for. */
export function sections(report: ReportView): HTMLElement[] {
    const paths = tabs("Paths", pathTabs(report));
    const list = (directory: string) => {
        const opened: Table | null | undefined = paths?.open("Paths");
        opened?.filter(directory === "/" ? "" : `${directory}/`);
        opened?.element.scrollIntoView({ block: "start" });
    };
    const { searches, data } = report;
    const all = [
        section("time", "When", "Metadata operations over time, by what became of them. Drag to look closer.", timeline(report)),
        section("map", "Where", "Directories by the operations on names in them. The redder, the more was looked for and not there.",
            directoryMap(report, list)),
        section("phases", "Phases", "What the run was doing when it asked. A storm is a rate.", phases(report.phases)),
        section("searches", "Searches", "Which list was searched, in its order, and what each entry cost before something was found.",
            ladders(searches.entries), tabs("Searches", searchTabs(searches))?.element),
        section("paths", "Paths", "What was asked for most.", paths?.element),
        section("files", "Files", "Requests for data, file by file.",
            tabs("Files", fileTabs(data.files, data.patterns))?.element, streams(data.streams.calls, data.streams.bytes)),
        section("processes", "Who asked", "Commands, and the recordings that this report adds up.", tabs("Who asked", processTabs(report))?.element),
        section("calls", "Calls", "As strace counts them.", tabs("Calls", callTabs(report))?.element),
    ];
    return all.filter((made): made is HTMLElement => made !== null);
}
