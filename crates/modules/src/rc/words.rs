//! Words of Tcl, as far as they are literal.
//!
//! Source: Tcl(n), rules 1 to 12. Words that Tcl would substitute are refused: those with `$`, `[` or `{*}`, and backslash
//! sequences other than those that stand for the character behind them.

use std::fmt;

/// The reason for which a script is not literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLiteralReason {
    /// `$`.
    Variable,
    /// `[`.
    Substitution,
    /// A backslash before a character whose meaning it changes.
    Escape,
    /// `{*}`.
    Expansion,
    /// A brace or quote that is not closed.
    Unclosed,
    /// Text right behind a closing brace or quote.
    Trailing,
    /// A carriage return that does not end a line, NUL or Ctrl-Z: Tcl's channels treat them in several ways.
    Control,
}

impl fmt::Display for NotLiteralReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Variable => "it uses a variable",
            Self::Substitution => "it runs a command inside another",
            Self::Escape => "it has an escape sequence",
            Self::Expansion => "it expands a list",
            Self::Unclosed => "a brace or quote is not closed",
            Self::Trailing => "something follows a closing brace or quote",
            Self::Control => "it has a control character",
        })
    }
}

/// The place at which a script stops being literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLiteral {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: NotLiteralReason,
}

/// A literal word.
pub type Word = Vec<u8>;

/// Reads a script. Shape: one entry a command: its line, from 1, and its words, at least one.
///
/// **Errors**: [`NotLiteral`] at the first word that Tcl would substitute or cannot read.
pub fn words(script: &[u8]) -> Result<Vec<(usize, Vec<Word>)>, NotLiteral> {
    let mut reader = Reader { script, place: 0 };
    let mut commands = Vec::new();
    while reader.skip_to_command() {
        let begin = reader.place;
        let command = reader.command().map_err(|reason| NotLiteral { line: reader.line(), reason })?;
        commands.push((line_of(script, begin), command));
    }
    Ok(commands)
}

/// The line, from 1, of a place in a text.
pub fn line_of(text: &[u8], place: usize) -> usize {
    text[..place.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A word as Tcl reads it back; `None` for one that can neither stand alone nor be put in braces.
pub fn quoted(word: &[u8]) -> Option<Word> {
    let stands_alone = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/+-:,=@%^~*?".contains(byte);
    if !word.is_empty() && word.iter().all(stands_alone) {
        return Some(word.to_vec());
    }
    let barred = |byte: &u8| matches!(byte, b'\\' | b'{' | b'}' | b'\r' | b'\n' | 0 | 0x1a);
    (!word.iter().any(barred)).then(|| [b"{", word, b"}"].concat())
}

struct Reader<'a> {
    script: &'a [u8],
    place: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.script[self.place..]
    }

    fn peek(&self) -> Option<u8> {
        self.script.get(self.place).copied()
    }

    fn line(&self) -> usize {
        line_of(self.script, self.place)
    }

    /// Skips blanks, ends of commands and comments. Tells whether a command follows.
    fn skip_to_command(&mut self) -> bool {
        loop {
            match self.rest() {
                [] => return false,
                [b'#', ..] => self.skip_comment(),
                [b'\\', b'\n', ..] => self.place += 2,
                [b'\\', b'\r', b'\n', ..] => self.place += 3,
                [b'\n' | b';', ..] => self.place += 1,
                [byte, ..] if is_blank(*byte) => self.place += 1,
                _ => return true,
            }
        }
    }

    /// Skips to the end of the line. A backslash takes the next character with it.
    fn skip_comment(&mut self) {
        loop {
            match self.rest() {
                [] => return,
                [b'\\', b'\r', b'\n', ..] => self.place += 3,
                [b'\\', _, ..] => self.place += 2,
                [b'\n', ..] => {
                    self.place += 1;
                    return;
                }
                _ => self.place += 1,
            }
        }
    }

    fn command(&mut self) -> Result<Vec<Word>, NotLiteralReason> {
        let mut command = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Ok(command),
                Some(b'\n' | b';') => {
                    self.place += 1;
                    return Ok(command);
                }
                Some(_) => command.push(self.word()?),
            }
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.rest() {
                [b'\\', b'\n', ..] => self.place += 2,
                [b'\\', b'\r', b'\n', ..] => self.place += 3,
                [b'\r', b'\n', ..] => self.place += 1,
                [byte, ..] if is_blank(*byte) => self.place += 1,
                _ => return,
            }
        }
    }

    fn word(&mut self) -> Result<Word, NotLiteralReason> {
        match self.rest() {
            [b'{', b'*', b'}', next, ..] if !is_end(*next) => Err(NotLiteralReason::Expansion),
            [b'{', ..] => self.closed(Self::braced),
            [b'"', ..] => self.closed(Self::quoted),
            _ => self.bare(),
        }
    }

    /// A word in braces or quotes. Behind the closing one the word must end.
    fn closed(
        &mut self,
        inside: fn(&mut Self) -> Result<Word, NotLiteralReason>,
    ) -> Result<Word, NotLiteralReason> {
        self.place += 1;
        let word = inside(self)?;
        let ended = match self.rest() {
            [] | [b'\\', b'\n', ..] | [b'\\', b'\r', b'\n', ..] => true,
            [next, ..] => is_end(*next),
        };
        if ended { Ok(word) } else { Err(NotLiteralReason::Trailing) }
    }

    fn braced(&mut self) -> Result<Word, NotLiteralReason> {
        let (mut word, mut depth) = (Vec::new(), 1);
        loop {
            let byte = self.peek().ok_or(NotLiteralReason::Unclosed)?;
            self.place += 1;
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'\\' => return Err(NotLiteralReason::Escape),
                b'\r' | 0 | 0x1a => return Err(NotLiteralReason::Control),
                _ => {}
            }
            if depth == 0 {
                return Ok(word);
            }
            word.push(byte);
        }
    }

    fn quoted(&mut self) -> Result<Word, NotLiteralReason> {
        let mut word = Vec::new();
        loop {
            let byte = self.peek().ok_or(NotLiteralReason::Unclosed)?;
            self.place += 1;
            match byte {
                b'"' => return Ok(word),
                b'\r' => return Err(NotLiteralReason::Control),
                byte => word.push(self.literal(byte)?),
            }
        }
    }

    fn bare(&mut self) -> Result<Word, NotLiteralReason> {
        let mut word = Vec::new();
        loop {
            match self.rest() {
                [] | [b'\\', b'\n', ..] | [b'\\', b'\r', b'\n', ..] => return Ok(word),
                [b'\r', next, ..] if *next != b'\n' => return Err(NotLiteralReason::Control),
                [byte, ..] if is_end(*byte) => return Ok(word),
                [byte, ..] => {
                    let byte = *byte;
                    self.place += 1;
                    word.push(self.literal(byte)?);
                }
            }
        }
    }

    /// A character that stands for itself, or the literal character behind a backslash.
    fn literal(&mut self, byte: u8) -> Result<u8, NotLiteralReason> {
        match byte {
            b'$' => Err(NotLiteralReason::Variable),
            b'[' => Err(NotLiteralReason::Substitution),
            0 | 0x1a => Err(NotLiteralReason::Control),
            b'\\' => match self.peek() {
                Some(next) if next.is_ascii_punctuation() || next == b' ' => {
                    self.place += 1;
                    Ok(next)
                }
                _ => Err(NotLiteralReason::Escape),
            },
            byte => Ok(byte),
        }
    }
}

