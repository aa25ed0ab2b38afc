//! A recording as a script: what a rank does on the shared file system, one act after the other, and how long it
//! computes before each.
//!
//! Calls are taken in the order in which they ended, as one thread of acts: what ran beside it is not seen. Think time
//! is what lies between two acts, work on local file systems included, less what the recorder itself cost (see
//! [`super::overhead`]). Where the tree lay on a local disk when it was recorded, the calls on it were computing too;
//! where it was served by a network, the model puts its own time in their place.

use super::overhead::Overhead;
use super::tree::{NameId, Roots, Tree};
use crate::Operation;
use quell_trace::flags::{AT_SYMLINK_NOFOLLOW, MAP_ANONYMOUS, O_CREAT, O_DIRECTORY, O_NOFOLLOW};
use quell_trace::{
    Call, Class, Event, Fd, Nanos, Outcome, PathId, ProcessId, Recording, ThreadId, TraceError,
};
use std::collections::HashMap;

/// One thing that a rank does on the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// Computing before it. Unit: seconds.
    pub think: f64,
    /// The names that its path leads over, as a range of [`Script::walks`].
    pub walk: std::ops::Range<u32>,
    /// Whether the last of them is absent.
    pub absent: bool,
    /// Bytes that it reads or writes.
    pub bytes: f64,
    /// What is done at the end of the path, or to an open file.
    pub deed: Deed,
}

/// What is done at the end of a path, or to an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing but finding it.
    Find,
    /// Its attributes.
    Stat(NameId),
    /// Opening it.
    Open(NameId),
    /// Opening it to list it.
    OpenDirectory(NameId),
    /// Reading a link.
    ReadLink(NameId),
    /// Listing it.
    List(NameId),
    /// Reading of it; the windows of [`WINDOW`] bytes from the first to before the last.
    Read(NameId, u32, u32),
    /// Closing it.
    Close(NameId),
    /// A call on it that the client answers by itself: in its kernel at once, in a daemon after a while.
    Tell(NameId),
    /// What a server is always asked for.
    Ask(Operation),
}

/// Unit in which a client fetches data: what the kernel reads ahead. Unit: bytes. Source: `read_ahead_kb` is 128
/// on Linux unless somebody changed it.
pub const WINDOW: u64 = 128 << 10;

/// What a rank does.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Shape: in order.
    pub acts: Vec<Act>,
    /// Names of the paths of all acts.
    pub walks: Vec<NameId>,
    /// Of each name: whether it is the top of a tree, and whether it is a directory.
    pub names: Vec<Facts>,
    /// Computing behind the last act. Unit: seconds.
    pub tail: f64,
    /// Metadata calls on the tree, as the program made them.
    pub calls: u64,
    /// Calls on the tree that began while another thread or process of the rank was in one: the script has them one after the
    /// other.
    pub beside: u64,
    /// What the recorder cost, which think times no longer hold. Unit: seconds a call.
    pub overhead: f64,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The directory that it lies in, as long as that is on the tree.
    pub parent: Option<NameId>,
    /// It is a symbolic link.
    pub is_link: bool,
    /// It was there at some time.
    pub exists: bool,
    /// No lookup leads to it.
    pub is_top: bool,
    /// Something lies in it, or it was listed.
    pub is_directory: bool,
    /// Its data lies in another file, which was opened before: nobody asks where.
    pub is_gathered: bool,
}

impl Script {
    /// Computing and local work of one rank. Unit: seconds.
    pub fn think(&self) -> f64 {
        self.acts.iter().map(|act| act.think).sum::<f64>() + self.tail
    }

    /// Makes computing take `seconds` in all, in the proportions of the recording.
    pub fn scale_think(&mut self, seconds: f64) {
        let all = self.think();
        if all > 0.0 {
            self.acts.iter_mut().for_each(|act| act.think *= seconds / all);
            self.tail *= seconds / all;
        } else {
            self.tail = seconds;
        }
    }

    /// Reads a recording. `is_there` is asked which directories exist where the recording does not tell (a path was
    /// absent, and nobody asked for the directories on the way); `None` is "cannot tell", and then they do.
    ///
    /// # Errors
    /// What [`Recording::for_each_event`] meets.
    pub fn of(
        recording: &Recording,
        roots: &Roots,
        is_there: &dyn Fn(&[u8]) -> Option<bool>,
    ) -> Result<Self, TraceError> {
        let overhead = Overhead::of(recording)?;
        let mut reader = Reader::new(recording, roots, overhead)?;
        recording.for_each_event(|event| reader.event(event))?;
        Ok(reader.finish(recording, is_there))
    }
}

