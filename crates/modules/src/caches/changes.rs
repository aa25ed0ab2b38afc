//! Differences between a cache of Environment Modules and its tree. Builds, checks and audits use them.
//!
//! A cache that quell made holds the digest of its tree. If the digest still matches, nothing changed; else the commands
//! tell what did. A cache that the tool made alone has only commands.

use super::digest::{DigestTool, NANOSECONDS, digest};
use super::format::{CachedCommand, ItemKind, ParsedCache, as_tcl_reads};
use super::reach::Closed;
use super::{CacheStaleness, StaleEntry};
use crate::cookie::{CACHE, Cookie};
use crate::scan::{EntryKind, FileRole, ModuleTree, TreeEntry, above};
use std::collections::BTreeSet;

/// The differences, and entries that the cache shows although they are closed to some users. `content` is the cache's.
///
/// Shape: sorted by path; empty for a cache that a build would not change.
pub(crate) fn compare(content: &[u8], tree: &ModuleTree) -> Vec<StaleEntry> {
    differences(&ParsedCache::parse(content), tree)
}

/// Like [`compare`], for a parsed cache.
pub(super) fn differences(cache: &ParsedCache, tree: &ModuleTree) -> Vec<StaleEntry> {
    let mut changes = changes(cache, tree);
    let is_of_this_tree = cache.digest.as_ref().map(|known| *known == digest(tree, DigestTool::Modules));
    match is_of_this_tree {
        Some(true) => changes.retain(|change| change.what == CacheStaleness::Closed),
        Some(false) if changes.is_empty() => {
            changes.push(StaleEntry { path: Vec::new(), what: CacheStaleness::Other })
        }
        _ => {}
    }
    changes
}

/// Names at the root below which something differs from the cache or is unknown to it; all names where that cannot be told.
/// The cache's digest does not match the tree.
pub(super) fn stale(cache: &ParsedCache, tree: &ModuleTree) -> BTreeSet<Vec<u8>> {
    let changes = changes(cache, tree);
    // The root's rc file may concern every file. And if no change is found although the digest differs, the change may be
    // anywhere.
    if changes.is_empty() || changes.iter().any(|change| change.path == b".modulerc") {
        return tops(tree);
    }
    let unknown = tree.files().filter(|(entry, _)| !is_known(cache, &entry.path));
    let unknown = unknown.map(|(entry, _)| entry.top().to_vec());
    let mut stale: BTreeSet<Vec<u8>> =
        changes.iter().map(|change| top(&change.path).to_vec()).chain(unknown).collect();
    stale.remove(&b".version"[..]);
    stale
}

/// The names at the root that can be part of a cache.
pub(super) fn tops(tree: &ModuleTree) -> BTreeSet<Vec<u8>> {
    let tops = tree.entries.iter().map(|entry| entry.top().to_vec());
    tops.filter(|name| name != CACHE && name != b".version").collect()
}

/// The first component of a name.
pub(super) fn top(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == b'/').next().unwrap_or_default()
}

fn changes(cache: &ParsedCache, tree: &ModuleTree) -> Vec<StaleEntry> {
    let mut closed = Closed::new(tree);
    let mut changes = Vec::new();
    for (name, item) in &cache.items {
        let what = match item.kind {
            ItemKind::Limited | ItemKind::LimitedDirectory => {
                closed.of(name).is_none().then(|| opened(name, tree)).flatten()
            }
            // The tool follows a loop many times and gives what it finds there a new name each time.
            _ => shown(item, tree.find(&tree.around_loops(name)), &mut closed),
        };
        changes.extend(what.map(|what| StaleEntry { path: name.clone(), what }));
    }
    let is_one = |entry: &TreeEntry, role| match role {
        FileRole::Module | FileRole::HiddenModule => entry.cookie().is_some_and(|cookie| cookie.is_some()),
        FileRole::Rc(_) => entry.content().is_some(),
    };
    let added = tree.files().filter(|(entry, role)| is_one(entry, *role) && !is_known(cache, &entry.path));
    changes
        .extend(added.map(|(entry, _)| StaleEntry { path: entry.path.clone(), what: CacheStaleness::Added }));
    changes.sort();
    changes
}

