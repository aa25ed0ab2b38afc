//! The key of an entry: what a program's start depends on, and nothing that changes from job to job.
//!
//! The key says which image is likely to serve. It never decides what is right: each run compares its image with the
//! originals. So the key has the paths of program and script, not their content or inodes: an edited script keeps its entry,
//! and nodes with a local installation each, where inodes differ, share one.
//!
//! `PATH` counts by the program that is found along it: batch systems and editors put directories of one job there. Of the
//! other arguments none counts: one image learns to serve all of them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use quell_base::interpreter::{Interpreted, interpreted};
use rustix::fs::{Access, FileType};

/// The program of a command, and the script that it interprets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The file, as it was found along `PATH`. Links are not resolved: a virtual environment's `python` is not the system's.
    pub program: PathBuf,
    /// The script, by its absolute path; `-m MODULE`; or `-c` for code on the command line.
    pub script: Option<OsString>,
}

/// Programs that start the program which follows on their command line.
const WRAPPERS: &[&str] =
    &["env", "time", "nice", "ionice", "numactl", "taskset", "stdbuf", "timeout", "setarch", "chrt"];

impl Subject {
    /// The subject of `command`, started in `directory` with `search` as its `PATH`; `None` if there is no such program.
    pub fn of(command: &[OsString], directory: &Path, search: Option<&OsStr>) -> Option<Self> {
        let program = find(command.first()?, directory, search)?;
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if WRAPPERS.contains(&name) {
            let plain = |word: &OsString| !is_option(word) && !word.as_bytes().contains(&b'=');
            let inner = (1..command.len()).filter(|at| plain(&command[*at]));
            let mut inner = inner.filter_map(|at| Self::of(&command[at..], directory, search));
            return inner.next().or(Some(Self { program, script: None }));
        }
        let script = script(command, directory);
        Some(Self { program, script })
    }
}

fn script(command: &[OsString], directory: &Path) -> Option<OsString> {
    let is_file = |path: &Path| {
        rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
    };
    match interpreted(command, |_, word| is_file(&directory.join(word)))? {
        Interpreted::Code => Some("-c".into()),
        Interpreted::Module(module) => Some(OsString::from_vec([b"-m ", module.as_bytes()].concat())),
        Interpreted::Script(script) => Some(without_dots(&directory.join(script)).into_os_string()),
    }
}

fn is_option(word: &OsStr) -> bool {
    word.as_bytes().first().is_some_and(|first| *first == b'-')
}

/// The path without `.`, so that `app.py` and `./app.py` are one script.
fn without_dots(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The file that a shell would execute. The walk stops at the first file that may be executed.
fn find(program: &OsStr, directory: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let path = directory.join(program);
        return is_executable(&path).then(|| without_dots(&path));
    }
    let search = search.map_or(&b"/bin:/usr/bin"[..], OsStr::as_bytes);
    let mut candidates =
        search.split(|byte| *byte == b':').map(|part| directory.join(OsStr::from_bytes(part)).join(program));
    let found = candidates.find(|candidate| is_executable(candidate))?;
    Some(without_dots(&found))
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
        && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Everything that decides a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyParts {
    /// Program and script.
    pub subject: Subject,
    /// The search variables that are set. Shape: in a fixed order.
    pub variables: Vec<(&'static str, OsString)>,
    /// The machine's architecture.
    pub architecture: &'static str,
    /// Directories that are packed whatever their file system, as the user gave them.
    pub roots: Vec<PathBuf>,
}

impl KeyParts {
    /// The key.
    pub fn key(&self) -> CacheKey {
        let mut hasher = blake3::Hasher::new();
        let mut add = |name: &str, value: &[u8]| {
            // Lengths keep parts apart.
            hasher
                .update(name.as_bytes())
                .update(&[0])
                .update(&(value.len() as u64).to_le_bytes())
                .update(value);
        };
        add("quell-cache", VERSION);
        add("architecture", self.architecture.as_bytes());
        add("program", self.subject.program.as_os_str().as_bytes());
        if let Some(script) = &self.subject.script {
            add("script", script.as_bytes());
        }
        self.variables.iter().for_each(|(name, value)| add(name, value.as_bytes()));
        self.roots.iter().for_each(|root| add("root", root.as_os_str().as_bytes()));
        CacheKey(hasher.finalize().to_hex()[..CacheKey::DIGITS].to_owned())
    }
}

/// Part of every key. A change orphans all entries.
const VERSION: &[u8] = b"1";

/// The name of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheKey(String);

impl CacheKey {
    const DIGITS: usize = 32;

    /// The key that `name` is, if it is one.
    pub fn parse(name: &str) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (name.len() == Self::DIGITS && name.bytes().all(digit)).then(|| Self(name.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_script_of_an_interpreter_counts_and_no_other_argument_does() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["app.py", "data.csv", "python3.11", "python3", "python", "simulate", "bash"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let script = |line: &str| {
            let subject = Subject::of(&words(line), directory.path(), None).unwrap();
            subject.script.map(|script| script.into_string().unwrap())
        };
        let app = directory.path().join("app.py").into_os_string().into_string().unwrap();
        for (line, expected) in [
            ("./python3.11 app.py data.csv", Some(app.as_str())),
            ("./python3 -X dev -B ./app.py --verbose", Some(&app)),
            ("./python -m pkg.tool data.csv", Some("-m pkg.tool")),
            ("./python -c pass data.csv", Some("-c")),
            ("./python", None),
            ("./simulate data.csv", None),
            ("./bash -x app.py", Some(&app)),
        ] {
            assert_eq!(script(line).as_deref(), expected, "{line}");
        }
        let subject = |line: &str| Subject::of(&words(line), directory.path(), None).unwrap();
        assert_eq!(subject("env A=1 sh app.py"), subject("sh app.py"));
        assert_eq!(subject("nice -n 5 sh app.py"), subject("sh app.py"));
        assert_eq!(Subject::of(&words("./no-such-program"), directory.path(), None), None);
        assert_eq!(Subject::of(&words("no-such-program-of-quell"), directory.path(), None), None);
    }

    #[test]
    fn each_part_makes_another_key_and_no_two_run_together() {
        let base = KeyParts {
            subject: Subject { program: "/bin/a".into(), script: None },
            variables: vec![("PYTHONPATH", "/p".into())],
            architecture: "x86_64",
            roots: Vec::new(),
        };
        let with = |change: &dyn Fn(&mut KeyParts)| {
            let mut parts = base.clone();
            change(&mut parts);
            parts.key()
        };
        let keys = [
            base.key(),
            with(&|parts| parts.subject.program = "/bin/b".into()),
            with(&|parts| parts.subject.script = Some("/s".into())),
            with(&|parts| parts.variables[0].1 = "/q".into()),
            with(&|parts| parts.variables.clear()),
            with(&|parts| parts.architecture = "aarch64"),
            with(&|parts| parts.roots.push("/p".into())),
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert_eq!(base.key(), base.clone().key());
        assert_eq!(CacheKey::parse(base.key().as_str()), Some(base.key()));
        assert_eq!(CacheKey::parse("../../../../../../../etc/passwd0"), None);
    }
}
