//! Asks every tool, as every class of users, every question about both sides, and compares the answers.

use super::normal::Naming;
use super::questions::{self, AskedNames};
use super::states::{AnswerWalk, AskedQuestion, ShellState};
use super::{ConversionJudge, Difference, JudgedSide, UnaskedUsers, refuse_name, users};
use crate::ModulesError;
use crate::caches;
use crate::cookie::Cookie;
use crate::place::{self, Aside};
use crate::scan::{self, FileRole, ModuleTree, ScanOptions};
use crate::tools::{self, Answers, Environment, Question, Tool, ToolAnswer, ToolKind, User};
use crate::trust::{ChangedBy, Changers, TrustInquiry, is_root};
use quell_base::lock;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZero;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The judge that asks the site's own tools.
#[derive(Clone, Debug)]
pub struct ToolsJudge {
    /// The tools. Without any, [`ConversionJudge::differences`] finds nothing, which proves nothing.
    pub tools: Vec<Tool>,
    /// The users that ask. Empty: the user of this process; for root every class of users that the permissions of the trees
    /// tell apart, unless another user could misuse the rights of that class.
    pub users: Vec<User>,
    /// Further users: members of groups that root names. See [`super::members`].
    pub members: Vec<User>,
    /// Settings of the site for both sides, such as `LMOD_RC`. Shape: name and value.
    pub variables: Vec<(OsString, OsString)>,
    /// The number of processes at a time. Range: from 1.
    pub jobs: NonZero<usize>,
}

/// The progress of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Questions answered.
    pub answered: usize,
    /// Questions in all, as far as is known yet.
    pub asked: usize,
    /// A question over which the tool has been silent for some seconds.
    pub slow: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedComparison {
    /// Shape: sorted by tool, user, question.
    pub differences: Vec<Difference>,
    /// The names of the users that asked.
    pub users: Vec<String>,
    /// Users that did not ask, because another user could have misused their rights or because they are too many.
    pub unasked: Option<UnaskedUsers>,
    /// Questions that both sides answered.
    pub questions: usize,
    /// Answers that took a process of their own.
    pub apart: usize,
    /// Modulepaths that modulefiles add, as far as users may look at them. Shape: sorted; as the old side names them; without its own.
    pub added: Vec<PathBuf>,
    /// Questions that were skipped, because the tool did not answer in time: a modulefile hangs.
    pub silent: Vec<String>,
}

impl ConversionJudge for ToolsJudge {
    fn differences(&mut self, old: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
        Ok(self.compare(old, new, &|_| {})?.differences)
    }
}

/// The least number of questions for one process: starting it takes the time of 30 questions.
const QUESTIONS_A_PROCESS: usize = 400;

/// The most processes for one round of a tool and a user, so that starting many does not take the time of many questions. With fewer, the
/// last process would run alone for long.
const PROCESSES_A_ROUND: usize = 8;

/// Differences are confirmed by processes of their own until this many are found: one decides, the others are for people.
/// Changed answers and changed wordings are counted separately.
const ASKED_AGAIN: usize = 4;

/// Questions of one user to one tool, asked about both sides.
#[derive(Debug)]
struct Piece<'a> {
    tool: &'a Tool,
    user: &'a User,
    questions: Vec<AskedQuestion>,
    /// The answers of the side that was asked first. No other output is kept.
    first: Mutex<Option<Vec<String>>>,
}

/// Two answers that differ.
type Doubt<'a> = (&'a Tool, &'a User, AskedQuestion, [String; 2]);

impl ToolsJudge {
    /// Compares the answers of the tools about both sides. `progress` is called from several threads.
    ///
    /// **Errors**: [`ModulesError::Run`] for a tool that cannot be started, [`ModulesError::Colon`].
    pub fn compare(
        &self,
        old: &JudgedSide,
        new: &JudgedSide,
        progress: &(dyn Fn(VerifyProgress) + Sync),
    ) -> Result<JudgedComparison, ModulesError> {
        self.compare_about(old, new, None, progress)
    }

