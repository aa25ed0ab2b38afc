//! The users that root must trust to use a path or a module tree: all others that can change it, or the way to it. Here alone
//! is decided as which user a tool may evaluate a tree.
//!
//! ```text
//! path    each directory on the way, behind each link: its owner, and the users that may write in it
//! tree    the way to it, every entry, the way behind every link in it
//! start   that of the trees, of the tool and of the files that the environment names -> root, an ordinary user, or a refusal
//! ```
//!
//! Modes and lists of a FUSE mount of an ordinary user are what that user says, so such a mount is that user's.

use crate::ModulesError;
use crate::access::{ATTRIBUTE, Access, Acl, Permission, Who};
use crate::scan::{Kind, Tree};
use crate::tools::{Tool, User};
use quell_base::{MountEntry, mountinfo};
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The user without rights: `nobody` of most systems, which is also the number of its group.
pub const NOBODY: u32 = 65534;

/// The same where a tree names [`NOBODY`]: no system gives this number to a user.
const NOBODY_ELSE: u32 = u32::MAX - 2;

/// So many links lead from one name to a file at most. Source: path_resolution(7).
const LINKS: usize = 40;

/// `S_ISVTX`: in such a directory users remove and rename what is theirs alone.
const STICKY: u32 = 0o1000;

/// Tells whether this process is root, whose rights other users may try to use.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A user of no group and with no file, whom none of these numbers is.
pub(crate) fn ordinary(taken: &BTreeSet<u32>) -> u32 {
    // Two fixed numbers: the next free one would be chosen by the user that writes the access control lists.
    if taken.contains(&NOBODY) { NOBODY_ELSE } else { NOBODY }
}

/// Users other than root who can change something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hands {
    users: BTreeSet<u32>,
    /// Members of groups, or every user.
    many: bool,
    /// The first place where they can.
    place: Option<PathBuf>,
}

/// The users that can change a tree: what is in it may be evaluated as the one user, and as any other only at that user's risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Only root can change it.
    Roots,
    /// One user, and root.
    Of(u32),
    /// Several users.
    Many,
}

impl Hands {
    /// The place where another user than root can change something; `None` where none can.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    pub(crate) fn whose(&self) -> Whose {
        match (self.many, self.users.len(), self.users.first()) {
            (false, 0, _) => Whose::Roots,
            (false, 1, Some(user)) => Whose::Of(*user),
            _ => Whose::Many,
        }
    }

    fn owner(&mut self, user: u32, place: &Path) {
        if user != 0 {
            self.users.insert(user);
            self.at(place);
        }
    }

    fn writers(&mut self, access: &Access, place: &Path) {
        let before = (self.users.len(), self.many);
        match access.who(Permission::Write) {
            Who::Only { users, groups } => {
                self.users.extend(users);
                self.many |= groups.iter().any(|group| *group != 0);
            }
            Who::Everybody | Who::Mixed => self.many = true,
        }
        if before != (self.users.len(), self.many) {
            self.at(place);
        }
    }

    fn at(&mut self, place: &Path) {
        self.place.get_or_insert_with(|| place.to_owned());
    }

    fn anybody(&mut self, place: &Path) {
        self.many = true;
        self.at(place);
    }
}

/// Looks at many paths, at each place once.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    hands: Hands,
    seen: BTreeSet<PathBuf>,
    /// Devices of FUSE mounts, and the ordinary users that they belong to.
    foreign: BTreeMap<u64, u32>,
}

impl Inquiry {
    pub(crate) fn new() -> Self {
        Self { foreign: foreign(&mountinfo::own_table()), ..Self::default() }
    }

