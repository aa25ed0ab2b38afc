//! The process of the background that makes images for `quell run --auto`.
//!
//! It has no descriptor of the job, the lowest priority, and a limit on its time. Everything that it makes appears by rename: it may
//! be killed at any moment, and the next job's first rank has its work done again. Its log is the entry's.

use crate::failure::Failure;
use crate::traces;
use quell_base::{Bytes, escape};
use quell_cache::{CacheDirectory, CacheEntry, CacheOwner, EntryState, PruneLimit, SettledReason};
use quell_image::learned::{BYTES_MAX, Learned};
use quell_image::write::Audience;
use quell_mount::ImageTrust;
use quell_pack::{PackError, PackOptions, RefreshOptions};
use quell_trace::{ServedBy, Trace};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The first word of its command line.
pub(crate) const MAKER: &str = "--make-cached-image";

/// Metadata operations of a start below which an image saves nothing that a user would notice.
const WORTH: u64 = 200;

/// A run that asks the originals for so many names has something to teach.
pub(super) const LESSONS_WORTH: usize = 21;

/// The longest that it works.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Attempts at an image of the same recordings. A job that ends may kill one.
const ATTEMPTS_MAX: u32 = 5;

/// Between the first attempt and the second; twice as long before each further one.
const BACK_OFF: Duration = Duration::from_secs(20);

