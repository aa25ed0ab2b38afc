//! What-ifs: a script, a client's rules or a node's demand with something changed.

use crate::parameters::ClientRules;
use crate::question::{Changes, Image};
use crate::workload::{Act, Deed, Demand, NameId, Script, Segment, WINDOW, Windows};
use crate::{Operation, Parameters, PerOperation};
use std::collections::HashMap;

/// Entering the mount, a process. Measured by `bench/launch.sh`. Unit: seconds.
const ENTERING: f64 = 0.003;

/// What the image's server takes to answer one request on the node. Measured by `bench/run.sh`: the first process of a node
/// takes 0.2 s more than a further one, for some 4700 requests; a further one 0.1 s more than from a local disk, for some 2900
/// calls on open files. Unit: seconds.
const ANSWERING: f64 = 40e-6;

/// Requests of a node's processes for the image itself, as the rig's server counted them: the first looks the name up, opens it and
/// asks for its attributes; each further one that starts with it looks at the name, and where names are kept more than
/// half of them do so before the first has an answer.
fn requests(rules: &ClientRules, processes: f64) -> PerOperation {
    let keeps = rules.positive > 0.0;
    let further = (processes - 1.0).max(0.0);
    let mut asks = PerOperation::default();
    asks.add(Operation::Lookup, if keeps { 1.0 } else { 2.0 } + further * if keeps { 0.6 } else { 1.0 });
    asks.add(Operation::Open, 1.0);
    asks.add(Operation::Getattr, 1.0);
    asks
}

/// A part of an image that is passed on while the next one arrives. Unit: bytes.
const PASSED_ON: f64 = 1048576.0;

/// A script with fewer misses and files. What was computed stays.
pub(crate) fn script(script: &Script, changes: &Changes) -> Script {
    let (mut misses, mut files) = (Share::new(changes.fewer_misses), HashMap::<NameId, bool>::new());
    let mut dropped_files = Share::new(changes.fewer_files);
    let mut carried = 0.0;
    let mut kept = Vec::with_capacity(script.acts.len());
    for act in &script.acts {
        let drops = match (act.absent, subject(script, act)) {
            (true, _) => misses.takes(),
            (false, Some(name)) => *files.entry(name).or_insert_with(|| dropped_files.takes()),
            (false, None) => false,
        };
        match drops {
            true => carried += act.think,
            false => kept.push(Act { think: act.think + std::mem::take(&mut carried), ..act.clone() }),
        }
    }
    Script { acts: kept, tail: script.tail + carried, ..script.clone() }
}

/// The file that an act is about; `None` for directories.
fn subject(script: &Script, act: &Act) -> Option<NameId> {
    let of_walk = || act.walk.clone().last().and_then(|at| script.walks.get(at as usize).copied());
    let name = match act.deed {
        Deed::Stat(name)
        | Deed::Open(name)
        | Deed::Read(name, ..)
        | Deed::Close(name)
        | Deed::Tell(name)
        | Deed::ReadLink(name) => Some(name),
        Deed::Find => of_walk(),
        Deed::OpenDirectory(_) | Deed::List(_) | Deed::Ask(_) => None,
    };
    name.filter(|name| {
        script.names.get(name.0 as usize).is_some_and(|facts| !facts.is_directory && !facts.is_top)
    })
}

/// Takes a share of what comes by, evenly.
struct Share {
    share: f64,
    due: f64,
}

impl Share {
    fn new(share: f64) -> Self {
        Self { share, due: 0.0 }
    }

    fn takes(&mut self) -> bool {
        self.due += self.share;
        let takes = self.due >= 1.0 - 1e-9;
        self.due -= f64::from(u8::from(takes));
        takes
    }
}

/// A client's rules, changed.
pub(crate) fn rules(rules: ClientRules, changes: &Changes) -> ClientRules {
    let negative = match changes.keeps_absences {
        true => rules.negative.max(rules.directory).max(rules.positive),
        false => rules.negative,
    };
    ClientRules { negative, atomic_open: rules.atomic_open || changes.atomic_open, ..rules }
}

/// What a node asks when its processes start from an image. `plain` is what it asks without.
pub(crate) fn from_image(
    plain: &Demand,
    bytes: f64,
    image: Image,
    nodes: f64,
    parameters: &Parameters,
    warm: bool,
) -> Demand {
    let answered = plain.waits();
    let answers = answered.0.iter().sum::<f64>() * if warm { 0.0 } else { ANSWERING };
    let computing = |segment: &Segment| segment.think + ANSWERING * segment.own_answers;
    let mut segments: Vec<Segment> = plain
        .segments
        .iter()
        .map(|segment| Segment { think: computing(segment), ..Segment::default() })
        .collect();
    let mut entering = Segment { think: ENTERING + answers, ..Segment::default() };
    if !warm {
        let mut asks = requests(&parameters.client, plain.processes);
        match image {
            Image::Read => {
                asks.add(Operation::Read, 1.0);
                (entering.asks, entering.bytes) = (asks, bytes);
                entering.waits = requests(&parameters.client, 1.0);
                entering.waits.add(Operation::Read, 1.0);
            }
            Image::Broadcast => {
                let rate = parameters.client_rate.min(parameters.data_rate * parameters.data_servers);
                let steps = nodes.max(1.0).log2().ceil();
                entering.think +=
                    bytes / rate + steps * (parameters.round_trip + PASSED_ON / parameters.client_rate);
                entering.asks.add_all(&asks, 1.0 / nodes.max(1.0));
            }
        }
    }
    segments.insert(0, entering);
    Demand { segments, processes: plain.processes, ended: plain.ended }
}

/// How large an image of a script is, as far as it tells: what was read of each file, and a little for each name.
pub(crate) fn image_bytes(script: &Script) -> f64 {
    let mut windows: HashMap<NameId, Windows> = HashMap::new();
    let mut bytes = 0.0;
    for act in &script.acts {
        let Deed::Read(name, begin, end) = act.deed else { continue };
        let new = f64::from(windows.entry(name).or_default().add(begin..end));
        bytes += (act.bytes * new / f64::from((end - begin).max(1))).min(new * WINDOW as f64);
    }
    bytes + A_NAME * script.names.len() as f64
}

/// What a name takes in an image. Unit: bytes.
const A_NAME: f64 = 100.0;
