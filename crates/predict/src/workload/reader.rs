//! A recording as a script.
//!
//! Calls are taken in the order in which they ended, as one thread of acts: what ran beside it is not seen. Think time
//! is what lies between two acts, work on local file systems included, less what the recorder itself cost (see
//! [`super::overhead`]). Where the tree lay on a local disk when it was recorded, the calls on it were computing too;
//! where it was served by a network, the model puts its own time in their place.

use super::deeds::{ActSubject, bytes_of, deed, follows, maps, pages};
use super::mapped::Mapped;
use super::overhead::Overhead;
use super::positions::Positions;
use super::presence::{cut_walks, mark_directories};
use super::script::{Act, Deed, NameFacts, StartScript};
use super::tree::{Roots, TreeName, WorkloadTree};
use quell_trace::{Event, Nanos, PathId, ProcessId, Recording, ThreadId, TraceError};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

impl StartScript {
    /// Reads a recording. `is_there` is asked which directories exist where the recording does not tell (a path was
    /// absent, and no call asked for the directories on the way); `None` is "cannot tell", and then they do.
    ///
    /// # Errors
    /// Those of [`Recording::for_each_event`].
    pub fn of(
        recording: &Recording,
        roots: &Roots,
        is_there: &dyn Fn(&[u8]) -> Option<bool>,
    ) -> Result<Self, TraceError> {
        let overhead = Overhead::of(recording)?;
        let mut reader = ScriptReader::new(recording, roots, overhead)?;
        recording.for_each_event(|event| reader.event(event))?;
        Ok(reader.finish(is_there))
    }
}

/// A script that is being read.
#[derive(Debug)]
pub(super) struct ScriptReader<'a> {
    recording: &'a Recording,
    tree: WorkloadTree<'a>,
    script: StartScript,
    overhead: Overhead,
    walks: HashMap<(Option<PathId>, PathId, bool), std::ops::Range<u32>>,
    positions: Positions,
    mapped: Mapped,
    /// Unit: bytes.
    sizes: HashMap<PathId, u64>,
    /// The end of the last call whose time has been passed on.
    since: Nanos,
    /// The recorder's cost since the last act. Unit: seconds.
    cost: f64,
    /// The same of the whole recording.
    whole_cost: f64,
    events: u64,
    last_end: Nanos,
    /// The thread of the last call on the tree, and its end.
    last_on_tree: Option<(ProcessId, ThreadId, Nanos)>,
}

impl<'a> ScriptReader<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        roots: &Roots,
        overhead: Overhead,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            recording,
            tree: WorkloadTree::new(&recording.paths, &recording.context, roots),
            script: StartScript::default(),
            overhead,
            walks: HashMap::new(),
            positions: Positions::default(),
            mapped: Mapped::of(recording)?,
            sizes: recording.context.files.iter().map(|file| (file.path, file.size)).collect(),
            since: Nanos(0),
            cost: 0.0,
            whole_cost: 0.0,
            events: 0,
            last_end: Nanos(0),
            last_on_tree: None,
        })
    }

    pub(super) fn event(&mut self, event: &Event) {
        let cost = self.overhead.of_call(event);
        self.cost += cost;
        self.whole_cost += cost;
        self.events += 1;
        self.last_end = self.last_end.max(event.end());
        let position = self.positions.follow(event);
        let paths = &self.recording.paths;
        let Some(target) = event.target.filter(|target| self.tree.holds(paths.bytes(*target))) else {
            return self.pass(event);
        };
        self.count_beside(event);
        if event.call.class().is_metadata() {
            self.script.calls += 1;
        }
        let Some(name) = self.tree.name(self.recording.paths.bytes(target)) else { return };
        let walk = self.walk(event, target);
        let last = walk.clone().last().map(|at| self.script.walks[at as usize]);
        let is_new = !self.tree.names[name.0 as usize].exists;
        let size = self.sizes.get(&target).copied();
        let mut deeds = Vec::from_iter(deed(event, ActSubject { name, last, is_new, position }));
        if maps(event) {
            deeds.extend(self.mapped.deeds(target, name, size.unwrap_or(0)));
        }
        let known = &mut self.tree.names[name.0 as usize];
        known.exists |= event.outcome.errno().is_none();
        known.is_directory |= matches!(deeds.first(), Some(Deed::OpenDirectory(_)));
        known.pages = size.map(|size| pages(0, size).end);
        let absent = event.outcome.errno().is_some_and(quell_trace::Errno::is_absence);
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

    /// Computing since the last act, and what of this call was computing. A call that is left out takes its part of the recorder's
    /// cost with it.
    fn think(&mut self, event: &Event) -> f64 {
        let was_network = self.tree.was_network(event.file_system);
        let (until, left_out) =
            if was_network { (event.start, self.overhead.within(event)) } else { (event.end(), 0.0) };
        let gap = until.since(self.since).as_seconds() - (self.cost - left_out);
        self.since = self.since.max(event.end());
        self.cost = 0.0;
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

    /// The begin of a relative path: as many names above its target as it has.
    fn base(&self, target: PathId, path: &[u8]) -> Vec<u8> {
        let mut base = self.recording.paths.bytes(target).to_vec();
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        for _ in names {
            base.truncate(base.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
        }
        base
    }

    pub(super) fn finish(mut self, is_there: &dyn Fn(&[u8]) -> Option<bool>) -> StartScript {
        mark_directories(&self.script, &mut self.tree);
        cut_walks(&mut self.script, &mut self.tree, is_there);
        let whole = self.recording.header.seconds.unwrap_or_else(|| self.last_end.as_seconds());
        let rest = whole.max(self.last_end.as_seconds()) - self.since.as_seconds();
        self.script.tail = (rest - self.cost).max(0.0);
        self.script.overhead = self.whole_cost / self.events.max(1) as f64;
        let facts = |name: &TreeName| {
            let TreeName { parent, is_link, exists, is_top, is_directory, pages, .. } = *name;
            let mut hasher = DefaultHasher::new();
            name.path.hash(&mut hasher);
            let path = Some(hasher.finish());
            NameFacts { parent, is_link, exists, is_top, is_directory, is_gathered: false, path, pages }
        };
        self.script.names = self.tree.names.iter().map(facts).collect();
        self.script
    }
}
