//! An export has the content of its image: as files, tar, squashfs and EROFS, and read by other programs; and nothing
//! that is forged leads outside.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod support;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use quell_image::check::CheckFinding;
use quell_image::export::directory::{self, Existing, Owners};
use quell_image::export::find::{FindError, LastLink, find};
use quell_image::export::{
    ExportError, ExportSelection, FoundNode, ImageWalk, IsSecret, LeftOutNode, LeftOutReason, MissingContent,
    erofs, select, squashfs, tar,
};
use quell_image::original::{OriginalDirectory, attributes_of};
use quell_image::write::{Audience, write};
use quell_image::{Attributes, ContentSource, Coverage, FileKind, Image, ImageTree, Timestamp};
use rustix::fs::{CWD, Mode};
use support::{directory as plain_directory, fsck, opened, plain, scratch, tree_of, written};

/// A tree with what archives find hard: long and odd names, hard links, times, empty and large files.
fn populate(top: &Path) {
    fs::create_dir(top).unwrap();
    for (name, size) in [("empty", 0), ("one", 1), ("record", 512), ("over", 513), ("large", 3 << 20)] {
        let bytes: Vec<u8> = (0..size).map(|byte: u32| (byte / 511) as u8).collect();
        fs::write(top.join(name), bytes).unwrap();
    }
    let odd = OsStr::from_bytes(b"not \xff text");
    for name in [OsStr::new("new\nline"), OsStr::new("-rf"), OsStr::new(&"n".repeat(255)), odd] {
        fs::write(top.join(name), name.as_bytes()).unwrap();
    }
    let deep = top.join("d".repeat(90)).join("e".repeat(90));
    fs::create_dir_all(&deep).unwrap();
    fs::hard_link(top.join("one"), deep.join("one again")).unwrap();
    fs::hard_link(top.join("one"), top.join("another one")).unwrap();
    symlink("one", top.join("link")).unwrap();
    symlink("l".repeat(300), top.join("long link")).unwrap();
    symlink("/etc/passwd", deep.join("outward")).unwrap();
    rustix::fs::mknodat(CWD, top.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::set_permissions(top.join("record"), PermissionsExt::from_mode(0o400)).unwrap();
    let age = std::time::UNIX_EPOCH - std::time::Duration::from_nanos(1_500_000_001);
    File::options().write(true).open(top.join("over")).unwrap().set_modified(age).unwrap();
    fs::set_permissions(top.join("d".repeat(90)), PermissionsExt::from_mode(0o555)).unwrap();
}

/// Everything of an image that packs `top` at `/top`.
fn selection(image: &Image<Vec<u8>>) -> ExportSelection<'_> {
    let start = find(image, b"/top", LastLink::Keep).unwrap();
    select(image, vec![start], MissingContent::Leave).unwrap()
}

/// Fails unless both trees have the same names, contents, modes, times, targets and links.
#[track_caller]
fn assert_equal(expected: &Path, found: &Path, times: Times) {
    let names = |path: &Path| OriginalDirectory::open(path).unwrap().names().unwrap();
    assert_eq!(names(expected), names(found), "{}", found.display());
    for name in names(expected) {
        let (a, b) = (expected.join(OsStr::from_bytes(&name)), found.join(OsStr::from_bytes(&name)));
        let (one, other) = (attributes_of(&a).unwrap(), attributes_of(&b).unwrap());
        let facts = |found: Attributes| (found.mode(), found.uid, found.gid, links(&found));
        assert_eq!(facts(one), facts(other), "{}", b.display());
        let time = |found: Attributes| match times {
            Times::Whole => found.mtime,
            Times::Seconds => Timestamp { nanoseconds: 0, ..found.mtime },
        };
        if times == Times::Whole || one.mtime.seconds >= 0 {
            assert_eq!(time(one), time(other), "{}", b.display());
        }
        match one.kind {
            FileKind::Directory => assert_equal(&a, &b, times),
            FileKind::Symlink => assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap()),
            FileKind::Regular => assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", b.display()),
            _ => {}
        }
    }
}

/// Links count directories differently on each file system.
fn links(found: &Attributes) -> u32 {
    if found.kind == FileKind::Directory { 0 } else { found.nlink }
}

