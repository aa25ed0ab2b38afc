//! Containers of `run --gather` as a file system that can be read (`gather mount`).
//!
//! It is an ordinary FUSE mount: every process sees it, and `umount` ends it. Containers do not change, so the kernel keeps all answers
//! ([`service`]). Users mount by the helper `fusermount3` ([`helper`]).

mod attributes;
mod error;
mod helper;
mod nodes;
mod service;

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use quell_gather::View;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

pub(crate) use attributes::attr_of_entry;
pub use error::GatherMountError;
use service::Service;

use crate::background::{fork_detached, use_all_descriptors};
use crate::error::{SetupStep, Unavailable};
use crate::fuse::abi;
use crate::mount_points::{at, magic, open_path};
use crate::namespace::open_fuse;
use crate::sys::process::{Forked, SingleThreaded, exit_now, keep_only, reset_signals};

/// Containers that are mounted and not served yet.
#[derive(Debug)]
pub struct GatherMount {
    view: View,
    device: OwnedFd,
    place: PathBuf,
    helper: Option<&'static str>,
}

impl GatherMount {
    /// Mounts containers over a directory. Programs that ask for something there wait until it is served.
    ///
    /// **Parameters** `source`: what mountinfo shows as the source.
    ///
    /// # Errors
    /// [`GatherMountError`]; nothing is mounted then.
    pub fn new(view: View, place: &Path, source: &str) -> Result<Self, GatherMountError> {
        let failed = |errno| at(SetupStep::Cover, errno, place);
        let directory = open_path(place).map_err(failed)?;
        let place = place.to_owned();
        if !rustix::process::geteuid().is_root() {
            let (device, helper) = helper::mount(&place, source)?;
            return Ok(Self { view, device, place, helper: Some(helper) });
        }
        let device = open_fuse()?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read={}",
            device.as_raw_fd(),
            abi::MAX_TRANSFER
        );
        let options = CString::new(options).map_err(|_| failed(Errno::INVAL))?;
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount(source, magic(&directory), "fuse.quell", flags, options.as_c_str()).map_err(failed)?;
        Ok(Self { view, device, place, helper: None })
    }

    /// Serves in a process of the background, until the directory is unmounted.
    ///
    /// # Errors
    /// [`GatherMountError::Unavailable`]; it is unmounted then.
    pub fn serve_in_background(self) -> Result<(), GatherMountError> {
        let unmounting = self.unmounting();
        let forked = SingleThreaded::verify().ok_or(Errno::INVAL).and_then(|alone| fork_detached(&alone));
        match forked {
            Ok(Forked::Parent(_)) => Ok(()),
            Ok(Forked::Child) => {
                let files = self.view.containers.iter().map(|open| open.file.as_raw_fd());
                keep_only(&files.chain([self.device.as_raw_fd()]).collect::<Vec<_>>());
                _ = rustix::process::chdir("/");
                _ = rustix::thread::set_name(c"quell-gather");
                reset_signals(&[]);
                match self.serve() {
                    Ok(threads) => threads.into_iter().for_each(|thread| _ = thread.join()),
                    Err(_) => unmounting.now(),
                }
                exit_now(0)
            }
            Err(errno) => {
                unmounting.now();
                Err(Unavailable::new(SetupStep::StartServer, errno).into())
            }
        }
    }

    /// Serves in threads of this process, which end when the directory is unmounted.
    ///
    /// # Errors
    /// [`GatherMountError::Unavailable`].
    pub fn serve(self) -> Result<Vec<JoinHandle<()>>, GatherMountError> {
        use_all_descriptors();
        let service = Arc::new(Service::new(self.view, self.device));
        let start = |_| {
            let service = Arc::clone(&service);
            std::thread::Builder::new().spawn(move || service.serve())
        };
        let threads = (0..THREADS).map(start).collect::<Result<Vec<_>, _>>();
        Ok(threads.map_err(|_| Unavailable::new(SetupStep::StartServer, Errno::AGAIN))?)
    }

    /// The way to unmount it, also when it is served.
    pub fn unmounting(&self) -> GatherUnmount {
        GatherUnmount { place: self.place.clone(), helper: self.helper }
    }
}

/// The way to unmount containers.
#[derive(Debug)]
pub struct GatherUnmount {
    place: PathBuf,
    helper: Option<&'static str>,
}

impl GatherUnmount {
    /// Unmounts the directory. Programs keep what they have open, and find nothing else.
    pub fn now(&self) {
        match self.helper {
            Some(helper) => helper::unmount(helper, &self.place),
            None => _ = unmount(&self.place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW),
        }
    }
}

/// Threads that answer: reads wait for the file system of the containers.
const THREADS: usize = 4;
