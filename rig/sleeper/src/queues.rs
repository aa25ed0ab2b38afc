//! The moments at which answers would come: one metadata server with threads, one data server, a link and a limit of requests for
//! each node. Requests are served in the order in which they came.

use crate::settings::Settings;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Nanoseconds since the start, as a heap sorts them.
type Moment = u64;

/// The servers, and the nodes' ways to them.
#[derive(Debug)]
pub(crate) struct Servers {
    began: Instant,
    round_trip: u64,
    service: u64,
    read: u64,
    /// Unit: bytes a second.
    rates: [f64; 2],
    in_flight: usize,
    queues: Mutex<Queues>,
}

#[derive(Debug)]
struct Queues {
    /// The moments at which each thread of the metadata server is free.
    threads: BinaryHeap<Reverse<Moment>>,
    data: Moment,
    links: Vec<Moment>,
    /// The moments at which each node's requests are answered.
    under_way: Vec<BinaryHeap<Reverse<Moment>>>,
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Servers {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            began: Instant::now(),
            round_trip: nanoseconds(settings.round_trip),
            service: nanoseconds(settings.service),
            read: nanoseconds(settings.read),
            rates: [settings.client_rate, settings.server_rate],
            in_flight: settings.in_flight,
            queues: Mutex::new(Queues {
                threads: vec![Reverse(0); settings.threads].into(),
                data: 0,
                links: vec![0; settings.nodes],
                under_way: vec![BinaryHeap::new(); settings.nodes],
            }),
        }
    }

    /// The moment at which the metadata server's answer to a request that a node sends now would come.
    pub(crate) fn metadata(&self, node: usize) -> Instant {
        self.answer(node, |queues, sent| {
            let arrives = sent + self.round_trip / 2;
            let free = queues.threads.pop().map_or(0, |Reverse(free)| free);
            let done = free.max(arrives) + self.service;
            queues.threads.push(Reverse(done));
            done + self.round_trip / 2
        })
    }

    /// The same for so many bytes of data.
    pub(crate) fn data(&self, node: usize, bytes: usize) -> Instant {
        let [link, server] = self.rates.map(|rate| nanoseconds(bytes as f64 / rate));
        self.answer(node, |queues, sent| {
            queues.links[node] = queues.links[node].max(sent) + link;
            queues.data = queues.data.max(sent) + server;
            queues.links[node].max(queues.data) + self.read
        })
    }

    fn answer(&self, node: usize, of: impl FnOnce(&mut Queues, Moment) -> Moment) -> Instant {
        let now = self.began.elapsed().as_nanos() as Moment;
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &mut queues.under_way[node];
        while own.peek().is_some_and(|Reverse(answered)| *answered <= now) {
            own.pop();
        }
        let sent = match own.len() < self.in_flight {
            true => now,
            false => own.pop().map_or(now, |Reverse(answered)| answered),
        };
        let at = of(&mut queues, sent);
        queues.under_way[node].push(Reverse(at));
        self.began + Duration::from_nanos(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Lifetimes;

    fn servers(threads: usize, in_flight: usize) -> Servers {
        Servers::new(&Settings {
            tree: "t".into(),
            mounts: "m".into(),
            nodes: 2,
            round_trip: 100.0,
            service: 10.0,
            threads,
            in_flight,
            read: 50.0,
            server_rate: 10.0,
            client_rate: 100.0,
            lives: Lifetimes { name: 0, absence: 0, directory: 0, attributes: 0 },
        })
    }

    /// Seconds since the start, whole: the requests are sent within the first moment.
    fn seconds(servers: &Servers, at: Instant) -> u64 {
        (at - servers.began).as_secs()
    }

    #[test]
    fn requests_wait_for_a_thread_and_then_for_their_way() {
        let one = servers(1, 9);
        let answers = [0, 1, 0].map(|node| seconds(&one, one.metadata(node)));
        assert_eq!(answers, [110, 120, 130]);
        let two = servers(2, 9);
        assert_eq!([0, 1, 0].map(|node| seconds(&two, two.metadata(node))), [110, 110, 120]);
    }

    #[test]
    fn a_node_sends_no_more_than_its_limit_at_once() {
        let servers = servers(9, 1);
        assert_eq!([0, 0, 1].map(|node| seconds(&servers, servers.metadata(node))), [110, 220, 110]);
    }

    #[test]
    fn data_goes_through_the_link_of_a_node_and_through_the_server_of_all() {
        let servers = servers(1, 9);
        assert_eq!([0, 1].map(|node| seconds(&servers, servers.data(node, 1000))), [150, 250]);
    }
}
