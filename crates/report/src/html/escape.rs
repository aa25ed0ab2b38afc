//! Hostile text on its way into a page.
//!
//! Three dangers: text that becomes markup, text that ends the script element which holds the JSON, and characters that
//! show a path as what it is not: control characters, and those that turn the direction of writing.

use crate::number::GLUE;
use crate::text::glued;
use maud::{Markup, html};
use quell_base::is_hidden;

/// Stands between the parts of one number in a page: narrow, and no line is broken there.
const NARROW_SPACE: char = '\u{202f}';

/// Text or finished markup with nothing hidden in it: numbers stay on one line, and hidden characters become visible.
pub(super) fn shown(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for character in raw.chars() {
        match character {
            GLUE => safe.push(NARROW_SPACE),
            '\n' => safe.push('\n'),
            hidden if is_hidden(hidden) => safe += &format!("\\u{{{:x}}}", u32::from(hidden)),
            plain => safe.push(plain),
        }
    }
    safe
}

/// A sentence as the content of an element: the words between backticks are code.
pub(super) fn prose(raw: &str) -> Markup {
    let glued = glued(raw);
    let parts: Vec<&str> = glued.split('`').collect();
    // A backtick without a second one is a character as any other.
    let is_plain = parts.len().is_multiple_of(2);
    html! {
        @if is_plain { (glued) } @else {
            @for (index, part) in parts.iter().enumerate() {
                @if index % 2 == 0 { (part) } @else { code { (part) } }
            }
        }
    }
}

/// JSON as the content of a script element: the same value, with no character that could end the element, and none that
/// is hidden. Those characters stand in strings only, where JSON may escape them. Range: JSON in one line.
pub(super) fn data(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            marked if matches!(marked, '<' | '>' | '&') || is_hidden(marked) => {
                safe += &format!("\\u{:04x}", u32::from(marked));
            }
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_hides_the_same_characters() {
        let source = include_str!("../../web/src/format.ts");
        let set = source
            .split_once("const HIDDEN =\n    /[")
            .and_then(|(_, rest)| rest.split_once("]/g;"))
            .unwrap()
            .0;
        let code = |text: &str| u32::from_str_radix(text.strip_prefix("\\u").unwrap(), 16).unwrap();
        let mut hidden = std::collections::BTreeSet::new();
        let mut rest = set;
        while !rest.is_empty() {
            let (first, after) = rest.split_at(6);
            let (last, after) = match after.strip_prefix('-') {
                Some(after) => after.split_at(6),
                None => (first, after),
            };
            hidden.extend(code(first)..=code(last));
            rest = after;
        }
        let ours = (0..0x11_0000).filter(|code| char::from_u32(*code).is_some_and(is_hidden));
        assert_eq!(hidden, ours.collect());
    }

    #[test]
    fn hidden_characters_are_shown() {
        for (raw, expected) in [
            ("a\u{202e}gpj.exe\x1b[0m", "a\\u{202e}gpj.exe\\u{1b}[0m"),
            ("12\u{1}345", "12\u{202f}345"),
            ("/\u{5d0}\u{5d1}/\u{e9}", "/\u{5d0}\u{5d1}/\u{e9}"),
        ] {
            assert_eq!(shown(raw), expected);
        }
    }

    #[test]
    fn backticks_hold_code_where_they_come_in_pairs_and_no_text_becomes_markup() {
        for (raw, expected) in [
            ("`a<b>` is `c`", "<code>a&lt;b&gt;</code> is <code>c</code>"),
            ("one ` alone", "one ` alone"),
            ("`a` asks 7 324 times", "<code>a</code> asks 7\u{202f}324 times"),
            ("</script><img src=x>", "&lt;/script&gt;&lt;img src=x&gt;"),
            ("\" onload=\"x\" &amp;", "&quot; onload=&quot;x&quot; &amp;amp;"),
        ] {
            assert_eq!(shown(&prose(raw).into_string()), expected);
        }
    }

    #[test]
    fn data_keeps_its_value_and_cannot_end_its_element() {
        let hostile = ["</script>", "<!--<script>", "]]>", "\u{2028}\u{2029}\u{7f}", "\u{0}\n\"\\", "&lt;"];
        let json = serde_json::to_string(&hostile).unwrap();
        let safe = data(&json);
        assert!(!safe.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), hostile);
    }
}
