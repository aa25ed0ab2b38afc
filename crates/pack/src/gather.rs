//! Reads the chosen roots into a tree: listings and attributes of covered directories, links, and the files to hold.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_image::original::{OriginalDirectory, OriginalError, attributes_of};
use quell_image::path::{components, is_within, join, split};
use quell_image::write::Audience;
use quell_image::{Attributes, Beyond, Coverage, FileKind, ImageTree, Timestamp, TreeNodeId};

use crate::error::PackError;
use crate::hold::{FileToHold, hold_files, part_to_hold};
use crate::options::Hold;
use crate::outcome::{LeftOutPath, PackProgress};
use crate::path_tree::PathTree;
use crate::public::{LIST_AND_SEARCH, READ, all_may, is_public_xattr};
use crate::roots::RootChoice;
use crate::secrets::{HEAD, suspicion};

/// Directories with more entries are packed in part: those that the recording asked for, and those it missed.
/// A listing of this many takes about 2 MB of index and some seconds of a busy metadata server.
pub(crate) const PARTIAL_ABOVE: usize = 20_000;

/// A directory that the recordings only searched is packed in part if it has more than so many entries for each name that they
/// asked for: one look for `~/.condarc` does not make a home directory part of an image.
const ENTRIES_FOR_A_NAME: usize = 8;

/// The content of the roots, as read.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) tree: ImageTree,
    pub(crate) left_out: Vec<LeftOutPath>,
    /// Covered directories.
    pub(crate) directories: u64,
    /// Names known to be absent that the recording asked for.
    pub(crate) absences: u64,
    /// Directories that turned out to hold sockets or pipes: they have to be live.
    pub(crate) disturbed: Vec<(Vec<u8>, String)>,
    /// Targets of the links that the recording asked for.
    pub(crate) link_targets: Vec<Vec<u8>>,
}

/// Reads the requested parts of `choices`.
pub(crate) fn gather(
    recorded: &PathTree,
    choices: &[RootChoice],
    (audience, hold, beyond): (Audience, Hold, Beyond),
    progress: &mut dyn FnMut(PackProgress),
) -> Result<Gathered, PackError> {
    let gathered = Gathered {
        tree: ImageTree::new(way_to(b"/")?)?,
        left_out: Vec::new(),
        directories: 0,
        absences: 0,
        disturbed: Vec::new(),
        link_targets: Vec::new(),
    };
    let mut gatherer = Gatherer {
        gathered,
        audience,
        hold,
        beyond,
        live: &[],
        linked: HashMap::new(),
        held: Vec::new(),
        progress,
    };
    for choice in choices {
        gatherer.live = &choice.live;
        gatherer.root(recorded, choice)?;
    }
    gatherer.finish()
}

struct Gatherer<'a> {
    gathered: Gathered,
    audience: Audience,
    hold: Hold,
    beyond: Beyond,
    /// Live directories of the root that is being read, sorted.
    live: &'a [(Vec<u8>, String)],
    /// Nodes with several names, by device and inode.
    linked: HashMap<(u64, u64), TreeNodeId>,
    held: Vec<FileToHold>,
    progress: &'a mut dyn FnMut(PackProgress),
}

/// A directory of the tree that is being read.
struct OpenedDirectory<'a> {
    node: TreeNodeId,
    path: &'a [u8],
    original: &'a OriginalDirectory,
}

