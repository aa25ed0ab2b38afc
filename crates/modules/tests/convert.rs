//! Conversions, judged by the real tools: every tree here breaks a recipe that moves rc files and switches off checks
//! without looking, and must say the same before and after ours; or ours must refuse and say why.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use quell_modules::convert::{Consent, Destination, Strategy, SystemNames, plan, write};
use quell_modules::example::{self, Size};
use quell_modules::scan::{Options, Tree};
use quell_modules::tools::{Kind, Tool, User};
use quell_modules::verify::{Difference, Tools};
use std::num::NonZero;
use std::path::PathBuf;
use support::open_directory;

/// Every Environment Modules that is here.
fn modules() -> Option<Vec<Tool>> {
    let tools: Vec<Tool> =
        support::installed()?.into_iter().filter(|tool| tool.kind == Kind::Modules).collect();
    (!tools.is_empty()).then_some(tools)
}

fn judge(tools: &[Tool]) -> Tools {
    Tools {
        tools: tools.to_vec(),
        users: vec![User::new("others", support::NOBODY, support::NOBODY, Vec::new())],
        variables: Vec::new(),
        jobs: NonZero::new(2).unwrap(),
    }
}

fn trees(paths: &[PathBuf]) -> Vec<Tree> {
    paths.iter().map(|path| Tree::scan(path, Options::default()).unwrap()).collect()
}

fn shown(differences: &[Difference]) -> String {
    let line = |difference: &Difference| format!("{difference:#?}");
    differences.iter().take(5).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn privileged_the_cookbooks_tree_becomes_each_of_them() {
    let Some(tools) = modules() else { return };
    if !support::is_root() {
        return;
    }
    let directory = open_directory();
    let made =
        example::create(&directory.path().join("example"), Size { names: 7, versions: 2, ..Size::default() })
            .unwrap();
    let trees = trees(&made.modulepaths);
    for strategy in [Strategy::Rc, Strategy::Eval, Strategy::Virtual] {
        let planned = plan(&trees, strategy, Consent::default(), &mut SystemNames);
        assert!(planned.is_possible(), "{planned:?}");
        let out = directory.path().join(strategy.name());
        let written = write(&planned, &Destination::Out(out.clone()), &mut judge(&tools[..1])).unwrap();
        assert_eq!(written.differences, [], "{}", shown(&written.differences));
        assert_eq!(written.targets, ["applications", "libraries"].map(|name| out.join(name)));
    }
}
