//! What is to be taken out of an image, and what has to be left out of it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::error::{Corrupt, Fault};
use crate::export::walk::{Found, Walk};
use crate::image::{Content, Image};
use crate::model::{Attributes, Coverage, Kind, NamedValues};
use crate::original::attributes_of;
use crate::path::{components, is_name, is_within, join};
use crate::tree::{Held, Source};
use crate::write::WriteError;
use crate::write::source::copy;

/// What to do about content that the image does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Leave the file out.
    Leave,
    /// Read the original, if it is as it was when the image was made.
    Fill,
}

/// Something to be taken out.
#[derive(Debug)]
pub struct Member<'i> {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// What `stat` said of the original.
    pub attributes: Attributes,
    /// Extended attributes, sorted by name.
    pub xattrs: NamedValues,
    /// What it consists of.
    pub body: Body<'i>,
}

/// What a member consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'i> {
    /// A directory.
    Directory,
    /// A file with this content.
    Held(&'i [u8]),
    /// A file whose content is read from this original.
    Original(PathBuf),
    /// A further name of the member at this path.
    Link(Vec<u8>),
    /// A symbolic link to this.
    Symlink(&'i [u8]),
    /// A device or pipe.
    Special,
}

/// Something that is not taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// Why.
    pub reason: Reason,
}

/// Why something is not taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The image does not hold its content.
    NotHeld,
    /// The image holds only a part of its content.
    PartlyHeld,
    /// Nor is there an original.
    Gone,
    /// Nor may the original be read.
    Unreadable,
    /// Nor is the original what it was.
    Changed,
    /// Sockets mean nothing without the process that made them.
    Socket,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotHeld => "the image does not hold its content",
            Self::PartlyHeld => "the image holds only a part of its content",
            Self::Gone => "not held whole, and the original is gone",
            Self::Unreadable => "not held whole, and the original cannot be read",
            Self::Changed => "not held whole, and the original has changed since",
            Self::Socket => "a socket",
        })
    }
}

/// Everything that is to be taken out.
#[derive(Debug)]
pub struct Selection<'i> {
    /// Directories come before what is in them.
    pub members: Vec<Member<'i>>,
    /// Sorted as the members would be.
    pub left_out: Vec<LeftOut>,
    /// Directories from the starts downwards of which the image does not know every name.
    pub partly_known: u64,
}

impl Selection<'_> {
    /// Files with content of their own, and its bytes.
    pub fn files(&self) -> (u64, u64) {
        let files = self.members.iter().filter(|member| member.has_content());
        files.fold((0, 0), |(files, bytes), member| (files + 1, bytes + member.attributes.size))
    }
}

impl Member<'_> {
    /// The path below the directory or archive that everything is put into.
    pub(crate) fn relative_path(&self) -> &[u8] {
        relative(&self.path)
    }

    /// Whether bytes of its own follow.
    pub(crate) fn has_content(&self) -> bool {
        matches!(self.body, Body::Held(_) | Body::Original(_))
    }

    /// Hands the content to `sink`.
    ///
    /// **Errors** [`WriteError::Changed`] if an original changed after it was selected.
    pub(crate) fn copy(&self, buffer: &mut [u8], sink: &mut super::Sink<'_>) -> Result<(), WriteError> {
        match &self.body {
            Body::Held(content) => content.chunks(buffer.len().max(1)).try_for_each(sink),
            Body::Original(path) => {
                let whole = Held { source: Source::File(path.clone()), part: None };
                copy(&whole, &self.attributes, buffer, sink)
            }
            _ => Ok(()),
        }
    }
}

/// A path without its leading slash; `.` for the root.
pub(crate) fn relative(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"/").unwrap_or(path) {
        b"" => b".",
        relative => relative,
    }
}

/// Selects everything from `starts` downwards, and the directories that lead there.
pub fn select<'i, B: AsRef<[u8]>>(
    image: &'i Image<B>,
    mut starts: Vec<Found>,
    missing: Missing,
) -> Result<Selection<'i>, Corrupt> {
    starts.sort_by(|a, b| a.path.cmp(&b.path));
    let mut selector = Selector {
        image,
        missing,
        selection: Selection { members: Vec::new(), left_out: Vec::new(), partly_known: 0 },
        passed: BTreeSet::new(),
        first_names: HashMap::new(),
    };
    let mut last: Option<Found> = None;
    for start in starts {
        if last.as_ref().is_some_and(|last| is_within(&start.path, &last.path)) {
            continue;
        }
        selector.pass(&start)?;
        for found in Walk::new(image, start.clone()) {
            selector.take(found?)?;
        }
        last = Some(start);
    }
    Ok(selector.selection)
}

