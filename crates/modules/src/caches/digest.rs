//! Whether a module tree is what it was: a number for each of its names, and one of them all.

use crate::scan::{Entry, Kind, Role, Tree};
use blake3::Hasher;
use std::collections::BTreeMap;

/// A number that changes when an answer about the tree may.
pub(super) fn digest(tree: &Tree) -> String {
    let mut hasher = Hasher::new();
    for (path, print) in prints(tree) {
        part(&mut hasher, path);
        part(&mut hasher, print.as_bytes());
    }
    short(&hasher)
}

/// For each name what an answer may depend on: kind, owners and permissions; of a modulefile its time and content, of an rc
/// file its content, of another file whether it is a modulefile. The modulepath's own name is empty.
pub(super) fn prints(tree: &Tree) -> BTreeMap<&[u8], String> {
    let is_part =
        |entry: &&Entry| entry.role().is_some() || !matches!(entry.kind, Kind::File(_) | Kind::Unreadable(_));
    let mut prints: BTreeMap<&[u8], String> =
        tree.entries.iter().filter(is_part).map(|entry| (entry.path.as_slice(), print(entry))).collect();
    let mut hasher = Hasher::new();
    part(&mut hasher, format!("{:?}", tree.access).as_bytes());
    prints.insert(b"", short(&hasher));
    prints
}

fn print(entry: &Entry) -> String {
    let mut hasher = Hasher::new();
    let mut part = |bytes: &[u8]| part(&mut hasher, bytes);
    part(format!("{:?} {}", entry.access, entry.is_link).as_bytes());
    match (&entry.kind, entry.role(), entry.cookie()) {
        (Kind::File(content), Some(Role::Rc(_)), _) => part(content),
        (Kind::File(content), _, Some(cookie)) if cookie.is_some() || is_lua(entry) => {
            part(content);
            part(entry.modified.div_euclid(NANOSECONDS).to_string().as_bytes());
        }
        (Kind::File(_), _, cookie) => part(format!("{cookie:?}").as_bytes()),
        (kind, ..) => part(format!("{kind:?}").as_bytes()),
    }
    short(&hasher)
}

fn is_lua(entry: &Entry) -> bool {
    entry.path.ends_with(b".lua")
}

fn part(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// 128 bits: nobody gains anything from two trees with the same number but themselves.
fn short(hasher: &Hasher) -> String {
    hasher.finalize().to_hex()[..32].to_owned()
}

/// In a second: the tools know times no better.
pub(super) const NANOSECONDS: i128 = 1_000_000_000;
