//! The small tables: paths, processes and the context of a recording. The writer and the reader of each table stand
//! side by side, so that they cannot drift apart.

use super::columns::{ColumnValues, TableColumn, TableWriter, column, text};
use super::reader::{RowGroup, TableReader};
use super::sums::Sums;
use super::{TraceError, create};
use crate::context::{InheritedFd, NamespaceChange};
use crate::{
    Context, ElfFile, Execution, Exit, Extent, FileIdentity, Import, Mount, Nanos, PathId, PathTable, Pid,
    Process, ProcessId, Stripe, SymbolicLink, Thread, ThreadId, Touched, Variable,
};
use quell_base::files::Folder;
use std::cmp::Ordering;
use std::path::Path;

/// A table: its file, and how it is written and read.
struct Table {
    name: &'static str,
    columns: fn(&PathTable, &Context) -> Vec<TableColumn>,
    read: fn(&RowGroup<'_>, &mut PathTable, &mut Context) -> Result<(), TraceError>,
}

/// The table of one list of the context.
macro_rules! table {
    ($name:literal, $list:ident, $columns:ident, $read:ident) => {
        Table {
            name: $name,
            columns: |_, context| $columns(&context.$list),
            read: |group, _, context| $read(group, &mut context.$list),
        }
    };
}

/// Every table but the events and [`TOUCHED`], in the order of reading.
const TABLES: [Table; 12] = [
    Table {
        name: "paths.parquet",
        columns: |paths, _| path_columns(paths),
        read: |group, paths, _| read_paths(group, paths),
    },
    table!("processes.parquet", processes, process_columns, read_processes),
    table!("threads.parquet", threads, thread_columns, read_threads),
    table!("executions.parquet", executions, execution_columns, read_executions),
    table!("variables.parquet", variables, variable_columns, read_variables),
    table!("mounts.parquet", mounts, mount_columns, read_mounts),
    table!("namespaces.parquet", namespaces, namespace_columns, read_namespaces),
    Table {
        name: "descriptors.parquet",
        columns: |_, context| descriptor_columns(context),
        read: |group, _, context| read_descriptors(group, context),
    },
    table!("links.parquet", links, link_columns, read_links),
    table!("files.parquet", files, file_columns, read_files),
    table!("elf.parquet", elf_files, elf_columns, read_elf),
    table!("stripes.parquet", stripes, stripe_columns, read_stripes),
];

/// The imports of Python programs: present only where a hook told some.
pub(crate) const IMPORTS: &str = "imports.parquet";

const IMPORT_TABLE: Table = table!("imports.parquet", imports, import_columns, read_imports);

/// The files that [`write()`] always makes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// The touched parts of mapped files: present only when the recorder looked, and read only on demand.
pub(crate) const TOUCHED: &str = "touched.parquet";

/// Rows of [`TOUCHED`] in a group. Not part of the format.
const TOUCHED_GROUP: usize = 1 << 18;

/// Writes every table but the events and [`TOUCHED`].
pub(crate) fn write(folder: &Folder, paths: &PathTable, context: &Context) -> Result<(), TraceError> {
    let imports = (!context.imports.is_empty()).then_some(&IMPORT_TABLE);
    TABLES.iter().chain(imports).try_for_each(|table| {
        let columns = (table.columns)(paths, context);
        let mut writer = TableWriter::create(create(folder, table.name)?, &columns, &[])?;
        writer.write(&columns)?;
        writer.finish()
    })
}

/// Reads every table but the events and [`TOUCHED`], and verifies each checksum first.
pub(crate) fn read(directory: &Path, sums: &Sums) -> Result<(PathTable, Context), TraceError> {
    let (mut paths, mut context) = (PathTable::default(), Context::default());
    let imports = sums.has(IMPORTS).then_some(&IMPORT_TABLE);
    for table in TABLES.iter().chain(imports) {
        sums.verify(directory, table.name)?;
        let reader = TableReader::open(&directory.join(table.name))?;
        reader.for_each_group(|group| (table.read)(&group, &mut paths, &mut context))?;
    }
    Ok((paths, context))
}

fn longs<T>(rows: &[T], field: impl Fn(&T) -> i64) -> ColumnValues {
    ColumnValues::Long(rows.iter().map(field).collect())
}

fn words<T>(rows: &[T], field: impl Fn(&T) -> i32) -> ColumnValues {
    ColumnValues::Word(rows.iter().map(field).collect())
}

fn optional_words<T>(rows: &[T], field: impl Fn(&T) -> Option<i32>) -> ColumnValues {
    ColumnValues::OptionalWord(rows.iter().map(field).collect())
}

fn texts<T>(rows: &[T], field: impl Fn(&T) -> String) -> ColumnValues {
    ColumnValues::Text(rows.iter().map(|row| text(field(row))).collect())
}

fn optional_texts<T>(rows: &[T], field: impl Fn(&T) -> Option<String>) -> ColumnValues {
    ColumnValues::OptionalText(rows.iter().map(|row| field(row).map(text)).collect())
}

/// Several strings in one column, as a JSON array that every reader of Parquet can parse.
fn list(strings: &[String]) -> String {
    serde_json::Value::from(strings).to_string()
}

fn unlist(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

fn path_columns(paths: &PathTable) -> Vec<TableColumn> {
    let rows: Vec<_> = paths.iter().collect();
    // The raw bytes, only where the text differs from them.
    let raw =
        rows.iter().map(|(id, bytes)| (paths.display(*id).as_bytes() != *bytes).then(|| text(hex(bytes))));
    vec![
        column("id", words(&rows, |(id, _)| id.0 as i32)),
        column("path", texts(&rows, |(id, _)| paths.display(*id))),
        column("bytes", ColumnValues::OptionalText(raw.collect())),
    ]
}

fn read_paths(group: &RowGroup<'_>, paths: &mut PathTable) -> Result<(), TraceError> {
    let raw = group.optional_text("bytes")?;
    for (text, raw) in group.text("path")?.iter().zip(raw) {
        match raw.as_ref().and_then(|raw| unhex(raw.data())) {
            Some(bytes) => paths.intern(&bytes),
            None => paths.intern(text.data()),
        };
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    text.chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

fn process_columns(rows: &[Process]) -> Vec<TableColumn> {
    let status = |exit: Option<Exit>| match exit? {
        Exit::Status(status) => Some(status),
        Exit::Signal(_) => None,
    };
    let signal = |exit: Option<Exit>| match exit? {
        Exit::Signal(signal) => Some(signal),
        Exit::Status(_) => None,
    };
    let end = rows.iter().map(|row| row.end.map(|end| end.0 as i64)).collect();
    vec![
        column("pid", words(rows, |row| row.pid.0)),
        column("parent", optional_words(rows, |row| row.parent.map(|parent| parent.0 as i32))),
        column("start", longs(rows, |row| row.start.0 as i64)),
        column("end", ColumnValues::OptionalLong(end)),
        column("exit_status", optional_words(rows, |row| status(row.exit))),
        column("exit_signal", optional_words(rows, |row| signal(row.exit))),
    ]
}

fn read_processes(group: &RowGroup<'_>, rows: &mut Vec<Process>) -> Result<(), TraceError> {
    let (parent, start, end) =
        (group.optional_word("parent")?, group.long("start")?, group.optional_long("end")?);
    let (status, signal) = (group.optional_word("exit_status")?, group.optional_word("exit_signal")?);
    for (row, pid) in group.word("pid")?.into_iter().enumerate() {
        rows.push(Process {
            pid: Pid(pid),
            parent: parent[row].map(|parent| ProcessId(parent as u32)),
            start: Nanos(start[row] as u64),
            end: end[row].map(|end| Nanos(end as u64)),
            exit: status[row].map(Exit::Status).or(signal[row].map(Exit::Signal)),
        });
    }
    Ok(())
}

fn thread_columns(rows: &[Thread]) -> Vec<TableColumn> {
    vec![
        column("tid", words(rows, |row| row.tid.0)),
        column("process", words(rows, |row| row.process.0 as i32)),
        column("parent", optional_words(rows, |row| row.parent.map(|parent| parent.0 as i32))),
        column("start", longs(rows, |row| row.start.0 as i64)),
        column("shares_files", words(rows, |row| row.shares_files.into())),
        column("shares_directory", words(rows, |row| row.shares_directory.into())),
    ]
}

fn read_threads(group: &RowGroup<'_>, rows: &mut Vec<Thread>) -> Result<(), TraceError> {
    let (process, parent, start) =
        (group.word("process")?, group.optional_word("parent")?, group.long("start")?);
    let (files, directory) = (group.word("shares_files")?, group.word("shares_directory")?);
    for (row, tid) in group.word("tid")?.into_iter().enumerate() {
        rows.push(Thread {
            tid: Pid(tid),
            process: ProcessId(process[row] as u32),
            parent: parent[row].map(|parent| ThreadId(parent as u32)),
            start: Nanos(start[row] as u64),
            shares_files: files[row] != 0,
            shares_directory: directory[row] != 0,
        });
    }
    Ok(())
}

fn execution_columns(rows: &[Execution]) -> Vec<TableColumn> {
    vec![
        column("process", words(rows, |row| row.process.0 as i32)),
        column("thread", words(rows, |row| row.thread.0 as i32)),
        column("at", longs(rows, |row| row.at.0 as i64)),
        column("program", optional_words(rows, |row| row.program.map(|path| path.0 as i32))),
        column("arguments", texts(rows, |row| list(&row.arguments))),
    ]
}

fn read_executions(group: &RowGroup<'_>, rows: &mut Vec<Execution>) -> Result<(), TraceError> {
    let (process, thread, at) = (group.word("process")?, group.word("thread")?, group.long("at")?);
    let program = group.optional_word("program")?;
    for (row, arguments) in group.strings("arguments")?.into_iter().enumerate() {
        rows.push(Execution {
            process: ProcessId(process[row] as u32),
            thread: ThreadId(thread[row] as u32),
            at: Nanos(at[row] as u64),
            program: program[row].map(|path| PathId(path as u32)),
            arguments: unlist(&arguments),
        });
    }
    Ok(())
}

fn variable_columns(rows: &[Variable]) -> Vec<TableColumn> {
    vec![
        column("execution", words(rows, |row| row.execution as i32)),
        column("name", texts(rows, |row| row.name.clone())),
        column("value", texts(rows, |row| row.value.clone())),
    ]
}

fn read_variables(group: &RowGroup<'_>, rows: &mut Vec<Variable>) -> Result<(), TraceError> {
    let columns =
        group.word("execution")?.into_iter().zip(group.strings("name")?).zip(group.strings("value")?);
    rows.extend(columns.map(|((execution, name), value)| Variable {
        execution: execution as u32,
        name,
        value,
    }));
    Ok(())
}

fn mount_columns(rows: &[Mount]) -> Vec<TableColumn> {
    vec![
        column("namespace", longs(rows, |row| row.namespace as i64)),
        column("mount_point", texts(rows, |row| row.mount_point.clone())),
        column("root", texts(rows, |row| row.root.clone())),
        column("type", texts(rows, |row| row.kind.clone())),
        column("served_by", texts(rows, |row| row.served_by().name().to_owned())),
        column("source", texts(rows, |row| row.source.clone())),
        column("device", longs(rows, |row| row.device as i64)),
        column("options", texts(rows, |row| row.options.clone())),
    ]
}

fn read_mounts(group: &RowGroup<'_>, rows: &mut Vec<Mount>) -> Result<(), TraceError> {
    let (namespace, device) = (group.long("namespace")?, group.long("device")?);
    let mut columns =
        [group.strings("root")?, group.strings("type")?, group.strings("source")?, group.strings("options")?]
            .map(Vec::into_iter);
    for (row, mount_point) in group.strings("mount_point")?.into_iter().enumerate() {
        let [root, kind, source, options] =
            columns.each_mut().map(|column| column.next().unwrap_or_default());
        let (namespace, device) = (namespace[row] as u64, device[row] as u64);
        rows.push(Mount { namespace, mount_point, root, kind, source, device, options });
    }
    Ok(())
}

fn namespace_columns(rows: &[NamespaceChange]) -> Vec<TableColumn> {
    vec![
        column("process", words(rows, |row| row.process.0 as i32)),
        column("at", longs(rows, |row| row.at.0 as i64)),
        column("namespace", longs(rows, |row| row.namespace as i64)),
    ]
}

fn read_namespaces(group: &RowGroup<'_>, rows: &mut Vec<NamespaceChange>) -> Result<(), TraceError> {
    let columns = group.word("process")?.into_iter().zip(group.long("at")?).zip(group.long("namespace")?);
    rows.extend(columns.map(|((process, at), namespace)| NamespaceChange {
        process: ProcessId(process as u32),
        at: Nanos(at as u64),
        namespace: namespace as u64,
    }));
    Ok(())
}

/// The working directory is stored under the number that `openat` uses for it.
fn descriptor_columns(context: &Context) -> Vec<TableColumn> {
    let working = InheritedFd { fd: crate::Fd::WORKING_DIRECTORY.0, path: context.working_directory };
    let rows: Vec<_> = std::iter::once(&working).chain(&context.inherited).collect();
    vec![
        column("fd", words(&rows, |row| row.fd)),
        column("path", optional_words(&rows, |row| row.path.map(|path| path.0 as i32))),
    ]
}

fn read_descriptors(group: &RowGroup<'_>, context: &mut Context) -> Result<(), TraceError> {
    for (fd, path) in group.word("fd")?.into_iter().zip(group.optional_word("path")?) {
        let path = path.map(|path| PathId(path as u32));
        match fd == crate::Fd::WORKING_DIRECTORY.0 {
            true => context.working_directory = path,
            false => context.inherited.push(InheritedFd { fd, path }),
        }
    }
    Ok(())
}

fn link_columns(rows: &[SymbolicLink]) -> Vec<TableColumn> {
    vec![
        column("path", words(rows, |row| row.path.0 as i32)),
        column("target", texts(rows, |row| row.target.clone())),
    ]
}

fn read_links(group: &RowGroup<'_>, rows: &mut Vec<SymbolicLink>) -> Result<(), TraceError> {
    let columns = group.word("path")?.into_iter().zip(group.strings("target")?);
    rows.extend(columns.map(|(path, target)| SymbolicLink { path: PathId(path as u32), target }));
    Ok(())
}

fn file_columns(rows: &[FileIdentity]) -> Vec<TableColumn> {
    vec![
        column("path", words(rows, |row| row.path.0 as i32)),
        column("device", longs(rows, |row| row.device as i64)),
        column("inode", longs(rows, |row| row.inode as i64)),
        column("mode", words(rows, |row| row.mode as i32)),
        column("size", longs(rows, |row| row.size as i64)),
        column("modified", longs(rows, |row| row.modified)),
    ]
}

fn read_files(group: &RowGroup<'_>, rows: &mut Vec<FileIdentity>) -> Result<(), TraceError> {
    let (device, inode, mode) = (group.long("device")?, group.long("inode")?, group.word("mode")?);
    let (size, modified) = (group.long("size")?, group.long("modified")?);
    for (row, path) in group.word("path")?.into_iter().enumerate() {
        rows.push(FileIdentity {
            path: PathId(path as u32),
            device: device[row] as u64,
            inode: inode[row] as u64,
            mode: mode[row] as u32,
            size: size[row] as u64,
            modified: modified[row],
        });
    }
    Ok(())
}

fn elf_columns(rows: &[ElfFile]) -> Vec<TableColumn> {
    vec![
        column("path", words(rows, |row| row.path.0 as i32)),
        column("interpreter", optional_texts(rows, |row| row.interpreter.clone())),
        column("soname", optional_texts(rows, |row| row.soname.clone())),
        column("needed", texts(rows, |row| list(&row.needed))),
        column("rpath", optional_texts(rows, |row| row.rpath.clone())),
        column("runpath", optional_texts(rows, |row| row.runpath.clone())),
    ]
}

fn read_elf(group: &RowGroup<'_>, rows: &mut Vec<ElfFile>) -> Result<(), TraceError> {
    let needed = group.strings("needed")?;
    let mut columns = [
        group.optional_strings("interpreter")?,
        group.optional_strings("soname")?,
        group.optional_strings("rpath")?,
        group.optional_strings("runpath")?,
    ]
    .map(Vec::into_iter);
    for (path, needed) in group.word("path")?.into_iter().zip(needed) {
        let [interpreter, soname, rpath, runpath] = columns.each_mut().map(|column| column.next().flatten());
        let (path, needed) = (PathId(path as u32), unlist(&needed));
        rows.push(ElfFile { path, interpreter, soname, needed, rpath, runpath });
    }
    Ok(())
}

fn stripe_columns(rows: &[Stripe]) -> Vec<TableColumn> {
    vec![
        column("path", words(rows, |row| row.path.0 as i32)),
        column("count", words(rows, |row| row.count as i32)),
        column("size", longs(rows, |row| row.size as i64)),
    ]
}

fn read_stripes(group: &RowGroup<'_>, rows: &mut Vec<Stripe>) -> Result<(), TraceError> {
    let columns = group.word("path")?.into_iter().zip(group.word("count")?).zip(group.long("size")?);
    rows.extend(columns.map(|((path, count), size)| Stripe {
        path: PathId(path as u32),
        count: count as u32,
        size: size as u64,
    }));
    Ok(())
}

fn import_columns(rows: &[Import]) -> Vec<TableColumn> {
    vec![
        column("thread", words(rows, |row| row.thread.0 as i32)),
        column("begin", longs(rows, |row| row.begin.0 as i64)),
        column(
            "end",
            ColumnValues::OptionalLong(rows.iter().map(|row| row.end.map(|end| end.0 as i64)).collect()),
        ),
        column("module", texts(rows, |row| row.module.clone())),
        column("file", optional_texts(rows, |row| row.file.clone())),
        column("line", words(rows, |row| row.line as i32)),
        column("origin", optional_texts(rows, |row| row.origin.clone())),
    ]
}

fn read_imports(group: &RowGroup<'_>, rows: &mut Vec<Import>) -> Result<(), TraceError> {
    let (begins, ends) = (group.long("begin")?, group.optional_long("end")?);
    let (lines, modules) = (group.word("line")?, group.strings("module")?);
    let (files, origins) = (group.optional_strings("file")?, group.optional_strings("origin")?);
    let mut texts = modules.into_iter().zip(files.into_iter().zip(origins));
    for (row, thread) in group.word("thread")?.into_iter().enumerate() {
        let Some((module, (file, origin))) = texts.next() else { break };
        rows.push(Import {
            thread: ThreadId(thread as u32),
            begin: Nanos(begins[row] as u64),
            end: ends[row].map(|end| Nanos(end as u64)),
            module,
            file,
            line: lines[row] as u32,
            origin,
        });
    }
    Ok(())
}

/// Writes [`TOUCHED`].
pub(crate) fn write_touched(folder: &Folder, rows: &[Touched]) -> Result<(), TraceError> {
    let like = touched_columns(&rows[..rows.len().min(TOUCHED_GROUP)]);
    let mut table = TableWriter::create(create(folder, TOUCHED)?, &like, &[])?;
    for rows in rows.chunks(TOUCHED_GROUP) {
        table.write(&touched_columns(rows))?;
    }
    table.finish()
}

fn touched_columns(rows: &[Touched]) -> Vec<TableColumn> {
    vec![
        column("process", words(rows, |row| row.process.0 as i32)),
        column("path", words(rows, |row| row.path.0 as i32)),
        column("offset", longs(rows, |row| row.offset as i64)),
        column("size", longs(rows, |row| row.size as i64)),
    ]
}

/// Reads [`TOUCHED`] and verifies its checksum first; `None` when it is absent, as in traces of earlier versions. Rows
/// that refer to missing entries or are out of order are refused, so that later stages can rely on them.
pub(crate) fn read_touched(
    directory: &Path,
    sums: &Sums,
    paths: &PathTable,
    context: &Context,
) -> Result<Option<Vec<Touched>>, TraceError> {
    let path = directory.join(TOUCHED);
    if !sums.has(TOUCHED) && !path.exists() {
        return Ok(None);
    }
    sums.verify(directory, TOUCHED)?;
    let (processes, paths) = (context.processes.len(), paths.len());
    let mut rows: Vec<Touched> = Vec::new();
    TableReader::open(&path)?.for_each_group(|group| {
        let (process, file) = (group.word("process")?, group.word("path")?);
        let (offset, size) = (group.long("offset")?, group.long("size")?);
        for (row, process) in process.into_iter().enumerate() {
            let (process, path) = (ProcessId(process as u32), PathId(file[row] as u32));
            let touched = Touched { process, path, offset: offset[row] as u64, size: size[row] as u64 };
            let is_known = (process.0 as usize) < processes && (path.0 as usize) < paths;
            let extent = Extent { offset: touched.offset, size: touched.size };
            if !is_known
                || extent.checked_end().is_none()
                || rows.last().is_some_and(|last| !follows(&touched, last))
            {
                return Err(TraceError::damaged(
                    &directory.join(TOUCHED),
                    "a row is out of order or refers to a missing entry",
                ));
            }
            rows.push(touched);
        }
        Ok(())
    })?;
    Ok(Some(rows))
}

/// True when a row may follow another.
fn follows(row: &Touched, last: &Touched) -> bool {
    match (row.process, row.path).cmp(&(last.process, last.path)) {
        Ordering::Less => false,
        Ordering::Equal => row.offset > last.end(),
        Ordering::Greater => true,
    }
}