#[derive(Clone, Copy, PartialEq)]
enum Times {
    Whole,
    /// squashfs keeps seconds from 1970.
    Seconds,
}

/// Runs a program that must succeed; false, said aloud, where it is not installed.
fn runs(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
            true
        }
        Err(error) => {
            let must = std::env::var_os("QUELL_TESTS_MUST_RUN").is_some_and(|value| value == "1");
            assert!(!must, "{command:?}: {error}");
            println!("skipped, because {:?} is not installed", command.get_program());
            false
        }
    }
}

#[test]
fn files_come_out_as_they_went_in() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    let image = opened(written(&tree_of(&top)));
    let out = scratch.path().join("out");
    let extracted = directory::write(&selection(&image), &out, Existing::Refuse, Owners::Originals).unwrap();
    assert_equal(&top, &out.join("top"), Times::Whole);
    assert_eq!((extracted.files, extracted.links), (9, 3));
    let inode = |name: &str| fs::metadata(out.join("top").join(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("another one"));
    let again = directory::write(&selection(&image), &out, Existing::Refuse, Owners::Originals);
    assert!(matches!(again, Err(ExportError::Occupied { .. })));
    fs::write(out.join("top/over"), "other").unwrap();
    fs::write(out.join("kept"), "kept").unwrap();
    directory::write(&selection(&image), &out, Existing::Replace, Owners::Originals).unwrap();
    assert_equal(&top, &out.join("top"), Times::Whole);
    assert!(out.join("kept").exists());
}

#[test]
fn tar_reads_our_archive() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    let image = opened(written(&tree_of(&top)));
    let archive = scratch.path().join("top.tar");
    let selection = selection(&image);
    let bytes = tar::write(&selection, &archive, Audience::Owner).unwrap();
    let metadata = fs::metadata(&archive).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (bytes, 0o600));
    let mut streamed = Vec::new();
    tar::stream(&selection, &mut |bytes| {
        streamed.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert!(streamed == fs::read(&archive).unwrap());
    let out = scratch.path().join("out");
    fs::create_dir(&out).unwrap();
    if runs(
        Command::new("tar")
            .args(["-x", "-p", "--delay-directory-restore", "-f"])
            .arg(&archive)
            .arg("-C")
            .arg(&out),
    ) {
        assert_equal(&top, &out.join("top"), Times::Whole);
    }
    let read = "import sys, tarfile\nfor m in tarfile.open(sys.argv[1]): print(len(m.name), m.type, m.size)";
    runs(Command::new("python3").args(["-c", read]).arg(&archive));
}

#[test]
fn unsquashfs_reads_what_mksquashfs_made_of_our_archive() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    // An archive has no seconds before 1970 for squashfs.
    File::options().write(true).open(top.join("over")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let image = opened(written(&tree_of(&top)));
    let target = scratch.path().join("top.squashfs");
    let selection = selection(&image);
    if !runs(Command::new("sh").args(["-c", "command -v mksquashfs unsquashfs"])) {
        return;
    }
    let tool = Path::new("mksquashfs");
    let bytes = squashfs::write(&selection, &target, Audience::Owner, tool).unwrap();
    let metadata = fs::metadata(&target).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (bytes, 0o600));
    let out = scratch.path().join("out");
    runs(Command::new("unsquashfs").args(["-no-progress", "-d"]).arg(&out).arg(&target));
    assert_equal(&top, &out.join("top"), Times::Seconds);
    let first = fs::read(&target).unwrap();
    // Of another second.
    std::thread::sleep(std::time::Duration::from_secs(1));
    squashfs::write(&selection, &target, Audience::Everyone, tool).unwrap();
    assert!(first == fs::read(&target).unwrap(), "the same bytes each time");
    let names: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_tool_that_is_missing_or_fails_leaves_nothing_behind() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    let image = opened(written(&tree_of(&top)));
    let selection = selection(&image);
    let target = scratch.path().join("out");
    let made = |tool: &Path| squashfs::write(&selection, &target, Audience::Owner, tool);
    assert!(matches!(made(Path::new("/none/mksquashfs")), Err(ExportError::ToolMissing { .. })));
    let script = scratch.path().join("mksquashfs");
    for (body, expected) in [
        ("echo 'FATAL ERROR: too old' >&2; exit 1", "FATAL ERROR: too old"),
        ("cat >/dev/null; echo 'Write failed because No space left on device' >&2; exit 1", "no room"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let mut file = File::create(&script).unwrap();
        write!(file, "#!/bin/sh\n{body}\n").unwrap();
        file.set_permissions(PermissionsExt::from_mode(0o755)).unwrap();
        drop(file);
        let error = made(&script).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2, "the tree and the script");
}

#[test]
fn an_image_that_is_written_anew_has_the_same_bytes() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    let mut tree = tree_of(&top);
    tree.set_command(vec![b"a".to_vec(), b"b c".to_vec()]);
    let file = scratch.path().join("image");
    write(&tree, &file, Audience::Owner, &mut |_| {}).unwrap();
    let image = opened(fs::read(&file).unwrap());
    let rebuilt = erofs::rebuild(&image, &file, |_| false).unwrap();
    assert_eq!((rebuilt.left_out, rebuilt.filled), (vec![], (0, 0)));
    assert!(written(&rebuilt.tree) == fs::read(&file).unwrap());
    let copied = scratch.path().join("copy");
    erofs::copy(&image, &copied, Audience::Owner).unwrap();
    assert!(fs::read(&copied).unwrap() == fs::read(&file).unwrap());
    fsck(&copied);
}

