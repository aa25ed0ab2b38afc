//! The directories to try quell with where nothing lies on a network file system: those that hold what the program asks for.

use crate::{PathCounts, Summary};
use quell_base::shell::quoted;
use quell_trace::ServedBy;
use std::collections::BTreeMap;

/// The directories that an image of this recording would hold, and that a prediction would count, if they lay on a network file
/// system.
///
/// Shape: sorted, none within another, at least two names deep; empty where a network file system or an image served anything, or
/// where the program asked for nothing in such directories. Each is the deepest that holds nine of ten of the operations around
/// it, and holds one of twenty of all.
pub fn local_roots(summary: &Summary) -> Vec<Vec<u8>> {
    if summary.served.network + summary.served.quell > 0 {
        return Vec::new();
    }
    let mut top = AskedDirectory::default();
    for (path, counts) in summary.paths.iter().filter(|(path, counts)| is_ordinary(path, counts)) {
        top.add(path, counts);
    }
    let mut roots = Vec::new();
    top.choose(&mut Vec::new(), 0, top.operations.div_ceil(SMALLEST_SHARE), &mut roots);
    roots
}

/// The same as flags: ` --root DIR` for each, to be pasted; a placeholder where there is none.
pub fn root_flags(roots: &[Vec<u8>]) -> String {
    match roots {
        [] => " --root DIR".to_owned(),
        roots => roots.iter().map(|root| format!(" --root {}", quoted(root))).collect(),
    }
}

fn is_ordinary(path: &[u8], counts: &PathCounts) -> bool {
    let of_the_kernel = [&b"/proc"[..], b"/sys", b"/dev"];
    let is_below = |top: &[u8]| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
    // A log of strace knows no file systems.
    let is_local = matches!(counts.served_by, None | Some(ServedBy::Local));
    is_local && path.starts_with(b"/") && !of_the_kernel.iter().any(|top| is_below(top))
}

/// A directory of the recording, or a file.
#[derive(Default)]
struct AskedDirectory<'a> {
    /// Metadata operations on it and below.
    operations: u64,
    /// Those of them that found something: it is there.
    found: u64,
    parts: BTreeMap<&'a [u8], AskedDirectory<'a>>,
}

impl<'a> AskedDirectory<'a> {
    fn add(&mut self, path: &'a [u8], counts: &PathCounts) {
        let mut directory = self;
        directory.count(counts);
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            directory = directory.parts.entry(name).or_default();
            directory.count(counts);
        }
    }

    fn count(&mut self, counts: &PathCounts) {
        self.operations += counts.metadata_operations;
        self.found += counts.metadata_operations.saturating_sub(counts.missed);
    }

    /// Takes this directory, or goes on with its parts.
    fn choose(&self, path: &mut Vec<u8>, depth: usize, least: u64, roots: &mut Vec<Vec<u8>>) {
        let directories = self.parts.iter().filter(|(_, part)| part.found > 0 && !part.parts.is_empty());
        let holds_nearly_all =
            directories.clone().any(|(_, part)| part.operations * 10 >= self.operations * 9);
        if depth >= SHALLOWEST && !holds_nearly_all {
            return roots.push(path.clone());
        }
        for (name, part) in directories.filter(|(_, part)| part.operations >= least) {
            if holds_nearly_all && part.operations * 10 < self.operations * 9 {
                continue;
            }
            let length = path.len();
            path.push(b'/');
            path.extend_from_slice(name);
            part.choose(path, depth + 1, least, roots);
            path.truncate(length);
        }
    }
}

/// A directory with a smaller part of all operations is none to begin with: 1 in so many.
const SMALLEST_SHARE: u64 = 20;

/// `/usr` and `/home` hold more than a program.
const SHALLOWEST: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, FileSystemCounts};

    fn roots(rows: &[(&str, u64, u64)]) -> Vec<String> {
        let mut summary = Summary::default();
        for (path, operations, missed) in rows {
            let counts = PathCounts {
                metadata_operations: *operations,
                missed: *missed,
                served_by: Some(ServedBy::Local),
                ..PathCounts::default()
            };
            summary.paths.insert(path.as_bytes().into(), counts);
        }
        local_roots(&summary).into_iter().map(|root| String::from_utf8(root).unwrap()).collect()
    }

    #[test]
    fn roots_hold_what_was_asked_for_and_are_deep() {
        let app = [("/opt/app/lib/a.py", 50, 0), ("/opt/app/lib/b.py", 20, 10), ("/opt/app/etc/c", 10, 0)];
        assert_eq!(roots(&app), ["/opt/app"]);
        let system =
            [("/usr/lib/python3/os.py", 60, 0), ("/usr/bin/python3", 2, 0), ("/etc/ld.so.cache", 3, 0)];
        assert_eq!(roots(&system), ["/usr/lib/python3"]);
        assert_eq!(roots(&[&app[..], &system].concat()), ["/opt/app", "/usr/lib/python3"]);
        assert_eq!(
            roots(&[("/usr/lib/x/a", 50, 0), ("/usr/share/y/b", 45, 0), ("/etc/passwd", 5, 0)]),
            ["/usr/lib/x", "/usr/share/y"]
        );
        assert_eq!(roots(&[("/home/u/app.py", 5, 0), ("/home/u/lib/x", 5, 0)]), ["/home/u"]);
    }

    #[test]
    fn what_is_not_there_or_of_the_kernel_is_no_root() {
        assert!(
            roots(&[("/opt/absent/lib/a", 50, 50), ("/proc/self/task/1", 50, 0), ("/etc/passwd", 9, 0)])
                .is_empty()
        );
        assert!(roots(&[]).is_empty());
    }

    #[test]
    fn where_a_network_serves_there_is_no_need_to_choose() {
        let mut summary = Summary::default();
        summary.served.network = 1;
        let key = FileSystem { mount_point: "/lustre".to_owned(), kind: "lustre".to_owned() };
        summary.file_systems.insert(key, FileSystemCounts::default());
        assert!(local_roots(&summary).is_empty());
    }
}