    /// Looks at a path: at every directory on the way, behind links too, and at what is there. A directory at its end may be one
    /// for all, as `/tmp`, if it is sticky.
    ///
    /// Of what is not there the directory counts in which it would be.
    pub(crate) fn path(&mut self, path: &Path) {
        let mut rest: VecDeque<OsString> = names(path);
        let mut place = PathBuf::from("/");
        let mut links = 0;
        let mut is_shared = self.place(&place);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                place.pop();
                is_shared = self.place(&place);
                continue;
            }
            let next = place.join(&name);
            let Ok(metadata) = next.symlink_metadata() else {
                // Others may make it there, so it may be anything.
                return if is_shared {
                    self.hands.anybody(&place)
                };
            };
            if is_shared {
                // Its owner alone may exchange it.
                self.hands.owner(metadata.uid(), &next);
            }
            if !metadata.is_symlink() {
                place = next;
                is_shared = self.place(&place);
                continue;
            }
            links += 1;
            let Ok(target) = next.read_link() else { return self.hands.anybody(&next) };
            if links > LINKS {
                return self.hands.anybody(&next);
            }
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            for name in names(&target).into_iter().rev() {
                rest.push_front(name);
            }
            is_shared = self.place(&place);
        }
    }

    /// Looks at one place without links in its path. Returns whether it is a sticky directory for several users: what is in it
    /// belongs to its owner.
    fn place(&mut self, place: &Path) -> bool {
        let Ok(metadata) = place.symlink_metadata() else {
            self.hands.anybody(place);
            return false;
        };
        let acl = Acl::read(|value| rustix::fs::lgetxattr(place, ATTRIBUTE, value));
        let access = Access { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), acl };
        let is_shared = metadata.is_dir() && access.mode & STICKY != 0 && !is_roots(&access);
        if self.seen.insert(place.to_owned()) {
            self.foreign(metadata.dev(), place);
            self.hands.owner(access.uid, place);
            // The rights to a device or socket do not count: nothing of it is evaluated.
            if !is_shared && !metadata.file_type().is_char_device() {
                self.hands.writers(&access, place);
            }
        }
        is_shared
    }

    fn foreign(&mut self, device: u64, place: &Path) {
        if let Some(user) = self.foreign.get(&device) {
            self.hands.owner(*user, place);
        }
    }

    /// Looks at a tree: at the way to it, everything in it, and the way behind every link in it.
    pub(crate) fn tree(&mut self, tree: &Tree) {
        if tree.root.is_absolute() {
            self.path(&tree.root);
        }
        self.entry(&tree.access, &tree.root);
        for entry in &tree.entries {
            let path = tree.full_path(&entry.path);
            if let Some(access) = &entry.access {
                self.entry(access, &path);
            }
            if let Some((device, _)) = entry.identity {
                self.foreign(device, &path);
            }
            if entry.is_link {
                self.path(&path);
            }
            if entry.kind == Kind::TooDeep {
                self.hands.anybody(&path);
            }
        }
    }

    fn entry(&mut self, access: &Access, path: &Path) {
        self.hands.owner(access.uid, path);
        self.hands.writers(access, path);
    }

    /// Looks at a tool: its script, what lies beside it, and its interpreter.
    pub(crate) fn tool(&mut self, tool: &Tool) {
        self.path(&tool.interpreter);
        self.path(&tool.script);
        for entry in tool.directory().read_dir().into_iter().flatten().flatten() {
            self.path(&entry.path());
        }
    }

    /// Looks at the files that variables name.
    pub(crate) fn variables<'a>(&mut self, variables: impl IntoIterator<Item = &'a OsString>) {
        let paths = variables.into_iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b':'));
        for path in paths.filter(|path| path.starts_with(b"/")) {
            self.path(Path::new(std::ffi::OsStr::from_bytes(path)));
        }
    }

    pub(crate) fn hands(self) -> Hands {
        self.hands
    }
}

/// Tells whether root owns it, and no other user may write in it.
pub(crate) fn is_roots(access: &Access) -> bool {
    let mut hands = Hands::default();
    hands.owner(access.uid, Path::new("/"));
    hands.writers(access, Path::new("/"));
    hands.whose() == Whose::Roots
}

/// The names of a path, without those that mean the same place.
fn names(path: &Path) -> VecDeque<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}

/// The FUSE mounts of ordinary users, by device; `user_id=` is the user who runs the server.
fn foreign(table: &[u8]) -> BTreeMap<u64, u32> {
    let one = |mount: MountEntry<'_>| {
        let options = String::from_utf8_lossy(&mount.super_options);
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id="))?;
        let user: u32 = user.parse().ok()?;
        (mount.kind.starts_with(b"fuse") && user != 0).then_some((mount.device, user))
    };
    mountinfo::entries(table).filter_map(one).collect()
}

/// Refuses, as root, a directory to work in that another user can exchange, or in which another user's entries could be.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub fn refuse_place(directory: &Path) -> Result<(), ModulesError> {
    if !is_root() {
        return Ok(());
    }
    let mut inquiry = Inquiry::new();
    inquiry.path(directory);
    match inquiry.hands().place {
        None => Ok(()),
        Some(place) => Err(ModulesError::Untrusted { path: directory.to_owned(), place }),
    }
}

/// Refuses, as root, what a FUSE server of an ordinary user shows: its owners and modes are that user's invention, and a copy would
/// make them real.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub(crate) fn refuse_foreign(device: u64, path: &Path) -> Result<(), ModulesError> {
    match is_root() && Inquiry::new().foreign.contains_key(&device) {
        true => Err(ModulesError::Untrusted { path: path.to_owned(), place: path.to_owned() }),
        false => Ok(()),
    }
}

