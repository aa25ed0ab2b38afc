//! Waits for chunks that other nodes of the job may bring, as ranks and servers do it. [`crate::sharing`] starts the process that talks
//! with those nodes.
//!
//! Peers only add a source. A program that waits for a chunk longer than plain reading might take, or that has waited in vain too
//! often, reads the file system as if there were none.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::progress::{ABSENT, EXPECTED, Progress, Word};

/// Values of [`Word::Source`]: at first other nodes are looked for.
const SEARCHING: u64 = 0;
pub(crate) const FROM_PEERS: u64 = 1;
pub(crate) const FROM_FILE: u64 = 2;
pub(crate) const OUT_OF_REACH: u64 = 3;

/// The longest that a program of a small job waits for a chunk or for the first node before the file system is read beside, and that a
/// rank waits for peers to tell that another one compares.
pub const PATIENCE_FOR_PEERS: Duration = Duration::from_millis(300);

/// The first node may see a slower file system than this one: more than that is not believed before it is measured here.
const TOLD_MAX: Duration = Duration::from_millis(50);

/// All waits together, as a multiple of the longest one, each without the time that the file system takes for a chunk. After them this
/// node waits for no peer any more.
const ALLOWANCE: u32 = 4;

/// The longest time without a chunk from a peer that is waited where the file system gives an error.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// From one look at the process to the next.
const LOOK: Duration = Duration::from_millis(50);

/// The process that talks with other nodes.
#[derive(Debug)]
pub(crate) struct Peers {
    began: Instant,
    /// The longest wait for a chunk.
    patience: Duration,
    /// Programs wait for the first node, for as long from `began` on.
    awaits_first: bool,
    /// A pipe that the process alone holds the other end of.
    lives: OwnedFd,
    /// Nothing came of a wait for chunks that the file system does not give.
    is_barren: AtomicBool,
}

impl Peers {
    pub(crate) fn new(lives: OwnedFd, patience: Duration, awaits_first: bool) -> Self {
        Self { began: Instant::now(), patience, awaits_first, lives, is_barren: AtomicBool::new(false) }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.lives.as_raw_fd()
    }

    /// Waits for a chunk that a program misses, as long as that costs no more than reading it.
    pub(crate) fn await_chunk(&self, progress: &Progress, chunk: usize) {
        let began = Instant::now();
        let mut is_wanted = false;
        while began.elapsed() < self.patience && self.may_bring(progress) {
            let news = progress.news();
            match progress.stage(chunk) {
                Ok(EXPECTED) => {}
                // A process that reads the file itself does so no sooner than the caller.
                Ok(ABSENT) if progress.number(Word::Source) != FROM_FILE => {}
                _ => break,
            }
            if !is_wanted {
                progress.want(chunk);
                is_wanted = true;
            }
            progress.wait(news, Some(LOOK));
        }
        if is_wanted {
            progress.count(Word::Waited, self.beyond_reading(progress, began.elapsed()));
            if began.elapsed() >= self.patience && !progress.is_present(chunk) {
                progress.set(Word::Doubt, 1);
            }
        }
    }

    /// Waits, for a thread that fetches ahead of programs, until `is_there` says so, the process is gone, or it brings nothing.
    pub(crate) fn leave(&self, progress: &Progress, is_there: impl Fn() -> bool) {
        let (mut fetched, mut moved) = (progress.number(Word::Fetched), Instant::now());
        loop {
            let news = progress.news();
            if is_there() || !self.may_bring(progress) {
                return;
            }
            progress.wait(news, Some(LOOK));
            let now = progress.number(Word::Fetched);
            if now != fetched {
                (fetched, moved) = (now, Instant::now());
            } else if moved.elapsed() > self.patience {
                progress.count(Word::Waited, self.patience.as_micros() as usize);
                progress.set(Word::Doubt, 1);
                return;
            }
        }
    }

    /// Waits for a chunk that the file system does not give, as long as peers bring any. True if they brought it.
    pub(crate) fn await_as_last(&self, progress: &Progress, chunk: usize) -> bool {
        if self.is_barren.load(Ordering::Relaxed) {
            return progress.is_present(chunk);
        }
        progress.want(chunk);
        let (mut fetched, mut moved) = (progress.number(Word::Fetched), Instant::now());
        while moved.elapsed() < LAST_PATIENCE && !progress.is_present(chunk) && self.live_for(Duration::ZERO)
        {
            progress.wait(progress.news(), Some(LOOK));
            let now = progress.number(Word::Fetched);
            if now != fetched {
                (fetched, moved) = (now, Instant::now());
            }
        }
        let came = progress.is_present(chunk);
        self.is_barren.store(!came, Ordering::Relaxed);
        came
    }

