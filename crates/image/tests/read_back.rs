//! A written tree of any shape reads back; bytes that quell did not write do no harm.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use quell_image::check::check;
use quell_image::write::{Audience, WriteError, write};
use quell_image::{
    Attributes, BlockSet, ContentSource, Coverage, DeviceNumber, FileContent, FileKind, Image, ImageTree,
    Lookup, NamedValues, Nid, NodeUse, OpenError, Timestamp, TreeNodeId,
};
use support::{at, child, directory, opened, plain, scratch, written};

#[test]
fn coverage_decides_what_a_missing_name_means() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let top = tree.add(tree.root(), b"top", directory()).unwrap();
    for i in 0..30_000 {
        tree.absent(top, format!("absent {i}").as_bytes()).unwrap();
    }
    tree.add(top, b"present", plain(FileKind::Regular, 9)).unwrap();
    tree.cover(top, Coverage::Partial).unwrap();
    let image = opened(support::written(&tree));
    let top = at(&image, b"/top");
    assert!(matches!(image.lookup(top, b"present"), Ok(Lookup::Found(_))));
    for name in ["absent 0", "absent 29999", "absent 12345"] {
        assert_eq!(image.lookup(top, name.as_bytes()), Ok(Lookup::Absent));
    }
    for name in ["absent", "absent 30000", "a", "z"] {
        assert_eq!(image.lookup(top, name.as_bytes()), Ok(Lookup::Unknown));
    }
}

/// A node as a property test draws it.
#[derive(Debug, Clone)]
struct Drawn {
    attributes: Attributes,
    usage: NodeUse,
    xattrs: NamedValues,
    body: DrawnBody,
}

#[derive(Debug, Clone)]
enum DrawnBody {
    File(Option<Vec<u8>>),
    /// Content, and runs of blocks of which some lie within it.
    Part(Vec<u8>, Vec<(u64, u64)>),
    Symlink(Vec<u8>),
    Special,
    Directory(Coverage, Vec<Vec<u8>>, BTreeMap<Vec<u8>, Drawn>),
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..20),
        prop::collection::vec(b'a'..b'd', 1..4),
        prop::collection::vec(any::<u8>(), 200..=255),
    ];
    name.prop_map(|mut name| {
        name.iter_mut().filter(|byte| matches!(**byte, 0 | b'/')).for_each(|byte| *byte = b'x');
        if matches!(name[..], [b'.'] | [b'.', b'.']) {
            name.push(b'x');
        }
        name
    })
}

fn timestamps() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn attributes(kind: FileKind) -> impl Strategy<Value = Attributes> {
    let numbers = (0..0o10_000_u16, any::<[u32; 3]>(), any::<[u64; 3]>(), 0..4096_u32, 0..1_u32 << 20);
    (numbers, timestamps(), timestamps()).prop_map(move |(numbers, mtime, ctime)| {
        let (permissions, [uid, gid, nlink], [size, inode, device], major, minor) = numbers;
        let is_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
        let rdev = if is_device { DeviceNumber { major, minor } } else { DeviceNumber::default() };
        Attributes {
            kind,
            permissions,
            uid,
            gid,
            size: size >> 20,
            nlink: nlink.max(1),
            rdev,
            mtime,
            ctime,
            inode,
            device,
        }
    })
}

fn xattrs() -> impl Strategy<Value = NamedValues> {
    let name =
        prop_oneof!["user\\.[a-z]{1,10}", "trusted\\.[a-z]{1,40}", Just("system.posix_acl_access".into())];
    let value =
        prop_oneof![prop::collection::vec(any::<u8>(), 0..30), prop::collection::vec(any::<u8>(), 900..2000)];
    let pairs = prop::collection::btree_map(name.prop_map(String::into_bytes), value, 0..4);
    prop_oneof![4 => Just(Vec::new()), 1 => pairs.prop_map(|pairs| pairs.into_iter().collect())]
}

