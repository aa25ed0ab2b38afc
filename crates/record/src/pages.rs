//! Finds the parts of mapped files that a process has touched, from `/proc/PID/maps` and `/proc/PID/pagemap`.
//!
//! Names come from the kernel's memory and pages from its page tables: no request reaches a file system. Files that an
//! image could not hold (devices, deleted files, memory files) are left out.

use crate::sys::pagemap::{Addresses, PageMap, Way};
use quell_trace::{Extent, Pid};
use std::fs::File;
use std::io::{self, Read};

/// Parts of a file. Shape: unordered, may overlap.
pub(crate) type Parts = (Vec<u8>, Vec<Extent>);

/// A mapped piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    addresses: Addresses,
    /// The offset of the piece in the file. Unit: bytes.
    offset: u64,
    /// The name, escaped as in the table.
    name: &'a [u8],
}

/// Inspects processes. This runs for every process, so its buffers are reused.
#[derive(Debug)]
pub(crate) struct PageLooker {
    table: Vec<u8>,
    way: Way,
}

impl PageLooker {
    pub(crate) fn new() -> Self {
        Self { table: vec![0; FIRST_TABLE], way: Way::Scan }
    }

    /// The parts that the process of a stopped thread touched, sorted by path; `None` when they cannot be read.
    pub(crate) fn touched(&mut self, thread: Pid) -> Option<Vec<Parts>> {
        let length = self.read_table(thread).ok()?;
        look(thread, &self.table[..length], &mut self.way)
    }

    /// Reads the table of a process's mappings and returns its length. A read returns less than the size of the buffer.
    fn read_table(&mut self, thread: Pid) -> io::Result<usize> {
        let mut file = File::open(format!("/proc/{thread}/maps"))?;
        let mut length = 0;
        loop {
            if self.table.len() - length < PIECE {
                self.table.resize(2 * self.table.len(), 0);
            }
            match file.read(&mut self.table[length..])? {
                0 => return Ok(length),
                read => length += read,
            }
        }
    }
}

/// The initial buffer size, which most tables do not exceed. Unit: bytes.
const FIRST_TABLE: usize = 1 << 15;
/// The maximum that the kernel returns per read. Unit: bytes.
const PIECE: usize = 4096;

fn look(thread: Pid, table: &[u8], way: &mut Way) -> Option<Vec<Parts>> {
    let mappings = mappings(table);
    let Some(first) = mappings.first() else { return (!table.is_empty()).then(Vec::new) };
    let mut pages = PageMap::open(thread, way).ok()?;
    let mut touched = Vec::new();
    for run in mappings.chunk_by(|one, next| next.addresses.start - one.addresses.end <= SMALL_GAP) {
        let all = run.first()?.addresses.start..run.last()?.addresses.end;
        let mut rest = run;
        pages.present(&all, |present| add(&mut touched, &mut rest, &present)).ok()?;
    }
    // The addresses of mappings are random, so the result must be sorted.
    touched.sort();
    let is_whole = pages.is_alive(first.addresses.start);
    is_whole.then(|| touched.into_iter().map(|(name, extents)| (path(name), extents)).collect())
}

/// The maximum gap between two mappings that one query spans: scanning it costs less than a second query.
const SMALL_GAP: u64 = 64 * 4096;

/// Parts of a file, by the name in the table. Pieces of a file are mostly adjacent; where they are not, the file
/// appears several times.
type Named<'a> = Vec<(&'a [u8], Vec<Extent>)>;

/// Adds the present pages of the mappings. `mappings` and `present` ascend together, and mappings below `present` are
/// dropped.
fn add<'a>(touched: &mut Named<'a>, mappings: &mut &[Mapping<'a>], present: &Addresses) {
    while let Some((mapping, later)) = mappings.split_first() {
        let begin = present.start.max(mapping.addresses.start);
        let end = present.end.min(mapping.addresses.end);
        if begin < end {
            let extent =
                Extent { offset: mapping.offset + (begin - mapping.addresses.start), size: end - begin };
            match touched.last_mut() {
                Some((name, extents)) if *name == mapping.name => extents.push(extent),
                _ => touched.push((mapping.name, vec![extent])),
            }
        }
        if present.end <= mapping.addresses.end {
            return;
        }
        *mappings = later;
    }
}

/// The mapped pieces of files. Shape: ascending by address, without overlap; lines out of order are skipped.
fn mappings(table: &[u8]) -> Vec<Mapping<'_>> {
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    for mapping in table.split(|&byte| byte == b'\n').filter_map(mapping) {
        // The kernel prints the table in several pieces, between which other threads may change it.
        if mappings.last().is_none_or(|last| last.addresses.end <= mapping.addresses.start) {
            mappings.push(mapping);
        }
    }
    mappings
}

