//! Tells logs of other tools, so that they are refused by name. Lines of ltrace look like those of strace.

/// A tool whose logs are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherTool {
    /// ltrace(1), which shows calls of libraries.
    Ltrace,
    /// perf(1), in any of its forms.
    Perf,
}

impl std::fmt::Display for OtherTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Ltrace => "ltrace, which shows calls of libraries and not what reaches the kernel",
            Self::Perf => "perf, which quell does not read",
        })
    }
}

/// The tool that wrote a line which is not from strace. Source: `perf-trace(1)`, `perf-script(1)`, `perf.data-file-format`.
pub(crate) fn of_foreign(line: &[u8]) -> Option<OtherTool> {
    let has = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
    let is_perf = line.starts_with(b"PERFILE2")
        || line.starts_with(b"# perf ")
        || has(b" ms): ")
        || has(b" syscalls:sys_enter_")
        || has(b" raw_syscalls:sys_enter");
    is_perf.then_some(OtherTool::Perf).or_else(|| {
        // `libc.so.6->malloc(32) = 0x55d5`, as `ltrace -l` prints it.
        let object = line.split(|&byte| byte == b'(').next()?;
        let is_object = has(b"->") && has(b"(") && !object.contains(&b' ');
        is_object.then_some(OtherTool::Ltrace)
    })
}

/// True for a call that ltrace alone prints. Source: `ltrace(1)`: `SYS_` stands before system calls with `-S`.
pub(crate) fn is_of_ltrace(name: &[u8]) -> bool {
    name.starts_with(b"SYS_") || name == b"__libc_start_main"
}

/// True for a function of the C library that is no system call.
pub(crate) fn is_library_function(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 14] = [
        b"calloc",
        b"fclose",
        b"fgets",
        b"fopen",
        b"fopen64",
        b"free",
        b"getenv",
        b"malloc",
        b"memcpy",
        b"printf",
        b"puts",
        b"setlocale",
        b"strcmp",
        b"strlen",
    ];
    NAMES.binary_search(&name).is_ok()
}

/// True for the last line of a process in a log of ltrace.
pub(crate) fn is_end_of_ltrace(text: &[u8]) -> bool {
    text.starts_with(b"+++ exited (status ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_tools_are_known() {
        for (line, tool) in [
            (
                &b"     0.024 ( 0.004 ms): ls/77 openat(dfd: CWD, filename: 0x7f) = 3"[..],
                Some(OtherTool::Perf),
            ),
            (b"ls  77 [000]  12.345: syscalls:sys_enter_openat: dfd: 0x1", Some(OtherTool::Perf)),
            (b"PERFILE2h\0\0", Some(OtherTool::Perf)),
            (b"libc.so.6->malloc(32) = 0x55d5", Some(OtherTool::Ltrace)),
            (b"cat: nope: No such file or directory", None),
            (b"the arrow -> of a program (and more)", None),
        ] {
            assert_eq!(of_foreign(line), tool, "{}", String::from_utf8_lossy(line));
        }
        assert!(is_library_function(b"malloc") && !is_library_function(b"openat"));
        assert!(is_of_ltrace(b"SYS_openat") && !is_of_ltrace(b"openat"));
        assert!(
            is_end_of_ltrace(b"+++ exited (status 0) +++") && !is_end_of_ltrace(b"+++ exited with 0 +++")
        );
    }
}
