//! The cost of sending an image to N nodes: each reads it once, so the servers send its bytes times the nodes.

use crate::failure::Failure;
use crate::flags::Pack;
use crate::host;
use crate::printer::Printer;
use quell_base::number::size;
use quell_pack::Packed;
use std::path::Path;

/// Smallest part of an image that is worth a storage target of its own.
const PART: u64 = 4 << 20;

/// Prints the bytes that many nodes will read, with `--nodes`.
pub(super) fn print(flags: &Pack, packed: &Packed, target: &Path, printer: &Printer) -> Result<(), Failure> {
    let Some(nodes) = flags.nodes else { return Ok(()) };
    let kind = host::file_system(target);
    printer.data(&describe(target, packed.written.file_bytes, &kind, nodes))
}

/// The report of `pack` on an image of `bytes` bytes on a file system of type `kind`, read by `nodes` nodes.
fn describe(image: &Path, bytes: u64, kind: &str, nodes: u32) -> String {
    let sum = size(bytes.saturating_mul(nodes.into()));
    let mut text = format!("\n{nodes} nodes read {sum} of it in all");
    if kind == "lustre" {
        let count = targets(bytes, nodes);
        text.push_str(&format!("; spread it first: lfs migrate -c {count} -S 4M {}", image.display()));
    }
    text.push('\n');
    text
}

/// Storage targets over which to spread an image: as many as nodes read at a time, and no more than it has parts.
/// `lfs` takes fewer where there are fewer.
fn targets(bytes: u64, nodes: u32) -> u64 {
    bytes.div_ceil(PART).clamp(1, u64::from(nodes.max(1)).min(MOST_TARGETS))
}

/// Most targets that a file of Lustre can have. Source: `LOV_MAX_STRIPE_COUNT` of `lustre_user.h`.
const MOST_TARGETS: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_spread_over_as_many_targets_as_can_be_read_at_once() {
        let mib = 1 << 20;
        for (bytes, nodes, count) in [
            (1, 1000, 1),
            (153 * mib, 1000, 39),
            (153 * mib, 8, 8),
            (153 * mib, 1, 1),
            (1 << 44, u32::MAX, 2000),
        ] {
            assert_eq!(targets(bytes, nodes), count, "{bytes} bytes, {nodes} nodes");
        }
    }

    #[test]
    fn only_lustre_gets_a_command() {
        let image = Path::new("app.qimg");
        let said = |kind| describe(image, 160 << 20, kind, 1000);
        assert_eq!(
            said("lustre"),
            "\n1000 nodes read 156 GiB of it in all; spread it first: lfs migrate -c 40 -S 4M app.qimg\n"
        );
        assert_eq!(said("nfs4"), "\n1000 nodes read 156 GiB of it in all\n");
    }
}
