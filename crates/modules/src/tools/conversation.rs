//! One child process: what it is told, what it says, and its end, however it behaves.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// What a process said until its end.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Exit status, or -1.
    pub(super) status: i32,
}

/// How often it is looked whether a process that says nothing has ended.
const LOOK: Duration = Duration::from_secs(1);

/// So long a process that answers users may say nothing before it is ended: a modulefile may loop for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// So many looks after its end, and descendants of the process that still hold its streams are not waited for.
const LAST_WORDS: u32 = 3;

/// More than this of what it says is not kept, and the process is ended: it would fill our memory.
const MOST: usize = 1 << 30;

enum Stream {
    Out,
    Error,
}

/// Once it is set no tool is waited for: whoever runs quell has had enough. One for the process, as a signal is.
static ENDED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The flag that ends every conversation with a tool, for a handler of signals: each then fails with
/// [`io::ErrorKind::Interrupted`], and what was made for it is removed on the way back.
pub fn end_flag() -> Arc<AtomicBool> {
    Arc::clone(&ENDED)
}

/// Refuses to go on once [`end_flag`] is set.
///
/// **Errors**: [`io::ErrorKind::Interrupted`].
pub(crate) fn unless_ended() -> io::Result<()> {
    match ENDED.load(Ordering::Relaxed) {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

/// Runs `command` with `input`, in a process group of its own, which has no member left afterwards. `watch` sees what is
/// said on standard error as it comes. Once it has said nothing for as long as `patience` it is ended.
///
/// **Errors**: when it cannot be started; [`io::ErrorKind::Interrupted`] after [`end_flag`] is set.
pub(super) fn converse(
    command: Command,
    terminal: Terminal,
    input: &[u8],
    patience: Duration,
    watch: &mut dyn FnMut(&[u8]),
) -> io::Result<Said> {
    let mut command = terminal.of(command);
    // Lua looks for what it lacks in the directory that it is started in, which may be another user's.
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let said = thread::scope(|scope| {
        let (to, from) = mpsc::sync_channel(16);
        if let Some(mut stdin) = child.stdin.take() {
            // A process that reads none of it ends without: EPIPE says nothing that its status does not.
            scope.spawn(move || _ = stdin.write_all(input));
        }
        let streams = (child.stdout.take(), child.stderr.take());
        if let (Some(stdout), Some(stderr)) = streams {
            let other = to.clone();
            thread::spawn(move || forward(stdout, &to, || Stream::Out));
            thread::spawn(move || forward(stderr, &other, || Stream::Error));
        }
        let said = listen(&mut child, &from, patience, watch);
        // Whatever a modulefile left behind; where nothing is left, there is no such group.
        _ = kill_process_group(group, Signal::KILL);
        // It may have had no group of its own yet.
        _ = child.kill();
        said
    });
    let status = child.wait()?;
    unless_ended()?;
    Ok(Said { status: status.code().unwrap_or(-1), ..said })
}

/// Whether a process has the terminal that we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    /// As a process of ours.
    Ours,
    /// Another user's process must not type into our terminal: TIOCSTI asks for no right but to be in its session.
    None,
}

/// Where the program lies that starts another in a session of its own.
const SETSID: [&str; 2] = ["/usr/bin/setsid", "/bin/setsid"];

impl Terminal {
    /// The command in a process group of its own.
    fn of(self, mut command: Command) -> Command {
        let setsid = SETSID.iter().find(|path| std::path::Path::new(path).is_file());
        let (Self::None, Some(setsid)) = (self, setsid) else {
            command.process_group(0);
            return command;
        };
        // It makes no process of its own for what leads no group yet.
        let mut detached = Command::new(setsid);
        detached.arg(command.get_program()).args(command.get_args()).env_clear();
        detached.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        detached
    }
}

/// Sends on what a stream says, until its end or until nobody listens any more.
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
) -> Said {
    let mut said = Said::default();
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
                if silent * LOOK > patience || has_ended && silent > LAST_WORDS {
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
