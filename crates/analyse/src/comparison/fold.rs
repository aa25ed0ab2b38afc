//! Names that are new in every run by themselves: process numbers, job numbers, temporary names.
//!
//! Two runs of one program never agree on them, and each would stand in a comparison twice, as gone and as new. Such
//! parts are folded into `[..]`. Versions and dates are names like others and stay: a reader wants to know of their change. So
//! numbers are folded only where they are known to be of one run: below `/proc` and temporary directories, in names of the job,
//! and where they are too long to be anything else.

/// Stands for a part that changes from run to run.
const MARK: &[u8] = b"[..]";
/// Directories, at the start of a path, below which names are made up by programs.
const TEMPORARY: &[&[u8]] = &[b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/dev/pts/", b"/run/", b"/proc/"];
/// Names of such directories anywhere.
const TEMPORARY_NAMES: &[&[u8]] = &[b"tmp", b".tmp", b"temp", b"TMP"];
/// A number of so many digits is an address or a time in nanoseconds. Eight are a date, seven a process.
const LONG: usize = 9;
/// A job's number is looked for from so many digits on: `1` would be everywhere.
const JOB: usize = 3;
/// The begin of a name of Python's `tempfile`, and the number of characters behind it. Source: CPython, `Lib/tempfile.py`.
const PYTHON: &[u8] = b"tmp";
const PYTHON_RANDOM: usize = 8;
/// Shorter words are not made up: `mkstemp(3)` makes six characters.
const RANDOM: usize = 6;

/// The path with [`MARK`] for what changes from run to run; `None` when nothing in it does. `jobs` are the numbers of
/// the run's jobs.
pub(super) fn fold(path: &[u8], jobs: &[&[u8]]) -> Option<Vec<u8>> {
    let mut folded = Vec::with_capacity(path.len());
    let mut temporary = false;
    let starts = |below: &&&[u8]| path.starts_with(below);
    let known = TEMPORARY.iter().find(starts).map_or(0, |below| below.len());
    for component in path.split_inclusive(|&byte| byte == b'/') {
        let name = component.strip_suffix(b"/").unwrap_or(component);
        temporary |= known > 0 && folded.len() >= known;
        let mut rest = name;
        if is_uuid(name) {
            folded.extend(MARK);
            rest = &[];
        } else if temporary && is_pythons(name) {
            folded.extend([PYTHON, MARK].concat());
            rest = &name[PYTHON.len() + PYTHON_RANDOM..];
        }
        let words = rest.chunk_by(|a, b| a.is_ascii_alphanumeric() == b.is_ascii_alphanumeric());
        words.for_each(|word| fold_word(word, temporary, jobs, &mut folded));
        folded.extend(&component[name.len()..]);
        temporary |= TEMPORARY_NAMES.contains(&name);
    }
    (folded != path).then_some(folded)
}

/// The numbers in the name that a launcher gives a job: of `4711.0`, job and step, the job's.
pub(super) fn job_number(job: &str) -> Option<&[u8]> {
    let end = job.find(|character: char| !character.is_ascii_digit()).unwrap_or(job.len());
    (end >= JOB).then(|| &job.as_bytes()[..end])
}

fn fold_word(word: &[u8], temporary: bool, jobs: &[&[u8]], folded: &mut Vec<u8>) {
    if temporary && is_made_up(word) {
        folded.extend(MARK);
        return;
    }
    for part in word.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let number = part[0].is_ascii_digit();
        match number && (temporary || part.len() >= LONG || jobs.contains(&part)) {
            true => folded.extend(MARK),
            false => folded.extend(part),
        }
    }
}

/// True for a word in a temporary directory that looks as `mkstemp(3)` makes it.
fn is_made_up(word: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| word.iter().any(kind);
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || word.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    word.len() >= RANDOM && mixed
}

/// True for a name as Python's `tempfile` makes it: `tmpab12cd_x`, with or without an ending.
fn is_pythons(name: &[u8]) -> bool {
    let length = PYTHON.len() + PYTHON_RANDOM;
    let ends = name.get(length).is_none_or(|byte| *byte == b'.');
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.len() >= length && name.starts_with(PYTHON) && name[..length].iter().all(word) && ends
}

/// Source: RFC 9562, section 4.
fn is_uuid(name: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    name.len() == 36 && name.iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_run_to_run_is_folded_and_nothing_else() {
        for (path, expected) in [
            ("/proc/4711/status", "/proc/[..]/status"),
            ("/proc/4711/task/4712/maps", "/proc/[..]/task/[..]/maps"),
            ("/dev/pts/3", "/dev/pts/[..]"),
            ("/tmp/tmpabc_defg/x.py", "/tmp/tmp[..]/x.py"),
            ("/tmp/tmp.Xq3bYZ01aB", "/tmp/tmp.[..]"),
            ("/tmp/ompi.node.1000/jf.0/12345", "/tmp/ompi.node.[..]/jf.[..]/[..]"),
            ("/lustre/u/tmp/run_8131/out", "/lustre/u/tmp/run_[..]/out"),
            ("/env/__pycache__/a.cpython-311.pyc.139871234560", "/env/__pycache__/a.cpython-311.pyc.[..]"),
            ("/var/lib/0f8fad5b-d9cb-469f-a165-70867728950e/x", "/var/lib/[..]/x"),
            ("/scratch/job_4711/input", "/scratch/job_[..]/input"),
            ("/tmp/plain/name", "/tmp/plain/name"),
            ("/tmp", "/tmp"),
            ("/apps/tool/20250101/lib.so.1.2", "/apps/tool/20250101/lib.so.1.2"),
            ("/apps/numpy-1.26.4-h7ak2jxr5/x86_64", "/apps/numpy-1.26.4-h7ak2jxr5/x86_64"),
            ("", ""),
        ] {
            let folded = fold(path.as_bytes(), &[b"4711"]).unwrap_or(path.into());
            assert_eq!(String::from_utf8(folded).unwrap(), expected);
        }
    }

    #[test]
    fn the_number_of_a_job_is_without_its_step() {
        for (job, expected) in
            [("4711.0", Some(&b"4711"[..])), ("123456", Some(b"123456")), ("12.0", None), ("a", None)]
        {
            assert_eq!(job_number(job), expected, "{job}");
        }
    }
}
