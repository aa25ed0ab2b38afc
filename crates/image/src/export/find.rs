//! Finding what a path means in an image, links followed within it.

use thiserror::Error;

use crate::error::Corrupt;
use crate::export::walk::FoundNode;
use crate::image::{Image, Lookup};
use crate::model::{FileKind, Nid};
use crate::path::{components, join};

/// Treatment of a link at the end of a path. Links on the way are always followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// Mean what it points to.
    Follow,
    /// Mean the link.
    Keep,
}

/// A path that leads to no node of the image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FindError {
    /// The image knows that it is not there.
    #[error("`{}` does not exist, says the image", .path.escape_ascii())]
    Absent {
        /// The path, as far as it was followed.
        path: Vec<u8>,
    },
    /// The image does not know.
    #[error("`{}` is not in the image", .path.escape_ascii())]
    Unknown {
        /// The path, as far as it was followed.
        path: Vec<u8>,
    },
    /// Something on the way is no directory.
    #[error("`{}` is not a directory", .path.escape_ascii())]
    NotDirectory {
        /// The path of the other node.
        path: Vec<u8>,
    },
    /// More links than Linux follows.
    #[error("`{}`: too many symbolic links", .path.escape_ascii())]
    Links {
        /// The path that was asked for.
        path: Vec<u8>,
    },
    /// The image contradicts itself.
    #[error("damaged image")]
    Corrupt(#[from] Corrupt),
}

/// Links that are followed in one path. Source: path_resolution(7).
const LINKS_MAX: usize = 40;

/// Finds the absolute `path` in `image`, and the path by which it lies there.
pub fn find<B: AsRef<[u8]>>(image: &Image<B>, path: &[u8], last: LastLink) -> Result<FoundNode, FindError> {
    // The way from the root to where we are, by which `..` goes back.
    let mut way: Vec<FoundNode> = vec![FoundNode { path: b"/".to_vec(), nid: image.root() }];
    let mut ahead = names(path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        let here = way.last().cloned().unwrap_or(FoundNode { path: b"/".to_vec(), nid: image.root() });
        if name == b".." {
            way.truncate(way.len().saturating_sub(1).max(1));
            continue;
        }
        let next = step(image, &here, &name)?;
        let follows = !ahead.is_empty() || last == LastLink::Follow;
        if follows && image.attributes(next.nid)?.kind == FileKind::Symlink {
            links += 1;
            if links > LINKS_MAX {
                return Err(FindError::Links { path: path.to_vec() });
            }
            let target = image.link_target(next.nid)?;
            if target.starts_with(b"/") {
                way.truncate(1);
            }
            ahead.extend(names(target));
            continue;
        }
        way.push(next);
    }
    way.pop().ok_or(FindError::Unknown { path: path.to_vec() })
}

/// The names of a path, the first one last.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    components(path).filter(|name| *name != b".").rev().map(<[u8]>::to_vec).collect()
}

fn step<B: AsRef<[u8]>>(image: &Image<B>, here: &FoundNode, name: &[u8]) -> Result<FoundNode, FindError> {
    if !is_directory(image, here.nid)? {
        return Err(FindError::NotDirectory { path: here.path.clone() });
    }
    let path = join(&here.path, name);
    match image.lookup(here.nid, name)? {
        Lookup::Found(nid) => Ok(FoundNode { path, nid }),
        Lookup::Absent => Err(FindError::Absent { path }),
        Lookup::Unknown => Err(FindError::Unknown { path }),
    }
}

fn is_directory<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid) -> Result<bool, Corrupt> {
    Ok(image.attributes(nid)?.kind == FileKind::Directory)
}
