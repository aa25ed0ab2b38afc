//! The knowledge of one client: names, absences, attributes, places of data, data. After the kernel's name cache as FUSE, NFS and
//! Lustre clients use it.
//!
//! Source: `path_resolution(7)`; `fs/namei.c`, `fs/fuse/dir.c`, `fs/fuse/readdir.c` of Linux 6.

use super::alike::{Alike, KINDS, KeptAnswer, lives};
use super::readahead;
use super::script::{Act, Deed, NameFacts, StartScript};
use super::tree::NameId;
use super::windows::Windows;
use crate::ServerOperation;
use crate::parameters::ClientRules;
use std::collections::VecDeque;
use std::ops::Range;

/// A client's knowledge of one name.
#[derive(Clone, Debug)]
struct KnownName {
    /// Absent, where it knows anything.
    is_absent: bool,
    /// The client has had an answer about the name at some time.
    was_answered: bool,
    /// Since when the name is known. Range: below any time before the first answer, as in the other two.
    name: f64,
    /// Since when its attributes are known.
    attributes: f64,
    /// Since when what the link holds is known.
    link: f64,
    /// Since when its entries are known.
    listed: f64,
    /// Until when an open is told and not waited for. Range: below 0 where there was no lookup since the last open.
    rides: f64,
    /// Attributes are asked again: it was read.
    is_spoiled: bool,
    /// The place of its data is known.
    has_place: bool,
    /// Pages of its data.
    windows: Windows,
    /// The first answer about the name is on its way, and comes then.
    answer: f64,
    /// So is data of it.
    data: f64,
}

impl Default for KnownName {
    fn default() -> Self {
        Self {
            is_absent: false,
            was_answered: false,
            name: f64::NEG_INFINITY,
            attributes: f64::NEG_INFINITY,
            link: f64::NEG_INFINITY,
            listed: f64::NEG_INFINITY,
            rides: -1.0,
            is_spoiled: false,
            has_place: false,
            windows: Windows::default(),
            answer: 0.0,
            data: 0.0,
        }
    }
}

/// A client's caches.
#[derive(Clone, Debug)]
pub(super) struct Caches<'a> {
    script: &'a StartScript,
    rules: ClientRules,
    /// Lifetimes by [`KeptAnswer`].
    lives: [f64; KINDS],
    /// For which other rules all answers would have been the same.
    pub(super) alike: Alike,
    known: Vec<KnownName>,
    /// Names that are kept, by when they were learnt, where their number is limited. One that was learnt again is there twice.
    kept: VecDeque<(NameId, f64)>,
    kept_names: usize,
    /// Names in each directory. Shape: one entry a name.
    children: Vec<Vec<NameId>>,
}

/// The next need of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ProcessNeed {
    /// A request of its own.
    Request(ServerOperation, CacheEffect),
    /// The client's own answer, and perhaps a request that no process waits for.
    Own(Option<ServerOperation>),
    /// An answer that another process of the node waits for already.
    Answer { at: f64, of: ServerOperation },
    /// Nothing: the act is done.
    Nothing,
}

/// The effect of an answer on the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheEffect {
    Name(NameId, bool),
    Attributes(NameId),
    Link(NameId),
    Listed(NameId),
    Place(NameId),
    Windows(NameId, u32, u32),
    /// Found and opened at once.
    Opened(NameId),
    None,
}

/// The progress of a process within an act.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActProgress {
    /// Steps that are done: names of the walk, then those of the deed.
    pub(super) step: u32,
    /// A link of this step has been looked up, and is to be read.
    pub(super) link: bool,
}

impl ActProgress {
    /// An answer ends a step, but reading goes on until all windows are there, and a link on the way is read after its lookup.
    pub(super) fn answered(&mut self, effect: CacheEffect, act: &Act, script: &StartScript) {
        match effect {
            CacheEffect::Name(name, false)
                if self.step < act.walk.len() as u32 && script.names[name.0 as usize].is_link =>
            {
                self.link = true;
            }
            CacheEffect::Place(_) | CacheEffect::Windows(..) => {}
            _ => *self = Self { step: self.step + 1, link: false },
        }
    }
}

