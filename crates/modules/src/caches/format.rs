//! `.modulecache`, the cache of Environment Modules: a cookie, a Tcl command for each name, and a last line of ours.
//!
//! ```text
//! #%Module5.3
//! modulefile-content NAME MTIME HEADER CONTENT
//! modulerc-content NAME HEADER CONTENT
//! modulefile-invalid NAME KIND MESSAGE
//! limited-access-file NAME
//! limited-access-directory NAME
//! # quell 2 DIGEST verified of CONTENT before CONTENT
//! ```
//!
//! The tool takes the last line for a comment. DIGEST is that of the tree that the cache was made from. A cache without this
//! line was made by the tool alone. `verified`: the answers were compared. The digests of contents are for undoing: that of all lines
//! above, and that of the cache that the tool alone had made, if there was one.
//!
//! Source: `formatModuleCacheContent` of modulecmd.tcl, 5.3 to 5.7. Words are quoted as Tcl_ConvertElement(3) does.

use std::collections::BTreeMap;

/// The beginning of the last line, for format 2. A cache of format 1 may show files behind a link that leads back, so it is
/// treated like one that the tool made alone.
const OURS: &[u8] = b"# quell 2 ";

/// A cache that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedCache {
    /// The first line.
    pub(super) cookie: Vec<u8>,
    /// The command of each name, as it is in the file.
    pub(super) items: BTreeMap<Vec<u8>, CachedCommand>,
    /// The digest of the tree that it was made from.
    pub(super) digest: Option<String>,
    /// Answers with it were compared with those without it.
    pub(super) is_verified: bool,
    /// The digest of the file that the first cache of ours replaced.
    pub(super) before: Option<String>,
}

/// The word in the last line of a cache that was compared.
const VERIFIED: &str = "verified";

/// The words before the digests of contents.
const OF: &str = "of";
const BEFORE: &str = "before";

/// A command of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedCommand {
    /// The words, without those that name command and file.
    pub(super) kind: ItemKind,
    /// Its text.
    pub(super) text: Vec<u8>,
}

/// The content of a cache for one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// A modulefile, its time in seconds since 1970 and its content.
    Module(Option<i64>, Vec<u8>),
    /// An rc file and its content.
    Rc(Vec<u8>),
    /// A file that is no modulefile, and the tool's reason.
    Invalid(Vec<u8>),
    /// A file that users look up in the tree.
    Limited,
    /// A directory that users look up in the tree.
    LimitedDirectory,
}

impl ParsedCache {
    /// Parses a cache. Lines that are no commands of a cache are left out.
    pub(super) fn parse(content: &[u8]) -> Self {
        let end = content.iter().position(|&byte| byte == b'\n').unwrap_or(content.len());
        let mut cache = Self { cookie: content[..end].to_vec(), ..Self::default() };
        let mut rest = &content[end..];
        while let Some((words, after)) = command(rest) {
            let text = rest[..rest.len() - after.len()].trim_ascii_start();
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            rest = after;
            if let Some(digest) = text.strip_prefix(OURS) {
                let line = String::from_utf8_lossy(digest);
                let words: Vec<&str> = line.split(' ').collect();
                cache.digest = words.first().map(|word| (*word).to_owned());
                cache.is_verified = words.contains(&VERIFIED);
                cache.before = behind(&words, BEFORE);
            }
            if let [kind, name, arguments @ ..] = words.as_slice()
                && let Some(kind) = item(kind, arguments)
            {
                cache.items.insert(name.clone(), CachedCommand { kind, text: text.to_vec() });
            }
        }
        cache
    }

    /// The text of the file.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = self.cookie.clone();
        for item in self.items.values() {
            text.push(b'\n');
            text.extend(&item.text);
        }
        text.push(b'\n');
        if let Some(digest) = &self.digest {
            let mut words = vec![digest.as_str()];
            words.extend(self.is_verified.then_some(VERIFIED));
            let content = content_digest(&text);
            words.extend([OF, &content]);
            words.extend(self.before.iter().flat_map(|before| [BEFORE, before]));
            text.extend([OURS, words.join(" ").as_bytes(), b"\n"].concat());
        }
        text
    }
}

