//! Chooses the roots: the directories that an image answers for.
//!
//! The search goes from each network file system's mount point downwards. A directory below which the recording changed
//! nothing is a root. A directory with live directories below it is a root with these bound back, if the program does not
//! use them, or if it asks for something in the directory itself and no root would lie below the live ones. Otherwise its
//! parts are considered.

use quell_image::path::{is_within, join};
use quell_trace::ServedBy;

use crate::options::RootsBy;
use crate::path_tree::PathTree;

/// A directory that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootChoice {
    pub(crate) path: Vec<u8>,
    pub(crate) reason: String,
    pub(crate) file_system: String,
    /// Topmost directories below it that stay the original, with the reason; sorted.
    pub(crate) live: Vec<(Vec<u8>, String)>,
    /// The origin of its candidate.
    pub(crate) origin: RootOrigin,
}

/// The directories in which roots are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RootScope<'a> {
    /// On any network file system.
    Network,
    /// Below these directories.
    Given(&'a [Vec<u8>], RootsBy),
    /// The roots of an image: each is a root again, unless it became live itself.
    Again(&'a [(Vec<u8>, RootOrigin)], RootsBy),
}

/// The beginning of a root's reason where quell named the directories. An image keeps the reason, and by it the fact.
const CHOSEN: &str = "quell chose";

impl RootsBy {
    /// The party that named an image's roots.
    pub(crate) fn of_reasons<'a>(mut reasons: impl Iterator<Item = &'a str>) -> Self {
        if reasons.any(|reason| reason.starts_with(CHOSEN)) { Self::Quell } else { Self::User }
    }
}

/// Chooses roots. Sorted by path, none within another.
///
/// `is_directory` tells whether a path is a directory now, which no trace has.
pub(crate) fn choose(
    recorded: &PathTree,
    scope: RootScope<'_>,
    is_directory: &dyn Fn(&[u8]) -> bool,
) -> Vec<RootChoice> {
    let again = if let RootScope::Again(again, _) = scope { again } else { &[] };
    let chooser = Chooser { recorded, scope, again, is_directory };
    let mut choices = Vec::new();
    match scope {
        RootScope::Network => {
            for mount in recorded.network_mounts() {
                choices.extend(chooser.at_path(&mount, RootOrigin::Judged));
            }
        }
        RootScope::Given(given, _) => {
            for path in given {
                choices.extend(chooser.at_path(path, RootOrigin::Given));
            }
        }
        RootScope::Again(again, _) => {
            for (path, origin) in again {
                choices.extend(chooser.at_path(path, *origin));
            }
        }
    }
    choices.sort_by(|a, b| a.path.cmp(&b.path));
    let mut apart: Vec<RootChoice> = Vec::new();
    for choice in choices {
        if !apart.iter().any(|chosen| is_within(&choice.path, &chosen.path)) {
            apart.push(choice);
        }
    }
    apart
}

/// The relation of a directory to those that were named, by the user or by quell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootOrigin {
    /// It was.
    Given,
    /// It lies below one that was, and is judged by itself.
    Below,
    /// It was not.
    Judged,
}

impl RootOrigin {
    /// That of a directory's parts.
    fn of_parts(self) -> Self {
        match self {
            Self::Given | Self::Below => Self::Below,
            Self::Judged => Self::Judged,
        }
    }
}

struct Chooser<'a> {
    recorded: &'a PathTree,
    scope: RootScope<'a>,
    /// Roots that an image has.
    again: &'a [(Vec<u8>, RootOrigin)],
    is_directory: &'a dyn Fn(&[u8]) -> bool,
}