impl<'a> Caches<'a> {
    pub(super) fn new(script: &'a StartScript, rules: ClientRules) -> Self {
        let mut children = vec![Vec::new(); script.names.len()];
        for (number, facts) in script.names.iter().enumerate() {
            if let Some(parent) = facts.parent.filter(|_| facts.exists) {
                children[parent.0 as usize].push(NameId(number as u32));
            }
        }
        Self {
            script,
            rules,
            lives: lives(&rules),
            alike: Alike::default(),
            known: vec![KnownName::default(); script.names.len()],
            kept: VecDeque::new(),
            kept_names: 0,
            children,
        }
    }

    /// True if an answer of that time is still kept.
    fn keeps(&mut self, kept: KeptAnswer, since: f64, now: f64) -> bool {
        let is_young = now < since + self.lives[kept as usize];
        self.alike.decided(kept, now - since, is_young);
        is_young
    }

    /// True if the client still knows about a name, be it absent or not.
    fn keeps_name(&mut self, name: NameId, now: f64) -> bool {
        let known = &self.known[name.0 as usize];
        let kept = match (known.is_absent, self.facts(name).is_directory) {
            (true, _) => KeptAnswer::Absence,
            (false, true) => KeptAnswer::Directory,
            (false, false) => KeptAnswer::Name,
        };
        known.was_answered && self.keeps(kept, known.name, now)
    }

    fn facts(&self, name: NameId) -> NameFacts {
        self.script.names[name.0 as usize]
    }

    /// The next thing that a process needs for an act. Steps that the caches answer are passed over.
    pub(super) fn need(&mut self, act: &Act, progress: &mut ActProgress, now: f64) -> ProcessNeed {
        let walk = act.walk.len() as u32;
        while progress.step < walk {
            let need = self.walk_step(act, progress, now);
            if need != ProcessNeed::Nothing {
                return need;
            }
            progress.step += 1;
            progress.link = false;
        }
        self.deed_step(act, progress, now)
    }

    fn walk_step(&mut self, act: &Act, progress: &mut ActProgress, now: f64) -> ProcessNeed {
        let name = self.script.walks[(act.walk.start + progress.step) as usize];
        let is_last = progress.step + 1 == act.walk.len() as u32;
        let is_absent = is_last && act.absent;
        let facts = self.facts(name);
        if facts.is_top {
            return self.top(name, now);
        }
        let opens =
            matches!(act.deed, Deed::Open(_) | Deed::Ask(ServerOperation::Create)) && is_last && !is_absent;
        if opens && self.rules.atomic_open {
            return ProcessNeed::Nothing;
        }
        let is_known = self.known[name.0 as usize].is_absent == is_absent && self.keeps_name(name, now);
        if !is_known && !progress.link {
            return self.ask_name(name, is_absent, now);
        }
        if is_absent && self.rules.absences_ask_daemon {
            return ProcessNeed::Own(None);
        }
        let reads_link = facts.is_link && (!is_last || act.deed == Deed::Find);
        if reads_link && !self.keeps(KeptAnswer::Link, self.known[name.0 as usize].link, now) {
            progress.link = true;
            return ProcessNeed::Request(ServerOperation::Readlink, CacheEffect::Link(name));
        }
        ProcessNeed::Nothing
    }

    /// A lookup. Processes that look for a name of which nothing is known wait for the first one's answer; a name whose
    /// time has run out is asked for by each.
    fn ask_name(&mut self, name: NameId, is_absent: bool, now: f64) -> ProcessNeed {
        let known = &self.known[name.0 as usize];
        let of = if is_absent { ServerOperation::LookupAbsent } else { ServerOperation::Lookup };
        match !known.was_answered && known.answer > now {
            true => ProcessNeed::Answer { at: known.answer, of },
            false => ProcessNeed::Request(of, CacheEffect::Name(name, is_absent)),
        }
    }

