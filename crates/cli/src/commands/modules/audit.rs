//! `quell modules audit`: what is wrong in module trees, in words and as JSON.

use super::{explain, paths};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::{ModulesAudit, ModulesTool};
use crate::limits::ANY;
use crate::printer::Printer;
use quell_base::shown;
use quell_modules::ModulesError;
use quell_modules::audit::{self, Audit, Finding, Options};
use quell_modules::scan::{self, Tree};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::PathBuf;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Audited {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The modulepaths, in the order in which they were given.
    pub modulepaths: Vec<String>,
    /// Modulefiles that every user may read and that the version of Environment Modules evaluates.
    pub modulefiles: u64,
    /// Modulefiles that some users may read.
    pub restricted: u64,
    /// Modulefiles of Lmod that every user may read.
    pub lmod_modulefiles: u64,
    /// Files and directories below the modulepaths.
    pub entries: u64,
    /// What was found, by path.
    pub findings: Vec<Found>,
}

/// A finding.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Found {
    /// Its stable code.
    pub code: &'static str,
    /// The rule that it follows from; docs/modules.md lists them.
    pub rule: u8,
    /// Where.
    pub path: String,
    /// What is the matter: a sentence that begins with the path.
    pub text: String,
    /// What to do.
    pub advice: String,
}

/// Version of [`Audited`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Audited`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Audited).to_value()
}

pub(crate) fn run(flags: &ModulesAudit, printer: &Printer) -> Result<u8, Failure> {
    let modulepaths = paths::modulepaths(&flags.modulepaths, printer)?;
    let options = scan::Options { jobs: flags.jobs };
    let (trees, unlisted) = scanned(&modulepaths, options)?;
    let caches: Result<Vec<_>, _> =
        flags.lmod_caches.iter().map(|directory| audit::read_lmod_cache(directory, options)).collect();
    let lmod = flags.tool != ModulesTool::Modules;
    let version = flags.modules_version.clone().into_bytes();
    let mut audited = audit::audit(&trees, &caches.map_err(explain)?, &Options { version, lmod });
    audited.findings.extend(unlisted);
    audited.findings.sort();
    if flags.tool == ModulesTool::Lmod {
        audited.findings.retain(|finding| concerns_lmod(finding.code));
    }
    let text = match flags.json {
        true => report::json(&json(&audited, &modulepaths))?,
        false => describe(&audited, &modulepaths, flags.all, printer.style().width),
    };
    printer.data(&text)?;
    let fails = |code: &str| flags.fail_on.iter().any(|wanted| wanted == ANY || wanted == code);
    Ok(u8::from(audited.findings.iter().any(|finding| fails(finding.code))))
}

/// Modulepaths that could be listed, and findings about those that could not. One that is not there is a word mistyped.
fn scanned(modulepaths: &[PathBuf], options: scan::Options) -> Result<(Vec<Tree>, Vec<Finding>), Failure> {
    let (mut trees, mut unlisted) = (Vec::new(), Vec::new());
    for modulepath in modulepaths {
        match Tree::scan(modulepath, options) {
            Err(ModulesError::Read { path, source })
                if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::Interrupted) =>
            {
                unlisted.push(audit::unlisted(&path, &source));
            }
            tree => trees.push(tree.map_err(explain)?),
        }
    }
    Ok((trees, unlisted))
}

/// Whether a finding says anything to those who have no Environment Modules.
fn concerns_lmod(code: &str) -> bool {
    code.starts_with("lmod")
        || matches!(
            code,
            "lua-unreadable" | "symlink-loop" | "dangling-link" | "special-file" | "restricted" | "unlisted"
        )
}

fn json(audited: &Audit, modulepaths: &[PathBuf]) -> Audited {
    let findings = audited.findings.iter().map(|finding| Found {
        code: finding.code,
        rule: finding.rule,
        path: shown(&finding.path),
        text: finding.text.clone(),
        advice: finding.advice.clone(),
    });
    Audited {
        schema_version: SCHEMA_VERSION,
        modulepaths: modulepaths.iter().map(shown).collect(),
        modulefiles: audited.modulefiles,
        restricted: audited.restricted,
        lmod_modulefiles: audited.lmod_modulefiles,
        entries: audited.entries,
        findings: findings.collect(),
    }
}

/// Paths that are shown of one finding.
const SHOWN: usize = 4;

/// Findings of one code together, and of these those that say the same.
fn describe(audited: &Audit, modulepaths: &[PathBuf], all: bool, width: usize) -> String {
    let mut text = format!(
        "{} modulefiles for every user, {} for some, {} for Lmod; {} entries in {} modulepath{}\n",
        audited.modulefiles,
        audited.restricted,
        audited.lmod_modulefiles,
        audited.entries,
        modulepaths.len(),
        if modulepaths.len() == 1 { "" } else { "s" },
    );
    for (code, _) in audit::CODES {
        let findings: Vec<_> = audited.findings.iter().filter(|finding| finding.code == code).collect();
        let mut sentences: Vec<(&str, &str)> = Vec::new();
        for finding in &findings {
            let sentence = (finding.text.as_str(), finding.advice.as_str());
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        if let Some(first) = findings.first() {
            // Writing to a string cannot fail.
            _ = writeln!(text, "\n{code}: {} (rule {})", findings.len(), first.rule);
        }
        for (sentence, advice) in sentences {
            let paths =
                findings.iter().filter(|finding| finding.text == sentence && finding.advice == advice);
            let paths: Vec<String> = paths.map(|finding| shown(&finding.path)).collect();
            let most = if all { paths.len() } else { SHOWN };
            paths.iter().take(most).for_each(|path| _ = writeln!(text, "  {path}"));
            if paths.len() > most {
                _ = writeln!(text, "  and {} more (--all)", paths.len() - most);
            }
            wrap(&mut text, sentence, "    ", width);
            wrap(&mut text, &format!("-> {advice}"), "    ", width);
        }
    }
    text
}

/// A sentence wrapped at words.
fn wrap(text: &mut String, sentence: &str, indent: &str, width: usize) {
    let mut column = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push('\n');
            column = 0;
        }
        let before = if column == 0 { indent } else { " " };
        text.push_str(before);
        text.push_str(word);
        column += before.len() + length;
    }
    text.push('\n');
}
