//! A signal ends reading and making of trees, not only conversations with tools. This test has a process of its own, because
//! a process has one such flag.
#![allow(clippy::unwrap_used)]

use quell_modules::ModulesError;
use quell_modules::caches::modules;
use quell_modules::example::{self, ExampleSize};
use quell_modules::scan::{ModuleTree, ScanOptions};
use quell_modules::tools::end_flag;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;

#[test]
fn nothing_is_begun_after_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let made = example::create(&directory.path().join("m"), ExampleSize::default()).unwrap();
    let modulepath = &made.modulepaths[0];
    assert!(ModuleTree::scan(modulepath, ScanOptions::default()).unwrap().entries.len() > 60);
    end_flag().store(true, Ordering::Relaxed);
    let interrupted = |error: ModulesError| match error {
        ModulesError::Read { source, .. } | ModulesError::Write { source, .. } => {
            source.kind() == ErrorKind::Interrupted
        }
        _ => false,
    };
    assert!(interrupted(ModuleTree::scan(modulepath, ScanOptions::default()).unwrap_err()));
    assert!(interrupted(modules::check(modulepath, None).unwrap_err()));
    let another = directory.path().join("n");
    assert!(interrupted(example::create(&another, ExampleSize::default()).unwrap_err()));
    // The partial example is gone.
    assert!(!another.exists());
}
