//! Asks every tool, as every class of users, everything about both sides.

use super::normal::Naming;
use super::questions::{self, Names};
use super::{Difference, Judge, Side, refuse_colon, users};
use crate::ModulesError;
use crate::audit::is_for_everybody;
use crate::cookie::Cookie;
use crate::scan::{self, Options, Role, Tree};
use crate::tools::{self, Answer, Answers, Environment, Question, Tool, User};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The judge that asks the site's own tools.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Who is asked. Shape: none is no proof: [`Judge::differences`] then finds nothing.
    pub tools: Vec<Tool>,
    /// Who asks; empty: whoever runs this process, and as root every class of users that the permissions of the trees tell
    /// apart.
    pub users: Vec<User>,
    /// Settings of the site, such as `LMOD_RC`, which both sides have. Shape: name and value.
    pub variables: Vec<(OsString, OsString)>,
    /// Processes at a time. Range: from 1.
    pub jobs: NonZero<usize>,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Questions that are answered.
    pub answered: usize,
    /// Questions in all, as far as is known yet.
    pub asked: usize,
}

/// What a comparison looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Shape: sorted by tool, user, question.
    pub differences: Vec<Difference>,
    /// Who asked, by name.
    pub users: Vec<String>,
    /// Questions that both sides answered.
    pub questions: usize,
    /// Of the answers, those that took a process of their own.
    pub apart: usize,
}

impl Judge for Tools {
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError> {
        Ok(self.compare(old, new, &|_| {})?.differences)
    }
}

/// So many questions are asked in one process: fewer, and starting it shows; more, and the last process is waited for.
const TOGETHER: usize = 400;

/// Differences are asked for again, each in a process of its own, until so many are found to be real: one decides, and the
/// others are for people.
const ASKED_AGAIN: usize = 4;

/// A piece of work: questions of one user to one tool about one side.
#[derive(Debug)]
struct Job<'a> {
    tool: &'a Tool,
    user: &'a User,
    side: usize,
    questions: Vec<Question>,
}

/// The two answers to each question, by tool and user.
type Both<'a> = BTreeMap<(&'a Tool, &'a User, Question), [Option<Answer>; 2]>;

impl Tools {
    /// Compares what the tools say about both sides. `progress` is told how far it is, from several threads.
    ///
    /// **Errors**: [`ModulesError::Run`] for a tool that cannot be started, [`ModulesError::Colon`].
    pub fn compare(
        &self,
        old: &Side,
        new: &Side,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Comparison, ModulesError> {
        let sides = [old, new];
        sides.iter().flat_map(|side| &side.modulepaths).try_for_each(|path| refuse_colon(path))?;
        let environments = sides.map(|side| self.environment(side));
        let scanned = |side: &Side| -> Result<Vec<Option<Scanned>>, ModulesError> {
            side.modulepaths.iter().map(|path| Scanned::of(path)).collect()
        };
        let scanned = [scanned(old)?, scanned(new)?];
        let trees: Vec<&Tree> = scanned.iter().flatten().flatten().map(|scanned| &scanned.tree).collect();
        let users = self.users(&trees);
        let pairs: Vec<(&Tool, &User)> =
            self.tools.iter().flat_map(|tool| users.iter().map(move |user| (tool, user))).collect();
        let zero = || AtomicUsize::new(0);
        let count = Count { answered: zero(), asked: zero(), apart: zero(), progress };
        let first = pairs.iter().flat_map(|&(tool, user)| jobs(tool, user, questions::listings(tool.kind)));
        let mut answers = self.ask(first.collect(), &environments, &count)?;
        let mut second = Vec::new();
        for &(tool, user) in &pairs {
            let mut names = Names::default();
            for question in questions::listings(tool.kind) {
                let both = answers.get(&(tool, user, question.clone()));
                let both = both.into_iter().flatten().flatten();
                both.for_each(|answer| names.add_listing(tool.kind, &question, answer));
            }
            refuse_silence(tool, &names, &scanned[0])?;
            trees.iter().for_each(|tree| names.add_tree(tree));
            second.extend(jobs(tool, user, names.questions(tool.kind)));
        }
        answers.append(&mut self.ask(second, &environments, &count)?);
        let questions = answers.len();
        let naming = Naming::new(sides);
        let differences = self.judge(answers, &naming, &environments)?;
        let users = users.iter().map(|user| user.name.clone()).collect();
        Ok(Comparison { differences, users, questions, apart: count.apart.into_inner() })
    }

    fn environment(&self, side: &Side) -> Environment {
        let own = side.variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment {
            modulepaths: side.modulepaths.clone(),
            variables: self.variables.iter().cloned().chain(own).collect(),
        }
    }

    fn users(&self, trees: &[&Tree]) -> Vec<User> {
        match (self.users.is_empty(), rustix::process::geteuid().is_root()) {
            (false, _) => self.users.clone(),
            (true, true) => users::of(trees),
            (true, false) => vec![User::ourselves()],
        }
    }

    /// Does the jobs, several at a time.
    fn ask<'a>(
        &self,
        jobs: Vec<Job<'a>>,
        environments: &[Environment; 2],
        count: &Count<'_>,
    ) -> Result<Both<'a>, ModulesError> {
        count.asked.fetch_add(jobs.iter().map(|job| job.questions.len()).sum(), Ordering::Relaxed);
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answers = count.ask(job, &environments[job.side]);
                results.lock().unwrap_or_else(PoisonError::into_inner).push((job, answers));
            }
        };
        std::thread::scope(|scope| {
            (0..self.jobs.get().min(jobs.len())).for_each(|_| _ = scope.spawn(work));
        });
        let mut both = Both::new();
        for (job, answers) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            for (question, answer) in job.questions.iter().zip(answers?.answers) {
                both.entry((job.tool, job.user, question.clone())).or_default()[job.side] = Some(answer);
            }
        }
        Ok(both)
    }

    /// The questions whose answers differ, and still do when they are asked as a user asks them.
    fn judge(
        &self,
        answers: Both<'_>,
        naming: &Naming,
        environments: &[Environment; 2],
    ) -> Result<Vec<Difference>, ModulesError> {
        let mut differences = Vec::new();
        for ((tool, user, question), [old, new]) in answers {
            let normal = |answer: &Answer| naming.normal(tool.kind, &question, answer);
            let [Some(old), Some(new)] = [old, new] else { continue };
            let (mut old, mut new) = (normal(&old), normal(&new));
            if old != new && differences.len() < ASKED_AGAIN {
                old = normal(&tools::ask_apart(tool, &environments[0], user, &question)?);
                new = normal(&tools::ask_apart(tool, &environments[1], user, &question)?);
            }
            if old != new {
                differences.push(Difference {
                    tool: tool.to_string(),
                    user: user.name.clone(),
                    question: questions::shown(&question),
                    old: missing(&old, &new),
                    new: missing(&new, &old),
                });
            }
        }
        Ok(differences)
    }
}