/// An image of two originals of which one is held, with their absolute paths.
fn partly_held(scratch: &Path) -> ImageTree {
    let mut tree = ImageTree::new(plain_directory()).unwrap();
    let mut node = tree.root();
    for name in scratch.iter().skip(1) {
        node = tree.add(node, name.as_bytes(), plain_directory()).unwrap();
    }
    tree.cover(node, Coverage::Partial).unwrap();
    tree.absent(node, b"absent").unwrap();
    for name in ["held", "not-held"] {
        let path = scratch.join(name);
        fs::write(&path, name).unwrap();
        let file = tree.add(node, name.as_bytes(), attributes_of(&path).unwrap()).unwrap();
        if name == "held" {
            tree.hold(file, ContentSource::File(path)).unwrap();
        }
    }
    tree.add_root(scratch.as_os_str().as_bytes(), "the test said so", "").unwrap();
    tree
}

#[test]
fn what_is_not_held_is_left_out_or_read_from_an_unchanged_original() {
    let scratch = scratch();
    let file = scratch.path().join("image");
    let tree = partly_held(scratch.path());
    write(&tree, &file, Audience::Owner, &mut |_| {}).unwrap();
    let image = opened(fs::read(&file).unwrap());
    let missing = scratch.path().join("not-held");
    let left = |reason| vec![LeftOutNode { path: missing.as_os_str().as_bytes().to_vec(), reason }];
    let all = || vec![FoundNode { path: b"/".to_vec(), nid: image.root() }];
    let left_out = select(&image, all(), MissingContent::Leave).unwrap();
    assert_eq!(left_out.left_out, left(LeftOutReason::NotHeld));
    assert_eq!(left_out.files(), (1, 4));
    let full = select(&image, all(), MissingContent::Fill(|_| false)).unwrap();
    assert_eq!((full.files(), full.left_out), ((2, 12), vec![]));
    let rebuilt = erofs::rebuild(&image, &file, |_| false).unwrap();
    assert_eq!(rebuilt.filled, (1, 8));
    let fuller = opened(written(&rebuilt.tree));
    assert_eq!(
        select(&fuller, vec![FoundNode { path: b"/".to_vec(), nid: fuller.root() }], MissingContent::Leave)
            .unwrap()
            .files(),
        (2, 12)
    );
    assert_eq!(erofs::not_held(&fuller).unwrap(), []);
    let is_secret: IsSecret = |path| path.ends_with(b"/not-held");
    let filled = select(&image, all(), MissingContent::Fill(is_secret)).unwrap();
    assert_eq!(filled.left_out, left(LeftOutReason::Secret));
    assert_eq!(erofs::rebuild(&image, &file, is_secret).unwrap().left_out, left(LeftOutReason::Secret));
    fs::write(&missing, "something else").unwrap();
    assert_eq!(
        select(&image, all(), MissingContent::Fill(|_| false)).unwrap().left_out,
        left(LeftOutReason::Changed)
    );
    fs::remove_file(&missing).unwrap();
    assert_eq!(
        select(&image, all(), MissingContent::Fill(|_| false)).unwrap().left_out,
        left(LeftOutReason::Gone)
    );
    assert_eq!(erofs::rebuild(&image, &file, |_| false).unwrap().left_out, left(LeftOutReason::Gone));
}