impl Chooser<'_> {
    fn at_path(&self, path: &[u8], origin: RootOrigin) -> Vec<RootChoice> {
        // A directory in a live one cannot be frozen by the parts around it, but it can be by itself.
        self.recorded.find(path).map(|node| self.consider(path, node, origin)).unwrap_or_default()
    }

    /// The choices at `path` and below.
    fn consider(&self, path: &[u8], node: &PathTree, origin: RootOrigin) -> Vec<RootChoice> {
        if !node.is_used() {
            return Vec::new();
        }
        // Nothing can be mounted over `/` for a program that runs in it: where it is a network file system (diskless
        // nodes) its parts are frozen.
        if node.live.is_some() || path == b"/" {
            return self.parts(path, node, origin);
        }
        let mut live = Vec::new();
        topmost_live(path, node, &mut live);
        let undisturbed = || live.iter().all(|(path, below, _)| self.parts_of_live(path, below).is_empty());
        let unused = live.iter().all(|(_, below, _)| !below.is_used());
        let again = self.again.iter().any(|(root, _)| root == path);
        let whole = unused || again || origin == RootOrigin::Given || (has_own(node) && undisturbed());
        if !whole {
            return self.parts(path, node, origin);
        }
        let worth = origin == RootOrigin::Given || node.seen.entered || node.is_used_below();
        if !worth || !(self.is_directory)(path) {
            return Vec::new();
        }
        vec![self.choice(path, node, live, origin)]
    }

    fn choice(
        &self,
        path: &[u8],
        node: &PathTree,
        live: Vec<(Vec<u8>, &PathTree, String)>,
        origin: RootOrigin,
    ) -> RootChoice {
        let file_system = self.recorded.file_system(path).unwrap_or_default();
        let used = node.count_asked();
        let live: Vec<_> = live
            .into_iter()
            .filter(|(path, ..)| (self.is_directory)(path))
            .map(|(path, _, reason)| (path, reason))
            .collect();
        let by = match self.scope {
            RootScope::Given(_, by) | RootScope::Again(_, by) => by,
            RootScope::Network => RootsBy::User,
        };
        let why = match (origin, by) {
            (RootOrigin::Judged, _) => format!("it is on a network file system ({file_system})"),
            (RootOrigin::Given, RootsBy::User) => "it was given with `--root`".to_owned(),
            (RootOrigin::Below, RootsBy::User) => "it lies below a directory given with `--root`".to_owned(),
            (RootOrigin::Given, RootsBy::Quell) => format!("{CHOSEN} it"),
            (RootOrigin::Below, RootsBy::Quell) => format!("{CHOSEN} a directory above it"),
        };
        let changed = match live.len() {
            0 => "nothing below it was changed".to_owned(),
            1 => "1 directory below it stays the original".to_owned(),
            count => format!("{count} directories below it stay the original"),
        };
        let asked = if used == 1 { "path was" } else { "paths were" };
        let reason = format!("{why}, {used} {asked} asked for, {changed}");
        RootChoice { path: path.to_vec(), reason, file_system: file_system.into(), live, origin }
    }

    /// The choices below `path`, each child by itself.
    fn parts(&self, path: &[u8], node: &PathTree, origin: RootOrigin) -> Vec<RootChoice> {
        let children = node.children.iter().filter(|(_, child)| child.mounted.is_none());
        let origin = origin.of_parts();
        children.flat_map(|(name, child)| self.consider(&join(path, name), child, origin)).collect()
    }

    /// The choices in a live directory, or on another file system that is mounted there.
    fn parts_of_live(&self, path: &[u8], node: &PathTree) -> Vec<RootChoice> {
        match node.mounted.as_deref().map(ServedBy::of_type) {
            Some(ServedBy::Network) => self.consider(path, node, RootOrigin::Judged),
            Some(ServedBy::Quell | ServedBy::Local) => Vec::new(),
            None => self.parts(path, node, RootOrigin::Judged),
        }
    }
}

/// The topmost directories below `node` that must stay the original, each with its reason.
fn topmost_live<'a>(path: &[u8], node: &'a PathTree, live: &mut Vec<(Vec<u8>, &'a PathTree, String)>) {
    for (name, child) in &node.children {
        let path = join(path, name);
        match (&child.mounted, &child.live) {
            (Some(kind), _) => {
                live.push((path, child, format!("another file system ({kind}) is mounted there")));
            }
            (None, Some(reason)) => live.push((path, child, reason.clone())),
            (None, None) => topmost_live(&path, child, live),
        }
    }
}

