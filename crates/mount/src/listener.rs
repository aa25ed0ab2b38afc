//! The user that an abstract socket belongs to, found without connecting to it.
//!
//! A process that listens and never accepts keeps others waiting, and the kernel names its user only on accepted connections.
//! But a socket of this user is open in one of this user's processes, and those may be inspected: the table of sockets gives
//! the name's inode, `/proc/PID/fd` the process that has it. Source: proc_net(5), proc_pid_fd(5).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user that a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A process of this user has the socket.
    ThisUser,
    /// None of this user's processes has it.
    AnotherUser,
    /// The name is not bound.
    Unbound,
    /// It cannot be told here.
    Unknown,
}

/// The user that the abstract name `name` belongs to.
pub(crate) fn owner_of(name: &str) -> Owner {
    let Ok(table) = std::fs::read("/proc/net/unix") else {
        return Owner::Unknown;
    };
    let table = String::from_utf8_lossy(&table);
    let Some(inode) = inode_of(&table, name) else {
        return Owner::Unbound;
    };
    // A process that may not be looked at by its own kind, such as one of a program that cannot be read, is root's here.
    let user = rustix::process::geteuid().as_raw();
    let own = |path: &Path| std::fs::metadata(path).is_ok_and(|metadata| metadata.uid() == user);
    if !own(Path::new("/proc/self")) {
        return Owner::Unknown;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Owner::Unknown;
    };
    let wanted = format!("socket:[{inode}]");
    let numbered = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut ours = processes
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(numbered))
        .map(|entry| entry.path())
        .filter(|path| own(path));
    if ours.any(|process| has_open(&process, &wanted)) { Owner::ThisUser } else { Owner::AnotherUser }
}

/// The inode of the socket that is bound to `name`; sockets that it has accepted have the name too, and no flag of a
/// listener.
fn inode_of<'t>(table: &'t str, name: &str) -> Option<&'t str> {
    let bound = |line: &'t str| {
        let mut fields = line.split_ascii_whitespace().skip(4);
        let (_kind, state, inode, path) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (path.strip_prefix('@')? == name && state == UNCONNECTED).then_some(inode)
    };
    table.lines().find_map(bound)
}

/// State of a socket that is bound and not connected. Source: `SS_UNCONNECTED` of the kernel's `net.h`.
const UNCONNECTED: &str = "01";

fn has_open(process: &Path, wanted: &str) -> bool {
    let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    #[test]
    fn a_name_of_this_process_is_this_users_and_a_free_one_is_unbound() {
        let name = format!("quell-test-listener-{}", std::process::id());
        assert_eq!(owner_of(&name), Owner::Unbound);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        assert_eq!(owner_of(&name), Owner::ThisUser);
        let connection = UnixStream::connect_addr(&address).unwrap();
        let accepted = listener.accept().unwrap();
        drop(listener);
        assert_eq!(owner_of(&name), Owner::Unbound, "what was accepted keeps the name, and nothing listens");
        drop((connection, accepted));
    }
}
