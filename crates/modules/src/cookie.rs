//! Modulefiles of Environment Modules and of Lmod, recognised by their name and their first characters.
//!
//! Source: rules 1 to 4 of the project's facts; `readModuleContent` and `findModules` of modulecmd.tcl; Lmod's
//! `DirTree.lua` and `utils.lua`.

use crate::version::versioncmp;
use std::cmp::Ordering;

/// The first characters of a modulefile.
pub const COOKIE: &[u8] = b"#%Module";
/// The number of characters in which Environment Modules looks for the cookie.
const HEAD: usize = 33;
/// The name of the rc file that every directory may have. The one at the root of a modulepath is read for every name.
pub(crate) const ROOT_RC: &[u8] = b".modulerc";
/// The name of the cache of Environment Modules, at the root of a modulepath.
pub const CACHE_NAME: &str = ".modulecache";
/// [`CACHE_NAME`] as a path has it.
pub(crate) const CACHE: &[u8] = CACHE_NAME.as_bytes();

/// Directories that Environment Modules does not look into. Source: `ignored_dirs`, its default.
const IGNORED_DIRECTORIES: [&[u8]; 7] = [b"CVS", b"RCS", b"SCCS", b".svn", b".git", b".SYNC", b".sos"];

/// The judgement of Environment Modules on the first characters of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// A modulefile or rc file for every version.
    Any,
    /// A modulefile or rc file for this version of Modules and later ones.
    From(Vec<u8>),
    /// No modulefile.
    None(CookieMiss),
}

/// The reason for which a file has no valid cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieMiss {
    /// It is empty.
    Empty,
    /// A byte order mark precedes it.
    ByteOrderMark,
    /// Blanks precede it.
    Blanks,
    /// It has other upper and lower case.
    Case,
    /// It is not the first word.
    Later,
    /// There is none.
    Absent,
}

impl Cookie {
    /// Reads the first characters of a file.
    pub fn of(content: &[u8]) -> Self {
        let head = &content[..content.len().min(HEAD)];
        let first = head.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        let word = trimmed_end(first, b'#');
        match word.strip_prefix(COOKIE) {
            Some([]) => Self::Any,
            Some(version) => Self::From(version.to_vec()),
            None => Self::None(miss(content)),
        }
    }

    /// Tells whether Environment Modules of `version` evaluates the file.
    pub fn accepted_by(&self, version: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::From(minimum) => versioncmp(version, minimum) != Ordering::Less,
            Self::None(_) => false,
        }
    }

    /// Tells whether there is a cookie.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None(_))
    }
}

fn trimmed_end(word: &[u8], byte: u8) -> &[u8] {
    let kept = word.iter().rposition(|found| *found != byte).map_or(0, |last| last + 1);
    &word[..kept]
}

fn miss(content: &[u8]) -> CookieMiss {
    let trimmed = content.trim_ascii_start();
    let begins = |text: &[u8]| text.get(..COOKIE.len()).is_some_and(|head| head.eq_ignore_ascii_case(COOKIE));
    match content {
        [] => CookieMiss::Empty,
        [0xef, 0xbb, 0xbf, rest @ ..] if begins(rest) => CookieMiss::ByteOrderMark,
        _ if trimmed.len() < content.len() && begins(trimmed) => CookieMiss::Blanks,
        _ if begins(content) => CookieMiss::Case,
        _ if content[..content.len().min(4096)].windows(COOKIE.len()).any(|window| window == COOKIE) => {
            CookieMiss::Later
        }
        _ => CookieMiss::Absent,
    }
}

/// The treatment of a file by Environment Modules, according to its name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTreatment {
    /// Possibly a modulefile.
    Ordinary,
    /// Possibly a hidden modulefile: the name begins with a dot.
    Hidden,
    /// An rc file.
    Rc(RcKind),
    /// Never read: a backup, or a lock of an editor.
    Ignored,
    /// A cache of Environment Modules, if it lies at a modulepath's root.
    Cache,
}

/// The two names of rc files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RcKind {
    /// `.modulerc`.
    Modulerc,
    /// `.version`, whose ModulesVersion sets a default.
    Version,
}

impl NameTreatment {
    /// Judges the last component of a path.
    pub fn of(name: &[u8]) -> Self {
        match name {
            ROOT_RC => Self::Rc(RcKind::Modulerc),
            b".version" => Self::Rc(RcKind::Version),
            CACHE => Self::Cache,
            [.., b'~'] | [.., b',', b'v'] => Self::Ignored,
            [b'#', .., b'#'] => Self::Ignored,
            [b'.', ..] => Self::Hidden,
            _ => Self::Ordinary,
        }
    }
}

