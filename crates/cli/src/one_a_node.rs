//! One of a node's ranks does what all of them were told to do, and the others wait for it.
//!
//! The one that gets an abstract name acts. The others connect to it, and are told its status when it is done. If it ends without
//! a word, they begin again: one of them acts.

use quell_talk::MeetingKey;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// The part of this process.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It acts.
    Mine(Acting),
    /// Another one has, with this status.
    Done(u8),
}

/// This process acts for its node.
#[derive(Debug)]
pub(crate) struct Acting(Option<UnixListener>);

/// Takes the turn that `parts` name, among processes of this user, or waits until another one is over.
pub(crate) fn take_turn(parts: &[&[u8]]) -> Turn {
    let user = rustix::process::geteuid();
    let user_bytes = user.as_raw().to_le_bytes();
    let name = MeetingKey::of(&[&[&user_bytes[..]], parts].concat()).name();
    let Ok(address) = SocketAddr::from_abstract_name(name) else { return Turn::Mine(Acting(None)) };
    loop {
        if let Ok(listener) = UnixListener::bind_addr(&address) {
            return Turn::Mine(Acting(Some(listener)));
        }
        let Ok(mut other) = UnixStream::connect_addr(&address) else { continue };
        // A name that another user holds keeps this one from nothing.
        if !rustix::net::sockopt::socket_peercred(&other).is_ok_and(|theirs| theirs.uid == user) {
            return Turn::Mine(Acting(None));
        }
        let mut status = [0];
        if other.read_exact(&mut status).is_ok() {
            return Turn::Done(status[0]);
        }
    }
}

impl Acting {
    /// Tells the processes that wait.
    pub(crate) fn end(self, status: u8) {
        let Some(listener) = self.0 else { return };
        if listener.set_nonblocking(true).is_ok() {
            // A process that has gone meanwhile need not be told.
            listener.incoming().map_while(Result::ok).for_each(|mut other| _ = other.write_all(&[status]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_acts_and_the_others_learn_its_status() {
        let own = std::process::id().to_le_bytes();
        let parts: [&[u8]; 2] = [b"one of a node", &own];
        let Turn::Mine(acting) = take_turn(&parts) else { panic!("no other process has the name") };
        let others: Vec<_> =
            (0..5).map(|_| std::thread::spawn(move || take_turn(&[b"one of a node", &own]))).collect();
        let address = acting.0.as_ref().unwrap().local_addr().unwrap();
        // A process must wait to be told.
        while waiting(&address) < others.len() {
            std::thread::yield_now();
        }
        acting.end(7);
        for other in others {
            assert!(matches!(other.join().unwrap(), Turn::Done(7)));
        }
        assert!(matches!(take_turn(&parts), Turn::Mine(_)));
    }

    /// Connections to an abstract name, as the kernel's table has them.
    fn waiting(address: &SocketAddr) -> usize {
        let name = String::from_utf8(address.as_abstract_name().unwrap().to_vec()).unwrap();
        let table = std::fs::read_to_string("/proc/net/unix").unwrap();
        let of_name = table.lines().filter(|line| line.ends_with(&format!("@{name}")));
        // One line is the listener's own.
        of_name.count().saturating_sub(1)
    }
}
