//! The lifetimes of names, absences, attributes and listings in this client's caches: the second client changes
//! something that this one has just seen, and this one looks until it sees the change.
//!
//! ```text
//! this client   look ............ look look look  look   look ... the new state: kept until about here
//! second client        change
//! ```
//!
//! The lifetime counts from the first look, which fetched what is kept. A change that is seen at once has two possible
//! reasons: nothing was kept, or the server took it back (as Lustre's locks do). Unchanged entries tell these
//! apart: while they are kept, looking at them takes no round trip.

use super::leader::{ClientChoice, Leader, names};
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::{CacheAspect, EntryChange, EntryLook, PhaseTask};
use std::time::{Duration, Instant};

use super::statistics::SampleSummary;

/// The measurements of one kind of answer that a client may keep.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheLifetime {
    /// Of what.
    pub aspect: CacheAspect,
    /// The age at which each change was noticed; 0 where the first look saw it. Unit: seconds since it was fetched.
    pub noticed: Vec<f64>,
    /// Changes that were looked for during half a second or more, and not noticed.
    pub unnoticed: usize,
    /// For how long they were, the shortest of them; 0 where there is none. Unit: seconds since it was fetched.
    pub waited: f64,
    /// The oldest unchanged entry that was still answered without a round trip. Unit: seconds.
    pub kept: f64,
    /// The youngest older one that was asked for again. Unit: seconds.
    pub asked: Option<f64>,
}

/// The result for one lifetime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LifetimeVerdict {
    /// It is asked each time.
    NeverKept,
    /// It is kept for about so many seconds.
    Kept(f64),
    /// It is kept for longer than was waited: so many seconds.
    LongerThan(f64),
    /// It is kept until the server takes it back.
    TakenBack {
        /// At least so long when nothing changes. Unit: seconds.
        least: f64,
        /// And less than this. Unit: seconds.
        most: Option<f64>,
    },
    /// There was no second client, or too little time.
    NotMeasured,
}

impl CacheLifetime {
    /// The result of the measurements together.
    pub fn verdict(&self) -> LifetimeVerdict {
        match SampleSummary::of(self.noticed.iter().copied()) {
            _ if self.unnoticed > self.noticed.len() => LifetimeVerdict::LongerThan(self.waited),
            None => LifetimeVerdict::NotMeasured,
            Some(noticed) if self.kept > noticed.p50.max(AT_ONCE) * TWICE => {
                LifetimeVerdict::TakenBack { least: self.kept, most: self.asked }
            }
            Some(noticed) if noticed.p50 < AT_ONCE => LifetimeVerdict::NeverKept,
            Some(noticed) => LifetimeVerdict::Kept(noticed.p50),
        }
    }
}

/// A change that is seen within so many seconds was not kept by time: no client's lifetimes are as short.
const AT_ONCE: f64 = 0.05;
/// Entries that are kept for so much longer than a change stays unnoticed are taken back.
const TWICE: f64 = 2.0;

/// An old state that was seen for less tells nothing: clients that keep anything by time keep it for a second or more. Unit:
/// seconds.
const LEAST: f64 = 0.5;

/// Entries of each aspect that are changed.
const CHANGED: usize = 3;
/// The ages at which unchanged entries are looked at again, one each. Unit: seconds.
const AGES: [f64; 18] =
    [0.02, 0.1, 0.3, 0.6, 0.9, 1.1, 1.5, 2.0, 2.8, 3.2, 4.0, 4.8, 7.0, 15.0, 28.0, 32.0, 45.0, 62.0];
/// A look that takes less than this part of an idle request is answered here.
const OWN: f64 = 1.0 / 3.0;
/// Looks are so far apart: this part of the time that has passed, within limits.
const PACE: f64 = 0.02;
const FASTEST: Duration = Duration::from_millis(5);
const SLOWEST: Duration = Duration::from_millis(250);

/// Every aspect. Shape: in the order of tables.
const ASPECTS: [CacheAspect; 5] = [
    CacheAspect::Name,
    CacheAspect::Absence,
    CacheAspect::DirectoryName,
    CacheAspect::Attributes,
    CacheAspect::Listing,
];

const STEP: &str = "what the client keeps, and how long";