/// A modulepath, and the names in it that every tool must list.
struct Scanned {
    tree: Tree,
    plain: BTreeSet<Vec<u8>>,
}

impl Scanned {
    /// `None` for one that cannot be listed, or is not there: the tools are asked about it all the same.
    fn of(path: &Path) -> Result<Option<Self>, ModulesError> {
        let mut tree = match Tree::scan(path, Options::default()) {
            Err(ModulesError::Read { .. }) => return Ok(None),
            tree => tree?,
        };
        tree.refuse_special()?;
        let plain = plain(&tree);
        // Nothing from here on looks at content.
        for entry in &mut tree.entries {
            if let scan::Kind::File(content) = &mut entry.kind {
                *content = Vec::new();
            }
        }
        Ok(Some(Self { tree, plain }))
    }
}

/// Modulefiles of every version, for everybody; none where an rc file may hide them.
fn plain(tree: &Tree) -> BTreeSet<Vec<u8>> {
    let hides = |(entry, role): (&scan::Entry, Role)| {
        let has = |word: &[u8]| {
            entry.content().is_none_or(|text| text.windows(word.len()).any(|part| part == word))
        };
        matches!(role, Role::Rc(_)) && (has(b"hide") || has(b"ignore") || has(b"source"))
    };
    if tree.files().any(hides) {
        return BTreeSet::new();
    }
    let is_plain = |(entry, role): &(&scan::Entry, Role)| {
        *role == Role::Module && entry.cookie() == Some(Cookie::Any) && is_for_everybody(tree, entry)
    };
    tree.files().filter(is_plain).map(|(entry, _)| entry.path.clone()).collect()
}

/// Refuses a tool that names no modulefile of a modulepath: two answers that say nothing are alike.
fn refuse_silence(tool: &Tool, names: &Names, old: &[Option<Scanned>]) -> Result<(), ModulesError> {
    let silent = |scanned: &&Scanned| !scanned.plain.is_empty() && !names.has_one_of(&scanned.plain);
    match old.iter().flatten().find(silent) {
        Some(scanned) => {
            Err(ModulesError::Unlisted { tool: tool.to_string(), modulepath: scanned.tree.root.clone() })
        }
        None => Ok(()),
    }
}

/// The same questions of both sides, in pieces.
fn jobs<'a>(tool: &'a Tool, user: &'a User, questions: Vec<Question>) -> Vec<Job<'a>> {
    let pieces = questions.chunks(TOGETHER);
    pieces.flat_map(|piece| [0, 1].map(|side| Job { tool, user, side, questions: piece.to_vec() })).collect()
}

/// The lines of one text that the other lacks, or has less often; all of it where only their order differs.
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

/// Counts answers over all jobs.
struct Count<'a> {
    answered: AtomicUsize,
    asked: AtomicUsize,
    apart: AtomicUsize,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Count<'_> {
    fn ask(&self, job: &Job<'_>, environment: &Environment) -> Result<Answers, ModulesError> {
        let mut before = 0;
        let answers = tools::ask(job.tool, environment, job.user, &job.questions, &mut |answered| {
            let more = answered.saturating_sub(before);
            before = before.max(answered);
            let answered = self.answered.fetch_add(more, Ordering::Relaxed) + more;
            (self.progress)(Progress { answered, asked: self.asked.load(Ordering::Relaxed) });
        })?;
        self.apart.fetch_add(answers.apart, Ordering::Relaxed);
        Ok(answers)
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
