//! An image's parts for `quell run`: the work of the process that brings them from other nodes.

use super::meet::{FirstNode, Meeting, Purpose, is_of_first_node};
use super::record::{PeersCame, PeersRecord};
use crate::flags::Run;
use crate::host;
use quell_base::RankPlace;
use quell_mount::{ImageParts, ImageVersion, NodeNote, PATIENCE_FOR_PEERS, PartStage, PartsFrom, PeersTask};
use quell_spread::{Beside, FileFacts, FileTakes, JobNote, PartHere, PartSource, SpreadNode};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The work that brings the image's parts from other nodes, if the job has any. A rank that joins others never begins it.
pub(crate) fn task(flags: &Run, image: &Path, place: Option<&RankPlace>) -> Option<PeersTask> {
    let peers = match flags.peers.first().map(String::as_str) {
        Some(OFF) => return None,
        None if !host::is_of_several_nodes(place) => return None,
        Some(AUTO) if host::is_one_node(place) => return None,
        None | Some(AUTO) => Vec::new(),
        Some(_) => flags.peers.clone(),
    };
    let interface = flags.interface.clone();
    let (image, place) = (std::path::absolute(image).ok()?, place.cloned());
    let nodes = if peers.is_empty() { host::nodes(place.as_ref()) } else { peers.len() as u32 };
    let patience = patience(nodes);
    let bring = move |parts: &ImageParts<'_>| {
        let meeting = Meeting {
            image: &image,
            peers: &peers,
            key: None,
            interface: interface.as_deref(),
            port: None,
            purpose: Purpose::Run { version: parts.version() },
        };
        // Without peers each node reads the file system: there is nothing to tell.
        _ = bring(&meeting, place.as_ref(), parts, patience);
    };
    let is_in_vain = || PeersRecord::of_node().is_in_vain();
    Some(PeersTask { bring: Arc::new(bring), patience, is_in_vain: Arc::new(is_in_vain) })
}

/// The longest wait for a part. The more nodes fall back on the file system together, the longer each takes to read it, and the longer is
/// the way of a part through the tree.
fn patience(nodes: u32) -> Duration {
    PATIENCE_FOR_PEERS * nodes.max(4).ilog2() / 2
}

/// The values of `--peers` that name no host.
const OFF: &str = "off";
const AUTO: &str = "auto";

/// Brings the parts, and gives them to other nodes. `None` where that cannot be.
fn bring(
    meeting: &Meeting<'_>,
    place: Option<&RankPlace>,
    parts: &ImageParts<'_>,
    patience: Duration,
) -> Option<()> {
    let (goes_on, began) = (|| false, Instant::now());
    if meeting.peers.is_empty() && place.is_some_and(is_of_first_node) {
        // Programs read the parts that they miss meanwhile by themselves.
        parts.turn_to(PartsFrom::File);
    }
    let first = FirstNode::prepare(meeting, place, &goes_on).ok()??;
    let path = parts.path();
    let users = Users { parts, began, patience, judgement: (!first.is_first()).then(OnceLock::new) };
    let node = SpreadNode {
        path: &path,
        copy: parts.copy(),
        beside: &users,
        old: None,
        listener: first.listener(),
        interface: first.interface(),
        role: first.role(),
        stop: &goes_on,
    };
    let spread = node.spread(&mut |_| Ok(()));
    first.end();
    if began.elapsed() > users.patience {
        users.judge(PeersCame::NotInTime);
    }
    spread.ok().map(|_| ())
}

/// The ranks and servers that use the parts.
struct Users<'p> {
    parts: &'p ImageParts<'p>,
    began: Instant,
    patience: Duration,
    /// Set when the start has been judged, for the next one on this node; `None` on the first node, which waits for none.
    judgement: Option<OnceLock<()>>,
}

impl Users<'_> {
    fn judge(&self, came: PeersCame) {
        if self.judgement.as_ref().is_some_and(|judgement| judgement.set(()).is_ok()) {
            PeersRecord::of_node().note(came);
        }
    }
}

impl Beside for Users<'_> {
    fn are_there(&self) -> bool {
        self.parts.are_used()
    }

    fn is_meant(&self, facts: &FileFacts) -> bool {
        version(facts) == self.parts.version()
    }

    fn turns_to(&self, source: PartSource) {
        self.parts.turn_to(of(source));
    }

    fn wanted(&self) -> Option<u32> {
        self.parts.wanted()
    }

    fn begins(&self, part: u32) -> PartHere {
        match self.parts.begin(part) {
            PartStage::Absent => PartHere::Absent,
            PartStage::Coming => PartHere::Coming,
            PartStage::Present => PartHere::Present,
        }
    }

    fn file_takes(&self, part: FileTakes) {
        match part {
            FileTakes::Elsewhere(part) => self.parts.file_takes_elsewhere(part),
            FileTakes::Here(part) => self.parts.file_takes(part),
        }
    }

    fn waited(&self) -> Duration {
        self.parts.waited()
    }

    fn gave(&self, bytes: usize) {
        self.parts.gave(bytes);
    }

    fn left(&self) {
        self.parts.left();
    }

    fn arrived(&self, part: u32, source: PartSource) {
        self.parts.arrive(part, of(source));
        if source == PartSource::Peer {
            let is_in_time = self.began.elapsed() <= self.patience;
            self.judge(if is_in_time { PeersCame::InTime } else { PeersCame::NotInTime });
        }
    }

    fn out_of_reach(&self) {
        self.parts.are_out_of_reach();
    }

    fn note_is_due(&self) -> bool {
        self.parts.note_is_due()
    }

    fn note(&self) -> Option<JobNote> {
        self.parts.note().map(|note| match note {
            NodeNote::Coming => JobNote::Coming,
            NodeNote::Withdrawn => JobNote::Withdrawn,
            NodeNote::Here(bytes) => JobNote::Here(bytes),
        })
    }

    fn noted(&self, note: &JobNote) {
        self.parts.put_note(&match note {
            JobNote::Coming => NodeNote::Coming,
            JobNote::Withdrawn => NodeNote::Withdrawn,
            JobNote::Here(bytes) => NodeNote::Here(bytes.clone()),
        });
    }
}

fn version(facts: &FileFacts) -> ImageVersion {
    let FileFacts { length, modified, changed, inode, .. } = *facts;
    ImageVersion { length, modified, changed, inode }
}

fn of(source: PartSource) -> PartsFrom {
    match source {
        PartSource::Peer => PartsFrom::Peer,
        PartSource::File => PartsFrom::File,
    }
}
