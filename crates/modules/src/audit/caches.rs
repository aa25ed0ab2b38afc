//! Findings about `.modulecache`, the cache of Environment Modules: whether it is what the tree is, and whom it shows what.
//!
//! Layout of a cache, from Modules 5.3: a cookie, then a Tcl command for each name: `modulefile-content NAME MTIME HEADER
//! CONTENT`, `modulerc-content NAME HEADER CONTENT`, `modulefile-invalid NAME KIND MESSAGE`, `limited-access-file NAME`,
//! `limited-access-directory NAME`. Source: `formatModuleCacheContent` of modulecmd.tcl.

use super::{Findings, Options, is_for_everybody, who};
use crate::access::Permission;
use crate::cookie::{Cookie, RcKind};
use crate::scan::{Entry, Role, Tree};
use quell_trace::path::escape;
use std::collections::BTreeMap;

const CACHE: &[u8] = b".modulecache";

pub(super) fn look(findings: &mut Findings<'_>, options: &Options) {
    let tree = findings.tree;
    let Some(entry) = tree.find(CACHE) else { return };
    readers(findings, entry);
    let Some(content) = entry.content() else { return };
    if let Cookie::From(version) = Cookie::of(content)
        && !Cookie::From(version.clone()).accepted_by(&options.version)
    {
        let (needed, version) = (escape(&version), escape(&options.version));
        findings.add(
            CACHE,
            "cache-unreadable",
            22,
            format!("was made by Modules {needed}; {version} ignores it without a word"),
            "build it with the oldest version that users have",
        );
    }
    let cached = cached(content);
    leaks(findings, &cached);
    stale(findings, &cached);
}

fn readers(findings: &mut Findings<'_>, entry: &Entry) {
    let Some(access) = &entry.access else { return };
    let allowed = access.who(Permission::Read);
    if !access.everybody(Permission::Read) {
        findings.add(
            CACHE,
            "cache-unreadable",
            21,
            format!("may be read by {}; other users walk the tree", who(&allowed)),
            "chmod a+r, and build caches with umask 022",
        );
    }
}

/// What a cache says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cached {
    /// A modulefile, of this time in seconds since 1970; `None` if it has none.
    Module(Option<i64>),
    /// An rc file; its content, if that could be told.
    Rc(Option<Vec<u8>>),
    /// No modulefile.
    Invalid,
    /// To be looked at in the tree.
    Limited,
}

fn cached(content: &[u8]) -> BTreeMap<Vec<u8>, Cached> {
    let mut names = BTreeMap::new();
    let mut rest = content;
    while let Some((words, after)) = command(rest) {
        rest = after;
        let [kind, name, arguments @ ..] = words.as_slice() else { continue };
        let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse().ok();
        let what = match kind.as_slice() {
            b"modulefile-content" => Cached::Module(arguments.first().and_then(number)),
            b"modulerc-content" => Cached::Rc(arguments.get(1).cloned()),
            b"modulefile-invalid" => Cached::Invalid,
            b"limited-access-file" | b"limited-access-directory" => Cached::Limited,
            _ => continue,
        };
        names.insert(name.clone(), what);
    }
    names
}

/// The words of the next command, and what follows it. A backslash in a bare word keeps the next character.
pub(crate) fn command(text: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let mut rest = text.trim_ascii_start();
    if rest.is_empty() {
        return None;
    }
    if rest.starts_with(b"#") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return Some((Vec::new(), &rest[end..]));
    }
    let mut words = Vec::new();
    loop {
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        rest = &rest[blanks..];
        match rest {
            [] => return Some((words, rest)),
            [b'\n', after @ ..] => return Some((words, after)),
            [b'{', ..] => {
                let end = closing(rest)?;
                words.push(rest[1..end].to_vec());
                rest = &rest[end + 1..];
            }
            _ => {
                let (word, after) = bare(rest);
                words.push(word);
                rest = after;
            }
        }
    }
}

