//! Acting as another user: one thread changes its credentials, and the processes that it starts inherit them.

use super::conversation::Terminal;
use rustix::process::{Gid, Uid};
use rustix::thread;
use std::io;

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
    pub(super) fn terminal(&self) -> Terminal {
        if self.number().is_some_and(|user| user != 0) { Terminal::None } else { Terminal::Ours }
    }

    /// Runs `work` in a thread that is this user to the kernel, as are the processes that it starts.
    ///
    /// **Errors**: EPERM when this process is not root and the user is another one.
    ///
    /// **Panics**: when `work` does.
    pub fn act<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let Some(credentials) = &self.credentials else { return work() };
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                credentials.take_on()?;
                work()
            });
            acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
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