/// One lifetime for each aspect; nothing without a second client, or without time.
pub(super) fn run(leader: &mut Leader<'_>) -> Result<Vec<CacheLifetime>, CalibrateError> {
    if leader.others.is_empty() || !leader.begins(STEP, 0.0) {
        return Ok(Vec::new());
    }
    let mut watched = Vec::new();
    for aspect in ASPECTS {
        watched.extend(entries(leader, aspect)?);
    }
    for entry in &mut watched {
        entry.fetch(leader)?;
    }
    for entry in watched.iter().filter(|entry| entry.again.is_none()) {
        leader.change(EntryChange { entry: entry.path.clone(), of: entry.aspect })?;
    }
    let wait = leader.bounds.cache_wait.min(leader.left());
    watch(leader, &mut watched, wait)?;
    let lifetimes = ASPECTS.map(|aspect| lifetime(aspect, &watched));
    let is_told = |lifetime: &CacheLifetime| lifetime.verdict() != LifetimeVerdict::NotMeasured;
    if !lifetimes.iter().all(is_told) && leader.begins(STEP, 1.0) {
        leader.notes.push(format!("{STEP}: not told of everything, the wait for it was too short"));
    }
    Ok(lifetimes.into())
}

/// An entry, and what was seen of it.
struct WatchedEntry {
    aspect: CacheAspect,
    path: String,
    /// Of an unchanged entry: at which age it is looked at again. Unit: seconds.
    again: Option<f64>,
    fetched: Instant,
    /// The state that the first look saw.
    first: u64,
    /// The age at the last look that still saw the old state. Unit: seconds.
    old: f64,
    outcome: Option<CacheOutcome>,
}

#[derive(Clone, Copy)]
enum CacheOutcome {
    /// The change was noticed at this age.
    Noticed(f64),
    /// An unchanged entry of this age was answered here, or not.
    Answered { age: f64, here: bool },
}

/// The entries of an aspect, each in a directory of its own: a change of a directory may take back what a client
/// keeps of everything in it.
fn entries(leader: &mut Leader<'_>, aspect: CacheAspect) -> Result<Vec<WatchedEntry>, CalibrateError> {
    let longest = leader.bounds.cache_wait.as_secs_f64();
    let ages = AGES.into_iter().filter(|age| *age <= longest).map(Some);
    let mut entries = Vec::new();
    for again in std::iter::repeat_n(None, CHANGED).chain(ages) {
        let directory = leader.directory(ClientChoice::Second)?;
        let made = match aspect {
            CacheAspect::Name | CacheAspect::Attributes => Some(LoadOperation::Create),
            CacheAspect::DirectoryName | CacheAspect::Listing => Some(LoadOperation::MakeDirectory),
            CacheAspect::Absence => None,
        };
        if let Some(operation) = made {
            leader.prepare(ClientChoice::Second, names(operation, &directory, "e", 0, 1))?;
        }
        let path = format!("{directory}/e000000");
        entries.push(WatchedEntry {
            aspect,
            path,
            again,
            fetched: Instant::now(),
            first: 0,
            old: 0.0,
            outcome: None,
        });
    }
    Ok(entries)
}

impl WatchedEntry {
    /// The state that is seen, and true if this client answered by itself.
    fn look(&self, leader: &mut Leader<'_>) -> Result<(u64, bool), CalibrateError> {
        let done = leader.one(
            ClientChoice::Ours,
            PhaseTask::Look(EntryLook { entry: self.path.clone(), at: self.aspect }),
        )?;
        let took_us = done.latencies.first().map_or(f64::INFINITY, |nanoseconds| *nanoseconds as f64 / 1e3);
        let here = leader.idle_us().is_some_and(|idle| took_us < OWN * idle.p50);
        Ok((done.seen, here))
    }

    fn age(&self) -> f64 {
        self.fetched.elapsed().as_secs_f64()
    }

    /// True if its change was looked for long enough, and not seen.
    fn is_unnoticed(&self) -> bool {
        self.again.is_none() && self.outcome.is_none() && self.old >= LEAST
    }

    fn fetch(&mut self, leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
        self.fetched = Instant::now();
        self.first = self.look(leader)?.0;
        Ok(())
    }

    /// One more look, if it is time for one.
    fn observe(&mut self, leader: &mut Leader<'_>) -> Result<(), CalibrateError> {
        let age = self.age();
        if self.outcome.is_some() || self.again.is_some_and(|again| age < again) {
            return Ok(());
        }
        let (seen, here) = self.look(leader)?;
        match self.again {
            Some(_) => self.outcome = Some(CacheOutcome::Answered { age, here }),
            // Of the time between the last look that saw the old state and this one the middle.
            None if seen != self.first => {
                let noticed = if self.old == 0.0 { 0.0 } else { (self.old + age) / 2.0 };
                self.outcome = Some(CacheOutcome::Noticed(noticed));
            }
            None => self.old = age,
        }
        Ok(())
    }
}

