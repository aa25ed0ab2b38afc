//! Containers that are written, cut at every byte, damaged and forged: a reader gives whole batches or refuses, and never panics.
#![allow(clippy::unwrap_used, reason = "tests")]

mod extraction;

use std::fs::File;
use std::os::fd::OwnedFd;

use quell_gather::{
    Begin, Container, ContainerError, Contents, DirectoryOrigin, Ending, ExtractOptions, Log, Node, NodeKind,
    Op, OpenContainer, Piece, Replacing, Shown, TOP, Time, View, encode, encode_index, extract,
};

fn node(kind: NodeKind, size: u64) -> Node {
    let time = Time { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
    Node { kind, mode: 0o640, uid: 0, gid: 0, size, mtime: time, atime: time, xattrs: Vec::new() }
}

fn file_ops(id: u64, directory: u64, name: &[u8], content: &[u8]) -> Vec<Op> {
    let piece = Piece { place: 0, length: content.len() as u32, sum: crc32c::crc32c(content) };
    vec![
        Op::Inode { id, node: node(NodeKind::File, content.len() as u64) },
        Op::Data { id, pieces: vec![(0, piece)] },
        Op::Name { directory, name: name.to_vec(), id },
    ]
}

/// A container that is built in memory, with the state that it leads to.
#[derive(Default)]
struct Builder {
    bytes: Vec<u8>,
    contents: Contents,
    /// The length at the end of each batch.
    ends: Vec<usize>,
}

impl Builder {
    fn new(number: u8, seen: &[(u8, &Self)]) -> Self {
        let mut builder = Self::default();
        let seen = seen.iter().map(|(number, other)| ([*number; 16], other.bytes.len() as u64)).collect();
        builder.add(
            Shown::Notes,
            vec![Op::Begin(Begin { number: [number; 16], host: "n".into(), job: String::new(), seen })],
            &[],
        );
        builder.commit();
        builder
    }

    fn add(&mut self, shown: Shown<'_>, ops: Vec<Op>, data: &[u8]) {
        let member = encode(shown, ops.clone(), &[data]);
        let start = (self.bytes.len() + member.data) as u64;
        for mut op in ops {
            op.pieces_mut().iter_mut().for_each(|(_, piece)| piece.place += start);
            assert!(self.contents.apply(op));
        }
        self.bytes.extend(member.bytes);
    }

    fn file(&mut self, id: u64, directory: u64, path: &[u8], content: &[u8]) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap();
        let ops = file_ops(id, directory, name, content);
        self.add(Shown::Inode(path, &node(NodeKind::File, content.len() as u64)), ops, content);
    }

    fn directory(&mut self, id: u64, path: &[u8], origin: DirectoryOrigin) {
        let made = node(NodeKind::Directory { origin }, 0);
        let ops =
            vec![Op::Inode { id, node: made.clone() }, Op::Name { directory: TOP, name: path.to_vec(), id }];
        self.add(Shown::Inode(path, &made), ops, &[]);
    }

    fn commit(&mut self) {
        self.add(Shown::Notes, vec![Op::Commit], &[]);
        self.ends.push(self.bytes.len());
    }

    fn seal(&mut self) {
        let index = encode_index(&self.contents, self.bytes.len() as u64);
        self.bytes.extend(index);
    }
}

/// Two files and a directory in two batches.
fn small() -> Builder {
    let mut builder = Builder::new(1, &[]);
    builder.directory(2, b"d", DirectoryOrigin::New);
    builder.file(3, 2, b"d/one", b"the first");
    builder.commit();
    builder.file(4, TOP, b"two", &[b'2'; 200]);
    builder.add(Shown::Notes, vec![Op::Remove { directory: 2, name: b"one".to_vec(), hides: false }], &[]);
    builder.commit();
    builder
}

fn paths(container: &Container) -> Vec<String> {
    let paths = container.contents.paths().into_iter();
    let mut paths: Vec<_> = paths.map(|(path, _)| String::from_utf8(path).unwrap()).collect();
    paths.sort();
    paths
}

