//! The kinds of operations on a path, for rules that need more than their number.
//!
//! Kept in small numbers, because there is one of these for each distinct path of a recording.

use quell_trace::flags::{
    LOCK_COMMANDS, MAP_PRIVATE, MAP_TYPE, O_ACCMODE, O_CREAT, O_TMPFILE, O_TRUNC, PROT_WRITE,
};
use quell_trace::{Call, Class, Errno, Event, Outcome, PathId, PathTable, ProcessId};
use std::ops::AddAssign;

/// The kinds of operations on one path. Successes, unless it says otherwise. Counts stop at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Attributes or permission asked for by name.
    pub stats: u32,
    /// Those of them that the program asked which had asked for the same path last.
    pub restats: u32,
    /// Attributes asked for by descriptor.
    pub fstats: u32,
    /// Opens.
    pub opens: u32,
    /// Opens by the program that had opened it last: in the same process, without another program in between.
    pub reopened: u32,
    /// `readlink` calls that failed because it is no symbolic link.
    pub not_links: u32,
    /// Questions for extended attributes that it has not, or that its file system does not keep.
    pub no_attributes: u32,
    /// Calls that listed it.
    pub list_calls: u32,
    /// Listings that reached their end.
    pub listings: u32,
    /// Opens that were to create it, and `mkdir`, `mknod`, `symlink` of it.
    pub creates: u32,
    /// The recording changed it, its content or its attributes, or locked it.
    pub changed: bool,
    /// A recording made this name, and removed it before its end.
    pub temporary: bool,
    /// A recording made this name and left it, moved it, or changed what it found there.
    pub lasting: bool,
}

impl Habits {
    /// True for the name of a temporary file or directory: no recording left anything of it, or changed what was there before.
    pub(crate) const fn is_temporary(&self) -> bool {
        self.temporary && !self.lasting
    }
}

impl AddAssign for Habits {
    fn add_assign(&mut self, other: Self) {
        let pairs = [
            (&mut self.stats, other.stats),
            (&mut self.restats, other.restats),
            (&mut self.fstats, other.fstats),
            (&mut self.opens, other.opens),
            (&mut self.reopened, other.reopened),
            (&mut self.not_links, other.not_links),
            (&mut self.no_attributes, other.no_attributes),
            (&mut self.list_calls, other.list_calls),
            (&mut self.listings, other.listings),
            (&mut self.creates, other.creates),
        ];
        pairs.into_iter().for_each(|(mine, others)| *mine = mine.saturating_add(others));
        self.changed |= other.changed;
        self.temporary |= other.temporary;
        self.lasting |= other.lasting;
    }
}

/// The life of a name in one recording, by the calls that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NameLife {
    /// No call succeeded on it.
    #[default]
    Unknown,
    /// It was there before the recording asked for it.
    Found,
    /// The recording made it.
    Made,
    /// The recording made it and removed it.
    Removed,
    /// Other nodes, or later runs, see what the recording did to it.
    Lasting,
}

impl NameLife {
    /// The life after an event that succeeded.
    fn after(self, event: &Event) -> Self {
        let creates = creates(event);
        match (self, event.call) {
            (Self::Lasting, _) => Self::Lasting,
            (_, Call::Rename | Call::Renameat | Call::Renameat2 | Call::Link | Call::Linkat) => Self::Lasting,
            (Self::Made | Self::Removed, Call::Unlink | Call::Unlinkat | Call::Rmdir) => Self::Removed,
            (Self::Unknown | Self::Removed | Self::Made, _) if creates => Self::Made,
            (Self::Unknown | Self::Found, _) if event.call.class() == Class::Change || creates => {
                Self::Lasting
            }
            (Self::Unknown, _) => Self::Found,
            (life, _) => life,
        }
    }
}

/// The habits of a path of one recording, being counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HabitTally {
    habits: Habits,
    life: NameLife,
    /// The last process that opened it, and the last that asked for its attributes.
    opener: Option<ProgramNumber>,
    asker: Option<ProgramNumber>,
}

impl HabitTally {
    /// Notes that an event changed the content or the attributes.
    pub(crate) fn change(&mut self) {
        self.habits.changed = true;
    }

    /// Notes that another name of the same call became this one: the new name of a rename or of a link.
    pub(crate) fn take(&mut self) {
        self.life = NameLife::Lasting;
    }

    /// The habits at the end of the recording.
    pub(crate) fn finish(&self) -> Habits {
        let lasting = match self.life {
            NameLife::Made | NameLife::Lasting => true,
            NameLife::Unknown | NameLife::Found => self.habits.changed,
            NameLife::Removed => false,
        };
        Habits { temporary: self.life == NameLife::Removed, lasting, ..self.habits }
    }
}

