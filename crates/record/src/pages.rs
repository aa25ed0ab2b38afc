//! Which parts of mapped files a process has touched, as `/proc/PID/maps` and `/proc/PID/pagemap` show it.
//!
//! Names come from the kernel's memory and pages from its page tables: no file system is asked anything. What is no file
//! that an image could hold (devices, deleted files, memory files) is left out.

use crate::sys::pagemap::{Addresses, PageMap, Way};
use quell_trace::{Extent, Pid};
use std::collections::BTreeMap;

/// Parts of files, by path. Shape: extents of one file in no order, and they may overlap.
pub(crate) type Parts = BTreeMap<Vec<u8>, Vec<Extent>>;

/// A mapped piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Addresses,
    /// Where the piece begins in the file. Unit: bytes.
    offset: u64,
    path: Vec<u8>,
}

/// What the process of a stopped thread touched; `None` when it cannot be told.
pub(crate) fn touched(thread: Pid) -> Option<Parts> {
    look(thread, Way::Scan)
}

fn look(thread: Pid, way: Way) -> Option<Parts> {
    let maps = std::fs::read(format!("/proc/{thread}/maps")).ok()?;
    let mappings = mappings(&maps);
    let mut parts = Parts::new();
    let Some(first) = mappings.first() else { return (!maps.is_empty()).then_some(parts) };
    let mut pages = PageMap::open(thread, way).ok()?;
    for run in mappings.chunk_by(|one, next| next.addresses.start - one.addresses.end <= SMALL_GAP) {
        let all = run.first()?.addresses.start..run.last()?.addresses.end;
        let mut rest = run;
        pages.present(&all, |present| add(&mut parts, &mut rest, &present)).ok()?;
    }
    pages.is_alive(first.addresses.start).then_some(parts)
}

/// Between two mappings it costs less to look at so many bytes of others than to ask twice.
const SMALL_GAP: u64 = 64 * 4096;

/// Adds what is present of the mappings. `mappings` and what is present ascend together: those behind are dropped.
fn add(parts: &mut Parts, mappings: &mut &[Mapping], present: &Addresses) {
    while let Some((mapping, later)) = mappings.split_first() {
        let begin = present.start.max(mapping.addresses.start);
        let end = present.end.min(mapping.addresses.end);
        if begin < end {
            let extent =
                Extent { offset: mapping.offset + (begin - mapping.addresses.start), size: end - begin };
            match parts.get_mut(&mapping.path) {
                Some(extents) => extents.push(extent),
                None => _ = parts.insert(mapping.path.clone(), vec![extent]),
            }
        }
        if present.end <= mapping.addresses.end {
            return;
        }
        *mappings = later;
    }
}

/// The mapped pieces of files. Shape: ascending by address, apart from each other; of lines that are not so, none.
fn mappings(maps: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for mapping in maps.split(|&byte| byte == b'\n').filter_map(mapping) {
        // The kernel prints the table in several pieces, between which other threads may change it.
        if mappings.last().is_none_or(|last| last.addresses.end <= mapping.addresses.start) {
            mappings.push(mapping);
        }
    }
    mappings
}

/// One line of the table. Source: `proc_pid_maps(5)`.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let (range, _protection, offset) = (fields.next()?, fields.next()?, hexadecimal(fields.next()?)?);
    let (_device, _inode, name) = (fields.next()?, fields.next()?, fields.next()?);
    let begin = name.iter().position(|&byte| byte != b' ')?;
    let path = path(&name[begin..])?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let addresses = hexadecimal(&range[..dash])?..hexadecimal(&range[dash + 1..])?;
    let length = addresses.end.checked_sub(addresses.start)?;
    offset.checked_add(length)?;
    Some(Mapping { addresses, offset, path })
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The path of a file, from a name in which only line ends are escaped; `None` for what is none.
fn path(name: &[u8]) -> Option<Vec<u8>> {
    let is_device = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    if !name.starts_with(b"/") || is_device || name.ends_with(b" (deleted)") {
        return None;
    }
    let mut path = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, tail)) = rest.split_first() {
        let line_end = rest.strip_prefix(b"\\012");
        path.push(if line_end.is_some() { b'\n' } else { byte });
        rest = line_end.unwrap_or(tail);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::pagemap::page_size;
    use quell_trace::touched::merge;

    fn names(maps: &str) -> Vec<String> {
        mappings(maps.as_bytes())
            .iter()
            .map(|mapping| String::from_utf8_lossy(&mapping.path).into())
            .collect()
    }

    #[test]
    fn a_line_is_a_piece_of_a_file() {
        let line =
            b"7f00a000-7f00c000 r-xp 00002000 fd:01 1234                       /opt/a b/l\\012c\\040.so";
        let expected = Mapping {
            addresses: 0x7f00_a000..0x7f00_c000,
            offset: 0x2000,
            path: b"/opt/a b/l\nc\\040.so".to_vec(),
        };
        assert_eq!(mapping(line), Some(expected));
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
        let (mut rest, mut parts) = (&mappings[..], Parts::new());
        for present in [0x1000..0x2000, 0x2000..0x5000, 0x7000..0x9000] {
            add(&mut parts, &mut rest, &present);
        }
        let extent = |offset, size| Extent { offset, size };
        let expected = [
            (b"/a".to_vec(), vec![extent(0x1000, 0x1000), extent(0x2000, 0x1000)]),
            (b"/b".to_vec(), vec![extent(0, 0x1000), extent(0x3000, 0x1000)]),
        ];
        assert_eq!(parts, Parts::from(expected));
    }

    #[test]
    fn this_process_touched_its_program_and_both_ways_say_so() {
        let me = Pid(std::process::id() as i32);
        let program = std::env::current_exe().unwrap().into_os_string().into_encoded_bytes();
        // Other tests run meanwhile: what the one way saw, the other sees too, and perhaps more.
        let looks = [Way::Scan, Way::Words, Way::Scan].map(|way| {
            let mut extents = look(me, way).unwrap().remove(&program).unwrap();
            merge(&mut extents);
            extents
        });
        let bytes = looks.each_ref().map(|extents| extents.iter().map(|extent| extent.size).sum::<u64>());
        assert!(bytes[0] > 0 && bytes.is_sorted(), "{looks:?}");
        assert!(looks.iter().flatten().all(|extent| (extent.offset | extent.size) % page_size() == 0));
        assert_eq!(look(Pid(i32::MAX), Way::Scan), None);
    }
}
