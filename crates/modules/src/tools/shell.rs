//! Assignments of shell variables: those before a command, and those in the commands that a tool prints for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A variable and its value.
pub(crate) type Assignment = (OsString, OsString);

/// The assignments at the beginning of a command, and its other words.
pub(crate) fn split_assignments(words: &[OsString]) -> (Vec<Assignment>, &[OsString]) {
    let assignments: Vec<Assignment> = words.iter().map_while(|word| assignment(word.as_bytes())).collect();
    let rest = &words[assignments.len()..];
    (assignments, rest)
}

fn assignment(word: &[u8]) -> Option<Assignment> {
    let end = word.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&word[..end], &word[end + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_variable = name.first().is_some_and(|first| !first.is_ascii_digit()) && name.iter().all(is_name);
    is_variable.then(|| (OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
}

/// The variables that commands for a shell of the Bourne family set. Other commands, functions and aliases are passed over.
pub(crate) fn exported(commands: &[u8]) -> Vec<Assignment> {
    let mut found: Vec<Assignment> = Vec::new();
    for words in statements(commands) {
        let words =
            if words.first().is_some_and(|word| word == b"export") { &words[1..] } else { &words[..] };
        if let Some((name, value)) = words.first().and_then(|word| assignment(word)) {
            found.retain(|(known, _)| *known != name);
            found.push((name, value));
        }
    }
    found
}

/// The words of each command, without their quotes.
fn statements(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut statements = vec![Vec::new()];
    let (mut word, mut quote): (Option<Vec<u8>>, u8) = (None, 0);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (b'\'', b'\'') | (b'"', b'"') => quote = 0,
            (b'"' | 0, b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (0, b'\'' | b'"') => {
                quote = byte;
                word.get_or_insert_default();
            }
            (0, b' ' | b'\t' | b';' | b'\n') => {
                let last = statements.last_mut().expect("there is always one");
                last.extend(word.take());
                if matches!(byte, b';' | b'\n') {
                    statements.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    statements.last_mut().expect("there is always one").extend(word);
    statements
}

/// A word that assigns a variable.
pub(crate) fn assigning((name, value): &Assignment) -> OsString {
    OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_a_shell_reads_them() {
        let text = b"A=1; export A;\nexport B='x y;z'\nC=\"a\\\"b\"; export C;\nD=a\\ b:\\$c;\nunset E;\nalias f='g=h';\nA=2;";
        let found: Vec<String> =
            exported(text).iter().map(|one| assigning(one).into_string().unwrap_or_default()).collect();
        assert_eq!(found, ["B=x y;z", "C=a\"b", "D=a b:$c", "A=2"]);
        let words: Vec<OsString> = ["A=b c", "load", "x=1"].map(Into::into).to_vec();
        let (assignments, rest) = split_assignments(&words);
        assert_eq!((assignments.len(), rest), (1, &words[1..]));
        assert!(split_assignments(&["1A=b".into()]).0.is_empty());
    }
}