    /// Like [`ToolsJudge::compare`], for sides that are known to differ only about these names at the root of a modulepath: one
    /// listing of everything, listings of these names, the names, and what their modulefiles lead to.
    ///
    /// **Errors**: those of [`ToolsJudge::compare`].
    pub fn compare_about(
        &self,
        old: &JudgedSide,
        new: &JudgedSide,
        about: Option<&BTreeSet<Vec<u8>>>,
        progress: &(dyn Fn(VerifyProgress) + Sync),
    ) -> Result<JudgedComparison, ModulesError> {
        let sides = [old, new];
        sides.iter().flat_map(|side| &side.modulepaths).try_for_each(|path| refuse_name(path))?;
        let scanned = |side: &JudgedSide| -> Result<Vec<Option<Scanned>>, ModulesError> {
            side.places().iter().map(|path| Scanned::of(path)).collect()
        };
        let scanned = [scanned(old)?, scanned(new)?];
        let trees: Vec<&ModuleTree> =
            scanned.iter().flatten().flatten().map(|scanned| &scanned.tree).collect();
        let (users, unasked) = self.users(&trees, sides);
        users.iter().try_for_each(|user| users::refuse_unreachable(user, sides))?;
        let collections = Collections::new(&users)?;
        let naming = Naming::new(sides, &collections.directories);
        let walk = || Mutex::new(AnswerWalk::new(&old.modulepaths, &naming));
        let pairs = self.tools.iter().flat_map(|tool| users.iter().map(move |user| (tool, user)));
        let asking = Asking {
            walks: pairs.map(|pair| (pair, walk())).collect(),
            environments: sides.map(|side| side.environment(&self.variables)),
            naming: &naming,
            jobs: self.jobs.get(),
            count: Count::new(progress),
        };
        let mut talk = Talk { asking: &asking, doubts: Vec::new(), questions: 0 };
        let fresh = |questions: Vec<Question>| questions.into_iter().map(AskedQuestion::fresh).collect();
        talk.ask(&mut |tool, _, _| Ok(fresh(questions::listings(tool.kind, about))))?;
        talk.ask(&mut |tool, _, walk| {
            if about.is_none() {
                refuse_silence(tool, &walk.names, &scanned[0])?;
            }
            trees.iter().for_each(|tree| walk.names.add_tree(tree));
            Ok(fresh(walk.names.questions(tool.kind, about)))
        })?;
        talk.ask(&mut |_, _, walk| Ok(walk.primed()))?;
        let mut opened = Opened { is_open: !is_root() || !self.users.is_empty(), whose: BTreeMap::new() };
        while let Some(states) = asking.new_states(&mut opened)? {
            let of = |tool, user| states.get(&(tool, user)).into_iter().flatten();
            talk.ask(&mut |tool, user, _| {
                let listings = of(tool, user).flat_map(|state| AnswerWalk::listings(tool.kind, state));
                let homes = collections.homes(tool, user);
                let saves = of(tool, user).filter_map(|state| Some(AskedQuestion::save(state, homes?)));
                Ok(listings.chain(saves).collect())
            })?;
            talk.ask(&mut |tool, user, walk| {
                let mut collection = |state: &ShellState, name: Option<&[u8]>| match tool.kind {
                    ToolKind::Modules => collections.make(state, name).map(Some),
                    ToolKind::Lmod => Ok(None),
                };
                let asked = of(tool, user).map(|state| walk.questions(state, &mut collection));
                let mut asked = asked.collect::<Result<Vec<_>, _>>()?.concat();
                let homes = collections.homes(tool, user);
                asked.extend(
                    of(tool, user).filter_map(|state| Some(AskedQuestion::restore_saved(state, homes?))),
                );
                Ok(asked)
            })?;
        }
        let Talk { mut doubts, questions, .. } = talk;
        doubts.sort_by_cached_key(|(tool, user, asked, _)| (*tool, *user, asked.shown()));
        let differences = asking.judge(doubts)?;
        let users = users.iter().map(|user| user.name.clone()).collect();
        let Count { apart, silent, .. } = asking.count;
        let silent = silent.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
        let mut added: Vec<PathBuf> = opened.whose.into_keys().collect();
        added.retain(|path| path.is_dir() && !old.modulepaths.contains(path));
        Ok(JudgedComparison {
            differences,
            users,
            unasked,
            questions,
            apart: apart.into_inner(),
            added,
            silent,
        })
    }