impl Gatherer<'_> {
    fn root(&mut self, recorded: &PathTree, choice: &RootChoice) -> Result<(), PackError> {
        let node = self.reach(&choice.path, &choice.path)?;
        if let Some(seen) = recorded.find(&choice.path) {
            self.gathered.tree.touch(node);
            let original = OriginalDirectory::open(as_path(&choice.path))?;
            self.list(&OpenedDirectory { node, path: &choice.path, original: &original }, seen)?;
        }
        self.gathered.tree.add_root(&choice.path, &choice.reason, &choice.file_system)?;
        for (path, reason) in &choice.live {
            self.reach(path, &choice.path)?;
            self.gathered.tree.add_live(path, reason)?;
        }
        Ok(())
    }

    /// The node of the directory at `path`, in or above `root`, with all that lead to it. A live directory has one
    /// to bind the original to even where nothing else led there.
    fn reach(&mut self, path: &[u8], root: &[u8]) -> Result<TreeNodeId, PackError> {
        let mut node = self.gathered.tree.root();
        let mut at = b"/".to_vec();
        for name in components(path) {
            at = join(&at, name);
            node = match self.gathered.tree.child(node, name) {
                Some(known) => known,
                None if is_within(&at, root) => {
                    self.gathered.tree.add(node, name, attributes_of(as_path(&at))?)?
                }
                None => self.gathered.tree.add(node, name, way_to(&at)?)?,
            };
        }
        Ok(node)
    }

    /// Takes the entries of a directory: all of them, or the requested ones if the recordings only passed through, if it is
    /// too large, or if it may not be listed.
    fn list(&mut self, place: &OpenedDirectory<'_>, seen: &PathTree) -> Result<(), PackError> {
        let most = match seen.seen.entered {
            true => PARTIAL_ABOVE,
            // A run without originals could not be told what else is there.
            false if self.beyond == Beyond::Nothing => PARTIAL_ABOVE,
            false if seen.is_passage() => 0,
            false => PARTIAL_ABOVE.min(ENTRIES_FOR_A_NAME * seen.count_names()),
        };
        match if most == 0 { Ok(None) } else { place.original.names().map(Some) } {
            Ok(Some(names)) if names.len() <= most => self.complete(place, seen, &names)?,
            Ok(_) => self.partial(place, seen)?,
            Err(error) if error.is_forbidden() => self.partial(place, seen)?,
            Err(error) => return Err(error.into()),
        }
        self.gathered.directories += 1;
        let missed = seen.children.iter().filter(|(name, child)| {
            child.seen.missed && self.gathered.tree.child(place.node, name).is_none()
        });
        self.gathered.absences += missed.count() as u64;
        let entries = self.gathered.tree.len() as u64;
        (self.progress)(PackProgress::Listing { directories: self.gathered.directories, entries });
        Ok(())
    }

    fn complete(
        &mut self,
        place: &OpenedDirectory<'_>,
        seen: &PathTree,
        names: &[Vec<u8>],
    ) -> Result<(), PackError> {
        self.gathered.tree.cover(place.node, Coverage::Complete)?;
        for (name, attributes) in names.iter().zip(place.original.all_attributes(names)) {
            match attributes {
                Ok(attributes) => self.entry(place, name, seen.children.get(&name[..]), attributes)?,
                // It went away since the directory was listed: so it is absent, and the directory's time tells.
                Err(error) if error.is_absence() => {}
                Err(error) if error.is_forbidden() => return self.uncover(place),
                Err(error) => return Err(error.into()),
            }
        }
        if !seen.seen.entered {
            self.gathered.tree.only_searched(place.node)?;
        }
        for (name, _) in seen.children.iter().filter(|(_, child)| child.seen.missed) {
            if self.gathered.tree.child(place.node, name).is_none() {
                self.gathered.tree.absent(place.node, name)?;
            }
        }
        Ok(())
    }

    fn partial(&mut self, place: &OpenedDirectory<'_>, seen: &PathTree) -> Result<(), PackError> {
        self.gathered.tree.cover(place.node, Coverage::Partial)?;
        for (name, child) in seen.children.iter().filter(|(_, child)| child.is_used()) {
            match place.original.attributes(name) {
                Ok(attributes) => self.entry(place, name, Some(child), attributes)?,
                Err(error) if error.is_absence() => self.gathered.tree.absent(place.node, name)?,
                Err(error) if error.is_forbidden() => return self.uncover(place),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives up a directory in which names may not be looked up.
    fn uncover(&mut self, place: &OpenedDirectory<'_>) -> Result<(), PackError> {
        self.leave_out(place.path, "names in it may not be looked up");
        Ok(self.gathered.tree.cover(place.node, Coverage::Uncovered)?)
    }

    fn entry(
        &mut self,
        place: &OpenedDirectory<'_>,
        name: &[u8],
        seen: Option<&PathTree>,
        attributes: Attributes,
    ) -> Result<(), PackError> {
        let several = attributes.nlink > 1 && attributes.kind != FileKind::Directory;
        let identity = (attributes.device, attributes.inode);
        let path = join(place.path, name);
        let node = match self.linked.get(&identity).filter(|_| several) {
            Some(&node) => {
                self.gathered.tree.link(place.node, name, node)?;
                node
            }
            None => self.add(place, name, attributes)?,
        };
        if several {
            self.linked.insert(identity, node);
        }
        if matches!(attributes.kind, FileKind::Fifo | FileKind::Socket) {
            let reason = format!("it holds a socket or named pipe, `{}`", name.escape_ascii());
            self.gathered.disturbed.push((place.path.to_vec(), reason));
        }
        let Some(seen) = seen else { return Ok(()) };
        if seen.seen.touched {
            self.gathered.tree.touch(node);
            let mut xattrs = place.original.xattrs(name)?;
            if self.audience == Audience::Everyone {
                let may_read = all_may(READ, &attributes, &xattrs);
                xattrs.retain(|(name, _)| is_public_xattr(name, may_read));
            }
            self.gathered.tree.set_xattrs(node, xattrs)?;
        }
        match attributes.kind {
            FileKind::Directory => self.directory(place, name, (&path, node), seen),
            FileKind::Symlink => self.follow(place, name),
            FileKind::Regular => self.hold(place, name, (path, node), seen),
            _ => Ok(()),
        }
    }

    fn add(
        &mut self,
        place: &OpenedDirectory<'_>,
        name: &[u8],
        attributes: Attributes,
    ) -> Result<TreeNodeId, PackError> {
        if attributes.kind == FileKind::Symlink {
            let target = place.original.link_target(name)?;
            return Ok(self.gathered.tree.add_symlink(place.node, name, attributes, &target)?);
        }
        Ok(self.gathered.tree.add(place.node, name, attributes)?)
    }

    /// Goes into a directory in which a name was asked for, or that was listed itself.
    fn directory(
        &mut self,
        place: &OpenedDirectory<'_>,
        name: &[u8],
        (path, node): (&[u8], TreeNodeId),
        seen: &PathTree,
    ) -> Result<(), PackError> {
        let is_live = self.live.binary_search_by(|(live, _)| live[..].cmp(path)).is_ok();
        let needed = seen.seen.entered || seen.is_used_below();
        if is_live || !needed {
            return Ok(());
        }
        if self.is_withheld(place, name, node, LIST_AND_SEARCH)? {
            self.leave_out(path, "some users may not list it or look names up in it");
            return Ok(());
        }
        match place.original.open_child(name) {
            Ok(original) => self.list(&OpenedDirectory { node, path, original: &original }, seen),
            Err(error) if error.is_forbidden() => {
                self.leave_out(path, "it may not be opened");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells whether a public image must leave a node out, because some user lacks `permission`.
    fn is_withheld(
        &self,
        place: &OpenedDirectory<'_>,
        name: &[u8],
        node: TreeNodeId,
        permission: u16,
    ) -> Result<bool, OriginalError> {
        let attributes = self.gathered.tree.attributes(node);
        let is_for_all = self.audience == Audience::Everyone;
        Ok(is_for_all && !all_may(permission, attributes, &place.original.xattrs(name)?))
    }

    /// Notes the target of a link, which is to be covered too.
    fn follow(&mut self, place: &OpenedDirectory<'_>, name: &[u8]) -> Result<(), PackError> {
        let Ok(target) = place.original.link_target(name) else { return Ok(()) };
        let mut path = if target.starts_with(b"/") { b"/".to_vec() } else { place.path.to_vec() };
        for part in target.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => path = split(&path).0.to_vec(),
                part => path = join(&path, part),
            }
        }
        self.gathered.link_targets.push(path);
        Ok(())
    }

    fn hold(
        &mut self,
        place: &OpenedDirectory<'_>,
        name: &[u8],
        (path, node): (Vec<u8>, TreeNodeId),
        seen: &PathTree,
    ) -> Result<(), PackError> {
        let Some(first_access) = seen.seen.read else { return Ok(()) };
        if let Some(reason) = suspicion(&path, || place.original.head(name, HEAD)) {
            self.leave_out(&path, reason);
        } else if self.is_withheld(place, name, node, READ)? {
            self.leave_out(&path, "some users may not read it");
        } else if !place.original.is_readable(name) {
            self.leave_out(&path, "it may not be read");
        } else {
            let attributes = self.gathered.tree.attributes(node);
            let part = part_to_hold(self.hold, attributes, &seen.seen.extent);
            self.held.push(FileToHold { first_access, node, path, part });
        }
        Ok(())
    }

    fn leave_out(&mut self, path: &[u8], reason: &'static str) {
        self.gathered.left_out.push(LeftOutPath { path: path.to_vec(), reason });
    }

    fn finish(mut self) -> Result<Gathered, PackError> {
        hold_files(&mut self.gathered.tree, self.held)?;
        self.gathered.left_out.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(self.gathered)
    }
}

/// Attributes of a directory that only leads to a root, without size, links and times: an image must not depend on
/// unrelated changes in it.
fn way_to(path: &[u8]) -> Result<Attributes, OriginalError> {
    let still = Timestamp::default();
    Ok(Attributes { size: 0, nlink: 2, mtime: still, ctime: still, ..attributes_of(as_path(path))? })
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// The paths of `led_to` that lie in a root and that no recording asked for.
pub(crate) fn unseen<'a>(
    recorded: &'a PathTree,
    choices: &'a [RootChoice],
    link_targets: &'a [Vec<u8>],
) -> impl Iterator<Item = &'a Vec<u8>> {
    link_targets.iter().filter(|path| {
        let known = recorded.find(path).is_some_and(PathTree::is_used);
        !known && choices.iter().any(|choice| is_within(path, &choice.path))
    })
}

impl From<OriginalError> for PackError {
    fn from(error: OriginalError) -> Self {
        Self::Original(error)
    }
}
