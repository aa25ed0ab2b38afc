//! Files that the image holds in part: the answer to each READ.
//!
//! Few READs come: held pages were pushed into the kernel's cache before the first open was answered (see [`super::parts`]).
//! The rest are for pages that the recorded run did not need, for pages that the kernel dropped, and read-ahead.
//!
//! The kernel asks for more than the program does: it reads ahead, and around each fault. A READ of pages that are not held
//! could be answered short (which says that the file ends there), with zeros (which are wrong), or from the original (which
//! no program needs). It is refused instead. The kernel then has those pages without
//! content, and asks again for the one page that the program wants. An error of read-ahead reaches no program.
//!
//! ```text
//! READ --> all of it held ---------------------------> from the image
//!      \-> one page, or O_DIRECT --------------------> from the original (counted)
//!      \-> several pages, some of them not held ------> EIO; the held ones are pushed
//! ```
//!
//! Invariants: a READ of one page is never refused, since the kernel sends such READs without read-ahead too; nor is a READ that
//! bypasses the cache (`O_DIRECT`). Once a page that is not held is needed, no READ of that file is refused: this run differs
//! from the recorded one.
//!
//! Up to [`LAST_SINGLY`], Linux keeps each page of FUSE by itself. There a READ of several pages is always read-ahead, and is
//! refused each time. A newer Linux may keep several pages as one folio, and asks for all of them again. There a READ is
//! answered if all its pages were refused before. A server that took over refuses nothing there, since it does not know
//! what its predecessor refused.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use quell_image::{BlockSet, Nid};

use super::pushes::Pushes;
use crate::fuse::request::Read;
use crate::lock;
use crate::server::slots::Death;

/// State of the files that the image holds in part.
#[derive(Debug)]
pub(crate) struct Parts {
    inherits: bool,
    refusing: Refusing,
    table: Mutex<Table>,
    /// A file was pushed.
    pushed: Condvar,
    pub(crate) pushes: Pushes,
}

#[derive(Debug, Default)]
struct Table {
    files: HashMap<Nid, File>,
    /// Threads that push before they answer.
    pushing: usize,
}

/// The kernel's use of one file.
#[derive(Debug, Default)]
struct File {
    progress: Progress,
    /// Pages that the kernel may have without content, because they were refused; kept for [`Refusing::Once`] alone.
    refused: BlockSet,
    /// A page that is not held was needed.
    exceeded: bool,
    /// The last version of the original that was compared with the held bytes, and true if they were equal.
    compared: Option<(OriginalVersion, bool)>,
}

/// The version of an original: inode, time of change and of modification.
pub(crate) type OriginalVersion = (u64, (i64, u64), (i64, u64));

/// The state of the held pages: to be pushed, being pushed, in the kernel's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    #[default]
    Due,
    Running,
    Done,
}

/// The READs of several pages that may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusing {
    /// Every one: the kernel asks again page by page for pages that a program needs.
    Any,
    /// Those with a page that was not refused yet.
    Once,
    /// None.
    Nothing,
}

/// The last Linux that is known to keep each page of FUSE by itself.
const LAST_SINGLY: (u32, u32) = (6, 18);

impl Refusing {
    fn under(release: &str, inherits: bool) -> Self {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) <= LAST_SINGLY => Self::Any,
            _ if inherits => Self::Nothing,
            _ => Self::Once,
        }
    }
}

/// The decision about a READ of which not everything is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartVerdict {
    Refuse,
    AskOriginal,
}

/// Threads that may push before they answer: not all, because a store waits for the answer to a READ of the same page.
const PUSHING: usize = 4;

/// The time for which an answer waits for another thread's push. A push takes so long only if its store waits for a READ that
/// no thread is free to answer; when the wait ends, these threads become free.
const PATIENCE: Duration = Duration::from_secs(1);

impl File {
    fn judge(&mut self, pages: Range<u64>, direct: bool, refusing: Refusing) -> PartVerdict {
        if direct {
            return PartVerdict::AskOriginal;
        }
        self.exceeded |= pages.end - pages.start <= 1;
        let may = match refusing {
            Refusing::Any => true,
            Refusing::Once => !self.refused.contains(pages.clone()),
            Refusing::Nothing => false,
        };
        if self.exceeded || !may {
            return PartVerdict::AskOriginal;
        }
        if refusing == Refusing::Once {
            self.refused.insert(pages);
        }
        PartVerdict::Refuse
    }
}

impl Parts {
    /// An empty table. `death` is that of an earlier server, whose actions are unknown.
    pub(crate) fn new(death: Option<Death>) -> Self {
        let release = rustix::system::uname();
        Self {
            inherits: death.is_some(),
            refusing: Refusing::under(&release.release().to_string_lossy(), death.is_some()),
            table: Mutex::default(),
            pushed: Condvar::new(),
            pushes: Pushes::default(),
        }
    }

    pub(crate) fn is_due(&self, nid: Nid) -> bool {
        lock(&self.table).files.get(&nid).is_none_or(|file| file.progress != Progress::Done)
    }

