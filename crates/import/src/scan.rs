//! Splits the text of a call into its parts: `name(arguments) = result`.
//!
//! Strings, brackets, comments, and the paths that `-y` prints behind descriptors may hold any separator, so the
//! scanner steps over them. It copies nothing.

/// A call, in parts of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'a> {
    pub(crate) name: &'a [u8],
    arguments: [&'a [u8]; MOST],
    count: usize,
    /// The text behind the equals sign; `None` where the text ends before it.
    pub(crate) result: Option<&'a [u8]>,
}

/// The maximum number of arguments: no call that quell records prints more.
const MOST: usize = 8;

impl<'a> Scanned<'a> {
    /// An argument; empty where it is missing.
    pub(crate) fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments().get(index).copied().unwrap_or_default()
    }

    pub(crate) fn arguments(&self) -> &[&'a [u8]] {
        &self.arguments[..self.count]
    }
}

/// The name of the call that `text` begins with.
pub(crate) fn name(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    (length > 0 && !text[0].is_ascii_digit() && text.get(length) == Some(&b'(')).then(|| &text[..length])
}

/// Splits a call; `None` when `text` is no call. A truncated text gives the arguments that it has.
pub(crate) fn scan(text: &[u8]) -> Option<Scanned<'_>> {
    let name = name(text)?;
    let mut scanned = Scanned { name, arguments: [&[]; MOST], count: 0, result: None };
    let begin = name.len() + 1;
    let end = for_each_item(&text[begin..], b')', |item| {
        if scanned.count < MOST {
            scanned.arguments[scanned.count] = item;
            scanned.count += 1;
        }
    });
    if let Some(end) = end {
        let rest = text[begin + end..].trim_ascii_start();
        scanned.result = rest.strip_prefix(b"=").map(<[u8]>::trim_ascii);
    }
    Some(scanned)
}

/// Calls `each` for the items of a list that ends with `close`, and returns where the list ended; `None` when the text ended
/// first. Items are trimmed; an empty list has none.
pub(crate) fn for_each_item<'a>(text: &'a [u8], close: u8, mut each: impl FnMut(&'a [u8])) -> Option<usize> {
    let (mut at, mut begin, mut depth) = (0, 0, 0_u32);
    let mut item = |from: usize, to: usize, is_last: bool| {
        let item = text[from..to].trim_ascii();
        // The thread ended before strace could read the remaining arguments.
        let item = item.strip_suffix(b"<unfinished ...>").map_or(item, <[u8]>::trim_ascii_end);
        if !(item.is_empty() && is_last) {
            each(item);
        }
    };
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at),
            b'/' if text.get(at + 1) == Some(&b'*') => at = comment_end(text, at),
            b'<' if begins_annotation(text, at) => at = annotation_end(text, at),
            b'(' | b'[' | b'{' => (depth, at) = (depth + 1, at + 1),
            byte if depth == 0 && byte == close => {
                item(begin, at, true);
                return Some(at + 1);
            }
            b')' | b']' | b'}' => (depth, at) = (depth.saturating_sub(1), at + 1),
            b',' if depth == 0 => {
                item(begin, at, false);
                (begin, at) = (at + 1, at + 1);
            }
            _ => at += 1,
        }
    }
    item(begin.min(text.len()), text.len(), true);
    None
}

/// The offset behind the string that begins at `at`.
pub(crate) fn string_end(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn comment_end(text: &[u8], at: usize) -> usize {
    text[at..].windows(2).position(|pair| pair == b"*/").map_or(text.len(), |length| at + length + 2)
}

/// Tells an angle bracket behind a descriptor from a shift and from `<unfinished ...>`.
fn begins_annotation(text: &[u8], at: usize) -> bool {
    let behind = text[..at].last().is_some_and(u8::is_ascii_digit) || text[..at].ends_with(b"AT_FDCWD");
    behind && text.get(at + 1).is_some_and(|next| !b"< .".contains(next))
}

/// The offset behind the annotation that begins at `at`. Strace escapes angle brackets in paths, so the others nest
/// (`</dev/null<char 1:3>>`). In sockets `->` stands between two addresses.
pub(crate) fn annotation_end(text: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (1_u32, at + 1);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'<' => depth += 1,
            b'>' if text[at - 1] == b'-' && !is_last_of_path(text, at) => {}
            b'>' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// True when a bracket behind a minus ends an annotation: text that may follow a descriptor then follows it.
fn is_last_of_path(text: &[u8], at: usize) -> bool {
    matches!(text.get(at + 1), None | Some(b',' | b')' | b' ' | b']' | b'}' | b'>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Vec<String>, Option<String>) {
        let scanned = scan(text.as_bytes()).unwrap();
        let own = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (scanned.arguments().iter().map(|argument| own(argument)).collect(), scanned.result.map(own))
    }

    #[test]
    fn a_call_is_taken_apart() {
        for (text, arguments, result) in [
            ("getpid() = 7", &[][..], "7"),
            ("close(3)                = 0", &["3"], "0"),
            (
                r#"open("a) = 1, \"b", O_RDONLY) = -1 ENOENT (No)"#,
                &[r#""a) = 1, \"b""#, "O_RDONLY"],
                "-1 ENOENT (No)",
            ),
            (
                "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 7",
                &["-1", "[{WIFEXITED(s) && WEXITSTATUS(s) == 0}]", "0", "NULL"],
                "7",
            ),
            ("read(3</a/b(c, d\">, 0x1 /* x, ) */, 4) = ?", &["3</a/b(c, d\">", "0x1 /* x, ) */", "4"], "?"),
            ("write(1</dev/null<char 1:3>>, \"\", 0) = 0", &["1</dev/null<char 1:3>>", "\"\"", "0"], "0"),
            (
                "read(5<TCP:[1.2.3.4:5->[::1]:6]>, \"\", 0) = 0",
                &["5<TCP:[1.2.3.4:5->[::1]:6]>", "\"\"", "0"],
                "0",
            ),
            ("close(3</tmp/a->) = 0", &["3</tmp/a->"], "0"),
            ("close(3</tmp/a>(deleted)) = 0", &["3</tmp/a>(deleted)"], "0"),
            ("read(3,  <unfinished ...>) = ?", &["3"], "?"),
            ("read(3 <unfinished ...>) = ?", &["3"], "?"),
            ("capset({x=1<<3, y=2}) = 0", &["{x=1<<3, y=2}"], "0"),
        ] {
            assert_eq!(
                parts(text),
                (arguments.iter().map(|a| (*a).to_owned()).collect(), Some(result.to_owned()))
            );
        }
    }

    #[test]
    fn a_text_that_ends_early_gives_what_it_has() {
        assert_eq!(parts("read(3, "), (vec!["3".to_owned()], None));
        assert_eq!(parts("read(3, \"ab"), (vec!["3".to_owned(), "\"ab".to_owned()], None));
        assert_eq!(parts("exit_group(0)"), (vec!["0".to_owned()], None));
        assert_eq!(parts("close(3</tmp/a").0, ["3</tmp/a"]);
    }

    #[test]
    fn what_is_no_call_is_none() {
        for text in ["", "(", "3(4) = 5", "--- SIGCHLD {} ---", "a b(c) = d"] {
            assert_eq!(scan(text.as_bytes()), None, "{text}");
        }
    }
}
