//! R's searches for packages in its library trees. Source: R, `library` and `find.package`.
//!
//! Library trees are set in files that R reads itself; they show in the paths: a package is looked for by its
//! DESCRIPTION or its `Meta/package.rds`. That R asks for each tree itself at each `library()` is left out: those calls
//! name no package.

use super::images::{Image, Images};
use super::listed::Rule;
use super::model::SearchKind;
use super::tree::{PathNode, PathNodes};
use quell_trace::{Class, Event};

/// Variables that name library trees, and what stands in reports for a tree that none of them names.
const VARIABLES: &[&str] = &["R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"];

/// The library trees of one program.
#[derive(Clone, Debug)]
pub(super) struct R {
    /// Shape: variable and tree.
    named: Vec<(&'static str, PathNode)>,
}

impl R {
    pub(super) fn new(image: Image, images: &Images<'_>, tree: &PathNodes<'_>) -> Self {
        let mut named = Vec::new();
        for name in VARIABLES {
            let elements = images.variable(image, name).unwrap_or_default().split(':');
            named.extend(elements.filter_map(|element| Some((*name, tree.find(element.as_bytes())?))));
        }
        Self { named }
    }
}

impl<'a> Rule<'a> for R {
    const KIND: SearchKind = SearchKind::R;

    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])> {
        let package = match tree.name(node) {
            b"DESCRIPTION" => tree.parent(node),
            b"package.rds" if tree.name(tree.parent(node)) == b"Meta" => tree.parent(tree.parent(node)),
            _ => return None,
        };
        let library = tree.parent(package);
        tree.is_absolute(library).then(|| (library, tree.name(package)))
    }

    fn origin(&self, entry: PathNode, tree: &PathNodes<'a>) -> String {
        let named = self.named.iter().find(|(_, node)| *node == entry);
        match (named, tree.name(entry)) {
            (Some((name, _)), _) => (*name).to_owned(),
            (None, b"site-library") => "site library".into(),
            (None, _) => "library".into(),
        }
    }

    fn is_hit(&self, event: &Event, _node: PathNode, _tree: &PathNodes<'a>) -> bool {
        matches!(event.call.class(), Class::Stat | Class::Open)
    }
}