    /// The users that ask, and those that do not.
    fn users(&self, trees: &[&ModuleTree], sides: [&JudgedSide; 2]) -> (Vec<User>, Option<UnaskedUsers>) {
        let (mut asked, unasked) = match (self.users.is_empty(), is_root()) {
            (false, _) => (self.users.clone(), None),
            (true, false) => (vec![User::ourselves()], None),
            (true, true) => {
                let changers = self.changers(trees, sides);
                let mut classes = users::of(trees, &changers);
                classes.unasked.retain(|user| !self.members.contains(user));
                (classes.asked, UnaskedUsers::of(&classes.unasked, changers.place()))
            }
        };
        let further: Vec<User> = self.members.iter().filter(|user| !asked.contains(user)).cloned().collect();
        asked.extend(further);
        (asked, unasked)
    }

    /// The users that can change what is evaluated.
    fn changers(&self, trees: &[&ModuleTree], sides: [&JudgedSide; 2]) -> Changers {
        let mut inquiry = TrustInquiry::new();
        trees.iter().for_each(|tree| inquiry.tree(tree));
        // A modulepath that could not be listed has no tree.
        sides.iter().flat_map(|side| &side.modulepaths).for_each(|path| inquiry.path(path));
        sides.iter().flat_map(|side| &side.over).for_each(|(_, tree)| inquiry.path(tree));
        self.tools.iter().for_each(|tool| inquiry.tool(tool));
        inquiry.variables(self.variables.iter().map(|(_, value)| value));
        let own = sides.iter().flat_map(|side| &side.variables).map(|(_, value)| value.into());
        inquiry.variables(&own.collect::<Vec<OsString>>());
        inquiry.changers()
    }
}

/// The means to ask both sides and compare their answers.
struct Asking<'a> {
    environments: [Environment; 2],
    naming: &'a Naming,
    /// The answers of each tool to each user.
    walks: BTreeMap<(&'a Tool, &'a User), Mutex<AnswerWalk>>,
    jobs: usize,
    count: Count<'a>,
}

/// The states of each tool and user.
type States<'a> = BTreeMap<(&'a Tool, &'a User), Vec<Arc<ShellState>>>;

/// The next questions to a tool as a user.
type Round<'t, 'a> =
    &'t mut dyn FnMut(&'a Tool, &'a User, &mut AnswerWalk) -> Result<Vec<AskedQuestion>, ModulesError>;

/// Rounds of questions.
struct Talk<'t, 'a> {
    asking: &'t Asking<'a>,
    doubts: Vec<Doubt<'a>>,
    questions: usize,
}

impl<'a> Talk<'_, 'a> {
    /// Asks every tool as every user what `of` says.
    fn ask(&mut self, of: Round<'_, 'a>) -> Result<(), ModulesError> {
        let asking = self.asking;
        let mut all = Vec::new();
        for (&(tool, user), walk) in &asking.walks {
            all.extend(pieces(tool, user, of(tool, user, &mut lock(walk))?));
        }
        self.questions += all.iter().map(|piece| piece.questions.len()).sum::<usize>();
        self.doubts.extend(asking.ask(&all)?);
        Ok(())
    }
}