fn leaves() -> impl Strategy<Value = Drawn> {
    let content = prop_oneof![
        Just(None),
        prop_oneof![0..10_usize, 4090..4100_usize, 0..20_000_usize]
            .prop_map(|size| Some((0..size).map(|i| i as u8).collect::<Vec<u8>>())),
    ];
    let kind = prop_oneof![
        Just(FileKind::Regular),
        Just(FileKind::Symlink),
        Just(FileKind::CharacterDevice),
        Just(FileKind::BlockDevice),
        Just(FileKind::Fifo),
        Just(FileKind::Socket),
    ];
    let target = prop_oneof![1..100_usize, 1..=4095_usize].prop_map(|length| vec![b'x'; length]);
    let runs = prop::option::of(prop::collection::vec((0..8_u64, 0..3_u64), 0..4));
    (kind.prop_flat_map(attributes), xattrs(), content, target, any::<bool>(), runs).prop_map(
        |(mut attributes, xattrs, content, target, touched, runs)| {
            let body = match attributes.kind {
                FileKind::Regular => match (content, runs) {
                    (Some(content), Some(runs)) => DrawnBody::Part(content, runs),
                    (content, _) => DrawnBody::File(content),
                },
                FileKind::Symlink => DrawnBody::Symlink(target),
                _ => DrawnBody::Special,
            };
            match &body {
                DrawnBody::File(Some(content)) | DrawnBody::Part(content, _) => {
                    attributes.size = content.len() as u64;
                }
                DrawnBody::Symlink(target) => attributes.size = target.len() as u64,
                _ => {}
            }
            let usage = if touched { NodeUse::Touched } else { NodeUse::Listed };
            Drawn { attributes, usage, xattrs, body }
        },
    )
}

fn trees() -> impl Strategy<Value = Drawn> {
    leaves().prop_recursive(4, 200, 40, |inner| {
        let coverage =
            prop_oneof![Just(Coverage::Complete), Just(Coverage::Partial), Just(Coverage::Uncovered)];
        let absences = prop::collection::vec(names(), 0..5);
        let children = prop::collection::btree_map(names(), inner, 0..60);
        (attributes(FileKind::Directory), xattrs(), coverage, absences, children).prop_map(
            |(attributes, xattrs, coverage, mut absences, children)| {
                absences.retain(|name| !children.contains_key(name));
                let body = DrawnBody::Directory(coverage, absences, children);
                Drawn { attributes, usage: NodeUse::Listed, xattrs, body }
            },
        )
    })
}

fn build(drawn: &Drawn) -> ImageTree {
    let mut tree = ImageTree::new(directory()).unwrap();
    let root = tree.root();
    plant(&mut tree, root, b"top", drawn);
    tree.set_command(vec![b"python3".to_vec(), b"".to_vec(), vec![0xFF]]);
    tree
}

fn plant(tree: &mut ImageTree, parent: TreeNodeId, name: &[u8], drawn: &Drawn) {
    let node = match &drawn.body {
        DrawnBody::Symlink(target) => tree.add_symlink(parent, name, drawn.attributes, target).unwrap(),
        _ => tree.add(parent, name, drawn.attributes).unwrap(),
    };
    tree.set_xattrs(node, drawn.xattrs.clone()).unwrap();
    if drawn.usage == NodeUse::Touched {
        tree.touch(node);
    }
    match &drawn.body {
        DrawnBody::File(Some(content)) => tree.hold(node, ContentSource::Bytes(content.clone())).unwrap(),
        DrawnBody::Part(content, runs) => {
            tree.hold_part(node, ContentSource::Bytes(content.clone()), &blocks(runs)).unwrap();
        }
        DrawnBody::Directory(coverage, absences, children) => {
            tree.cover(node, *coverage).unwrap();
            absences.iter().for_each(|name| tree.absent(node, name).unwrap());
            children.iter().for_each(|(name, child)| plant(tree, node, name, child));
        }
        _ => {}
    }
}

fn blocks(runs: &[(u64, u64)]) -> BlockSet {
    let mut blocks = BlockSet::default();
    runs.iter().for_each(|&(start, length)| blocks.insert(start..start + length));
    blocks
}

