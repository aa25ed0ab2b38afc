//! All findings together: what counts, their order, and the plan of remedies.

use crate::made::*;
use crate::{fires_above, limits, of};
use quell_analyse::*;
use quell_trace::flags::O_CREAT;
use quell_trace::*;

#[test]
fn the_whole_start() {
    let storm = |operations| {
        let made = Made::of(&["app", "in put"]).repeat(operations - 7, Call::Stat, "/lustre/sw/x", FOUND);
        let mut made = made.repeat(50, Call::Stat, "/etc/passwd", FOUND);
        made.call(Call::Openat, "/lustre/u/out", FOUND).flags = O_CREAT | 1;
        made.repeat(6, Call::Stat, "/lustre/u/out", FOUND).summary()
    };
    let finding = fires_above("network-start-up", 1000, storm);
    assert_eq!(
        finding.remedy.command,
        "quell pack app.qtrace -o app.qimg && quell run app.qimg -- app 'in put'"
    );
    assert_eq!(finding.remedy.metadata_operations_after, 50 + 7, "what is local, and where the run writes");
}

#[test]
fn an_image_answers_for_what_the_run_does_not_change() {
    let mut made = Made::of(&["app"]);
    for n in 0..500 {
        made.call(Call::Stat, &format!("/lustre/env/lib/{n}"), FOUND);
        made.call(Call::Stat, &format!("/lustre/env/cache/{n}"), FOUND);
        made.call(Call::Stat, &format!("/lustre/env/cache/deep/{n}"), FOUND);
    }
    made.call(Call::Openat, "/lustre/env/cache/lock", FOUND).flags = O_CREAT;
    made.call(Call::Mkdir, "/lustre/env/__pycache__/x", FOUND);
    let after = of("network-start-up", &made.summary())[0].remedy.metadata_operations_after;
    assert_eq!(after, 501, "the directory that was written; not what lies below it, nor byte code");
}

#[test]
fn what_is_on_the_node_itself_counts_only_where_nothing_is_shared() {
    let local = Made::of(&["app"]).repeat(2000, Call::Stat, "/opt/env/x", FOUND);
    let found = of("repeated-stats", &local.summary());
    assert_eq!(
        found[0].remedy.command,
        "quell pack app.qtrace --root /opt/env -o app.qimg && quell run app.qimg -- app"
    );
    let shared = local.repeat(1, Call::Stat, "/lustre/x", FOUND);
    assert_eq!(of("repeated-stats", &shared.summary()), []);
    let kernel = Made::of(&["top"]).repeat(9000, Call::Stat, "/proc/1/stat", FOUND);
    assert_eq!(findings(&kernel.summary(), &limits()), []);
}

#[test]
fn an_image_on_local_disks_holds_the_directories_of_all_its_causes() {
    let made = Made::of(&["app"]).repeat(900, Call::Stat, "/opt/env/x", FOUND);
    let apart = made.repeat(800, Call::Readlink, "/srv/data/y", NO_LINK);
    let plan = diagnose(&apart.summary(), &limits()).plan;
    let [step] = &plan.steps[..] else { panic!("{:?}", plan.steps) };
    assert_eq!(
        step.finding.remedy.command,
        "quell pack app.qtrace --root /opt/env --root /srv/data -o app.qimg && quell run app.qimg -- app"
    );
    assert_eq!((step.codes.len(), step.saves, step.together), (2, 1700, 0));
    let within = apart.repeat(700, Call::Getxattr, "/opt/env/deep/z", NO_ATTRIBUTE);
    let plan = diagnose(&within.summary(), &limits()).plan;
    let [step] = &plan.steps[..] else { panic!("{:?}", plan.steps) };
    assert_eq!(
        step.finding.remedy.command,
        "quell pack app.qtrace --root /opt/env --root /srv/data -o app.qimg && quell run app.qimg -- app",
        "a root within another is none of its own"
    );
    assert_eq!((step.codes.len(), step.saves, step.together), (3, 2400, 0));
    assert_eq!(step.finding.code, "repeated-stats", "the cause whose own image saves most names the step");
}

#[test]
fn more_ranks_that_do_the_same_are_no_more_findings() {
    let mut whole = Summary::default();
    (0..8).for_each(|rank| {
        whole.merge(Made::of(&["app"]).rank(rank, 8).repeat(400, Call::Stat, "/lustre/x", FOUND).summary());
    });
    assert_eq!(findings(&whole, &limits()), []);
}

#[test]
fn a_plan_begins_with_what_costs_nothing_and_counts_nothing_twice() {
    let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", "/lustre/a:/lustre/b");
    let made = missing(made, "/lustre/a", 400);
    let made = made.repeat(900, Call::Stat, "/lustre/env/x", FOUND).repeat(30, Call::Stat, "/etc/x", FOUND);
    let summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &[("/lustre/a", 400)]);
    let plan = diagnose(&summary, &limits()).plan;
    let steps: Vec<_> =
        plan.steps.iter().map(|step| (step.codes.clone(), step.saves, step.together)).collect();
    assert_eq!(plan.metadata_operations, 1330);
    assert_eq!(
        steps,
        [(vec!["search-path-misses"], 400, 930), (vec!["repeated-stats", "network-start-up"], 1300, 30)]
    );
}

#[test]
fn a_free_remedy_comes_first_and_the_sum_of_all_causes_last() {
    let of = |missed: u64| {
        let made = Made::of(&["app"]).with("LD_LIBRARY_PATH", "/lustre/a:/lustre/b");
        let made = missing(made, "/lustre/a", missed).repeat(4000, Call::Stat, "/lustre/env/x", FOUND);
        let summary = searched(&made, SearchKind::Loader, "LD_LIBRARY_PATH", &[("/lustre/a", missed)]);
        findings(&summary, &limits()).iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(of(500), ["search-path-misses", "repeated-stats", "network-start-up"]);
    // Less than a tenth is no reason to pass over what does more harm.
    assert_eq!(of(400), ["repeated-stats", "search-path-misses", "network-start-up"]);
}

#[test]
fn recordings_of_several_programs_are_not_folded_into_one_command_line() {
    let path = "/lustre/tools:/opt/bin";
    let of = |program: &str| {
        let made = Made::of(&[program]).with("PATH", path).repeat(600, Call::Stat, "/lustre/x", FOUND);
        searched(&missing(made, "/lustre/tools", 300), SearchKind::Command, "PATH", &[("/lustre/tools", 300)])
    };
    let commands = |summary: &Summary| {
        let found = findings(summary, &limits());
        found.iter().map(|finding| finding.remedy.command.clone()).collect::<Vec<_>>()
    };
    let mut both = of("one");
    both.merge(of("two"));
    let image = "quell pack app.qtrace app.qtrace -o app.qimg && quell run app.qimg -- one && quell run app.qimg -- two";
    let moved = "PATH=/opt/bin:/lustre/tools";
    assert_eq!(commands(&of("one"))[0], format!("{moved} one"));
    assert_eq!(commands(&both), [&format!("export {moved}"), image]);
}
