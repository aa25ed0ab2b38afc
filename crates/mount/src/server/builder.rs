//! The process that makes the namespace: a child of the holder, so that neither the command's process nor the holder is
//! ever inside it half-way.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions};

use crate::error::{SetupStep, Unavailable};
use crate::message::{FromBuilder, receive, send};
use crate::namespace::{Layout, Namespaces, mount_connection};
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork};

/// A builder that has mounted and waits for the server to answer.
#[derive(Debug)]
pub(crate) struct Builder {
    connection: OwnedFd,
    pid: Pid,
}

/// Starts the builder; returns when the connection is mounted.
pub(crate) fn build(layout: &Layout, alone: &SingleThreaded) -> Result<(OwnedFd, Builder), Unavailable> {
    let failed = |errno| Unavailable::new(SetupStep::StartServer, errno);
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let pid = match fork(alone).map_err(failed)? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            drop(near);
            run_builder(layout, &far);
            exit_now(0)
        }
    };
    drop(far);
    let builder = Builder { connection: near, pid };
    let (message, mut descriptors) = builder.receive()?;
    match (message, descriptors.pop()) {
        (FromBuilder::Mounted, Some(device)) => Ok((device, builder)),
        _ => Err(failed(Errno::BADMSG)),
    }
}

impl Builder {
    /// Says something when everything is in place, or has failed.
    pub(crate) fn connection(&self) -> &OwnedFd {
        &self.connection
    }

    /// Waits until everything is in place; the server must answer meanwhile.
    ///
    /// **Errors** `ECONNRESET` at [`SetupStep::StartServer`] when the builder died.
    pub(crate) fn finish(self) -> Result<Namespaces, Unavailable> {
        let (message, descriptors) = self.receive()?;
        let _reaped = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        match (message, Namespaces::from_descriptors(descriptors)) {
            (FromBuilder::Done, Some(namespaces)) => Ok(namespaces),
            _ => Err(Unavailable::new(SetupStep::StartServer, Errno::BADMSG)),
        }
    }

    fn receive(&self) -> Result<(FromBuilder, Vec<OwnedFd>), Unavailable> {
        match receive(&self.connection) {
            Ok(Some((FromBuilder::Failed(failure), _))) => Err(failure.into()),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Unavailable::new(SetupStep::StartServer, Errno::CONNRESET)),
            Err(errno) => Err(Unavailable::new(SetupStep::StartServer, errno)),
        }
    }
}

/// The life of the builder. If it cannot report a failure, the holder learns it from its end.
fn run_builder(layout: &Layout, server: &OwnedFd) {
    let told = match mount_connection(layout) {
        Ok((device, mounted)) => {
            if send(server, &FromBuilder::Mounted, &[device.as_fd()]).is_err() {
                return;
            }
            drop(device);
            mounted.place()
        }
        Err(unavailable) => Err(unavailable),
    };
    let _server_is_gone = match told {
        Ok(namespaces) => send(server, &FromBuilder::Done, &namespaces.descriptors()),
        Err(unavailable) => send(server, &FromBuilder::Failed(unavailable.into()), &[]),
    };
}
