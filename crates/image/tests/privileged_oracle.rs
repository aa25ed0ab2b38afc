//! The image against other implementations: `fsck.erofs`, the kernel's mount, and the originals.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use quell_image::original::OriginalDirectory;
use quell_image::write::{Audience, WriteError, write};
use quell_image::{
    Attributes, BlockSet, ContentSource, FileContent, FileKind, Image, ImageTree, Nid, Timestamp,
};
use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use support::{Mounted, at, child, directory, fsck, no_mounts, opened, plain, scratch, tree_of};

/// Makes a tree with one of everything that an image can hold.
fn populate(top: &Path) -> io::Result<()> {
    fs::create_dir(top)?;
    for (name, size) in
        [("empty", 0), ("one", 1), ("tail", 4095), ("block", 4096), ("over", 4097), ("blocks", 1 << 20)]
    {
        fs::write(top.join(name), pattern(size))?;
    }
    for name in ["!before dots", "-", "~", "new\nline", "\u{e9}", &"n".repeat(255)] {
        fs::write(top.join(name), name)?;
    }
    File::create(top.join("sparse"))?.set_len(3 << 20)?;
    fs::hard_link(top.join("one"), top.join("one again"))?;
    fs::create_dir(top.join("sub"))?;
    fs::hard_link(top.join("one"), top.join("sub/one once more"))?;
    for length in [1, 60, 2000, 2049, 4000, 4032, 4033, 4095] {
        symlink("l".repeat(length), top.join(format!("link {length}")))?;
    }
    fs::create_dir(top.join("none"))?;
    for (directory, count) in [("few", 100), ("many", 1200), ("most", 30_000)] {
        fs::create_dir(top.join(directory))?;
        for i in 0..count {
            File::create(top.join(directory).join(format!("entry number {i:05} of {count}")))?;
        }
    }
    // Directories whose last blocks end all around the sizes that are kept beside the inode.
    for count in 20..75 {
        let inner = top.join(format!("sub/{count}"));
        fs::create_dir(&inner)?;
        (0..count).try_for_each(|i| File::create(inner.join(format!("{i:048}"))).map(drop))?;
    }
    specials(top)?;
    odd_attributes(top)
}

fn specials(top: &Path) -> io::Result<()> {
    let private = Mode::from_raw_mode(0o640);
    let number = rustix::fs::makedev(259, 70_000);
    rustix::fs::mknodat(CWD, top.join("char"), FileType::CharacterDevice, private, number)?;
    rustix::fs::mknodat(CWD, top.join("disk"), FileType::BlockDevice, private, rustix::fs::makedev(8, 1))?;
    rustix::fs::mknodat(CWD, top.join("pipe"), FileType::Fifo, private, 0)?;
    rustix::fs::mknodat(CWD, top.join("socket"), FileType::Socket, private, 0)?;
    Ok(())
}