/// The word that follows another.
fn behind(words: &[&str], word: &str) -> Option<String> {
    let at = words.iter().position(|known| *known == word)?;
    words.get(at + 1).map(|word| (*word).to_owned())
}

/// A digest of a file's content, in records for undoing.
pub(super) fn content_digest(content: &[u8]) -> String {
    blake3::hash(content).to_hex()[..32].to_owned()
}

/// The origin of a cache's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CacheOrigin {
    /// The file is what quell wrote, with the digest of the file that was there before.
    Ours(Option<String>),
    /// An earlier version of quell wrote it, or it was changed since.
    Changed(Option<String>),
    /// The tool alone made it.
    Foreign,
}

impl CacheOrigin {
    pub(super) fn of(content: &[u8]) -> Self {
        let cut = content.strip_suffix(b"\n").unwrap_or(content);
        let start = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let Some(line) = cut[start..].strip_prefix(OURS) else { return Self::Foreign };
        let line = String::from_utf8_lossy(line);
        let words: Vec<&str> = line.split(' ').collect();
        let before = behind(&words, BEFORE);
        match behind(&words, OF) == Some(content_digest(&content[..start])) {
            true => Self::Ours(before),
            false => Self::Changed(before),
        }
    }
}

fn item(kind: &[u8], arguments: &[Vec<u8>]) -> Option<ItemKind> {
    Some(match (kind, arguments) {
        (b"modulefile-content", [time, _, content]) => {
            let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok());
            ItemKind::Module(time, content.clone())
        }
        (b"modulerc-content", [_, content]) => ItemKind::Rc(content.clone()),
        (b"modulefile-invalid", [_, why]) => ItemKind::Invalid(why.clone()),
        (b"limited-access-file", _) => ItemKind::Limited,
        (b"limited-access-directory", _) => ItemKind::LimitedDirectory,
        _ => return None,
    })
}

impl CachedCommand {
    /// A command that sends users to the tree.
    pub(super) fn limited(kind: ItemKind, name: &[u8]) -> Self {
        let command: &[u8] = match kind {
            ItemKind::LimitedDirectory => b"limited-access-directory ",
            _ => b"limited-access-file ",
        };
        let name = crate::rc::quoted(name).unwrap_or_else(|| escaped(name));
        Self { kind, text: [command, &name].concat() }
    }
}

/// Letters behind a backslash, and the characters that they stand for. Source: Tcl(n), rule 9.
const ESCAPES: [(u8, u8); 7] =
    [(b'a', 7), (b'b', 8), (b't', b'\t'), (b'n', b'\n'), (b'v', 11), (b'f', 12), (b'r', b'\r')];

/// A word with a backslash before every special character, for words that braces cannot quote.
fn escaped(word: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * word.len());
    for &byte in word {
        let sign = ESCAPES.iter().find(|(_, meant)| *meant == byte).map(|(sign, _)| *sign);
        if sign.is_some() || (byte.is_ascii() && !byte.is_ascii_alphanumeric()) {
            text.push(b'\\');
        }
        text.push(sign.unwrap_or(byte));
    }
    text
}

/// The words of the next command, and the text after it. A backslash in a bare word keeps the next character.
fn command(text: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let mut rest = text.trim_ascii_start();
    if rest.is_empty() {
        return None;
    }
    if rest.starts_with(b"#") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return Some((Vec::new(), &rest[end..]));
    }
    let mut words = Vec::new();
    loop {
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        rest = &rest[blanks..];
        match rest {
            [] => return Some((words, rest)),
            [b'\n', after @ ..] => return Some((words, after)),
            [b'{', ..] => {
                let end = closing(rest)?;
                words.push(rest[1..end].to_vec());
                rest = &rest[end + 1..];
            }
            _ => {
                let (word, after) = bare(rest);
                words.push(word);
                rest = after;
            }
        }
    }
}