/// A program that runs in a process, from one `execve` to the next. Never 0, so that `None` takes no room.
type ProgramNumber = std::num::NonZeroU32;

/// The facts that judge events beside their path.
#[derive(Debug)]
pub(crate) struct HabitJudge {
    /// The path of a call that means its descriptor: `newfstatat(fd, "", ...)`.
    empty: Option<PathId>,
    /// Shape: one entry a process: the program that it runs.
    programs: Vec<ProgramNumber>,
    last: ProgramNumber,
}

impl HabitJudge {
    pub(crate) fn new(paths: &PathTable, processes: usize) -> Self {
        let programs: Vec<ProgramNumber> = (1..=processes as u32).filter_map(ProgramNumber::new).collect();
        Self {
            empty: paths.find(b""),
            last: programs.last().copied().unwrap_or(ProgramNumber::MIN),
            programs,
        }
    }

    /// Notes that a process runs another program from here on.
    pub(crate) fn execute(&mut self, process: ProcessId) {
        if let Some(program) = self.programs.get_mut(process.0 as usize) {
            self.last = self.last.saturating_add(1);
            *program = self.last;
        }
    }

    /// Counts a metadata operation on the path.
    pub(crate) fn count(&self, tally: &mut HabitTally, event: &Event) {
        let habits = &mut tally.habits;
        let Outcome::Success(value) = event.outcome else {
            let failed = (event.call.class(), event.outcome.errno());
            bump(&mut habits.not_links, failed == (Class::ReadLink, Some(EINVAL)));
            let no_attributes = [ENODATA, EOPNOTSUPP].map(|errno| (Class::Xattr, Some(errno)));
            bump(&mut habits.no_attributes, no_attributes.contains(&failed));
            return;
        };
        tally.life = tally.life.after(event);
        match event.call.class() {
            Class::Stat | Class::Access => match event.path {
                Some(path) if Some(path) != self.empty => {
                    let program = self.programs.get(event.process.0 as usize).copied();
                    bump(&mut habits.stats, true);
                    bump(&mut habits.restats, program.is_some() && tally.asker == program);
                    tally.asker = program;
                }
                _ => bump(&mut habits.fstats, true),
            },
            Class::Open => {
                let program = self.programs.get(event.process.0 as usize).copied();
                bump(&mut habits.opens, true);
                bump(&mut habits.reopened, program.is_some() && tally.opener == program);
                bump(&mut habits.creates, creates(event));
                tally.opener = program;
            }
            Class::List => {
                bump(&mut habits.list_calls, true);
                bump(&mut habits.listings, value == 0);
            }
            Class::Change => bump(&mut habits.creates, creates(event)),
            _ => {}
        }
    }
}

/// True for an event that did not fail and changes or locks its target: an image must not answer for the directory then.
/// Follows what packing judges by.
pub(crate) fn changes(event: &Event) -> bool {
    if event.outcome.errno().is_some() {
        return false;
    }
    match event.call.class() {
        Class::Write => !matches!(event.call, Call::CopyFileRange | Call::Splice | Call::Tee),
        Class::Change | Class::Lock => true,
        Class::Open => {
            event.call == Call::Creat
                || event.flags & (O_CREAT | O_TRUNC | O_ACCMODE) != 0
                || event.flags & O_TMPFILE == O_TMPFILE
        }
        Class::Map => (event.flags >> 32) & PROT_WRITE != 0 && event.flags & MAP_TYPE != MAP_PRIVATE,
        Class::Descriptor => event.call == Call::Fcntl && LOCK_COMMANDS.contains(&event.flags),
        _ => false,
    }
}

/// True for an event that did not fail and changes its second target: the new name of a rename, the target of a copy.
pub(crate) fn changes_second(event: &Event) -> bool {
    let class = event.call.class();
    event.outcome.errno().is_none()
        && (class == Class::Change || matches!(event.call, Call::CopyFileRange | Call::Splice | Call::Tee))
}

/// True for an open that is to create its target, and for `mkdir`, `mknod` and `symlink` of it.
fn creates(event: &Event) -> bool {
    use Call::{Creat, Mkdir, Mkdirat, Mknod, Mknodat, Symlink, Symlinkat};
    match event.call {
        Creat | Mkdir | Mkdirat | Mknod | Mknodat | Symlink | Symlinkat => true,
        call => call.class() == Class::Open && event.flags & O_CREAT != 0,
    }
}

fn bump(count: &mut u32, applies: bool) {
    *count = count.saturating_add(u32::from(applies));
}

/// The error of `readlink(2)` for a name that is there and no link.
const EINVAL: Errno = Errno(22);
/// The error of `getxattr(2)` for an attribute that is absent.
const ENODATA: Errno = Errno(61);
/// The error of `getxattr(2)` on a file system without such attributes.
const EOPNOTSUPP: Errno = Errno(95);