struct Selector<'i, B> {
    image: &'i Image<B>,
    missing: Missing,
    selection: Selection<'i>,
    /// Directories on the way to a start.
    passed: BTreeSet<Vec<u8>>,
    /// The path under which a node with several names was taken.
    first_names: HashMap<u64, Vec<u8>>,
}

impl<'i, B: AsRef<[u8]>> Selector<'i, B> {
    /// Takes the directories that lead to `start`.
    fn pass(&mut self, start: &Found) -> Result<(), Corrupt> {
        let names: Vec<_> = components(&start.path).collect();
        let mut here = Found { path: b"/".to_vec(), nid: self.image.root() };
        // A forged index may call a directory by a path that leads up, or to something else.
        if !names.iter().all(|name| is_name(name)) {
            return Err(Fault::Parent.at(start.nid));
        }
        for (number, name) in names.iter().enumerate() {
            let crate::image::Lookup::Found(nid) = self.image.lookup(here.nid, name)? else {
                return Err(Fault::Parent.at(here.nid));
            };
            if number + 1 == names.len() {
                return if nid == start.nid { Ok(()) } else { Err(Fault::Parent.at(start.nid)) };
            }
            here = Found { path: join(&here.path, name), nid };
            if self.passed.insert(here.path.clone()) {
                // Its other entries are not meant.
                self.add(here.clone(), Body::Directory)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, found: Found) -> Result<(), Corrupt> {
        if found.nid == self.image.root() {
            return Ok(());
        }
        let attributes = self.image.attributes(found.nid)?;
        let body = match attributes.kind {
            Kind::Directory => {
                let coverage = self.image.coverage(found.nid)?;
                self.selection.partly_known += u64::from(coverage != Coverage::Complete);
                Body::Directory
            }
            kind => match self.first_names.get(&found.nid.value()) {
                Some(first) => Body::Link(first.clone()),
                None => match self.body(&found, kind, &attributes)? {
                    Ok(body) => body,
                    Err(reason) => {
                        self.selection.left_out.push(LeftOut { path: found.path, reason });
                        return Ok(());
                    }
                },
            },
        };
        if attributes.kind != Kind::Directory && !matches!(body, Body::Link(_)) {
            self.first_names.insert(found.nid.value(), found.path.clone());
        }
        self.add(found, body)
    }

    fn body(
        &self,
        found: &Found,
        kind: Kind,
        attributes: &Attributes,
    ) -> Result<Result<Body<'i>, Reason>, Corrupt> {
        Ok(match kind {
            Kind::Symlink => Ok(Body::Symlink(self.image.link_target(found.nid)?)),
            Kind::Socket => Err(Reason::Socket),
            Kind::Regular => match (self.image.content(found.nid)?, self.missing) {
                (Content::Held(content), _) => Ok(Body::Held(content)),
                (Content::Original, Missing::Leave) => Err(Reason::NotHeld),
                (Content::Part(_), Missing::Leave) => Err(Reason::PartlyHeld),
                // Whole from the original: what it is made of then is of one time.
                (Content::Original | Content::Part(_), Missing::Fill) => {
                    original(&found.path, attributes).map(Body::Original)
                }
            },
            _ => Ok(Body::Special),
        })
    }

    fn add(&mut self, found: Found, body: Body<'i>) -> Result<(), Corrupt> {
        let attributes = self.image.attributes(found.nid)?;
        let mut stored = self.image.xattrs(found.nid)?;
        let xattrs = stored.by_ref().map(|xattr| (xattr.name(), xattr.value.to_vec())).collect();
        if stored.is_corrupt() {
            return Err(Fault::Xattrs.at(found.nid));
        }
        self.selection.members.push(Member { path: found.path, attributes, xattrs, body });
        Ok(())
    }
}

/// Where the content of a file can be read that the image does not hold.
pub(crate) fn original(path: &[u8], expected: &Attributes) -> Result<PathBuf, Reason> {
    let path = Path::new(OsStr::from_bytes(path));
    let now = attributes_of(path).map_err(|error| match error.is_forbidden() {
        true => Reason::Unreadable,
        false => Reason::Gone,
    })?;
    let same = |a: &Attributes, b: &Attributes| (a.mode(), a.size, a.mtime) == (b.mode(), b.size, b.mtime);
    if !same(&now, expected) {
        return Err(Reason::Changed);
    }
    let readable = rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS);
    readable.map(|()| path.to_path_buf()).map_err(|_| Reason::Unreadable)
}
