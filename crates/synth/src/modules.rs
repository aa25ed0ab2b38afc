//! `module avail` of Environment Modules on a tree of modulefiles: what source 000 counted, taken apart so that it scales.
//!
//! The source's tables for 2 modulepaths of 15 names in 4 versions follow exactly from:
//!
//! ```text
//!                 openat (failed)     stat      newfstatat  access  getdents64  read
//! directory       1                   1 (name)  1           -       2           -
//! rc file         1                   1         -           1       -           2
//! file, checked   1 (if unreadable)   1         -           -       -           1 (if readable)
//! the rest        29 (6)              8 (2)     23          7 (2)   -           171
//! ```
//! The rest is the start of shell, Tcl and Modules; it lies on the node, not in the tree. So 128 files, 30 rc files and 32
//! directories give 219 opens, as printed. The calls of the first table to `write` are misprinted there (20 for 12).

use super::script::Script;
use super::share::share;
use quell_trace::{Call, Errno, Outcome};

/// The size of the tree, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulesShape {
    /// Modulepaths.
    pub paths: u32,
    /// Names in each.
    pub names: u32,
    /// Versions of each name.
    pub versions: u32,
    /// The setup.
    pub setup: ModulesSetting,
}

impl Default for ModulesShape {
    fn default() -> Self {
        Self { paths: 2, names: 15, versions: 4, setup: ModulesSetting::Plain }
    }
}

/// The setups of source 000, each on top of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModulesSetting {
    /// An rc file for each name.
    Plain,
    /// One rc file for each modulepath.
    RcFile,
    /// `mcookie_check` is `eval`: files are not opened to see whether they are modulefiles.
    Eval,
    /// Virtual modules: directories of names are not looked into.
    Virtual,
}

/// Names, counted from 0, that also have a file that is none, an unreadable version and one for a later release.
const PECULIAR: [u32; 2] = [6, 11];

impl ModulesShape {
    pub(super) fn calls(&self) -> u64 {
        u64::from(self.paths) * (20 + u64::from(self.names) * (12 + 4 * u64::from(self.versions))) + 500
    }

    pub(super) fn play(&self, script: &mut Script) {
        self.declare(script);
        let path: Vec<String> = (0..self.paths).map(|path| script.at(&modulepath(path))).collect();
        script.execute("/usr/bin/tclsh", 20_000, &[], &[("MODULEPATH", path.join(":"))]);
        rest(script);
        for path in 0..self.paths {
            self.walk(script, path);
        }
    }

    fn is_peculiar(&self, name: u32) -> bool {
        PECULIAR.contains(&name)
    }

    /// The modulefiles of a name. Shape: as a directory lists them.
    fn files(&self, path: u32, name: u32) -> Vec<String> {
        let below = format!("{}/{}", modulepath(path), name_of(path, name));
        let versions = (1..=self.versions).map(|version| format!("{below}/{version}.0"));
        let mut files: Vec<String> = versions.collect();
        if self.is_peculiar(name) {
            files.push(format!("{below}/{}.0", self.versions + 1));
            // `eval` requires that files which are no modulefiles are removed before.
            if self.setup < ModulesSetting::Eval {
                files.push(format!("{below}/README"));
            }
        }
        files
    }

    fn rc_file(&self, path: u32, name: u32) -> String {
        let file = if path.is_multiple_of(2) { ".version" } else { ".modulerc" };
        format!("{}/{}/{file}", modulepath(path), name_of(path, name))
    }

    fn declare(&self, script: &mut Script) {
        for path in 0..self.paths {
            if self.setup >= ModulesSetting::RcFile {
                script.text(&format!("{}/.modulerc", modulepath(path)), "#%Module\n");
            }
            for name in 0..self.names {
                if self.setup == ModulesSetting::Plain {
                    script.text(&self.rc_file(path, name), "#%Module\nset ModulesVersion 2.0\n");
                }
                let files = self.files(path, name);
                for (number, file) in files.iter().enumerate() {
                    self.declare_file(script, name, number as u32, file);
                }
            }
        }
    }

    fn declare_file(&self, script: &mut Script, name: u32, number: u32, file: &str) {
        match (self.is_peculiar(name), number) {
            (true, 0) => script.secret(file, "#%Module\n"),
            (true, number) if number == self.versions => script.text(file, "#%Module99\n"),
            (true, number) if number > self.versions => script.text(file, ""),
            _ => script.text(file, "#%Module\n"),
        }
    }

