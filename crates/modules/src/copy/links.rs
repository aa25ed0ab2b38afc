//! The destinations of symbolic links in a copy.

use std::path::{Component, Path, PathBuf};

/// A tree and its copy. Shape: both absolute and without links.
pub(crate) type CopiedTree = (PathBuf, PathBuf);

/// The place that a link in `directory` leads to, without following further links; and whether the way there leaves `root`.
pub(super) fn place(root: &Path, directory: &Path, link: &Path) -> (PathBuf, bool) {
    let mut place = directory.to_owned();
    let mut leaves = link.is_absolute();
    for component in link.components() {
        match component {
            Component::ParentDir => _ = place.pop(),
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::Prefix(_) => {}
            Component::RootDir => place = PathBuf::from("/"),
        }
        leaves |= !place.starts_with(root);
    }
    (place, leaves)
}

/// The copy of a place. The place may be in a tree by another name of one of the tree's directories.
pub(super) fn copy_of(copies: &[CopiedTree], place: &Path) -> Option<PathBuf> {
    let of = |place: &Path| {
        let copy = |(tree, copy): &CopiedTree| Some(copy.join(place.strip_prefix(tree).ok()?));
        copies.iter().find_map(copy)
    };
    of(place).or_else(|| of(&place.parent()?.canonicalize().ok()?.join(place.file_name()?)))
}

/// The way from a directory to a place. Shape: both absolute, without `..`.
///
/// The way stays right when the directory above both is moved.
pub(super) fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
}