fn odd_attributes(top: &Path) -> io::Result<()> {
    for (name, value) in [("user.empty", &b""[..]), ("user.colour", b"blue"), ("trusted.long", &[7; 3000])] {
        rustix::fs::setxattr(top.join("block"), name, value, XattrFlags::empty())?;
        rustix::fs::setxattr(top.join("few"), name, value, XattrFlags::empty())?;
    }
    // An access control list: version 2, then owner, a named user, group, mask, others.
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(1, 6, none),
        entry(2, 4, 70_001),
        entry(4, 4, none),
        entry(16, 4, none),
        entry(32, 0, none),
    ];
    rustix::fs::setxattr(top.join("one"), "system.posix_acl_access", &list.concat(), XattrFlags::empty())?;
    fs::set_permissions(top.join("tail"), fs::Permissions::from_mode(0o6751))?;
    fs::set_permissions(top.join("sub"), fs::Permissions::from_mode(0o1777))?;
    std::os::unix::fs::chown(top.join("over"), Some(70_000), Some(4_000_000_000))?;
    for (i, name) in ["over", "link 60", "pipe", "sub", "char"].iter().enumerate() {
        let time = Timespec { tv_sec: i as i64 - 2, tv_nsec: 123_456_789 + i as i64 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, top.join(name), &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn privileged_kernel_shows_the_original() {
    if let Some(reason) = no_mounts() {
        println!("skipped, because {reason}");
        return;
    }
    let scratch = scratch();
    let top = scratch.path().join("top");
    populate(&top).unwrap();
    let file = scratch.path().join("image");
    let tree = tree_of(&top);
    write(&tree, &file, Audience::Owner, &mut |_| {}).unwrap();
    fsck(&file);
    let image = opened(fs::read(&file).unwrap());
    reader_equals(&image, at(&image, b"/top"), &OriginalDirectory::open(&top).unwrap());
    match Mounted::new(&file, scratch.path().join("mount")) {
        Ok(mounted) => {
            let shown = mounted.path.join("top");
            kernel_equals(&OriginalDirectory::open(&shown).unwrap(), &OriginalDirectory::open(&top).unwrap());
        }
        Err(error) => println!("skipped, because the kernel does not mount image files: {error}"),
    }
}

/// Our reader gives what the originals are, inode numbers and times of change too.
fn reader_equals(image: &Image<Vec<u8>>, dir: Nid, original: &OriginalDirectory) {
    let names = original.names().unwrap();
    let listed = image.entries(dir).unwrap().map(Result::unwrap).filter(|entry| !entry.is_dot());
    assert_eq!(listed.map(|entry| entry.name.to_vec()).collect::<Vec<_>>(), names);
    for name in &names {
        let nid = child(image, dir, name);
        let expected = original.attributes(name).unwrap();
        assert_eq!(image.attributes(nid).unwrap(), expected, "{}", name.escape_ascii());
        let xattrs = image.xattrs(nid).unwrap().map(|xattr| (xattr.name(), xattr.value.to_vec()));
        assert_eq!(xattrs.collect::<Vec<_>>(), original.xattrs(name).unwrap());
        match expected.kind {
            FileKind::Regular => {
                let FileContent::Held(data) = image.content(nid).unwrap() else { panic!("not held") };
                assert!(data == read(original, name), "{}", name.escape_ascii());
            }
            FileKind::Symlink => {
                assert_eq!(image.link_target(nid).unwrap(), original.link_target(name).unwrap());
            }
            FileKind::Directory => reader_equals(image, nid, &original.open_child(name).unwrap()),
            _ => {}
        }
    }
}

/// The kernel's mount shows what the originals are, as far as EROFS keeps it.
fn kernel_equals(shown: &OriginalDirectory, original: &OriginalDirectory) {
    let names = original.names().unwrap();
    assert_eq!(shown.names().unwrap(), names);
    for name in &names {
        let expected = original.attributes(name).unwrap();
        let size = |attributes: Attributes| match attributes.kind {
            // A directory's blocks are the file system's own affair.
            FileKind::Directory => Attributes { size: 0, ..attributes },
            _ => attributes,
        };
        let kept = |attributes: Attributes| {
            let ctime = Timestamp::default();
            size(Attributes { ctime, inode: 0, device: 0, ..attributes })
        };
        assert_eq!(kept(shown.attributes(name).unwrap()), kept(expected), "{}", name.escape_ascii());
        assert_eq!(shown.xattrs(name).unwrap(), original.xattrs(name).unwrap(), "{}", name.escape_ascii());
        match expected.kind {
            FileKind::Regular => {
                assert!(read(shown, name) == read(original, name), "{}", name.escape_ascii());
            }
            FileKind::Symlink => {
                assert_eq!(shown.link_target(name).unwrap(), original.link_target(name).unwrap());
            }
            FileKind::Directory => {
                kernel_equals(&shown.open_child(name).unwrap(), &original.open_child(name).unwrap());
            }
            _ => {}
        }
    }
}

fn read(directory: &OriginalDirectory, name: &[u8]) -> Vec<u8> {
    fs::read(directory.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)))
        .unwrap()
}

#[test]
fn privileged_what_is_not_held_is_an_error_to_the_kernel() {
    if let Some(reason) = no_mounts() {
        println!("skipped, because {reason}");
        return;
    }
    let scratch = scratch();
    let mut tree = ImageTree::new(directory()).unwrap();
    for (name, size) in [("large", 5 << 40), ("larger", (8 << 40) + 1), ("small", 1), ("block", 4096)] {
        tree.add(tree.root(), name.as_bytes(), plain(FileKind::Regular, size)).unwrap();
    }
    let held = tree.add(tree.root(), b"held", plain(FileKind::Regular, 5)).unwrap();
    tree.hold(held, ContentSource::Bytes(b"bytes".to_vec())).unwrap();
    let file = scratch.path().join("image");
    write(&tree, &file, Audience::Owner, &mut |_| {}).unwrap();
    fsck(&file);
    let mounted = match Mounted::new(&file, scratch.path().join("mount")) {
        Ok(mounted) => mounted,
        Err(error) => return println!("skipped, because the kernel does not mount image files: {error}"),
    };
    for (name, size) in [("large", 5_u64 << 40), ("larger", (8 << 40) + 1), ("small", 1), ("block", 4096)] {
        let opened = File::open(mounted.path.join(name)).unwrap();
        assert_eq!(opened.metadata().unwrap().size(), size);
        for offset in [0, size / 2, size - 1] {
            let error = opened.read_at(&mut [0; 1], offset).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{name} at {offset}: {error}");
        }
    }
    assert_eq!(fs::read(mounted.path.join("held")).unwrap(), b"bytes");
}

/// A file of 40 blocks of which these are held: the first, some within, and the last, which is not full.
const HELD: [std::ops::Range<u64>; 4] = [0..1, 3..5, 20..21, 39..40];

