//! The job's key as a credential of MUNGE, which clusters with Slurm have: only processes of the same user can decode it.

use std::io::Write;
use std::process::{Command, Stdio};

/// Tells whether this node has MUNGE.
pub(super) fn is_here() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    has("munge") && has("unmunge")
}

/// A credential with `secret` in it. `None` where the daemon does not answer.
pub(super) fn encode(secret: &str) -> Option<Vec<u8>> {
    let user = rustix::process::geteuid().as_raw();
    talk("munge", &[&format!("--restrict-uid={user}")], secret.as_bytes()).map(|(text, _)| text)
}

/// The secret of a credential that a process of the same user made.
pub(super) fn decode(credential: &[u8]) -> Option<String> {
    let (text, _) = talk("unmunge", &[], credential)?;
    secret(std::str::from_utf8(&text).ok()?, rustix::process::geteuid().as_raw())
}

/// Lines `NAME: VALUE`, an empty line, then the secret. A credential counts also if another process of this node has
/// decoded it before: the secret proves itself.
fn secret(text: &str, user: u32) -> Option<String> {
    let (facts, secret) = text.split_once("\n\n")?;
    let fact =
        |name: &str| facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let status = fact("STATUS")?;
    let counts = status.ends_with("(0)") || status.ends_with("(17)");
    let ours = fact("UID")?.ends_with(&format!("({user})"));
    (counts && ours && !secret.is_empty()).then(|| secret.trim_end().to_owned())
}

fn talk(program: &str, arguments: &[&str], input: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let sent = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(input).is_ok());
    let output = child.wait_with_output().ok()?;
    (sent && !output.stdout.is_empty()).then(|| (output.stdout, output.status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_credential_of_the_same_user_counts() {
        let text = |status: &str, user: &str| {
            format!("STATUS:           {status}\nUID:              {user}\n\nabc\n")
        };
        assert_eq!(secret(&text("Success (0)", "u (1000)"), 1000).as_deref(), Some("abc"));
        assert_eq!(secret(&text("Replayed credential (17)", "u (1000)"), 1000).as_deref(), Some("abc"));
        assert_eq!(secret(&text("Expired credential (15)", "u (1000)"), 1000), None);
        assert_eq!(secret(&text("Success (0)", "v (11000)"), 1000), None);
        assert_eq!(secret("STATUS: Success (0)\nUID: u (1000)\n\n", 1000), None);
        assert_eq!(secret("", 1000), None);
    }
}
