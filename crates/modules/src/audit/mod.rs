//! What is wrong with module trees, and what could be cheaper: findings, each with a rule, a path, a sentence, and what to
//! do.
//!
//! It goes by what a scan saw, and asks the file system for nothing more but the caches of Lmod that it is told of, and where
//! links lead of which a cache shows the file.

mod caches;
mod files;
mod finding;
mod lmod;
mod rc_files;

pub use finding::{CODES, Finding, Options};
pub use lmod::{LmodCache, read_lmod_cache};

use crate::rc::Spoken;
use crate::scan::{Role, Tree};
use finding::{Findings, is_for_nobody};
use quell_trace::Errno;
use std::io;
use std::path::Path;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Modulefiles that every user may read and that the version evaluates; those with a dot before the name are not listed
    /// and do not count.
    pub modulefiles: u64,
    /// Modulefiles that some users may read.
    pub restricted: u64,
    /// Modulefiles of Lmod that every user may read.
    pub lmod_modulefiles: u64,
    /// Everything in the modulepaths, directories too.
    pub entries: u64,
    /// Shape: sorted by path.
    pub findings: Vec<Finding>,
}

/// Looks at modulepaths together: what one defines may be in another.
pub fn audit(trees: &[Tree], lmod_caches: &[LmodCache], options: &Options) -> Audit {
    let mut audit = Audit::default();
    let known = rc_files::defined(trees);
    let spoken: Vec<Spoken> = trees.iter().map(Spoken::of).collect();
    for (number, tree) in trees.iter().enumerate() {
        audit.entries += tree.entries.len() as u64;
        count(tree, options, &mut audit);
        let mut findings = Findings::of(tree);
        files::look(&mut findings, options);
        rc_files::look(&mut findings, &known, &Spoken::but(&spoken, number));
        caches::look(&mut findings, options);
        audit.findings.extend(findings.found);
    }
    if options.lmod {
        audit.findings.extend(lmod_caches.iter().flat_map(|cache| lmod::look(cache, trees)));
    }
    audit.findings.sort();
    audit
}

/// A modulepath that cannot be listed, and why: the others are looked at all the same.
pub fn unlisted(modulepath: &Path, why: &io::Error) -> Finding {
    let advice = match why.kind() {
        io::ErrorKind::NotADirectory => "take it out of MODULEPATH: it is no directory",
        _ => "run it as root, or as the owner; take it out of MODULEPATH where users cannot list it, either",
    };
    let why = Errno::of(why).map_or_else(|| why.to_string(), |errno| errno.to_string());
    Finding {
        path: modulepath.to_owned(),
        code: "unlisted",
        rule: 20,
        text: format!("cannot be listed, so nothing is known of it: {why}"),
        advice: advice.into(),
    }
}

fn count(tree: &Tree, options: &Options, audit: &mut Audit) {
    for (entry, role) in tree.files() {
        let everybody = tree.is_for_everybody(entry);
        let accepted = entry.cookie().is_some_and(|cookie| cookie.accepted_by(&options.version));
        if role == Role::Module && accepted && !is_for_nobody(entry) {
            *(if everybody { &mut audit.modulefiles } else { &mut audit.restricted }) += 1;
        }
        let content = entry.content().unwrap_or_default();
        if everybody && crate::cookie::is_for_lmod(entry.name(), content) {
            audit.lmod_modulefiles += 1;
        }
    }
}
