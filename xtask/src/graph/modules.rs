//! The modules of a crate and which of them use each other.
//!
//! A file is a module; inline modules belong to their file and tests do not count. A module uses another if its code names
//! something that is defined there. Names that a module only passes on (`pub use`) belong to the module that defines them, so
//! `mod.rs` may publish its children and the children may use each other.
//!
//! Methods and implementations are not followed: they come with a type whose name is seen.

use super::cycle::{Graph, cycles};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree, Visibility};

/// Modules of a crate by their path from its root; the root is empty.
type Modules = BTreeMap<Vec<String>, Module>;

/// The names of a path.
type Names = Vec<String>;

#[derive(Default)]
struct Module {
    /// Names that are defined here.
    defined: BTreeSet<String>,
    /// Names that `use` brings in, with the path that each stands for and whether other modules see it too.
    imported: BTreeMap<String, (Names, bool)>,
    /// Modules whose names are all brought in.
    globs: Vec<Names>,
    /// Paths in the code, and single names.
    named: BTreeSet<Names>,
}

/// One line for each cycle between modules of a crate.
pub(super) fn cycles_of(directory: &Path) -> Vec<String> {
    let graph = graph(&parse(directory));
    cycles(&graph).iter().map(|cycle| format!("import cycle {}", cycle.join(" -> "))).collect()
}

fn parse(directory: &Path) -> Modules {
    let source = directory.join("src");
    let root = ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().find(|file| file.exists());
    let mut modules = Modules::new();
    read(&root.expect("a crate has a root"), &source, Vec::new(), &mut modules);
    let known: BTreeSet<Names> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        module
            .imported
            .values_mut()
            .for_each(|(names, _)| from_root(names, path, |child| known.contains(child)));
        module.globs.iter_mut().for_each(|names| from_root(names, path, |child| known.contains(child)));
    }
    modules
}

/// Makes a path that begins with a child of `module` one from the crate's root.
fn from_root(names: &mut Names, module: &Names, is_module: impl Fn(&Names) -> bool) {
    let child: Names = module.iter().chain(names.first()).cloned().collect();
    if names.len() > 1 && names[0] != "crate" && is_module(&child) {
        names.splice(0..0, std::iter::once("crate".to_owned()).chain(module.iter().cloned()));
    }
}

/// Reads a module's file and those of its children, which lie in `directory`.
fn read(file: &Path, directory: &Path, path: Names, modules: &mut Modules) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut module = Module::default();
    let mut children = Vec::new();
    module.read(parsed.items, &path, &mut children);
    modules.insert(path.clone(), module);
    for name in children {
        let below = directory.join(&name);
        let files: [PathBuf; 2] = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
        let file = files.iter().find(|file| file.exists()).unwrap_or_else(|| panic!("no file of `{name}`"));
        read(file, &below, path.iter().cloned().chain([name]).collect(), modules);
    }
}

impl Module {
    fn read(&mut self, items: Vec<Item>, path: &Names, children: &mut Vec<String>) {
        for item in items {
            match item {
                Item::Mod(item) if is_test(&item.attrs) => {}
                Item::Mod(item) => match item.content {
                    Some((_, items)) => {
                        self.defined.insert(item.ident.to_string());
                        self.read(items, path, children);
                    }
                    None => children.push(item.ident.to_string()),
                },
                Item::Use(item) if !is_test(&item.attrs) => {
                    let is_shared = !matches!(item.vis, Visibility::Inherited);
                    self.import(&item.tree, Vec::new(), path, is_shared);
                }
                Item::Use(_) => {}
                item if is_test(attributes(&item)) => {}
                item => {
                    self.defined.extend(name(&item));
                    paths(item.to_token_stream(), &mut self.named);
                }
            }
        }
    }

    fn import(&mut self, tree: &UseTree, mut before: Names, path: &Names, is_shared: bool) {
        match tree {
            UseTree::Path(tree) => {
                before.push(tree.ident.to_string());
                self.import(&tree.tree, before, path, is_shared);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before.clone(), path, is_shared));
            }
            UseTree::Name(name) if name.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                self.imported.insert(name, (absolute(before, path), is_shared));
            }
            UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.imported.insert(name.ident.to_string(), (absolute(before, path), is_shared));
            }
            UseTree::Rename(rename) => {
                before.push(rename.ident.to_string());
                self.imported.insert(rename.rename.to_string(), (absolute(before, path), is_shared));
            }
            UseTree::Glob(_) => self.globs.push(absolute(before, path)),
        }
    }
}