/// Tells whether the program asks for names in the directory itself, not only for the way to what lies deeper.
fn has_own(node: &PathTree) -> bool {
    let asked = |child: &PathTree| child.seen.touched || child.seen.missed;
    node.seen.entered || node.children.values().any(|child| child.children.is_empty() && asked(child))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of paths: `+` touched, `-` missed, `w` written, `l` entered, `mKIND` mounted.
    fn recorded(lines: &[(&str, &str)]) -> PathTree {
        let mut recorded = PathTree::default();
        recorded.mount(b"/", "ext4");
        for (what, path) in lines {
            let path = path.as_bytes();
            match what.as_bytes()[0] {
                b'+' => recorded.seen(path).touched = true,
                b'-' => recorded.seen(path).missed = true,
                b'l' => recorded.seen(path).entered = true,
                b'w' => {
                    recorded.seen(path).touched = true;
                    recorded.live_parent(path, "was written");
                }
                _ => recorded.mount(path, &what[1..]),
            }
        }
        recorded
    }

    fn chosen(lines: &[(&str, &str)], given: &[&str]) -> Vec<(String, Vec<String>)> {
        let given: Vec<_> = given.iter().map(|path| path.as_bytes().to_vec()).collect();
        let is_directory = |path: &[u8]| !path.ends_with(b".py");
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let scope =
            if given.is_empty() { RootScope::Network } else { RootScope::Given(&given, RootsBy::User) };
        let choices = choose(&recorded(lines), scope, &is_directory);
        choices
            .into_iter()
            .map(|choice| (text(choice.path), choice.live.into_iter().map(|(path, _)| text(path)).collect()))
            .collect()
    }

    fn whole(path: &str) -> (String, Vec<String>) {
        (path.into(), Vec::new())
    }

    #[test]
    fn the_mount_point_is_a_root_where_nothing_was_changed() {
        let lines =
            [("mlustre", "/l"), ("+", "/l/sw/env/bin/x"), ("-", "/l/sw/env/lib/y"), ("+", "/etc/passwd")];
        assert_eq!(chosen(&lines, &[]), [whole("/l")]);
    }

    #[test]
    fn outputs_part_a_file_system() {
        let lines = [("mlustre", "/l"), ("+", "/l/sw/env/bin/x"), ("w", "/l/scratch/u/out")];
        assert_eq!(chosen(&lines, &[]), [whole("/l/sw")]);
    }

    #[test]
    fn a_lock_deep_in_an_environment_is_bound_back() {
        let lines =
            [("mlustre", "/l"), ("+", "/l/env/pyvenv.cfg"), ("+", "/l/env/lib/a"), ("w", "/l/env/locks/x")];
        assert_eq!(chosen(&lines, &[]), [("/l/env".into(), vec!["/l/env/locks".into()])]);
    }

    #[test]
    fn an_environment_in_the_working_directory_is_a_root() {
        let lines =
            [("mnfs4", "/h"), ("+", "/h/u/.profile"), ("+", "/h/u/app/venv/bin/x"), ("w", "/h/u/app/out")];
        assert_eq!(chosen(&lines, &[]), [whole("/h/u/app/venv")]);
    }

    #[test]
    fn other_file_systems_are_not_frozen_along() {
        let lines =
            [("mnfs4", "/"), ("mproc", "/proc"), ("+", "/proc/self"), ("+", "/usr/lib/x"), ("+", "/init")];
        assert_eq!(chosen(&lines, &[]), [whole("/usr")]);
        let nested =
            [("mnfs4", "/n"), ("mlustre", "/n/l"), ("+", "/n/l/x/y"), ("+", "/n/a/b"), ("+", "/n/c")];
        assert_eq!(chosen(&nested, &[]), [whole("/n/a"), whole("/n/l")]);
    }

    #[test]
    fn live_directories_that_the_program_does_not_use_part_nothing() {
        let mut recorded = recorded(&[("mlustre", "/l"), ("+", "/l/sw/env/bin/x"), ("mautofs", "/l/auto")]);
        recorded.live_itself(b"/l/images", "the image is written to it");
        let choices = choose(&recorded, RootScope::Network, &|_| true);
        assert_eq!(choices.len(), 1);
        assert_eq!(choices[0].path, b"/l");
        let live: Vec<_> = choices[0].live.iter().map(|(path, _)| &path[..]).collect();
        assert_eq!(live, [&b"/l/auto"[..], b"/l/images"]);
    }

    #[test]
    fn given_roots_need_no_network() {
        let lines = [("+", "/opt/env/bin/x"), ("w", "/opt/env/var/log")];
        assert_eq!(chosen(&lines, &[]), []);
        assert_eq!(chosen(&lines, &["/opt/env"]), [("/opt/env".into(), vec!["/opt/env/var".into()])]);
        assert_eq!(chosen(&lines, &["/opt/env", "/opt"]), [("/opt".into(), vec!["/opt/env/var".into()])]);
        assert_eq!(chosen(&lines, &["/opt/other"]), []);
    }

    #[test]
    fn a_part_of_a_given_root_is_not_said_to_be_on_a_network() {
        let mut recorded = recorded(&[("+", "/opt/env/bin/x")]);
        recorded.live_itself(b"/opt/env", "something is renamed in it");
        let choices = choose(&recorded, RootScope::Given(&[b"/opt/env".to_vec()], RootsBy::User), &|_| true);
        assert_eq!(choices[0].path, b"/opt/env/bin");
        assert!(choices[0].reason.starts_with("it lies below a directory given with `--root`, "));
    }

    #[test]
    fn files_and_unused_directories_are_no_roots() {
        let lines = [("mlustre", "/l"), ("+", "/l/app.py"), ("w", "/l/out"), ("+", "/l/data")];
        assert_eq!(chosen(&lines, &[]), []);
        let listed = [("mlustre", "/l"), ("l", "/l/data"), ("w", "/l/out")];
        assert_eq!(chosen(&listed, &[]), [whole("/l/data")]);
    }
}