    /// Tells whether the caller has to push the file. Waits while another thread pushes it; without a limit if the file is not
    /// steady, since no program may open such a file before all is pushed. A server that took over never pushes such a file.
    pub(crate) fn begin(&self, nid: Nid, steady: bool) -> bool {
        let mut table = lock(&self.table);
        loop {
            let free = table.pushing < PUSHING;
            let file = table.files.entry(nid).or_default();
            if self.inherits && !steady {
                file.progress = Progress::Done;
            }
            match file.progress {
                Progress::Done => return false,
                Progress::Due if free => {
                    file.progress = Progress::Running;
                    table.pushing += 1;
                    return true;
                }
                Progress::Due | Progress::Running => {}
            }
            let waited = self.pushed.wait_timeout(table, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            if waited.1.timed_out() && steady {
                return false;
            }
            table = waited.0;
        }
    }

    pub(crate) fn end(&self, nid: Nid) {
        let mut table = lock(&self.table);
        table.pushing -= 1;
        table.files.entry(nid).or_default().progress = Progress::Done;
        self.pushed.notify_all();
    }

    /// The kernel has dropped the inode with its pushed pages. It may have made the inode again meanwhile, so refused pages
    /// stay noted.
    pub(crate) fn forget(&self, nid: Nid) {
        if let Some(file) = lock(&self.table).files.get_mut(&nid)
            && file.progress == Progress::Done
        {
            file.progress = Progress::Due;
        }
    }

    /// Notes that a READ is about to be answered. Returns whether the file is still to be pushed: it was open before this
    /// server took over, or was opened while other files were pushed for long.
    pub(crate) fn note_read(&self, nid: Nid, read: &Read) -> bool {
        let mut table = lock(&self.table);
        let file = table.files.entry(nid).or_default();
        if !read.direct {
            // They have content now: should the kernel drop them and ask again, read-ahead can be told from need again.
            file.refused.remove(pages(read.range()));
        }
        let is_due = file.progress == Progress::Due;
        if is_due {
            file.progress = Progress::Done;
        }
        is_due
    }

    /// Judges a READ of which not everything is held, in a file of `size` bytes.
    pub(crate) fn judge(&self, nid: Nid, read: &Read, size: u64) -> PartVerdict {
        let pages = pages(read.offset..read.range().end.min(size));
        lock(&self.table).files.entry(nid).or_default().judge(pages, read.direct, self.refusing)
    }

    /// The last version of the original that was compared, and true if it has the held bytes.
    pub(crate) fn compared(&self, nid: Nid) -> Option<(OriginalVersion, bool)> {
        lock(&self.table).files.get(&nid).and_then(|file| file.compared)
    }

    /// Notes the outcome of a comparison.
    pub(crate) fn note_compared(&self, nid: Nid, version: OriginalVersion, same: bool) {
        lock(&self.table).files.entry(nid).or_default().compared = Some((version, same));
    }
}

/// The numbers of the pages in which `range` lies.
fn pages(range: Range<u64>) -> Range<u64> {
    let page = rustix::param::page_size() as u64;
    range.start / page..range.end.div_ceil(page).max(range.start / page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_is_refused_once_where_pages_may_be_kept_together() {
        let mut file = File::default();
        let judge = |file: &mut File, pages| file.judge(pages, false, Refusing::Once);
        assert_eq!(judge(&mut file, 0..32), PartVerdict::Refuse);
        assert_eq!(judge(&mut file, 16..48), PartVerdict::Refuse);
        // Pages that the kernel keeps as one are asked for again as one.
        assert_eq!(judge(&mut file, 8..24), PartVerdict::AskOriginal);
        file.refused.remove(8..24);
        assert_eq!(judge(&mut file, 8..24), PartVerdict::Refuse);
    }

    #[test]
    fn read_ahead_is_refused_again_where_each_page_is_kept_by_itself() {
        let mut file = File::default();
        for _ in 0..3 {
            assert_eq!(file.judge(0..32, false, Refusing::Any), PartVerdict::Refuse);
        }
        assert_eq!(file.judge(0..1, false, Refusing::Any), PartVerdict::AskOriginal);
    }

    #[test]
    fn who_took_over_refuses_only_where_nothing_was_to_be_remembered() {
        for known in ["6.18.44-fc-v657", "5.14.0-503.el9.x86_64", "4.18"] {
            assert_eq!(Refusing::under(known, false), Refusing::Any);
            assert_eq!(Refusing::under(known, true), Refusing::Any);
        }
        for unknown in ["6.19.0", "7.0-rc1", "?", ""] {
            assert_eq!(Refusing::under(unknown, false), Refusing::Once);
            assert_eq!(Refusing::under(unknown, true), Refusing::Nothing);
        }
    }

    #[test]
    fn what_goes_past_the_cache_is_answered() {
        let mut file = File::default();
        assert_eq!(file.judge(0..32, true, Refusing::Any), PartVerdict::AskOriginal);
        assert_eq!(file.judge(0..32, false, Refusing::Any), PartVerdict::Refuse);
    }

    #[test]
    fn after_a_page_that_was_needed_nothing_is_refused() {
        let mut file = File::default();
        assert_eq!(file.judge(0..32, false, Refusing::Any), PartVerdict::Refuse);
        assert_eq!(file.judge(7..8, false, Refusing::Any), PartVerdict::AskOriginal);
        assert_eq!(file.judge(64..96, false, Refusing::Any), PartVerdict::AskOriginal);
    }

    #[test]
    fn a_file_is_pushed_by_one_and_again_when_it_was_forgotten() {
        let (parts, nid) = (Parts::new(None), Nid::new(7));
        assert!(parts.is_due(nid) && parts.begin(nid, true));
        parts.forget(nid);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| parts.begin(nid, true));
            parts.end(nid);
            assert!(!waiting.join().unwrap());
        });
        assert!(!parts.is_due(nid) && !parts.begin(nid, true));
        parts.forget(nid);
        assert!(parts.is_due(nid) && parts.begin(nid, true));
    }

    #[test]
    fn what_could_be_written_to_is_not_pushed_after_a_takeover() {
        let (parts, nid) = (Parts::new(Some(Death::Killed)), Nid::new(7));
        assert!(!parts.begin(nid, false) && !parts.is_due(nid));
        assert!(parts.begin(Nid::new(8), true));
    }
}
