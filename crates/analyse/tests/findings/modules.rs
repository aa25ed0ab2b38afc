//! Module trees.

use crate::made::*;
use crate::{fires_above, of};
use quell_analyse::findings::Cost;
use quell_trace::*;

fn avail(modules: u64, tool: &str) -> Made {
    let mut made =
        Made::of(&["tclsh", tool, "bash", "avail"]).with("MODULEPATH", "/lustre/apps:/lustre/none");
    (0..modules).for_each(|n| _ = made.call(Call::Openat, &format!("/lustre/apps/m{n}"), FOUND));
    made
}

#[test]
fn module_trees() {
    let finding =
        fires_above("module-tree-walk", 200, |calls| avail(calls, "/usr/libexec/modulecmd.tcl").summary());
    assert_eq!(
        (&*finding.remedy.command, finding.remedy.cost),
        ("module cachebuild /lustre/apps", Cost::Setup)
    );
    let lmod = &of("module-tree-walk", &avail(300, "/usr/share/lmod/libexec/lmod").summary())[0];
    assert!(lmod.remedy.command.starts_with("update_lmod_system_cache_files "), "{}", lmod.remedy.command);
    assert_eq!(of("module-tree-walk", &avail(300, "/bin/other").summary()), []);
}

#[test]
fn rc_files() {
    let storm = |files| {
        let mut made = avail(0, "/usr/libexec/modulecmd.tcl");
        for n in 0..files {
            let file = format!("/lustre/apps/m{n}/{}", if n % 2 == 0 { ".modulerc" } else { ".version" });
            for call in [Call::Access, Call::Stat, Call::Openat] {
                made.call(call, &file, FOUND);
            }
        }
        made.call(Call::Openat, "/lustre/apps/.modulerc", ABSENT);
        made.summary()
    };
    let finding = fires_above("module-rc-files", 20, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1 + 3, "one file at the root instead");
}