    /// The top of a tree, on every walk: no lookup leads to it, so its attributes are what a check of permission asks
    /// for. They hold as long as other directories on the way do, or as long as attributes, whichever is longer.
    fn top(&mut self, name: NameId, now: f64) -> ProcessNeed {
        match self.keeps(KeptAnswer::Directory, self.known[name.0 as usize].name, now) {
            true => ProcessNeed::Nothing,
            false => self.attributes(name, now, false),
        }
    }

    /// `all`: with what reading spoils, as `stat` asks for it; without, as a check of permission. What a lookup brought
    /// this moment answers even where nothing is kept.
    fn attributes(&mut self, name: NameId, now: f64, all: bool) -> ProcessNeed {
        let KnownName { attributes: since, is_spoiled, .. } = self.known[name.0 as usize];
        // An answer of this moment holds whatever the lifetime.
        let is_kept = now == since || self.keeps(KeptAnswer::Attributes, since, now);
        match is_kept && !(all && is_spoiled) {
            true => ProcessNeed::Nothing,
            false => ProcessNeed::Request(ServerOperation::Getattr, CacheEffect::Attributes(name)),
        }
    }

    fn deed_step(&mut self, act: &Act, progress: &mut ActProgress, now: f64) -> ProcessNeed {
        let first = progress.step == act.walk.len() as u32;
        let once = |asks: bool, operation, effect| match first && asks {
            true => ProcessNeed::Request(operation, effect),
            false => ProcessNeed::Nothing,
        };
        let or_own = |asks: bool, operation, effect| match first && !asks {
            true => ProcessNeed::Own(None),
            false => once(asks, operation, effect),
        };
        let rules = self.rules;
        match act.deed {
            Deed::Find => ProcessNeed::Nothing,
            Deed::Stat(name) if first => self.attributes(name, now, true),
            Deed::Stat(_) => ProcessNeed::Nothing,
            Deed::Open(name) => {
                let rides = &mut self.known[name.0 as usize].rides;
                if first && rules.open_asks && now <= std::mem::replace(rides, -1.0) {
                    return ProcessNeed::Own(Some(ServerOperation::Open));
                }
                let asks = rules.open_asks || (rules.atomic_open && !self.keeps_name(name, now));
                let effect = if rules.atomic_open { CacheEffect::Opened(name) } else { CacheEffect::None };
                or_own(asks, ServerOperation::Open, effect)
            }
            Deed::OpenDirectory(_) => {
                once(rules.open_directory_asks, ServerOperation::OpenDirectory, CacheEffect::None)
            }
            Deed::ReadLink(name) => {
                let is_known = self.keeps(KeptAnswer::Link, self.known[name.0 as usize].link, now);
                once(!is_known, ServerOperation::Readlink, CacheEffect::Link(name))
            }
            Deed::List(name) => {
                let is_known = self.keeps(KeptAnswer::Listing, self.known[name.0 as usize].listed, now);
                once(!is_known, ServerOperation::Readdir, CacheEffect::Listed(name))
            }
            Deed::Read(name, begin, end) => self.read(name, begin..end, now, |there, missing, pages| {
                readahead::of_call(there, missing, pages)
            }),
            Deed::Touch(name, begin, end) => self.read(name, begin..end, now, |there, missing, pages| {
                readahead::of_touch(there, missing.start, pages)
            }),
            Deed::Close(name) => {
                let asks = rules.close_asks && (!self.facts(name).is_directory || rules.open_directory_asks);
                or_own(asks, ServerOperation::Close, CacheEffect::None)
            }
            Deed::Tell(_) => or_own(false, ServerOperation::Close, CacheEffect::None),
            // A client knows the names that it made, and those that it removed as absent.
            Deed::Ask(operation) => {
                let last = act.walk.clone().last().map(|at| self.script.walks[at as usize]);
                let effect = match (operation, last) {
                    (ServerOperation::Create, Some(name)) => CacheEffect::Opened(name),
                    (ServerOperation::Unlink, Some(name)) => CacheEffect::Name(name, true),
                    _ => CacheEffect::None,
                };
                once(true, operation, effect)
            }
        }
    }

