//! `quell modules verify`: compares the answers of the site's tools about two sets of modulepaths.

use super::judges::{compared, difference};
use super::{paths, site};
use crate::failure::Failure;
use crate::flags::ModulesVerify;
use crate::output;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::verify::{Difference, JudgedComparison, JudgedSide, ToolsJudge};
use quell_report::terminal;
use quell_report::view::{ModulesVerifyView, SCHEMA_VERSION};
use std::num::NonZero;
use std::path::PathBuf;

pub(crate) fn run(flags: &ModulesVerify, printer: &Printer) -> Result<u8, Failure> {
    if flags.old.len() != flags.new.len() {
        let message = format!("{} old modulepaths, and {} new ones", flags.old.len(), flags.new.len());
        return Err(Failure::message(message)
            .hint("give the same number on both sides, in the same order, separated by colons"));
    }
    let side = |named: &[PathBuf], variables| -> Result<JudgedSide, Failure> {
        if let Some(path) = named.iter().find(|path| !path.is_dir()) {
            return Err(Failure::message(format!("`{}` is not a directory", shown(path)))
                .hint("give modulepaths, separated by colons"));
        }
        let modulepaths = named.iter().map(|path| paths::plain(path)).collect::<Result<_, _>>()?;
        Ok(JudgedSide { modulepaths, variables, root: None, over: Vec::new() })
    };
    let variables = flags.with.iter().map(|setting| {
        let found = setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let message = || format!("`--with {}` is not NAME=VALUE", escape(setting.as_bytes()));
        found.ok_or_else(|| {
            Failure::message(message()).hint("an example is `--with MODULES_MCOOKIE_CHECK=eval`")
        })
    });
    let (old, new) = (side(&flags.old, Vec::new())?, side(&flags.new, variables.collect::<Result<_, _>>()?)?);
    let judge = ToolsJudge {
        tools: site::tools(&flags.site.tools)?,
        users: site::users(&flags.site.users)?,
        members: site::members(&flags.groups)?,
        variables: site::variables(),
        jobs: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
    };
    let comparison = compared(&judge, [&old, &new], None, printer)?;
    let counts = |difference: &Difference| flags.exact || !difference.is_rewording();
    let differs = comparison.differences.iter().filter(|difference| counts(difference)).count();
    let view = view(&judge, &comparison, differs);
    let text = match flags.json {
        true => output::json(&view)?,
        false => terminal::modules_verify(&view),
    };
    printer.data(&text)?;
    Ok(u8::from(differs > 0))
}

fn view(judge: &ToolsJudge, comparison: &JudgedComparison, differing: usize) -> ModulesVerifyView {
    ModulesVerifyView {
        schema_version: SCHEMA_VERSION,
        tools: judge.tools.iter().map(ToString::to_string).collect(),
        users: comparison.users.clone(),
        not_asked: comparison.unasked.iter().flat_map(|unasked| unasked.users.clone()).collect(),
        questions: comparison.questions,
        same: differing == 0,
        differences: comparison.differences.iter().map(difference).collect(),
        differing,
        not_asked_because: comparison.unasked.as_ref().map(ToString::to_string),
    }
}
