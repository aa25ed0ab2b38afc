//! Hears from Python programs which import runs, and from which statement.
//!
//! ```text
//! PYTHONPATH=HOOK:... -> HOOK/sitecustomize.py wraps the interpreter's own import -> access("HOOK/@begin/MODULE:LINE:FILE")
//!                                                                                   access("HOOK/@end/ORIGIN")
//! ```
//!
//! Such a call needs no channel of its own, and stands among the thread's other calls in the right order. Calls on the hook and its
//! directory are not part of the program: they are left out of the trace, and so is the entry in `PYTHONPATH`.

use crate::engine::ObservedCall;
use quell_base::escape;
use quell_trace::{Call, Class, Outcome, ProcessId};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

const HOOK: &str = include_str!("sitecustomize.py");
const VARIABLE: &str = "PYTHONPATH";
/// Names that are tried for the directory.
const MOST_NAMES: u32 = 1000;

/// The directory of the hook. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ImportHook {
    directory: PathBuf,
}

impl ImportHook {
    /// Makes the directory, in which only this user may write.
    pub(crate) fn create() -> io::Result<Self> {
        // A colon would end the entry.
        let fits = |place: &PathBuf| place.is_absolute() && !place.as_os_str().as_bytes().contains(&b':');
        let place = Some(std::env::temp_dir()).filter(fits).unwrap_or_else(|| PathBuf::from("/tmp"));
        for number in 0..MOST_NAMES {
            let directory = place.join(format!("quell-python-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {
                    let hook = Self { directory };
                    std::fs::write(hook.directory.join("sitecustomize.py"), HOOK)?;
                    return Ok(hook);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Puts the hook before the other entries of `PYTHONPATH`.
    pub(crate) fn add_to(&self, environment: &mut Vec<(OsString, OsString)>) {
        let mut value = self.directory.clone().into_os_string();
        let given = environment.iter().position(|(name, _)| name == VARIABLE);
        if let Some(index) = given {
            let (_, others) = environment.swap_remove(index);
            // An empty entry would be the working directory.
            if !others.is_empty() {
                value.push(":");
                value.push(others);
            }
        }
        environment.push((VARIABLE.into(), value));
    }

    pub(crate) fn watch(&self) -> ImportWatch {
        let directory = self.directory.clone().into_os_string().into_vec();
        ImportWatch { directory, open: HashSet::new(), is_heard: false }
    }
}

impl Drop for ImportHook {
    fn drop(&mut self) {
        // A program that runs on starts without the hook.
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Tells the calls of the hook from those of the program.
#[derive(Debug)]
pub(crate) struct ImportWatch {
    directory: Vec<u8>,
    /// Descriptors of the hook's files.
    open: HashSet<(ProcessId, i32)>,
    is_heard: bool,
}

/// A call that is not the program's own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HookCall {
    /// An import begins.
    Begin { module: String, file: Option<String>, line: u32 },
    /// The innermost import of the thread ends.
    End { origin: Option<String> },
    /// A call on the hook's files.
    Own,
}

impl ImportWatch {
    /// True once an import was told.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// `None` for a call of the program.
    pub(crate) fn call(&mut self, observed: &ObservedCall<'_>, process: ProcessId) -> Option<HookCall> {
        let below = observed.path.and_then(|path| path.strip_prefix(&self.directory[..]));
        let Some(below) = below.filter(|below| below.first().is_none_or(|&byte| byte == b'/')) else {
            return self.by_descriptor(observed, process);
        };
        if let (Class::Open, Outcome::Success(fd)) = (observed.call.class(), observed.outcome) {
            self.open.insert((process, fd as i32));
        }
        let told = told(below);
        self.is_heard |= told.is_some();
        Some(told.unwrap_or(HookCall::Own))
    }

    /// A new program has none of the descriptors of the hook.
    pub(crate) fn forget(&mut self, process: ProcessId) {
        self.open.retain(|(other, _)| *other != process);
    }

    fn by_descriptor(&mut self, observed: &ObservedCall<'_>, process: ProcessId) -> Option<HookCall> {
        if self.open.is_empty() {
            return None;
        }
        let descriptor = (process, observed.arguments.fd.number()?);
        let is_own = match observed.call {
            Call::Close => self.open.remove(&descriptor),
            _ => self.open.contains(&descriptor),
        };
        is_own.then_some(HookCall::Own)
    }

    /// The value of `PYTHONPATH` without the hook; `None` where nothing else was in it.
    pub(crate) fn without_hook(&self, name: &str, value: String) -> Option<String> {
        if name != VARIABLE {
            return Some(value);
        }
        match value.strip_prefix(&escape(&self.directory)) {
            Some("") => None,
            Some(others) => Some(others.strip_prefix(':').unwrap_or(&value).to_owned()),
            None => Some(value),
        }
    }
}

/// The meaning of a name below the hook's directory.
fn told(below: &[u8]) -> Option<HookCall> {
    let text = |bytes: &[u8]| Some(escape(bytes)).filter(|text| !text.is_empty());
    if let Some(origin) = below.strip_prefix(b"/@end/") {
        return Some(HookCall::End { origin: text(origin) });
    }
    let mut parts = below.strip_prefix(b"/@begin/")?.splitn(3, |&byte| byte == b':');
    let (module, line, file) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let line = OsStr::from_bytes(line).to_str().and_then(|line| line.parse().ok()).unwrap_or(0);
    Some(HookCall::Begin { module: escape(module), file: text(file), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_comes_first_and_does_not_add_the_working_directory() {
        let hook = ImportHook::create().unwrap();
        let place = hook.directory.to_str().unwrap().to_owned();
        for (given, expected) in
            [(None, place.clone()), (Some(""), place.clone()), (Some("/a:/b"), format!("{place}:/a:/b"))]
        {
            let given = given.map(|value| (OsString::from(VARIABLE), OsString::from(value)));
            let mut environment: Vec<_> = given.into_iter().collect();
            hook.add_to(&mut environment);
            assert_eq!(environment, [(OsString::from(VARIABLE), OsString::from(expected))]);
        }
        let watch = hook.watch();
        for (value, expected) in [
            (place.clone(), None),
            (format!("{place}:/a"), Some("/a".to_owned())),
            ("/a".to_owned(), Some("/a".to_owned())),
        ] {
            assert_eq!(watch.without_hook(VARIABLE, value), expected);
        }
        let directory = hook.directory.clone();
        drop(hook);
        assert!(!directory.exists());
    }

    #[test]
    fn names_below_the_hook_tell_imports() {
        let begin = |module: &str, file: Option<&str>, line| HookCall::Begin {
            module: module.into(),
            file: file.map(str::to_owned),
            line,
        };
        for (below, expected) in [
            ("/@begin/numpy.core:12:/a/b:c.py", Some(begin("numpy.core", Some("/a/b:c.py"), 12))),
            ("/@begin/sys:0:", Some(begin("sys", None, 0))),
            ("/@begin/broken", None),
            ("/@end//a/b.py", Some(HookCall::End { origin: Some("/a/b.py".into()) })),
            ("/@end/", Some(HookCall::End { origin: None })),
            ("/sitecustomize.py", None),
        ] {
            assert_eq!(told(below.as_bytes()), expected, "{below}");
        }
    }
}
