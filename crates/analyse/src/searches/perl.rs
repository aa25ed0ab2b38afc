//! Perl's searches in `@INC`. Source: `perlfunc(1)`, `require`; `perlrun(1)`, PERL5LIB.
//!
//! `@INC` itself is not in a trace. Its directories are those of PERL5LIB, and those in which some perl of the recording
//! looked for a module that every program loads.

use super::images::{Image, Images};
use super::listed::Rule;
use super::model::SearchKind;
use super::tree::{NodeMap, PathNode, PathNodes};
use quell_trace::{Class, Event};
use std::sync::Arc;

/// Modules of one component that nearly every program loads, and that no package has within itself.
const EVERYBODYS: &[&[u8]] = &[b"strict.pm", b"warnings.pm", b"XSLoader.pm"];
/// Endings of module names, longest first; Perl tries `.pmc` before `.pm`.
const ENDINGS: &[&[u8]] = &[b".pmc", b".pm", b".pl", b".ph", b".al", b".ix", b".bs", b".so"];

/// The directories of `@INC` that the recording shows.
pub(super) fn everybodys(tree: &PathNodes<'_>) -> Arc<NodeMap<()>> {
    let modules = tree.nodes().filter(|node| EVERYBODYS.contains(&tree.name(*node)));
    let directories = modules.map(|node| (tree.parent(node), ()));
    Arc::new(directories.filter(|(node, ())| tree.is_absolute(*node)).collect())
}

/// `@INC` of one program.
#[derive(Clone, Debug)]
pub(super) struct Perl {
    variable: Arc<NodeMap<()>>,
    built_in: Arc<NodeMap<()>>,
}

impl Perl {
    pub(super) fn new(
        image: Image,
        images: &Images<'_>,
        tree: &PathNodes<'_>,
        built_in: &Arc<NodeMap<()>>,
    ) -> Self {
        let value = images.variable(image, "PERL5LIB").or_else(|| images.variable(image, "PERLLIB"));
        let elements = value.unwrap_or_default().split(':').filter(|element| !element.is_empty());
        let nodes = elements.filter_map(|element| tree.find(element.as_bytes()));
        Self { variable: Arc::new(nodes.map(|node| (node, ())).collect()), built_in: Arc::clone(built_in) }
    }

    fn is_entry(&self, node: PathNode) -> bool {
        self.variable.contains_key(&node) || self.built_in.contains_key(&node)
    }
}

impl<'a> Rule<'a> for Perl {
    const KIND: SearchKind = SearchKind::Perl;

    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])> {
        let entry = tree.upwards(tree.parent(node)).find(|above| self.is_entry(*above))?;
        let name = tree.below(entry, node);
        if let Some(name) = ENDINGS.iter().find_map(|ending| name.strip_suffix(*ending)) {
            return Some((entry, name));
        }
        is_architecture(name).then_some((entry, &b"(architecture directories)"[..]))
    }

    fn origin(&self, entry: PathNode, tree: &PathNodes<'a>) -> String {
        let of_variable = tree.upwards(entry).any(|above| self.variable.contains_key(&above));
        if of_variable { "PERL5LIB".into() } else { "@INC".into() }
    }

    fn is_hit(&self, event: &Event, _node: PathNode, _tree: &PathNodes<'a>) -> bool {
        matches!(event.call.class(), Class::Stat | Class::Open)
    }
}

/// Directories that perl asks for below each entry when it starts, such as `5.36.0/x86_64-linux-gnu`.
fn is_architecture(name: &[u8]) -> bool {
    let mut parts = name.split(|&byte| byte == b'/');
    let is_version =
        |part: &[u8]| part.starts_with(b"5.") && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.'));
    let is_machine = |part: &[u8]| part.windows(6).any(|word| word == b"-linux");
    parts.all(|part| is_version(part) || is_machine(part))
}