#[test]
fn a_container_that_is_cut_anywhere_has_its_whole_batches() {
    let mut builder = small();
    let ends = builder.ends.clone();
    builder.seal();
    let whole = Container::read(&builder.bytes[..]).unwrap();
    assert_eq!((whole.ending, paths(&whole)), (Ending::Whole, vec!["d".to_owned(), "two".to_owned()]));
    for length in 0..builder.bytes.len() {
        let read = Container::read(&builder.bytes[..length]);
        let Some(end) = ends.iter().rev().find(|end| **end <= length) else {
            assert!(read.is_err(), "{length}");
            continue;
        };
        let read = read.unwrap();
        assert_eq!(read.ending, Ending::Cut { readable: *end as u64, damaged: None }, "{length}");
        let expected: &[&str] = match ends.iter().position(|other| other == end).unwrap() {
            0 => &[],
            1 => &["d", "d/one"],
            _ => &["d", "two"],
        };
        assert_eq!(paths(&read), expected, "{length}");
    }
}

#[test]
fn a_byte_that_has_changed_is_noticed() {
    let mut builder = small();
    let last = *builder.ends.last().unwrap();
    for place in 0..builder.bytes.len() {
        let mut bytes = builder.bytes.clone();
        bytes[place] ^= 1 << (place % 8);
        if let Ok(read) = Container::read(&bytes[..]) {
            let Ending::Cut { readable, damaged } = read.ending else { panic!("{place}") };
            assert!(damaged.is_some() || readable as usize == last, "{place}: {readable}");
            assert!(readable as usize <= place || paths(&read) == ["d", "two"], "{place}: {readable} {last}");
        }
    }
    // With an index, content is looked at when it is read.
    builder.seal();
    let at = builder.bytes.windows(200).position(|window| window == [b'2'; 200]).unwrap();
    builder.bytes[at + 50] ^= 1;
    let read = Container::read(&builder.bytes[..]).unwrap();
    assert_eq!(read.ending, Ending::Whole);
    let entry = read.contents.entry(4).unwrap();
    assert!(entry.each_part(&builder.bytes[..], |_, _| Ok(())).is_err());
}

#[test]
fn damage_takes_nothing_else_along() {
    let mut builder = Builder::new(1, &[]);
    builder.file(3, TOP, b"one", &[b'1'; 2000]);
    builder.commit();
    builder.file(4, TOP, b"two", &[b'2'; 2000]);
    builder.commit();
    let before = builder.ends[1] as u64;
    let place = |byte: u8| builder.bytes.windows(200).position(|window| window == [byte; 200]).unwrap();
    let (one, two) = (place(b'1'), place(b'2'));
    let mut bytes = builder.bytes.clone();
    bytes[one + 50] ^= 1;
    let read = Container::read(&bytes[..]).unwrap();
    assert_eq!(read.ending, Ending::Cut { readable: bytes.len() as u64, damaged: Some(one as u64) });
    let content = |id: u64| read.contents.entry(id).unwrap().each_part(&bytes[..], |_, _| Ok(()));
    assert!(content(3).is_err() && content(4).is_ok());
    // The last batch may be one that a loss of power left half.
    let mut bytes = builder.bytes.clone();
    bytes[two + 50] ^= 1;
    let read = Container::read(&bytes[..]).unwrap();
    assert_eq!(read.ending, Ending::Cut { readable: before, damaged: Some(two as u64) });
    assert_eq!(paths(&read), ["one"]);
    // An index that is damaged is told, and the files are there.
    builder.seal();
    let mut bytes = builder.bytes;
    let footer = bytes.len() - 1536;
    bytes[footer + 20] ^= 1;
    let read = Container::read(&bytes[..]).unwrap();
    assert!(matches!(read.ending, Ending::Cut { damaged: Some(_), .. }));
    assert_eq!(paths(&read), ["one", "two"]);
}

#[test]
fn an_index_that_cannot_be_is_refused() {
    // The footer of an index of 8 TiB, in a file that has nothing else.
    let length: u64 = 1 << 43;
    let mut footer =
        [&b"quell gathered\0\n"[..], &2_u32.to_le_bytes(), &0_u64.to_le_bytes(), &length.to_le_bytes()]
            .concat();
    footer.extend([0; 4]);
    footer.extend(crc32c::crc32c(&footer).to_le_bytes());
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &footer, length).unwrap();
    file.set_len(length + 1536).unwrap();
    assert!(matches!(Container::read(&file), Err(ContainerError::Index(bytes)) if bytes == length));
}

