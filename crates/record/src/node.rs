//! Adds this node's mounts, links and libraries to a trace that was made elsewhere or by other means.

use crate::facts;
use crate::finish::{Asker, TracePurpose};
use quell_trace::Mount;
use quell_trace::writer::Finish;

/// The mounts in a table in the form of `/proc/PID/mountinfo`, as of one namespace. Shape: in its order; malformed
/// lines are skipped. Source: `proc_pid_mountinfo(5)`.
pub fn mounts(mountinfo: &[u8]) -> Vec<Mount> {
    // The table does not contain its namespace's number, and the trace has only one namespace.
    const NAMESPACE: u64 = 0;
    facts::mounts_of(mountinfo, NAMESPACE)
}

/// Reads links, libraries and striping from the file systems of this node, as a recording does at its end.
pub fn asker(mounts: &[Mount]) -> impl Finish + use<> {
    let striped = mounts.iter().filter(|mount| mount.kind == "lustre");
    let striped = striped.map(|mount| mount.mount_point.clone()).collect();
    Asker { striped, purpose: TracePurpose::Any }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_mounts_is_read_line_by_line() {
        let table =
            b"36 35 98:7 / /a rw - ext3 /dev/root rw\nnonsense\n37 35 0:50 / /b rw - lustre x@tcp:/b rw\n";
        let mounts = mounts(table);
        let points: Vec<_> =
            mounts.iter().map(|mount| (mount.mount_point.as_str(), mount.kind.as_str())).collect();
        assert_eq!(points, [("/a", "ext3"), ("/b", "lustre")]);
    }
}
