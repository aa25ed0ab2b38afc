//! A settings file: its path, its trust, its text. One open each, and nothing else if there is
//! no such file: every rank of a job runs this.

use quell_base::files::is_unmapped;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file of the site.
pub(crate) const SITE: &str = "/etc/quell.toml";

/// The largest settings file. Unit: bytes.
const LIMIT: u64 = 1 << 20;

/// The role of a settings file. Shape: in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsRole {
    /// Named with `--config`, in place of the user's file.
    Named,
    /// The user's.
    User,
    /// The site's.
    Site,
}

impl SettingsRole {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::User => "user",
            Self::Site => "site",
        }
    }
}

/// The result of reading a settings file.
#[derive(Debug)]
pub(crate) enum SettingsContent {
    /// Its bytes.
    Text(Vec<u8>),
    /// Nothing.
    Absent,
    /// A file that another user can write, who must not decide what this user runs.
    Refused(&'static str),
    /// Something that cannot be read.
    Unreadable(std::io::Error),
    /// The file was skipped: a rank of a job does not ask the home directory.
    Skipped,
}

/// The path of the user's file. Source: XDG Base Directory Specification; a relative path counts as none.
pub(crate) fn of_user(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    directory.map(|directory| directory.join("quell.toml"))
}

/// Reads a file, if there is one and its owner is trusted.
pub(crate) fn read(path: &Path, role: SettingsRole) -> SettingsContent {
    match open(path, role) {
        Ok(Some((file, stat))) => match distrust(&stat, role) {
            Some(why) => SettingsContent::Refused(why),
            None => text(file).map_or_else(SettingsContent::Unreadable, SettingsContent::Text),
        },
        Ok(None) => SettingsContent::Absent,
        Err(error) => SettingsContent::Unreadable(error.into()),
    }
}

/// Opens a file; `None` where there is none. Only `--config` may name a pipe: on any other the open would wait.
fn open(path: &Path, role: SettingsRole) -> Result<Option<(File, Stat)>, Errno> {
    let waits = if role == SettingsRole::Named { OFlags::empty() } else { OFlags::NONBLOCK };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | waits;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) if role != SettingsRole::Named => return Ok(None),
        outcome => outcome?,
    };
    let stat = rustix::fs::fstat(&file)?;
    Ok(Some((file.into(), stat)))
}

/// The reason to refuse a file. A file named by `--config` is never refused.
fn distrust(stat: &Stat, role: SettingsRole) -> Option<&'static str> {
    let owner_decides = match role {
        SettingsRole::Named => return None,
        SettingsRole::User => stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw(),
        SettingsRole::Site => stat.st_uid == 0 || is_unmapped(stat.st_uid),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Some("it is not a file");
    }
    if stat.st_mode & Mode::WOTH.as_raw_mode() != 0 {
        return Some("every user can write it");
    }
    (!owner_decides).then_some(match role {
        SettingsRole::Site => "root does not own it",
        _ => "neither you nor root own it",
    })
}

fn text(file: File) -> Result<Vec<u8>, std::io::Error> {
    let mut text = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= LIMIT => Ok(text),
        _ => Err(Errno::FBIG.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_follows_the_variables() {
        let place = |config: Option<&str>, home: Option<&str>| {
            of_user(|name| if name == "HOME" { home } else { config }.map(Into::into))
        };
        assert_eq!(place(None, Some("/home/u")), Some("/home/u/.config/quell.toml".into()));
        assert_eq!(place(Some("/x"), Some("/home/u")), Some("/x/quell.toml".into()));
        for unset in ["", "relative"] {
            assert_eq!(place(Some(unset), Some("/home/u")), Some("/home/u/.config/quell.toml".into()));
            assert_eq!(place(None, Some(unset)), None);
        }
        assert_eq!(place(None, None), None);
    }

    #[test]
    fn a_file_is_believed_when_only_its_owner_decides_what_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quell.toml");
        assert!(matches!(read(&path, SettingsRole::User), SettingsContent::Absent));
        assert!(matches!(read(&path, SettingsRole::Named), SettingsContent::Unreadable(_)));
        std::fs::write(&path, "quiet = true").unwrap();
        assert!(
            matches!(read(&path, SettingsRole::User), SettingsContent::Text(text) if text == b"quiet = true")
        );
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o646)).unwrap();
        assert!(matches!(
            read(&path, SettingsRole::User),
            SettingsContent::Refused("every user can write it")
        ));
        assert!(matches!(read(&path, SettingsRole::Named), SettingsContent::Text(_)));
        assert!(matches!(
            read(directory.path(), SettingsRole::User),
            SettingsContent::Refused("it is not a file")
        ));
        assert!(matches!(read(directory.path(), SettingsRole::Named), SettingsContent::Unreadable(_)));
        assert!(
            matches!(read(Path::new("/dev/null"), SettingsRole::Named), SettingsContent::Text(text) if text.is_empty())
        );
        assert!(matches!(read(Path::new("/dev/zero"), SettingsRole::Named), SettingsContent::Unreadable(_)));
    }
}
