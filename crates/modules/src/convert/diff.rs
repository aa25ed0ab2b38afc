//! A plan as a unified diff, which `patch -p1` applies and `patch -p1 -R` takes back.

use super::plan::{Basis, ConversionPlan, FileChange, TreePlan};
use quell_base::{escape, shown};

/// Lines around a change.
const CONTEXT: usize = 3;

/// The changes of a plan. Shape: by modulepath, then by path; empty if nothing changes.
pub fn diff(plan: &ConversionPlan) -> String {
    plan.trees.iter().map(tree).collect()
}

fn tree(plan: &TreePlan) -> String {
    let mut text = String::new();
    if plan.changes.is_empty() {
        return text;
    }
    let source = shown(&plan.source);
    let basis = if plan.basis == Basis::Copy { "" } else { ", from nothing" };
    text += &format!("# {source}{basis}\n");
    for (path, change) in &plan.changes {
        let path = escape(path);
        match change {
            FileChange::Write { old: None, new } => {
                text += &file("/dev/null", &format!("b/{path}"), b"", new)
            }
            FileChange::Write { old: Some(old), new } => {
                text += &file(&format!("a/{path}"), &format!("b/{path}"), old, new);
            }
            FileChange::Remove { old: Some(old) } if old.is_empty() => {
                text += &format!("# {path} is left out: empty\n")
            }
            FileChange::Remove { old: Some(old) } => {
                text += &file(&format!("a/{path}"), "/dev/null", old, b"")
            }
            FileChange::Remove { old: None } => text += &format!("# {path} is left out\n"),
            FileChange::Link { to } => text += &format!("# {path} -> {}\n", shown(to)),
        }
    }
    text
}

/// The diff of one file. Common lines at its beginning and its end are context.
fn file(before: &str, after: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (lines(old), lines(new));
    let front = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let room = old.len().min(new.len()) - front;
    let back = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(old, new)| old == new).count();
    let (first, last) = (front.saturating_sub(CONTEXT), back.saturating_sub(CONTEXT));
    let range = |lines: &[&[u8]]| {
        let length = lines.len() - first - last;
        format!("{},{length}", if length == 0 { first } else { first + 1 })
    };
    let mut text = format!("--- {before}\n+++ {after}\n@@ -{} +{} @@\n", range(&old), range(&new));
    let mut add = |sign: char, lines: &[&[u8]]| {
        for line in lines {
            let (line, end) = match line.strip_suffix(b"\n") {
                Some(line) => (line, "\n"),
                None => (*line, "\n\\ No newline at end of file\n"),
            };
            text.push(sign);
            text += &escape_line(line);
            text += end;
        }
    };
    add(' ', &old[first..front]);
    add('-', &old[front..old.len() - back]);
    add('+', &new[front..new.len() - back]);
    add(' ', &new[new.len() - back..new.len() - last]);
    text
}

/// A line for a terminal, with its tabs.
fn escape_line(line: &[u8]) -> String {
    line.split(|byte| *byte == b'\t').map(escape).collect::<Vec<_>>().join("\t")
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};

    #[test]
    fn a_diff_of_every_kind() {
        assert_eq!(
            file("/dev/null", "b/x", b"", b"a\nb\n"),
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        );
        assert_eq!(
            file("a/x", "/dev/null", b"a", b""),
            "--- a/x\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
        assert_eq!(
            file("a/x", "b/x", b"1\n2\n3\n4\n5\n", b"1\n2\n3\n4\n5\n6\n"),
            "--- a/x\n+++ b/x\n@@ -3,3 +3,4 @@\n 3\n 4\n 5\n+6\n"
        );
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { cases: 40, ..Default::default() })]
        #[test]
        fn privileged_patch_takes_it_there_and_back(old in "[ab\n]{1,12}", new in "[ab\n]{1,12}") {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x");
            let patch = |arguments: &[&str]| {
                let mut command = Command::new("patch");
                let command = command.args(["-s", "-p1"]).args(arguments).current_dir(directory.path());
                let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
                std::io::Write::write_all(
                    child.stdin.as_mut().unwrap(),
                    file("a/x", "b/x", old.as_bytes(), new.as_bytes()).as_bytes(),
                ).unwrap();
                child.wait().unwrap()
            };
            if old != new && Command::new("patch").arg("--version").stdout(Stdio::null()).status().is_ok() {
                fs::write(&path, &old).unwrap();
                assert!(patch(&[]).success());
                assert_eq!(fs::read_to_string(&path).unwrap(), new);
                assert!(patch(&["-R"]).success());
                assert_eq!(fs::read_to_string(&path).unwrap(), old);
            }
        }
    }
}
