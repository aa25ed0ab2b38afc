//! Text for a terminal: escaped, shortened in the middle, broken between words, painted.

use crate::number::GLUE;
use crate::{Colour, Style};
use anstyle::AnsiColor;
pub(crate) use quell_base::shell::{command, quoted};
use unicode_width::UnicodeWidthStr;

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Text from a trace, with control characters escaped.
pub(crate) fn clean(text: &str) -> String {
    quell_base::escape(text)
}

/// At most `columns` wide: a third of the start and the end stay, because paths differ at their end.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(GAP.len());
    let begin = begin(text, room / 3);
    let rest = room - width(begin);
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let end = starts.take_while(|&at| width(&text[at..]) <= rest).last().unwrap_or(text.len());
    format!("{begin}{GAP}{}", &text[end..])
}

/// At most `columns` wide: the start stays, because a command is known by it.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    format!("{}{GAP}", begin(text, columns.saturating_sub(GAP.len())))
}

/// The longest begin of `text` that is at most `columns` wide.
fn begin(text: &str, columns: usize) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = ends.take_while(|&at| width(&text[..at]) <= columns).last();
    &text[..end.unwrap_or(0)]
}

/// The price of applying a remedy, in words.
pub(crate) fn price(cost: &str) -> &'static str {
    match cost {
        "nothing" => "costs nothing",
        "image" => "needs an image",
        "setup" => "changes the set-up",
        _ => "changes the program",
    }
}

/// The words with a capital letter.
pub(crate) fn capitalised(words: &str) -> String {
    let mut characters = words.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(characters).collect()
}

/// The sentence with a capital letter and without its full stop, which the page sets.
pub(crate) fn stopless(words: &str) -> String {
    capitalised(words).trim_end_matches('.').to_owned()
}

/// Stands where text was left out.
const GAP: &str = "...";

/// Broken between words into lines of at most `columns`; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Numbers that are grouped by spaces, and numbers with their units, made one word each.
pub(crate) fn glued(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_group = |at: usize| (at + 1..at + 4).all(digit) && !digit(at + 4);
    let is_inside =
        |at: usize| at > 0 && digit(at - 1) && (is_group(at) || begins_with_unit(&text[at + 1..]));
    let glue =
        |(at, character): (usize, char)| if character == ' ' && is_inside(at) { GLUE } else { character };
    text.char_indices().map(glue).collect()
}

fn begins_with_unit(text: &str) -> bool {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '%');
    UNITS.contains(&&text[..end.unwrap_or(text.len())])
}

/// Units behind numbers; the `in` of `1 in 3` is none.
const UNITS: [&str; 15] =
    ["ns", "us", "ms", "s", "min", "h", "days", "%", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// The role of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextRole {
    /// Says what the following is.
    Title,
    /// Lines and other ornament.
    Rule,
    /// A reason to be careful.
    Doubt,
    /// A command to type.
    Command,
    /// It became less.
    Fewer,
    /// It became more.
    More,
    /// Everything else.
    Plain,
}

/// The text with the escape sequences of its role, if there may be any.
pub(crate) fn painted(text: &str, role: TextRole, style: Style) -> String {
    let paint = match role {
        TextRole::Title => anstyle::Style::new().bold(),
        TextRole::Rule => anstyle::Style::new().dimmed(),
        TextRole::Doubt => AnsiColor::Yellow.on_default().bold(),
        TextRole::Command => AnsiColor::Cyan.on_default(),
        TextRole::Fewer => AnsiColor::Green.on_default(),
        TextRole::More => AnsiColor::Yellow.on_default(),
        TextRole::Plain => return text.to_owned(),
    };
    match style.colour {
        Colour::On => format!("{paint}{text}{paint:#}"),
        Colour::Off => text.to_owned(),
    }
}

/// The whole text, once it is laid out: numbers get their spaces.
pub(crate) fn finished(text: &str) -> String {
    text.replace(GLUE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_keeps_its_begin_and_more_of_its_end() {
        let path = "/lustre/groups/physics/env/lib/python3.11/site-packages/numpy/core.so";
        assert_eq!(shortened(path, 40), "/lustre/grou...te-packages/numpy/core.so");
        assert_eq!(shortened("/short", 6), "/short");
        assert_eq!(cut("python3 app.py", 10), "python3...");
        assert_eq!(cut("python3 app.py", 14), "python3 app.py");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let path = "/\u{5927}\u{5927}\u{5927}\u{5927}/\u{5927}\u{5927}\u{5927}\u{5927}";
        for columns in 3..20 {
            assert!(width(&shortened(path, columns)) <= columns, "{columns}");
            assert!(width(&cut(path, columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn grouped_numbers_are_one_word() {
        for (text, expected) in
            [("12 345 of 1 000 000", "12_345 of 1_000_000"), ("3 files", "3 files"), ("2 34", "2 34")]
                .into_iter()
                .chain([("in place of 147 s", "in place of 147_s"), ("1.5 ms, 3 %", "1.5_ms, 3_%")])
        {
            assert_eq!(glued(text), expected.replace('_', &GLUE.to_string()));
        }
    }

    #[test]
    fn lines_break_between_words_only() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable x", 4), ["unbreakable", "x"]);
    }
}