/// Tells whether a character separates words. Source: `TclParse.c`, TYPE_SPACE.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r')
}

fn is_end(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'\n' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Result<Vec<(usize, Vec<String>)>, NotLiteralReason> {
        let text =
            |words: Vec<Word>| words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
        let commands = words(script.as_bytes()).map_err(|error| error.reason)?;
        Ok(commands.into_iter().map(|(line, words)| (line, text(words))).collect())
    }

    #[test]
    fn words_as_tcl_reads_them() {
        let one =
            |script: &str| read(script).unwrap().into_iter().flat_map(|(_, words)| words).collect::<Vec<_>>();
        for (script, expected) in [
            ("a b", &["a", "b"][..]),
            ("\ta\t\tb \r\n", &["a", "b"]),
            ("a \\\n  b", &["a", "b"]),
            ("a {b c} \"d e\"", &["a", "b c", "d e"]),
            ("a {b {c} d}", &["a", "b {c} d"]),
            ("a b#c", &["a", "b#c"]),
            ("a ;# comment", &["a"]),
            ("# a \\\nstill comment\na", &["a"]),
            ("a b\\ c\\$", &["a", "b c$"]),
            ("a \"\" {}", &["a", "", ""]),
            ("a {$b [c]}", &["a", "$b [c]"]),
            ("a b\"c\"d", &["a", "b\"c\"d"]),
            ("\u{e9}", &["\u{e9}"]),
            ("", &[]),
            ("# only", &[]),
        ] {
            assert_eq!(one(script), expected, "{script:?}");
        }
        assert_eq!(
            read("a;b\n\n\"c\nd\" e\nf").unwrap().iter().map(|(line, _)| *line).collect::<Vec<_>>(),
            [1, 1, 3, 5]
        );
    }

    #[test]
    fn what_tcl_substitutes_is_refused() {
        for (script, reason) in [
            ("a $b", NotLiteralReason::Variable),
            ("a \"$b\"", NotLiteralReason::Variable),
            ("a [b]", NotLiteralReason::Substitution),
            ("a b\\n", NotLiteralReason::Escape),
            ("a {b\\}", NotLiteralReason::Escape),
            ("{*}{a b}", NotLiteralReason::Expansion),
            ("a {b", NotLiteralReason::Unclosed),
            ("a \"b", NotLiteralReason::Unclosed),
            ("a {b}c", NotLiteralReason::Trailing),
            ("a \"b\"c", NotLiteralReason::Trailing),
            ("a b\rc", NotLiteralReason::Control),
            ("a \0", NotLiteralReason::Control),
            ("a \\", NotLiteralReason::Escape),
        ] {
            assert_eq!(read(script), Err(reason), "{script:?}");
        }
        assert_eq!(words(b"a\nb\nc $d").unwrap_err().line, 3);
    }

    proptest::proptest! {
        #[test]
        fn a_quoted_word_is_read_back(word in proptest::collection::vec(proptest::num::u8::ANY, 0..12)) {
            if let Some(text) = quoted(&word) {
                let script = [b"x ", text.as_slice()].concat();
                proptest::prop_assert_eq!(words(&script), Ok(vec![(1, vec![b"x".to_vec(), word])]));
            }
        }

        #[test]
        fn nothing_breaks_the_reader(script in proptest::collection::vec(proptest::sample::select(b"a$[]{}\"\\ \n\r;#*".to_vec()), 0..40)) {
            _ = words(&script);
        }
    }
}