/// The user as which a tool that builds something of trees is started.
///
/// A user other than root builds as itself. Root builds as the user that is named; as root where only root can change what is evaluated; else
/// as a user without rights.
///
/// **Errors**: [`ModulesError::Unsafe`] where that user cannot enter a modulepath.
pub(crate) fn builder(tool: &Tool, trees: &[&Tree], named: Option<&User>) -> Result<User, ModulesError> {
    match named {
        Some(user) => return Ok(user.clone()),
        None if !is_root() => return Ok(User::ourselves()),
        None => {}
    }
    let mut inquiry = Inquiry::new();
    inquiry.tool(tool);
    trees.iter().for_each(|tree| inquiry.tree(tree));
    let Some(place) = inquiry.hands().place else { return Ok(User::ourselves()) };
    let user = User::new("nobody", NOBODY, NOBODY, Vec::new());
    let enters = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = user.act(|| Ok(rustix::fs::open(path, flags, Mode::empty())?));
        opened.is_ok()
    };
    match trees.iter().find(|tree| !enters(&tree.root)) {
        Some(tree) => Err(ModulesError::Unsafe { modulepath: tree.root.clone(), place }),
        None => Ok(user),
    }
}

/// The user as which a tool is asked for its version: its script may be another user's.
pub(crate) fn prober(tool: &Tool) -> User {
    let mut inquiry = Inquiry::new();
    if is_root() {
        inquiry.tool(tool);
    }
    match inquiry.hands().place {
        None => User::ourselves(),
        Some(_) => User::new("nobody", NOBODY, NOBODY, Vec::new()),
    }
}

/// Lets a user pass through a directory of ours, and no other user: its owner stays who it is.
///
/// **Errors**: what the system says.
pub fn let_pass(directory: &Path, user: &User) -> std::io::Result<()> {
    let set =
        |mode: u32| std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(mode));
    set(0o700)?;
    let Some(credentials) = user.credentials.as_ref().filter(|credentials| credentials.user != 0) else {
        return Ok(());
    };
    let list = Acl::passable(credentials.user);
    match rustix::fs::setxattr(directory, ATTRIBUTE, &list, rustix::fs::XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            std::os::unix::fs::chown(directory, None, Some(credentials.group))?;
            set(0o710)
        }
        outcome => Ok(outcome?),
    }
}

/// Tells whether what was opened is a regular file of this user, or of root: a process of another user had its way in between else.
///
/// **Errors**: what the system says; [`std::io::ErrorKind::InvalidInput`].
pub(crate) fn refuse_file(stat: &rustix::fs::Stat, owner: u32) -> std::io::Result<()> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    match is_file && [owner, 0].contains(&stat.st_uid) {
        true => Ok(()),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no file of its maker")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn mounts_of_ordinary_users_are_theirs() {
        let mounts = b"30 1 0:27 / /cvmfs rw - fuse cvmfs2 rw,user_id=0,group_id=0\n\
            31 1 0:28 / /home/a/mnt rw,nosuid shared:1 - fuse.sshfs a:/ rw,user_id=1000,group_id=1000\n\
            32 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        assert_eq!(foreign(mounts), BTreeMap::from([(rustix::fs::makedev(0, 28), 1000)]));
    }

    #[test]
    fn privileged_the_way_to_a_place_is_part_of_it() {
        if !is_root() {
            println!("skipped, because this user is not root");
            return;
        }
        let made = tempfile::tempdir().unwrap();
        let directory = made.path().canonicalize().unwrap();
        let path = |name: &str| directory.join(name);
        let whose = |name: &str| {
            let mut inquiry = Inquiry::new();
            inquiry.path(&path(name));
            inquiry.hands().whose()
        };
        for name in
            ["roots", "alices", "shared", "shared/roots", "shared/alices", "alices/deep", "roots/deep"]
        {
            fs::create_dir_all(path(name)).unwrap();
        }
        let alice = |name: &str| chown(path(name), Some(12345), Some(12345)).unwrap();
        alice("alices");
        alice("shared/alices");
        fs::set_permissions(path("shared"), Permissions::from_mode(0o1777)).unwrap();
        for (link, to) in [("to-alices", "alices/deep"), ("to-roots", "roots"), ("shared/link", "../roots")] {
            symlink(to, path(link)).unwrap();
        }
        for (name, expected) in [
            ("roots/deep", Whose::Roots),
            ("to-roots/deep", Whose::Roots),
            ("alices/deep", Whose::Of(12345)),
            ("alices/deep/../../roots", Whose::Of(12345)),
            ("to-alices", Whose::Of(12345)),
            ("shared", Whose::Roots),
            ("shared/roots", Whose::Roots),
            ("shared/alices", Whose::Of(12345)),
            ("shared/link", Whose::Roots),
            ("shared/absent", Whose::Many),
            ("roots/absent", Whose::Roots),
        ] {
            assert_eq!(whose(name), expected, "{name}");
        }
        fs::set_permissions(path("roots"), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(whose("roots/deep"), Whose::Many);
        std::os::unix::fs::lchown(path("shared/link"), Some(12345), None).unwrap();
        fs::set_permissions(path("roots"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(whose("shared/link"), Whose::Of(12345));
    }

    use std::fs::Permissions;
}
