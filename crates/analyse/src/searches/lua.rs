//! Lua's searches by `package.path` and `package.cpath`. Source: Lua 5.4 Reference Manual, 6.3 `package.searchpath`.

use super::images::{Image, Images};
use super::listed::Rule;
use super::model::SearchKind;
use super::tree::{PathNode, PathNodes};
use quell_trace::{Class, Event};

/// Variables that hold templates; those with a version go before.
const VARIABLES: &[&str] =
    &["LUA_PATH_5_4", "LUA_PATH_5_3", "LUA_PATH", "LUA_CPATH_5_4", "LUA_CPATH_5_3", "LUA_CPATH"];
/// Endings of templates, longest first.
const ENDINGS: &[&[u8]] = &[b"/init.lua", b".lua", b".so"];

/// The templates of one program.
#[derive(Clone, Debug)]
pub(super) struct Lua {
    /// Shape: variable and directory before the `?`.
    named: Vec<(&'static str, PathNode)>,
    working_directory: PathNode,
}

impl Lua {
    pub(super) fn new(image: Image, images: &Images<'_>, tree: &PathNodes<'_>) -> Self {
        let mut named = Vec::new();
        for name in VARIABLES {
            for template in images.variable(image, name).unwrap_or_default().split(';') {
                let directory = template.split('?').next().unwrap_or_default();
                if let Some(node) = tree.find(directory.as_bytes()).filter(|_| !directory.is_empty()) {
                    named.push((*name, node));
                }
            }
        }
        Self { named, working_directory: images.working_directory(tree) }
    }

    /// The directories of templates that are built in: `/usr/share/lua/5.4`, `/usr/lib/lua/5.4`, the working directory.
    fn is_entry(&self, node: PathNode, tree: &PathNodes<'_>) -> bool {
        let version = tree.name(node);
        let is_version = version.starts_with(b"5.") && version.len() == 3;
        self.named.iter().any(|(_, named)| *named == node)
            || (is_version && tree.name(tree.parent(node)) == b"lua")
            || node == self.working_directory
    }
}

impl<'a> Rule<'a> for Lua {
    const KIND: SearchKind = SearchKind::Lua;

    fn split(&self, node: PathNode, tree: &PathNodes<'a>) -> Option<(PathNode, &'a [u8])> {
        let entry = tree.upwards(tree.parent(node)).find(|above| self.is_entry(*above, tree))?;
        let rest = tree.below(entry, node);
        // The one for all is asked for between the probes of another name.
        let name = ENDINGS
            .iter()
            .find_map(|ending| rest.strip_suffix(*ending))
            .filter(|name| *name != b"loadall")?;
        Some((entry, name))
    }

    /// The working directory is asked by relative names: templates below it that a program sets are a list of their own.
    fn makes(&self, event: &Event, node: PathNode, tree: &PathNodes<'a>) -> bool {
        let entry = || tree.upwards(tree.parent(node)).find(|above| self.is_entry(*above, tree));
        !tree.is_absolute(tree.of_path(event.path)) || entry() != Some(self.working_directory)
    }

    fn origin(&self, entry: PathNode, _tree: &PathNodes<'a>) -> String {
        let named = self.named.iter().find(|(_, node)| *node == entry);
        named.map_or("package.path", |(name, _)| *name).into()
    }

    fn is_hit(&self, event: &Event, _node: PathNode, _tree: &PathNodes<'a>) -> bool {
        event.call.class() == Class::Open
    }
}
