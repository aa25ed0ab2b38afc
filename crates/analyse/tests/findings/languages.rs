//! Packages, byte code, locales and fonts: the questions of languages and libraries at each start.

use crate::made::*;
use crate::{fires_above, of};
use quell_analyse::findings::Cost;
use quell_trace::flags::O_CREAT;
use quell_trace::*;

#[test]
fn imports() {
    let storm = |modules| {
        let mut made = Made::of(&["python3", "app.py"]);
        for n in 0..modules {
            let (source, code) = (
                format!("/lustre/env/p{}/m{n}.py", n % 2),
                format!("/lustre/env/p{}/__pycache__/m{n}.cpython-311.pyc", n % 2),
            );
            made.call(Call::Newfstatat, &source, FOUND);
            made.call(Call::Openat, &code, FOUND);
            made.call(Call::Fstat, &code, FOUND);
        }
        made.call(Call::Openat, "/usr/lib/python3.11/os.py", FOUND);
        made.summary()
    };
    let finding = fires_above("python-imports", 200, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 1, "what is local stays");
}

#[test]
fn byte_code_that_is_not_there() {
    let storm = |modules, variable: &str| {
        let mut made = Made::of(&["python3", "app.py"]).with(variable, "1");
        for n in 0..modules {
            made.call(Call::Openat, &format!("/lustre/env/__pycache__/m{n}.cpython-311.pyc"), ABSENT);
            made.call(Call::Openat, &format!("/lustre/env/m{n}.py"), FOUND);
        }
        made.summary()
    };
    let finding = fires_above("python-bytecode", 50, |modules| storm(modules, "LANG"));
    assert_eq!(finding.remedy.command, "python3 -m compileall -q /lustre/env");
    assert_eq!(finding.remedy.metadata_operations_after, 51);
    let unset = &of("python-bytecode", &storm(51, "PYTHONDONTWRITEBYTECODE"))[0];
    assert_eq!((&*unset.remedy.command, unset.remedy.cost), ("unset PYTHONDONTWRITEBYTECODE", Cost::Nothing));
    // The recording itself wrote it: the next run finds it.
    let mut first = Made::of(&["python3", "app.py"]);
    for n in 0..60 {
        let code = format!("/lustre/env/__pycache__/m{n}.cpython-311.pyc");
        first.call(Call::Openat, &code, ABSENT);
        first.call(Call::Openat, &format!("/lustre/env/m{n}.py"), FOUND);
        let renamed = first.paths.intern(code.as_bytes());
        first.call(Call::Rename, &format!("{code}.1"), FOUND).target2 = Some(renamed);
    }
    assert_eq!(of("python-bytecode", &first.summary()), []);
}

#[test]
fn julia() {
    let storm = |operations: u64, command: &[&str]| {
        let made = Made::of(command).with("HOME", "/lustre/u");
        let made = made.repeat(operations - 100, Call::Stat, "/lustre/u/.julia/packages/A/src/A.jl", FOUND);
        let made = made.repeat(99, Call::Stat, "/lustre/proj/Project.toml", FOUND);
        let made = made.repeat(1, Call::Openat, "/lustre/u/.julia/compiled/v1.10/A.ji", FOUND);
        made.repeat(9, Call::Stat, "/lustre/in.dat", FOUND).summary()
    };
    let finding =
        fires_above("julia-without-image", 1000, |operations| storm(operations, &["julia", "my.jl"]));
    assert_eq!((finding.remedy.cost, finding.remedy.metadata_operations_after), (Cost::Setup, 9));
    assert_eq!(of("julia-without-image", &storm(2000, &["julia", "-Jsysimage.so", "my.jl"])), []);
    assert_eq!(of("julia-without-image", &storm(2000, &["cat", "my.jl"])), []);
}

