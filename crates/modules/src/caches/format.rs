//! `.modulecache`, the cache of Environment Modules: a cookie, a Tcl command for each name, and a last line of ours.
//!
//! ```text
//! #%Module5.3
//! modulefile-content NAME MTIME HEADER CONTENT
//! modulerc-content NAME HEADER CONTENT
//! modulefile-invalid NAME KIND MESSAGE
//! limited-access-file NAME
//! limited-access-directory NAME
//! # quell 1 DIGEST
//! ```
//!
//! The last line is a comment to the tool; DIGEST is that of the tree that the cache was made from. A cache without it was
//! made by the tool alone.
//!
//! Source: `formatModuleCacheContent` of modulecmd.tcl, 5.3 to 5.7.

use crate::audit::caches::command;
use std::collections::BTreeMap;

/// What the last line begins with: format 1.
const OURS: &[u8] = b"# quell 1 ";

/// A cache that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cache {
    /// The first line.
    pub(super) cookie: Vec<u8>,
    /// The command of each name, as it is in the file.
    pub(super) items: BTreeMap<Vec<u8>, Item>,
    /// Of the tree that it was made from.
    pub(super) digest: Option<String>,
}

/// A command of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Its words, without those that name command and file.
    pub(super) kind: ItemKind,
    /// Its text.
    pub(super) text: Vec<u8>,
}

/// What a cache says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// A modulefile, its time in seconds since 1970 and its content.
    Module(Option<i64>, Vec<u8>),
    /// An rc file and its content.
    Rc(Vec<u8>),
    /// No modulefile.
    Invalid,
    /// A file to be looked at in the tree.
    Limited,
    /// A directory to be looked at in the tree.
    LimitedDirectory,
}

impl Cache {
    /// Reads a cache; what is no command of one is left out.
    pub(super) fn parse(content: &[u8]) -> Self {
        let end = content.iter().position(|&byte| byte == b'\n').unwrap_or(content.len());
        let mut cache = Self { cookie: content[..end].to_vec(), ..Self::default() };
        let mut rest = &content[end..];
        while let Some((words, after)) = command(rest) {
            let text = rest[..rest.len() - after.len()].trim_ascii();
            rest = after;
            if let Some(digest) = text.strip_prefix(OURS) {
                cache.digest = Some(String::from_utf8_lossy(digest).into_owned());
            }
            if let [kind, name, arguments @ ..] = words.as_slice()
                && let Some(kind) = item(kind, arguments)
            {
                cache.items.insert(name.clone(), Item { kind, text: text.to_vec() });
            }
        }
        cache
    }

    /// The file.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = self.cookie.clone();
        for item in self.items.values() {
            text.push(b'\n');
            text.extend(&item.text);
        }
        text.push(b'\n');
        if let Some(digest) = &self.digest {
            text.extend(OURS);
            text.extend(digest.as_bytes());
            text.push(b'\n');
        }
        text
    }
}

fn item(kind: &[u8], arguments: &[Vec<u8>]) -> Option<ItemKind> {
    Some(match (kind, arguments) {
        (b"modulefile-content", [time, _, content]) => {
            let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok());
            ItemKind::Module(time, content.clone())
        }
        (b"modulerc-content", [_, content]) => ItemKind::Rc(content.clone()),
        (b"modulefile-invalid", _) => ItemKind::Invalid,
        (b"limited-access-file", _) => ItemKind::Limited,
        (b"limited-access-directory", _) => ItemKind::LimitedDirectory,
        _ => return None,
    })
}

impl Item {
    /// A command that sends users to the tree; `None` for a name that Tcl cannot be told.
    pub(super) fn limited(kind: ItemKind, name: &[u8]) -> Option<Self> {
        let command: &[u8] = match kind {
            ItemKind::LimitedDirectory => b"limited-access-directory ",
            _ => b"limited-access-file ",
        };
        let text = [command, &crate::rc::quoted(name)?].concat();
        Some(Self { kind, text })
    }
}

/// A file's content as Tcl reads it: with newlines for every end of a line.
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
            modulefile-invalid x invalid {no cookie}\nmodulerc-content {a b/.modulerc} {} {#%Module}\n# quell 1 0123\n";
        let cache = Cache::parse(text);
        assert_eq!(cache.digest.as_deref(), Some("0123"));
        assert_eq!(
            cache.items[&b"a/1".to_vec()].kind,
            ItemKind::Module(Some(17), b"#%Module\nputs {a b}\n".to_vec())
        );
        assert_eq!(Cache::parse(&cache.text()), cache);
        let names: Vec<&[u8]> = cache.items.keys().map(Vec::as_slice).collect();
        assert_eq!(names, [&b"a b/.modulerc"[..], b"a/1", b"c d", b"x"]);
    }

    #[test]
    fn ends_of_lines_are_newlines() {
        assert_eq!(as_tcl_reads(b"a\r\nb\rc\n\r"), b"a\nb\nc\n\n");
    }
}
