//! Selects the members of an export, and names what is left out.

use std::collections::{BTreeSet, HashMap};

use crate::error::{Corrupt, Fault};
use crate::export::member::{ExportMember, IsSecret, LeftOutNode, LeftOutReason, MemberBody, original};
use crate::export::walk::{FoundNode, ImageWalk};
use crate::image::{FileContent, Image, Lookup};
use crate::model::{Attributes, Coverage, FileKind};
use crate::path::{components, is_name, is_within, join};

/// Treatment of content that the image does not hold.
#[derive(Debug, Clone, Copy)]
pub enum MissingContent {
    /// Leave the file out.
    Leave,
    /// Read the original, if it is as it was when the image was made and not a secret.
    Fill(IsSecret),
}

/// Everything that is to be taken out.
#[derive(Debug)]
pub struct ExportSelection<'i> {
    /// Directories come before what is in them.
    pub members: Vec<ExportMember<'i>>,
    /// Sorted as the members would be.
    pub left_out: Vec<LeftOutNode>,
    /// Directories from the starts downwards of which the image does not know every name.
    pub partly_known: u64,
}

impl ExportSelection<'_> {
    /// Files with content of their own, and its bytes.
    pub fn files(&self) -> (u64, u64) {
        let files = self.members.iter().filter(|member| member.has_content());
        files.fold((0, 0), |(files, bytes), member| (files + 1, bytes + member.attributes.size))
    }
}

/// Selects everything from `starts` downwards, and the directories that lead there.
pub fn select<'i, B: AsRef<[u8]>>(
    image: &'i Image<B>,
    mut starts: Vec<FoundNode>,
    missing: MissingContent,
) -> Result<ExportSelection<'i>, Corrupt> {
    starts.sort_by(|a, b| a.path.cmp(&b.path));
    let mut selector = Selector {
        image,
        missing,
        selection: ExportSelection { members: Vec::new(), left_out: Vec::new(), partly_known: 0 },
        passed: BTreeSet::new(),
        first_names: HashMap::new(),
    };
    let mut last: Option<FoundNode> = None;
    for start in starts {
        if last.as_ref().is_some_and(|last| is_within(&start.path, &last.path)) {
            continue;
        }
        selector.pass(&start)?;
        for found in ImageWalk::new(image, start.clone()) {
            selector.take(found?)?;
        }
        last = Some(start);
    }
    Ok(selector.selection)
}

struct Selector<'i, B> {
    image: &'i Image<B>,
    missing: MissingContent,
    selection: ExportSelection<'i>,
    /// Directories on the way to a start.
    passed: BTreeSet<Vec<u8>>,
    /// The path under which a node with several names was taken.
    first_names: HashMap<u64, Vec<u8>>,
}

impl<'i, B: AsRef<[u8]>> Selector<'i, B> {
    /// Takes the directories that lead to `start`.
    fn pass(&mut self, start: &FoundNode) -> Result<(), Corrupt> {
        let names: Vec<_> = components(&start.path).collect();
        let mut here = FoundNode { path: b"/".to_vec(), nid: self.image.root() };
        // A forged index may call a directory by a path that leads up, or to something else.
        if !names.iter().all(|name| is_name(name)) {
            return Err(Fault::Parent.at(start.nid));
        }
        for (number, name) in names.iter().enumerate() {
            let Lookup::Found(nid) = self.image.lookup(here.nid, name)? else {
                return Err(Fault::Parent.at(here.nid));
            };
            if number + 1 == names.len() {
                return if nid == start.nid { Ok(()) } else { Err(Fault::Parent.at(start.nid)) };
            }
            here = FoundNode { path: join(&here.path, name), nid };
            if self.passed.insert(here.path.clone()) {
                // Its other entries are not meant.
                self.add(here.clone(), MemberBody::Directory)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, found: FoundNode) -> Result<(), Corrupt> {
        if found.nid == self.image.root() {
            return Ok(());
        }
        let attributes = self.image.attributes(found.nid)?;
        let body = match attributes.kind {
            FileKind::Directory => {
                let coverage = self.image.coverage(found.nid)?;
                self.selection.partly_known += u64::from(coverage != Coverage::Complete);
                MemberBody::Directory
            }
            kind => match self.first_names.get(&found.nid.value()) {
                Some(first) => MemberBody::Link(first.clone()),
                None => match self.body(&found, kind, &attributes)? {
                    Ok(body) => body,
                    Err(reason) => {
                        self.selection.left_out.push(LeftOutNode { path: found.path, reason });
                        return Ok(());
                    }
                },
            },
        };
        if attributes.kind != FileKind::Directory && !matches!(body, MemberBody::Link(_)) {
            self.first_names.insert(found.nid.value(), found.path.clone());
        }
        self.add(found, body)
    }

    fn body(
        &self,
        found: &FoundNode,
        kind: FileKind,
        attributes: &Attributes,
    ) -> Result<Result<MemberBody<'i>, LeftOutReason>, Corrupt> {
        Ok(match kind {
            FileKind::Symlink => Ok(MemberBody::Symlink(self.image.link_target(found.nid)?)),
            FileKind::Socket => Err(LeftOutReason::Socket),
            FileKind::Regular => match (self.image.content(found.nid)?, self.missing) {
                (FileContent::Held(content), _) => Ok(MemberBody::Held(content)),
                (FileContent::Original, MissingContent::Leave) => Err(LeftOutReason::NotHeld),
                (FileContent::Part(_), MissingContent::Leave) => Err(LeftOutReason::PartlyHeld),
                // Whole from the original: what it is made of then is of one time.
                (FileContent::Original | FileContent::Part(_), MissingContent::Fill(is_secret)) => {
                    original(&found.path, attributes, is_secret).map(MemberBody::Original)
                }
            },
            _ => Ok(MemberBody::Special),
        })
    }

    fn add(&mut self, found: FoundNode, body: MemberBody<'i>) -> Result<(), Corrupt> {
        let attributes = self.image.attributes(found.nid)?;
        let mut stored = self.image.xattrs(found.nid)?;
        let xattrs = stored.by_ref().map(|xattr| (xattr.name(), xattr.value.to_vec())).collect();
        if stored.is_corrupt() {
            return Err(Fault::Xattrs.at(found.nid));
        }
        self.selection.members.push(ExportMember { path: found.path, attributes, xattrs, body });
        Ok(())
    }
}
