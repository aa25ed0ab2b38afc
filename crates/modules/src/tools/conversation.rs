//! A conversation with one child process: its input, its output, and its end, however it behaves.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// The output of a process until its end.
#[derive(Debug, Default)]
pub(super) struct ProcessOutput {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Exit status, or -1.
    pub(super) status: i32,
    /// The process was killed because it said nothing for too long.
    pub(super) was_silent: bool,
}

/// The interval at which a silent process is checked for its end.
const LOOK: Duration = Duration::from_secs(1);

/// The time for which a process that answers users may be silent before it is killed: a modulefile may loop for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// After this long without output the watcher is told, so that people learn which modulefile may hang. A machine with much to do is as
/// slow, so the process goes on.
const NOTICE: Duration = Duration::from_secs(10);

/// After a process has ended, its descendants that still hold its streams are waited for through this many checks.
const LAST_WORDS: u32 = 3;

/// The largest output that is kept. A process that exceeds it is killed, because it would fill the memory.
const MOST: usize = 1 << 30;

enum Stream {
    Out,
    Error,
}

/// Set when the user interrupts quell; then no tool is waited for. It is one for the process, as a signal is.
static ENDED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The flag that ends every conversation with a tool, for a signal handler. Each conversation then fails with
/// [`io::ErrorKind::Interrupted`], and its callers remove what they made.
pub fn end_flag() -> Arc<AtomicBool> {
    Arc::clone(&ENDED)
}

/// Fails once [`end_flag`] is set.
///
/// **Errors**: [`io::ErrorKind::Interrupted`].
pub(crate) fn unless_ended() -> io::Result<()> {
    match ENDED.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

/// Runs `command` with `input`, in a process group of its own, and kills the rest of the group afterwards. `watch` sees
/// standard error as it comes, and nothing in it after [`NOTICE`] without output. After `patience` without output the process is killed.
///
/// **Errors**: the process cannot be started; [`io::ErrorKind::Interrupted`] after [`end_flag`] is set.
pub(super) fn converse(
    command: Command,
    terminal: TerminalUse,
    input: &[u8],
    patience: Duration,
    watch: &mut dyn FnMut(&[u8]),
) -> io::Result<ProcessOutput> {
    let mut command = terminal.of(command);
    // Lua looks for modules in its working directory, which may be another user's.
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let said = thread::scope(|scope| {
        let (to, from) = mpsc::sync_channel(16);
        if let Some(mut stdin) = child.stdin.take() {
            // A process may end without reading its input. Its status tells more than EPIPE does.
            scope.spawn(move || _ = stdin.write_all(input));
        }
        let streams = (child.stdout.take(), child.stderr.take());
        if let (Some(stdout), Some(stderr)) = streams {
            let other = to.clone();
            thread::spawn(move || forward(stdout, &to, || Stream::Out));
            thread::spawn(move || forward(stderr, &other, || Stream::Error));
        }
        let said = listen(&mut child, &from, patience, watch);
        // Kills whatever a modulefile left behind. Without survivors there is no such group.
        _ = kill_process_group(group, Signal::KILL);
        // The child may not have had a group of its own yet.
        _ = child.kill();
        said
    });
    let status = child.wait()?;
    unless_ended()?;
    Ok(ProcessOutput { status: status.code().unwrap_or(-1), ..said })
}

/// The relation of a process to our terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalUse {
    /// The process has our terminal.
    Ours,
    /// Another user's process must not type into our terminal: TIOCSTI needs no right but to be in its session.
    None,
}

/// The paths of the program that starts another in a session of its own.
const SETSID: [&str; 2] = ["/usr/bin/setsid", "/bin/setsid"];

impl TerminalUse {
    /// The command in a process group of its own.
    fn of(self, mut command: Command) -> Command {
        let setsid = SETSID.iter().find(|path| std::path::Path::new(path).is_file());
        let (Self::None, Some(setsid)) = (self, setsid) else {
            command.process_group(0);
            return command;
        };
        // setsid(1) forks only if it leads a process group, which it does not.
        let mut detached = Command::new(setsid);
        detached.arg(command.get_program()).args(command.get_args()).env_clear();
        detached.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        detached
    }
}

/// Forwards a stream, until its end or until the receiver is gone.
fn forward(mut stream: impl Read, to: &SyncSender<(Stream, Vec<u8>)>, which: impl Fn() -> Stream) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if to.send((which(), buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn listen(
    child: &mut Child,
    from: &Receiver<(Stream, Vec<u8>)>,
    patience: Duration,
    watch: &mut dyn FnMut(&[u8]),
) -> ProcessOutput {
    let mut said = ProcessOutput::default();
    let mut silent = 0;
    loop {
        if unless_ended().is_err() {
            return said;
        }
        match from.recv_timeout(LOOK) {
            Ok((Stream::Out, bytes)) => said.stdout.extend(bytes),
            Ok((Stream::Error, bytes)) => {
                watch(&bytes);
                said.stderr.extend(bytes);
            }
            Err(RecvTimeoutError::Disconnected) => return said,
            Err(RecvTimeoutError::Timeout) => {
                silent += 1;
                let has_ended = matches!(child.try_wait(), Ok(Some(_)));
                if silent * LOOK == NOTICE {
                    watch(&[]);
                }
                said.was_silent = !has_ended && silent * LOOK >= patience;
                if said.was_silent || has_ended && silent > LAST_WORDS {
                    return said;
                }
                continue;
            }
        }
        silent = 0;
        if said.stdout.len() + said.stderr.len() > MOST {
            return said;
        }
    }
}
