//! A stamp beside an image: that it was compared with its originals, just now.
//!
//! Ranks that find one do not compare again, so that the tasks of a job array start without a check each. It is a file
//! of text beside the image:
//!
//! ```text
//! quell-checked 1
//! image 5317d1873e19...       the image's identity: a stamp says nothing of another image of the same name
//! checked 1764000000          seconds since 1970, by the clock of the node that compared
//! lifetime 600                seconds
//! renewed [7,{...}]           a directory in which names may have come and gone, by its number in the image; one line each
//! sum 0a1b2c3d4e5f6071        BLAKE3 of the lines above, cut
//! ```
//!
//! A stamp counts if its owner may be trusted with an image, it is whole, and its lifetime is not over. The clocks of nodes
//! differ: a stamp from the future counts up to [`SKEW`], and lives that much longer at most. A stamp that does not count is
//! no error: the rank then compares for itself. The sum protects from damage; the check of the owner protects from forgery.
//! A user who may rename or link in the directory could put an old stamp back, so stamps count only in directories that no
//! other user can write to.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use quell_base::files::WalkedPath;
use quell_image::{Attributes, ImageIdentity as Identity, Nid};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::check::Checked;
use crate::error::OsError;
use crate::loaded::{ImageTrust, verify_owner};
use crate::staleness::{RenewedAttributes, Staleness};
use crate::stats::replace_file;

/// The lag that the clock of a node may have behind that of the comparing node. Unit: seconds. Nodes of a cluster keep time
/// within milliseconds; a node with a larger lag compares for itself.
pub const SKEW: u64 = 60;

/// The longest that a stamp is trusted, whatever it says. Unit: seconds.
pub const LONGEST: u64 = 24 * 3600;

/// First line, with the version.
const FIRST: &str = "quell-checked 1";

/// The longest stamp: it has room for thousands of directories.
const LENGTH_MAX: usize = 1 << 20;

/// The time at which an image was compared with its originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Unit: seconds since 1970.
    pub checked: u64,
    /// For how long that is trusted. Unit: seconds. Range: up to [`LONGEST`].
    pub lifetime: u64,
}

/// The path of the stamp of the image at `image`.
pub fn path_of(image: &Path) -> PathBuf {
    let mut name = image.file_name().unwrap_or_default().to_owned();
    name.push(".checked");
    image.with_file_name(name)
}

/// Leaves `stamp` of a comparison that found no change beside the image at `image`, readable by those who may read that.
///
/// **Errors** What the system said, usually of a directory that may not be written to; `FBIG` if names came and went in too many
/// directories.
pub fn leave(image: &Path, identity: Identity, stamp: Stamp, checked: &Checked) -> Result<PathBuf, OsError> {
    let path = path_of(image);
    let readers = rustix::fs::stat(image)?.st_mode & 0o044;
    let text = text(identity, stamp, &checked.staleness.renewed);
    if text.len() > LENGTH_MAX {
        return Err(Errno::FBIG.into());
    }
    replace_file(&path, Mode::from_raw_mode(0o600 | readers), text.as_bytes())?;
    Ok(path)
}

/// Tells whether a stamp beside the image at `image` could count: no other user can make or change names there.
pub fn may_count(image: &Path) -> bool {
    WalkedPath::walk(&path_of(image)).is_ok_and(|way| is_private(&way))
}

/// Tells whether no other user can make or change names in the directory of a file.
pub(crate) fn is_private(way: &WalkedPath) -> bool {
    let last = rustix::fs::fstat(&way.directory);
    let closed = last.is_ok_and(|stat| stat.st_mode & 0o022 == 0);
    closed && way.replaceable().is_none()
}

/// Removes the stamp of the image at `image`, if there is one.
///
/// **Errors** What the system said; a stamp that stays is trusted until its time is over.
pub fn withdraw(image: &Path) -> Result<(), OsError> {
    let path = path_of(image);
    // A stamp under another name of the file must not count either.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
    if let Ok(file) = rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
        let _not_ours = rustix::fs::ftruncate(file, 0);
    }
    match rustix::fs::unlink(path) {
        Err(errno) if errno != Errno::NOENT => Err(errno.into()),
        _ => Ok(()),
    }
}

/// The outcome of the comparison that a stamp beside the image at `image` tells of; `None` if the image `identity` needs one at `now`.
pub(crate) fn vouched(image: &Path, identity: Identity, trust: ImageTrust, now: u64) -> Option<Staleness> {
    let read = || {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let way = WalkedPath::walk(&path_of(image)).ok()?;
        if trust == ImageTrust::OwnerOrRoot && !is_private(&way) {
            return None;
        }
        let file =
            rustix::fs::openat(&way.directory, path_of(image).file_name()?, flags, Mode::empty()).ok()?;
        verify_owner(&rustix::fs::fstat(&file).ok()?, trust).ok()?;
        parse(&read_short(&file)?, identity)
    };
    let (stamp, renewed) = read()?;
    lives(stamp, now).then(|| Staleness { renewed, ..Staleness::default() })
}

fn lives(stamp: Stamp, now: u64) -> bool {
    let not_from_the_future = now.saturating_add(SKEW) >= stamp.checked;
    let age = now.saturating_sub(stamp.checked);
    not_from_the_future && age < stamp.lifetime.min(LONGEST)
}

/// Directories whose names are known no further than they were compared, with their attributes then.
type RenewedDirectories = HashMap<Nid, Attributes>;

