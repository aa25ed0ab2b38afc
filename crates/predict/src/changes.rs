//! Changes that a forecast tries: a script, a client's rules or a node's demand with something changed.

use crate::broadcast::BroadcastJob;
use crate::model::Scale;
use crate::parameters::ClientRules;
use crate::question::{ImageDelivery, StartChanges};
use crate::workload::{
    Act, Broadcast, Deed, Demand, ForwardedRequests, NameId, PAGE, Segment, StartScript, Windows,
};
use crate::{PerOperation, ServerOperation, StartParameters};
use std::collections::HashMap;

/// Entering the mount, a process. Measured by `bench/run launch`. Unit: seconds.
const ENTERING: f64 = 0.003;

/// The time in which the image's server answers one request on the node: the first one for a name, and each call on an open file.
/// Measured by `bench/run run`: the first process of a node takes 0.2 s more than a further one, for some 4700 requests; a further one
/// 0.1 s more than from a local disk, for some 2900 calls on open files. Unit: seconds.
const ANSWERING: f64 = 40e-6;

/// Requests of a node's processes for the image itself, as the rig's server counted them: the first looks the name up, opens it and
/// asks for its attributes; each further one that starts with it looks at the name, and where names are kept more than
/// half of them do so before the first has an answer.
fn requests(rules: &ClientRules, processes: f64) -> PerOperation {
    let keeps = rules.positive > 0.0;
    let further = (processes - 1.0).max(0.0);
    let mut asks = PerOperation::default();
    asks.add(
        ServerOperation::Lookup,
        if keeps { 1.0 } else { 2.0 } + further * if keeps { 0.6 } else { 1.0 },
    );
    asks.add(ServerOperation::Open, 1.0);
    asks.add(ServerOperation::Getattr, 1.0);
    asks
}

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
        return ClientRules { readdir_fills: rules.readdir_fills, layout_asks: rules.layout_asks, ..KEPT };
    }
    let negative = match changes.keeps_absences {
        true => rules.negative.max(rules.directory).max(rules.positive),
        false => rules.negative,
    };
    let atomic_open = rules.atomic_open || (changes.atomic_open && rules.open_asks);
    ClientRules { negative, atomic_open, ..rules }
}

/// A server on the node that keeps every answer for the run. Unit of lifetimes: seconds.
pub(crate) const KEPT: ClientRules = ClientRules {
    positive: 1e9,
    negative: 1e9,
    directory: 1e9,
    attributes: 1e9,
    listing: 1e9,
    entries: f64::INFINITY,
    open_asks: false,
    open_directory_asks: false,
    atomic_open: false,
    open_rides: 0.0,
    close_asks: false,
    readdir_fills: false,
    layout_asks: false,
    read_spoils_attributes: false,
    absences_ask_daemon: false,
};

/// The kernel before the image's server on the node: it keeps names and attributes, present and absent, and passes opens on.
const FROM_IMAGE: ClientRules = ClientRules { open_asks: true, readdir_fills: true, ..KEPT };

/// The demand of a node whose processes start from an image. `plain` is the demand without. A change of the tree reaches the
/// original from an image too.
pub(crate) fn from_image(
    plain: &Demand,
    ImageSize { bytes, originals }: ImageSize,
    image: ImageDelivery,
    parameters: &StartParameters,
    scale: &Scale,
    warm: bool,
) -> Demand {
    let answered = but(&plain.waits(), |operation| !operation.is_change());
    let answers = answered.0.iter().sum::<f64>()
        * if warm { 0.0 } else { ANSWERING }
        * scale.share_of_first(plain.processes);
    let local = |segment: &Segment| Segment {
        think: segment.think + ANSWERING * segment.own_answers,
        waits: but(&segment.waits, ServerOperation::is_change),
        asks: but(&segment.asks, ServerOperation::is_change),
        ..Segment::default()
    };
    let mut entering = Segment { think: ENTERING + answers, ..Segment::default() };
    let mut passed_on = None;
    match image {
        ImageDelivery::Compared if !warm || parameters.client.attributes == 0.0 => {
            let bytes = if warm { 0.0 } else { bytes };
            passed_on = Some(compared(broadcast(bytes, parameters, scale), originals, parameters));
        }
        _ if warm => {}
        ImageDelivery::Read => {
            entering.bytes = bytes;
            entering.asks = reading(parameters, plain.processes);
            entering.waits = reading(parameters, 1.0);
        }
        ImageDelivery::Mounted => {
            entering.bytes = bytes;
            let mut asks = requests(&parameters.client, 1.0);
            asks.add(ServerOperation::Read, (bytes / READ_AHEAD).ceil());
            (entering.asks, entering.waits) = (asks, asks);
        }
        ImageDelivery::Local => {}
        ImageDelivery::Broadcast | ImageDelivery::Compared => {
            passed_on = Some(broadcast(bytes, parameters, scale))
        }
    }
    let segments = std::iter::once(entering).chain(plain.segments.iter().map(local));
    let segments = segments.map(|segment| behind_gateway(segment, parameters, scale)).collect();
    Demand { segments, processes: plain.processes, broadcast: passed_on, alike: plain.alike }
}

