//! An image's parts for `quell run`: the work of the process that brings them from other nodes.

use super::meet::{FirstNode, Meeting, Purpose, is_of_first_node};
use crate::flags::Run;
use crate::host;
use quell_base::RankPlace;
use quell_mount::{ImageParts, ImageVersion, NodeNote, PartStage, PartsFrom, PeersTask};
use quell_spread::{Beside, FileFacts, FileTakes, JobNote, PartHere, PartSource, SpreadNode};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The work that brings the image's parts from other nodes, if the job has any. A rank that joins others never begins it.
pub(crate) fn task(flags: &Run, image: &Path, place: Option<&RankPlace>) -> Option<PeersTask> {
    let peers = match flags.peers.first()?.as_str() {
        NONE => return None,
        AUTO if host::is_one_node(place) => return None,
        AUTO => Vec::new(),
        _ => flags.peers.clone(),
    };
    let interface = flags.interface.clone();
    let (image, place) = (std::path::absolute(image).ok()?, place.cloned());
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
        _ = bring(&meeting, place.as_ref(), parts);
    };
    Some(PeersTask(Arc::new(bring)))
}

/// The values of `--peers` that name no host.
const NONE: &str = "none";
const AUTO: &str = "auto";

/// Brings the parts, and gives them to other nodes. `None` where that cannot be.
fn bring(meeting: &Meeting<'_>, place: Option<&RankPlace>, parts: &ImageParts<'_>) -> Option<()> {
    let goes_on = || false;
    if meeting.peers.is_empty() && place.is_some_and(is_of_first_node) {
        // Programs read the parts that they miss meanwhile by themselves.
        parts.turn_to(PartsFrom::File);
    }
    let first = FirstNode::prepare(meeting, place, &goes_on).ok()??;
    let path = parts.path();
    let node = SpreadNode {
        path: &path,
        copy: parts.copy(),
        beside: &Users(parts),
        old: None,
        listener: first.listener(),
        interface: first.interface(),
        role: first.role(),
        stop: &goes_on,
    };
    let spread = node.spread(&mut |_| Ok(()));
    first.end();
    spread.ok().map(|_| ())
}

/// The ranks and servers that use the parts.
struct Users<'p>(&'p ImageParts<'p>);

impl Beside for Users<'_> {
    fn are_there(&self) -> bool {
        self.0.are_used()
    }

    fn is_meant(&self, facts: &FileFacts) -> bool {
        version(facts) == self.0.version()
    }

    fn turns_to(&self, source: PartSource) {
        self.0.turn_to(of(source));
    }

    fn wanted(&self) -> Option<u32> {
        self.0.wanted()
    }

    fn begins(&self, part: u32) -> PartHere {
        match self.0.begin(part) {
            PartStage::Absent => PartHere::Absent,
            PartStage::Coming => PartHere::Coming,
            PartStage::Present => PartHere::Present,
        }
    }

    fn file_takes(&self, part: FileTakes) {
        match part {
            FileTakes::Elsewhere(part) => self.0.file_takes_elsewhere(part),
            FileTakes::Here(part) => self.0.file_takes(part),
        }
    }

    fn waited(&self) -> Duration {
        self.0.waited()
    }

    fn gave(&self, bytes: usize) {
        self.0.gave(bytes);
    }

    fn left(&self) {
        self.0.left();
    }

    fn arrived(&self, part: u32, source: PartSource) {
        self.0.arrive(part, of(source));
    }

    fn note_is_due(&self) -> bool {
        self.0.note_is_due()
    }

    fn note(&self) -> Option<JobNote> {
        self.0.note().map(|note| match note {
            NodeNote::Coming => JobNote::Coming,
            NodeNote::Withdrawn => JobNote::Withdrawn,
            NodeNote::Here(bytes) => JobNote::Here(bytes),
        })
    }

    fn noted(&self, note: &JobNote) {
        self.0.put_note(&match note {
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
