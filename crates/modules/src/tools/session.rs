//! Asks a tool many questions: in one process where that gives the same answers, else in a process for each.
//!
//! Two small programs in the tools' own languages, `modules.tcl` and `lmod.lua`, answer many questions. Tests compare their
//! answers with those of separate processes. Questions that they leave open, because a modulefile ended the process or the
//! time is up, are asked separately.

use super::{Environment, Tool, ToolKind, User, conversation, split_assignments};
use crate::ModulesError;
use conversation::{PATIENCE, ProcessOutput, converse};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Arguments of `module`. Before them may stand assignments of variables, `NAME=VALUE`, as in a shell.
pub type Question = Vec<OsString>;

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAnswer {
    /// Commands for the shell: the environment that a load makes.
    pub stdout: Vec<u8>,
    /// Text for people: listings, paths, errors.
    pub stderr: Vec<u8>,
    /// Exit status; -1 for a process that was killed for its silence, or by a signal.
    pub status: i32,
}

impl ToolAnswer {
    /// In place of an answer that did not come in time.
    pub(crate) fn none() -> Self {
        let stderr = format!("no answer in {} s\n", PATIENCE.as_secs());
        Self { stdout: Vec::new(), stderr: stderr.into_bytes(), status: -1 }
    }
}

const MODULES: &str = include_str!("modules.tcl");
const LMOD: &str = include_str!("lmod.lua");

/// The beginning of each mark that ends an answer.
const MARK: &[u8] = b"\x01quell ";

/// Fewer questions do not justify a process that answers many.
const FEW: usize = 3;

/// Answers to many questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Shape: one for each question, in the same order.
    pub answers: Vec<ToolAnswer>,
    /// The number of questions that took a process of their own, because the shared one did not answer them. It should stay
    /// small.
    pub apart: usize,
    /// Questions that the tool did not answer in time. Shape: sorted; their answers have the status -1.
    pub silent: Vec<usize>,
}

/// The progress of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The number of questions answered so far.
    pub count: usize,
    /// A question over which the tool has been silent for some seconds, counted from 0. It may hang.
    pub slow: Option<usize>,
}

/// A callback that gets the progress.
pub type AnswerProgress<'a> = &'a mut (dyn FnMut(Answered) + Send);

/// Asks each question as `user`.
///
/// **Errors**: [`ModulesError::Run`] when the tool cannot be started.
pub fn ask(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    questions: &[Question],
    progress: AnswerProgress<'_>,
) -> Result<Answers, ModulesError> {
    let mut all = Answers::default();
    while all.answers.len() < questions.len() {
        let done = all.answers.len();
        let rest = &questions[done..];
        let mut was_silent = false;
        if rest.len() >= FEW {
            let answered = &mut |count, slow: Option<usize>| {
                progress(Answered { count: done + count, slow: slow.map(|number| done + number) });
            };
            let (answers, is_silent) = together(tool, environment, user, rest, answered)?;
            was_silent = is_silent && answers.len() < rest.len();
            all.answers.extend(answers);
        }
        // Each round answers at least one question, so the loop ends.
        let number = all.answers.len();
        let Some(question) = questions.get(number) else { continue };
        let answer =
            if was_silent { ToolAnswer::none() } else { ask_apart(tool, environment, user, question)? };
        all.apart += usize::from(!was_silent);
        all.silent.extend((answer == ToolAnswer::none()).then_some(number));
        all.answers.push(answer);
        progress(Answered { count: number + 1, slow: None });
    }
    Ok(all)
}

/// Asks one question in a process of its own, as a user's shell does.
///
/// **Errors**: [`ModulesError::Run`] when the tool cannot be started.
pub fn ask_apart(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    question: &[OsString],
) -> Result<ToolAnswer, ModulesError> {
    let mut command = tool.command(environment);
    let (assignments, words) = split_assignments(question);
    command.args(words).envs(assignments);
    run_over(command, user, &environment.over, PATIENCE).map_err(not_run(tool, user))
}

/// Runs a command to its end as `user`, without input. After `patience` without output it is killed.
///
/// **Errors**: the command cannot be started.
pub fn run(command: Command, user: &User, patience: Duration) -> io::Result<ToolAnswer> {
    run_over(command, user, &[], patience)
}

/// Like [`run`], and the command sees each directory of `over` under another name: first the name, then the directory.
///
/// **Errors**: the command cannot be started; EPERM where `can_show_over` says no.
pub(crate) fn run_over(
    command: Command,
    user: &User,
    over: &[(PathBuf, PathBuf)],
    patience: Duration,
) -> io::Result<ToolAnswer> {
    let terminal = user.terminal();
    let said = user.act_over(over, move || converse(command, terminal, &[], patience, &mut |_| {}))?;
    Ok(match said.was_silent {
        true => ToolAnswer::none(),
        false => ToolAnswer { stdout: said.stdout, stderr: said.stderr, status: said.status },
    })
}

