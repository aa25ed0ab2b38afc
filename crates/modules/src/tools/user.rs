//! Acting as another user: the credentials of one thread are changed, and what that thread starts inherits them.

use super::conversation::Terminal;
use rustix::process::{Gid, Uid};
use rustix::thread;
use std::io;

/// Somebody who asks a module tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// A name for people: `root`, `alice`, `member of group chem`.
    pub name: String,
    /// User, group and further groups; `None`: those of this process.
    pub credentials: Option<Credentials>,
}

/// What a process may do with files.
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
    /// Whoever runs this process.
    pub fn ourselves() -> Self {
        Self { name: "oneself".to_owned(), credentials: None }
    }

    /// Somebody with these credentials. Only root may act as one.
    pub fn new(name: impl Into<String>, user: u32, group: u32, groups: Vec<u32>) -> Self {
        Self { name: name.into(), credentials: Some(Credentials { user, group, groups }) }
    }

    /// Its number, where it is not whoever runs this process.
    pub(crate) fn number(&self) -> Option<u32> {
        self.credentials.as_ref().map(|credentials| credentials.user)
    }

    /// What this user's processes have of our terminal.
    pub(super) fn terminal(&self) -> Terminal {
        if self.number().is_some_and(|user| user != 0) { Terminal::None } else { Terminal::Ours }
    }

    /// Runs `work` in a thread that is this user to the kernel, with whatever it starts.
    ///
    /// **Errors**: EPERM when this process is not root and the user is somebody else.
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
    /// Makes this thread that user, for good: it ends with its work.
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
