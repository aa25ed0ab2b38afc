//! Julia's searches in DEPOT_PATH and LOAD_PATH. Source: Julia manual, "Code Loading" and "Environment Variables".
//!
//! ```text
//! DEPOT/compiled/v1.9/NAME/SLUG.ji   DEPOT/packages/NAME/SLUG/src/NAME.jl   DEPOT/environments/v1.9/Project.toml
//! ENTRY/NAME/src/NAME.jl             ENTRY/NAME.jl                          ENTRY/Project.toml
//! ```

use super::images::{Image, Images};
use super::listed::Rule;
use super::model::SearchKind;
use super::tree::{PathNode, PathNodes};
use quell_trace::{Class, Event};

/// Directories of a depot in which packages are by name, and how many components come before the name.
const BY_NAME: &[(&[u8], usize)] = &[(b"compiled", 2), (b"packages", 1), (b"dev", 1)];
/// Directories of a depot that hold something else that is searched for by a file's name.
const OTHERS: &[&[u8]] =
    &[b"environments", b"registries", b"artifacts", b"scratchspaces", b"prefs", b"config"];

/// The lists of one program.
#[derive(Clone, Debug)]
pub(super) struct Julia {
    /// Shape: origin and depot.
    depots: Vec<(&'static str, PathNode)>,
    /// Shape: origin and entry of LOAD_PATH.
    entries: Vec<(&'static str, PathNode)>,
}

impl Julia {
    pub(super) fn new(image: Image, images: &Images<'_>, tree: &PathNodes<'_>) -> Self {
        let nodes = |name: &'static str| {
            let elements = images.variable(image, name).unwrap_or_default().split(':');
            let found =
                elements.filter_map(|element| tree.find(element.as_bytes()).filter(|_| !element.is_empty()));
            found.map(|node| (name, node)).collect::<Vec<_>>()
        };
        let mut depots = nodes("JULIA_DEPOT_PATH");
        let home = images.variable(image, "HOME").map(|home| format!("{home}/.julia"));
        depots.extend(home.and_then(|home| tree.find(home.as_bytes())).map(|node| ("user depot", node)));
        // <bindir>/../local/share/julia and <bindir>/../share/julia.
        let program = tree.of_path(images.program(image));
        let prefix = tree.text(tree.parent(tree.parent(program)));
        for below in [&b"/local/share/julia"[..], b"/share/julia"] {
            let depot = tree.find(&[prefix, below].concat());
            depots.extend(depot.map(|node| ("depot of the installation", node)));
        }
        let mut entries = nodes("JULIA_LOAD_PATH");
        entries.extend(nodes("JULIA_PROJECT"));
        Self { depots, entries }
    }
}

impl<'a> Rule<'a> for Julia {
    const KIND: SearchKind = SearchKind::Julia;

    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])> {
        for above in tree.upwards(tree.parent(node)) {
            if let Some(entry) = standard(above, tree) {
                return Some((entry, first(tree.below(entry, node))?));
            }
            if self.depots.iter().any(|(_, depot)| *depot == above) {
                return Some((above, in_depot(tree.below(above, node))?));
            }
            if self.entries.iter().any(|(_, entry)| *entry == above) {
                return Some((above, first(tree.below(above, node))?));
            }
        }
        None
    }

    fn origin(&self, entry: PathNode, tree: &PathNodes<'a>) -> String {
        let mut named = self.depots.iter().chain(&self.entries);
        match named.find(|(_, node)| *node == entry) {
            Some((origin, _)) => (*origin).into(),
            None if standard(entry, tree).is_some() => "@stdlib".into(),
            None => "LOAD_PATH".into(),
        }
    }

    fn is_hit(&self, event: &Event, node: PathNode, tree: &PathNodes<'a>) -> bool {
        let file = [&b".jl"[..], b".ji", b".toml"].iter().any(|ending| tree.name(node).ends_with(ending));
        file && matches!(event.call.class(), Class::Open | Class::Stat)
    }
}

/// The standard library: `share/julia/stdlib/v1.9`.
fn standard(node: PathNode, tree: &PathNodes<'_>) -> Option<PathNode> {
    let above = tree.parent(node);
    let is_one = tree.name(above) == b"stdlib" && tree.name(tree.parent(above)) == b"julia";
    is_one.then_some(node)
}

/// The parts of a depot that a search looks for.
fn in_depot(rest: &[u8]) -> Option<&[u8]> {
    let mut parts = rest.split(|&byte| byte == b'/');
    let kind = parts.next()?;
    if let Some((_, before)) = BY_NAME.iter().find(|(name, _)| *name == kind) {
        let name = parts.nth(before - 1)?;
        // Before packages had directories of their own: compiled/v1.9/NAME.ji.
        return Some(name.strip_suffix(b".ji").unwrap_or(name));
    }
    OTHERS.contains(&kind).then(|| parts.next_back().unwrap_or(kind))
}

/// The first component, which names the package or the project file.
fn first(rest: &[u8]) -> Option<&[u8]> {
    let name = rest.split(|&byte| byte == b'/').next()?;
    Some(name.strip_suffix(b".jl").unwrap_or(name)).filter(|name| !name.is_empty())
}
