//! Names of files that programs load: libraries, and code and configuration of interpreters.
//!
//! A recording does not say why a file was opened. The name tells most files that belong to a start from data.

/// True for the name of a library, without its directories: `libm.so.6`, `mca_btl_self.so`, `_x.cpython-311.so`.
pub fn is_library(name: &[u8]) -> bool {
    let is_version = |rest: &[u8]| rest.is_empty() || rest[0] == b'.';
    name.windows(3).enumerate().any(|(at, part)| part == b".so" && is_version(&name[at + 3..]))
}

/// True for the name of a file of code or configuration that an interpreter loads.
pub fn is_code(name: &[u8]) -> bool {
    let suffix = name.iter().rposition(|&byte| byte == b'.').map_or(&b""[..], |dot| &name[dot + 1..]);
    CODE.contains(&suffix)
}

/// Suffixes of the files that interpreters load.
const CODE: &[&[u8]] = &[
    b"py", b"pyc", b"pyo", b"pth", b"jl", b"ji", b"pl", b"pm", b"lua", b"luac", b"rb", b"r", b"R", b"rdb",
    b"rdx", b"js", b"mjs", b"cjs", b"node", b"tcl", b"tm", b"class", b"jar", b"jmod", b"php", b"el", b"elc",
    b"conf", b"cfg", b"ini", b"toml",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_tell_libraries_and_code_from_data() {
        for (name, library, code) in [
            ("libm.so.6", true, false),
            ("_x.cpython-311-x86_64-linux-gnu.so", true, false),
            ("module.py", false, true),
            ("notes.source", false, false),
            ("mesh.h5", false, false),
            ("py", false, false),
        ] {
            assert_eq!((is_library(name.as_bytes()), is_code(name.as_bytes())), (library, code), "{name}");
        }
    }
}
