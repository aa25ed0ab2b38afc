//! Findings about `.modulecache`, the cache of Environment Modules: caches that are stale, that some users cannot read, or
//! that show what permissions deny.

use super::finding::{AuditOptions, Findings, who};
use crate::access::Permission;
use crate::caches::{CacheStaleness, StaleEntry, compare};
use crate::cookie::{CACHE, Cookie};
use crate::scan::TreeEntry;
use quell_base::escape;

pub(super) fn look(findings: &mut Findings<'_>, options: &AuditOptions) {
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
            format!("was made by Modules {needed}; {version} ignores it without a message"),
            "build it with the oldest version that users have",
        );
    }
    let (leaks, differences): (Vec<StaleEntry>, Vec<StaleEntry>) =
        compare(content, tree).into_iter().partition(|change| change.what == CacheStaleness::Closed);
    for leak in leaks {
        findings.add(
            &leak.path,
            "cache-leak",
            20,
            "may not be read by every user, and the cache shows it to all: a cache goes by the bits for others alone"
                .into(),
            "remove the bits for others (`chmod o-r`), and build the cache again",
        );
    }
    stale(findings, &differences);
}

fn readers(findings: &mut Findings<'_>, entry: &TreeEntry) {
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

/// Reports the first difference between cache and tree, and the number of differences.
fn stale(findings: &mut Findings<'_>, differences: &[StaleEntry]) {
    let Some(first) = differences.first() else { return };
    let more = match differences.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let words = first.what.words();
    let first = match first.path.as_slice() {
        [] => words.to_owned(),
        path => format!("`{}` {words}", escape(path)),
    };
    findings.add(
        CACHE,
        "cache-stale",
        19,
        format!("differs from the tree: {first}{more}; users get no message"),
        "`module cachebuild`, or `quell modules convert --to cache`, after every change",
    );
}
