//! Kills servers and holders at random moments, one at a time: the next one only when the last one was replaced, since
//! no process is left when both die at once.

use std::time::{Duration, Instant};

use crate::scene::{PATIENCE, Scene, kill};

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prey {
    Server,
    Holder,
    Either,
}

/// The hunter of one run.
#[derive(Debug)]
pub(crate) struct Hunter {
    server: i32,
    holder: i32,
    struck: u32,
    /// State of the generator of moments. They are not printed: a failure shows the program's output.
    state: u64,
}

impl Hunter {
    /// For the run of `scene`, which has its server and its holder unless it is over by now.
    pub(crate) fn of(scene: &Scene, is_over: impl Fn() -> bool) -> Self {
        let mut hunter = Self::random();
        while hunter.server == 0 && !is_over() {
            if let ([server], [holder]) = (&scene.servers()[..], &scene.holders()[..]) {
                (hunter.server, hunter.holder) = (*server, *holder);
            }
        }
        hunter
    }

    /// For moments alone.
    pub(crate) fn random() -> Self {
        let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
        Self { server: 0, holder: 0, struck: 0, state: seed }
    }

    /// The number of processes that were alive when they were killed.
    pub(crate) fn struck(&self) -> u32 {
        self.struck
    }

    /// Waits for a random time below `micros` microseconds.
    pub(crate) fn pause_up_to(&mut self, micros: u64) {
        std::thread::sleep(Duration::from_micros(self.next() % micros));
    }

    /// Kills one, at a random moment, and waits until it is replaced; a server that replaces its holder is replaced
    /// too. False when it was not: the run is over.
    pub(crate) fn strike(&mut self, scene: &Scene, prey: Prey) -> bool {
        let server = match prey {
            Prey::Server => true,
            Prey::Holder => false,
            Prey::Either => self.next().is_multiple_of(2),
        };
        let victim = if server { self.server } else { self.holder };
        if victim == 0 || !is_called(victim, if server { "quell-server\n" } else { "quell-holder\n" }) {
            return false;
        }
        kill(victim);
        self.struck += 1;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            // Asked first: the successor of a holder lives before the server that forked it ends, under the server's name at first.
            let is_over = match server {
                true => !is_called(self.holder, "quell-holder\n"),
                false => scene.servers().is_empty() && scene.holders().is_empty(),
            };
            let next = match server {
                true => next_server(self.holder, victim).map(|next| (next, self.holder)),
                false => next_pair(scene, self.server, victim),
            };
            if let Some(next) = next {
                (self.server, self.holder) = next;
                return true;
            }
            if is_over {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        (self.server, self.holder) = (0, 0);
        false
    }

    /// Marsaglia's xorshift64.
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

/// Tells whether a process lives and has this name. A zombie does not live.
fn is_called(process: i32, name: &str) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    read("comm") == name && !read("cmdline").is_empty()
}

/// The server that `holder` forked after `victim`.
fn next_server(holder: i32, victim: i32) -> Option<i32> {
    children(holder).into_iter().find(|pid| *pid != victim && is_called(*pid, "quell-server\n"))
}

/// Server and holder after `holder` was killed and `server` had made room.
fn next_pair(scene: &Scene, server: i32, holder: i32) -> Option<(i32, i32)> {
    let is_new = |pid: &i32| *pid != server && *pid != holder;
    let next = scene.holders().into_iter().find(|pid| is_new(pid) && is_called(*pid, "quell-holder\n"))?;
    Some((next_server(next, server)?, next))
}

fn children(process: i32) -> Vec<i32> {
    let list =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
