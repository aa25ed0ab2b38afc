//! Module trees of Environment Modules and Lmod: what is asked in each entry of MODULEPATH. Source: `module(1)`,
//! `modulefile(4)`.
//!
//! `module avail` asks for everything, so a name here is the first component below the entry, whatever is asked of it:
//! listings, `.modulerc`, `.version`, modulefiles. It is found when one of its modulefiles was opened.

use super::images::{Image, Images};
use super::listed::Rule;
use super::model::SearchKind;
use super::tree::{PathNode, PathNodes};
use quell_trace::flags::O_DIRECTORY;
use quell_trace::{Class, Event};

/// Programs that evaluate modulefiles begin with one of these.
pub(super) const PROGRAMS: &[&[u8]] = &[b"tclsh", b"lua", b"modulecmd"];

/// MODULEPATH of one program.
#[derive(Clone, Debug)]
pub(super) struct Modules {
    entries: Vec<PathNode>,
}

impl Modules {
    /// `None` when the program was started without MODULEPATH.
    pub(super) fn new(image: Image, images: &Images<'_>, tree: &PathNodes<'_>) -> Option<Self> {
        let value = images.variable(image, "MODULEPATH")?;
        let elements = value.split(':').filter(|element| !element.is_empty());
        Some(Self { entries: elements.filter_map(|element| tree.find(element.as_bytes())).collect() })
    }
}

impl<'a> Rule<'a> for Modules {
    const KIND: SearchKind = SearchKind::Modules;
    const BY_DESCRIPTOR: bool = true;

    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])> {
        let entry = tree.upwards(node).find(|above| self.entries.contains(above))?;
        let name = tree.below(entry, node).split(|&byte| byte == b'/').next();
        Some((entry, name.filter(|name| !name.is_empty()).unwrap_or(b"(tree)")))
    }

    fn origin(&self, _entry: PathNode, _tree: &PathNodes<'a>) -> String {
        "MODULEPATH".into()
    }

    fn is_hit(&self, event: &Event, node: PathNode, tree: &PathNodes<'a>) -> bool {
        let is_file = event.call.class() == Class::Open && event.flags & O_DIRECTORY == 0;
        is_file && !tree.name(node).starts_with(b".")
    }
}