    /// The place of the data, then data, until all pages are there; `fetched` says which ones missing ones bring along.
    fn read(
        &self,
        name: NameId,
        pages: Range<u32>,
        now: f64,
        fetched: impl Fn(&Windows, Range<u32>, Option<u32>) -> Range<u32>,
    ) -> ProcessNeed {
        let (known, facts) = (&self.known[name.0 as usize], self.facts(name));
        let Some(missing) = known.windows.first_missing(pages) else {
            // Data on its way is in the page cache, locked: a process that needs it waits, and sends no request.
            return match known.data > now {
                true => ProcessNeed::Answer { at: known.data, of: ServerOperation::Read },
                false => ProcessNeed::Nothing,
            };
        };
        if self.rules.layout_asks && !known.has_place && !facts.is_gathered {
            return ProcessNeed::Request(ServerOperation::Layout, CacheEffect::Place(name));
        }
        let fetched = fetched(&known.windows, missing, facts.pages);
        ProcessNeed::Request(ServerOperation::Read, CacheEffect::Windows(name, fetched.start, fetched.end))
    }

    /// A request is sent: others may wait for its answer.
    pub(super) fn sent(&mut self, effect: CacheEffect, answer: f64) {
        match effect {
            CacheEffect::Name(name, _) | CacheEffect::Opened(name) => {
                self.known[name.0 as usize].answer = answer
            }
            CacheEffect::Windows(name, begin, end) => {
                let known = &mut self.known[name.0 as usize];
                known.windows.add(begin..end);
                known.data = answer;
            }
            _ => {}
        }
    }

    /// An answer has come.
    pub(super) fn answered(&mut self, effect: CacheEffect, now: f64) {
        let rules = self.rules;
        match effect {
            CacheEffect::Name(name, is_absent) => self.learn(name, is_absent, now, true),
            CacheEffect::Opened(name) => {
                self.learn(name, false, now, true);
                self.known[name.0 as usize].rides = -1.0;
            }
            CacheEffect::Attributes(name) => {
                let is_top = self.facts(name).is_top;
                let known = &mut self.known[name.0 as usize];
                known.attributes = now;
                known.is_spoiled = false;
                if is_top {
                    known.name = now;
                }
            }
            CacheEffect::Link(name) => self.known[name.0 as usize].link = now,
            CacheEffect::Listed(name) => {
                self.known[name.0 as usize].listed = now;
                self.known[name.0 as usize].is_spoiled |= rules.read_spoils_attributes;
                if rules.readdir_fills {
                    for child in std::mem::take(&mut self.children[name.0 as usize]) {
                        self.learn(child, false, now, false);
                        self.children[name.0 as usize].push(child);
                    }
                }
            }
            CacheEffect::Place(name) => self.known[name.0 as usize].has_place = true,
            CacheEffect::Windows(name, ..) => {
                self.known[name.0 as usize].is_spoiled |= rules.read_spoils_attributes
            }
            CacheEffect::None => {}
        }
    }

    /// Forgets the oldest names where one more would be too many.
    fn make_room(&mut self, name: NameId, now: f64) {
        self.kept_names += usize::from(self.known[name.0 as usize].name == f64::NEG_INFINITY);
        self.alike.most_kept = self.alike.most_kept.max(self.kept_names as f64);
        if self.rules.entries.is_infinite() {
            return;
        }
        self.kept.push_back((name, now));
        while self.kept_names as f64 > self.rules.entries {
            let Some((oldest, since)) = self.kept.pop_front() else { return };
            let known = &mut self.known[oldest.0 as usize];
            if known.name == since && oldest != name {
                (known.name, known.attributes) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
                self.kept_names -= 1;
            }
        }
    }

    fn learn(&mut self, name: NameId, is_absent: bool, now: f64, is_lookup: bool) {
        let rides = self.rules.open_rides;
        self.make_room(name, now);
        let known = &mut self.known[name.0 as usize];
        known.was_answered = true;
        known.is_absent = is_absent;
        known.name = now;
        known.attributes = now;
        known.is_spoiled = false;
        known.has_place |= is_lookup;
        if is_lookup && rides > 0.0 {
            known.rides = now + rides;
        }
    }
}