fn is_known(cache: &ParsedCache, path: &[u8]) -> bool {
    let is_limited =
        |name: &[u8]| cache.items.get(name).is_some_and(|item| item.kind == ItemKind::LimitedDirectory);
    cache.items.contains_key(path) || above(path).any(is_limited)
}

/// The change of a name for which the cache sends users to the tree, and which every user can reach. A dangling link is no
/// change: the tool cannot read it either.
fn opened(name: &[u8], tree: &ModuleTree) -> Option<CacheStaleness> {
    match tree.find(name).map(|entry| &entry.kind) {
        None => Some(CacheStaleness::Removed),
        Some(EntryKind::File(_) | EntryKind::Directory | EntryKind::IgnoredDirectory) => {
            Some(CacheStaleness::Opened)
        }
        Some(_) => None,
    }
}

/// The change of a name whose content the cache holds. `entry` is the name's.
fn shown(item: &CachedCommand, entry: Option<&TreeEntry>, closed: &mut Closed<'_>) -> Option<CacheStaleness> {
    let Some(entry) = entry else { return Some(CacheStaleness::Removed) };
    let (time, content) = match &item.kind {
        ItemKind::Module(time, content) => (*time, content),
        ItemKind::Rc(content) => (None, content),
        ItemKind::Invalid(why) => return (!is_still_invalid(why, entry)).then_some(CacheStaleness::Changed),
        ItemKind::Limited | ItemKind::LimitedDirectory => return None,
    };
    if closed.of(&entry.path).is_some() {
        return Some(CacheStaleness::Closed);
    }
    // The name is now a directory, or a dangling link.
    let Some(now) = entry.content() else { return Some(CacheStaleness::Removed) };
    let differs = is_other(content, entry, now);
    let is_touched = time.is_some_and(|time| i128::from(time) != entry.modified.div_euclid(NANOSECONDS));
    match (differs, is_touched) {
        (true, _) => Some(CacheStaleness::Changed),
        (false, true) => Some(CacheStaleness::Touched),
        (false, false) => None,
    }
}

/// Tells whether the content in a cache differs from the file's.
pub(super) fn is_other(content: &[u8], entry: &TreeEntry, now: &[u8]) -> bool {
    // The tool keeps carriage returns only with its extension library. Of a very long file only a part was read, which may
    // end in the middle of a line ending.
    match entry.is_whole() {
        true => as_tcl_reads(now) != as_tcl_reads(content),
        false => !as_tcl_reads(content).starts_with(&as_tcl_reads(&now[..now.len() / 2])),
    }
}

