//! Asks a tool many questions: in one process where that gives the same answers, else in a process each.
//!
//! What answers many questions are two small programs in the tools' own languages, `modules.tcl` and `lmod.lua`; the tests
//! compare their answers with those of a process for each question. What they do not answer, because a modulefile ended
//! the process or the time is up, is asked apart.

use super::{Environment, Kind, Tool, User, conversation};
use crate::ModulesError;
use conversation::{PATIENCE, Said, converse};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

/// Arguments of `module`.
pub type Question = Vec<OsString>;

/// What a tool said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Commands for the shell: the environment that a load makes.
    pub stdout: Vec<u8>,
    /// What people read: listings, paths, errors.
    pub stderr: Vec<u8>,
    /// Exit status; -1 when it was ended for taking too long, or by a signal.
    pub status: i32,
}

const MODULES: &str = include_str!("modules.tcl");
const LMOD: &str = include_str!("lmod.lua");

/// What each mark that ends an answer begins with.
const MARK: &[u8] = b"\x01quell ";

/// Fewer questions are not worth a process that answers many.
const FEW: usize = 3;

/// What was asked together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Shape: one a question, in the same order.
    pub answers: Vec<Answer>,
    /// How many questions a process of their own answered, because the one for many could not. Few, or it is of no use.
    pub apart: usize,
}

/// Who is told how many questions are answered so far.
pub type Progress<'a> = &'a mut (dyn FnMut(usize) + Send);

/// Asks each question, as `user`.
///
/// **Errors**: [`ModulesError::Run`] when the tool cannot be started.
pub fn ask(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    questions: &[Question],
    progress: Progress<'_>,
) -> Result<Answers, ModulesError> {
    let mut answers = Vec::new();
    let mut apart = 0;
    while answers.len() < questions.len() {
        let rest = &questions[answers.len()..];
        if rest.len() >= FEW {
            let done = answers.len();
            answers.extend(together(tool, environment, user, rest, &mut |count| progress(done + count))?);
        }
        // One more, whatever happened: so this ends.
        if let Some(question) = questions.get(answers.len()) {
            answers.push(ask_apart(tool, environment, user, question)?);
            apart += 1;
            progress(answers.len());
        }
    }
    Ok(Answers { answers, apart })
}

/// Asks one question, in a process of its own, as a user's shell does.
///
/// **Errors**: [`ModulesError::Run`] when the tool cannot be started.
pub fn ask_apart(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    question: &[OsString],
) -> Result<Answer, ModulesError> {
    let mut command = tool.command(environment);
    command.args(question);
    run(command, user, PATIENCE).map_err(not_run(tool, user))
}

/// Runs a command to its end, as `user`, without input. Once it has said nothing for as long as `patience` it is ended.
///
/// **Errors**: when it cannot be started.
pub fn run(command: Command, user: &User, patience: Duration) -> io::Result<Answer> {
    let terminal = user.terminal();
    let said = user.act(move || converse(command, terminal, &[], patience, &mut |_| {}))?;
    Ok(Answer { stdout: said.stdout, stderr: said.stderr, status: said.status })
}

fn not_run(tool: &Tool, user: &User) -> impl FnOnce(io::Error) -> ModulesError {
    let (tool, user) = (tool.to_string(), user.name.clone());
    move |source| ModulesError::Run { tool, user, source }
}

/// Asks in one process; answers the first questions, up to the first whose answer is not whole.
fn together(
    tool: &Tool,
    environment: &Environment,
    user: &User,
    questions: &[Question],
    progress: Progress<'_>,
) -> Result<Vec<Answer>, ModulesError> {
    let mut command = Command::new(&tool.interpreter);
    command.env_clear().envs(tool.variables(environment));
    let mut input = String::new();
    match tool.kind {
        Kind::Modules => input.push_str(&format!("eval {{\n{MODULES}\n}}\n")),
        Kind::Lmod => {
            // An argument that begins as an option, with `--`, is taken for one.
            command.arg("-e").arg(format!("\n{LMOD}")).arg("/dev/null");
        }
    }
    input.push_str(&(hexadecimal(tool.script.as_os_str()) + "\n"));
    for question in questions {
        let words = std::iter::once(OsStr::new("bash")).chain(question.iter().map(OsString::as_os_str));
        input.push_str(&(words.map(hexadecimal).collect::<Vec<_>>().join(" ") + "\n"));
    }
    let mut count = 0;
    let mut watch = |said: &[u8]| {
        count += said.iter().filter(|byte| **byte == MARK[0]).count();
        progress(count.min(questions.len()));
    };
    let said = user
        .act(|| converse(command, user.terminal(), input.as_bytes(), PATIENCE, &mut watch))
        .map_err(not_run(tool, user))?;
    Ok(answers(&said))
}

fn hexadecimal(word: &OsStr) -> String {
    word.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an answer said on one stream, and its status.
type Part<'a> = (&'a [u8], i32);

/// The answers that are whole on both streams.
fn answers(said: &Said) -> Vec<Answer> {
    let (stdout, stderr) = (parts(&said.stdout), parts(&said.stderr));
    let both = stdout.into_iter().zip(stderr);
    let answer = |(out, error): (Part<'_>, Part<'_>)| Answer {
        stdout: out.0.to_vec(),
        stderr: error.0.to_vec(),
        status: out.1,
    };
    both.map(answer).collect()
}

/// What lies before each mark, and the status in the mark. Ends at the first that is not the next, and at anything of a
/// modulefile that looks like one.
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
        let said =
            |stdout: &str, stderr: &str| Said { stdout: stdout.into(), stderr: stderr.into(), status: 0 };
        let whole =
            answers(&said("a\n\u{1}quell 0 0\n\u{1}quell 1 1\n", "\u{1}quell 0 0\nb\u{1}quell 1 1\n"));
        let answer = |stdout: &str, stderr: &str, status| Answer {
            stdout: stdout.into(),
            stderr: stderr.into(),
            status,
        };
        assert_eq!(whole, [answer("a\n", "", 0), answer("", "b", 1)]);
        let cut = answers(&said("a\u{1}quell 0 0\nb", "\u{1}quell 0 0\n\u{1}quell 1 0\n"));
        assert_eq!(cut, [answer("a", "", 0)]);
        // A modulefile that prints a mark of its own ends the run of answers; the rest is asked apart.
        let forged = answers(&said("\u{1}quell 7 0\n\u{1}quell 0 0\n", "\u{1}quell 0 0\n"));
        assert_eq!(forged, []);
    }
}
