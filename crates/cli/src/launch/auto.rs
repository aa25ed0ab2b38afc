//! `quell run --auto`: finds the program's image, and has one made where there is none.
//!
//! ```text
//! every rank   key --one readlink--> image: runs from it
//!                                \-> none: runs plain
//! rank 0       none: records this start, and leaves the packing to a process of the background
//!              image: has lessons of earlier runs taken in, in the background
//! ```
//!
//! Whatever fails here, the command runs, plain; at most one line says why, once a job.

use super::image::{is_on_first_node, request};
use super::launchers::launcher_in;
use super::nested::is_recorded;
use super::plain::{explain, plain, plain_with_stats};
use super::{beside, maker, software};
use crate::failure::{Failure, OURS};
use crate::flags::{ModeFlag, Run};
use crate::printer::Printer;
use crate::{host, images, traces};
use quell_base::number::counted;
use quell_base::{RankPlace, shown};
use quell_cache::{
    About, CacheDirectory, CacheEntry, CacheError, CacheKey, CacheOwner, EntryLock, EntryState, KeyParts,
    SettledReason, Subject,
};
use quell_image::write::Audience;
use quell_mount::{
    ImageError, LessonsDue, LessonsRequest, OriginalChange, OriginalsFinding, RunError, StaleOriginals,
};
use quell_pack::{PackOptions, RootsBy};
use quell_record::{
    EngineChoice, LeftoverPolicy, Listener, RecordError, RecordRequest, RecordedScope, StartLimits,
    TraceBarrier, TracePurpose,
};
use quell_trace::context::SEARCH_VARIABLES;
use quell_trace::{Exit, ServedBy, TraceError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Becomes the command; returns when that fails, or when a recorded command has ended.
pub(crate) fn by_itself(flags: &Run, printer: &Printer) -> Result<u8, Failure> {
    if flags.disable || is_off() || flags.mode == ModeFlag::Off || is_recorded() {
        return Err(plain(&flags.command));
    }
    let place = host::rank_place();
    let is_first = host::is_first(place.as_ref());
    let auto = Auto { flags, printer, place, is_first, began: Instant::now() };
    if let Some(name) = launcher_in(&flags.command, auto.place.as_ref()) {
        printer.talk(&format!(
            "`--auto` leaves `{name}` alone, which starts ranks elsewhere: {name} ... quell run --auto -- CMD"
        ));
        return auto.plain();
    }
    match auto.subject() {
        Some(subject) => auto.run(&subject),
        // The error of the plain command says which program is missing.
        None => auto.plain(),
    }
}

/// The directory of the user's cache, by flag or variable, or the usual one.
pub(crate) fn cache_path(given: Option<&Path>) -> Option<PathBuf> {
    if let Some(given) = given {
        return std::path::absolute(given).ok();
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Some(base?.join("quell"))
}

/// One rank of `quell run --auto`.
struct Auto<'a> {
    flags: &'a Run,
    printer: &'a Printer,
    place: Option<RankPlace>,
    is_first: bool,
    began: Instant,
}

/// The image to run from.
struct Found {
    path: PathBuf,
    /// The entry and the file's name, where the cache is the user's own.
    own: Option<(CacheEntry, String)>,
}

impl Found {
    /// The image holds nothing: runs from it teach the next version.
    fn is_blank(&self) -> bool {
        self.own.as_ref().is_some_and(|(_, name)| *name == CacheEntry::blank_image())
    }
}

impl Auto<'_> {
    fn run(&self, subject: &Subject) -> Result<u8, Failure> {
        let parts = self.key_parts(subject);
        let key = parts.key();
        self.explain_key(&parts, &key);
        match self.look_up(&key) {
            Some(found) => self.in_image(&found),
            None if self.is_first => match self.without_image(&key, subject) {
                Ok(outcome) => outcome,
                // The other node makes the image.
                Err(error @ CacheError::Unseen { .. }) => {
                    self.explain(&format!("plain: {error}"));
                    self.plain()
                }
                Err(error) => {
                    self.say(&format!("no image is made: {}", Failure::new(error).line()));
                    self.plain()
                }
            },
            None => self.plain(),
        }
    }

    /// The image that caches have for this program: the site's first.
    fn look_up(&self, key: &CacheKey) -> Option<Found> {
        if self.flags.auto.refresh {
            return None;
        }
        let of_site = |cache: &PathBuf| {
            let cache = CacheDirectory::open(cache, CacheOwner::UserOrRoot).ok()??;
            let entry = cache.entry(key);
            let EntryState::Image(name) = self.state(&entry) else { return None };
            Some(Found { path: entry.file(&name), own: None })
        };
        if let Some(found) = self.flags.auto.site_cache.iter().find_map(of_site) {
            return Some(found);
        }
        let path = cache_path(self.flags.auto.cache.as_deref())?;
        let entry = CacheEntry::of_path(&path.join(key.as_str()))?;
        let EntryState::Image(name) = self.state(&entry) else { return None };
        // Only what is run is trusted so far: the image's owner and way are verified when it is opened. The first rank writes to
        // the entry too.
        if self.is_first && CacheDirectory::open(&path, CacheOwner::User).is_err() {
            return None;
        }
        Some(Found { path: entry.file(&name), own: Some((entry, name)) })
    }

    fn in_image(&self, found: &Found) -> Result<u8, Failure> {
        self.explain(&format!("image: {}", shown(&found.path)));
        let own = found.own.as_ref();
        let lessons = own.filter(|_| self.is_first).map(|(entry, name)| self.tend(entry, name));
        let learns = own.is_some_and(|(_, name)| still_learns(name));
        let due = match found.is_blank() && is_on_first_node(self.place.as_ref()) {
            true => LessonsDue::WithCommandForARefresh,
            false => LessonsDue::AtTheEnd { least: maker::LESSONS_WORTH },
        };
        let learn = learns.then_some(LessonsRequest { file: lessons, due });
        let refresh = own.map(|(entry, _)| maker::words(entry, self.flags.auto.cache_size, &self.roots()));
        let wanted = (learn, refresh.unwrap_or_default());
        let request = request(self.flags, found.path.clone(), wanted, self.place.as_ref(), self.began);
        let mut tell = |found: OriginalsFinding<'_>| {
            if let OriginalsFinding::Changed(stale) = found {
                self.tell(&stale);
            }
        };
        match quell_mount::run(&request, &mut tell) {
            Ok(never) => match never {},
            Err(error) => self.after_failure(error, found),
        }
    }

    /// Changed originals are no news to a user who asked for nothing: one line, and their names with `--explain`.
    fn tell(&self, stale: &StaleOriginals<'_>) {
        if !is_on_first_node(self.place.as_ref()) {
            return;
        }
        // Names that came or went beside the program, as its own output does, are no news at all.
        if stale.changes.iter().all(OriginalChange::is_of_a_listing) {
            return images::first_changes(stale.changes).iter().for_each(|change| self.explain(change));
        }
        let (count, come) = match stale.changes.len() {
            1 => ("1 entry has".to_owned(), "comes"),
            count => (format!("{count} entries have"), "come"),
        };
        self.printer.talk(&format!("{count} changed and {come} from the originals; the image is made anew"));
        if self.flags.auto.explain {
            images::first_changes(stale.changes).iter().for_each(|change| self.printer.detail(change));
        }
    }

    /// Notes the use, and has what earlier runs learned taken in. Returns the file for the lessons of this run.
    fn tend(&self, entry: &CacheEntry, name: &str) -> PathBuf {
        entry.touch();
        if still_learns(name) && entry.has_lessons() {
            entry.take_lessons();
            self.explain("what earlier runs asked of the originals is taken in");
            self.make(entry);
        }
        entry.learned()
    }

    /// The image could not be used: plain, unless the command itself cannot be started.
    fn after_failure(&self, error: RunError, found: &Found) -> Result<u8, Failure> {
        match &error {
            RunError::CommandNotFound { .. } | RunError::NotExecutable { .. } | RunError::Stats { .. } => {
                return Err(explain(error));
            }
            RunError::Stale { changes, .. } => {
                self.say(&format!(
                    "{} {} changed: this run is plain, and the image is made anew",
                    counted(changes.len() as u64, "original"),
                    if changes.len() == 1 { "has" } else { "have" }
                ));
                images::first_changes(changes).iter().for_each(|change| self.explain(change));
                if let (true, Some((entry, _))) = (self.is_first, &found.own) {
                    self.make(entry);
                }
            }
            RunError::Image { source, .. } => {
                self.say(&format!("the image is not used: {source}"));
                if let (true, Some((entry, name))) = (self.is_first && is_lost(source), &found.own) {
                    entry.discard(name);
                }
            }
            // It holds nothing, and no run can teach it.
            error if found.is_blank() => {
                if let (true, Some((entry, _))) = (self.is_first, &found.own) {
                    self.settle(entry, &format!("nothing can be recorded here, and {error}"));
                }
            }
            error => {
                self.say(&format!("the image is not used: {error}"));
                beside::start(self.flags, &found.path, self.place.as_ref(), &|line| self.say(line));
            }
        }
        self.plain()
    }

    /// The first rank found no image.
    fn without_image(&self, key: &CacheKey, subject: &Subject) -> Result<Result<u8, Failure>, CacheError> {
        let Some(path) = cache_path(self.flags.auto.cache.as_deref()) else {
            self.say("no image is made: there is no HOME for a cache; QUELL_CACHE names a directory");
            return Ok(self.plain());
        };
        let cache = CacheDirectory::make(&path)?;
        let entry = cache.make_entry(key)?;
        self.explain(&format!("entry: {}", shown(entry.path())));
        entry.log_lines().iter().rev().take(3).for_each(|(_, line)| self.explain(&format!("log: {line}")));
        if !self.flags.auto.refresh {
            if matches!(entry.state(), EntryState::Image(_)) {
                self.explain("plain: the image came when this step was about to start");
                return Ok(self.plain());
            }
            if self.is_settled(&entry) {
                return Ok(self.plain());
            }
            if !entry.traces().is_empty() {
                self.explain("plain: an image is made of an earlier recording, in the background");
                self.make(&entry);
                return Ok(self.plain());
            }
        }
        if let Some(reason) = self.out_of_question() {
            self.describe(&entry, subject);
            self.settle(&entry, reason);
            self.printer
                .advise("quell run --auto --root DIR -- CMD packs below DIR, whatever its file system");
            return Ok(self.plain());
        }
        if entry.is_locked() {
            self.explain("plain: another process records or packs");
            return Ok(self.plain());
        }
        match entry.lock(&host::job(self.place.as_ref()))? {
            Some(lock) => Ok(self.record(&cache, &entry, lock, subject)),
            None => {
                self.explain("plain: another process records or packs");
                Ok(self.plain())
            }
        }
    }

    /// No image is made for now. The reason is told once.
    fn is_settled(&self, entry: &CacheEntry) -> bool {
        let EntryState::Settled(reason) = entry.state() else { return false };
        let age = entry.state_since().and_then(|since| since.elapsed().ok()).unwrap_or_default();
        if age > SETTLED_FOR {
            return false;
        }
        match reason.told {
            true => self.explain(&format!("plain: {}", reason.text)),
            false => self.settle(entry, &reason.text),
        }
        true
    }

    /// A reason that needs no recording to be known.
    fn out_of_question(&self) -> Option<&'static str> {
        let mounts = quell_record::node::mounts(&quell_base::mountinfo::own_table());
        let is_network = mounts.iter().any(|mount| mount.served_by() == ServedBy::Network);
        (!is_network && self.flags.auto.roots.is_empty()).then_some("this node has no network file system")
    }

    /// Notes which program the entry is for.
    fn describe(&self, entry: &CacheEntry, subject: &Subject) {
        let command = self.flags.command.iter().map(shown).collect();
        entry.describe(&About { command, roots: self.roots(), ..About::from(subject) });
    }

    /// Leaves the program alone for a while, and says so.
    fn settle(&self, entry: &CacheEntry, reason: &str) {
        self.explain(&format!("plain: {reason}"));
        self.printer.talk(&format!("`--auto` leaves this program alone: {reason}"));
        // Told again where the note cannot be kept.
        _ = entry.settle(&SettledReason { text: reason.to_owned(), told: true });
    }

    /// Runs the command and records it.
    fn record(
        &self,
        cache: &CacheDirectory,
        entry: &CacheEntry,
        lock: EntryLock,
        subject: &Subject,
    ) -> Result<u8, Failure> {
        self.describe(entry, subject);
        entry.touch();
        self.explain("this start is recorded");
        // The recording matters more than a file of statistics that cannot be written.
        _ = quell_mount::note_plain_run(self.flags.stats.as_deref(), self.began);
        let directory = entry.new_recording();
        let recording = RecordRequest {
            header: traces::begun(&self.flags.command, self.place.as_ref()),
            command: self.flags.command.clone(),
            environment: std::env::vars_os().collect(),
            directory: directory.clone(),
            scope: RecordedScope::Start(StartLimits {
                leftovers: LeftoverPolicy::LeftAlone,
                ..StartLimits::default()
            }),
            // A mount stays until the command ends, and slows all of it.
            engine: EngineChoice::Ptrace,
            roots: Vec::new(),
            purpose: TracePurpose::Image,
            python: quell_record::PythonHook::None,
        };
        let mut finisher = Finisher { auto: self, entry, directory, lock: Some(lock) };
        let exit = match quell_record::record(&recording, &mut finisher) {
            Ok(recorded) => recorded.exit,
            Err(error) => {
                drop(finisher);
                return self.not_recorded((cache, entry), subject, error);
            }
        };
        match exit {
            Exit::Signal(signal) => quell_mount::end_by_signal(signal),
            exit => Ok(u8::try_from(exit.shell_status()).unwrap_or(OURS)),
        }
    }

    /// The command has not run. Where no start can be recorded, runs teach an image; otherwise this run is plain.
    fn not_recorded(
        &self,
        (cache, entry): (&CacheDirectory, &CacheEntry),
        subject: &Subject,
        error: RecordError,
    ) -> Result<u8, Failure> {
        let barrier = match &error {
            // A tracer of this run says nothing about the next one.
            RecordError::Barred {
                barrier: TraceBarrier::OtherTracer { .. } | TraceBarrier::Recorded { .. },
                ..
            } => None,
            RecordError::Barred { barrier, .. } => Some(barrier.to_string()),
            _ => None,
        };
        if !matches!(error, RecordError::NotFound { .. } | RecordError::NotExecutable { .. }) {
            let line = Failure::new(error).line();
            entry.log(&format!("not recorded: {line}"));
            self.explain(&format!("not recorded: {line}"));
            if let Some(barrier) = barrier {
                match self.begin_to_learn(cache, entry, subject) {
                    Ok(()) => {
                        self.printer.talk(&format!("runs teach the image instead of a recording: {barrier}"));
                        return self.teach(entry);
                    }
                    Err(reason) => self.settle(entry, &reason.unwrap_or(line)),
                }
            }
        }
        self.plain()
    }

    /// Publishes an image that holds nothing. Runs from it ask the originals, and what they asked becomes the next version. The
    /// error says what bars that, if it is not what bars recording.
    fn begin_to_learn(
        &self,
        cache: &CacheDirectory,
        entry: &CacheEntry,
        subject: &Subject,
    ) -> Result<(), Option<String>> {
        let mut roots = self.roots();
        let mut roots_by = RootsBy::User;
        if roots.is_empty() {
            roots_by = RootsBy::Quell;
            let table = quell_base::mountinfo::own_table();
            let search = std::env::var_os("PATH");
            roots = software::directories(subject, &key_variables(), search.as_deref(), &table);
        }
        if roots.is_empty() {
            return Err(None);
        }
        let audience = if cache.is_public() { Audience::Everyone } else { Audience::Owner };
        let options = PackOptions { roots, roots_by, audience, ..PackOptions::default() };
        let name = CacheEntry::blank_image();
        let directory = std::env::current_dir().unwrap_or_default();
        quell_pack::pack_blank(&self.flags.command, &entry.file(&name), &options, directory)
            .map_err(|error| Some(Failure::new(error).line()))?;
        entry.publish(&name).map_err(|error| Some(Failure::new(error).line()))
    }

    /// Runs from the image that holds nothing, unless other ranks of this node have found no image and run plain.
    fn teach(&self, entry: &CacheEntry) -> Result<u8, Failure> {
        match self.state(entry) {
            EntryState::Image(name) => {
                self.in_image(&Found { path: entry.file(&name), own: Some((entry.clone(), name)) })
            }
            _ => self.plain(),
        }
    }

    /// Has the background make the entry's image. Where no process can be started, the next run tries again.
    fn make(&self, entry: &CacheEntry) {
        maker::start(entry, self.flags.auto.cache_size, &self.roots());
    }

    fn plain(&self) -> Result<u8, Failure> {
        Err(plain_with_stats(&self.flags.command, self.flags.stats.as_deref(), self.began))
    }

    /// One line of the job.
    fn say(&self, line: &str) {
        if self.is_first {
            self.printer.talk(line);
        }
    }

    fn explain(&self, line: &str) {
        if self.flags.auto.explain && self.is_first {
            self.printer.detail(line);
        }
    }

    fn subject(&self) -> Option<Subject> {
        let directory = std::env::current_dir().ok()?;
        Subject::of(&self.flags.command, &directory, std::env::var_os("PATH").as_deref())
    }

    fn key_parts(&self, subject: &Subject) -> KeyParts {
        KeyParts {
            subject: subject.clone(),
            variables: key_variables(),
            architecture: std::env::consts::ARCH,
            roots: self.roots(),
        }
    }

    fn roots(&self) -> Vec<PathBuf> {
        let roots = self.flags.auto.roots.iter();
        roots.map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone())).collect()
    }

    fn explain_key(&self, parts: &KeyParts, key: &CacheKey) {
        if !self.flags.auto.explain {
            return;
        }
        self.explain(&format!("program: {}", shown(&parts.subject.program)));
        let script = parts.subject.script.iter();
        script.for_each(|script| self.explain(&format!("script: {}", shown(script))));
        for (name, value) in &parts.variables {
            self.explain(&format!("{name}={}", shown(value)));
        }
        self.explain(&format!("key: {key}"));
    }

    /// The state of an entry, which is the same for all ranks of this step on this node: those of one MPI program must run in one
    /// namespace, or all without, and an image may appear while they start one after the other.
    fn state(&self, entry: &CacheEntry) -> EntryState {
        let ranks = self.place.as_ref().filter(|place| place.ranks != Some(1));
        match ranks.and_then(|_| host::launcher_began()) {
            Some(began) => entry.state_before(began),
            None => entry.state(),
        }
    }
}

