//! The terminal as one screen that is drawn over, and the keys that are pressed meanwhile.
//!
//! The terminal is put back when the screen ends. If the process that draws is killed, its parent does it: `fork` has given it a
//! copy of [`Terminal`].

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{IsTerminal, Write, stdin, stdout};
use std::time::Duration;

/// The terminal as it was.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// `None` where standard input is no terminal, so that there are no keys.
    input: Option<Termios>,
}

/// The other screen, without a cursor and with lines that are cut, not wrapped.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Lines of a terminal that does not report its size.
const DEFAULT_LINES: usize = 24;

impl Terminal {
    /// The terminal on standard output; `None` if standard output is no terminal.
    pub(crate) fn of_stdout() -> Option<Self> {
        let input = stdin().is_terminal().then(|| tcgetattr(stdin()).ok()).flatten();
        stdout().is_terminal().then_some(Self { input })
    }

    /// Puts it back. Errors have no remedy: the terminal may be gone.
    pub(crate) fn restore(&self) {
        _ = stdout().write_all(LEAVE.as_bytes()).and_then(|()| stdout().flush());
        if let Some(before) = &self.input {
            _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// A screen while it lives.
#[derive(Debug)]
pub(crate) struct Screen<'a>(&'a Terminal);

impl<'a> Screen<'a> {
    pub(crate) fn begin(terminal: &'a Terminal) -> Self {
        if let Some(before) = &terminal.input {
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A screen that is stopped would leave the terminal to the shell as it is.
            keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
            _ = tcsetattr(stdin(), OptionalActions::Now, &keys);
        }
        _ = stdout().write_all(ENTER.as_bytes());
        Self(terminal)
    }

    /// Draws over what is there. Unlike other output it may fail: a terminal that is gone ends the command by a signal.
    pub(crate) fn draw(&self, text: &str) {
        let lines: Vec<String> =
            text.lines().take(terminal_lines()).map(|line| format!("{line}\x1b[K")).collect();
        let frame = format!("\x1b[H{}\x1b[J", lines.join("\r\n"));
        _ = stdout().write_all(frame.as_bytes()).and_then(|()| stdout().flush());
    }

    /// The key that is pressed within this time, if any. A signal ends the wait.
    pub(crate) fn key(&self, within: Duration) -> Option<u8> {
        let input = stdin();
        let mut watched = [PollFd::new(&input, PollFlags::IN)];
        let watched = if self.0.input.is_some() { &mut watched[..] } else { &mut [] };
        let within = Timespec::try_from(within).ok()?;
        let pressed = poll(watched, Some(&within)).is_ok_and(|ready| ready > 0);
        let mut key = [0];
        let read = if pressed { rustix::io::read(&input, &mut key).unwrap_or(0) } else { 0 };
        if pressed && read == 0 {
            // The terminal is gone. The signal of that, or the next interval, follows.
            std::thread::sleep(Duration::from_millis(50));
        }
        (read == 1).then_some(key[0])
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.0.restore();
    }
}

/// The lines of the terminal on standard output.
pub(crate) fn terminal_lines() -> usize {
    tcgetwinsize(stdout())
        .ok()
        .map(|size| size.ws_row.into())
        .filter(|&lines| lines > 0)
        .unwrap_or(DEFAULT_LINES)
}
