//! Profiles: what is read back, and how what is wrong is refused.

use super::*;
use proptest::prelude::*;

const HEAD: &str = "schema_version = 1\nname = \"x\"\nkind = \"measured\"\n";

#[test]
fn every_shipped_profile_can_be_read_and_written_back() {
    assert!(SHIPPED.is_sorted_by_key(|(name, _)| *name));
    for (name, _) in SHIPPED {
        let profile = shipped(name).unwrap();
        assert_eq!(profile.name, *name);
        assert_eq!(Profile::read(profile.to_toml().as_bytes()), Ok(profile));
    }
}

#[test]
fn a_program_lies_by_its_computing_between_requests_in_a_row_and_requests_apart() {
    let text = format!(
        "{HEAD}[network]\nround_trip_us = 90\nround_trip_in_a_row_us = 30\n\
         [client]\ncpu_us = 250\ncpu_in_a_row_us = 170\nown_answer_us = 80\n"
    );
    let profile = Profile::read(text.as_bytes()).unwrap();
    let costs = |computing| {
        let seen = profile.after_computing(computing);
        [seen.network.round_trip_us, seen.client.cpu_us, seen.client.own_answer_us].map(|it| it.unwrap().p50)
    };
    assert_eq!(costs(0.0), [30.0, 170.0, 80.0]);
    assert_eq!(costs(200.0), [60.0, 210.0, 80.0]);
    assert_eq!(costs(5000.0), [90.0, 250.0, 80.0]);
}

#[test]
fn what_is_wrong_is_one_line_with_its_number() {
    let mut said = String::new();
    for lines in [
        "[network]\nround_trip_us = -1",
        "[metadata.operations_per_second]\nlookup = 0",
        "[metadata.operations_per_second]\nlookup = nan",
        "[metadata.operations_per_second]\nlookup = inf",
        "[metadata]\nservers = 0",
        "[metadata]\nservers = 99999999999999999999",
        "[network]\nround_trip_us = { p10 = 9, p50 = 5, p90 = 8 }",
        "[network]\nround_trip_us = { p10 = 1, p50 = 5 }",
        "[network]\nround_trip_us = { p10 = 1, p50 = 5, p90 = 8, p99 = 9 }",
        "[network]\nround_trip_us = { p10 = 1, p50 = 5, p90 = 8, count = 0 }",
        "[network]\nround_trip_us = \"500\"",
        "[network]\nround_trip = 500",
        "[network]\nlookup = 500",
        "[metadta]\nservers = 1",
        "network = 3",
        "[client]\nopen_asks = 1",
        "[client]\nopen_ask = true",
        "[metadata.operations]\nlookup = 5",
        "nmae = \"y\"",
        "[client\n",
        "name = \"again\"",
    ] {
        let error = Profile::read(format!("{HEAD}{lines}").as_bytes()).unwrap_err();
        said.push_str(&format!("{error}"));
        said.push_str(&error.hint().map_or("\n".to_owned(), |hint| format!("  [{hint}]\n")));
    }
    for text in [
        "",
        "schema_version = 2\nname = 'x'\nkind = 'prior'",
        "schema_version = 1\nname = 'x'\nkind = 'mesured'",
        "\u{1b}[2J = 1",
    ] {
        let error = Profile::read(text.as_bytes()).unwrap_err();
        said.push_str(&format!("{error}\n"));
    }
    said.push_str(&format!("{}\n", Profile::read(b"\n\xff").unwrap_err()));
    insta::assert_snapshot!(said);
}

#[test]
fn absent_is_not_zero() {
    let profile = Profile::read(format!("{HEAD}[client]\nnegative_seconds = 0").as_bytes()).unwrap();
    assert_eq!(profile.client.negative_seconds, Some(Figure::exact(0.0)));
    assert_eq!(profile.client.positive_seconds, None);
    assert!(!profile.to_toml().contains("positive_seconds"));
}

#[test]
fn quantiles_go_through_what_is_known_and_never_run_away() {
    let rate = Figure::spread(10.0, 100.0, 1000.0);
    for (u, expected) in [(0.1, 10.0), (0.5, 100.0), (0.9, 1000.0), (0.3, 31.6227766)] {
        assert!((rate.quantile(u) / expected - 1.0).abs() < 1e-6, "{u}");
    }
    assert!(rate.quantile(0.0) > 6.0 && rate.quantile(1.0) < 1500.0);
    assert_eq!(Figure::exact(3.0).quantile(0.0), 3.0);
    assert!((Figure::spread(0.0, 30.0, 30.0).quantile(0.3) - 15.0).abs() < 1e-9);
    assert!(Figure::spread(0.0, 30.0, 30.0).quantile(0.0) >= 0.0);
}

fn any_figure(range: FigureRange) -> impl Strategy<Value = Figure> {
    let value = || prop_oneof![range.least..=range.most, range.least..=range.least + 10.0];
    let parts = (
        value(),
        value(),
        value(),
        proptest::option::of(1u64..1000),
        proptest::option::of("\\PC{0,9}|\\s|\"\\\\"),
    );
    parts.prop_map(|(a, b, c, count, source)| {
        let mut sorted = [a, b, c];
        sorted.sort_by(f64::total_cmp);
        Figure { p10: sorted[0], p50: sorted[1], p90: sorted[2], count, source }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_equal(
        name in "\\PC{0,9}|[\\x00-\\x7f]{0,9}", note in proptest::option::of(".*"), kind in 0usize..3,
        seed in proptest::collection::vec((proptest::option::of(any_figure(figure::RATE)), any::<Option<bool>>()), 64),
    ) {
        let mut profile = Profile::new(name, ProfileKind::ALL[kind]);
        profile.note = note;
        for ((.., slot), (number, on)) in profile.slots().into_iter().zip(seed) {
            match slot {
                ProfileSlot::Switch(place) => *place = on,
                ProfileSlot::Figure(place, range) => {
                    *place = number.filter(|figure| range.holds(figure.p10) && range.holds(figure.p90));
                }
            }
        }
        prop_assert_eq!(Profile::read(profile.to_toml().as_bytes()), Ok(profile));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\[?[a-z_.]{0,12}\\]? ?=? ?[0-9e{}\"\n.-]{0,9}){0,8}") {
        let _ = Profile::read(text.as_bytes());
    }
}
