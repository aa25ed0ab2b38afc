//! The link of a node, as it sends: parts to several peers at once, each with its share.

/// A part that is on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) to: u32,
    pub(super) connection: u32,
    pub(super) part: u32,
    left: f64,
    /// Of the receiver's link. Unit: bytes a ns.
    most: f64,
}

/// Unit of times: ns; of rates: bytes a ns.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) rate: f64,
    sending: Vec<Sending>,
    settled: u64,
    /// Of the plan for the next end. An end of an older plan is void.
    pub(super) plan: u32,
}

impl Link {
    pub(super) fn new(rate: f64) -> Self {
        Self { rate, sending: Vec::new(), settled: 0, plan: 0 }
    }

    pub(super) fn is_sending_to(&self, to: u32, connection: u32) -> bool {
        self.sending.iter().any(|sending| (sending.to, sending.connection) == (to, connection))
    }

    /// Takes a part on.
    pub(super) fn send(
        &mut self,
        now: u64,
        (to, connection): (u32, u32),
        part: u32,
        (bytes, most): (f64, f64),
    ) {
        self.settle(now);
        self.sending.push(Sending { to, connection, part, left: bytes, most });
    }

    /// Gives up what is sent to peers that have gone.
    pub(super) fn keep(&mut self, now: u64, stays: impl Fn(&Sending) -> bool) {
        self.settle(now);
        self.sending.retain(stays);
    }

    fn share(&self, sending: &Sending) -> f64 {
        (self.rate / self.sending.len() as f64).min(sending.most)
    }

    /// Sends until `now`.
    fn settle(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.settled) as f64;
        self.settled = now;
        let count = self.sending.len() as f64;
        for sending in &mut self.sending {
            sending.left -= elapsed * (self.rate / count).min(sending.most);
        }
    }

    /// The parts that have left by `now`.
    pub(super) fn ended(&mut self, now: u64) -> Vec<Sending> {
        self.settle(now);
        // Ends are planned in whole nanoseconds.
        self.sending.extract_if(.., |sending| sending.left < 1e-6).collect()
    }

    /// The time at which the next part has left, if nothing changes.
    pub(super) fn next_end(&mut self) -> Option<u64> {
        self.plan = self.plan.wrapping_add(1);
        let times =
            self.sending.iter().map(|sending| (sending.left / self.share(sending)).max(0.0).ceil() as u64);
        times.min().map(|time| self.settled + time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_share_a_link_and_none_gets_more_than_it_can_take() {
        let mut link = Link::new(1.0);
        link.send(0, (1, 0), 7, (100.0, 1.0));
        assert_eq!(link.next_end(), Some(100));
        link.send(50, (2, 0), 8, (100.0, 0.25));
        assert_eq!(link.next_end(), Some(150));
        let ended = link.ended(150);
        assert_eq!((ended.len(), ended[0].part, link.next_end()), (1, 7, Some(450)));
        link.keep(200, |sending| sending.to == 1);
        assert_eq!(link.next_end(), None);
    }
}