/// The error of a tool that cannot be started.
pub(crate) fn not_run(tool: &Tool, user: &User) -> impl FnOnce(io::Error) -> ModulesError {
    let (tool, user) = (tool.to_string(), user.name.clone());
    move |source| ModulesError::Run { tool, user, source }
}

/// Asks in one process; returns the first answers, up to the first that is incomplete, and whether the process fell silent.
fn together(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    questions: &[Question],
    progress: &mut (dyn FnMut(usize, Option<usize>) + Send),
) -> Result<(Vec<ToolAnswer>, bool), ModulesError> {
    let mut command = Command::new(&tool.interpreter);
    command.env_clear().envs(tool.variables(environment));
    let mut input = String::new();
    match tool.kind {
        ToolKind::Modules => input.push_str(&format!("eval {{\n{MODULES}\n}}\n")),
        ToolKind::Lmod => {
            // The newline keeps lua from taking a program that begins with a comment, `--`, for an option.
            command.arg("-e").arg(format!("\n{LMOD}")).arg("/dev/null");
        }
    }
    input.push_str(&(hexadecimal(tool.script.as_os_str()) + "\n"));
    let shell = [OsString::from("bash")];
    for question in questions {
        let count = split_assignments(question).0.len();
        let (assignments, words) = question.split_at(count);
        let words = assignments.iter().chain(&shell).chain(words).map(OsString::as_os_str);
        input.push_str(&(words.map(hexadecimal).collect::<Vec<_>>().join(" ") + "\n"));
    }
    let mut count = 0;
    let mut watch = |said: &[u8]| {
        count += said.iter().filter(|byte| **byte == MARK[0]).count();
        let count = count.min(questions.len());
        progress(count, (said.is_empty() && count < questions.len()).then_some(count));
    };
    let said = user
        .act_over(&environment.over, || {
            converse(command, user.terminal(), input.as_bytes(), PATIENCE, &mut watch)
        })
        .map_err(not_run(tool, user))?;
    Ok((answers(&said), said.was_silent))
}

fn hexadecimal(word: &OsStr) -> String {
    word.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The part of an answer on one stream, and its status.
type Part<'a> = (&'a [u8], i32);

/// The answers that are complete on both streams.
fn answers(said: &ProcessOutput) -> Vec<ToolAnswer> {
    let (stdout, stderr) = (parts(&said.stdout), parts(&said.stderr));
    let both = stdout.into_iter().zip(stderr);
    let answer = |(out, error): (Part<'_>, Part<'_>)| ToolAnswer {
        stdout: out.0.to_vec(),
        stderr: error.0.to_vec(),
        status: out.1,
    };
    both.map(answer).collect()
}

/// The text before each mark, and the status in the mark. Stops at a mark out of order, and at output of a modulefile that
/// looks like one.
fn parts(mut said: &[u8]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    while let Some(at) = said.iter().position(|byte| *byte == MARK[0]) {
        let Some(mark) = said[at..].strip_prefix(MARK) else { break };
        let Some(end) = mark.iter().position(|&byte| byte == b'\n') else { break };
        let numbers = std::str::from_utf8(&mark[..end]).ok().and_then(|text| text.split_once(' '));
        let numbers = numbers
            .and_then(|(number, status)| Some((number.parse::<usize>().ok()?, status.parse::<i32>().ok()?)));
        match numbers {
            Some((number, status)) if number == parts.len() => parts.push((&said[..at], status)),
            _ => break,
        }
        said = &mark[end + 1..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_at_their_marks() {
        let said = |stdout: &str, stderr: &str| ProcessOutput {
            stdout: stdout.into(),
            stderr: stderr.into(),
            ..ProcessOutput::default()
        };
        let whole =
            answers(&said("a\n\u{1}quell 0 0\n\u{1}quell 1 1\n", "\u{1}quell 0 0\nb\u{1}quell 1 1\n"));
        let answer = |stdout: &str, stderr: &str, status| ToolAnswer {
            stdout: stdout.into(),
            stderr: stderr.into(),
            status,
        };
        assert_eq!(whole, [answer("a\n", "", 0), answer("", "b", 1)]);
        let cut = answers(&said("a\u{1}quell 0 0\nb", "\u{1}quell 0 0\n\u{1}quell 1 0\n"));
        assert_eq!(cut, [answer("a", "", 0)]);
        // A modulefile that prints a mark of its own ends the shared answers; the other questions are asked separately.
        let forged = answers(&said("\u{1}quell 7 0\n\u{1}quell 0 0\n", "\u{1}quell 0 0\n"));
        assert_eq!(forged, []);
    }
}