#[test]
fn paths_are_followed_within_the_image() {
    let mut tree = ImageTree::new(plain_directory()).unwrap();
    let top = tree.add(tree.root(), b"top", plain_directory()).unwrap();
    let sub = tree.add(top, b"sub", plain_directory()).unwrap();
    tree.add(sub, b"file", plain(FileKind::Regular, 0)).unwrap();
    let link = |target: &[u8]| plain(FileKind::Symlink, target.len() as u64);
    for (name, target) in
        [("rel", "sub/file"), ("abs", "/top/sub"), ("loop", "loop"), ("out", "/etc"), ("up", "../../top/sub")]
    {
        tree.add_symlink(top, name.as_bytes(), link(target.as_bytes()), target.as_bytes()).unwrap();
    }
    tree.cover(top, Coverage::Complete).unwrap();
    let image = opened(written(&tree));
    let found = |path: &str, last| {
        find(&image, path.as_bytes(), last).map(|found| String::from_utf8(found.path).unwrap())
    };
    for (path, expected) in [
        ("/", "/"),
        ("/top/rel", "/top/sub/file"),
        ("/top/abs/./file", "/top/sub/file"),
        ("//top//up/../rel", "/top/sub/file"),
        ("/../..", "/"),
    ] {
        assert_eq!(found(path, LastLink::Follow).as_deref(), Ok(expected), "{path}");
    }
    assert_eq!(found("/top/abs", LastLink::Keep).as_deref(), Ok("/top/abs"));
    assert!(matches!(found("/top/none", LastLink::Keep), Err(FindError::Absent { .. })));
    assert!(matches!(found("/top/sub/none", LastLink::Keep), Err(FindError::Unknown { .. })));
    assert!(matches!(found("/top/out", LastLink::Follow), Err(FindError::Unknown { .. })));
    assert!(matches!(found("/top/loop", LastLink::Follow), Err(FindError::Links { .. })));
    assert!(matches!(found("/top/rel/x", LastLink::Follow), Err(FindError::NotDirectory { .. })));
}

/// The image of a directory whose entries fill a block of their own, with `from` in it replaced by `to`.
fn forged(from: &[u8], to: &[u8]) -> Image<Vec<u8>> {
    let mut tree = ImageTree::new(plain_directory()).unwrap();
    let top = tree.add(tree.root(), b"top", plain_directory()).unwrap();
    for number in 0..300 {
        tree.add(top, format!("entry-{number:03}").as_bytes(), plain(FileKind::Regular, 0)).unwrap();
    }
    let mut bytes = written(&tree);
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    Image::open(bytes).unwrap()
}

#[test]
fn forged_names_lead_nowhere() {
    for name in [&b"../../xyz"[..], b"entry/007", b"/////////", b"entry\x00+07"] {
        let image = forged(b"entry-007", name);
        let start = FoundNode { path: b"/top".to_vec(), nid: support::at(&image, b"/top") };
        assert!(ImageWalk::new(&image, start.clone()).any(|found| found.is_err()), "{}", name.escape_ascii());
        assert!(select(&image, vec![start], MissingContent::Fill(|_| false)).is_err());
    }
}