#[test]
fn a_container_of_another_version_is_told_from_something_else() {
    let mut bytes = small().bytes;
    let at = bytes.windows(7).position(|window| window == b"quell2 ").unwrap();
    bytes[at + 5] = b'1';
    assert!(matches!(Container::read(&bytes[..]), Err(ContainerError::Later(1))));
    assert!(matches!(Container::read(&b"something else"[..]), Err(ContainerError::NotOne)));
    assert!(matches!(Container::read(&b""[..]), Err(ContainerError::Empty)));
}

#[test]
fn forged_ops_lead_nowhere() {
    let forged: Vec<Vec<Op>> = vec![
        file_ops(3, TOP, b"..", b"x"),
        file_ops(3, TOP, b"a/b", b"x"),
        file_ops(3, TOP, b"", b"x"),
        file_ops(3, TOP, b"nul\0", b"x"),
        file_ops(3, TOP, &[b'n'; 256], b"x"),
        file_ops(3, 9, b"no-directory", b"x"),
        vec![Op::Name { directory: TOP, name: b"top".to_vec(), id: TOP }],
        vec![Op::Data { id: TOP, pieces: Vec::new() }],
        vec![
            Op::Inode { id: 3, node: node(NodeKind::File, 1) },
            Op::Data { id: 3, pieces: vec![(0, Piece { place: 0, length: 0, sum: 0 })] },
        ],
        // Growth of what is not there.
        vec![
            Op::Inode { id: 3, node: node(NodeKind::File, 1) },
            Op::Growth { id: 3, pieces: vec![(0, Piece { place: 0, length: 0, sum: 0 })] },
        ],
        vec![
            Op::Inode { id: 3, node: node(NodeKind::File, 1) },
            Op::Data { id: 3, pieces: vec![(0, Piece { place: u64::MAX, length: 2, sum: 0 })] },
        ],
    ];
    for ops in forged {
        let mut bytes = small().bytes;
        let before = bytes.len() as u64;
        bytes.extend(encode(Shown::Notes, [ops.clone(), vec![Op::Commit]].concat(), &[]).bytes);
        let read = Container::read(&bytes[..]).unwrap();
        assert_eq!(read.ending, Ending::Cut { readable: before, damaged: Some(before) }, "{ops:?}");
        assert!(paths(&read).iter().all(|path| ["d", "two"].contains(&path.as_str())), "{ops:?}");
    }
    // Two directories that lie in each other.
    let mut builder = small();
    builder.directory(7, b"a", DirectoryOrigin::New);
    let inner = node(NodeKind::Directory { origin: DirectoryOrigin::New }, 0);
    let circle = vec![
        Op::Inode { id: 8, node: inner },
        Op::Name { directory: 7, name: b"b".to_vec(), id: 8 },
        Op::Name { directory: 8, name: b"c".to_vec(), id: 7 },
    ];
    builder.add(Shown::Notes, circle, &[]);
    builder.commit();
    builder.seal();
    let read = Container::read(&builder.bytes[..]).unwrap();
    assert!(read.contents.paths().len() <= 5);
}

fn opened(builder: &Builder, name: &str) -> OpenContainer {
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &builder.bytes, 0).unwrap();
    OpenContainer::read(name.into(), file).unwrap()
}