/// The image holds these blocks of `content`, no others, and gives any stretch of them.
fn compare_part(found: FileContent<'_>, content: &[u8], runs: &[(u64, u64)]) {
    let is_held =
        |block: usize| runs.iter().any(|&(start, length)| (start..start + length).contains(&(block as u64)));
    let held: Vec<bool> = (0..content.len().div_ceil(4096)).map(is_held).collect();
    match found {
        FileContent::Held(whole) => assert!(whole == content && held.iter().all(|held| *held)),
        FileContent::Original => assert!(!content.is_empty() && held.iter().all(|held| !*held)),
        FileContent::Part(part) => {
            let bytes = |range: std::ops::Range<usize>| part.bytes(range.start as u64..range.end as u64);
            let mut seen = 0;
            for run in part.runs() {
                let range = run.offset as usize..run.offset as usize + run.bytes.len();
                assert!(run.bytes == &content[range.clone()] && bytes(range.clone()) == Some(run.bytes));
                assert_eq!(part.runs_in(run.range()).collect::<Vec<_>>(), [run]);
                seen += range.len();
            }
            assert_eq!(seen as u64, part.held_bytes());
            assert_eq!(part.blocks().len(), held.iter().filter(|held| **held).count() as u64);
            for start in (0..content.len()).step_by(701) {
                for end in (start + 1..content.len() + 5000).step_by(1999) {
                    let wanted = start..end.min(content.len());
                    let whole = (start / 4096..wanted.end.div_ceil(4096)).all(|block| held[block]);
                    assert_eq!(bytes(start..end), whole.then(|| &content[wanted]));
                }
            }
            assert_eq!(bytes(content.len()..content.len() + 9), Some(&[][..]));
        }
    }
}

/// The image's node is what was drawn, and what lies below it.
fn compare(image: &Image<Vec<u8>>, nid: Nid, path: &[u8], drawn: &Drawn) {
    assert_eq!(image.attributes(nid).unwrap(), drawn.attributes);
    assert_eq!(image.usage(nid).unwrap(), drawn.usage);
    assert_eq!(image.path(nid).unwrap(), path);
    let xattrs = image.xattrs(nid).unwrap().map(|xattr| (xattr.name(), xattr.value.to_vec()));
    assert_eq!(xattrs.collect::<NamedValues>(), drawn.xattrs);
    match &drawn.body {
        DrawnBody::File(Some(content)) => assert_eq!(image.content(nid).unwrap(), FileContent::Held(content)),
        DrawnBody::Part(content, runs) => compare_part(image.content(nid).unwrap(), content, runs),
        DrawnBody::File(None) if drawn.attributes.size == 0 => {
            assert_eq!(image.content(nid).unwrap(), FileContent::Held(b""));
        }
        DrawnBody::File(None) => assert_eq!(image.content(nid).unwrap(), FileContent::Original),
        DrawnBody::Symlink(target) => assert_eq!(image.link_target(nid).unwrap(), target),
        DrawnBody::Special => assert!(image.content(nid).is_err()),
        DrawnBody::Directory(coverage, absences, children) => {
            compare_names(image, nid, *coverage, absences, children);
            for (name, drawn) in children {
                let found = child(image, nid, name);
                assert_eq!(image.parent(found).unwrap(), nid);
                compare(image, found, &[path, b"/", name].concat(), drawn);
            }
        }
    }
}

fn compare_names(
    image: &Image<Vec<u8>>,
    nid: Nid,
    coverage: Coverage,
    absences: &[Vec<u8>],
    children: &BTreeMap<Vec<u8>, Drawn>,
) {
    assert_eq!(image.coverage(nid).unwrap(), coverage);
    let entries: Vec<_> = image.entries(nid).unwrap().map(Result::unwrap).collect();
    let listed = entries.iter().filter(|entry| !entry.is_dot()).map(|entry| entry.name);
    assert!(listed.eq(children.keys().map(Vec::as_slice)));
    assert_eq!(entries.len(), children.len() + 2);
    for (i, entry) in entries.iter().enumerate() {
        let rest = image.entries(nid).unwrap().resume(entry.cookie);
        assert!(rest.map(Result::unwrap).eq(entries[i + 1..].iter().copied()));
    }
    let expected = |known| match coverage {
        Coverage::Complete => Lookup::Absent,
        Coverage::Partial if known => Lookup::Absent,
        _ => Lookup::Unknown,
    };
    for name in absences {
        assert_eq!(image.lookup(nid, name), Ok(expected(true)));
    }
    if !children.contains_key(&b"another"[..]) && !absences.contains(&b"another".to_vec()) {
        assert_eq!(image.lookup(nid, b"another"), Ok(expected(false)));
    }
}