/// One line of the table. Source: `proc_pid_maps(5)`.
fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let name = &line[line.iter().position(|&byte| byte == b'/')?..];
    if !is_file(name) {
        return None;
    }
    let mut fields = line.split(|&byte| byte == b' ');
    let (range, _protection, offset) = (fields.next()?, fields.next()?, hexadecimal(fields.next()?)?);
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let addresses = hexadecimal(&range[..dash])?..hexadecimal(&range[dash + 1..])?;
    offset.checked_add(addresses.end.checked_sub(addresses.start)?)?;
    Some(Mapping { addresses, offset, name })
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digit = |value: u64, &byte: &u8| Some(value << 4 | u64::from((byte as char).to_digit(16)?));
    if text.is_empty() || text.len() > 16 { None } else { text.iter().try_fold(0, digit) }
}

/// True for the name of a file that an image could hold.
fn is_file(name: &[u8]) -> bool {
    let is_device = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    !is_device && !name.ends_with(b" (deleted)")
}

/// The path of a file, from a name in which only newlines are escaped.
fn path(name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, tail)) = rest.split_first() {
        let line_end = rest.strip_prefix(b"\\012");
        path.push(if line_end.is_some() { b'\n' } else { byte });
        rest = line_end.unwrap_or(tail);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pagemap::page_size;
    use quell_trace::touched::merge;

    fn names(maps: &str) -> Vec<String> {
        mappings(maps.as_bytes()).iter().map(|mapping| String::from_utf8_lossy(mapping.name).into()).collect()
    }

    #[test]
    fn a_line_is_a_piece_of_a_file() {
        let line =
            b"7f00a000-7f00c000 r-xp 00002000 fd:01 1234                       /opt/a b/l\\012c\\040.so";
        let found = mapping(line).unwrap();
        assert_eq!((found.addresses.clone(), found.offset), (0x7f00_a000..0x7f00_c000, 0x2000));
        assert_eq!(path(found.name), b"/opt/a b/l\nc\\040.so");
    }

    #[test]
    fn what_is_no_file_of_an_image_is_left_out() {
        for name in [
            "",
            "[heap]",
            "[vdso]",
            "/usr/x (deleted)",
            "/memfd:x (deleted)",
            "/dev/zero",
            "/dev/nvidia0",
            "anon_inode:[perf_event]",
            "socket:[1]",
        ] {
            assert_eq!(names(&format!("1000-2000 rw-p 00000000 00:00 0    {name}\n")), [""; 0], "{name}");
        }
        for line in [
            "",
            "1000",
            "1000-2000 r--p",
            "1000-2000 r--p 0 00:00 0",
            "x-2000 r--p 0 00:00 0 /a",
            "2000-1000 r--p 0 00:00 0 /a",
            "1000-2000 r--p fffffffffffff000 00:00 0 /a",
            "1000 r--p 0 00:00 0 /a",
        ] {
            assert_eq!(names(line), [""; 0], "{line}");
        }
        assert_eq!(names("1000-2000 rw-s 00000000 00:01 9    /dev/shm/x\n"), ["/dev/shm/x"]);
    }

    #[test]
    fn a_table_that_changed_while_it_was_read_stays_in_order() {
        let maps = "1000-3000 r--p 0 0:1 1 /a\n2000-4000 r--p 0 0:1 1 /b\n3000-5000 r--p 0 0:1 1 /c\n";
        assert_eq!(names(maps), ["/a", "/c"]);
    }

    #[test]
    fn present_pages_are_cut_at_the_mappings() {
        let maps = "1000-3000 r--p 1000 0:1 1 /a\n3000-4000 rw-p 0 0:0 0 [heap]\n4000-8000 r--p 0 0:1 2 /b\n";
        let mappings = mappings(maps.as_bytes());
        let (mut rest, mut touched) = (&mappings[..], Named::new());
        for present in [0x1000..0x2000, 0x2000..0x5000, 0x7000..0x9000] {
            add(&mut touched, &mut rest, &present);
        }
        let extent = |offset, size| Extent { offset, size };
        let expected = [
            (&b"/a"[..], vec![extent(0x1000, 0x1000), extent(0x2000, 0x1000)]),
            (&b"/b"[..], vec![extent(0, 0x1000), extent(0x3000, 0x1000)]),
        ];
        assert_eq!(touched, expected);
    }

    #[test]
    fn this_process_touched_its_program_and_both_ways_say_so() {
        let me = crate::facts::ourselves();
        let program = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        // Other tests run in parallel: each method sees at least the pages that an earlier one saw.
        let looks = [Way::Scan, Way::Words, Way::Scan].map(|way| {
            let mut looker = PageLooker { table: vec![0; 1], way };
            let parts = looker.touched(me).unwrap().into_iter().filter(|(path, _)| *path == program);
            let mut extents: Vec<_> = parts.flat_map(|(_, extents)| extents).collect();
            merge(&mut extents);
            extents
        });
        let bytes = looks.each_ref().map(|extents| extents.iter().map(|extent| extent.size).sum::<u64>());
        assert!(bytes[0] > 0 && bytes.is_sorted(), "{looks:?}");
        assert!(looks.iter().flatten().all(|extent| (extent.offset | extent.size) % page_size() == 0));
        assert_eq!(PageLooker::new().touched(Pid(i32::MAX)), None);
    }
}
