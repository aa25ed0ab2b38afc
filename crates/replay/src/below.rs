//! Paths below a directory.

/// The part of a path below a directory; empty for the directory itself, `None` for what lies elsewhere.
pub(super) fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(directory)?;
    match rest {
        [] => Some(rest),
        [b'/', name @ ..] => Some(name),
        _ if directory == b"/" => Some(rest),
        _ => None,
    }
}

/// A name below a directory; empty for the directory itself.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory, name) {
        (_, []) => directory.to_vec(),
        (b"/", _) => [b"/", name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}