/// The same behind a gateway, if there are any: what a node reads or changes passes it, and it reads an image once for all its nodes.
fn behind_gateway(segment: Segment, parameters: &StartParameters, scale: &Scale) -> Segment {
    let Some(gateways) = parameters.forwarding else { return segment };
    let nodes = scale.nodes / gateways.used(scale.nodes);
    let shared = |all: &PerOperation| {
        PerOperation::of(|operation| all.get(operation) / if operation.is_change() { 1.0 } else { nodes })
    };
    let all = |of: &PerOperation| of.0.iter().sum::<f64>();
    Segment {
        forwarded: ForwardedRequests {
            asks: all(&segment.asks),
            waits: all(&segment.waits),
            bytes: segment.bytes,
        },
        asks: shared(&segment.asks),
        bytes: segment.bytes / nodes,
        ..segment
    }
}

/// Numbers of some operations alone.
fn but(all: &PerOperation, keeps: impl Fn(ServerOperation) -> bool) -> PerOperation {
    PerOperation::of(|operation| if keeps(operation) { all.get(operation) } else { 0.0 })
}

/// Requests of a node's processes for the image and its data.
fn reading(parameters: &StartParameters, processes: f64) -> PerOperation {
    let mut asks = requests(&parameters.client, processes);
    asks.add(ServerOperation::Read, 1.0);
    asks
}

/// The kernel's read-ahead from a mounted image, which a program touches here and there. Unit: bytes.
const READ_AHEAD: f64 = 131_072.0;

/// An image that one node reads, and that the nodes pass on while it comes.
fn broadcast(bytes: f64, parameters: &StartParameters, scale: &Scale) -> Broadcast {
    let asks = reading(parameters, 1.0);
    let job = BroadcastJob {
        nodes: scale.nodes,
        bytes,
        link_rate: parameters.network_rate,
        latency: parameters.round_trip / 2.0,
        file_rate: parameters.client_rate.min(parameters.data_rate * scale.targets(parameters)),
        first_byte: asks.dot(&parameters.latency()),
        small_read: parameters.read,
        skew: scale.last_start(),
    };
    Broadcast { seconds: job.seconds(), asks, bytes }
}

/// The same after one node has asked for each original once. No node begins before it knows the outcome.
fn compared(broadcast: Broadcast, originals: f64, parameters: &StartParameters) -> Broadcast {
    let mut each = PerOperation::default();
    each.add(ServerOperation::Lookup, 1.0);
    let answer = each.dot(&parameters.latency()) / COMPARED_AT_ONCE.min(parameters.in_flight);
    let served = 1.0 / parameters.rates.get(ServerOperation::Lookup);
    let mut asks = broadcast.asks;
    asks.add_all(&each, originals);
    Broadcast { seconds: broadcast.seconds + originals * answer.max(served), asks, ..broadcast }
}

/// The requests for originals that the check has under way at once.
const COMPARED_AT_ONCE: f64 = 32.0;

/// An image by its size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageSize {
    /// Unit: bytes.
    pub(crate) bytes: f64,
    /// Files, directories and links that the check asks for. An absent name costs nothing: its directory's times tell of it.
    pub(crate) originals: f64,
}

/// The mean of images of these scripts.
pub(crate) fn image_size(scripts: &[StartScript]) -> ImageSize {
    let all = scripts.len().max(1) as f64;
    let originals = |script: &StartScript| script.names.iter().filter(|name| name.exists).count() as f64;
    ImageSize {
        bytes: scripts.iter().map(image_bytes).sum::<f64>() / all,
        originals: scripts.iter().map(originals).sum::<f64>() / all,
    }
}

/// The size of an image of a script: the data that was read of each file, and a little for each name.
fn image_bytes(script: &StartScript) -> f64 {
    let mut windows: HashMap<NameId, Windows> = HashMap::new();
    let mut bytes = 0.0;
    for act in &script.acts {
        let (Deed::Read(name, begin, end) | Deed::Touch(name, begin, end)) = act.deed else { continue };
        let new = f64::from(windows.entry(name).or_default().add(begin..end));
        bytes += (act.bytes * new / f64::from((end - begin).max(1))).min(new * PAGE as f64);
    }
    bytes + A_NAME * script.names.len() as f64
}

/// The size of a name in an image. Unit: bytes.
const A_NAME: f64 = 100.0;
