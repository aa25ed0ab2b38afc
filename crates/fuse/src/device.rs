//! The open `/dev/fuse`: one connection between the kernel and the server.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::abi::{self, NodeId};

/// The kernel's side of a mount. Threads share it: the kernel hands each request to one reader.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// The outcome of a read of the device.
#[derive(Debug)]
pub enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// Nothing this time: interrupted, or the waiting program was killed.
    Again,
    /// The mount is gone, and with it the last process that could ask.
    Ended,
}

impl Device {
    /// The device whose descriptor was given to mount(2).
    pub fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Waits for the next request. `buffer` has [`abi::REQUEST_BUFFER`] bytes.
    ///
    /// **Errors** What read(2) says and fuse(4) does not foresee.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        match rustix::io::read(&self.0, buffer) {
            Ok(0) | Err(Errno::NODEV) => Ok(Received::Ended),
            Ok(bytes) => Ok(Received::Request(bytes)),
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Again),
            Err(errno) => Err(errno),
        }
    }

    /// Sends one answer or notification, whole.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        rustix::io::writev(&self.0, parts).map(|_bytes| ())
    }

    /// Makes the kernel forget `node`'s attributes, its cached pages and its cached listing.
    ///
    /// Blocks while the kernel holds the inode's lock: never from a thread that answers requests.
    ///
    /// **Errors** `ENOENT` when the kernel does not know the inode, which is as good.
    pub fn forget_inode(&self, node: NodeId) -> Result<(), Errno> {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&node.0.to_ne_bytes());
        self.notify(abi::NOTIFY_INVAL_INODE, &body, &[])
    }

    /// Makes the kernel ask again for `node`'s attributes. Takes no lock that a program may hold.
    ///
    /// **Errors** `ENOENT` when the kernel does not know the inode, which is as good.
    pub fn expire_attributes(&self, node: NodeId) -> Result<(), Errno> {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&node.0.to_ne_bytes());
        // A negative offset leaves cached pages alone.
        body[8..16].copy_from_slice(&(-1_i64).to_ne_bytes());
        self.notify(abi::NOTIFY_INVAL_INODE, &body, &[])
    }

    /// Makes the kernel ask again for `name` in `parent`.
    ///
    /// Blocks while the kernel holds the directory's lock: never from a thread that answers requests.
    ///
    /// **Errors** `ENOENT` when the kernel does not know the name, which is as good.
    pub fn forget_name(&self, parent: NodeId, name: &[u8], how: Forgetting) -> Result<(), Errno> {
        let mut body = [0; 16];
        body[..8].copy_from_slice(&parent.0.to_ne_bytes());
        body[8..12].copy_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_ne_bytes());
        let flags = match how {
            Forgetting::Drop => 0,
            Forgetting::Expire => abi::EXPIRE_ONLY,
        };
        body[12..].copy_from_slice(&flags.to_ne_bytes());
        let mut terminated = Vec::with_capacity(name.len() + 1);
        terminated.extend_from_slice(name);
        terminated.push(0);
        self.notify(abi::NOTIFY_INVAL_ENTRY, &body, &terminated)
    }

    /// Puts `data` into the kernel's cache of `node`, as if it had been read at `offset`.
    ///
    /// Blocks while the kernel holds a lock of one of its pages, which a READ does until it is answered: never from a
    /// thread that answers requests.
    ///
    /// **Errors** `ENOENT` when the kernel does not know the inode; `ENODEV` when the mount is gone.
    pub fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut body = [0; 24];
        body[..8].copy_from_slice(&node.0.to_ne_bytes());
        body[8..16].copy_from_slice(&offset.to_ne_bytes());
        body[16..20].copy_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_ne_bytes());
        self.notify(abi::NOTIFY_STORE, &body, data)
    }

    fn notify(&self, code: i32, body: &[u8], name: &[u8]) -> Result<(), Errno> {
        let length = abi::OUT_HEADER + body.len() + name.len();
        let mut header = [0; abi::OUT_HEADER];
        header[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        header[4..8].copy_from_slice(&code.to_ne_bytes());
        self.write(&[IoSlice::new(&header), IoSlice::new(body), IoSlice::new(name)])
    }
}

/// The way in which a cached name is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// Dropped at once. For a directory this would also remove mounts below it.
    Drop,
    /// Kept, but asked for again at its next use (Linux 6.2 and later).
    Expire,
}
