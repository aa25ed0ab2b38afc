//! Acceptance: which rows must hold, and which must stay as misses.

use super::*;
use std::sync::LazyLock;

static ALL: LazyLock<Validation> = LazyLock::new(validate);

fn row(name: &str) -> &'static PublishedRow {
    ALL.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn names_are_unique_and_every_number_is_one() {
    let rows = &ALL.rows;
    let mut names: Vec<_> = rows.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
    for row in rows {
        let PublishedRow { published, predicted, .. } = row;
        let numbers = [published.low, published.high, predicted.p10, predicted.p50, predicted.p90];
        assert!(numbers.iter().all(|number| number.is_finite()), "{row:?}");
        assert!(predicted.p10 <= predicted.p50 && predicted.p50 <= predicted.p90, "{row:?}");
        assert!(published.low <= published.high, "{row:?}");
    }
}

#[test]
fn held_out_times_are_within_a_factor_of_one_and_a_half() {
    for name in ["warp-home-slope", "scale-baseline", "scale-round-1", "scale-creates"] {
        let row = row(name);
        assert_eq!((row.used, row.rule), (RowUse::Validation, RowRule::Factor(1.5)), "{name}");
        assert_eq!(row.verdict(), RowVerdict::Holds, "{row:?}");
    }
}

#[test]
fn ratios_are_within_a_fifth() {
    for name in ["warp-scratch-4", "warp-dlfm-10", "julia-60", "julia-stats", "spindle-nodes"] {
        let row = row(name);
        assert!((row.factor() - 1.0).abs() <= 0.2, "{row:?}");
    }
}

#[test]
fn a_shorter_search_path_shows_no_change() {
    let row = row("warp-search-path");
    assert_eq!(row.verdict(), RowVerdict::Holds);
    // It must not slow the start either.
    assert!((-10.0..=0.0).contains(&row.predicted.p50), "{row:?}");
}

#[test]
fn the_calibrated_law_of_splits_stays_a_miss_and_the_other_is_labelled() {
    for name in ["scale-1m", "scale-4m", "scale-8m"] {
        let row = row(name);
        assert_eq!((row.used, row.parameters), (RowUse::Validation, 1));
        assert_eq!(row.verdict(), RowVerdict::Misses, "{row:?}");
    }
    for name in ["scale-256k-serial", "scale-1m-serial", "scale-4m-serial", "scale-8m-serial"] {
        let row = row(name);
        assert_eq!((row.used, row.verdict(), row.parameters), (RowUse::PostHoc, RowVerdict::Fitted, 3));
        assert!(row.log_error().unwrap().abs() < 0.13, "{row:?}");
    }
}

#[test]
fn what_was_fitted_gives_what_it_was_fitted_to() {
    for row in ALL.rows.iter().filter(|row| row.used == RowUse::Calibration) {
        assert!(row.parameters > 0 && row.rule == RowRule::Fitted, "{row:?}");
        assert!((row.factor() - 1.0).abs() < 0.05, "{row:?}");
    }
}

/// Counts agree to the digit, but for one column that the source misprints.
#[test]
fn arithmetic_is_equal_but_for_a_misprint() {
    for row in ALL.rows.iter().filter(|row| row.used == RowUse::Arithmetic) {
        let expected = if row.name == "modules-no-library" { RowVerdict::Misses } else { RowVerdict::Holds };
        assert_eq!(row.verdict(), expected, "{row:?}");
    }
}

/// Every assumption gives the same time where nothing was fitted, with rates 25 times apart.
#[test]
fn cache_mode_and_service_rate_cannot_be_told_apart() {
    let alternatives = &ALL.alternatives;
    let first = &alternatives[0];
    for other in alternatives {
        assert!((other.at_8000 / first.at_8000 - 1.0).abs() < 0.02, "{other:?}");
        assert!((other.scratch / other.home / 4.0 - 1.0).abs() < 0.02, "{other:?}");
    }
    let rates: Vec<f64> = alternatives.iter().map(|other| other.home).collect();
    assert!(rates[0] / rates[3] > 20.0, "{rates:?}");
}

#[test]
fn elasticities_name_what_a_time_hangs_on() {
    let elasticities = &ALL.elasticities;
    let of = |row: &str, key: &str| {
        elasticities
            .iter()
            .find(|known| known.row == row && known.key.ends_with(key))
            .map_or(0.0, |known| known.value)
    };
    assert!(of("scale-baseline", "inode_token_us") > 0.9);
    assert!(of("scale-round-3", "revoke_us") > 0.5);
    let rates: f64 =
        ["lookup_absent", "getattr", "open"].iter().map(|key| of("warp-dlfm-10", &format!(".{key}"))).sum();
    assert!((-1.02..=-0.9).contains(&rates), "{rates}");
}
