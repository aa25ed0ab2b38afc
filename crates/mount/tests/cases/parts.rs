//! Files that the image holds in part: a program gets the original's bytes however it reads, and held pages are
//! never asked of the original.

use std::path::PathBuf;
use std::process::Output;
use std::time::SystemTime;

use crate::scene::{Scene, USERS, User, failed, wait_until};
use crate::support::Packing;

/// The held blocks of the file: single ones, some between others, more than a window of read-ahead, and the last.
const HELD: [(u64, u64); 7] = [(0, 1), (3, 5), (20, 52), (90, 91), (130, 200), (260, 261), (299, 301)];

/// Bytes of the file: its last block is not full.
const SIZE: usize = 300 * 4096 + 77;

/// Reads in many ways; see there.
const SCRIPT: &str = include_str!("part.py");

/// A scene with a file that is held in part, and a copy of it outside the root.
struct Parts {
    scene: Scene,
    file: PathBuf,
}

impl Parts {
    fn new(user: User, held: &[(u64, u64)]) -> Self {
        Self::sized(user, held, SIZE)
    }

    fn sized(user: User, held: &[(u64, u64)], size: usize) -> Self {
        let scene = Scene::unpacked(user);
        let file = scene.root().join("lib/part.bin");
        let content: Vec<u8> = (0..size).map(|at| (at / 4096 * 7 + at % 4096 / 3) as u8).collect();
        for path in [&file, &scene.path("copy")] {
            std::fs::write(path, &content).unwrap();
        }
        std::fs::write(scene.path("part.py"), SCRIPT).unwrap();
        scene.give(&scene.path(""));
        let mut packing = Packing::of(&scene.root());
        packing.parts.push((file.clone(), held.to_vec()));
        scene.pack(&packing);
        Self { scene, file }
    }

    /// Every way there is to read.
    fn ways(&self) -> Vec<String> {
        let script = format!("python3 {} - - /dev/null 0-1", self.scene.path("part.py").display());
        self.scene.script(&script).split_whitespace().map(str::to_owned).collect()
    }

    /// Reads in one way, from the image, with a cold cache; the statistics.
    fn read(&self, way: &str) -> serde_json::Value {
        let held = HELD.map(|(first, end)| format!("{first}-{end}")).join(",");
        let script = format!(
            "python3 {} {way} {} {} {held}",
            self.scene.path("part.py").display(),
            self.file.display(),
            self.scene.path("copy").display()
        );
        let (printed, stats) = self.scene.script_with_stats(&script);
        assert_eq!(printed, "ok\n", "{way}");
        stats
    }

    /// Prints a block of the file, from the image.
    fn dump(&self, block: u64) -> Output {
        let script = format!("dd if={} bs=4096 count=1 skip={block} status=none", self.file.display());
        self.scene.run(&[], &["sh", "-c", &script]).output().unwrap()
    }
}

pub(crate) fn any_way_to_read_gives_the_originals_bytes() {
    for user in USERS {
        let parts = Parts::new(user, &HELD);
        for way in parts.ways() {
            let stats = parts.read(&way);
            let reads = stats["original"]["read"].as_u64().unwrap();
            match way.as_str() {
                // Read-ahead into holes of one page is answered from the original. It meets such holes or not, depending on how
                // soon the dropped pages are pushed again.
                "dropped-held" | "dropped-held-runs" => {}
                way if way.contains("held") || way == "nothing" => assert_eq!(reads, 0, "{way}: {stats:#}"),
                _ => assert!(reads > 0, "{way}: {stats:#}"),
            }
        }
    }
}