/// Calls everything that a server calls, for every node that is reachable and a few that are not.
fn exercise(bytes: Vec<u8>) {
    let Ok(image) = Image::open(bytes) else { return };
    let nodes: Vec<_> = image.nodes().take(2000).collect();
    let forged = [0, 1, 35, 37, 1 << 20, u64::MAX / 32, u64::MAX].map(Nid::new);
    for nid in nodes.into_iter().chain(forged) {
        let _ = image.attributes(nid);
        if let Ok(FileContent::Part(part)) = image.content(nid) {
            let _ = (part.runs().take(5000).count(), part.bytes(0..u64::MAX), part.bytes(4096..8192));
        }
        let _ = image.link_target(nid);
        let _ = image.path(nid);
        let _ = image.parent(nid);
        let _ = image.coverage(nid);
        let _ = image.xattrs(nid).map(Iterator::count);
        for name in [&b"a"[..], b"", b"..", &[0xFF; 300]] {
            let _ = image.lookup(nid, name);
        }
        for cookie in [0, 1, 511, 512, u64::MAX] {
            let _ = image.entries(nid).map(|entries| entries.resume(cookie).take(5000).count());
        }
    }
    let index = image.index();
    let _ = (index.roots().count(), index.live_directories().count(), index.command().count());
    let _ = check(&image);
}

/// Makes the checksums right again, so that damage is met behind them.
fn forge(bytes: &mut [u8], index: (usize, usize)) {
    let (start, len) = index;
    let sum = crc32c::crc32c(&bytes[start + 16..start + len]);
    bytes[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
    let head = crc32c::crc32c_append(crc32c::crc32c(&bytes[1024..1028]), &[0; 4]);
    let sum = !crc32c::crc32c_append(head, &bytes[1032..4096]);
    bytes[1028..1032].copy_from_slice(&sum.to_le_bytes());
}

/// Offset and length of the index of a sound image.
fn index_of(bytes: &[u8]) -> (usize, usize) {
    let start = bytes.chunks(4096).position(|block| block.starts_with(b"QUELLIDX")).unwrap() * 4096;
    (start, u64::from_le_bytes(bytes[start + 16..start + 24].try_into().unwrap()) as usize)
}

proptest! {
    #[test]
    fn any_tree_reads_back(drawn in trees()) {
        let tree = build(&drawn);
        let bytes = written(&tree);
        prop_assert!(bytes == written(&tree), "written twice, the same tree has different bytes");
        let image = opened(bytes);
        let command: Vec<_> = image.index().command().collect();
        prop_assert_eq!(command, [&b"python3"[..], b"", &[0xFF]]);
        compare(&image, at(&image, b"/top"), b"/top", &drawn);
    }

    #[test]
    fn damage_does_no_harm(
        drawn in trees(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let sound = written(&build(&drawn));
        exercise(sound[..cut.index(sound.len())].to_vec());
        let (start, len) = index_of(&sound);
        let mut damaged = sound.clone();
        for (at, value) in &flips {
            // Before the index lies everything but content.
            let at = 1024 + at.index(start - 1024);
            damaged[at] = *value;
        }
        for (at, value) in &places {
            damaged[start + 24 + at.index(len - 24)] = *value;
        }
        exercise(damaged.clone());
        forge(&mut damaged, (start, len));
        exercise(damaged);
    }
}

#[test]
fn the_checker_sees_every_flipped_bit_of_content() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let file = tree.add(tree.root(), b"file", plain(FileKind::Regular, 5000)).unwrap();
    tree.hold(file, ContentSource::Bytes(vec![1; 5000])).unwrap();
    let sound = written(&tree);
    for at in [1152, 2000, sound.len() - 8192, sound.len() - 1] {
        let mut damaged = sound.clone();
        damaged[at] ^= 4;
        let index = index_of(&damaged);
        forge(&mut damaged, index);
        let clean = Image::open(damaged).is_ok_and(|image| check(&image).is_clean());
        assert!(!clean, "byte {at}");
    }
}

#[test]
fn opening_says_what_is_wrong() {
    let sound = written(&ImageTree::new(directory()).unwrap());
    let (start, len) = index_of(&sound);
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        Image::open(bytes).map(drop)
    };
    assert_eq!(open(&|_| {}), Ok(()));
    assert!(matches!(open(&|bytes| bytes.clear()), Err(OpenError::TooShort { bytes: 0 })));
    assert!(matches!(open(&|bytes| bytes.truncate(4096)), Err(OpenError::Length { .. })));
    assert!(matches!(open(&|bytes| bytes[1024] = 0), Err(OpenError::NotErofs { .. })));
    assert!(matches!(open(&|bytes| bytes[start + 8] = 4), Err(OpenError::Newer { found: 4, supported: 3 })));
    assert!(matches!(open(&|bytes| bytes[start + len - 1] ^= 1), Err(OpenError::IndexChecksum { .. })));
    assert!(matches!(open(&|bytes| bytes[start] ^= 1), Err(OpenError::NotQuell)));
}