#[test]
fn locales() {
    let storm = |operations: u64, locale: &str| {
        let mut made = Made::of(&["bash", "run.sh"]).with("LC_ALL", locale);
        made = made.repeat(operations - 30, Call::Openat, "/usr/lib/locale/xx_YY.UTF-8/LC_TIME", ABSENT);
        made.repeat(30, Call::Openat, "/etc/locale.alias", FOUND)
    };
    let finding = fires_above("locale-files", 100, |operations| storm(operations, "xx_YY.UTF-8").summary());
    let (command, after) = (&*finding.remedy.command, finding.remedy.metadata_operations_after);
    assert_eq!((command, after), ("export LC_ALL=C", 0));
    // A locale that is there: only its messages are looked for in vain.
    let mut there = Made::of(&["bash", "run.sh"]).with("LANG", "en_US.UTF-8");
    there = there.repeat(90, Call::Openat, "/usr/lib/locale/locale-archive", FOUND);
    there = there.repeat(120, Call::Openat, "/usr/share/locale/en_US/LC_MESSAGES/coreutils.mo", ABSENT);
    let remedy = &of("locale-files", &there.summary())[0].remedy;
    assert_eq!((&*remedy.command, remedy.metadata_operations_after), ("export LANGUAGE=C", 90));
    // One that is there under another name.
    let mut named = Made::of(&["bash", "run.sh"]).with("LANG", "C.UTF-8");
    named = named.repeat(130, Call::Openat, "/usr/lib/locale/C.UTF-8/LC_TIME", ABSENT);
    named = named.repeat(9, Call::Openat, "/usr/lib/locale/locale-archive", ABSENT);
    named = named.repeat(13, Call::Openat, "/usr/lib/locale/C.utf8/LC_TIME", FOUND);
    let remedy = &of("locale-files", &named.summary())[0].remedy;
    assert_eq!((&*remedy.command, remedy.metadata_operations_after), ("export LANG=C.utf8", 22));
    // One that is there and translated is what the user wants.
    let used = there.repeat(200, Call::Openat, "/usr/share/locale/de/LC_MESSAGES/coreutils.mo", FOUND);
    assert_eq!(of("locale-files", &used.summary()), []);
}

#[test]
fn a_shim_that_asks_for_files_before_its_program() {
    let storm = |operations| {
        let mut made = Made::of(&["python3", "app.py"]);
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let (shim, program) =
            (words("bash /lustre/shims/python3 app.py"), words("/lustre/3.11/bin/python3 app.py"));
        made.context.executions =
            vec![Execution::of(0, Nanos(5), shim), Execution::of(0, Nanos(25), program)];
        for n in 1..operations {
            made.call(Call::Openat, &format!("/lustre/shims/hooks/{n}"), ABSENT).start = Nanos(10);
        }
        made.call(Call::Execve, "/lustre/3.11/bin/python3", FOUND).start = Nanos(20);
        for n in 0..7 {
            made.call(Call::Openat, &format!("/lustre/3.11/lib/{n}.py"), FOUND).start = Nanos(30);
        }
        made.summary()
    };
    let finding = fires_above("program-wrappers", 200, storm);
    assert_eq!(finding.remedy.metadata_operations_after, 7);
    assert_eq!(finding.remedy.command, "/lustre/3.11/bin/python3 app.py");
}

#[test]
fn metadata_of_distributions_that_is_read_for_plugins() {
    let storm = |distributions, library: &str| {
        let mut made = Made::of(&["python3", "app.py"]);
        for n in 0..distributions {
            let found = if n % 2 == 0 { FOUND } else { ABSENT };
            made.call(Call::Openat, &format!("/lustre/env/p{n}-1.0.dist-info/entry_points.txt"), found);
        }
        made.call(Call::Openat, library, FOUND);
        made.summary()
    };
    let finding = fires_above("python-distributions", 200, |n| storm(n, "/lustre/env/importlib/__init__.py"));
    assert_eq!(finding.evidence, ["/lustre/env: 201 operations on 201 distributions"]);
    assert_eq!(finding.remedy.metadata_operations_after, 0);
    let eager = "/lustre/env/pkg_resources/__pycache__/__init__.cpython-311.pyc";
    let finding = of("python-distributions", &storm(300, eager)).remove(0);
    assert!(finding.evidence[1].starts_with("pkg_resources"), "{finding:?}");
}

#[test]
fn a_list_of_fonts_that_is_made_at_each_start() {
    let storm = |questions, list: &dyn Fn(&mut Made)| {
        let mut made = Made::of(&["python3", "plot.py"]);
        let fonts = "/lustre/env/matplotlib/mpl-data/fonts/ttf";
        (0..questions).for_each(|n| _ = made.call(Call::Openat, &format!("{fonts}/{n}.ttf"), FOUND));
        made.call(Call::Openat, "/lustre/env/matplotlib/font_manager.py", FOUND);
        list(&mut made);
        made.summary()
    };
    let list = "/tmp/matplotlib-x1/fontlist-v390.json";
    let removed = |made: &mut Made| make_and_remove(made, list);
    let finding = fires_above("font-cache", 200, |questions| storm(questions, &removed));
    assert_eq!(
        finding.remedy.metadata_operations_after,
        1 + 3,
        "the module, and the list, which no other node is asked for"
    );
    let kept = |made: &mut Made| made.call(Call::Openat, list, FOUND).flags = O_CREAT;
    assert!(of("font-cache", &storm(900, &kept)).is_empty(), "the next start finds it");
    assert!(of("font-cache", &storm(900, &|_| ())).is_empty(), "other programs read fonts too");
}
