//! The outcome of a check on its way to other nodes of the job by their peers.
//!
//! ```text
//! rank that compares --> memory --> quell-peers --> quell-peers of another node --> memory --> rank that waits
//! ```
//!
//! The memory is that of [`Progress`]. A note is written once, by the rank or by peers' process.

use std::time::Duration;

use crate::peers::{FROM_FILE, Peers};
use crate::progress::{NOTE_MAX, Progress, Word};

/// Words about the outcome of a check, from the node that compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeNote {
    /// A rank compares.
    Coming,
    /// No outcome comes by this way.
    Withdrawn,
    /// The outcome.
    Here(Vec<u8>),
}

/// Values of [`Word::Note`], of which the greater replaces the smaller.
const COMING: u64 = 1;
const WITHDRAWN: u64 = 2;
const HERE: u64 = 3;

/// Writes a note. A longer one than [`NOTE_MAX`] is withdrawn.
pub(crate) fn leave(progress: &Progress, note: &NodeNote) {
    let stage = match note {
        NodeNote::Coming => COMING,
        NodeNote::Here(bytes) if progress.leave_note(bytes) => HERE,
        NodeNote::Withdrawn => WITHDRAWN,
        NodeNote::Here(bytes) if bytes.len() > NOTE_MAX => WITHDRAWN,
        // Another process was faster.
        NodeNote::Here(_) => return,
    };
    progress.raise(Word::Note, stage);
}

/// The note that was written.
pub(crate) fn left(progress: &Progress) -> Option<NodeNote> {
    match progress.number(Word::Note) {
        COMING => Some(NodeNote::Coming),
        WITHDRAWN => Some(NodeNote::Withdrawn),
        HERE => Some(NodeNote::Here(progress.note_left())),
        _ => None,
    }
}

/// The place of notes between the ranks of a node and its peers' process.
#[derive(Debug)]
pub(crate) struct NoteBoard<'m> {
    progress: &'m Progress,
    peers: &'m Peers,
}

impl<'m> NoteBoard<'m> {
    pub(crate) fn new(progress: &'m Progress, peers: &'m Peers) -> Self {
        Self { progress, peers }
    }

    /// Writes a note for other nodes.
    pub(crate) fn leave(&self, note: &NodeNote) {
        leave(self.progress, note);
    }

    /// The note of another node; [`NodeNote::Withdrawn`] too where none can come any more.
    pub(crate) fn look(&self) -> Option<NodeNote> {
        // The order matters: the process writes its last note before it ends.
        let comes = self.peers.may_bring(self.progress) && self.progress.number(Word::Source) != FROM_FILE;
        match left(self.progress) {
            None | Some(NodeNote::Coming) if !comes => Some(NodeNote::Withdrawn),
            note => note,
        }
    }

    /// The present news, for [`Self::wait`].
    pub(crate) fn news(&self) -> u32 {
        self.progress.news()
    }

    /// Waits until there are other news, for a moment.
    pub(crate) fn wait(&self, news: u32) {
        self.progress.wait(news, Some(LOOK));
    }

    /// The ranks of this node neither leave a note any more nor wait for one.
    pub(crate) fn settle(&self) {
        self.progress.set(Word::NoteSettled, 1);
    }
}

/// The time between two looks at the process of the peers: its end wakes no waiter.
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{FROM_PEERS, PATIENCE_FOR_PEERS};
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn a_note_is_read_as_it_was_written_first() {
        let note = |length: usize| NodeNote::Here((0..length).map(|at| at as u8).collect());
        for length in [0, 1, 8, 4097, NOTE_MAX] {
            let progress = Progress::new(1, 1).unwrap();
            assert_eq!(left(&progress), None);
            leave(&progress, &NodeNote::Coming);
            assert_eq!(left(&progress), Some(NodeNote::Coming));
            leave(&progress, &note(length));
            leave(&progress, &note(3));
            leave(&progress, &NodeNote::Coming);
            assert_eq!(left(&progress), Some(note(length)));
        }
        let progress = Progress::new(1, 1).unwrap();
        leave(&progress, &note(NOTE_MAX + 1));
        assert_eq!(left(&progress), Some(NodeNote::Withdrawn), "it is too long");
    }

    #[test]
    fn none_comes_of_a_process_that_is_gone_or_reads_the_file() {
        let progress = Progress::new(1, 1).unwrap();
        let (lives, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let peers = Peers::new(lives, PATIENCE_FOR_PEERS, true);
        let board = NoteBoard::new(&progress, &peers);
        assert_eq!(board.look(), None);
        progress.set(Word::Source, FROM_FILE);
        assert_eq!(board.look(), Some(NodeNote::Withdrawn));
        progress.set(Word::Source, FROM_PEERS);
        leave(&progress, &NodeNote::Coming);
        assert_eq!(board.look(), Some(NodeNote::Coming));
        drop(end);
        assert_eq!(board.look(), Some(NodeNote::Withdrawn));
        leave(&progress, &NodeNote::Here(vec![1]));
        assert_eq!(board.look(), Some(NodeNote::Here(vec![1])), "it wrote that before");
    }
}
