//! Words and commands that a user can paste into a shell.

use crate::text::escape;

/// One word, in quotes if it needs them.
///
/// A POSIX shell reads back the same bytes. Invalid UTF-8 and hidden characters are written as `$'\xNN'`, which bash,
/// zsh and ksh read.
pub fn quoted(word: impl AsRef<[u8]>) -> String {
    let bytes = word.as_ref();
    let text = escape(bytes);
    if text.as_bytes() != bytes {
        return format!("$'{}'", bytes.iter().map(escaped_byte).collect::<String>());
    }
    let plain = |character: char| character.is_alphanumeric() || "/._-+,=:@%".contains(character);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A path, [`quoted`], as a word that no program takes for a flag.
pub fn quoted_name(name: impl AsRef<std::ffi::OsStr>) -> String {
    let name = name.as_ref().as_encoded_bytes();
    if name.starts_with(b"-") { quoted([b"./", name].concat()) } else { quoted(name) }
}

fn escaped_byte(&byte: &u8) -> String {
    match byte {
        b'\\' => r"\\".to_owned(),
        // An interactive bash would end the word, or put in an earlier command.
        b'\'' | b'!' => format!("\\x{byte:02x}"),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

/// A command and its arguments, each [`quoted`].
pub fn command<Word: AsRef<[u8]>>(words: impl IntoIterator<Item = Word>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [(&[u8], &str); 9] = [
        (b"/a/b.c", "/a/b.c"),
        (b"a b", "'a b'"),
        (b"it's", r"'it'\''s'"),
        (b"", "''"),
        (b"/a\xff'\n", r"$'/a\xff\x27\x0a'"),
        (b"$(rm)", "'$(rm)'"),
        (b"\x1b[31m", r"$'\x1b[31m'"),
        (b"a\\b", r"'a\b'"),
        ("a\u{202e}b".as_bytes(), r"$'a\xe2\x80\xaeb'"),
    ];

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (bytes, expected) in WORDS {
            assert_eq!(quoted(bytes), expected);
        }
        assert_eq!(command(["python3", "-c", "import numpy"]), "python3 -c 'import numpy'");
        assert_eq!((&*quoted_name("-a b"), &*quoted_name("a-b")), ("'./-a b'", "a-b"));
    }

    #[test]
    fn bash_reads_back_the_same_bytes() {
        for (bytes, _) in WORDS {
            let script = format!("printf %s {}", quoted(bytes));
            let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(output.stdout, bytes);
        }
    }
}
