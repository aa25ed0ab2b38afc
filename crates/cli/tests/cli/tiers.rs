//! A short round of `tests/soak/kill_tiers`: SIGKILL of any process of `--buffer`, `--scratch --keep` and `--gather`.

use std::path::Path;

use crate::harness::{Need, QUELL, Test};

#[test]
fn privileged_kills_at_random_moments_lose_nothing_that_fsync_acknowledged_and_leave_nothing() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Program("python3")]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/soak/kill_tiers");
    let mut command = test.command(&[script.to_str().unwrap(), "--runs", "20"]);
    command.env("QUELL", *QUELL);
    println!("{}", test.finish(command).succeeds());
}