/// A change here is a change of the format: readers must still take the old one, and say so by its version.
#[test]
fn the_format_is_pinned() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let top = tree.add(tree.root(), b"top", directory()).unwrap();
    tree.cover(top, Coverage::Partial).unwrap();
    tree.absent(top, b"absent").unwrap();
    let held = tree.add(top, b"held", plain(FileKind::Regular, 5)).unwrap();
    tree.hold(held, ContentSource::Bytes(b"bytes".to_vec())).unwrap();
    tree.set_xattrs(held, vec![(b"user.colour".to_vec(), b"blue".to_vec())]).unwrap();
    tree.touch(held);
    let part = tree.add(top, b"part", plain(FileKind::Regular, 9 * 4096 + 1)).unwrap();
    let content = (0..9 * 4096 + 1).map(|at| (at / 4096) as u8).collect();
    tree.hold_part(part, ContentSource::Bytes(content), &blocks(&[(1, 2), (9, 1)])).unwrap();
    tree.add(top, b"listed", plain(FileKind::Regular, 1 << 40)).unwrap();
    tree.add_symlink(top, b"link", plain(FileKind::Symlink, 0), b"held").unwrap();
    let searched = tree.add(top, b"searched", directory()).unwrap();
    tree.cover(searched, Coverage::Complete).unwrap();
    tree.only_searched(searched).unwrap();
    tree.absent(searched, b"sought").unwrap();
    tree.set_command(vec![b"true".to_vec()]);
    tree.add_root(b"/top", "the test said so", "lustre").unwrap();
    let bytes = written(&tree);
    let whole = blake3::hash(&bytes).to_hex().to_string();
    let identity = opened(bytes).index().identity().to_string();
    assert_eq!((&identity[..16], &whole[..16]), ("a0c61f117ed5e00b", "deb97ba9309e4cdf"));
}

/// Written by an earlier quell: a link, a held file, one that is not, absences.
#[test]
fn an_image_of_version_1_is_read() {
    let image = opened(include_bytes!("fixtures/version-1.qimg").to_vec());
    assert_eq!(image.index().version(), 1);
    let held = image.nodes().filter(|&nid| matches!(image.content(nid), Ok(FileContent::Held(_))));
    assert!(held.count() > 1);
}

/// Version 2 does not tell which directories were listed: all that are complete count.
#[test]
fn an_image_of_version_2_is_read() {
    let image = opened(include_bytes!("fixtures/version-2.qimg").to_vec());
    assert_eq!(image.index().version(), 2);
    assert!(check(&image).is_clean());
    let complete: Vec<_> =
        image.nodes().filter(|&nid| image.coverage(nid) == Ok(Coverage::Complete)).collect();
    assert!(!complete.is_empty());
    assert!(complete.iter().all(|&nid| image.is_listing_learned(nid) == Ok(true)));
    assert!(complete.iter().all(|&nid| image.absences(nid).unwrap().is_empty()));
}

#[test]
fn a_complete_directory_tells_whether_it_was_listed_and_what_was_sought() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let [listed, searched] = [&b"listed"[..], b"searched"].map(|name| {
        let node = tree.add(tree.root(), name, directory()).unwrap();
        tree.cover(node, Coverage::Complete).unwrap();
        tree.absent(node, b"sought").unwrap();
        node
    });
    assert_ne!(listed, searched);
    tree.only_searched(searched).unwrap();
    let image = opened(written(&tree));
    for (path, learned) in [(&b"/listed"[..], true), (b"/searched", false)] {
        let directory = at(&image, path);
        assert_eq!(image.is_listing_learned(directory), Ok(learned));
        assert_eq!(image.absences(directory).unwrap().contains(b"sought"), Some(true));
        assert_eq!(image.lookup(directory, b"other"), Ok(Lookup::Absent));
    }
}

