//! Pages of the documentation that are computed: Markdown, written by `cargo xtask` and checked in CI.

use crate::number::{grouped, seconds};
use crate::published::{error, number, published, range};
use crate::text::{capitalised, finished};
use crate::view::{LimitRow, ValidateView, ValidationRow};
use std::fmt::Write as _;

/// `docs/findings.md`.
pub fn findings(limits: &[LimitRow]) -> String {
    let mut page = String::from(FINDINGS);
    for LimitRow { name, value, unit, meaning, is_code } in limits {
        let is_code = if *is_code { "yes" } else { "no" };
        let _ = writeln!(page, "| `{name}` | {value} {unit} | {meaning} | {is_code} |");
    }
    page
}

const FINDINGS: &str = "# Findings\n\n    $ quell report --fail-on any app.qtrace\n    \
    $ quell report --threshold python-imports=500 app.qtrace\n\n\
    A finding is a cause of operations that is over its limit. `--threshold NAME=VALUE` sets a limit. `--fail-on CODE` ends \
    `quell report` with status 1 when there is such a finding. A code is the name of its limit. `small-file`, \
    `small-request` and `small-write` are sizes that findings use, and no codes. Of several recordings the average counts. `cargo xtask` makes this page \
    from the rules.\n\n\
    | name | limit | what is measured | a code |\n|---|---|---|---|\n";

/// `docs/validation.md`.
pub fn validation(validation: &ValidateView) -> String {
    let mut page = String::from(HEAD);
    page += "| | use | outcome |\n|---|---|---|\n";
    for used in &validation.uses {
        let _ = writeln!(page, "| {} | {} | {} |", used.letter, used.meaning, used.outcome);
    }
    let _ = write!(page, "\n{}.\n\n", capitalised(&validation.coverage.words()));
    let _ = write!(page, "{}.\n\n", capitalised(&validation.separated.words()));
    for used in &validation.uses {
        let _ = write!(page, "## {}: {}\n\n{TABLE}", used.letter, used.meaning);
        validation.rows.iter().filter(|row| row.used == used.letter).for_each(|row| page += &line(row));
        page += "\n";
    }
    page += &doubts(validation);
    page += &missing(validation);
    finished(&page)
}

fn line(row: &ValidationRow) -> String {
    let words =
        if row.published.words.is_empty() { String::new() } else { format!("\"{}\"", row.published.words) };
    let log = row.log_error.map_or(String::new(), |error| format!("{error:+.2}"));
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        row.name,
        row.what,
        published(row),
        number(row.predicted.p50, row.unit_of),
        range(row),
        error(row),
        log,
        row.fitted_parameters,
        row.rule,
        match row.verdict.as_str() {
            "misses" => "**misses**",
            verdict => verdict,
        },
        [row.source.as_str(), &words, row.note.as_deref().unwrap_or_default()]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join("; "),
    )
}

fn doubts(validation: &ValidateView) -> String {
    let mut text = String::from(IDENTIFIABILITY);
    for other in &validation.alternatives {
        let _ = writeln!(
            text,
            "| {} | {} | {}/s | {}/s | {} | {:.1} |",
            other.assumption,
            grouped(other.operations.round() as u64),
            grouped(other.home.round() as u64),
            grouped(other.scratch.round() as u64),
            seconds(other.seconds_at_8000),
            other.knee
        );
    }
    text += ELASTICITIES;
    for elasticity in &validation.elasticities {
        let _ =
            writeln!(text, "| `{}` | `{}` | {:+.2} |", elasticity.row, elasticity.key, elasticity.elasticity);
    }
    text + "\n"
}

fn missing(validation: &ValidateView) -> String {
    let mut text = String::from(MISSING);
    for missing in &validation.not_reproducible {
        let _ = writeln!(text, "| {} | {} | {} |", missing.what, missing.source, missing.lacks);
    }
    text
}

const HEAD: &str = "# Validation\n\n    $ quell validate\n\n\
    Published figures beside what `quell predict` says of them. `cargo xtask` makes this page from the code that predicts, and CI \
    checks it.\n\n\
    The parameters are those of the shipped profiles `hopper-home`, `hopper-scratch` and `coral`, whose files say which figures they \
    were fitted to. They were fixed, and committed, before any figure for validation was computed. Each row has a rule that says when \
    it holds; rows that miss stay. The error is that of the predicted median against the middle of the published range, also as its \
    natural logarithm. `fitted` is the number of parameters behind a prediction that were fitted to published figures.\n\n";

const TABLE: &str = "| figure | what it is | published | predicted | p10 to p90 | error | ln | fitted | rule | | source, words, note |\n\
    |---|---|---:|---:|---:|---:|---:|---:|---|---|---|\n";

const IDENTIFIABILITY: &str = "## What the figures cannot tell apart\n\n\
    All start-up rows of Hopper hang on one measured time, a user's line and two ratios: two degrees of freedom. Whether clients kept \
    anything, and so which operations reached the server, is not published. Each assumption below gives the published times, with its \
    own rates, and the same time on 8000 cores: the cache mode and the service rate cannot be told apart. A count at the server \
    during one start would decide it. `coral` has the same limit: every published time is of 4096 nodes, so the growth with \
    the number of nodes is assumed, not tested.\n\n\
    | reaches the server | operations a rank | rate of /home | rate of /scratch | 8000 cores of /home | knee, cores |\n\
    |---|---:|---:|---:|---:|---:|\n";

const ELASTICITIES: &str = "\n## How much a time leans on a figure\n\n\
    d ln T / d ln figure at the medians; 1 is proportional, -1 inverse. Below 0.005 it is left out.\n\n\
    | row | figure of the profile | elasticity |\n|---|---|---:|\n";

const MISSING: &str = "## What cannot be reproduced\n\n\
    | published | source | what is not known |\n|---|---|---|\n";
