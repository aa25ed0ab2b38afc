//! The whole start: so many operations on file systems that all nodes share.

use super::case::Case;
use super::draft::{Draft, Found, largest};
use super::image;
use super::limits::NETWORK_START_UP;
use super::words::count;
use quell_base::escape;
use quell_trace::ServedBy;

/// `network-start-up`.
pub(super) fn start_up(case: &Case<'_>) -> Vec<Found> {
    let operations = case.summary.served.network;
    let each = case.each(operations);
    if operations == 0 {
        return Vec::new();
    }
    let rows = case.summary.file_systems();
    let rows = rows.iter().filter(|(key, _)| key.served_by() == ServedBy::Network);
    let rows =
        rows.map(|(key, counts)| (counts.metadata_operations, (&key.mount_point, &key.kind))).collect();
    let image = image::serving(case, std::iter::empty());
    Draft {
        limit: &NETWORK_START_UP,
        measured: each,
        title: format!(
            "a start asks network file systems for {}",
            count(each.ceil() as u64, "metadata operation")
        ),
        evidence: largest(rows, |operations, (mount, kind)| {
            format!("{} ({kind}): {}", escape(mount.as_bytes()), count(operations, "operation"))
        }),
        operations,
        change: image,
    }
    .over(case)
    .into_iter()
    .collect()
}
