//! Acting as another user: one thread changes its credentials, and the processes that it starts inherit them.

use super::conversation::TerminalUse;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Gid, Uid};
use rustix::thread;
use std::io;
use std::path::{Path, PathBuf};

/// A user that asks a module tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// The name in messages: `root`, `alice`, `member of group chem`.
    pub name: String,
    /// User, group and further groups; `None` for those of this process.
    pub credentials: Option<Credentials>,
}

/// The rights of a process on files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl User {
    /// The user of this process.
    pub fn ourselves() -> Self {
        Self { name: "oneself".to_owned(), credentials: None }
    }

    /// A user with these credentials. Only root may act as another user.
    pub fn new(name: impl Into<String>, user: u32, group: u32, groups: Vec<u32>) -> Self {
        Self { name: name.into(), credentials: Some(Credentials { user, group, groups }) }
    }

    /// The user's number; `None` for the user of this process.
    pub(crate) fn number(&self) -> Option<u32> {
        self.credentials.as_ref().map(|credentials| credentials.user)
    }

    /// The relation of this user's processes to our terminal.
    pub(super) fn terminal(&self) -> TerminalUse {
        if self.number().is_some_and(|user| user != 0) { TerminalUse::None } else { TerminalUse::Ours }
    }

    /// Runs `work` in a thread that is this user to the kernel, as are the processes that it starts.
    ///
    /// **Errors**: EPERM when this process is not root and the user is another one.
    ///
    /// **Panics**: when `work` does.
    pub fn act<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.act_over(&[], work)
    }

    /// Like [`User::act`], and for that thread each directory of `over` has another name: first the name, then the directory.
    ///
    /// **Errors**: those of [`User::act`]; EPERM where [`can_show_over`] says no.
    pub(super) fn act_over<T: Send>(
        &self,
        over: &[(PathBuf, PathBuf)],
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if over.is_empty() && self.credentials.is_none() {
            return work();
        }
        in_thread(|| {
            if !over.is_empty() {
                show_over(over)?;
            }
            self.credentials.iter().try_for_each(Credentials::take_on)?;
            work()
        })
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let acting = scope.spawn(work);
        acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Gives this thread, and the processes that it starts, a mount namespace of their own, in which directories have other names.
fn show_over(over: &[(PathBuf, PathBuf)]) -> io::Result<()> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    let no = None::<&Path>;
    // Mounts of the site still arrive here; mounts made here reach no other process.
    mount(no, "/", no, MsFlags::MS_REC | MsFlags::MS_SLAVE, no)?;
    for (name, directory) in over {
        mount(Some(directory), name, no, MsFlags::MS_BIND | MsFlags::MS_REC, no)?;
    }
    Ok(())
}

/// Tells whether this process may give directories other names for the tools that it starts. Root may, outside of most containers.
pub(crate) fn can_show_over() -> bool {
    rustix::process::geteuid().is_root() && in_thread(|| show_over(&[])).is_ok()
}

impl Credentials {
    /// Turns this thread into that user for good. The thread ends with its work.
    fn take_on(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|&group| Gid::from_raw(group)).collect();
        thread::set_thread_groups(&groups)?;
        let group = Gid::from_raw(self.group);
        thread::set_thread_res_gid(group, group, group)?;
        let user = Uid::from_raw(self.user);
        thread::set_thread_res_uid(user, user, user)?;
        Ok(())
    }
}
