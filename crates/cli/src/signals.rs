//! Signals by which a user ends a command that has to clean up first.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The signals that have arrived.
#[derive(Debug)]
pub(crate) struct Signals {
    came: Arc<AtomicBool>,
    /// The last one's.
    number: Arc<AtomicUsize>,
}

impl Signals {
    /// From now on a signal is noted. The same one again ends the program at once: cleaning up may hang with a file system.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let signals = Self { came: Arc::default(), number: Arc::default() };
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let watched = signals.note(number);
            watched.map_err(|error| Failure::new(error).context("cannot watch for signals"))?;
        }
        Ok(signals)
    }

    fn note(&self, number: i32) -> std::io::Result<()> {
        let again = Arc::new(AtomicBool::new(false));
        flag::register_conditional_shutdown(number, BASE + number, Arc::clone(&again))?;
        flag::register(number, again)?;
        flag::register_usize(number, Arc::clone(&self.number), usize::try_from(number).unwrap_or(0))?;
        flag::register(number, Arc::clone(&self.came))?;
        Ok(())
    }

    /// A signal has arrived, so the command must end.
    pub(crate) fn have_come(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// The status of a command that a signal ended, as a shell has it: 128 and its number.
    pub(crate) fn status(&self) -> u8 {
        u8::try_from(BASE)
            .unwrap_or(0)
            .saturating_add(u8::try_from(self.number.load(Ordering::Relaxed)).unwrap_or(0))
    }
}

const BASE: i32 = 128;
