//! An entry: its state, its files, and the steps from one state to the next.
//!
//! ```text
//! nothing --record--> trace --pack--> image-1 --refresh--> image-2 ...
//!                       `--not worth it, or it cannot be done--> settled, for a week
//! ```
//!
//! `current` is a symbolic link that is never followed: its target is the name of an image, or a text. A reader
//! therefore learns all with one readlink(2), and a writer changes all with one rename(2).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quell_base::files::{Durability, OutputMode, replace};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};

use crate::identity::unique;
use crate::{CacheError, CacheKey, EntryLock};

/// An entry of a cache, which may not be there.
#[derive(Debug, Clone)]
pub struct CacheEntry {
    key: CacheKey,
    path: PathBuf,
}

/// The state that an entry shows to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// There is an image: its file's name in the entry.
    Image(String),
    /// No image will be made for now.
    Settled(SettledReason),
    /// Nothing is known.
    Nothing,
}

/// The reason for which an entry has no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledReason {
    /// A sentence without capital letter and full stop.
    pub text: String,
    /// The user has been told.
    pub told: bool,
}

/// The program of an entry, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The program's file.
    pub program: String,
    /// The script that it interprets.
    pub script: Option<String>,
    /// The first command that was recorded.
    pub command: Vec<String>,
    /// Directories that are packed whatever their file system.
    pub roots: Vec<PathBuf>,
}

/// The names in an entry.
const CURRENT: &str = "current";
const PREVIOUS: &str = "previous";
const ABOUT: &str = "about.json";
const LOG: &str = "log";
const USED: &str = "used";
const LEARNED: &str = "learned";
const IMAGE: &str = "image-";
const IMAGE_END: &str = ".qimg";
const TRACE: &str = "trace-";
/// A recording that is being made, or that a killed process left.
const RECORD: &str = "record-";
const ATTEMPTS: &str = "attempts";
const LESSONS: &str = "lessons-";
/// A link that waits to become `current`, or was it.
const ASIDE: &str = "aside-";

/// A file that a process makes becomes something else, or goes, in less.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// Begins the target of `current` where the entry is settled.
const UNTOLD: &str = "settled: ";
const TOLD: &str = "settled and told: ";

/// Clocks of nodes and file servers differ by less, and clients of NFS remember an absent name for less.
const MARGIN: Duration = Duration::from_secs(60);

/// The longest text in a link. Source: PATH_MAX, with room for what stands before it.
const REASON_MAX: usize = 1000;

/// A longer log is begun anew. Unit: bytes.
const LOG_MAX: u64 = 64 << 10;

/// The time of the last use is written when it is older, so that a busy program does not write at each start.
const USED_STEP: Duration = Duration::from_secs(600);

impl CacheEntry {
    pub(crate) fn at(cache: &Path, key: &CacheKey) -> Self {
        Self { key: key.clone(), path: cache.join(key.as_str()) }
    }

    /// The entry whose directory is `path`, if that can be one.
    pub fn of_path(path: &Path) -> Option<Self> {
        let key = CacheKey::parse(path.file_name()?.to_str()?)?;
        Some(Self { key, path: path.to_owned() })
    }

    /// The entry's key.
    pub fn key(&self) -> &CacheKey {
        &self.key
    }

    /// The entry's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file of the entry.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The state that was reached before `moment`, for ranks that start one after the other and must all find the same.
    ///
    /// A state that is hardly older counts as later: clocks differ, and clients remember for a while that a name was absent.
    pub fn state_before(&self, moment: SystemTime) -> EntryState {
        let settled = |name: &str| {
            let since = modified(&self.file(name))?;
            (since.checked_add(MARGIN)? <= moment).then(|| self.state_of(name))
        };
        settled(CURRENT).or_else(|| settled(PREVIOUS)).unwrap_or(EntryState::Nothing)
    }

    /// The present state, by one system call.
    pub fn state(&self) -> EntryState {
        self.state_of(CURRENT)
    }

    fn state_of(&self, name: &str) -> EntryState {
        let target = rustix::fs::readlink(self.file(name), Vec::new());
        target
            .ok()
            .and_then(|target| target.into_string().ok())
            .map_or(EntryState::Nothing, |text| EntryState::parse(&text))
    }

    /// The time at which the state was reached.
    pub fn state_since(&self) -> Option<SystemTime> {
        self.file(CURRENT).symlink_metadata().ok()?.modified().ok()
    }

