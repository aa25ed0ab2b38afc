//! The library that a path belongs to: a package of Python or Node, or a shared library.

use quell_base::escape;

/// The name of the library that a path belongs to; `None` for other paths.
pub(crate) fn library(path: &[u8]) -> Option<String> {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let package = names.windows(2).rev().find_map(|pair| match pair[0] {
        b"site-packages" | b"dist-packages" => python(pair[1]),
        b"node_modules" => Some(pair[1]),
        _ => None,
    });
    let name = package.or_else(|| shared(names.last()?))?;
    Some(escape(name)).filter(|name| name.len() <= LONGEST)
}

/// `numpy`, `numpy-1.26.dist-info`, `numpy.libs` and `six.cpython-311-x86_64-linux-gnu.so` without what follows the name.
fn python(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|byte| matches!(byte, b'.' | b'-')).unwrap_or(name.len());
    (end > 0 && name != b"__pycache__").then(|| &name[..end])
}

/// `libmpi` of `libmpi.so.40.30.2`.
fn shared(name: &[u8]) -> Option<&[u8]> {
    let end = name.windows(3).position(|three| three == b".so")?;
    let is_end = matches!(name.get(end + 3), None | Some(b'.'));
    let is_extension = name[..end].contains(&b'.');
    (end > 0 && is_end && !is_extension && name.starts_with(b"lib")).then(|| &name[..end])
}

/// A longer name is none.
const LONGEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_its_package_or_is_a_shared_library() {
        for (path, expected) in [
            ("/usr/lib/python3/dist-packages/numpy/core/__init__.py", Some("numpy")),
            ("/v/lib/python3.11/site-packages/numpy.libs/libgfortran.so.5", Some("numpy")),
            ("/v/lib/python3.11/site-packages/numpy-2.1.dist-info/METADATA", Some("numpy")),
            ("/v/site-packages/six.py", Some("six")),
            ("/v/site-packages/__pycache__", None),
            ("/v/site-packages", None),
            ("/a/node_modules/x/node_modules/left-pad/index.js", Some("left-pad")),
            ("/opt/mpi/lib/libmpi.so.40.30.2", Some("libmpi")),
            ("/opt/mpi/lib/libmpi.so", Some("libmpi")),
            ("/opt/mpi/lib/libmpi.sole", None),
            ("/opt/x/foo.cpython-311.so", None),
            ("/etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(library(path.as_bytes()).as_deref(), expected, "{path}");
        }
    }
}
