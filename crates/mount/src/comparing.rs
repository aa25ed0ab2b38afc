//! The comparison of the image with its originals, for a rank that is about to run from it.
//!
//! A node answers nothing before it is known where the image still holds. Of a job with several nodes one rank compares and
//! publishes the outcome, and the first rank of each other node waits for it. A process that no launcher started compares for
//! itself, and shares a namespace only with processes that found the same: one that runs since before a change has another.

use std::path::Path;
use std::time::Duration;

use quell_image::Beyond;
use rustix::fs::Access;
use rustix::io::Errno;

use crate::check::{Checked, check};
use crate::difference::OriginalChange;
use crate::errands::{Errands, RefreshErrand, version_of};
use crate::error::{ImageError, RunError, SetupStep, Unavailable};
use crate::loaded::LoadedImage;
use crate::notes::{NodeNote, NoteBoard};
use crate::published::{Awaited, Claim, Publication, ToldOutcome};
use crate::request::{
    CheckingRank, LessonsDue, OriginalsCheck, OriginalsFinding, RunRequest, StaleOriginals, StalePolicy,
    bytes,
};
use crate::sharing::PeersTask;
use crate::staleness::Staleness;
use crate::stamp;
use crate::sys::process::SingleThreaded;

/// A rank that may have to compare.
pub(crate) struct Comparing<'r> {
    pub(crate) request: &'r RunRequest,
    pub(crate) tell: &'r mut dyn FnMut(OriginalsFinding<'_>),
    pub(crate) errands: Errands,
}

