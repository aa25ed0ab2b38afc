//! An image holds what a run used of its files: no more than a tenth above it, and nothing is asked of the original.

use serde_json::Value;

use crate::harness::{Need, Test, program, wait_until};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace, Need::Program("gcc")];

/// Pages of the file.
const PAGES: usize = 8192;

/// Both kinds of users, each with a large file and a program that touches pages of it.
fn touching() -> Option<[Test; 2]> {
    let tests = [Test::privileged(ALL)?, Test::of_ordinary_user(ALL)?];
    for test in &tests {
        let content: Vec<u8> = (0..PAGES * 4096).map(|at| (at / 4096 * 5 + at % 4096 / 9) as u8).collect();
        test.write("env/big.bin", content);
        program(test, "touch", &[]);
        test.give("touch");
    }
    Some(tests)
}

fn touch(test: &Test, prefix: &[&str], [first, step, count]: [&str; 3]) -> String {
    let words = [&test.text("touch"), &test.text("env/big.bin"), first, step, count];
    test.quell(&[prefix, &words.map(|word| word as &str)].concat()).succeeds()
}

fn stats(test: &Test) -> Value {
    wait_until("the statistics appear", || test.path("stats.json").exists());
    test.read_json("stats.json")
}

#[test]
fn privileged_an_image_holds_what_was_touched() {
    for test in touching().into_iter().flatten() {
        let recorded = ["5", "21", "300"];
        let plain = touch(&test, &["record", "-q", "-o", "app.qtrace", "--"], recorded);
        let said = test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
        assert!(said.contains(" of 32.0 MiB, "), "{said}");
        let info = test.json(&["image", "info", "--json", "app.qimg"]);
        let held = info["files"]["part_held_bytes"].as_u64().unwrap() / 4096;
        assert!((300..=330).contains(&held), "{held} pages are held");
        let run = ["run", "--stats", "stats.json", "app.qimg", "--"];
        assert_eq!(touch(&test, &run, recorded), plain);
        let same = stats(&test);
        assert_eq!(same["original"]["read"], 0, "{same:#}");
        assert_eq!(same["image"]["bytes_pushed"].as_u64().unwrap() / 4096, held, "{same:#}");
        // Another run: other pages, right all the same, and what it asked of the original is counted.
        let other = ["7", "13", "500"];
        let plain = touch(&test, &["record", "-q", "-o", "other.qtrace", "--"], other);
        assert_eq!(touch(&test, &run, other), plain);
        let different = stats(&test);
        assert!(different["original"]["read"].as_u64() > Some(0), "{different:#}");
        // Two recordings: what either of them used.
        test.quell(&["-q", "pack", "app.qtrace", "other.qtrace", "-o", "both.qimg", "--root", "env"])
            .succeeds();
        let run = ["run", "--stats", "stats.json", "both.qimg", "--"];
        for pages in [recorded, other] {
            touch(&test, &run, pages);
            let either = stats(&test);
            assert_eq!(either["original"]["read"], 0, "{either:#}");
        }
    }
}

#[test]
fn privileged_whole_files_are_held_on_request() {
    for test in touching().into_iter().flatten() {
        touch(&test, &["record", "-q", "-o", "app.qtrace", "--"], ["0", "9", "9"]);
        let pack = ["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env", "--whole-files"];
        test.quell(&pack).succeeds();
        let listed = test.quell(&["image", "ls", "app.qimg", "env/big.bin"]).succeeds();
        assert!(listed.contains(" held "), "{listed}");
    }
}

#[test]
fn privileged_a_part_is_not_taken_for_the_whole() {
    for test in touching().into_iter().flatten() {
        touch(&test, &["record", "-q", "-o", "app.qtrace", "--"], ["0", "9", "9"]);
        test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
        let listed = test.quell(&["image", "ls", "app.qimg", "env/big.bin"]).succeeds();
        assert!(listed.contains(" part "), "{listed}");
        let cat = test.quell(&["image", "cat", "app.qimg", "env/big.bin"]);
        assert_eq!(cat.code(), 2);
        assert!(cat.to_string().contains("the image holds 36864 of its 33554432 bytes"), "{cat}");
        let out = test.quell(&["image", "extract", "app.qimg", "-o", "out"]);
        assert_eq!(out.code(), 1);
        assert!(out.to_string().contains("big.bin  (the image holds only a part of its content)"), "{out}");
        assert_eq!(test.quell(&["image", "extract", "--fill", "app.qimg", "-o", "filled"]).code(), 0);
        let below = test.text("env/big.bin");
        assert_eq!(test.read(&format!("filled{below}")), test.read("env/big.bin"));
        let fill = ["image", "export", "--erofs", "--fill", "app.qimg", "-o", "filled.qimg"];
        assert_eq!(test.quell(&fill).code(), 0);
        let listed = test.quell(&["image", "ls", "filled.qimg", "env/big.bin"]).succeeds();
        assert!(listed.contains(" held "), "{listed}");
        // Made anew without a recording it holds the same.
        let before = test.read("app.qimg");
        test.quell(&["-q", "pack", "--refresh", "app.qimg"]).succeeds();
        assert!(test.read("app.qimg") == before);
    }
}
