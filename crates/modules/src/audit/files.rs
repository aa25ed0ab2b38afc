//! Findings about single names: files that are no modulefiles, files that some users may not read, links that lead nowhere.

use super::finding::{AuditOptions, Findings, is_for_root_alone, who};
use crate::access::{AllowedUsers, Permission};
use crate::cookie::{Cookie, CookieMiss, is_for_lmod};
use crate::rc::{is_plain, line_of};
use crate::scan::{EntryKind, FileRole, TreeEntry};
use quell_base::escape;

pub(super) fn look(findings: &mut Findings<'_>, options: &AuditOptions) {
    let tree = findings.tree;
    for entry in &tree.entries {
        match &entry.kind {
            EntryKind::Loop => findings.add(
                &entry.path,
                "symlink-loop",
                5,
                "leads back to a directory above it; tools follow it about 40 times".into(),
                "remove the link, or change its target",
            ),
            EntryKind::Dangling => findings.add(
                &entry.path,
                "dangling-link",
                5,
                "leads to nothing".into(),
                "remove the link, or restore its target",
            ),
            EntryKind::TooDeep => findings.add(
                &entry.path,
                "symlink-loop",
                5,
                "lies deeper than any module tree; what is below it was not looked at".into(),
                "look for links that lead back",
            ),
            EntryKind::Special => findings.add(
                &entry.path,
                "special-file",
                13,
                "is neither file nor directory; a tool that looks for a cookie in a pipe waits for ever"
                    .into(),
                "move it out of the modulepath",
            ),
            EntryKind::Directory | EntryKind::Unlistable(_) => directory(findings, entry),
            EntryKind::IgnoredDirectory if options.lmod => ignored(findings, entry),
            EntryKind::IgnoredDirectory => {}
            EntryKind::File(_) | EntryKind::Unreadable(_) => file(findings, entry, options),
        }
    }
}

fn directory(findings: &mut Findings<'_>, entry: &TreeEntry) {
    let Some(access) = &entry.access else { return };
    let allowed = access.who(Permission::List);
    if allowed != AllowedUsers::Everybody {
        findings.add(
            &entry.path,
            "restricted",
            20,
            format!("is a directory that {} may list", who(&allowed)),
            "keep it out of caches, or give it a modulepath of its own",
        );
    }
    odd_name(findings, entry);
}

/// Lmod leaves out only those of these directories whose names begin with a dot.
fn ignored(findings: &mut Findings<'_>, entry: &TreeEntry) {
    if !entry.name().starts_with(b".") {
        findings.add(
            &entry.path,
            "lmod-lists",
            4,
            "is left out by Environment Modules, not by Lmod".into(),
            "move it out of the modulepath",
        );
    }
}

fn file(findings: &mut Findings<'_>, entry: &TreeEntry, options: &AuditOptions) {
    let content = entry.content().unwrap_or_default();
    let lmod = is_for_lmod(entry.name(), content) || entry.name() == LUA_RC;
    match entry.role() {
        None if lmod && options.lmod => findings.add(
            &entry.path,
            "lmod-lists",
            4,
            "is ignored by Environment Modules and a modulefile for Lmod".into(),
            "move it out of the modulepath",
        ),
        None | Some(FileRole::Rc(_)) => {}
        Some(_) => module(findings, entry, lmod, options),
    }
    comparisons(findings, entry);
}

/// The rc file of Lmod, which Environment Modules takes for a hidden modulefile without a cookie.
const LUA_RC: &[u8] = b".modulerc.lua";

fn module(findings: &mut Findings<'_>, entry: &TreeEntry, lmod: bool, options: &AuditOptions) {
    readers(findings, entry, lmod, options);
    match entry.cookie() {
        None => {}
        Some(Cookie::None(_)) if lmod => {}
        Some(Cookie::None(miss)) => no_cookie(findings, entry, miss),
        Some(cookie @ Cookie::From(_)) if !cookie.accepted_by(&options.version) => {
            let Cookie::From(minimum) = cookie else { return };
            let (minimum, version) = (escape(&minimum), escape(&options.version));
            findings.add(
                &entry.path,
                "too-new",
                2,
                format!("needs Modules {minimum}, and users have {version}"),
                "with mcookie_check=eval hide it from older versions; `quell modules convert --to eval` does",
            );
        }
        Some(_) => odd_name(findings, entry),
    }
}