/// The place of the brace that closes the first.
fn closing(text: &[u8]) -> Option<usize> {
    let (mut depth, mut place) = (0_usize, 0);
    loop {
        match text.get(place)? {
            b'\\' => place += 1,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
        place += 1;
    }
}

fn bare(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut word, mut rest) = (Vec::new(), text);
    loop {
        match rest {
            [] | [b' ' | b'\t' | b'\n', ..] => return (word, rest),
            [b'\\', b'n', after @ ..] => {
                word.push(b'\n');
                rest = after;
            }
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// Files whose content the cache shows to everybody.
fn leaks(findings: &mut Findings<'_>, cached: &BTreeMap<Vec<u8>, Cached>) {
    let tree = findings.tree;
    let shown = cached.iter().filter(|(_, what)| matches!(what, Cached::Module(_) | Cached::Rc(_)));
    let denied = shown.filter_map(|(name, _)| tree.find(name)).filter(|entry| !is_for_everybody(tree, entry));
    for entry in denied {
        findings.add(
            &entry.path,
            "cache-leak",
            20,
            "may not be read by every user, and the cache shows it to all: a cache goes by the bits for others alone"
                .into(),
            "take away the bits for others (`chmod o-r`), and build the cache again",
        );
    }
}

/// The first thing in which cache and tree differ, and how many there are.
fn stale(findings: &mut Findings<'_>, cached: &BTreeMap<Vec<u8>, Cached>) {
    let tree = findings.tree;
    let mut differences: Vec<String> = Vec::new();
    for (name, what) in cached {
        let shown = escape(name);
        match (tree.find(name), what) {
            (None, _) => differences.push(format!("`{shown}` is not there any more")),
            (Some(entry), Cached::Module(Some(time))) if seconds(entry) != *time => {
                differences.push(format!("`{shown}` has changed"));
            }
            (Some(entry), Cached::Rc(Some(content))) if entry.content().is_some_and(|now| now != content) => {
                differences.push(format!("`{shown}` has changed"));
            }
            (Some(entry), Cached::Invalid) if entry.cookie().is_some_and(|cookie| cookie == Cookie::Any) => {
                differences.push(format!("`{shown}` is a modulefile now"));
            }
            (Some(_), _) => {}
        }
    }
    differences.extend(added(tree, cached));
    let Some(first) = differences.first() else { return };
    let more = match differences.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    findings.add(
        CACHE,
        "cache-stale",
        19,
        format!("is not what the tree is: {first}{more}; nothing tells users"),
        "`module cachebuild`, or `quell modules convert --to cache`, after every change",
    );
}

fn seconds(entry: &Entry) -> i64 {
    entry.modified.div_euclid(1_000_000_000) as i64
}

/// Modulefiles and rc files that the cache does not know.
fn added(tree: &Tree, cached: &BTreeMap<Vec<u8>, Cached>) -> Vec<String> {
    let is_cached = |entry: &Entry| {
        let above = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(place, _)| place);
        cached.contains_key(&entry.path)
            || above.into_iter().any(|place| cached.contains_key(&entry.path[..place]))
    };
    let counts = |entry: &Entry, role: Role| match role {
        Role::Module | Role::HiddenModule => entry.cookie().is_some_and(|cookie| cookie.is_some()),
        Role::Rc(RcKind::Modulerc | RcKind::Version) => true,
    };
    let missing = tree.files().filter(|(entry, role)| counts(entry, *role) && !is_cached(entry));
    missing.map(|(entry, _)| format!("`{}` is not in it", escape(&entry.path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_cache() {
        let cache = b"#%Module5.3\n\nmodulefile-content foo/1.0 17 #%Module {#%Module\nputs {a \\} b}\n}\n\
            modulerc-content {a b/.modulerc} {} {#%Module}\nlimited-access-file foo/\\{\nmodulefile-invalid x invalid {no}\n";
        let expected: BTreeMap<Vec<u8>, Cached> = [
            ("foo/1.0", Cached::Module(Some(17))),
            ("a b/.modulerc", Cached::Rc(Some(b"#%Module".to_vec()))),
            ("foo/{", Cached::Limited),
            ("x", Cached::Invalid),
        ]
        .map(|(name, what)| (name.as_bytes().to_vec(), what))
        .into();
        assert_eq!(cached(cache), expected);
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_cache_breaks_nothing(text in proptest::collection::vec(proptest::sample::select(b"a{}\\ \n#".to_vec()), 0..60)) {
            _ = cached(&text);
        }
    }
}
