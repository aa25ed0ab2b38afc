//! Walks a path as the kernel does: one component after the other, following links.

use crate::path::{LONGEST, LONGEST_TARGET};
use crate::{PathTable, SymbolicLink};
use std::collections::HashMap;

/// The type of a path, as reported by the file system or by the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkAnswer {
    /// A symbolic link with this target.
    Link(Vec<u8>),
    /// Any other file.
    NoLink,
    /// An absent name; nothing exists below it either.
    Absent,
}

/// Tells which paths are symbolic links. The recorder asks the file system; a reader uses the links in the trace.
pub trait Links {
    /// The type of `path`. The path is absolute, and no directory on it is a link.
    fn link(&mut self, path: &[u8]) -> LinkAnswer;
}

/// Reports no links, for file systems that are out of reach: those of imported logs and of recordings from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFileSystem;

impl Links for NoFileSystem {
    fn link(&mut self, _: &[u8]) -> LinkAnswer {
        LinkAnswer::NoLink
    }
}

/// The directories at which a walk begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkStart<'a> {
    /// Absolute paths and links begin here, and `..` does not leave it.
    pub(super) root: &'a [u8],
    /// Relative paths begin here.
    pub(super) base: &'a [u8],
}

/// The components in which links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Follow {
    /// All but the last.
    Directories,
    /// All.
    All,
    /// All but the last, and none below an absent name, where the kernel's walk ended.
    UntilAbsent,
}

/// The kernel's limit on links in one walk. Source: `path_resolution(7)`.
const MOST_LINKS: u32 = 40;

/// Remembers each answer, so that each path is looked up once a recording.
#[derive(Debug, Default)]
pub(super) struct Walker {
    answers: HashMap<Vec<u8>, LinkAnswer>,
}

impl Walker {
    /// The absolute path that `path` resolves to. `None` in a loop of links, for a path that the kernel
    /// refuses for its length, and for a result longer than [`LONGEST_TARGET`].
    pub(super) fn walk(
        &mut self,
        links: &mut dyn Links,
        from: WalkStart<'_>,
        path: &[u8],
        follow: Follow,
    ) -> Option<Vec<u8>> {
        if path.len() >= LONGEST {
            return None;
        }
        let root = trimmed(from.root);
        let mut at = if path.first() == Some(&b'/') { root.to_vec() } else { trimmed(from.base).to_vec() };
        let mut todo = components(path);
        let mut met = 0;
        // Length of the absent name.
        let mut absent = None;
        while let Some(name) = todo.pop() {
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    if let Some(length) = absent.filter(|_| follow == Follow::UntilAbsent) {
                        at.truncate(length);
                        break;
                    }
                    if at != root {
                        at.truncate(parent(&at));
                    }
                    continue;
                }
                name => {
                    at.push(b'/');
                    at.extend_from_slice(name);
                }
            }
            if at.len() > LONGEST_TARGET {
                return None;
            }
            if absent.is_some() || (todo.is_empty() && follow != Follow::All) {
                continue;
            }
            match self.answer(links, &at) {
                LinkAnswer::NoLink => {}
                LinkAnswer::Absent => absent = Some(at.len()),
                LinkAnswer::Link(target) => {
                    met += 1;
                    if met > MOST_LINKS {
                        return None;
                    }
                    if target.first() == Some(&b'/') {
                        at = root.to_vec();
                    } else {
                        at.truncate(parent(&at));
                    }
                    todo.append(&mut components(&target));
                }
            }
        }
        if at.is_empty() {
            at.push(b'/');
        }
        Some(at)
    }

    fn answer(&mut self, links: &mut dyn Links, path: &[u8]) -> LinkAnswer {
        // The target of a magic link below /proc depends on the calling process, so the name itself is the answer.
        if path.starts_with(b"/proc/") {
            return LinkAnswer::NoLink;
        }
        if let Some(known) = self.answers.get(path) {
            return known.clone();
        }
        let answer = links.link(path);
        self.answers.insert(path.to_vec(), answer.clone());
        answer
    }

    pub(super) fn into_links(self, paths: &mut PathTable) -> Vec<SymbolicLink> {
        let links = self.answers.into_iter().filter_map(|(path, answer)| match answer {
            LinkAnswer::Link(target) => Some((path, target)),
            LinkAnswer::NoLink | LinkAnswer::Absent => None,
        });
        let mut links: Vec<_> = links.collect();
        links.sort();
        let link = |(path, target): (Vec<u8>, Vec<u8>)| SymbolicLink {
            path: paths.intern(&path),
            target: quell_base::escape(&target),
        };
        links.into_iter().map(link).collect()
    }
}

/// The components, last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec).collect()
}

/// The length of the directory's path.
fn parent(path: &[u8]) -> usize {
    path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)
}

/// Turns `/` into the empty path, so that components can be appended.
fn trimmed(base: &[u8]) -> &[u8] {
    base.strip_suffix(b"/").unwrap_or(base)
}