fn names(view: &View) -> Vec<String> {
    view.paths.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

#[test]
fn containers_of_nodes_add_up_and_later_ones_replace() {
    let mut first = Builder::new(1, &[]);
    first.directory(2, b"d", DirectoryOrigin::New);
    first.file(3, 2, b"d/old", b"old");
    first.file(4, TOP, b"same", b"1");
    first.commit();
    let mut other = Builder::new(2, &[]);
    other.directory(5, b"d", DirectoryOrigin::New);
    other.file(6, 5, b"d/other", b"other");
    other.file(7, TOP, b"same", b"2");
    other.commit();
    let both = View::new(vec![opened(&first, "1"), opened(&other, "2")]);
    assert_eq!(names(&both), ["d", "d/old", "d/other"]);
    assert_eq!((both.conflicts.len(), &*both.conflicts[0].path), (1, &b"same"[..]));
    assert_eq!(both.conflicts[0].containers, [0, 1]);
    // One that saw both decides, and a directory that was made anew has nothing of them.
    let mut later = Builder::new(3, &[(1, &first), (2, &other)]);
    later.directory(9, b"d", DirectoryOrigin::Replacing);
    later.file(10, 9, b"d/new", b"new");
    later.add(Shown::Notes, vec![Op::Remove { directory: TOP, name: b"same".to_vec(), hides: true }], &[]);
    later.commit();
    let all = View::new(vec![opened(&later, "3"), opened(&first, "1"), opened(&other, "2")]);
    assert_eq!((names(&all), all.conflicts.len()), (vec!["d".to_owned(), "d/new".to_owned()], 0));
    assert!(all.removed.contains_key(&b"same"[..]));
    // One that has grown since is of the same time.
    first.file(8, TOP, b"d", b"a file");
    first.commit();
    let grown = View::new(vec![opened(&later, "3"), opened(&first, "1"), opened(&other, "2")]);
    assert_eq!(grown.conflicts.iter().map(|conflict| &*conflict.path).collect::<Vec<_>>(), [b"d"]);
}

fn options(replacing: Replacing) -> ExtractOptions {
    ExtractOptions { replacing, synchronises: true, threads: 4 }
}

#[test]
fn extraction_follows_no_link_and_replaces_only_when_told() {
    let target = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    let view = View::new(vec![opened(&small(), "1"), opened(&two_deep(), "2")]);
    let directory: OwnedFd = File::open(target.path()).unwrap().into();
    std::os::unix::fs::symlink(outside.path(), path("e")).unwrap();
    std::fs::write(path("two"), "mine").unwrap();
    let outcome = extract(&view, &directory, options(Replacing::Nothing));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!((std::fs::read(path("two")).unwrap(), outcome.occupied.len()), (b"mine".to_vec(), 2));
    assert!(path("d").is_dir());
    let outcome = extract(&view, &directory, options(Replacing::Everything));
    assert!(outcome.failed.is_empty() && outcome.occupied.is_empty(), "{outcome:?}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read(path("two")).unwrap(), [b'2'; 200]);
    assert_eq!(std::fs::read(path("e/deep")).unwrap(), b"deep");
    let names: Vec<_> =
        std::fs::read_dir(target.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let again = extract(&view, &directory, options(Replacing::Nothing));
    assert_eq!((again.files, again.same), (0, 2), "{again:?}");
}

fn two_deep() -> Builder {
    let mut builder = Builder::new(4, &[]);
    builder.directory(2, b"e", DirectoryOrigin::New);
    builder.file(3, 2, b"e/deep", b"deep");
    builder.commit();
    builder
}

#[test]
fn tar_knows_long_names_and_odd_bytes() {
    let mut builder = Builder::new(1, &[]);
    let long = [&[b'l'; 120][..], b"\xff\n=".as_slice()].concat();
    builder.file(3, TOP, &long, b"long");
    builder.commit();
    builder.seal();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.qout");
    std::fs::write(&path, &builder.bytes).unwrap();
    let tar = std::process::Command::new("tar")
        .arg("-xf")
        .arg(&path)
        .arg("-C")
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!((tar.status.code(), tar.stderr), (Some(0), Vec::new()));
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&long);
    let made = directory.path().join(name);
    assert_eq!(std::fs::read(&made).unwrap(), b"long");
    let stat = rustix::fs::stat(&made).unwrap();
    assert_eq!(
        (stat.st_mode & 0o777, stat.st_mtime, stat.st_mtime_nsec),
        (0o640, 1_700_000_000, 123_456_789)
    );
}

#[test]
fn a_log_is_a_container_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.qout");
    let log = Log::new(File::options().read(true).write(true).create_new(true).open(&path).unwrap());
    let builder = small();
    for (start, end) in std::iter::once(0).chain(builder.ends.iter().copied()).zip(&builder.ends) {
        log.append(&builder.bytes[start..*end]);
        log.reserve(10_000).unwrap();
        log.synchronise(log.end()).unwrap();
        let read = Container::read(&File::open(&path).unwrap()).unwrap();
        assert_eq!(read.ending, Ending::Cut { readable: *end as u64, damaged: None });
    }
}
