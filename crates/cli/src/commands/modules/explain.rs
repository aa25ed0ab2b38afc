//! Hints for errors of `quell-modules`.

use crate::failure::Failure;
use quell_modules::ModulesError;
use quell_modules::caches::CacheBarrier;
use std::io::ErrorKind;

/// The hint for a cache that would lie outside of a closed directory.
pub(super) const OUTSIDE: &str =
    "`--out DIR` below the closed directory restricts the cache to the users who can enter it";

/// Tells whether a name does not exist, or belongs to something of another kind.
fn is_no_place(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::AlreadyExists)
}

/// An error of `quell-modules` with a hint.
pub(super) fn explain(error: ModulesError) -> Failure {
    let hint = match &error {
        ModulesError::Read { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as root or as the owner of the modulepath")
        }
        ModulesError::Read { source, .. } if is_no_place(source.kind()) => {
            Some("give a directory that exists")
        }
        ModulesError::Write { source, .. } if is_no_place(source.kind()) => {
            Some("give a directory that exists, or a new name in one")
        }
        ModulesError::Write { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as a user who may write there, or give another directory")
        }
        ModulesError::Control { .. } => Some("rename it, or give a symbolic link without control characters"),
        ModulesError::Occupied { path } if path.to_string_lossy().ends_with("quell-plan.json") => {
            Some("`quell modules convert --undo FILE` undoes that conversion")
        }
        ModulesError::Occupied { .. } => Some("give the name of a new directory, or move the old one away"),
        ModulesError::SameName { .. } => Some("convert them one by one, each into its own directory"),
        ModulesError::Within { .. } => Some("give a directory outside of the modulepaths"),
        ModulesError::Special { .. } => Some("move it out of the modulepath"),
        ModulesError::Unlisted { .. } => Some(
            "try `module avail`: special characters in the path, or a closed directory above it, may be the cause",
        ),
        ModulesError::Leftover { .. } => Some("leave it out of the command"),
        ModulesError::Busy { .. } => Some("wait until it has ended"),
        ModulesError::Colon { .. } => Some("rename it, or give a symbolic link without a colon"),
        ModulesError::VirtualInPlace => Some("use `--out DIR`, and give users the modulepaths in DIR"),
        ModulesError::ChangedSince { .. } => Some("move the changes away, or remove the tree by hand"),
        ModulesError::LeftOutChanged { .. } => Some(
            "move it out of the tree, because it may hold the only copy of commits, and undo again; even `git status` changes it",
        ),
        ModulesError::ChangedMeanwhile { .. } => Some("run it again"),
        ModulesError::Halfway { .. } => {
            Some("`quell modules convert --undo FILE` restores the old tree, once the cause is removed")
        }
        ModulesError::Owner { .. } => {
            Some("run it as root, or as the owner of the whole tree who is a member of its groups")
        }
        ModulesError::OutOfReach { .. } => {
            Some("`--out` or TMPDIR may lie below a directory that is closed to other users")
        }
        ModulesError::Record { .. } => Some("give the `quell-plan.json` that `quell modules convert` wrote"),
        ModulesError::Untrusted { .. } => {
            Some("give a directory that only root can change, or run it as the owner of this one")
        }
        ModulesError::Unsafe { .. } => Some("`--user NAME` evaluates it as another user"),
        ModulesError::Tool { .. } => {
            Some("`--tools PREFIX` names an installed tool; `--no-verify` asks no tool")
        }
        ModulesError::Run { .. } => {
            Some("`--tools PREFIX` names another installation, `--user` another user")
        }
        ModulesError::Unloadable { .. } => Some("`--load NAME` names another module"),
        ModulesError::Barred { barrier: CacheBarrier::Above(_), .. } => Some(OUTSIDE),
        ModulesError::Barred { .. } | ModulesError::NoCache { .. } => {
            Some("open or move the closed paths; `--tools PREFIX` names another installation")
        }
        _ => None,
    };
    Failure::new(error).hints(hint)
}
