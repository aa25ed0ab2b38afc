//! Files that programs of one node asked for while another one gathered them: they were not there, and the user may not expect that.

use crate::containers::{container_in, containers_in};
use crate::printer::Printer;
use quell_base::files::is_anothers;
use quell_base::number::counted;
use quell_base::{escape, shown};
use quell_mount::GatherEnd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// Names a file of another node's container that programs of this node did not find.
pub(super) fn tell(directory: &Path, end: &GatherEnd, job: &str, printer: Printer) {
    let mut absent: BTreeSet<&[u8]> = end.absent.iter().map(|path| &path[..]).collect();
    let asked = absent.len();
    if asked == 0 {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(CWD, directory, flags, Mode::empty()) else { return };
    let mut first = None;
    // Another user's is none of this job, and could be long.
    let is_own = |name: &OsString| {
        let stat = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| !is_anothers(&stat))
    };
    let is_other = |name: &&OsString| !end.container.ends_with(&*shown(name)) && is_own(name);
    for name in containers_in(&opened).unwrap_or_default().iter().filter(is_other).take(MOST) {
        let Ok(open) = container_in(&opened, directory, name) else { continue };
        let contents = &open.container.contents;
        for (path, _) in contents.paths().iter().filter(|(_, id)| contents.begin.job == job && id.is_some()) {
            if absent.remove(&path[..]) {
                first.get_or_insert_with(|| (escape(path), shown(name)));
            }
        }
    }
    let Some((path, container)) = first else { return };
    let more = match asked - absent.len() {
        1 => String::new(),
        several => format!(" and {}", counted(several as u64 - 1, "further name")),
    };
    printer.warn(&format!("programs of this node asked for `{path}`{more} and did not find it: `{container}` of another node has it"));
    printer.hint("nodes see each other's gathered files in the next run; a pattern, as in `--gather 'DIR/rank-*'`, leaves other names shared");
}

/// Containers that are looked into: a job may have thousands, and one example tells enough.
const MOST: usize = 16;