struct Reader<'a> {
    recording: &'a Recording,
    tree: Tree<'a>,
    script: Script,
    overhead: Overhead,
    walks: HashMap<(Option<PathId>, PathId, bool), std::ops::Range<u32>>,
    positions: HashMap<(ProcessId, Fd), u64>,
    touched: HashMap<PathId, Vec<(u64, u64)>>,
    looked: bool,
    /// When the last call ended of those whose time has been passed on.
    since: Nanos,
    /// Calls since the last act.
    between: u64,
    last_end: Nanos,
    /// Whose the last call on the tree was, and when it ended.
    last_on_tree: Option<(ProcessId, ThreadId, Nanos)>,
}

impl<'a> Reader<'a> {
    fn new(recording: &'a Recording, roots: &Roots, overhead: Overhead) -> Result<Self, TraceError> {
        let touched = recording.touched()?;
        let mut parts: HashMap<PathId, Vec<(u64, u64)>> = HashMap::new();
        for row in touched.iter().flatten() {
            parts.entry(row.path).or_default().push((row.offset, row.end()));
        }
        Ok(Self {
            recording,
            tree: Tree::new(&recording.paths, &recording.context, roots),
            script: Script { overhead: overhead.a_call, ..Script::default() },
            overhead,
            walks: HashMap::new(),
            positions: HashMap::new(),
            touched: parts,
            looked: touched.is_some(),
            since: Nanos(0),
            between: 0,
            last_end: Nanos(0),
            last_on_tree: None,
        })
    }

    fn event(&mut self, event: &Event) {
        self.between += 1;
        self.last_end = self.last_end.max(event.end());
        let position = self.position(event);
        let paths = &self.recording.paths;
        let Some(target) = event.target.filter(|target| self.tree.holds(paths.bytes(*target))) else {
            return self.pass(event);
        };
        self.count_beside(event);
        if event.call.class().is_metadata() {
            self.script.calls += 1;
        }
        let Some(name) = self.tree.name(self.recording.paths.bytes(target)) else { return };
        let ok = event.outcome.errno().is_none();
        let walk = self.walk(event, target);
        let last = walk.clone().last().map(|at| self.script.walks[at as usize]);
        let deeds = self.deeds(event, target, name, last, position, ok);
        let absent = event.outcome.errno().is_some_and(quell_trace::Errno::is_absence);
        if ok && !absent {
            self.tree.names[name.0 as usize].exists = true;
        }
        let mut walk = Some(walk);
        for deed in deeds {
            let think = self.think(event);
            let walk = walk.take().unwrap_or(0..0);
            self.script.acts.push(Act { think, walk, absent, bytes: bytes_of(deed, event), deed });
        }
    }

    /// Events come in the order in which they ended, so the last one's end is the latest so far.
    fn count_beside(&mut self, event: &Event) {
        let caller = (event.process, event.thread);
        let is_beside =
            |last: (ProcessId, ThreadId, Nanos)| (last.0, last.1) != caller && event.start < last.2;
        self.script.beside += u64::from(self.last_on_tree.is_some_and(is_beside));
        self.last_on_tree = Some((event.process, event.thread, event.end()));
    }

    /// A path that leads over the tree to somewhere else, as a link to the node's own interpreter does.
    fn pass(&mut self, event: &Event) {
        let leads_over = |path: &PathId| self.tree.holds(self.recording.paths.bytes(*path));
        if let Some((_, target)) = event.path.filter(leads_over).zip(event.target) {
            let walk = self.walk(event, target);
            self.script.calls += u64::from(event.call.class().is_metadata());
            let think = self.think(event);
            self.script.acts.push(Act { think, walk, absent: false, bytes: 0.0, deed: Deed::Find });
        }
    }

    /// Computing since the last act, and what of this call was computing.
    fn think(&mut self, event: &Event) -> f64 {
        let was_network = self.tree.was_network(event.file_system);
        let until = if was_network { event.start } else { event.end() };
        let gap = until.since(self.since).as_seconds() - self.overhead.a_call * self.between as f64;
        self.since = self.since.max(event.end());
        self.between = 0;
        gap.max(0.0)
    }