impl<'a> Asking<'a> {
    /// States that the last round found, of users who may look at them; `None` if there is none.
    fn new_states(&self, opened: &mut Opened) -> Result<Option<States<'a>>, ModulesError> {
        let mut states = States::new();
        for (&(tool, user), walk) in &self.walks {
            for state in lock(walk).new_states(self.naming) {
                if opened.may_ask(user, &state.directories)? {
                    states.entry((tool, user)).or_default().push(state);
                }
            }
        }
        Ok((!states.is_empty()).then_some(states))
    }

    /// Asks both sides about every piece, several at a time, and compares each piece as soon as both have answered.
    ///
    /// Shape: the answers that differ, by piece and question.
    fn ask(&self, pieces: &[Piece<'a>]) -> Result<Vec<Doubt<'a>>, ModulesError> {
        let questions: usize = pieces.iter().map(|piece| 2 * piece.questions.len()).sum();
        self.count.asked.fetch_add(questions, Ordering::Relaxed);
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        // The two sides of a piece follow each other, so that few answers wait for those of the other side.
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(number / 2) else { return };
                let doubts = self.ask_side(piece, number % 2);
                lock(&results).push((number / 2, doubts));
            }
        };
        std::thread::scope(|scope| {
            (0..self.jobs.min(2 * pieces.len())).for_each(|_| _ = scope.spawn(work));
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(number, _)| *number);
        let mut all = Vec::new();
        for (_, doubts) in results {
            all.extend(doubts?);
        }
        Ok(all)
    }

    /// Asks one side, and compares it with the other if that has answered.
    fn ask_side(&self, piece: &Piece<'a>, side: usize) -> Result<Vec<Doubt<'a>>, ModulesError> {
        let Piece { tool, user, questions, first } = piece;
        let answers = self.count.ask(piece, side, &self.environments[side])?;
        if let Some(walk) = self.walks.get(&(*tool, *user)) {
            let mut walk = lock(walk);
            let pairs = questions.iter().zip(&answers);
            pairs.for_each(|(asked, answer)| walk.hear(tool.kind, side, asked, answer, self.naming));
        }
        let normal = |(asked, answer): (&AskedQuestion, &ToolAnswer)| {
            self.naming.normal(tool.kind, &asked.words, answer)
        };
        let own: Vec<String> = questions.iter().zip(&answers).map(normal).collect();
        let mut first = lock(first);
        let Some(other) = first.take() else {
            *first = Some(own);
            return Ok(Vec::new());
        };
        let both = own.into_iter().zip(other).zip(questions);
        let differing = both.filter(|((own, other), _)| own != other);
        Ok(differing
            .map(|((own, other), question)| {
                let [old, new] = if side == 0 { [own, other] } else { [other, own] };
                (*tool, *user, question.clone(), lacking_of(&old, &new))
            })
            .collect())
    }

    /// The differences that remain when each question is asked separately, as a user asks it.
    fn judge(&self, doubts: Vec<Doubt<'_>>) -> Result<Vec<Difference>, ModulesError> {
        let mut differences = Vec::new();
        let (mut reworded, mut real) = (0, 0);
        let silent = lock(&self.count.silent).clone();
        for (tool, user, asked, lacking) in doubts {
            if silent.contains(&asked.shown()) {
                continue;
            }
            let difference = |[old, new]: [String; 2]| Difference {
                tool: tool.to_string(),
                user: user.name.clone(),
                question: asked.shown(),
                old,
                new,
            };
            let mut found = difference(lacking);
            // Rewordings are counted separately: a conversion for eval always has some, and they do not prevent it.
            let known = if found.is_rewording() { reworded } else { real };
            if known < ASKED_AGAIN {
                let [old, new] = [0, 1].map(|side| {
                    let answer = tools::ask_apart(tool, &self.environments[side], user, &asked.on(side))?;
                    Ok::<_, ModulesError>(self.naming.normal(tool.kind, &asked.words, &answer))
                });
                let (old, new) = (old?, new?);
                if old == new {
                    continue;
                }
                found = difference(lacking_of(&old, &new));
            }
            *(if found.is_rewording() { &mut reworded } else { &mut real }) += 1;
            differences.push(found);
        }
        Ok(differences)
    }
}

/// For each of two texts the lines that the other lacks.
fn lacking_of(old: &str, new: &str) -> [String; 2] {
    [missing(old, new), missing(new, old)]
}

/// Saved collections of each side.
struct Collections {
    _aside: Aside,
    directories: [PathBuf; 2],
    /// The number of files for Environment Modules, which reads any.
    made: Cell<usize>,
    /// Homes where Lmod keeps what it saves. Each belongs to its user, and no other user can enter it.
    homes: BTreeMap<User, [PathBuf; 2]>,
}

impl Collections {
    fn new(users: &[User]) -> Result<Self, ModulesError> {
        let temporary = std::env::temp_dir();
        let make = || -> std::io::Result<Self> {
            let aside = Aside::new("quell-verify-", &temporary)?;
            let directories = ["old", "new"].map(|side| aside.path().join(side));
            directories.iter().try_for_each(|path| place::make_open_directory(path))?;
            std::fs::set_permissions(aside.path(), PermissionsExt::from_mode(0o755))?;
            Ok(Self { _aside: aside, directories, made: Cell::new(0), homes: BTreeMap::new() })
        };
        let mut made = make().map_err(ModulesError::write(&temporary))?;
        for (number, user) in users.iter().enumerate() {
            let homes = made.directories.each_ref().map(|side| side.join(format!("home-{number}")));
            for home in &homes {
                std::fs::DirBuilder::new().mode(0o700).create(home).map_err(ModulesError::write(home))?;
                caches::hand_over(home, user)?;
            }
            made.homes.insert(user.clone(), homes);
        }
        Ok(made)
    }

    /// The homes of a user, one a side; `None` for a tool that restores from a file.
    fn homes(&self, tool: &Tool, user: &User) -> Option<&[PathBuf; 2]> {
        self.homes.get(user).filter(|_| tool.kind == ToolKind::Lmod)
    }

    /// The files of a collection, one a side.
    fn make(&self, state: &ShellState, name: Option<&[u8]>) -> Result<[OsString; 2], ModulesError> {
        self.made.set(self.made.get() + 1);
        let paths = [0, 1].map(|side| self.directories[side].join(self.made.get().to_string()));
        for (side, path) in paths.iter().enumerate() {
            let written = std::fs::write(path, state.collection(side, name));
            let is_open =
                written.and_then(|()| std::fs::set_permissions(path, PermissionsExt::from_mode(place::OPEN)));
            is_open.map_err(ModulesError::write(path))?;
        }
        Ok(paths.map(PathBuf::into_os_string))
    }
}

/// Modulepaths that modulefiles add. A user asks about one only if its authors could not misuse that user's rights.
struct Opened {
    /// Every user may ask: users that the caller named, or the one of this process.
    is_open: bool,
    whose: BTreeMap<PathBuf, ChangedBy>,
}

impl Opened {
    fn may_ask(&mut self, user: &User, directories: &[PathBuf]) -> Result<bool, ModulesError> {
        for directory in directories {
            if !self.whose.contains_key(directory) {
                let mut inquiry = TrustInquiry::new();
                inquiry.path(directory);
                if let Some(scanned) = Scanned::of(directory)? {
                    inquiry.tree(&scanned.tree);
                }
                self.whose.insert(directory.clone(), inquiry.changers().changed_by());
            }
        }
        let is_safe = |path: &PathBuf| self.whose.get(path).is_some_and(|whose| users::may_ask(*whose, user));
        Ok(self.is_open || directories.iter().all(is_safe))
    }
}

/// A modulepath, and the names in it that every tool must list.
struct Scanned {
    tree: ModuleTree,
    plain: BTreeSet<Vec<u8>>,
}

impl Scanned {
    /// Reads a modulepath; `None` if it cannot be listed or does not exist. The tools are asked about it all the same.
    fn of(path: &Path) -> Result<Option<Self>, ModulesError> {
        let mut tree = match ModuleTree::scan(path, ScanOptions::default()) {
            Err(ModulesError::Read { .. }) => return Ok(None),
            tree => tree?,
        };
        tree.refuse_special()?;
        let plain = plain(&tree);
        // Content is not needed from here on.
        for entry in &mut tree.entries {
            if let scan::EntryKind::File(content) = &mut entry.kind {
                *content = Vec::new();
            }
        }
        Ok(Some(Self { tree, plain }))
    }
}

/// Modulefiles that every user and version lists; empty where an rc file may hide some.
fn plain(tree: &ModuleTree) -> BTreeSet<Vec<u8>> {
    let hides = |(entry, role): (&scan::TreeEntry, FileRole)| {
        let has = |word: &[u8]| {
            entry.content().is_none_or(|text| text.windows(word.len()).any(|part| part == word))
        };
        matches!(role, FileRole::Rc(_)) && (has(b"hide") || has(b"ignore") || has(b"source"))
    };
    if tree.files().any(hides) {
        return BTreeSet::new();
    }
    let is_plain = |(entry, role): &(&scan::TreeEntry, FileRole)| {
        *role == FileRole::Module && entry.cookie() == Some(Cookie::Any) && tree.is_for_everybody(entry)
    };
    tree.files().filter(is_plain).map(|(entry, _)| entry.path.clone()).collect()
}

/// Refuses a tool that lists no modulefile of a modulepath: two empty answers are equal and prove nothing.
fn refuse_silence(tool: &Tool, names: &AskedNames, old: &[Option<Scanned>]) -> Result<(), ModulesError> {
    let silent = |scanned: &&Scanned| !scanned.plain.is_empty() && !names.has_one_of(&scanned.plain);
    match old.iter().flatten().find(silent) {
        Some(scanned) => {
            Err(ModulesError::Unlisted { tool: tool.to_string(), modulepath: scanned.tree.root.clone() })
        }
        None => Ok(()),
    }
}

/// Splits questions into pieces, each for one process.
fn pieces<'a>(tool: &'a Tool, user: &'a User, questions: Vec<AskedQuestion>) -> Vec<Piece<'a>> {
    let piece = |questions: &[AskedQuestion]| Piece {
        tool,
        user,
        questions: questions.to_vec(),
        first: Mutex::default(),
    };
    let length = QUESTIONS_A_PROCESS.max(questions.len().div_ceil(PROCESSES_A_ROUND));
    questions.chunks(length).map(piece).collect()
}

/// The lines of one text that the other lacks, or has less often; all lines if only their order differs.
fn missing(of: &str, other: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    other.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    let lacks = |line: &&str| match counts.get_mut(line.trim_end_matches('\n')) {
        Some(count @ 1..) => {
            *count -= 1;
            false
        }
        _ => true,
    };
    let missing: String = of.split_inclusive('\n').filter(lacks).collect();
    let same_lines = missing.is_empty() && counts.values().all(|count| *count == 0);
    if same_lines { of.to_owned() } else { missing }
}

/// Counts answers over all threads.
struct Count<'a> {
    answered: AtomicUsize,
    asked: AtomicUsize,
    apart: AtomicUsize,
    /// Questions without an answer in time. No other user or side asks them again.
    silent: Mutex<BTreeSet<String>>,
    progress: &'a (dyn Fn(VerifyProgress) + Sync),
}