fn text(identity: Identity, stamp: Stamp, renewed: &RenewedDirectories) -> String {
    let Stamp { checked, lifetime } = stamp;
    let mut said = format!("{FIRST}\nimage {identity}\nchecked {checked}\nlifetime {lifetime}\n");
    let mut directories: Vec<_> =
        renewed.iter().map(|(nid, now)| (nid.value(), RenewedAttributes::from(now))).collect();
    directories.sort_unstable_by_key(|(nid, _)| *nid);
    for directory in directories {
        let directory = serde_json::to_string(&directory).expect("numbers are written");
        said += &format!("{RENEWED}{directory}\n");
    }
    format!("{said}sum {}\n", sum(&said))
}

const RENEWED: &str = "renewed ";

fn sum(said: &str) -> String {
    blake3::hash(said.as_bytes()).to_hex()[..16].to_owned()
}

/// Reads the stamp of the image `identity`; `None` for anything that [`text`] would not have written.
fn parse(text: &str, identity: Identity) -> Option<(Stamp, RenewedDirectories)> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let stamp =
        Stamp { checked: value("checked")?.parse().ok()?, lifetime: value("lifetime")?.parse().ok()? };
    let directory = |line: &str| {
        let (nid, now) = serde_json::from_slice::<(u64, RenewedAttributes)>(line.as_bytes()).ok()?;
        Some((Nid::new(nid), now.into()))
    };
    let renewed = text.lines().filter_map(|line| line.strip_prefix(RENEWED));
    let renewed = renewed.map(directory).collect::<Option<RenewedDirectories>>()?;
    (text == self::text(identity, stamp, &renewed)).then_some((stamp, renewed))
}

/// The text of the file, if it is short enough to be a stamp.
fn read_short(file: &OwnedFd) -> Option<String> {
    let mut bytes = vec![0; LENGTH_MAX + 1];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::read(file.as_fd(), &mut bytes[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The identity of an image of nothing.
    pub(crate) fn identity() -> Identity {
        use quell_image::write::{Audience, write};
        let root = quell_image::original::attributes_of(Path::new("/")).unwrap();
        let tree = quell_image::ImageTree::new(root).unwrap();
        let directory = tempfile::tempdir().unwrap();
        write(&tree, &directory.path().join("i"), Audience::Owner, &mut |_| {}).unwrap().identity
    }

    fn renewed() -> RenewedDirectories {
        let now = quell_image::original::attributes_of(Path::new("/")).unwrap();
        let now = Attributes::from(RenewedAttributes::from(&now));
        [(Nid::new(9), now), (Nid::new(7), now)].into()
    }

    #[test]
    fn a_stamp_lives_for_its_time_and_clocks_may_differ_a_little() {
        let stamp = Stamp { checked: 1_000_000, lifetime: 600 };
        for (now, expected) in [
            (1_000_000, true),
            (1_000_599, true),
            (1_000_600, false),
            (1_000_000 - SKEW, true),
            (1_000_000 - SKEW - 1, false),
            (0, false),
            (u64::MAX, false),
        ] {
            assert_eq!(lives(stamp, now), expected, "{now}");
        }
        let endless = Stamp { checked: 1_000_000, lifetime: u64::MAX };
        assert!(!lives(endless, 1_000_000 + LONGEST));
        assert!(!lives(Stamp { lifetime: 0, ..stamp }, 1_000_000));
    }

    #[test]
    fn only_a_whole_stamp_of_the_same_image_counts() {
        let stamp = Stamp { checked: 17, lifetime: 600 };
        let image = identity();
        let whole = text(image, stamp, &renewed());
        assert_eq!(parse(&whole, image), Some((stamp, renewed())));
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length], image), None);
        }
        for (from, to) in
            [("600", "6000"), ("quell-checked 1", "quell-checked 2"), ("checked 17", "checked 18")]
        {
            assert_eq!(parse(&whole.replacen(from, to, 1), image), None, "{from}");
        }
        assert_eq!(parse(&format!("{whole}more"), image), None);
        let other = whole.replace(&image.to_string()[..8], "00000000");
        assert_eq!(parse(&other, image), None);
    }

    #[test]
    fn a_stamp_is_left_beside_the_image_and_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.qimg");
        std::fs::write(&path, "").unwrap();
        let (image, stamp) = (identity(), Stamp { checked: 100, lifetime: 10 });
        let staleness = Staleness { renewed: renewed(), ..Staleness::default() };
        let checked = Checked { staleness: staleness.clone(), ..Checked::default() };
        let left = leave(&path, image, stamp, &checked).unwrap();
        assert_eq!(left, directory.path().join("app.qimg.checked"));
        let mode = |path: &Path| rustix::fs::stat(path).unwrap().st_mode & 0o777;
        assert_eq!(mode(&left), 0o600 | mode(&path) & 0o044);
        let vouched = |now| vouched(&path, image, ImageTrust::OwnerOrRoot, now);
        assert_eq!(vouched(105), Some(staleness));
        assert_eq!(vouched(110), None);
        rustix::fs::chmod(&left, Mode::from_raw_mode(0o666)).unwrap();
        assert_eq!(vouched(105), None, "any user could have written it");
        std::fs::rename(&left, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &left).unwrap();
        assert_eq!(vouched(105), None, "a link");
        withdraw(&path).unwrap();
        withdraw(&path).unwrap();
        assert!(!left.exists());
    }
}