impl Comparing<'_> {
    /// Opens the image and finds out where it still holds. Returns the reason for which it cannot be used too.
    pub(crate) fn before_the_start(&mut self) -> Result<(LoadedImage, Option<Unavailable>), RunError> {
        let mut image = self.open(self.request.peers.as_ref())?;
        let checked = match self.request.on_stale {
            StalePolicy::Refuse => None,
            _ => Some(self.outcome(&image)?),
        };
        image.memory.note_board().iter().for_each(NoteBoard::settle);
        let Some(checked) = checked else { return Ok((image, None)) };
        let refusal = self.refusal(&image, &checked.staleness);
        if refusal.is_none() {
            self.tell(&checked, Some(&image));
            if self
                .request
                .learn
                .as_ref()
                .is_some_and(|learn| learn.due == LessonsDue::WithCommandForARefresh)
            {
                self.errands.refresh = self.refresh_errand(&image, Duration::ZERO);
            }
            let looks_up_listed = self.request.check != OriginalsCheck::Skip;
            image.staleness = Staleness { looks_up_listed, ..checked.staleness }.into();
        }
        Ok((image, refusal))
    }

    /// The outcome of this rank's comparison, or of that of another node.
    fn outcome(&mut self, image: &LoadedImage) -> Result<Checked, RunError> {
        let OriginalsCheck::Compare { by, now, shared, .. } = self.request.check else {
            return Ok(Checked::default());
        };
        let waits = by == CheckingRank::AnotherNode && shared && self.vouched(image).is_none();
        let publication = self.publication(image);
        let board = image.memory.note_board();
        let awaited = match waits {
            true => publication.await_outcome(now, board.as_ref()),
            false => Awaited::Untold,
        };
        let checked = match awaited {
            Awaited::Told(ToldOutcome { staleness, checked }) => {
                // Peers of the first node have heard nothing yet if rank 0 did not start its server.
                board.iter().for_each(|board| board.leave(&publication.note(&staleness, checked)));
                Checked { staleness, ..Checked::default() }
            }
            Awaited::Claimed(claim) => self.compare(image, Some(claim))?,
            Awaited::Untold => self.compare(image, None)?,
        };
        // The rank that compares for the job says so.
        let changes = if by == CheckingRank::AnotherNode { Vec::new() } else { checked.changes };
        Ok(Checked { changes, ..checked })
    }

    /// The reason for which an image cannot be used in part.
    fn refusal(&self, image: &LoadedImage, staleness: &Staleness) -> Option<Unavailable> {
        let index = image.image.index();
        let unwanted = self.request.on_stale == StalePolicy::Plain && staleness.changes > 0;
        // A complete image asks no originals.
        let has_no_originals = index.beyond() == Beyond::Nothing && staleness.changes > 0;
        let is_root_altered = index.roots().any(|root| staleness.is_altered(root.nid));
        let changes = staleness.changes.max(1);
        (unwanted || has_no_originals || is_root_altered)
            .then(|| Unavailable::new(SetupStep::Stale { changes }, Errno::STALE))
    }

    /// Compares while others may already run, if this rank is to. `image` is there if this rank started the server.
    ///
    /// **Errors** [`RunError::Stale`] if changes are to be refused.
    pub(crate) fn beside_others(&mut self, image: Option<LoadedImage>) -> Result<(), RunError> {
        let refuses = self.request.on_stale == StalePolicy::Refuse;
        let OriginalsCheck::Compare { by, .. } = self.request.check else { return Ok(()) };
        let image = match image {
            Some(image) if refuses => image,
            None if by == CheckingRank::ThisRank => self.open(None)?,
            // It was done before the server started.
            _ => return Ok(()),
        };
        let checked = self.compare(&image, None)?;
        if refuses && !checked.changes.is_empty() {
            return Err(RunError::Stale { image: self.request.image.clone(), changes: checked.changes });
        }
        self.tell(&checked, None);
        Ok(())
    }

    /// Compares, unless a stamp says that it was done just now, and publishes the outcome if others wait for it, which
    /// `claim` may have promised already.
    fn compare(&mut self, image: &LoadedImage, claim: Option<Claim>) -> Result<Checked, RunError> {
        let OriginalsCheck::Compare { by, parallelism, now, shared, .. } = self.request.check else {
            return Ok(Checked::default());
        };
        if let Some(staleness) = self.vouched(image) {
            (self.tell)(OriginalsFinding::Stamped);
            return Ok(Checked { staleness, ..Checked::default() });
        }
        let publication = self.publication(image);
        let others_wait =
            shared && by != CheckingRank::AnotherNode && self.request.on_stale != StalePolicy::Refuse;
        let claim = match others_wait && publication.is_possible() {
            true => publication.claim(true).ok(),
            false => claim,
        };
        let board = image.memory.note_board().filter(|_| others_wait);
        board.iter().for_each(|board| board.leave(&NodeNote::Coming));
        let checked = check(&image.image, &self.request.image, parallelism)
            .map_err(|source| self.image_error(source))?;
        // Starting a server and joining a namespace need a single thread again.
        SingleThreaded::verify().ok_or(RunError::Threads)?;
        board.iter().for_each(|board| board.leave(&publication.note(&checked.staleness, now)));
        let published = claim.and_then(|claim| publication.publish(claim, &checked.staleness, now));
        self.errands.remove = published.map(|(path, inode)| (bytes(path), inode));
        Ok(checked)
    }

    fn vouched(&self, image: &LoadedImage) -> Option<Staleness> {
        let OriginalsCheck::Compare { now, trusts_stamp: true, .. } = self.request.check else { return None };
        stamp::vouched(&self.request.image, image.image.index().identity(), self.request.trust, now)
    }

    fn publication(&self, image: &LoadedImage) -> Publication<'_> {
        let RunRequest { image: path, job, .. } = self.request;
        Publication { image: path, identity: image.image.index().identity(), job }
    }

    /// Says what changed, and has the image refreshed in the end, if this rank started the server.
    fn tell(&mut self, checked: &Checked, image: Option<&LoadedImage>) {
        if !checked.changes.is_empty() {
            let kept = match checked.changes.iter().all(OriginalChange::is_of_a_listing) {
                true => self.request.listings_kept_for,
                false => Duration::ZERO,
            };
            self.errands.refresh = image.and_then(|image| self.refresh_errand(image, kept));
            let is_refreshed = self.errands.refresh.is_some();
            (self.tell)(OriginalsFinding::Changed(StaleOriginals {
                changes: &checked.changes,
                is_refreshed,
            }));
        }
    }

    /// The refresh of an image of this age that this user may replace, in a directory that no other user can write to.
    fn refresh_errand(&self, image: &LoadedImage, age: Duration) -> Option<RefreshErrand> {
        let path = self.request.image.canonicalize().ok()?;
        let stat = rustix::fs::stat(&path).ok()?;
        let possible = !self.request.refresh.is_empty()
            && is_older(&path, age)
            && image.owner == rustix::process::geteuid()
            && image.image.requests().is_some()
            && stamp::may_count(&path)
            && rustix::fs::access(path.parent()?, Access::WRITE_OK).is_ok();
        possible.then(|| RefreshErrand {
            version: version_of(&stat),
            arguments: self.request.refresh.iter().map(|argument| bytes(argument.into())).collect(),
            image: bytes(path),
        })
    }

    fn open(&self, peers: Option<&PeersTask>) -> Result<LoadedImage, RunError> {
        let RunRequest { image, trust, memory, .. } = self.request;
        LoadedImage::open(image, *trust, *memory, peers).map_err(|source| self.image_error(source))
    }

    fn image_error(&self, source: ImageError) -> RunError {
        RunError::Image { path: self.request.image.clone(), source }
    }
}

/// Tells whether a file was made so long ago. A clock that is behind the server's counts as no time.
fn is_older(path: &Path, age: Duration) -> bool {
    let made = path.metadata().and_then(|found| found.modified());
    made.is_ok_and(|made| made.elapsed().unwrap_or_default() >= age)
}
