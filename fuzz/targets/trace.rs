//! The reader of traces, and what a prediction makes of them: a trace with one damaged file is read or refused.
//!
//! The first byte of an input says which file, the rest is its content as [`quell_fuzz::content`] says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_fuzz::{content, scratch, sound};
use quell_predict::{Roots, StartScript};
use quell_trace::{Completeness, Recording};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

struct Stage {
    directory: PathBuf,
    /// Shape: sorted by name.
    files: Vec<(PathBuf, Vec<u8>)>,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let directory = scratch("trace").join("t.qtrace");
    sound::trace(&directory, Completeness::Complete).unwrap();
    forget_checksums(&directory.join("header.json"));
    let entries = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    Stage { directory, files }
});

/// A reader that compares checksums would refuse every damage before it reads it.
fn forget_checksums(header: &Path) {
    let text = std::fs::read_to_string(header).unwrap();
    std::fs::write(header, text.replacen("\"files\"", "\"unknown\"", 1)).unwrap();
}

fuzz_target!(|input: &[u8]| {
    let Some((&which, rest)) = input.split_first() else { return };
    let (path, whole) = &STAGE.files[usize::from(which) % STAGE.files.len()];
    std::fs::write(path, content(whole, rest)).unwrap();
    if let Ok(recording) = Recording::open(&STAGE.directory) {
        for part in recording.touched().ok().flatten().unwrap_or_default() {
            assert!(part.size > 0 && part.end() <= i64::MAX as u64);
        }
        let mut paths = 0;
        let _refused = recording.for_each_event(|event| {
            paths += event.target.map_or(0, |target| recording.paths.display(target).len());
        });
        for depth in [0, 2] {
            let roots = Roots::Below { directories: vec![b"/".to_vec()], depth };
            if let Ok(script) = StartScript::of(&recording, &roots, &|_| None) {
                assert!(script.acts.iter().all(|act| act.walk.end as usize <= script.walks.len()));
            }
        }
    }
    std::fs::write(path, whole).unwrap();
});
