//! A umask has no effect on a cache. This test has a process of its own, because a process has one umask.
#![allow(clippy::unwrap_used)]

mod support;

use quell_modules::caches::modules::{self, Rebuild};
use quell_modules::example::{self, ExampleSize};
use quell_modules::tools::ToolKind;
use std::os::unix::fs::PermissionsExt;
use support::{open_directory, tool};

#[test]
fn privileged_a_cache_can_be_read_by_all_whatever_the_umask() {
    let Some(tool) = tool(ToolKind::Modules, "5.7.0") else { return };
    let directory = open_directory();
    let size = ExampleSize { modulepaths: 1, names: 2, versions: 2, lines: 0 };
    let modulepath = &example::create(directory.path(), size).unwrap().modulepaths[0];
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let built = modules::build(&tool, modulepath, None, Rebuild::All, directory.path()).unwrap();
    assert_eq!(built.cache.metadata().unwrap().permissions().mode() & 0o777, 0o644);
}