/// Has an image made when the recording is complete, while the command goes on.
struct Finisher<'a> {
    auto: &'a Auto<'a>,
    entry: &'a CacheEntry,
    directory: PathBuf,
    lock: Option<EntryLock>,
}

impl Listener for Finisher<'_> {
    fn finished(&mut self, problem: Option<&TraceError>) {
        let whole = problem.is_none() && self.entry.accept(&self.directory).is_ok();
        if !whole {
            _ = std::fs::remove_dir_all(&self.directory);
            self.entry.log("the recording could not be written");
        }
        // The process that makes the image needs the lock.
        self.lock = None;
        if whole {
            self.auto.make(self.entry);
        }
    }
}

/// Versions of an image up to this learn. The later ones are made only where originals have changed.
const LEARNING_VERSIONS: u64 = 12;

/// The time for which a program is left alone. The first run may have been none that tells.
const SETTLED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// `QUELL_AUTO=0` and its like.
fn is_off() -> bool {
    let off = |value: OsString| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        matches!(value.as_str(), "0" | "n" | "no" | "f" | "false" | "off")
    };
    std::env::var_os("QUELL_AUTO").is_some_and(off)
}

fn still_learns(image: &str) -> bool {
    CacheEntry::version(image).is_some_and(|version| version < LEARNING_VERSIONS)
}

/// Tells whether an image is damaged or gone, so that another must be made.
fn is_lost(error: &ImageError) -> bool {
    let gone = |error: &ImageError| {
        matches!(error, ImageError::Unreadable(quell_mount::OsError(rustix::io::Errno::NOENT)))
    };
    images::is_damage(error) || gone(error) || matches!(error, ImageError::Invalid(_) | ImageError::NotAFile)
}

/// The variables of this process that decide what a start looks for: those that a trace keeps, without those that name a place
/// of one job, or how a program behaves. `PATH` counts by the program that is found along it.
fn key_variables() -> Vec<(&'static str, OsString)> {
    const NOT_IN_KEY: &[&str] = &[
        "PATH",
        "HOME",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "MPLCONFIGDIR",
        "LANG",
        "LC_ALL",
        "TZDIR",
        "OMP_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTHONSTARTUP",
        "LD_BIND_NOW",
        "GLIBC_TUNABLES",
        "LMOD_RC",
        "MODULERCFILE",
    ];
    let counts = SEARCH_VARIABLES.iter().filter(|name| !NOT_IN_KEY.contains(name));
    counts.filter_map(|name| Some((*name, std::env::var_os(name)?))).collect()
}