#[test]
fn hard_links_are_one_node() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let top = tree.add(tree.root(), b"top", directory()).unwrap();
    let file = tree.add(top, b"b", Attributes { nlink: 2, ..plain(FileKind::Regular, 3) }).unwrap();
    tree.link(tree.root(), b"a", file).unwrap();
    tree.hold(file, ContentSource::Bytes(b"one".to_vec())).unwrap();
    assert!(tree.link(top, b"c", top).is_err());
    let image = opened(written(&tree));
    assert_eq!(at(&image, b"/a"), at(&image, b"/top/b"));
    assert_eq!(image.path(at(&image, b"/top/b")).unwrap(), b"/a");
}

#[test]
fn data_lies_in_the_order_of_first_access() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let [a, b, c] = ["a", "b", "c"]
        .map(|name| tree.add(tree.root(), name.as_bytes(), plain(FileKind::Regular, 5000)).unwrap());
    for (file, byte) in [(c, 3), (a, 1), (b, 2), (c, 3)] {
        tree.hold(file, ContentSource::Bytes(vec![byte; 5000])).unwrap();
    }
    let bytes = written(&tree);
    let order: Vec<_> = bytes[bytes.len() - 6 * 4096..].chunks(8192).map(|file| file[0]).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[test]
fn roots_and_live_directories_are_listed() {
    let mut tree = ImageTree::new(directory()).unwrap();
    for path in ["b", "a", "a/x", "a/y"] {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = tree.find(format!("/{parent}").as_bytes()).unwrap();
        tree.add(parent, name.as_bytes(), directory()).unwrap();
    }
    tree.add_root(b"/b", "nothing was written below it", "lustre").unwrap();
    tree.add_root(b"/a", "it was asked for", "").unwrap();
    tree.add_live(b"/a/y", "the recording wrote to it").unwrap();
    let image = opened(written(&tree));
    let roots: Vec<_> = image.index().roots().collect();
    assert_eq!(roots.iter().map(|root| root.path).collect::<Vec<_>>(), [b"/a", b"/b"]);
    assert_eq!((roots[1].file_system, roots[1].reason), ("lustre", "nothing was written below it"));
    assert_eq!(roots[1].nid, at(&image, b"/b"));
    let live: Vec<_> = image.index().live_directories().collect();
    assert_eq!((live[0].path, live[0].nid), (&b"/a/y"[..], at(&image, b"/a/y")));
}

#[test]
fn a_file_that_changes_is_not_packed() {
    let scratch = scratch();
    let path = scratch.path().join("file");
    std::fs::write(&path, "before").unwrap();
    let attributes = quell_image::original::attributes_of(&path).unwrap();
    let mut tree = ImageTree::new(directory()).unwrap();
    let file = tree.add(tree.root(), b"file", attributes).unwrap();
    tree.hold(file, ContentSource::File(path.clone())).unwrap();
    let target = scratch.path().join("image");
    let attempt = || write(&tree, &target, Audience::Owner, &mut |_| {});
    assert!(attempt().is_ok());
    let sound = std::fs::read(&target).unwrap();
    std::fs::write(&path, "longer than before").unwrap();
    assert!(matches!(attempt(), Err(WriteError::Changed { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(attempt(), Err(WriteError::Changed { .. })));
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(matches!(attempt(), Err(WriteError::Changed { .. })));
    assert!(std::fs::read(&target).unwrap() == sound, "a failed attempt touched what was there");
    let mut left: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["file", "image"]);
}

#[test]
fn the_audience_decides_the_mode() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = scratch();
    let target = scratch.path().join("image");
    let tree = ImageTree::new(directory()).unwrap();
    for (audience, mode) in [(Audience::Everyone, 0o644), (Audience::Owner, 0o600)] {
        write(&tree, &target, audience, &mut |_| {}).unwrap();
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o7777, mode);
    }
    let nowhere = scratch.path().join("none/image");
    assert!(matches!(write(&tree, &nowhere, Audience::Owner, &mut |_| {}), Err(WriteError::Output { .. })));
}

#[test]
fn progress_ends_at_the_total() {
    let mut tree = ImageTree::new(directory()).unwrap();
    let file = tree.add(tree.root(), b"file", plain(FileKind::Regular, 5 << 20)).unwrap();
    tree.hold(file, ContentSource::Bytes(vec![1; 5 << 20])).unwrap();
    let scratch = scratch();
    let mut seen = Vec::new();
    let target = scratch.path().join("image");
    let done = write(&tree, &target, Audience::Owner, &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done));
    let last = seen.last().unwrap();
    assert_eq!((last.done, last.total), (done.bytes, done.bytes));
}
