//! Compressed images: served while they decompress, harmless when damaged, within their budget of memory.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use quell_image::OpenError;
use quell_image::frames::Frames;

use super::frozen::{LIST, original};
use crate::scene::{Scene, USERS, User, failed, next_line, succeeded};
use crate::support::Packing;

/// The usual tree with a compressed image.
fn compressed(user: User) -> Scene {
    let scene = Scene::unpacked(user);
    scene.pack(&Packing { compressed: true, ..Packing::of(&scene.root()) });
    scene
}

pub(crate) fn compressed_tree_is_equal() {
    for user in USERS {
        let scene = compressed(user);
        let list = format!("cd {} && {LIST}", scene.root().display());
        let plain = scene.prints(&["sh", "-c", &list]);
        let (mounted, stats) = scene.script_with_stats(&list);
        assert_eq!(mounted, plain);
        assert_eq!(original(&stats), 0, "{stats:#}");
        assert_eq!(stats["image"]["bytes_fetched"], stats["image"]["bytes"], "{stats:#}");
        let file = std::fs::metadata(scene.image()).unwrap().len();
        assert!(stats["image"]["bytes"].as_u64() > Some(file));
        assert_eq!(stats["image"]["file_bytes"].as_u64(), Some(file));
        assert_eq!(succeeded(&scene.run(&["--check"], &["echo", "fresh"]).output().unwrap()), "fresh\n");
    }
}

/// A frame that cannot be decompressed: its files are read from the original, the rest is served.
pub(crate) fn damaged_frame() {
    let scene = compressed(User::Ordinary);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(scene.image()).unwrap();
    let length = file.metadata().unwrap().len();
    let frames = Frames::read(length, &mut |at, into| {
        file.read_exact_at(into, at).map_err(|_| OpenError::NoFrameTable)
    })
    .unwrap();
    assert!(frames.count() >= 3);
    let (at, bytes) = frames.place(1).unwrap();
    let mut frame = vec![0; bytes];
    file.read_exact_at(&mut frame, at).unwrap();
    frame[bytes / 2] ^= 0x55;
    file.write_all_at(&frame, at).unwrap();
    let script = format!("sha256sum {0}/lib/big.bin {0}/lib/a.txt", scene.root().display());
    let plain = scene.prints(&["sh", "-c", &script]);
    let (mounted, stats) = scene.script_with_stats(&script);
    assert_eq!(mounted, plain);
    assert!(stats["original"]["read"].as_u64() > Some(0), "{stats:#}");
    // A file that was cut short has no table at its end.
    file.set_len(length - 1).unwrap();
    let (status, message) = failed(&scene.run(&[], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("without quell's table of frames at its end"), "{message}");
}

pub(crate) fn memory_budget() {
    let scene = compressed(User::Ordinary);
    let (status, message) = failed(&scene.run(&["--memory", "1000000"], &["true"]).output().unwrap());
    assert_eq!(status, 125);
    assert!(message.contains("bytes of memory, and may take 1000000"), "{message}");
    assert_eq!(
        succeeded(&scene.run(&["--memory", "99000000"], &["echo", "fits"]).output().unwrap()),
        "fits\n"
    );
    // A plain image on a local file system takes none.
    let scene = Scene::new(User::Ordinary);
    assert_eq!(succeeded(&scene.run(&["--memory", "0"], &["echo", "mapped"]).output().unwrap()), "mapped\n");
}

/// Runs a program and makes `change` to the image between two of its questions. Returns its output, its errors and the
/// statistics.
fn while_in_use(change: impl FnOnce(&Path)) -> (String, String, serde_json::Value) {
    let scene = Scene::new(User::Ordinary);
    let file = scene.path("stats.json");
    let script = format!(
        "cd {}; cat lib/a.txt; read go; cat lib/python/pkg/__init__.py; cat lib/a.txt",
        scene.root().display()
    );
    let mut command = scene.run(&["--stats", file.to_str().unwrap()], &["sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert_eq!(next_line(&mut child), "alpha");
    change(&scene.image());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), crate::scene::stats(&file))
}

pub(crate) fn changed_while_in_use() {
    const WHOLE: &str = "from . import sub\nvalue = 42\nalpha\n";
    let open = |image: &Path| std::fs::OpenOptions::new().write(true).open(image).unwrap();
    // Replaced, removed or touched: the old one is served on.
    for change in [
        (|image| std::fs::rename(image.with_file_name("env/lib/big.bin"), image).unwrap()) as fn(&Path),
        |image| std::fs::remove_file(image).unwrap(),
        |image| {
            let file = std::fs::OpenOptions::new().write(true).open(image).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        },
    ] {
        let (printed, said, stats) = while_in_use(change);
        assert_eq!((printed.as_str(), said.as_str()), (WHOLE, ""));
        assert_eq!(stats["image_lost_requests"], 0);
    }
    // Cut short, or other bytes in the same place: an error, and nothing wrong. Cached pages of the kernel stay.
    let cut = |image: &Path| open(image).set_len(0).unwrap();
    let rewritten = |image: &Path| {
        let length = image.metadata().unwrap().len();
        let junk: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        open(image).write_all_at(&junk, 0).unwrap();
    };
    for change in [&cut as &dyn Fn(&Path), &rewritten] {
        let (printed, said, stats) = while_in_use(change);
        assert!(["", "alpha\n"].contains(&printed.as_str()), "{printed}");
        assert!(said.contains("Input/output error"), "{said}");
        assert!(stats["image_lost_requests"].as_u64() > Some(0), "{stats:#}");
        assert_eq!((&stats["takeovers"], &stats["abandoned_requests"]), (&0.into(), &0.into()), "{stats:#}");
    }
}
