//! A start from an image: the image's size, and a node's demand on the file system. The size is an estimate from the script: nothing
//! here knows the format.

use crate::broadcast::BroadcastJob;
use crate::model::Scale;
use crate::parameters::ClientRules;
use crate::question::ImageDelivery;
use crate::workload::{Broadcast, Demand, FileBytes, ForwardedRequests, Segment, StartScript};
use crate::{PerOperation, ServerOperation, StartParameters};

/// An image by its size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageSize {
    /// Unit: bytes.
    pub(crate) bytes: f64,
    /// Files, directories and links that the check asks for. An absent name costs nothing: its directory's times tell of it.
    pub(crate) originals: f64,
}

/// The mean of images of these scripts, which read `files`: the data that was read of each file, and a little for each name.
pub(crate) fn image_size(scripts: &[StartScript], files: FileBytes) -> ImageSize {
    let mean = |of: &dyn Fn(&StartScript) -> usize| {
        scripts.iter().map(of).sum::<usize>() as f64 / scripts.len().max(1) as f64
    };
    ImageSize {
        bytes: files.all + A_NAME * mean(&|script| script.names.len()),
        originals: mean(&|script| script.names.iter().filter(|name| name.exists).count()),
    }
}

/// The kernel before the image's server on the node: it keeps names and attributes, present and absent, and passes opens on.
pub(crate) const FROM_IMAGE: ClientRules =
    ClientRules { open_asks: true, readdir_fills: true, ..ClientRules::KEPT };

/// Entering the mount, a process. Measured by `bench/run launch`. Unit: seconds.
const ENTERING: f64 = 0.003;

/// The time in which the image's server answers one request on the node: the first one for a name, and each call on an open file.
/// Measured by `bench/run run`: the first process of a node takes 0.2 s more than a further one, for some 4700 requests; a further one
/// 0.1 s more than from a local disk, for some 2900 calls on open files. Unit: seconds.
const ANSWERING: f64 = 40e-6;

/// The size of a name in an image. Unit: bytes.
const A_NAME: f64 = 100.0;

/// The demand of a node whose processes start from an image. `plain` is the demand of a start without an image. A change of the tree
/// reaches the original from an image too.
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

/// The same segment behind a gateway, if there is one: it passes on what a node reads or changes, and reads an image once for all its nodes.
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
