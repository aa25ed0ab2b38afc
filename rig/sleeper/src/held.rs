//! Answers that wait for their moment, and the thread that sends them then.

use quell_fuse::device::Device;
use quell_fuse::reply::Reply;
use quell_fuse::request::Unique;
use rustix::io::Errno;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// An answer to one request.
#[derive(Debug)]
pub(crate) struct HeldAnswer {
    pub(crate) at: Instant,
    pub(crate) device: Arc<Device>,
    pub(crate) unique: Unique,
    pub(crate) outcome: Result<Vec<u8>, Errno>,
}

impl HeldAnswer {
    pub(crate) fn send(self) {
        let reply = Reply::new(&self.device, self.unique);
        match self.outcome {
            Ok(bytes) => reply.bytes(&bytes),
            Err(errno) => reply.error(errno),
        }
    }
}

impl PartialEq for HeldAnswer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for HeldAnswer {}

impl PartialOrd for HeldAnswer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeldAnswer {
    /// The largest is the one to be sent first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.unique.0).cmp(&(self.at, self.unique.0))
    }
}

/// All answers that wait.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    waiting: Mutex<BinaryHeap<HeldAnswer>>,
    earlier: Condvar,
}

impl HeldAnswers {
    /// Starts the thread that sends them.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let held = Arc::new(Self::default());
        let sends = Arc::clone(&held);
        std::thread::Builder::new().name("answers".to_owned()).spawn(move || sends.serve())?;
        Ok(held)
    }

    pub(crate) fn add(&self, answer: HeldAnswer) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = waiting.peek().is_none_or(|first| answer.at < first.at);
        waiting.push(answer);
        drop(waiting);
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn serve(&self) {
        // The kernel's default of 50 us would be a part of what is measured.
        _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match waiting.peek().map(|first| first.at) {
                Some(at) if at <= now => {
                    let answer = waiting.pop();
                    drop(waiting);
                    answer.into_iter().for_each(HeldAnswer::send);
                    waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                }
                Some(at) => {
                    waiting = self
                        .earlier
                        .wait_timeout(waiting, at - now)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                None => waiting = self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