/// Writes an image of such a file, and of its neighbour, which is held whole.
fn write_part(file: &Path) -> Vec<u8> {
    let content = pattern(39 * 4096 + 77);
    let mut tree = ImageTree::new(directory()).unwrap();
    let part = tree.add(tree.root(), b"part", plain(FileKind::Regular, content.len() as u64)).unwrap();
    let mut blocks = BlockSet::default();
    HELD.into_iter().for_each(|run| blocks.insert(run));
    tree.hold_part(part, ContentSource::Bytes(content.clone()), &blocks).unwrap();
    let whole = tree.add(tree.root(), b"whole", plain(FileKind::Regular, 5)).unwrap();
    tree.hold(whole, ContentSource::Bytes(b"bytes".to_vec())).unwrap();
    write(&tree, file, Audience::Owner, &mut |_| {}).unwrap();
    content
}

/// Held blocks are read right below `mount`, all others are errors: in order, backwards, and across the bounds. Without
/// read-ahead: with it, the kernel may read several blocks as one folio, which fails as a whole.
fn reads_what_is_held(mount: &Path, content: &[u8]) {
    let file = File::open(mount.join("part")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    assert_eq!(file.metadata().unwrap().size(), content.len() as u64);
    let blocks: Vec<u64> = (0..40).collect();
    for &block in blocks.iter().chain(blocks.iter().rev()) {
        let (start, end) = (block as usize * 4096, (block as usize * 4096 + 4096).min(content.len()));
        let mut found = vec![0; end - start];
        let outcome = file.read_exact_at(&mut found, start as u64);
        match HELD.iter().any(|run| run.contains(&block)) {
            true => assert!(outcome.is_ok() && found == content[start..end], "block {block}: {outcome:?}"),
            false => assert_eq!(outcome.unwrap_err().raw_os_error(), Some(5), "block {block}"),
        }
    }
    let mut found = [0; 8192];
    file.read_exact_at(&mut found, 3 * 4096).unwrap();
    assert!(found == content[3 * 4096..5 * 4096]);
    assert_eq!(fs::read(mount.join("whole")).unwrap(), b"bytes");
    let ahead = File::open(mount.join("part")).unwrap();
    for block in 0..40 {
        let start = block as usize * 4096;
        let mut found = vec![0; 4096.min(content.len() - start)];
        let outcome = ahead.read_exact_at(&mut found, start as u64);
        let held = HELD.iter().any(|run| run.contains(&block));
        assert!(outcome.is_err() || held && found == content[start..start + found.len()], "block {block}");
    }
}

#[test]
fn privileged_a_part_of_a_file_is_read_by_others() {
    if let Some(reason) = no_mounts() {
        println!("skipped, because {reason}");
        return;
    }
    let scratch = scratch();
    let file = scratch.path().join("image");
    let content = write_part(&file);
    fsck(&file);
    let image = opened(fs::read(&file).unwrap());
    let FileContent::Part(part) = image.content(at(&image, b"/part")).unwrap() else { panic!("not in part") };
    assert_eq!((part.held_bytes(), part.data().len()), (4 * 4096 + 77, 5 * 4096));
    match Mounted::new(&file, scratch.path().join("mount")) {
        Ok(mounted) => reads_what_is_held(&mounted.path, &content),
        Err(error) => println!("skipped, because the kernel does not mount image files: {error}"),
    }
    let path = scratch.path().join("loop");
    fs::create_dir(&path).unwrap();
    match Command::new("mount").args(["-t", "erofs", "-o", "loop,ro"]).arg(&file).arg(&path).output() {
        Ok(output) if output.status.success() => {
            let mounted = Mounted { path };
            reads_what_is_held(&mounted.path, &content);
        }
        outcome => println!("skipped, because a loop device cannot be mounted: {outcome:?}"),
    }
}

#[test]
fn privileged_a_full_file_system_is_named_and_left_clean() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because it needs root");
        return;
    }
    let scratch = scratch();
    let small = scratch.path().join("small");
    fs::create_dir(&small).unwrap();
    let options = Some(c"size=256k");
    if let Err(error) =
        rustix::mount::mount("none", &small, "tmpfs", rustix::mount::MountFlags::empty(), options)
    {
        println!("skipped, because a tmpfs cannot be mounted: {error}");
        return;
    }
    let _unmounted = Mounted { path: small.clone() };
    let mut tree = ImageTree::new(directory()).unwrap();
    let file = tree.add(tree.root(), b"file", plain(FileKind::Regular, 1 << 20)).unwrap();
    tree.hold(file, ContentSource::Bytes(vec![1; 1 << 20])).unwrap();
    let error = write(&tree, &small.join("image"), Audience::Owner, &mut |_| {}).unwrap_err();
    assert!(matches!(error, WriteError::NoSpace { needed, .. } if needed > 1 << 20), "{error}");
    assert_eq!(fs::read_dir(&small).unwrap().count(), 0);
}
