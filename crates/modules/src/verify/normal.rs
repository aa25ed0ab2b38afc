//! Brings answers into a form in which equal meanings have equal texts.
//!
//! These details are removed: the directories of a side (the n-th modulepath of both sides gets one name), the order and
//! layout of JSON, the length of rules around a path, and the times in Lmod's table.

use super::JudgedSide;
use crate::tools::{ToolAnswer, ToolKind};
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Commands whose output has rules around paths.
const LISTINGS: [&str; 4] = ["avail", "list", "spider", "whatis"];

/// The names that replace the paths of both sides.
#[derive(Debug)]
pub(super) struct Naming {
    /// Shape: longest path first.
    paths: Vec<(Vec<u8>, Vec<u8>)>,
    /// A side lies below a directory of ours. Its paths are longer, and so are the lines into which names are set.
    is_below: bool,
}

impl Naming {
    /// Names the paths of both sides in both answers: a tree may lead to files of the other, as virtual modules do.
    pub(super) fn new(sides: [&JudgedSide; 2], collections: &[PathBuf]) -> Self {
        let named = |side: &JudgedSide| {
            let paths = side.modulepaths.iter().enumerate();
            let named = paths.map(|(number, path)| {
                (path.as_os_str().as_bytes().to_vec(), format!("<modulepath {}>", number + 1).into_bytes())
            });
            named.collect::<Vec<_>>()
        };
        let root = |side: &JudgedSide| {
            side.root.as_ref().map(|path| (path.as_os_str().as_bytes().to_vec(), Vec::new()))
        };
        let roots = sides.into_iter().filter_map(root).collect();
        let saved = |path: &PathBuf| (path.as_os_str().as_bytes().to_vec(), b"<collections>".to_vec());
        let saved = collections.iter().map(saved).collect();
        let mut paths = [named(sides[0]), named(sides[1]), roots, saved].concat();
        paths.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        Self { paths, is_below: sides.iter().any(|side| side.root.is_some()) }
    }

    /// The normal form of an answer.
    pub(super) fn normal(&self, kind: ToolKind, question: &[OsString], answer: &ToolAnswer) -> String {
        let is_json = question.iter().any(|word| word == "-j");
        let is_listing = question.iter().any(|word| LISTINGS.iter().any(|command| word == command));
        let errors = String::from_utf8_lossy(&self.rename(&answer.stderr)).into_owned();
        let errors = match serde_json::from_str::<Value>(&errors) {
            Ok(value) if is_json => sorted(value),
            _ if is_listing && self.is_below && kind == ToolKind::Modules => names(&listing(&errors)),
            _ if is_listing => listing(&errors),
            // Lmod breaks lines at the width of a terminal, so the length of paths decides.
            _ if kind == ToolKind::Lmod => words(&errors),
            _ => errors,
        };
        let output = match kind {
            ToolKind::Lmod => self.rename(&without_table(&answer.stdout)),
            ToolKind::Modules => self.rename(&answer.stdout),
        };
        format!("{}{errors}status {}\n", String::from_utf8_lossy(&output), answer.status)
    }

    /// A text with the names that both sides share.
    pub(super) fn rename(&self, text: &[u8]) -> Vec<u8> {
        let mut renamed = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(&first) = rest.first() {
            let length = |(path, name): &'_ (Vec<u8>, Vec<u8>)| Some((begins(rest, path)?, name.clone()));
            let found = if first == b'/' { self.paths.iter().find_map(length) } else { None };
            match found {
                Some((length, name)) => {
                    renamed.extend(name);
                    rest = &rest[length..];
                }
                None => {
                    renamed.push(first);
                    rest = &rest[1..];
                }
            }
        }
        renamed
    }
}

/// The length of `path` at the beginning of a text, unless it is part of a longer name. Shell and JSON may put a backslash
/// before a character.
fn begins(text: &[u8], path: &[u8]) -> Option<usize> {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let mut at = 0;
    for byte in path {
        at += match text.get(at..)? {
            [b'\\', next, ..] if next == byte => 2,
            [next, ..] if next == byte => 1,
            _ => return None,
        };
    }
    (!text[at..].first().is_some_and(goes_on)).then_some(at)
}

