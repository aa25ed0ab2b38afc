//! Numbers of nodes as people type them: `64`, `1,16,256`, `1..4096`.

use std::str::FromStr;

/// Numbers of nodes. Shape: ascending, each once, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList(pub Vec<u64>);

/// The largest machine that is meant.
const MOST_NODES: u64 = 10_000_000;
/// More would fill no curve better, and a table less.
const MOST_ENTRIES: usize = 100;

impl FromStr for NodeList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut nodes = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => nodes.push(number(part)?),
                Some((from, to)) => nodes.extend(powers(number(from)?, number(to)?)?),
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        match nodes.len() {
            0..=MOST_ENTRIES => Ok(Self(nodes)),
            many => Err(format!("{many} numbers of nodes are too many: at most {MOST_ENTRIES}")),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = text.trim().parse().ok().filter(|number| (1..=MOST_NODES).contains(number));
    parsed.ok_or_else(|| {
        let shown = quell_base::escape(text.as_bytes());
        // As node lists of batch systems are written.
        let meant = text.split_once('-').map(|(from, to)| (from.trim(), to.trim()));
        match meant.filter(|(from, to)| number(from).is_ok() && number(to).is_ok()) {
            Some((from, to)) => format!("`{shown}` is no number of nodes; a range is written `{from}..{to}`"),
            None => format!("`{shown}` is no number of nodes, a whole number from 1 to {MOST_NODES}"),
        }
    })
}

/// Both ends, and the powers of two between.
fn powers(from: u64, to: u64) -> Result<Vec<u64>, String> {
    if from > to {
        return Err(format!("`{from}..{to}` goes down; write the smaller number first"));
    }
    let powers = (0..u64::BITS).map(|power| 1 << power).filter(|power| (from..=to).contains(power));
    Ok([from, to].into_iter().chain(powers).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_ascending_numbers() {
        for (text, expected) in [
            ("64", &[64][..]),
            ("16, 1,16", &[1, 16]),
            ("1..8", &[1, 2, 4, 8]),
            ("3..20", &[3, 4, 8, 16, 20]),
            ("7..7,100", &[7, 100]),
        ] {
            assert_eq!(text.parse::<NodeList>().map(|list| list.0), Ok(expected.to_vec()), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_nodes_is_named() {
        for text in
            ["", ",", "0", "-1", "1..", "..4", "1..1e9", "1..10000001", "4..1", "1,2,x", "1...4", "\u{1b}[2J"]
        {
            let error = text.parse::<NodeList>().expect_err(text);
            assert!(!error.contains('\u{1b}') && error.contains('`'), "{error}");
        }
        let dashed = "1,2-512".parse::<NodeList>().unwrap_err();
        assert_eq!(dashed, "`2-512` is no number of nodes; a range is written `2..512`");
        let many: Vec<_> = (1..=101).map(|number: u32| number.to_string()).collect();
        assert!(many.join(",").parse::<NodeList>().is_err());
    }
}
