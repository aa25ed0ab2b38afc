//! Text from files, programs and other users, escaped so that it can neither control a terminal nor imitate other text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes or a string as readable text: invalid UTF-8 and hidden characters become `\xNN`.
pub fn escape(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match is_hidden(character) {
                true => text.extend(character.to_string().bytes().map(|byte| format!("\\x{byte:02x}"))),
                false => text.push(character),
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Bytes as text that is kept: UTF-8 as it is, so that it can be used again, anything else [`escape`]d. It is not fit to be shown.
pub fn kept(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    std::str::from_utf8(bytes).map_or_else(|_| escape(bytes), str::to_owned)
}

/// A path or another system string as readable text. See [`escape`].
pub fn shown(text: impl AsRef<OsStr>) -> String {
    escape(text.as_ref().as_bytes())
}

/// A cell of CSV that no spreadsheet takes for a formula: text that begins as one gets an apostrophe in front, by which they know
/// text. Source: OWASP, "CSV injection". Numbers stay as they are.
pub fn inert(cell: String) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
    if formula { format!("'{cell}") } else { cell }
}

/// Tells whether a character is invisible or changes how its neighbours appear, such as the direction of a line.
///
/// This is the only list of these characters; the script of HTML reports has a copy, which a test compares. All are
/// below U+10000, so that four hexadecimal digits name them.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_a_reader_is_escaped() {
        let name = "a\nb\x1b[31m \u{202e}txt.\u{200b}sh \u{e9}";
        assert_eq!(
            escape(name),
            r"a\x0ab\x1b[31m \xe2\x80\xaetxt.\xe2\x80\x8bsh \u{e9}".replace(r"\u{e9}", "\u{e9}")
        );
        assert_eq!((kept("a\nb"), kept(b"a\n\xff")), ("a\nb".to_owned(), r"a\x0a\xff".to_owned()));
        assert_eq!(escape(b"/\xff"), r"/\xff");
        assert_eq!(shown(OsStr::from_bytes(b"/\xff")), r"/\xff");
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        assert_eq!(escape(b"a\xffb\n\xc3\xa9"), "a\\xffb\\x0a\u{e9}");
    }
}