impl<'a> Count<'a> {
    fn new(progress: &'a (dyn Fn(VerifyProgress) + Sync)) -> Self {
        let zero = || AtomicUsize::new(0);
        Self { answered: zero(), asked: zero(), apart: zero(), silent: Mutex::default(), progress }
    }

    fn ask(
        &self,
        piece: &Piece<'_>,
        side: usize,
        environment: &Environment,
    ) -> Result<Vec<ToolAnswer>, ModulesError> {
        let asked = &piece.questions;
        let is_silent: Vec<bool> = {
            let silent = lock(&self.silent);
            asked.iter().map(|asked| silent.contains(&asked.shown())).collect()
        };
        let left =
            || asked.iter().zip(&is_silent).filter(|(_, is_silent)| !**is_silent).map(|(asked, _)| asked);
        let questions: Vec<Question> = left().map(|asked| asked.on(side)).collect();
        let skipped = asked.len() - questions.len();
        self.answered.fetch_add(skipped, Ordering::Relaxed);
        let mut before = 0;
        let Answers { answers, apart, silent } =
            tools::ask(piece.tool, environment, piece.user, &questions, &mut |now| {
                let more = now.count.saturating_sub(before);
                before = before.max(now.count);
                let answered = self.answered.fetch_add(more, Ordering::Relaxed) + more;
                let slow = now.slow.and_then(|number| left().nth(number)).map(AskedQuestion::shown);
                let asked = self.asked.load(Ordering::Relaxed);
                (self.progress)(VerifyProgress { answered, asked, slow });
            })?;
        self.apart.fetch_add(apart, Ordering::Relaxed);
        let names = left().enumerate().filter(|(number, _)| silent.contains(number));
        lock(&self.silent).extend(names.map(|(_, asked)| asked.shown()));
        let mut answers = answers.into_iter();
        Ok(is_silent
            .into_iter()
            .map(|is_silent| if is_silent { ToolAnswer::none() } else { answers.next().unwrap_or_default() })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_difference_is_the_lines_that_the_other_lacks() {
        for (of, other, expected) in [
            ("a\nb\n", "b\n", "a\n"),
            ("a\na\nb\n", "a\n", "a\nb\n"),
            ("a\n", "a\nb\n", ""),
            ("a\nb\n", "b\na\n", "a\nb\n"),
        ] {
            assert_eq!(missing(of, other), expected, "{of:?} {other:?}");
        }
    }
}