fn watch(
    leader: &mut Leader<'_>,
    watched: &mut [WatchedEntry],
    wait: Duration,
) -> Result<(), CalibrateError> {
    let began = Instant::now();
    let is_waited_for = |entry: &WatchedEntry| match entry.again {
        Some(again) => entry.outcome.is_none() && again < wait.as_secs_f64(),
        None => entry.outcome.is_none(),
    };
    while began.elapsed() < wait && watched.iter().any(is_waited_for) {
        leader.begins(STEP, began.elapsed().as_secs_f64() / wait.as_secs_f64().max(1e-3));
        for entry in watched.iter_mut() {
            entry.observe(leader)?;
        }
        leader.sleep(began.elapsed().mul_f64(PACE).clamp(FASTEST, SLOWEST))?;
    }
    Ok(())
}

fn lifetime(aspect: CacheAspect, watched: &[WatchedEntry]) -> CacheLifetime {
    let own = || watched.iter().filter(|entry| entry.aspect == aspect);
    let noticed = own().filter_map(|entry| match entry.outcome {
        Some(CacheOutcome::Noticed(age)) => Some(age),
        _ => None,
    });
    let answered = |wanted: bool| {
        own().filter_map(move |entry| match entry.outcome {
            Some(CacheOutcome::Answered { age, here }) if here == wanted => Some(age),
            _ => None,
        })
    };
    let unnoticed = || own().filter(|entry| entry.is_unnoticed()).map(|entry| entry.old);
    let kept = answered(true).fold(0.0, f64::max);
    CacheLifetime {
        aspect,
        noticed: noticed.collect(),
        unnoticed: unnoticed().count(),
        waited: unnoticed().min_by(f64::total_cmp).unwrap_or(0.0),
        kept,
        asked: answered(false).filter(|age| *age > kept).min_by(f64::total_cmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(old: f64, outcome: Option<CacheOutcome>) -> WatchedEntry {
        let (aspect, path, fetched) = (CacheAspect::Name, String::new(), Instant::now());
        WatchedEntry { aspect, path, again: None, fetched, first: 1, old, outcome }
    }

    #[test]
    fn a_change_that_was_not_looked_for_says_nothing_of_a_lifetime() {
        let never = [changed(0.0, None), changed(0.0, None), changed(LEAST / 2.0, None)];
        assert_eq!(lifetime(CacheAspect::Name, &never).verdict(), LifetimeVerdict::NotMeasured);
        let long = [changed(2.0, None), changed(2.5, None), changed(0.0, None)];
        assert_eq!(lifetime(CacheAspect::Name, &long).verdict(), LifetimeVerdict::LongerThan(2.0));
        let seen = [changed(0.9, Some(CacheOutcome::Noticed(1.0))), changed(0.0, None)];
        assert_eq!(lifetime(CacheAspect::Name, &seen).verdict(), LifetimeVerdict::Kept(1.0));
    }

    #[test]
    fn what_was_noticed_and_what_was_kept_mean_something_together() {
        let lifetime = |noticed: &[f64], unnoticed, kept| CacheLifetime {
            aspect: CacheAspect::Name,
            noticed: noticed.to_vec(),
            unnoticed,
            waited: 5.0,
            kept,
            asked: (kept > 0.0).then_some(4.8),
        };
        for (lifetime, verdict) in [
            (lifetime(&[0.0, 0.0, 0.0], 0, 0.0), LifetimeVerdict::NeverKept),
            (lifetime(&[0.98, 1.0, 1.02], 0, 0.8), LifetimeVerdict::Kept(1.0)),
            (lifetime(&[], 3, 4.0), LifetimeVerdict::LongerThan(5.0)),
            (lifetime(&[0.0, 0.0, 0.0], 0, 4.0), LifetimeVerdict::TakenBack { least: 4.0, most: Some(4.8) }),
            (lifetime(&[], 0, 0.0), LifetimeVerdict::NotMeasured),
        ] {
            assert_eq!(lifetime.verdict(), verdict, "{lifetime:?}");
        }
    }
}