    fn walk(&mut self, event: &Event, target: PathId) -> std::ops::Range<u32> {
        let Some(path) = event.path.filter(|path| !self.recording.paths.bytes(*path).is_empty()) else {
            return 0..0;
        };
        let bytes = self.recording.paths.bytes(path);
        let follow = follows(event);
        let is_absolute = bytes.first() == Some(&b'/');
        let key = ((!is_absolute).then_some(target), path, follow);
        if let Some(known) = self.walks.get(&key) {
            return known.clone();
        }
        let base = if is_absolute { Vec::new() } else { self.base(target, bytes) };
        let names = self.tree.walk(&base, bytes, follow);
        let begin = self.script.walks.len() as u32;
        self.script.walks.extend(names);
        let range = begin..self.script.walks.len() as u32;
        self.walks.insert(key, range.clone());
        range
    }

    /// Where a relative path began: as many names above its target as it has.
    fn base(&self, target: PathId, path: &[u8]) -> Vec<u8> {
        let mut base = self.recording.paths.bytes(target).to_vec();
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        for _ in names {
            base.truncate(base.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
        }
        base
    }

    /// What a call does at the end of its path, or to its open file.
    fn deeds(
        &mut self,
        event: &Event,
        target: PathId,
        name: NameId,
        last: Option<NameId>,
        at: Option<u64>,
        ok: bool,
    ) -> Vec<Deed> {
        let moved = event.bytes_moved().0;
        match (event.call.class(), event.call) {
            (Class::Open, _) if !ok => vec![Deed::Find],
            (Class::Open, _) if event.flags & O_CREAT != 0 && !self.tree.names[name.0 as usize].exists => {
                vec![Deed::Ask(Operation::Create)]
            }
            (Class::Open, _) if event.flags & O_DIRECTORY != 0 => {
                self.tree.names[name.0 as usize].is_directory = true;
                vec![Deed::OpenDirectory(name)]
            }
            (Class::Open, _) => vec![Deed::Open(name)],
            (Class::Exec, _) if ok => self.mapped(target, name, [Deed::Open(name)].to_vec()),
            (Class::Stat, _) if ok => vec![Deed::Stat(last.unwrap_or(name))],
            (Class::ReadLink, _) if ok => vec![Deed::ReadLink(last.unwrap_or(name))],
            (Class::List, _) => match event.outcome {
                Outcome::Success(bytes) if bytes > 0 => vec![Deed::List(name)],
                _ => Vec::new(),
            },
            (Class::Xattr, _) if ok || event.path.is_none() => vec![Deed::Ask(Operation::Getattr)],
            (Class::StatFs, _) => vec![Deed::Ask(Operation::Getattr)],
            (Class::Change, call) if ok => vec![Deed::Ask(change(call))],
            (class, _) if class.is_metadata() => vec![Deed::Find],
            (Class::Read, _) if moved > 0 => {
                let begin = event.offset.and_then(|offset| u64::try_from(offset).ok()).or(at).unwrap_or(0);
                vec![read(name, begin, begin.saturating_add(moved))]
            }
            (Class::Map, _) if ok && event.flags & MAP_ANONYMOUS == 0 => match event.offset {
                // The first mapping of a file stands for all parts that the process touched.
                Some(0) | None => self.mapped(target, name, Vec::new()),
                _ => Vec::new(),
            },
            (Class::Descriptor, Call::Close) if ok => vec![Deed::Close(name)],
            (Class::Descriptor, Call::Ioctl) => vec![Deed::Tell(name)],
            _ => Vec::new(),
        }
    }

    /// Reading what was touched of a mapped file; all of it where nobody looked.
    fn mapped(&mut self, target: PathId, name: NameId, mut deeds: Vec<Deed>) -> Vec<Deed> {
        if let Some(parts) = self.touched.remove(&target) {
            deeds.extend(parts.into_iter().map(|(begin, end)| read(name, begin, end)));
        } else if !self.looked {
            let size = self
                .recording
                .context
                .files
                .iter()
                .find(|file| file.path == target)
                .map_or(0, |file| file.size);
            self.touched.insert(target, Vec::new());
            deeds.extend((size > 0).then(|| read(name, 0, size)));
        }
        deeds
    }

    /// Where in its file a call without an offset reads. Follows what moves that.
    fn position(&mut self, event: &Event) -> Option<u64> {
        let key = (event.process, event.fd);
        match (event.call.class(), event.call, event.outcome) {
            (Class::Open, _, Outcome::Success(fd)) => {
                let fd = Fd(i32::try_from(fd).ok()?);
                self.positions.insert((event.process, fd), 0);
                None
            }
            (Class::Seek, Call::Lseek, Outcome::Success(at)) => {
                self.positions.insert(key, u64::try_from(at).ok()?);
                None
            }
            (Class::Read, _, Outcome::Success(_)) if event.offset.is_none() => {
                let at = self.positions.entry(key).or_default();
                let begin = *at;
                *at = begin.saturating_add(event.bytes_moved().0);
                Some(begin)
            }
            _ => None,
        }
    }

    fn finish(mut self, recording: &Recording, is_there: &dyn Fn(&[u8]) -> Option<bool>) -> Script {
        self.mark_directories();
        self.cut_walks(is_there);
        let whole = recording.header.seconds.unwrap_or_else(|| self.last_end.as_seconds());
        let rest = whole.max(self.last_end.as_seconds()) - self.since.as_seconds();
        self.script.tail = (rest - self.overhead.a_call * self.between as f64).max(0.0);
        let facts = |name: &super::tree::Name| {
            let super::tree::Name { parent, is_link, exists, is_top, is_directory, .. } = *name;
            Facts { parent, is_link, exists, is_top, is_directory, is_gathered: false }
        };
        self.script.names = self.tree.names.iter().map(facts).collect();
        self.script
    }

    /// What lies on the way to something that is there is a directory, or a link.
    fn mark_directories(&mut self) {
        for act in self.script.acts.iter().filter(|act| !act.absent) {
            let walk = &self.script.walks[act.walk.start as usize..act.walk.end as usize];
            let Some((last, way)) = walk.split_last() else { continue };
            self.tree.names[last.0 as usize].exists = true;
            for name in way {
                let name = &mut self.tree.names[name.0 as usize];
                name.exists = true;
                name.is_directory |= !name.is_link;
            }
        }
    }

    /// A walk to an absent name ends at the first directory that is not there.
    fn cut_walks(&mut self, is_there: &dyn Fn(&[u8]) -> Option<bool>) {
        let mut known: HashMap<NameId, bool> = HashMap::new();
        for act in self.script.acts.iter_mut().filter(|act| act.absent) {
            for at in act.walk.start..act.walk.end.saturating_sub(1) {
                let id = self.script.walks[at as usize];
                let name = &mut self.tree.names[id.0 as usize];
                let exists = name.exists
                    || *known.entry(id).or_insert_with(|| is_there(name.path.bytes()).unwrap_or(true));
                if !exists {
                    act.walk.end = at + 1;
                    break;
                }
                name.is_directory = true;
            }
        }
    }
}

/// Bytes that a deed moves: of a call what it moved, of a mapping whole windows.
fn bytes_of(deed: Deed, event: &Event) -> f64 {
    match (deed, event.call.class()) {
        (Deed::Read(..), Class::Read) => event.bytes_moved().0 as f64,
        (Deed::Read(_, first, end), _) => f64::from(end - first) * WINDOW as f64,
        _ => 0.0,
    }
}

fn read(name: NameId, begin: u64, end: u64) -> Deed {
    let window = |at: u64| u32::try_from(at / WINDOW).unwrap_or(u32::MAX - 1);
    Deed::Read(name, window(begin), window(end.saturating_sub(1).max(begin)) + 1)
}

/// Whether a call follows the last name of its path when that is a link.
fn follows(event: &Event) -> bool {
    match event.call.class() {
        Class::Open => event.flags & O_NOFOLLOW == 0,
        Class::ReadLink | Class::Change => false,
        Class::Stat | Class::Access => event.call != Call::Lstat && event.flags & AT_SYMLINK_NOFOLLOW == 0,
        _ => true,
    }
}

/// What a call that changes something asks for.
fn change(call: Call) -> Operation {
    use Call::{
        Link, Linkat, Mkdir, Mkdirat, Mknod, Mknodat, Rename, Renameat, Renameat2, Rmdir, Symlink, Symlinkat,
        Unlink, Unlinkat,
    };
    match call {
        Mkdir | Mkdirat | Mknod | Mknodat | Link | Linkat | Symlink | Symlinkat => Operation::Create,
        Unlink | Unlinkat | Rmdir => Operation::Unlink,
        Rename | Renameat | Renameat2 => Operation::Rename,
        _ => Operation::Getattr,
    }
}