/// The place of the brace that closes the first.
fn closing(text: &[u8]) -> Option<usize> {
    let (mut depth, mut place) = (0_usize, 0);
    loop {
        match text.get(place)? {
            b'\\' => place += 1,
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
        place += 1;
    }
}

fn bare(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let (mut word, mut rest) = (Vec::new(), text);
    loop {
        match rest {
            [] | [b' ' | b'\t' | b'\n', ..] => return (word, rest),
            [b'\\', sign, after @ ..] => {
                let escape = ESCAPES.iter().find(|(escape, _)| escape == sign);
                word.push(escape.map_or(*sign, |(_, meant)| *meant));
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// A file's content as Tcl reads it: every line ends in a newline.
pub(super) fn as_tcl_reads(content: &[u8]) -> Vec<u8> {
    let mut read = Vec::with_capacity(content.len());
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                read.push(b'\n');
            }
            byte => read.push(byte),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        let text = b"#%Module5.3\nlimited-access-file {c d}\nmodulefile-content a/1 17 #%Module {#%Module\nputs {a b}\n}\n\
            modulefile-invalid x invalid {no cookie}\nmodulerc-content {a b/.modulerc} {} {#%Module}\n# quell 2 0123\n";
        let cache = ParsedCache::parse(text);
        assert_eq!(cache.digest.as_deref(), Some("0123"));
        assert_eq!(
            cache.items[&b"a/1".to_vec()].kind,
            ItemKind::Module(Some(17), b"#%Module\nputs {a b}\n".to_vec())
        );
        assert_eq!(ParsedCache::parse(&cache.text()), cache);
        let names: Vec<&[u8]> = cache.items.keys().map(Vec::as_slice).collect();
        assert_eq!(names, [&b"a b/.modulerc"[..], b"a/1", b"c d", b"x"]);
    }

    #[test]
    fn ends_of_lines_are_newlines() {
        assert_eq!(as_tcl_reads(b"a\r\nb\rc\n\r"), b"a\nb\nc\n\n");
    }

    #[test]
    fn words_are_read_as_tcl_writes_them() {
        // A word with a line that ends in a backslash cannot be quoted by braces.
        let text = b"#%Module5.3\nmodulefile-content foo/1.0 17 #%Module #%Module\\nsetenv\\ A\\tb\\\\\\n\\\\\\r\\f\\v\\$\n\
            limited-access-file foo/\\{\nmodulefile-invalid x invalid {no}\nlimited-access-directory {a \\} b}\n";
        let cache = ParsedCache::parse(text);
        let kind = |name: &str| cache.items.get(name.as_bytes()).map(|item| &item.kind);
        let content = b"#%Module\nsetenv A\tb\\\n\\\r\x0c\x0b$".to_vec();
        assert_eq!(kind("foo/1.0"), Some(&ItemKind::Module(Some(17), content)));
        assert_eq!(kind("foo/{"), Some(&ItemKind::Limited));
        assert_eq!(kind("x"), Some(&ItemKind::Invalid(b"no".to_vec())));
        assert_eq!(kind("a \\} b"), Some(&ItemKind::LimitedDirectory));
    }

    proptest::proptest! {
        #[test]
        fn every_name_can_be_closed(name in proptest::collection::vec(1_u8.., 1..20)) {
            let item = CachedCommand::limited(ItemKind::Limited, &name);
            let text = [b"#%Module5.3\n", item.text.as_slice(), b"\n"].concat();
            let items = ParsedCache::parse(&text).items;
            proptest::prop_assert_eq!(items.into_iter().collect::<Vec<_>>(), [(name, item)]);
        }

        #[test]
        fn a_damaged_cache_breaks_nothing(text in proptest::collection::vec(proptest::sample::select(b"a{}\\ \n#".to_vec()), 0..60)) {
            _ = ParsedCache::parse(&text);
        }
    }
}