/// Tells whether the tool would still refuse a file for this reason. Source: `getModuleHeaderValidity` of modulecmd.tcl.
fn is_still_invalid(why: &[u8], entry: &TreeEntry) -> bool {
    let has_no_cookie = why.starts_with(b"Magic cookie ");
    let too_new = why.strip_prefix(b"Modulefile requires at least Modules version ");
    match (&entry.kind, entry.cookie()) {
        (EntryKind::Directory | EntryKind::IgnoredDirectory, _) | (_, Some(Cookie::Any)) => false,
        (_, Some(Cookie::From(version))) => too_new == Some(version.as_slice()),
        (_, Some(Cookie::None(_))) => has_no_cookie,
        (_, None) => !has_no_cookie && too_new.is_none(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::scan::ScanOptions;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn tree(root: &Path, files: &[(&str, &str)]) -> ModuleTree {
        fs::set_permissions(root, PermissionsExt::from_mode(0o755)).unwrap();
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        ModuleTree::scan(root, ScanOptions::default()).unwrap()
    }

    fn found(cache: &str, tree: &ModuleTree) -> Vec<(String, CacheStaleness)> {
        let changes = compare(format!("#%Module5.3\n{cache}\n").as_bytes(), tree);
        changes.into_iter().map(|change| (String::from_utf8(change.path).unwrap(), change.what)).collect()
    }

    #[test]
    fn a_file_that_was_none_and_got_a_cookie_of_any_kind_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("a", "#%Module"),
            ("b", "#%Module1.0"),
            ("c", "text"),
            ("d", "#%Module99"),
            ("e", "#%Module98"),
        ];
        let tree = tree(directory.path(), &files);
        let magic = "invalid {Magic cookie '#%Module' missing}";
        let newer = "invalid {Modulefile requires at least Modules version 99}";
        let cache = format!(
            "modulefile-invalid a {magic}\nmodulefile-invalid b {magic}\nmodulefile-invalid c {magic}\n\
             modulefile-invalid d {newer}\nmodulefile-invalid e {newer}"
        );
        let changed = ["a", "b", "e"].map(|name| (name.to_owned(), CacheStaleness::Changed));
        assert_eq!(found(&cache, &tree), changed);
    }

    #[test]
    fn a_module_whose_link_leads_nowhere_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        symlink("../all/foo", directory.path().join("foo")).unwrap();
        fs::create_dir(directory.path().join("bar")).unwrap();
        symlink("absent", directory.path().join("bar/1.0")).unwrap();
        let tree = tree(directory.path(), &[("baz/1.0", "#%Module")]);
        let cache = "modulefile-content foo/1.0 1 #%Module #%Module\nmodulefile-content bar/1.0 1 #%Module #%Module\n\
            modulefile-content baz 1 #%Module #%Module\nlimited-access-file bar/gone\nlimited-access-directory baz";
        let expected = [
            ("bar/1.0", CacheStaleness::Removed),
            ("bar/gone", CacheStaleness::Removed),
            ("baz", CacheStaleness::Opened),
            ("foo/1.0", CacheStaleness::Removed),
        ];
        assert_eq!(found(cache, &tree), expected.map(|(name, what)| (name.to_owned(), what)));
    }

    #[test]
    fn what_a_cache_has_through_a_loop_is_compared_with_the_file_itself() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (at, to) in [("foo/self", "."), ("foo/up", "..")] {
            fs::create_dir_all(root.join("foo")).unwrap();
            symlink(to, root.join(at)).unwrap();
        }
        let tree = tree(root, &[("foo/1.0", "#%Module"), ("foo/2.0", "#%Module")]);
        assert_eq!(tree.around_loops(b"foo/self/self/up/foo/up/foo/1.0"), b"foo/1.0");
        fs::set_permissions(root.join("foo/2.0"), PermissionsExt::from_mode(0o640)).unwrap();
        let tree = ModuleTree::scan(root, ScanOptions::default()).unwrap();
        let cache = "modulefile-content foo/1.0 {} #%Module #%Module\nmodulefile-content foo/self/1.0 {} #%Module changed\n\
            modulefile-content foo/up/foo/1.0 {} #%Module #%Module\nmodulefile-content foo/up/foo/2.0 {} #%Module #%Module\n\
            modulefile-content foo/self/3.0 {} #%Module #%Module\nlimited-access-file foo/2.0\nlimited-access-file foo/self/self";
        let expected = [
            ("foo/self/1.0", CacheStaleness::Changed),
            ("foo/self/3.0", CacheStaleness::Removed),
            ("foo/up/foo/2.0", CacheStaleness::Closed),
        ];
        assert_eq!(found(cache, &tree), expected.map(|(name, what)| (name.to_owned(), what)));
    }

    #[test]
    fn what_nothing_in_a_cache_tells_makes_all_of_it_stale() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(directory.path(), &[("foo/1.0", "#%Module"), ("bar/1.0", "#%Module")]);
        let text = "#%Module5.3\nmodulefile-content foo/1.0 {} #%Module #%Module\nmodulefile-content bar/1.0 {} #%Module \
            #%Module\n# quell 2 0123";
        assert_eq!(
            compare(text.as_bytes(), &tree),
            [StaleEntry { path: Vec::new(), what: CacheStaleness::Other }]
        );
        assert_eq!(
            stale(&ParsedCache::parse(text.as_bytes()), &tree),
            [b"bar".to_vec(), b"foo".to_vec()].into()
        );
    }
}
