//! Changes that a forecast tries: a script or a client's rules with something changed.

use crate::image::FROM_IMAGE;
use crate::parameters::ClientRules;
use crate::question::StartChanges;
use crate::workload::{Act, Deed, NameId, StartScript};
use std::collections::HashMap;

/// A script with fewer misses and files. What was computed stays, and so does the data of gathered files: it is read from the
/// file that they are gathered into.
pub(crate) fn script(script: &StartScript, changes: &StartChanges) -> StartScript {
    let mut misses = EvenShare::new(changes.fewer_misses);
    // The first file is left, for the others to be gathered into.
    let mut files = EvenShare { due: -changes.fewer_files, ..EvenShare::new(changes.fewer_files) };
    let mut names = script.names.clone();
    let mut carried = 0.0;
    let mut kept = Vec::with_capacity(script.acts.len());
    for act in &script.acts {
        let drops = match (act.absent, subject(script, act)) {
            (true, _) => last_name(script, act).is_some_and(|name| misses.takes(name)),
            (false, Some(name)) => files.takes(name),
            (false, None) => false,
        };
        match (drops, act.deed) {
            (true, Deed::Read(name, ..) | Deed::Touch(name, ..)) => names[name.0 as usize].is_gathered = true,
            (true, _) => {
                carried += act.think;
                continue;
            }
            (false, _) => {}
        }
        kept.push(Act { think: act.think + std::mem::take(&mut carried), ..act.clone() });
    }
    StartScript { acts: kept, names, tail: script.tail + carried, ..script.clone() }
}

/// The last name of an act's walk: of an absent path, the one that is not there.
fn last_name(script: &StartScript, act: &Act) -> Option<NameId> {
    act.walk.clone().last().and_then(|at| script.walks.get(at as usize).copied())
}

/// The file that an act is about; `None` for directories.
fn subject(script: &StartScript, act: &Act) -> Option<NameId> {
    let name = match act.deed {
        Deed::Stat(name)
        | Deed::Open(name)
        | Deed::Read(name, ..)
        | Deed::Touch(name, ..)
        | Deed::Close(name)
        | Deed::Tell(name)
        | Deed::ReadLink(name) => Some(name),
        Deed::Find => last_name(script, act),
        Deed::OpenDirectory(_) | Deed::List(_) | Deed::Ask(_) => None,
    };
    name.filter(|name| {
        script.names.get(name.0 as usize).is_some_and(|facts| !facts.is_directory && !facts.is_top)
    })
}

/// Takes a share of the names that come by, evenly: each once and for all.
struct EvenShare {
    share: f64,
    due: f64,
    decided: HashMap<NameId, bool>,
}

impl EvenShare {
    fn new(share: f64) -> Self {
        Self { share, due: 0.0, decided: HashMap::new() }
    }

    fn takes(&mut self, name: NameId) -> bool {
        let Self { share, due, decided } = self;
        *decided.entry(name).or_insert_with(|| {
            *due += *share;
            let takes = *due >= 1.0 - 1e-9;
            *due -= f64::from(u8::from(takes));
            takes
        })
    }
}

/// A client's rules, changed. An open that asks no server has nothing that a lookup could be joined with.
pub(crate) fn rules(rules: ClientRules, changes: &StartChanges) -> ClientRules {
    if changes.image.is_some() {
        return FROM_IMAGE;
    }
    if changes.once_a_node {
        return ClientRules {
            readdir_fills: rules.readdir_fills,
            layout_asks: rules.layout_asks,
            ..ClientRules::KEPT
        };
    }
    let negative = match changes.keeps_absences {
        true => rules.negative.max(rules.directory).max(rules.positive),
        false => rules.negative,
    };
    let atomic_open = rules.atomic_open || (changes.atomic_open && rules.open_asks);
    ClientRules { negative, atomic_open, ..rules }
}