/// A path from the crate's root, where it begins with `crate`, `self` or `super`; else as it is.
fn absolute(names: Names, module: &Names) -> Names {
    let mut here = module.clone();
    let mut rest = names.as_slice();
    loop {
        match rest.first().map(String::as_str) {
            Some("crate") => here.clear(),
            Some("self") => {}
            Some("super") => _ = here.pop(),
            _ if rest.len() == names.len() => return names,
            _ => break,
        }
        rest = &rest[1..];
    }
    std::iter::once("crate".to_owned()).chain(here).chain(rest.iter().cloned()).collect()
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Collects `a::b::c` and single names, in macros too; the names of methods and fields are none.
fn paths(tokens: TokenStream, into: &mut BTreeSet<Names>) {
    let mut path: Names = Vec::new();
    let (mut colons, mut dots) = (0, 0);
    for token in tokens {
        let is_member = dots == 1;
        dots = if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.') { dots + 1 } else { 0 };
        match token {
            TokenTree::Ident(_) if is_member => {}
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    into.insert(std::mem::take(&mut path));
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                into.insert(std::mem::take(&mut path));
                paths(group.stream(), into);
            }
            _ => _ = into.insert(std::mem::take(&mut path)),
        }
    }
    into.insert(path);
}

fn graph(modules: &Modules) -> Graph {
    let shown = |path: &Names| if path.is_empty() { "lib".to_owned() } else { path.join("::") };
    let mut graph = Graph::new();
    for (path, module) in modules {
        let mut uses = BTreeSet::new();
        for names in &module.named {
            uses.extend(used(modules, path, module, names));
        }
        // A trait whose methods alone are used is named nowhere else.
        let silent = module.imported.values().filter(|(_, is_shared)| !is_shared).map(|(names, _)| names);
        uses.extend(silent.filter_map(|names| home(modules, names, 0)).filter(|(_, is_item)| *is_item));
        uses.extend(module.globs.iter().filter_map(|names| home(modules, names, 0)));
        let uses = uses.into_iter().map(|(path, _)| path).filter(|used| used != path);
        graph.insert(shown(path), uses.map(|path| shown(&path)).collect());
    }
    graph
}

/// The module that defines what a path in the code of `module` means, if it is one of this crate.
fn used(modules: &Modules, path: &Names, module: &Module, names: &Names) -> Option<(Names, bool)> {
    let first = names.first()?;
    let names = match module.imported.get(first) {
        Some((imported, _)) => imported.iter().chain(&names[1..]).cloned().collect(),
        None => {
            let mut names = absolute(names.clone(), path);
            from_root(&mut names, path, |child| modules.contains_key(child));
            names
        }
    };
    home(modules, &names, 0).filter(|(_, is_item)| *is_item)
}

/// The module that defines the item at a path from the crate's root, and whether the path names an item, not the module.
fn home(modules: &Modules, names: &Names, depth: usize) -> Option<(Names, bool)> {
    let mut rest = names.strip_prefix(["crate".to_owned()].as_slice())?;
    let mut path = Names::new();
    loop {
        let module = modules.get(&path)?;
        let Some(name) = rest.first() else { return Some((path, false)) };
        let child: Names = path.iter().chain([name]).cloned().collect();
        if modules.contains_key(&child) && !module.defined.contains(name) {
            (path, rest) = (child, &rest[1..]);
            continue;
        }
        let passed_on = module.imported.get(name).map(|(names, _)| names.clone());
        let by_glob = || {
            let all = module.globs.iter().map(|glob| glob.iter().chain([name]).cloned().collect::<Names>());
            all.into_iter().find(|names| defines(modules, names))
        };
        return match passed_on.or_else(by_glob) {
            Some(names) if depth < 8 && !module.defined.contains(name) => {
                let names: Names = names.iter().chain(&rest[1..]).cloned().collect();
                home(modules, &names, depth + 1)
            }
            _ => Some((path, true)),
        };
    }
}

fn defines(modules: &Modules, names: &Names) -> bool {
    let Some((name, path)) = names.strip_prefix(["crate".to_owned()].as_slice()).and_then(<[_]>::split_last)
    else {
        return false;
    };
    modules
        .get(path)
        .is_some_and(|module| module.defined.contains(name) || module.imported.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a crate of these files.
    fn cycles_in(files: &[(&str, &str)]) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join("src").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        cycles_of(place.path())
    }

    #[test]
    fn a_name_that_is_passed_on_is_its_definers() {
        let lib = ("lib.rs", "mod low; mod high; pub use high::High; pub use low::Low;");
        let high = ("high.rs", "use crate::Low; pub struct High(Low);");
        assert_eq!(cycles_in(&[lib, high, ("low.rs", "pub struct Low;")]), [""; 0]);
        let low = "pub struct Low; #[cfg(test)] mod tests { use crate::High; fn t(_: High) {} }";
        assert_eq!(cycles_in(&[lib, high, ("low.rs", low)]), [""; 0]);
        let low = "pub struct Low; fn f() { println!(\"{}\", crate::High::name()); }";
        assert_eq!(cycles_in(&[lib, high, ("low.rs", low)]), ["import cycle high -> low -> high"]);
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_cycle() {
        let parent = "pub struct Fact; mod child; fn f() { child::work(); }";
        let child = ("parent/child.rs", "use super::Fact; pub fn work() -> Fact { Fact }");
        let files = [("lib.rs", "mod parent;"), ("parent/mod.rs", parent), child];
        assert_eq!(cycles_in(&files), ["import cycle parent -> parent::child -> parent"]);
        let files = [("lib.rs", "mod parent;"), ("parent/mod.rs", "pub struct Fact; mod child;"), child];
        assert_eq!(cycles_in(&files), [""; 0]);
    }
}