/// Pushed pages are not asked for, however scattered they are.
pub(crate) fn what_is_held_is_pushed() {
    let scattered: Vec<(u64, u64)> = (0..150).map(|number| (number * 2, number * 2 + 1)).collect();
    let parts = Parts::new(User::Ordinary, &scattered);
    let script = format!(
        "import mmap\nf = open('{}', 'rb')\nm = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\n\
         print(sum(m[b * 8192] for b in range(150)))",
        parts.file.display()
    );
    let (_, stats) = parts.scene.script_with_stats(&format!("python3 -c \"{script}\""));
    assert_eq!(stats["image"]["bytes_pushed"], 150 * 4096, "{stats:#}");
    assert_eq!(stats["requests"]["read"], 0, "{stats:#}");
    assert_eq!(stats["original"]["read"], 0, "{stats:#}");
}

/// A changed original is never mixed with the packed content, whatever its times are: the read fails.
pub(crate) fn changed_original_is_not_mixed_in() {
    for user in USERS {
        let parts = Parts::new(user, &HELD);
        let packed = std::fs::metadata(&parts.file).unwrap().modified().unwrap();
        std::fs::write(&parts.file, vec![1; SIZE]).unwrap();
        let held = parts.dump(20);
        assert!(held.status.success() && held.stdout[..3] == [140, 140, 140]);
        for time in [SystemTime::now(), packed] {
            std::fs::File::options().write(true).open(&parts.file).unwrap().set_modified(time).unwrap();
            let (_, message) = failed(&parts.dump(60));
            assert!(message.contains("Input/output error"), "{message}");
        }
    }
}

/// An original with other times and the same content completes the held pages.
pub(crate) fn touched_original_is_the_same() {
    for user in USERS {
        let parts = Parts::new(user, &HELD);
        std::fs::File::options()
            .write(true)
            .open(&parts.file)
            .unwrap()
            .set_modified(SystemTime::now())
            .unwrap();
        let there = parts.dump(60);
        assert!(there.status.success() && there.stdout[..3] == [164, 164, 164], "{there:?}");
    }
}

/// Bytes that a program writes through a mapping stay, although the file is too large to be pushed before it is opened.
pub(crate) fn written_through_a_mapping_while_pushed() {
    for user in USERS {
        let parts = Parts::sized(user, &[(0, 19000)], 20_000 * 4096);
        let script = format!(
            "import mmap, time\nf = open('{}', 'r+b')\nm = mmap.mmap(f.fileno(), 0)\n\
             for b in range(16380, 18990, 7):\n    m[b * 4096 + 9:b * 4096 + 12] = b'new'\n\
             time.sleep(0.3)\n\
             print(sum(m[b * 4096 + 9:b * 4096 + 12] != b'new' for b in range(16380, 18990, 7)))\nm.flush()",
            parts.file.display()
        );
        assert_eq!(parts.scene.script(&format!("python3 -c \"{script}\"")), "0\n");
        let written = std::fs::read(&parts.file).unwrap();
        assert!(
            (16380..18990).step_by(7).all(|block| &written[block * 4096 + 9..block * 4096 + 12] == b"new")
        );
        wait_until("the run has ended", || parts.scene.processes().is_empty());
    }
}

/// An unforeseen write reaches the original, and is read back, while held pages are being pushed.
pub(crate) fn written_while_pushed() {
    for user in USERS {
        let parts = Parts::new(user, &HELD);
        let script = format!(
            "import os\nf = os.open('{}', os.O_RDWR)\nos.pread(f, 10, 0)\n\
             for b in range(300):\n    os.pwrite(f, b'new', b * 4096 + 50)\n\
             for b in range(300):\n    d = os.pread(f, 4096, b * 4096)\n    assert d[50:53] == b'new' and d[0] == b * 7 % 256\n\
             print('ok')",
            parts.file.display()
        );
        assert_eq!(parts.scene.script(&format!("python3 -c \"{script}\"")), "ok\n");
        let written = std::fs::read(&parts.file).unwrap();
        assert!((0..300).all(|block| &written[block * 4096 + 50..block * 4096 + 53] == b"new"));
        wait_until("the run has ended", || parts.scene.processes().is_empty());
    }
}