/// JSON with sorted keys and lists: the order means nothing.
fn sorted(value: Value) -> String {
    fn sort(value: Value) -> Value {
        match value {
            Value::Array(values) => {
                let mut values: Vec<Value> = values.into_iter().map(sort).collect();
                values.sort_by_key(Value::to_string);
                Value::Array(values)
            }
            Value::Object(fields) => {
                let mut fields: Vec<(String, Value)> =
                    fields.into_iter().map(|(name, value)| (name, sort(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(fields.into_iter().collect())
            }
            value => value,
        }
    }
    // One line for each entry, so that a difference is a line.
    let Value::Object(parts) = sort(value) else { return String::new() };
    let mut text = String::new();
    for (part, entries) in parts {
        text.push_str(&(part + ":\n"));
        match entries {
            Value::Object(entries) => {
                text.extend(entries.into_iter().map(|(name, value)| format!("{name} {value}\n")));
            }
            entries => text.push_str(&format!("{entries}\n")),
        }
    }
    text
}

/// A listing with rules of one length around each modulepath. A rule is one dash where a path fills the line. Source:
/// `displaySeparatorLine` of modulecmd.tcl.
fn listing(text: &str) -> String {
    let title = |line: &str| {
        let rest = line.trim_start_matches('-').strip_prefix(' ')?;
        let title = rest.trim_end_matches('-').strip_suffix(' ')?;
        (line.starts_with('-') && line.ends_with('-')).then(|| format!("-- {title} --\n"))
    };
    text.lines().map(|line| title(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

/// The sorted words of a listing. The length of a path decides the number of columns and whether a rule stands beside it.
/// The terse listing tells which names belong to which path.
fn names(listing: &str) -> String {
    let is_word = |word: &&str| !word.trim_matches('-').is_empty();
    let mut words: Vec<&str> = listing.split_whitespace().filter(is_word).collect();
    words.sort_unstable();
    words.join("\n") + "\n"
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ") + "\n"
}

/// Replaces the variables `_ModuleTable001_` and following by their plain text, without the times in it.
fn without_table(output: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut table = Vec::new();
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        let is_table = line.strip_prefix(b"export ").unwrap_or(line).starts_with(b"_ModuleTable");
        let value =
            line.strip_prefix(b"_ModuleTable0").and_then(|line| line.splitn(2, |&byte| byte == b'=').nth(1));
        match value {
            Some(value) => table.extend(value.iter().copied().filter(|byte| !b";\n\"'\\".contains(byte))),
            None if is_table => {}
            None => text.extend(line),
        }
    }
    let table = base64(&table);
    let lasting = |line: &&[u8]| !line.starts_with(b"c_rebuildTime") && !line.starts_with(b"c_shortTime");
    text.extend(table.split_inclusive(|&byte| byte == b'\n').filter(lasting).flatten());
    text
}

/// Decodes base64, up to the first other character. Source: RFC 4648, section 4.
fn base64(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.iter().map_while(digit).collect();
    let bytes = digits.chunks(4).flat_map(|digits| {
        let bits = digits
            .iter()
            .enumerate()
            .fold(0_u32, |bits, (at, digit)| bits | u32::from(*digit) << (18 - 6 * at));
        let bytes = bits.to_be_bytes();
        bytes[1..].iter().copied().take(digits.len().saturating_sub(1)).collect::<Vec<_>>()
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming() -> Naming {
        let side = |paths: &[&str]| JudgedSide {
            modulepaths: paths.iter().map(Into::into).collect(),
            variables: Vec::new(),
            root: None,
            over: Vec::new(),
        };
        let collections = ["/old/c", "/new/c"].map(Into::into);
        Naming::new([&side(&["/m/apps", "/m/libs"]), &side(&["/m/apps-virt", "/new/libs"])], &collections)
    }

    fn normal(kind: ToolKind, words: &str, stdout: &str, stderr: &str) -> String {
        let question: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let answer = ToolAnswer { stdout: stdout.into(), stderr: stderr.into(), status: 0 };
        naming().normal(kind, &question, &answer)
    }

    #[test]
    fn modulepaths_have_the_same_name_on_both_sides() {
        let of = |path: &str| normal(ToolKind::Modules, "path a", &format!("echo '{path}/a/1';\n"), "");
        assert_eq!(of("/m/apps"), of("/m/apps-virt"));
        assert_eq!(of("/m/libs"), of("/new/libs"));
        assert_ne!(of("/m/apps"), of("/m/libs"));
        assert_ne!(of("/m/apps2"), of("/m/apps"));
        assert_eq!(of("/m/apps"), "echo '<modulepath 1>/a/1';\nstatus 0\n");
    }

    #[test]
    fn a_path_for_a_shell_is_the_same_path() {
        for (path, text, expected) in [
            ("/a b/m", "x=/a\\ b/m/1;", Some(7)),
            ("/a b/m", "x=/a b/m/1;", Some(6)),
            ("/a\\b", "x=/a\\\\b/1", Some(5)),
            ("/a\\b", "x=/a\\b/1", Some(4)),
            ("/a b", "x=/a\\ bc", None),
        ] {
            assert_eq!(begins(&text.as_bytes()[2..], path.as_bytes()), expected, "{path} {text}");
        }
    }

    #[test]
    fn rules_around_a_path_have_no_length() {
        for command in LISTINGS {
            let of = |text: &str| normal(ToolKind::Modules, command, "", text);
            let expected = of("------ /m/apps -----\na/1\n");
            assert_eq!(of("--- /m/apps-virt ---\na/1\n"), expected);
            assert_eq!(of("- /m/apps-virt --\na/1\n"), expected);
            assert_eq!(of("- /m/apps-virt -\na/1\n"), expected);
            assert_ne!(of("- a/1\n"), of("a/1\n"));
        }
    }

    #[test]
    fn the_order_in_json_says_nothing() {
        let of = |text: &str| normal(ToolKind::Modules, "avail -j", "", text);
        let one = r#"{"/m/apps": {"a/1": {"name": "a/1", "symbols": ["x", "y"]}, "b/1": {"name": "b/1"}}}"#;
        let other = r#"{"/m/apps": {"b/1": {"name": "b/1"}, "a/1": {"symbols": ["y", "x"], "name": "a/1"}}}"#;
        assert_eq!(of(one), of(other));
        assert_ne!(of(one), of(&one.replace(r#""x", "#, "")));
    }

    #[test]
    fn the_table_of_lmod_is_read() {
        assert_eq!(base64(b"Zm9vYmFy"), b"foobar");
        assert_eq!(base64(b"Zm9vYg=="), b"foob");
        // "mT = {\nc_shortTime = 1,\nfn = \"/m/apps/a/1\",\n}"
        let table = "_ModuleTable001_=bVQgPSB7CmNfc2hvcnRUaW1lID0gMSwKZm4gPSAiL20vYXBwcy9hLzEiLAp9;\nexport _ModuleTable001_;\n_ModuleTable_Sz_=1;\nexport _ModuleTable_Sz_;\n";
        assert_eq!(
            normal(ToolKind::Lmod, "load a", table, ""),
            "mT = {\nfn = \"<modulepath 1>/a/1\",\n}\nstatus 0\n"
        );
    }
}
