//! Attributes, listings and links that are asked for again, or are absent.

use crate::made::*;
use crate::{fires_above, of};
use quell_analyse::findings::Cost;
use quell_trace::*;

#[test]
fn repeated_stats() {
    let storm = |again| {
        let julia = Made::of(&["app"]).repeat(again - 30 + 1, Call::Stat, "/lustre/Project.toml", FOUND);
        let other = julia.repeat(31, Call::Newfstatat, "/lustre/lib", FOUND);
        // Looked at before use, changed, local: none of these is waste.
        let few =
            other.repeat(11, Call::Stat, "/lustre/few", FOUND).repeat(99, Call::Stat, "/etc/local", FOUND);
        let mut changed = few.repeat(99, Call::Stat, "/lustre/out/changed", FOUND);
        changed.call(Call::Write, "/lustre/out/changed", Outcome::Success(1));
        changed.repeat(99, Call::Fstat, "/lustre/Project.toml", FOUND).summary()
    };
    let finding = fires_above("repeated-stats", 500, storm);
    assert_eq!(finding.remedy.cost, Cost::Image);
    assert_eq!(finding.remedy.metadata_operations_after, 99 + 99, "the changed and the local ones");
}

#[test]
fn repeated_listings() {
    let storm = |again: u64| {
        let mut made = Made::of(&["app"]);
        for _ in 0..again / 2 + 1 {
            made.call(Call::Getdents64, "/lustre/data", Outcome::Success(4096));
            made.call(Call::Getdents64, "/lustre/data", FOUND);
        }
        made = made.repeat(again % 2, Call::Getdents64, "/lustre/data", Outcome::Success(24));
        made.repeat(3, Call::Getdents64, "/lustre/few", FOUND).summary()
    };
    fires_above("repeated-listings", 100, storm);
}

#[test]
fn readlinks() {
    let storm = |calls| {
        let made = Made::of(&["realpath", "x"]).repeat(calls - 50, Call::Readlink, "/lustre/a", NO_LINK);
        let made = made.repeat(50, Call::Readlink, "/lustre/a/b", NO_LINK);
        made.repeat(99, Call::Readlink, "/lustre/link", Outcome::Success(3)).summary()
    };
    fires_above("readlink-storm", 500, storm);
}

#[test]
fn readlinks_of_tcl_are_cured_by_its_library() {
    let mut made = Made::of(&["tclsh", "/usr/libexec/modulecmd.tcl", "bash", "avail"])
        .with("MODULEPATH", "/lustre/apps");
    for n in 0..200 {
        for path in ["/lustre".to_owned(), "/lustre/apps".to_owned(), format!("/lustre/apps/m{n}")] {
            made.call(Call::Readlink, &path, NO_LINK);
        }
    }
    made = made.repeat(7, Call::Readlink, "/lustre", NO_LINK);
    let found = of("readlink-storm", &made.summary());
    assert_eq!(
        (found[0].operations, found[0].remedy.operations_after),
        (607, 7),
        "those that are not for the tree stay"
    );
    assert!(found[0].remedy.text.contains("4.3"), "{}", found[0].remedy.text);
}

#[test]
fn extended_attributes_that_are_absent() {
    let storm = |program: &str, questions| {
        let mut made = Made::of(&[program, "-l", "many files"]);
        made.call(Call::Lgetxattr, "/lustre/many files", NO_ATTRIBUTE);
        (1..questions).for_each(|n| {
            made.call(Call::Statx, &format!("/lustre/many files/{n}"), FOUND);
            made.call(Call::Getxattr, &format!("/lustre/many files/{n}"), NO_ATTRIBUTE);
        });
        made.summary()
    };
    let finding = fires_above("absent-attributes", 500, |questions| storm("/bin/ls", questions));
    assert_eq!(finding.remedy.metadata_operations_after, 500, "find asks for the other attributes too");
    let of_others = of("absent-attributes", &storm("rsync", 2000)).remove(0);
    assert_eq!(of_others.remedy.cost, Cost::Image);
    let mut made = Made::of(&["ls", "-lR", "/lustre"]);
    (0..600).for_each(|n| _ = made.call(Call::Getxattr, &format!("/lustre/{}/{n}", n / 20), NO_ATTRIBUTE));
    let of_many_directories = of("absent-attributes", &made.summary()).remove(0);
    assert_eq!(of_many_directories.remedy.cost, Cost::Image, "no command names 30 directories");
}
