//! Findings about rc files: files that could be merged, files that must stay, files that are not read, and names that lead
//! nowhere.

use super::finding::Findings;
use crate::rc::{LeaveReason, RcCommand, RcFile, SpokenNames, groups, merge_beside};
use crate::scan::{EntryKind, ModuleTree};
use quell_base::escape;
use std::collections::BTreeSet;
use std::path::Path;

pub(super) fn look(findings: &mut Findings<'_>, known: &BTreeSet<Vec<u8>>, others: &[&SpokenNames]) {
    let tree = findings.tree;
    if tree.find(b".version").is_some() {
        findings.add(
            b".version",
            "rc-ignored",
            3,
            "lies at the root of a modulepath, where `.version` is not read".into(),
            "remove it, or write `module-version` into `.modulerc`",
        );
    }
    let merged = merge_beside(tree, others);
    for (path, _) in &merged.moved {
        findings.add(
            path,
            "rc-mergeable",
            6,
            "could be part of the `.modulerc` at the modulepath's root".into(),
            "`quell modules convert --to rc`",
        );
    }
    for (path, why) in &merged.left {
        left(findings, path, why);
    }
    let (root, groups) = groups(tree);
    if let Some(RcFile {
        path, says: Err(why @ (LeaveReason::NoCookie | LeaveReason::TooNew { .. })), ..
    }) = &root
    {
        left(findings, path, why);
    }
    for file in groups.iter().flat_map(|group| &group.files).chain(&root) {
        targets(findings, file, known);
    }
}

fn left(findings: &mut Findings<'_>, path: &[u8], why: &LeaveReason) {
    let (code, advice) = match why {
        LeaveReason::NoCookie | LeaveReason::TooNew { .. } => {
            ("rc-ignored", "remove it; adding a cookie would change what users see")
        }
        LeaveReason::Scope { .. } => {
            ("rc-left", "write it into the root's `.modulerc`, if every query may read it")
        }
        LeaveReason::Overridden { .. } => ("rc-left", "remove the default that is overridden"),
        LeaveReason::Twice { .. } => ("rc-left", "define it once"),
        LeaveReason::VersionPath { .. } => ("rc-left", "write a `.version` into the directory that it names"),
        _ => ("rc-left", "leave it there; the rest can be merged without it"),
    };
    let verb = if code == "rc-ignored" { "is not read" } else { "must stay" };
    findings.add(path, code, why.rule(), format!("{verb}: {why}"), advice);
}

/// Everything that a symbolic version may stand for: files and directories that exist, and names that are defined.
pub(super) fn defined(trees: &[ModuleTree]) -> BTreeSet<Vec<u8>> {
    let mut known = BTreeSet::new();
    for tree in trees {
        known.extend(tree.entries.iter().map(|entry| entry.path.clone()));
        let (root, groups) = groups(tree);
        let files = groups.iter().flat_map(|group| &group.files).chain(&root);
        for (file, declared) in files.filter_map(|file| Some((file, file.says.as_ref().ok()?))) {
            for statement in &declared.statements {
                known.extend(names(&statement.command));
            }
            known.extend(declared.default.as_ref().map(|_| [file.directory(), b"/default"].concat()));
        }
    }
    known
}

fn names(command: &RcCommand) -> Vec<Vec<u8>> {
    match command {
        RcCommand::Version { module, symbols } => {
            let end = module.iter().rposition(|byte| *byte == b'/').unwrap_or(module.len());
            symbols.iter().map(|symbol| [&module[..end], b"/", symbol].concat()).collect()
        }
        RcCommand::Alias { name, .. } | RcCommand::Virtual { name, .. } => vec![name.clone()],
        RcCommand::Rule { .. } => Vec::new(),
    }
}

fn targets(findings: &mut Findings<'_>, file: &RcFile, known: &BTreeSet<Vec<u8>>) {
    let Ok(declared) = &file.says else { return };
    let missing = |module: &[u8]| !known.contains(module);
    let mut version = |line: usize, module: &[u8]| {
        if missing(module) {
            findings.add(
                &file.path,
                "version-missing",
                7,
                format!("names `{}` in line {line}, which does not exist", escape(module)),
                "name a version that exists, or remove the line",
            );
        }
    };
    for statement in &declared.statements {
        if let RcCommand::Version { module, .. } = &statement.command {
            version(statement.line, module);
        }
    }
    if let Some((line, default)) = &declared.default {
        version(*line, &[file.directory(), b"/", default].concat());
    }
    for statement in &declared.statements {
        if let RcCommand::Virtual { name, file: target } = &statement.command {
            virtual_module(findings, file, name, target);
        }
    }
}

fn virtual_module(findings: &mut Findings<'_>, file: &RcFile, name: &[u8], target: &[u8]) {
    let tree = findings.tree;
    let there = match tree.find(target) {
        Some(entry) => matches!(entry.kind, EntryKind::File(_) | EntryKind::Unreadable(_)),
        // For a target outside the modulepath only the attributes are asked for.
        None => is_outside(target) && tree.full_path(target).symlink_metadata().is_ok(),
    };
    if !there {
        findings.add(
            &file.path,
            "virtual-missing",
            17,
            format!("makes `{}` of `{}`, which does not exist", escape(name), escape(target)),
            "remove the line; with mcookie_check=eval the name would be listed",
        );
    }
}

fn is_outside(target: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(target));
    path.is_absolute() || path.starts_with("..")
}
