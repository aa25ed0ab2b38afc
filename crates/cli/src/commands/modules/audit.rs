//! `quell modules audit`: findings about module trees.

use super::explain::explain;
use super::{paths, site};
use crate::failure::Failure;
use crate::flags::{ModulesAudit, ModulesTool};
use crate::limits::ANY;
use crate::output;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::ModulesError;
use quell_modules::audit::{self, Audit, AuditOptions, TreeFinding};
use quell_modules::scan::{self, ModuleTree};
use quell_modules::tools::ToolKind;
use quell_report::terminal;
use quell_report::view::{AuditFinding, ModulesAuditView, SCHEMA_VERSION};
use std::io::ErrorKind;
use std::path::PathBuf;

pub(crate) fn run(flags: &ModulesAudit, printer: &Printer) -> Result<u8, Failure> {
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let modulepaths = paths::followed(modulepaths, flags.follow, || site::followers(&[], &[]))?;
    let options = scan::ScanOptions { jobs: flags.jobs };
    let (trees, unlisted) = scanned(&modulepaths, options)?;
    let caches: Result<Vec<_>, _> =
        flags.lmod_caches.iter().map(|directory| audit::read_lmod_cache(directory, options)).collect();
    let lmod = flags.tool != ModulesTool::Modules;
    let version = flags.modules_version.clone().unwrap_or_else(installed).into_bytes();
    let mut audited = audit::audit(&trees, &caches.map_err(explain)?, &AuditOptions { version, lmod });
    audited.findings.extend(unlisted);
    audited.findings.sort();
    if flags.tool == ModulesTool::Lmod {
        audited.findings.retain(|finding| concerns_lmod(finding.code));
    }
    let view = view(&audited, &modulepaths);
    let text = match flags.json {
        true => output::json(&view)?,
        false => terminal::modules_audit(&view, flags.all, printer.style()),
    };
    printer.data(&text)?;
    let fails = |code: &str| flags.fail_on.iter().any(|wanted| wanted == ANY || wanted == code);
    Ok(u8::from(audited.findings.iter().any(|finding| fails(finding.code))))
}

/// The oldest installed version of Environment Modules, or the newest that is known.
fn installed() -> String {
    let tools = site::tools(&[]).unwrap_or_default();
    let oldest = tools.iter().find(|tool| tool.kind == ToolKind::Modules);
    oldest.map_or_else(|| "5.7.0".to_owned(), |tool| tool.version.to_string())
}

/// Modulepaths that could be listed, and findings about those that could not. A modulepath that does not exist is an error, and so is
/// a file that is the only one.
fn scanned(
    modulepaths: &[PathBuf],
    options: scan::ScanOptions,
) -> Result<(Vec<ModuleTree>, Vec<TreeFinding>), Failure> {
    let (mut trees, mut unlisted) = (Vec::new(), Vec::new());
    for modulepath in modulepaths {
        match ModuleTree::scan(modulepath, options) {
            Err(ModulesError::Read { path, source })
                if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::Interrupted)
                    && (modulepaths.len() > 1 || source.kind() != ErrorKind::NotADirectory) =>
            {
                unlisted.push(audit::unlisted(&path, &source));
            }
            tree => trees.push(tree.map_err(explain)?),
        }
    }
    Ok((trees, unlisted))
}

/// Tells whether a finding concerns a site that has only Lmod.
fn concerns_lmod(code: &str) -> bool {
    code.starts_with("lmod")
        || matches!(
            code,
            "lua-unreadable" | "symlink-loop" | "dangling-link" | "special-file" | "restricted" | "unlisted"
        )
}

fn view(audited: &Audit, modulepaths: &[PathBuf]) -> ModulesAuditView {
    let findings = audited.findings.iter().map(|finding| AuditFinding {
        code: finding.code,
        rule: finding.rule,
        path: shown(&finding.path),
        text: finding.text.clone(),
        advice: finding.advice.clone(),
    });
    ModulesAuditView {
        schema_version: SCHEMA_VERSION,
        modulepaths: modulepaths.iter().map(shown).collect(),
        modulefiles: audited.modulefiles,
        restricted: audited.restricted,
        lmod_modulefiles: audited.lmod_modulefiles,
        entries: audited.entries,
        findings: findings.collect(),
        codes: audit::CODES.iter().map(|(code, _)| *code).collect(),
    }
}