#[test]
fn a_forged_root_leads_nowhere() {
    let mut tree = ImageTree::new(plain_directory()).unwrap();
    let top = tree.add(tree.root(), b"top", plain_directory()).unwrap();
    tree.add(top, b"sub", plain_directory()).unwrap();
    tree.add_root(b"/top/sub", "the test said so", "").unwrap();
    let bytes = written(&tree);
    let image = opened(bytes.clone());
    let (root, sub) = (support::at(&image, b"/top"), support::at(&image, b"/top/sub"));
    for (path, nid) in
        [("/top/../top", root), ("/..", image.root()), ("/top/sub/..", root), ("/top", sub), ("/none", sub)]
    {
        let start = FoundNode { path: path.as_bytes().to_vec(), nid };
        assert!(select(&image, vec![start], MissingContent::Leave).is_err(), "{path}");
    }
    // Sealed anew, so that nothing but the path itself is wrong.
    let at = bytes.windows(8).rposition(|window| window == b"/top/sub").unwrap();
    let mut forged = bytes;
    forged[at..at + 8].copy_from_slice(b"/top/../");
    let (index, magic) = (&mut forged, b"QUELLIDX");
    let start = index.windows(8).position(|window| window == magic).unwrap();
    let length = u64::from_le_bytes(index[start + 16..start + 24].try_into().unwrap()) as usize;
    let sum = crc32c::crc32c(&index[start + 16..start + length]);
    index[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
    let report = quell_image::check::check(&Image::open(forged).unwrap());
    assert!(
        report.findings.iter().any(|finding| matches!(finding, CheckFinding::Place { .. })),
        "{report:?}"
    );
}

#[test]
fn links_that_are_in_the_way_are_not_followed() {
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top);
    let image = opened(written(&tree_of(&top)));
    let victim = scratch.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "untouched").unwrap();
    let out = scratch.path().join("out");
    fs::create_dir(&out).unwrap();
    symlink(&victim, out.join("top")).unwrap();
    assert!(directory::write(&selection(&image), &out, Existing::Replace, Owners::Originals).is_err());
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    fs::remove_file(out.join("top")).unwrap();
    fs::create_dir(out.join("top")).unwrap();
    symlink(victim.join("file"), out.join("top/large")).unwrap();
    directory::write(&selection(&image), &out, Existing::Replace, Owners::Originals).unwrap();
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"untouched");
    assert_equal(&top, &out.join("top"), Times::Whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is wrong with an image that can be opened, taking it out ends, and nothing lands outside.
    #[test]
    fn damage_does_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = SMALL.clone();
        let index = bytes.windows(8).position(|window| window == b"QUELLIDX").unwrap();
        for (at, byte) in changes {
            // The first block and the index have checksums: forged ones are tested above.
            let at = 4096 + at.index(bytes.len() - 4096);
            if at < index || at > index + 8192 {
                bytes[at] = byte;
            }
        }
        let Ok(image) = Image::open(bytes) else { return Ok(()) };
        let all = || vec![FoundNode { path: b"/".to_vec(), nid: image.root() }];
        let _listed = erofs::not_held(&image);
        let _found = find(&image, b"/top/link/x", LastLink::Follow);
        let _rebuilt = erofs::rebuild(&image, Path::new("/none"), |_| false);
        if let Ok(selection) = select(&image, all(), MissingContent::Leave) {
            tar::stream(&selection, &mut |_| Ok(())).unwrap();
            let scratch = scratch();
            let _extracted = directory::write(&selection, &scratch.path().join("a/out"), Existing::Refuse, Owners::Originals);
            let _extracted = directory::write(&selection, &scratch.path().join("out"), Existing::Replace, Owners::Originals);
            let names: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(names.iter().all(|name| name == "out"), "{names:?}");
        }
    }
}

/// A small image with directories, links and files outside its first block.
static SMALL: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
    let mut tree = ImageTree::new(plain_directory()).unwrap();
    let top = tree.add(tree.root(), b"top", plain_directory()).unwrap();
    for number in 0..60 {
        let directory = tree.add(top, format!("directory-{number}").as_bytes(), plain_directory()).unwrap();
        let file = tree.add(directory, b"file", plain(FileKind::Regular, 3)).unwrap();
        tree.hold(file, ContentSource::Bytes(b"abc".to_vec())).unwrap();
        tree.link(top, format!("link-{number}").as_bytes(), file).unwrap();
        let link = format!("../directory-{number}");
        tree.add_symlink(directory, b"symlink", plain(FileKind::Symlink, link.len() as u64), link.as_bytes())
            .unwrap();
    }
    tree.add_root(b"/top", "the test said so", "").unwrap();
    written(&tree)
});
