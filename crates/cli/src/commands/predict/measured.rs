//! Measured times, from a CSV file: `nodes,ppn,seconds`, a line each, with or without that line of titles.

use crate::failure::Failure;
use crate::given;
use quell_base::{escape, shown};
use quell_report::view::MeasuredPoint;
use std::path::Path;

/// Reads the points of a file.
///
/// **Errors**: a file that cannot be read, a line that is not three numbers.
pub(crate) fn load(file: &Path) -> Result<Vec<MeasuredPoint>, Failure> {
    let shown = shown(file);
    let text = given::read(file, MOST_BYTES)
        .map_err(|error| Failure::new(error).context(format!("cannot read `{shown}`")))?;
    let text = std::str::from_utf8(&text).ok().filter(|text| text.len() as u64 <= MOST_BYTES);
    let text =
        text.ok_or_else(|| Failure::message(format!("`{shown}` is no table of measured times")).hint(FORM))?;
    points(text).map_err(|(line, words)| {
        let words = escape(words.as_bytes());
        Failure::message(format!(
            "`{shown}`, line {line}: `{words}` is not a number of nodes, of ranks a node, and seconds"
        ))
        .hint(FORM)
    })
}

/// The points of a text, or the first line that is none.
fn points(text: &str) -> Result<Vec<MeasuredPoint>, (usize, &str)> {
    let mut points = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_title = index == 0 && line.trim_start().starts_with("nodes");
        if line.trim().is_empty() || line.starts_with('#') || is_title {
            continue;
        }
        points.push(point(line).ok_or((index + 1, line))?);
    }
    Ok(points)
}

fn point(line: &str) -> Option<MeasuredPoint> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [nodes, ppn, seconds] = cells[..] else { return None };
    let count = |cell: &str| cell.parse().ok().filter(|count| (1..=MOST).contains(count));
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (1e-9..=1e9).contains(seconds))?;
    Some(MeasuredPoint { nodes: count(nodes)?, ppn: count(ppn)?, seconds })
}

const FORM: &str = "a line is nodes,ppn,seconds, such as 64,32,12.5";
/// Thousands of points.
const MOST_BYTES: u64 = 1 << 20;
const MOST: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_three_numbers() {
        let text = "nodes,ppn,seconds\n# on a quiet Sunday\n1, 8 ,0.5\r\n\n64,32,12.5\n";
        let points = points(text).unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!(points[1], MeasuredPoint { nodes: 64, ppn: 32, seconds: 12.5 });
    }

    #[test]
    fn what_is_not_is_named_with_its_line() {
        for line in
            ["1,2", "1,2,3,4", "0,1,2", "1,2,-3", "1,2,nan", "1,2,inf", "1e9,1,1", "a,b,c", "nodes,1,2"]
        {
            assert_eq!(points(&format!("1,1,1\n{line}\n")), Err((2, line)));
        }
    }
}