    /// Notes that no image will be made for now, and why.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn settle(&self, reason: &SettledReason) -> Result<(), CacheError> {
        let text: String =
            reason.text.chars().filter(|letter| !letter.is_control()).take(REASON_MAX).collect();
        self.point(&format!("{}{text}", if reason.told { TOLD } else { UNTOLD }))
    }

    /// Makes an image of the entry the one that runs use, and removes versions before the last one.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn publish(&self, image: &str) -> Result<(), CacheError> {
        let previous = self.state();
        self.keep_previous();
        self.point(image)?;
        let keeps = |name: &str| name == image || previous == EntryState::Image(name.to_owned());
        let superseded = self.names_with(IMAGE).into_iter().filter(|name| !keeps(image_of(name)));
        superseded.for_each(|name| _ = fs::remove_file(self.file(&name)));
        Ok(())
    }

    /// Forgets the image or the reason that the entry has. An image's file stays, for jobs that use it.
    pub fn forget(&self) {
        _ = fs::remove_file(self.file(CURRENT));
    }

    /// Forgets `image`, which is damaged or gone, and takes its file out of the way.
    pub fn discard(&self, image: &str) {
        if self.state() == EntryState::Image(image.to_owned()) {
            self.forget();
        }
        // Out of the way until the next version; its number is not used again.
        _ = fs::rename(self.file(image), self.file(&format!("{image}.damaged")));
        self.log(&format!("{image} was damaged or gone"));
    }

    /// Gives the present link another name, with its time.
    fn keep_previous(&self) {
        let aside = self.file(&format!("{ASIDE}{}", unique()));
        // On a file system without links to links, a rank that starts at this moment finds nothing and runs plain.
        if fs::hard_link(self.file(CURRENT), &aside).is_ok()
            && fs::rename(&aside, self.file(PREVIOUS)).is_err()
        {
            _ = fs::remove_file(&aside);
        }
    }

    fn point(&self, target: &str) -> Result<(), CacheError> {
        let aside = self.file(&format!("{ASIDE}{}", unique()));
        symlink(target, &aside).map_err(CacheError::of("create", &aside))?;
        fs::rename(&aside, self.file(CURRENT)).map_err(|error| {
            _ = fs::remove_file(&aside);
            CacheError::of("change", &self.file(CURRENT))(error)
        })
    }

    /// The name for the next version of the image.
    pub fn next_image(&self) -> String {
        let last = self.names_with(IMAGE).iter().filter_map(|name| Self::version(name)).max().unwrap_or(0);
        format!("{IMAGE}{}{IMAGE_END}", last + 1)
    }

    /// The name of the image that holds nothing, from which runs learn where nothing can be recorded: version 0.
    pub fn blank_image() -> String {
        format!("{IMAGE}0{IMAGE_END}")
    }

    /// The number of a version by the name of its file.
    pub fn version(name: &str) -> Option<u64> {
        image_of(name).strip_prefix(IMAGE)?.strip_suffix(IMAGE_END)?.parse().ok()
    }

    /// A path for a new recording.
    pub fn new_recording(&self) -> PathBuf {
        self.file(&format!("{RECORD}{}", unique()))
    }

    /// A recording is complete: it counts from now on.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn accept(&self, recording: &Path) -> Result<(), CacheError> {
        let trace = self.file(&format!("{TRACE}{}", unique()));
        fs::rename(recording, trace).map_err(CacheError::of("rename", recording))
    }

    /// The number of the next attempt to make an image of the recordings, from 1, and the time since the last one. An attempt that
    /// was killed counts.
    pub fn attempt(&self) -> (u32, Option<Duration>) {
        let path = self.file(ATTEMPTS);
        let earlier =
            read_short(&path).and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(0_u32);
        let since = path.symlink_metadata().and_then(|found| found.modified()).ok();
        (earlier.saturating_add(1), since.and_then(|time| time.elapsed().ok()))
    }

    /// Notes an attempt before it begins.
    pub fn note_attempt(&self, number: u32) {
        let text = number.to_string();
        _ = replace(&self.file(ATTEMPTS), OutputMode::Exactly(0o600), Durability::Cached, text.as_bytes());
    }

    /// Forgets all attempts, and removes the recordings: an image was made of them, or never will be.
    pub fn forget_recordings(&self) {
        self.traces().iter().for_each(|trace| _ = fs::remove_dir_all(trace));
        _ = fs::remove_file(self.file(ATTEMPTS));
    }

    /// Recordings of which no image was made. Shape: sorted.
    pub fn traces(&self) -> Vec<PathBuf> {
        self.names_with(TRACE).iter().map(|name| self.file(name)).collect()
    }

    /// The file that a run may write what it asked of the originals to.
    pub fn learned(&self) -> PathBuf {
        self.file(LEARNED)
    }

    /// Takes what the last run wrote out of the way of the next one.
    pub fn take_lessons(&self) {
        _ = fs::rename(self.learned(), self.file(&format!("{LESSONS}{}", unique())));
    }

    /// Tells whether a run wrote what it asked of the originals.
    pub fn has_lessons(&self) -> bool {
        self.learned().symlink_metadata().is_ok()
    }

    /// Lessons that were taken. Shape: sorted.
    pub fn lessons(&self) -> Vec<PathBuf> {
        self.names_with(LESSONS).iter().map(|name| self.file(name)).collect()
    }

    /// Takes the lock; `None` if another process has it.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn lock(&self, job: &str) -> Result<Option<EntryLock>, CacheError> {
        EntryLock::take(&self.path, job)
    }

    /// Tells whether another process makes something of the entry.
    pub fn is_locked(&self) -> bool {
        EntryLock::is_taken(&self.path)
    }

    /// Notes the use, unless a run did so just now. The age is told by this node's clock: it need not be exact.
    pub fn touch(&self) {
        let path = self.file(USED);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        // A use that cannot be noted makes the entry look older, and no more.
        _ = match modified(&path) {
            Some(time) if time.elapsed().is_ok_and(|age| age < USED_STEP) => return,
            Some(_) => rustix::fs::utimensat(CWD, path, &now, AtFlags::SYMLINK_NOFOLLOW).is_ok(),
            None => File::options().create_new(true).write(true).mode(0o600).open(path).is_ok(),
        };
    }

    /// The time of the last use; that of the directory where none was noted.
    pub fn used(&self) -> SystemTime {
        modified(&self.file(USED)).or_else(|| modified(&self.path)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Writes which program this is.
    pub fn describe(&self, about: &About) {
        let text = serde_json::to_vec_pretty(about).unwrap_or_default();
        _ = replace(&self.file(ABOUT), OutputMode::Exactly(0o600), Durability::Cached, &text);
    }

    /// The program, if the note is there and whole.
    pub fn about(&self) -> Option<About> {
        serde_json::from_slice(&read_short(&self.file(ABOUT))?).ok()
    }

    /// Adds a line to the log.
    pub fn log(&self, line: &str) {
        let path = self.file(LOG);
        if path.symlink_metadata().is_ok_and(|found| found.size() > LOG_MAX) {
            _ = fs::remove_file(&path);
        }
        let line: String =
            line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let file = File::options().create(true).append(true).mode(0o600).open(path);
        _ = file.and_then(|mut file| file.write_all(format!("{seconds} {line}\n").as_bytes()));
    }

    /// The lines of the log, each with its time in seconds since 1970. Shape: the oldest first.
    pub fn log_lines(&self) -> Vec<(u64, String)> {
        let text = read_short(&self.file(LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = |line: &str| {
            let (time, said) = line.split_once(' ')?;
            Some((time.parse().ok()?, said.to_owned()))
        };
        text.lines().filter_map(line).collect()
    }

    /// Removes what killed processes left. The caller has the lock, so that no recording is being made.
    pub fn sweep(&self) {
        self.names_with(RECORD).iter().for_each(|name| _ = fs::remove_dir_all(self.file(name)));
        for name in self.names_with(ASIDE).into_iter().chain(self.names_with(crate::lock::ASIDE)) {
            let path = self.file(&name);
            let old = path.symlink_metadata().and_then(|found| found.modified());
            if old.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFTOVER_AGE)) {
                _ = fs::remove_file(path);
            }
        }
    }

    /// Names of the entry that begin with `prefix`. Shape: sorted.
    fn names_with(&self, prefix: &str) -> Vec<String> {
        let names = fs::read_dir(&self.path).into_iter().flatten();
        let name = |name: fs::DirEntry| name.file_name().into_string().ok();
        let mut names: Vec<String> =
            names.filter_map(|found| name(found.ok()?)).filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }

    /// The versions of the image. Shape: sorted by name.
    pub fn images(&self) -> Vec<String> {
        let all = self.names_with(IMAGE).into_iter();
        all.filter(|name| is_image(name)).collect()
    }
}

impl EntryState {
    fn parse(target: &str) -> Self {
        let settled = |text: &str, told| Self::Settled(SettledReason { text: text.to_owned(), told });
        if let Some(text) = target.strip_prefix(TOLD) {
            return settled(text, true);
        }
        if let Some(text) = target.strip_prefix(UNTOLD) {
            return settled(text, false);
        }
        // The name stands for a file of the entry and for nothing else.
        match is_image(target) {
            true => Self::Image(target.to_owned()),
            false => Self::Nothing,
        }
    }
}

/// Tells whether a file of this name is a version of the image.
fn is_image(name: &str) -> bool {
    CacheEntry::version(name).is_some() && name.ends_with(IMAGE_END)
}

/// The image whose file, or whose stamp's file, `name` is.
fn image_of(name: &str) -> &str {
    name.split_inclusive(IMAGE_END).next().unwrap_or(name)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.symlink_metadata().and_then(|found| found.modified()).ok()
}

/// A file's bytes, as many as a note of the entry can have.
fn read_short(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(2 * LOG_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl From<&crate::Subject> for About {
    fn from(subject: &crate::Subject) -> Self {
        let text = |path: &OsString| quell_base::escape(path.clone().into_vec());
        Self {
            program: text(&subject.program.clone().into_os_string()),
            script: subject.script.as_ref().map(text),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheDirectory;

    fn entry(directory: &tempfile::TempDir) -> CacheEntry {
        let key = CacheKey::parse("0123456789abcdef0123456789abcdef").unwrap();
        CacheDirectory::make(&directory.path().join("cache")).unwrap().make_entry(&key).unwrap()
    }

    #[test]
    fn an_entry_goes_from_nothing_to_images_and_keeps_two() {
        let directory = tempfile::tempdir().unwrap();
        let entry = entry(&directory);
        assert_eq!(entry.state(), EntryState::Nothing);
        for version in 1..=4 {
            let name = entry.next_image();
            assert_eq!(name, format!("image-{version}.qimg"));
            fs::write(entry.file(&name), "").unwrap();
            fs::write(entry.file(&format!("{name}.checked")), "").unwrap();
            entry.publish(&name).unwrap();
            assert_eq!(entry.state(), EntryState::Image(name));
        }
        assert_eq!(entry.images(), ["image-3.qimg", "image-4.qimg"]);
        assert_eq!(entry.names_with("image-").len(), 4, "and their stamps");
        let later = SystemTime::now() + 2 * MARGIN;
        assert_eq!(entry.state_before(later), EntryState::Image("image-4.qimg".to_owned()));
        assert_eq!(entry.state_before(SystemTime::now()), EntryState::Nothing);
        assert_eq!(entry.state_of(PREVIOUS), EntryState::Image("image-3.qimg".to_owned()));
        entry.discard("image-4.qimg");
        assert_eq!(entry.state(), EntryState::Nothing);
        assert_eq!(entry.images(), ["image-3.qimg"]);
        assert_eq!(entry.next_image(), "image-5.qimg");
    }

    #[test]
    fn a_reason_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let entry = entry(&directory);
        for told in [false, true] {
            let reason = SettledReason { text: "few operations".to_owned(), told };
            entry.settle(&reason).unwrap();
            assert_eq!(entry.state(), EntryState::Settled(reason));
        }
        entry.forget();
        assert_eq!(entry.state(), EntryState::Nothing);
    }

    #[test]
    fn a_planted_name_is_no_image() {
        for target in
            ["../image-1.qimg", "/image-1.qimg", "image-1.qimg/x", "image-x.qimg", "image-1.qimg.checked", ""]
        {
            assert_eq!(EntryState::parse(target), EntryState::Nothing, "{target}");
        }
    }

    #[test]
    fn notes_are_read_back_and_damage_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let entry = entry(&directory);
        let about = About { program: "/bin/sh".into(), command: vec!["sh".into()], ..About::default() };
        entry.describe(&about);
        assert_eq!(entry.about(), Some(about));
        fs::write(entry.file(ABOUT), "{\"program\": ").unwrap();
        assert_eq!(entry.about(), None);
        entry.log("one\ntwo");
        let lines: Vec<_> = entry.log_lines().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["one two"]);
    }
}