    /// True if the process lives, and programs wait for it.
    pub(crate) fn may_bring(&self, progress: &Progress) -> bool {
        !self.are_given_up(progress) && self.live_for(Duration::ZERO)
    }

    /// No program waits for peers: the first node came late or never, a wait was in vain and no chunk has come since, or waits have
    /// taken too long.
    fn are_given_up(&self, progress: &Progress) -> bool {
        let is_late = match progress.number(Word::Source) {
            SEARCHING => !self.awaits_first || self.began.elapsed() >= self.patience,
            source => source == OUT_OF_REACH,
        };
        is_late
            || progress.number(Word::Doubt) > 0
            || u128::from(progress.number(Word::Waited)) > (ALLOWANCE * self.patience).as_micros()
    }

    /// The part of a wait for which reading the file would not have taken. Unit: microseconds.
    fn beyond_reading(&self, progress: &Progress, wait: Duration) -> usize {
        let known =
            |word| Some(Duration::from_micros(progress.number(word))).filter(|takes| !takes.is_zero());
        let here = known(Word::FileTakes).map(|takes| takes.min(self.patience));
        let file_takes = here.or_else(|| known(Word::FileTakesElsewhere).map(|takes| takes.min(TOLD_MAX)));
        wait.saturating_sub(file_takes.unwrap_or_default()).as_micros() as usize
    }

    /// True if the process is gone: no other node gets chunks from here.
    pub(crate) fn are_gone(&self) -> bool {
        !self.live_for(Duration::ZERO)
    }