    fn walk(&self, script: &mut Script, path: u32) {
        if self.setup >= ModulesSetting::RcFile {
            evaluate(script, &format!("{}/.modulerc", modulepath(path)));
        }
        list(script, &modulepath(path));
        if self.setup == ModulesSetting::Virtual {
            return;
        }
        for name in 0..self.names {
            let directory = format!("{}/{}", modulepath(path), name_of(path, name));
            script.ask(Call::Stat, &directory);
            list(script, &directory);
            if self.setup == ModulesSetting::Plain {
                evaluate(script, &self.rc_file(path, name));
            }
            for file in self.files(path, name) {
                script.ask(Call::Stat, &file);
                if self.setup < ModulesSetting::Eval
                    && let Some(fd) = script.open(&file)
                {
                    script.read(fd, 10);
                    script.close(fd);
                }
            }
        }
    }
}

/// An rc file is evaluated.
fn evaluate(script: &mut Script, file: &str) {
    script.ask(Call::Access, file);
    script.ask(Call::Stat, file);
    if let Some(fd) = script.open(file) {
        script.read(fd, 4096);
        script.read_end(fd);
        script.close(fd);
    }
}

fn list(script: &mut Script, directory: &str) {
    let Some(fd) = script.open_directory(directory) else { return };
    script.on(fd, Call::Newfstatat, Outcome::Success(0));
    script.list(fd);
    script.list(fd);
    script.close(fd);
}

/// The calls of the command before it looks at a modulepath. Files lie on the node; the counts are those of the table above,
/// and of the calls that the tree has no part in.
fn rest(script: &mut Script) {
    const OPENED: u32 = 23;
    const MISSED: u32 = 6;
    let file = |number: u32| format!("/usr/lib/tcltk/x86_64-linux-gnu/tcl8.6/part{number:02}.tcl");
    let absent = |number: u32| format!("/usr/lib/tcltk/absent{number:02}.tcl");
    (0..OPENED).for_each(|number| script.file(&file(number), 12_000));
    (0..6).for_each(|number| {
        script.fails(Call::Execve, &format!("/usr/local/bin/tclsh{number}"), Errno::ENOENT)
    });
    script.ask(Call::Execve, &file(0));
    (0..MISSED).for_each(|number| _ = script.open(&absent(number)));
    for number in 0..OPENED {
        let Some(fd) = script.open(&file(number)) else { continue };
        script.on(fd, Call::Newfstatat, Outcome::Success(0));
        (0..share(171, OPENED.into(), number.into())).for_each(|_| script.read(fd, 4096));
        (0..share(54, OPENED.into(), number.into()))
            .for_each(|_| script.on(fd, Call::Mmap, Outcome::Success(1 << 40)));
        (0..share(10, OPENED.into(), number.into()))
            .for_each(|_| script.on(fd, Call::Pread64, Outcome::Success(64)));
        for (call, calls, failed) in [(Call::Ioctl, 12, 7), (Call::Lseek, 9, 4), (Call::Fcntl, 12, 0)] {
            if u64::from(number) < calls {
                let fails = u64::from(number) < failed;
                let errno = if call == Call::Lseek { ESPIPE } else { ENOTTY };
                script.on(fd, call, if fails { Outcome::Failure(errno) } else { Outcome::Success(0) });
            }
        }
        script.close(fd);
    }
    (0..8).for_each(|number| script.ask(Call::Stat, &if number < 6 { file(number) } else { absent(number) }));
    (0..7)
        .for_each(|number| script.ask(Call::Access, &if number < 5 { file(number) } else { absent(number) }));
    (0..25).for_each(|number| script.fails(Call::Readlink, &file(number % OPENED), EINVAL));
    (0..12).for_each(|_| script.on(1, Call::Write, Outcome::Success(80)));
}

const EINVAL: Errno = Errno(22);
const ENOTTY: Errno = Errno(25);
const ESPIPE: Errno = Errno(29);

fn modulepath(path: u32) -> String {
    match path {
        0 => "applications".to_owned(),
        1 => "libraries".to_owned(),
        further => format!("modulepath{further:03}"),
    }
}

fn name_of(path: u32, name: u32) -> String {
    let kind = if path == 0 { "app" } else { "lib" };
    match u8::try_from(name).ok().filter(|name| *name < 26) {
        Some(name) => format!("{kind}{}", char::from(b'a' + name)),
        None => format!("{kind}{name:04}"),
    }
}