/// Tells whether Environment Modules leaves out a directory of this name.
pub fn is_ignored_directory(name: &[u8]) -> bool {
    IGNORED_DIRECTORIES.contains(&name)
}

/// Tells whether a file of this name with these first characters is a modulefile for Lmod.
pub fn is_for_lmod(name: &[u8], content: &[u8]) -> bool {
    if matches!(name, [b'.', ..] | [b'_', b'_', ..] | [.., b'~'] | [b'#', .., b'#']) {
        return false;
    }
    name.ends_with(b".lua") || content.starts_with(COOKIE)
}

/// Tells whether Lmod ignores a file of this path below a modulepath, whatever its content. The cache of Environment Modules
/// is ignored although it has a cookie. Source: `l_keepFile` of Lmod's `DirTree.lua`.
pub fn is_ignored_by_lmod(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    matches!(name, b".git" | b".gitignore" | b".svn" | b".lua" | b".DS_Store" | CACHE)
        || matches!(name, [.., b'~' | b'#'] | [b'#', ..] | [b'.', b'#', ..] | [b'_', b'_', ..])
        || (name.starts_with(b".") && name.ends_with(b".swp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_every_kind() {
        let from = |version: &str| Cookie::From(version.into());
        for (content, expected) in [
            ("#%Module", Cookie::Any),
            ("#%Module\nputs hi", Cookie::Any),
            ("#%Module 1.0\n", Cookie::Any),
            ("#%Module1.0####", from("1.0")),
            ("#%Module1.0\r\n", from("1.0")),
            ("#%Module########", Cookie::Any),
            ("#%Module99\n", from("99")),
            ("#%Modulefile", from("file")),
            ("", Cookie::None(CookieMiss::Empty)),
            ("\u{feff}#%Module", Cookie::None(CookieMiss::ByteOrderMark)),
            (" #%Module", Cookie::None(CookieMiss::Blanks)),
            ("\n#%Module", Cookie::None(CookieMiss::Blanks)),
            ("#%module", Cookie::None(CookieMiss::Case)),
            ("#!/bin/sh\n#%Module", Cookie::None(CookieMiss::Later)),
            ("read me", Cookie::None(CookieMiss::Absent)),
        ] {
            assert_eq!(Cookie::of(content.as_bytes()), expected, "{content:?}");
        }
        assert!(!Cookie::From(b"5.10".into()).accepted_by(b"5.3"));
        assert!(Cookie::From(b"5.3".into()).accepted_by(b"5.10.0"));
    }

    #[test]
    fn names_tell_what_is_looked_at() {
        for (name, expected) in [
            ("1.0", NameTreatment::Ordinary),
            (".1.0", NameTreatment::Hidden),
            (".modulerc", NameTreatment::Rc(RcKind::Modulerc)),
            (".version", NameTreatment::Rc(RcKind::Version)),
            (".modulecache", NameTreatment::Cache),
            ("1.0~", NameTreatment::Ignored),
            ("1.0,v", NameTreatment::Ignored),
            ("#1.0#", NameTreatment::Ignored),
            ("#", NameTreatment::Ordinary),
        ] {
            assert_eq!(NameTreatment::of(name.as_bytes()), expected, "{name}");
        }
        assert!(is_ignored_directory(b"CVS") && !is_ignored_directory(b"cvs"));
    }

    #[test]
    fn lmod_goes_by_other_signs() {
        for (name, content, expected) in [
            ("1.0.lua", "", true),
            ("1.0", "#%Module", true),
            ("1.0,v", "#%Module", true),
            ("1.0", "", false),
            ("__1.0.lua", "", false),
            (".#1.0.lua", "", false),
            ("1.0.lua~", "", false),
        ] {
            assert_eq!(is_for_lmod(name.as_bytes(), content.as_bytes()), expected, "{name}");
        }
        for (path, expected) in [
            ("a/1.0,v", false),
            ("a/.1.0", false),
            ("a/.modulerc.lua", false),
            (".modulecache", true),
            ("a/1.0~", true),
            ("a/#1.0", true),
            ("a/.1.0.swp", true),
            ("~/1.0", false),
        ] {
            assert_eq!(is_ignored_by_lmod(path.as_bytes()), expected, "{path}");
        }
    }
}
