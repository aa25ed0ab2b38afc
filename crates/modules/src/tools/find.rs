//! Finds installed tools below prefixes, and asks each for its version.

use super::{Environment, Tool, ToolKind, ToolVersion, ask_apart};
use crate::ModulesError;
use crate::trust::prober;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Paths of a tool below a prefix. `*` is any one name.
const PLACES: &[(ToolKind, &str)] = &[
    (ToolKind::Modules, "libexec/modulecmd.tcl"),
    (ToolKind::Modules, "lib/modulecmd.tcl"),
    (ToolKind::Modules, "lib/*/modulecmd.tcl"),
    (ToolKind::Modules, "share/Modules/libexec/modulecmd.tcl"),
    (ToolKind::Modules, "usr/lib/modulecmd.tcl"),
    (ToolKind::Modules, "usr/lib/*/modulecmd.tcl"),
    (ToolKind::Modules, "usr/share/Modules/libexec/modulecmd.tcl"),
    (ToolKind::Lmod, "libexec/lmod"),
    (ToolKind::Lmod, "lmod/libexec/lmod"),
    (ToolKind::Lmod, "lmod/lmod/libexec/lmod"),
    (ToolKind::Lmod, "share/lmod/lmod/libexec/lmod"),
    (ToolKind::Lmod, "usr/share/lmod/lmod/libexec/lmod"),
];

/// The tools below each of `prefixes`. A prefix may also be a tool itself.
///
/// Shape: sorted by kind and version, without duplicates.
///
/// **Errors**: [`ModulesError::Tool`] for a prefix without a tool, and for a tool that does not print its version.
pub fn find(prefixes: &[PathBuf]) -> Result<Vec<Tool>, ModulesError> {
    match prefixes.iter().find(|prefix| below(prefix).is_empty()) {
        Some(prefix) => Err(none(prefix)),
        None => find_any(prefixes),
    }
}

/// Like [`find`], but some prefixes may have no tool.
///
/// **Errors**: [`ModulesError::Tool`] if no prefix has one, and for a tool that does not print its version.
pub fn find_any(prefixes: &[PathBuf]) -> Result<Vec<Tool>, ModulesError> {
    let mut found: Vec<(ToolKind, PathBuf)> = prefixes.iter().flat_map(|prefix| below(prefix)).collect();
    found.sort();
    found.dedup();
    let mut tools: Vec<Tool> =
        found.into_iter().map(|(kind, script)| tool(kind, script)).collect::<Result<_, _>>()?;
    tools.sort();
    match (tools.is_empty(), prefixes.last()) {
        (true, Some(prefix)) => Err(none(prefix)),
        _ => Ok(tools),
    }
}

fn none(prefix: &Path) -> ModulesError {
    let why = "there is neither Environment Modules nor Lmod".to_owned();
    ModulesError::Tool { path: prefix.to_owned(), why }
}

fn below(prefix: &Path) -> Vec<(ToolKind, PathBuf)> {
    if prefix.is_file() {
        let is_tcl = prefix.extension().is_some_and(|extension| extension == "tcl");
        let kind = if is_tcl { ToolKind::Modules } else { ToolKind::Lmod };
        return vec![(kind, resolved(prefix))];
    }
    let mut found: Vec<(ToolKind, PathBuf)> = PLACES
        .iter()
        .flat_map(|(kind, place)| places(prefix, place).into_iter().map(|path| (*kind, path)))
        .filter(|(_, path)| path.is_file())
        .map(|(kind, path)| (kind, resolved(&path)))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The path of a file without links: a tool with two names counts once.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn places(prefix: &Path, place: &str) -> Vec<PathBuf> {
    match place.split_once("/*/") {
        None => vec![prefix.join(place)],
        Some((above, below)) => {
            let Ok(entries) = prefix.join(above).read_dir() else { return Vec::new() };
            entries.filter_map(|entry| Some(entry.ok()?.path().join(below))).collect()
        }
    }
}

fn tool(kind: ToolKind, script: PathBuf) -> Result<Tool, ModulesError> {
    let interpreter = interpreter(kind, &script)?;
    let mut tool = Tool { kind, version: ToolVersion(Vec::new()), interpreter, script };
    let answer = ask_apart(&tool, &Environment::default(), &prober(&tool), &["--version".into()])?;
    let text = String::from_utf8_lossy(&answer.stderr);
    let words = text.split_whitespace();
    let version = match kind {
        ToolKind::Modules => words.skip_while(|word| *word != "Release").nth(1),
        ToolKind::Lmod => words.skip_while(|word| *word != "Version").nth(1),
    };
    let version = version.and_then(ToolVersion::parse).ok_or_else(|| ModulesError::Tool {
        path: tool.script.clone(),
        why: format!("it prints no version: `{}`", quell_base::escape(line(&answer.stderr))),
    })?;
    tool.version = version;
    Ok(tool)
}

fn line(text: &[u8]) -> Vec<u8> {
    text.split(|&byte| byte == b'\n').next().unwrap_or_default().iter().copied().take(100).collect()
}

/// The interpreter that the script's first line names.
fn interpreter(kind: ToolKind, script: &Path) -> Result<PathBuf, ModulesError> {
    let file = std::fs::File::open(script).map_err(ModulesError::read(script))?;
    let mut first = Vec::new();
    BufReader::new(file.take(4096)).read_until(b'\n', &mut first).map_err(ModulesError::read(script))?;
    let words = first.strip_prefix(b"#!").unwrap_or_default().trim_ascii();
    let mut words = words.split(|byte| byte.is_ascii_whitespace());
    let named = words.next().unwrap_or_default();
    let by_env = named.ends_with(b"/env").then(|| words.next()).flatten();
    let usual: &[u8] = match kind {
        ToolKind::Modules => b"tclsh",
        ToolKind::Lmod => b"lua",
    };
    let name = by_env.unwrap_or(if named.is_empty() { usual } else { named });
    let path = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    let places = super::PATH.split(':').map(|place| Path::new(place).join(&path));
    let found = std::iter::once(path.clone())
        .filter(|path| path.is_absolute())
        .chain(places)
        .find(|path| path.is_file());
    found.ok_or_else(|| ModulesError::Tool {
        path: script.to_owned(),
        why: format!("its interpreter `{}` does not exist", quell_base::shown(path)),
    })
}
