//! Findings about module trees: faults, and what could cost less. Each has a rule, a path, a sentence and a remedy.
//!
//! An audit goes by a finished scan. It asks the file system only for the caches of Lmod that the caller names, and for the
//! destinations of links behind which a cache shows files.

mod caches;
mod files;
mod finding;
mod lmod;
mod rc_files;

pub use finding::{AuditOptions, CODES, TreeFinding};
pub use lmod::{LmodCache, read_lmod_cache};

use crate::rc::SpokenNames;
use crate::scan::{FileRole, ModuleTree};
use finding::{Findings, is_for_root_alone};
use quell_trace::Errno;
use std::io;
use std::path::Path;

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Modulefiles that every user may read and that the version evaluates. Those whose names begin with a dot are not
    /// listed and do not count.
    pub modulefiles: u64,
    /// Modulefiles that some users may read.
    pub restricted: u64,
    /// Modulefiles of Lmod that every user may read.
    pub lmod_modulefiles: u64,
    /// All entries of the modulepaths, directories included.
    pub entries: u64,
    /// Shape: sorted by path.
    pub findings: Vec<TreeFinding>,
}

/// Audits modulepaths together, because a name that one of them defines may stand for a module in another.
pub fn audit(trees: &[ModuleTree], lmod_caches: &[LmodCache], options: &AuditOptions) -> Audit {
    let mut audit = Audit::default();
    let known = rc_files::defined(trees);
    let spoken: Vec<SpokenNames> = trees.iter().map(SpokenNames::of).collect();
    for (number, tree) in trees.iter().enumerate() {
        audit.entries += tree.entries.len() as u64;
        count(tree, options, &mut audit);
        let mut findings = Findings::of(tree);
        files::look(&mut findings, options);
        rc_files::look(&mut findings, &known, &SpokenNames::but(&spoken, number));
        caches::look(&mut findings, options);
        audit.findings.extend(findings.found);
    }
    if options.lmod {
        audit.findings.extend(lmod_caches.iter().flat_map(|cache| lmod::look(cache, trees)));
    }
    audit.findings.sort();
    audit
}

/// The finding for a modulepath that cannot be listed. The other modulepaths are audited all the same.
pub fn unlisted(modulepath: &Path, why: &io::Error) -> TreeFinding {
    let advice = match why.kind() {
        io::ErrorKind::NotADirectory => "remove it from MODULEPATH: it is no directory",
        _ => {
            "run the audit as root or as the owner; remove it from MODULEPATH if users cannot list it either"
        }
    };
    let why = Errno::of(why).map_or_else(|| why.to_string(), |errno| errno.to_string());
    TreeFinding {
        path: modulepath.to_owned(),
        code: "unlisted",
        rule: 20,
        text: format!("cannot be listed, so it was not audited: {why}"),
        advice: advice.into(),
    }
}

fn count(tree: &ModuleTree, options: &AuditOptions, audit: &mut Audit) {
    for (entry, role) in tree.files() {
        let everybody = tree.is_for_everybody(entry);
        let accepted = entry.cookie().is_some_and(|cookie| cookie.accepted_by(&options.version));
        if role == FileRole::Module && accepted && !is_for_root_alone(entry) {
            *(if everybody { &mut audit.modulefiles } else { &mut audit.restricted }) += 1;
        }
        let content = entry.content().unwrap_or_default();
        if everybody && crate::cookie::is_for_lmod(entry.name(), content) {
            audit.lmod_modulefiles += 1;
        }
    }
}