/// Starts it; returns at once.
pub(super) fn start(entry: &CacheEntry, cache_size: Bytes, roots: &[PathBuf]) {
    let Ok(ourselves) = std::env::current_exe() else { return };
    let mut command = Command::new(ourselves);
    command.args(&words(entry, cache_size, roots)[1..]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It goes to the background by itself and the child that is waited for ends.
    _ = command.status();
}

/// Its command line, the program's name first.
pub(super) fn words(entry: &CacheEntry, cache_size: Bytes, roots: &[PathBuf]) -> Vec<OsString> {
    let own = ["quell".into(), MAKER.into(), entry.path().into(), cache_size.0.to_string().into()];
    own.into_iter().chain(roots.iter().map(OsString::from)).collect()
}

/// Is that process.
pub(crate) fn maker(words: &[OsString]) -> ExitCode {
    let [entry, cache_size, roots @ ..] = words else { return ExitCode::FAILURE };
    let Some(entry) = CacheEntry::of_path(Path::new(entry)) else { return ExitCode::FAILURE };
    let cache_size = cache_size.to_str().and_then(|size| size.parse().ok()).unwrap_or(u64::MAX);
    if quell_mount::go_to_background().is_err() {
        return ExitCode::FAILURE;
    }
    let cache = entry.path().parent().map(|cache| CacheDirectory::open(cache, CacheOwner::User));
    let Some(Ok(Some(cache))) = cache else { return ExitCode::FAILURE };
    watch_time(entry.clone());
    let maker = Maker { entry, cache, cache_size, roots: roots.iter().map(PathBuf::from).collect() };
    maker.work();
    ExitCode::SUCCESS
}

/// Ends this process when its time is over. The lock stays, as that of a dead process.
fn watch_time(entry: CacheEntry) {
    let watch = move || {
        std::thread::sleep(TIME_LIMIT);
        entry.log("gave up: it took too long");
        std::process::exit(1);
    };
    _ = std::thread::Builder::new().stack_size(64 << 10).spawn(watch);
}

/// Makes the images whose recordings wait, in the foreground. Returns the entries that have one now.
pub(crate) fn make_waiting(cache: &CacheDirectory, cache_size: Bytes) -> Result<Vec<CacheEntry>, Failure> {
    let mut made = Vec::new();
    for entry in cache.entries()?.into_iter().filter(|entry| !entry.traces().is_empty()) {
        let roots = entry.about().unwrap_or_default().roots;
        let maker = Maker { entry, cache: cache.clone(), cache_size: cache_size.0, roots };
        maker.work_after_others();
        if matches!(maker.entry.state(), EntryState::Image(_)) {
            made.push(maker.entry);
        }
    }
    Ok(made)
}

struct Maker {
    entry: CacheEntry,
    cache: CacheDirectory,
    /// Unit: bytes.
    cache_size: u64,
    roots: Vec<PathBuf>,
}

impl Maker {
    /// Waits while another process makes this image: the caller may be about to let a batch system end that process. A process
    /// that was ended on another node leaves its lock for a while.
    fn work_after_others(&self) {
        let began = Instant::now();
        while !self.entry.traces().is_empty() && !self.work() && began.elapsed() < TIME_LIMIT {
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// Does all that waits; `false` if another process has the lock.
    fn work(&self) -> bool {
        if self.entry.is_locked() {
            return false;
        }
        let lock = match self.entry.lock("") {
            Ok(Some(lock)) => lock,
            Ok(None) => return false,
            // An entry without a lock gets no image.
            Err(_) => return true,
        };
        self.entry.sweep();
        if self.entry.traces().is_empty() {
            self.refresh();
        } else {
            self.pack();
        }
        drop(lock);
        // Another process will make the room that this one could not.
        _ = self.cache.prune(PruneLimit::Bytes(self.cache_size));
        true
    }

    /// Makes an image of the recordings.
    fn pack(&self) {
        let (number, since) = self.entry.attempt();
        let pause = BACK_OFF.saturating_mul(1 << number.saturating_sub(2).min(8));
        if number > 1 && since.is_some_and(|since| since < pause) {
            return;
        }
        if number > ATTEMPTS_MAX {
            return self.settle(&format!("no image could be made in {ATTEMPTS_MAX} attempts"));
        }
        self.entry.note_attempt(number);
        match self.packed() {
            Ok(Outcome::Image(name)) => self.publish(&name),
            Ok(Outcome::Settled(reason)) => self.settle(&reason),
            Err(failure) => self.entry.log(&format!("no image was made: {}", failure.line())),
        }
    }

    fn packed(&self) -> Result<Outcome, Failure> {
        let trace = traces::open(&self.entry.traces())?;
        let operations = self.operations(&trace)?;
        if operations < WORTH {
            let where_ = if self.roots.is_empty() { "network file systems" } else { "the given directories" };
            return Ok(Outcome::Settled(format!(
                "it asks {where_} for {operations} metadata operations, fewer than {WORTH}"
            )));
        }
        let options = PackOptions {
            roots: self.roots.clone(),
            audience: if self.cache.is_public() { Audience::Everyone } else { Audience::Owner },
            ..PackOptions::default()
        };
        let name = self.entry.next_image();
        let target = self.entry.file(&name);
        let packed = match quell_pack::pack(&trace, &target, &options, &mut |_| {}) {
            Ok(packed) => packed,
            Err(PackError::Nothing { why }) => return Ok(Outcome::Settled(why.to_string())),
            Err(error @ PackError::Closed { .. }) => return Ok(Outcome::Settled(error.to_string())),
            Err(error) => return Err(Failure::new(error)),
        };
        if packed.written.file_bytes > self.cache_size {
            _ = std::fs::remove_file(&target);
            let size = quell_base::number::size(packed.written.file_bytes);
            return Ok(Outcome::Settled(format!("its image takes {size}, more than the cache may")));
        }
        Ok(Outcome::Image(name))
    }

    /// Metadata operations that an image could answer.
    fn operations(&self, trace: &Trace) -> Result<u64, Failure> {
        let summary = quell_analyse::summarise(trace).map_err(traces::explain)?;
        let roots: Vec<PathBuf> = self.roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        let counts = |path: &[u8], served_by| match roots.is_empty() {
            true => served_by == Some(ServedBy::Network),
            false => roots.iter().any(|root| Path::new(OsStr::from_bytes(path)).starts_with(root)),
        };
        let counted = summary.paths.iter().filter(|(path, count)| counts(path, count.served_by));
        Ok(counted.map(|(_, count)| count.metadata_operations).sum())
    }

    /// Makes the image anew from its originals, with what runs have learned.
    fn refresh(&self) {
        let EntryState::Image(name) = self.entry.state() else { return };
        let is_blank = name == CacheEntry::blank_image();
        if is_blank {
            self.entry.take_lessons();
        }
        let is_taught = !self.entry.lessons().is_empty();
        match self.refreshed(&name) {
            Ok(next) if is_blank && is_taught => self.publish_first(next),
            Ok(Some((next, _))) => self.publish(&next),
            Ok(None) => {}
            Err(failure) => self.entry.log(&format!("{name} was not refreshed: {}", failure.line())),
        }
        // A lesson that could not be taken in once is no better the next time.
        self.entry.lessons().iter().for_each(|file| _ = std::fs::remove_file(file));
    }

    /// Publishes the first version that runs have taught, if it is worth it.
    fn publish_first(&self, next: Option<(String, u64)>) {
        let learned = next.as_ref().map_or(0, |(_, learned)| *learned);
        match next {
            Some((next, learned)) if learned >= LESSONS_WORTH as u64 => return self.publish(&next),
            Some((next, _)) => _ = std::fs::remove_file(self.entry.file(&next)),
            None => {}
        }
        self.settle(&format!("a run asked for {learned} names of its software, fewer than {LESSONS_WORTH}"));
    }

    /// The next version and the number of paths that were learned; `None` where it would be the same.
    fn refreshed(&self, name: &str) -> Result<Option<(String, u64)>, Failure> {
        let path = self.entry.file(name);
        let image = match quell_mount::view_trusted(&path, ImageTrust::OwnerOrRoot) {
            Ok(image) => image,
            Err(error) => {
                if crate::images::is_damage(&error) {
                    self.entry.discard(name);
                }
                return Err(Failure::new(error));
            }
        };
        let lessons = self.entry.lessons();
        let read = |file: &PathBuf| Learned::parse(&read_bounded(file)?).ok();
        let learned = lessons.iter().filter_map(read).collect();
        let options = RefreshOptions { learned, ..RefreshOptions::default() };
        let next = self.entry.next_image();
        let target = self.entry.file(&next);
        let refreshed = quell_pack::refresh(&image, &target, &options, &mut |_| {})?;
        if refreshed.altered.is_empty() && refreshed.learned == 0 {
            _ = std::fs::remove_file(target);
            return Ok(None);
        }
        Ok(Some((next, refreshed.learned)))
    }

    fn publish(&self, image: &str) {
        match self.entry.publish(image) {
            Ok(()) => {
                self.entry.forget_recordings();
                self.entry.log(&format!("made {image}"));
            }
            Err(error) => {
                self.entry.log(&format!("{image} cannot be published: {}", Failure::new(error).line()))
            }
        }
    }

    fn settle(&self, reason: &str) {
        self.entry.log(&format!("no image: {}", escape(reason.as_bytes())));
        if self.entry.settle(&SettledReason { text: reason.to_owned(), told: false }).is_ok() {
            self.entry.forget_recordings();
        }
    }
}

/// The result of packing.
enum Outcome {
    /// An image with this name.
    Image(String),
    /// None, for this reason.
    Settled(String),
}

/// A file of lessons, which has a limit.
fn read_bounded(file: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(file).ok()?.take(BYTES_MAX as u64 + 1).read_to_end(&mut text).ok()?;
    Some(text)
}