    /// True if the process lives after this time. Returns when it has died.
    fn live_for(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).ok();
        // Nothing is ever written: an event is the end.
        !poll(&mut [PollFd::new(&self.lives, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetcher::{Fetcher, FileForm, ImageFile};
    use crate::progress::{FAILED, PRESENT};
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Write;
    use std::sync::OnceLock;

    const CHUNKS: usize = 3;
    const CHUNK: usize = 4096;
    const THEIRS: u8 = 7;

    /// A file of ones, empty memory for it, and the end of the pipe that a process would hold.
    fn with_peers() -> (Fetcher, OwnedFd) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; CHUNKS * CHUNK]).unwrap();
        let memory = tempfile::tempfile().unwrap();
        memory.set_len((CHUNKS * CHUNK) as u64).unwrap();
        let progress = Progress::new(CHUNKS * CHUNK, CHUNK).unwrap();
        let file = ImageFile::Found { found: file.into(), opened: OnceLock::new() };
        let fetcher = Fetcher::new(file, FileForm::Plain, memory.into(), progress);
        let (lives, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        (Fetcher { peers: Some(Peers::new(lives, PATIENCE_FOR_PEERS, true)), ..fetcher }, end)
    }

    fn bring(fetcher: &Fetcher, chunk: usize) {
        rustix::io::pwrite(&fetcher.memory, &[THEIRS; CHUNK], (chunk * CHUNK) as u64).unwrap();
        fetcher.progress.receive(chunk, true);
    }

    fn first_byte(fetcher: &Fetcher, chunk: usize) -> u8 {
        let mut byte = [0];
        fetcher.read_memory((chunk * CHUNK) as u64, &mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn what_a_program_waits_for_is_brought_first() {
        let (fetcher, end) = with_peers();
        fetcher.progress.set(Word::Source, FROM_PEERS);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let wanted = std::iter::repeat_with(|| fetcher.progress.take_wanted()).find_map(|it| it);
                assert_eq!(wanted, Some(2));
                bring(&fetcher, 2);
            });
            assert_eq!(first_byte(&fetcher, 2), THEIRS);
        });
        assert_eq!(fetcher.peers_number(Word::FromPeers), CHUNK as u64);
        assert_eq!(fetcher.progress.take_wanted(), None);
        drop(end);
    }

    #[test]
    fn a_process_that_is_gone_keeps_no_program_waiting() {
        let (fetcher, end) = with_peers();
        fetcher.progress.set(Word::Source, FROM_PEERS);
        assert_eq!(fetcher.progress.expect(0), ABSENT, "it was about to bring this one");
        drop(end);
        let peers = fetcher.peers.as_ref().unwrap();
        peers.leave(&fetcher.progress, || false);
        assert_eq!((0..CHUNKS).map(|chunk| first_byte(&fetcher, chunk)).collect::<Vec<_>>(), [1; CHUNKS]);
        assert_eq!(fetcher.progress.number(Word::Waited), 0);
    }

    #[test]
    fn a_wait_counts_as_far_as_reading_is_faster() {
        let progress = Progress::new(CHUNK, CHUNK).unwrap();
        let (lives, _end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let peers = Peers::new(lives, PATIENCE_FOR_PEERS, true);
        let counted = |wait| peers.beyond_reading(&progress, Duration::from_millis(wait));
        assert_eq!(counted(40), 40_000, "nothing is known of the file system");
        progress.set(Word::FileTakesElsewhere, 30_000);
        assert_eq!((counted(20), counted(40)), (0, 10_000));
        progress.set(Word::FileTakesElsewhere, 10_000_000);
        assert_eq!(counted(250), 200_000, "it may be fast here");
        progress.set(Word::FileTakes, 5_000);
        assert_eq!((counted(4), counted(40)), (0, 35_000));
        progress.set(Word::FileTakes, 10_000_000);
        assert_eq!((counted(299), counted(350)), (0, 50_000));
    }

    #[test]
    fn a_process_that_brings_nothing_is_given_up() {
        let (fetcher, end) = with_peers();
        fetcher.progress.set(Word::Source, FROM_PEERS);
        assert_eq!(first_byte(&fetcher, 0), 1);
        assert_eq!(fetcher.progress.expect(0), PRESENT, "and takes over what was read without it");
        let waited = || fetcher.progress.number(Word::Waited);
        let once = waited();
        assert_eq!((first_byte(&fetcher, 1), waited()), (1, once), "one wait in vain is enough");
        fetcher.peers.as_ref().unwrap().leave(&fetcher.progress, || false);
        assert_eq!(waited(), once);
        fetcher.progress.receive(1, true);
        fetcher.peers.as_ref().unwrap().leave(&fetcher.progress, || false);
        assert!(
            waited() > once,
            "it had brought something, and a thread that is ahead waits as a program does"
        );
        fetcher.progress.receive(1, true);
        fetcher.progress.count(Word::Waited, (ALLOWANCE * PATIENCE_FOR_PEERS).as_micros() as usize + 1);
        fetcher.peers.as_ref().unwrap().leave(&fetcher.progress, || false);
        drop(end);
    }

    #[test]
    fn peers_that_nothing_is_expected_of_keep_no_program_waiting() {
        let (mut fetcher, end) = with_peers();
        fetcher.progress.set(Word::Source, OUT_OF_REACH);
        assert_eq!(first_byte(&fetcher, 0), 1);
        fetcher.progress.set(Word::Source, SEARCHING);
        fetcher.peers.as_mut().unwrap().awaits_first = false;
        assert_eq!((first_byte(&fetcher, 1), fetcher.progress.number(Word::Waited)), (1, 0));
        assert!(!fetcher.peers.as_ref().unwrap().may_bring(&fetcher.progress));
        fetcher.progress.set(Word::Source, FROM_PEERS);
        assert!(fetcher.peers.as_ref().unwrap().may_bring(&fetcher.progress), "they came late");
        drop(end);
    }

    #[test]
    fn peers_bring_what_the_file_system_does_not_give_any_more() {
        let (mut fetcher, end) = with_peers();
        let unreadable = std::fs::File::open("/").unwrap();
        fetcher.file = ImageFile::Found { found: unreadable.into(), opened: OnceLock::new() };
        fetcher.progress.set(Word::Source, FROM_PEERS);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while fetcher.progress.stage(2) != Ok(FAILED) {
                    fetcher.progress.wait(fetcher.progress.news(), Some(LOOK));
                }
                bring(&fetcher, 2);
            });
            assert_eq!(first_byte(&fetcher, 2), THEIRS);
        });
        let unreadable = Err(rustix::io::Errno::ISDIR);
        assert_eq!(fetcher.read_memory(0, &mut [0]), unreadable);
        let is_barren = &fetcher.peers.as_ref().unwrap().is_barren;
        assert!(is_barren.load(Ordering::Relaxed), "the next program does not wait");
        drop(end);
        assert_eq!(fetcher.read_memory(0, &mut [0]), unreadable);
    }

    #[test]
    fn while_the_process_reads_the_file_programs_do_so_too() {
        let (fetcher, end) = with_peers();
        fetcher.progress.set(Word::Source, FROM_FILE);
        assert_eq!(first_byte(&fetcher, 1), 1);
        assert_eq!(fetcher.progress.number(Word::Waited), 0);
        assert_eq!(fetcher.progress.take_wanted(), None);
        drop(end);
    }
}