fn readers(findings: &mut Findings<'_>, entry: &TreeEntry, lmod: bool, options: &AuditOptions) {
    let Some(access) = &entry.access else { return };
    let allowed = access.who(Permission::Read);
    if allowed == AllowedUsers::Everybody {
        return;
    }
    if lmod && entry.name().ends_with(b".lua") && options.lmod {
        findings.add(
            &entry.path,
            "lua-unreadable",
            4,
            format!(
                "is a Lua modulefile that {} may read; for other users Lmod 8.7.60 lists nothing at all",
                who(&allowed)
            ),
            "let every user read it, or move it to a modulepath of its own",
        );
    }
    match is_for_root_alone(entry) {
        true => findings.add(
            &entry.path,
            "unreadable",
            13,
            "may be read by root alone, and is opened for every listing".into(),
            "move it out of the modulepath, or hide it",
        ),
        false => findings.add(
            &entry.path,
            "restricted",
            15,
            format!("may be read by {}", who(&allowed)),
            "hide it with `--not-group` or `--not-user`; without these `module-hide --hard` hides it from its readers too",
        ),
    }
}

fn no_cookie(findings: &mut Findings<'_>, entry: &TreeEntry, miss: CookieMiss) {
    let almost = match miss {
        CookieMiss::Empty | CookieMiss::Absent => {
            let why = if miss == CookieMiss::Empty { "it is empty" } else { "it has no cookie" };
            findings.add(
                &entry.path,
                "stray",
                13,
                format!("is no modulefile: {why}"),
                "move it out of the modulepath; with mcookie_check=eval it would be listed",
            );
            return;
        }
        CookieMiss::ByteOrderMark => "a byte order mark precedes its cookie",
        CookieMiss::Blanks => "blanks precede its cookie",
        CookieMiss::Case => "its cookie has other upper and lower case than `#%Module`",
        CookieMiss::Later => "its cookie is not its first word",
    };
    findings.add(
        &entry.path,
        "almost-modulefile",
        1,
        format!("is no modulefile: {almost}"),
        "make `#%Module` its first eight characters",
    );
}

fn odd_name(findings: &mut Findings<'_>, entry: &TreeEntry) {
    if !is_plain(entry.name()) {
        findings.add(
            &entry.path,
            "odd-name",
            8,
            "has a name with characters that select versions or variants, or that a shell interprets".into(),
            "use letters, digits, `.`, `_`, `-` and `+` only",
        );
    }
}

/// Variables and functions that hold the tool's version.
const VERSIONS: [&[u8]; 3] = [b"$ModuleToolVersion", b"${ModuleToolVersion}", b"$::ModuleToolVersion"];

/// Lines that compare a version as text: `5.10.0` comes before `5.3` there.
fn comparisons(findings: &mut Findings<'_>, entry: &TreeEntry) {
    let Some(content) = entry.content() else { return };
    let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    if !has(content, b"ModuleToolVersion") {
        return;
    }
    let compares = |line: &&[u8]| {
        let code = line.trim_ascii_start();
        !code.starts_with(b"#")
            && VERSIONS.iter().any(|version| has(line, version))
            && line.iter().any(|byte| matches!(byte, b'<' | b'>'))
            && !has(line, b"versioncmp")
    };
    let Some(line) = content.split(|byte| *byte == b'\n').find(compares) else { return };
    let place = line.as_ptr().addr() - content.as_ptr().addr();
    findings.add(
        &entry.path,
        "string-comparison",
        14,
        format!(
            "compares versions as text in line {}, where 5.10.0 is less than 5.3",
            line_of(content, place)
        ),
        "write `[versioncmp $ModuleToolVersion 5.3] < 0`, from Modules 4.7",
    );
}
