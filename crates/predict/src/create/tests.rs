//! Creates: the terms against sums by hand, the limits, and what must hold for every request.

use super::*;
use crate::forecast::Bottleneck;
use crate::profile::{Figure, Profile, shipped};
use proptest::prelude::*;

fn coral() -> Profile {
    shipped("coral").unwrap()
}

fn request(nodes: u64) -> CreateRequest {
    let state = DirectoryState::of(&coral());
    CreateRequest { nodes: vec![nodes], ranks_per_node: 1, files_per_rank: 1, directories: 1, state }
}

fn p50(profile: &Profile, request: &CreateRequest) -> f64 {
    let parameters = CreateParameters::of(profile).unwrap();
    super::seconds::point(&parameters, request.creates(request.nodes[0]), &request.state).seconds.p50
}

/// The three times that the profile was fitted to, by the arithmetic that its head gives.
#[test]
fn the_fitted_profile_gives_the_times_that_it_was_fitted_to() {
    let profile = coral();
    let rates = CreateParameters::of(&profile).unwrap().at(0.5, SplitLawChoice::HandOver);
    let creates = request(4096).creates(4096);
    let shared = DirectoryState { inode_token: InodeToken::Shared, ..DirectoryState::of(&profile) };
    for (state, published) in [
        (DirectoryState { directory: DirectoryAge::Grown, ..shared }, 143.0),
        (DirectoryState { blocks: 64, ..shared }, 15.0),
        (DirectoryState { blocks: 64, connections: Connections::AllToAll, ..shared }, 7.0),
    ] {
        let seconds = CreateSeconds::of(&creates, &state, &rates).total();
        assert!((seconds / published - 1.0).abs() < 0.001, "{seconds} for {published}");
    }
}

#[test]
fn a_node_alone_does_not_wait() {
    let point = &forecast(&coral(), &request(1)).unwrap().points[0];
    assert!(point.seconds.p90 < 0.001, "{point:?}");
    assert_eq!(point.bottleneck, Bottleneck::Term(TimeTerm::Creates));
}

#[test]
fn many_tasks_with_a_few_files_each_are_counted_as_files() {
    let many = CreateRequest { ranks_per_node: 24, files_per_rank: 3, ..request(417) };
    let creates = many.creates(417);
    assert_eq!((creates.ranks(), creates.files(), creates.files_per_node()), (10_008, 30_024, 72));
}

#[test]
fn a_file_system_without_tokens_has_creates_alone() {
    let prediction = forecast(&shipped("lustre").unwrap(), &request(4096)).unwrap();
    let point = &prediction.points[0];
    assert_eq!(point.bottleneck, Bottleneck::Term(TimeTerm::Creates));
    assert!((point.seconds.p50 / (4096.0 / 40_000.0) - 1.0).abs() < 0.05, "{point:?}");
    assert!(
        prediction.summary.advice.iter().all(|advice| advice.command.is_none()),
        "{:?}",
        prediction.summary.advice
    );
}

#[test]
fn a_profile_without_creates_and_numbers_beyond_reason_are_refused() {
    let empty = Profile::new("empty", crate::ProfileKind::Measured);
    let error = forecast(&empty, &request(1)).unwrap_err();
    assert_eq!(error, CreateError::NotMeasured { profile: "empty".to_owned() });
    for nodes in [0, 10_000_001, u64::MAX] {
        assert!(
            matches!(forecast(&coral(), &request(nodes)), Err(CreateError::OutOfRange { .. })),
            "{nodes}"
        );
    }
    let files = CreateRequest { files_per_rank: u64::MAX, ranks_per_node: 65_536, ..request(1) };
    assert!(matches!(forecast(&coral(), &files), Err(CreateError::OutOfRange { .. })));
}

#[test]
fn advice_for_4096_nodes_is_what_was_found_by_measuring() {
    let prediction = forecast(&coral(), &request(4096)).unwrap();
    let advice: Vec<_> =
        prediction.summary.advice.iter().map(|advice| (advice.setting, advice.value.as_str())).collect();
    assert!(advice.contains(&("DirPreSplitLevels", "6")), "{advice:?}");
    assert!(advice.contains(&("allToAllConnection", "remote")));
    assert!(advice.contains(&("avoidDirFragments", "yes")));
    assert!(advice.contains(&("maxFilesToCache", "as it is")));
}

#[test]
fn every_what_if_is_an_improvement() {
    for profile in ["coral", "gpfs", "lustre", "nfs"].map(|name| shipped(name).unwrap()) {
        let request = CreateRequest { ranks_per_node: 24, files_per_rank: 3, ..request(1000) };
        let request = CreateRequest { state: DirectoryState::of(&profile), ..request };
        let what_ifs = forecast(&profile, &request).unwrap().summary.what_ifs;
        let as_asked = what_ifs[0].seconds.p50;
        for what_if in &what_ifs[1..] {
            let directories = what_if.creates.directories;
            // A directory for each node is shown although making so many may take longer.
            assert!(directories == 1000 || what_if.seconds.p50 <= as_asked * 1.001, "{what_if:?}");
        }
    }
}

#[test]
fn what_is_set_already_is_not_advised() {
    for level in [6, 8] {
        let state = DirectoryState { blocks: split::blocks(level), ..DirectoryState::of(&coral()) };
        let advice = forecast(&coral(), &CreateRequest { state, ..request(4096) }).unwrap().summary.advice;
        assert!(advice.iter().all(|advice| advice.setting != "DirPreSplitLevels"), "{level}: {advice:?}");
    }
}

/// A profile of which only the hand-over of a token and the rate of creates are known.
fn sparse() -> Profile {
    let mut profile = Profile::new("sparse", crate::ProfileKind::Measured);
    profile.shared_directory.inode_token_us = Some(Figure::exact(30_000.0));
    profile.shared_directory.creates_per_second = Some(Figure::exact(20_000.0));
    profile
}

#[test]
fn what_a_profile_does_not_say_of_tokens_is_a_prior_that_is_named_and_never_0() {
    let found = forecast(&sparse(), &request(4096)).unwrap();
    let gpfs = shipped("gpfs").unwrap().shared_directory;
    let of =
        |term: TimeTerm| found.points[0].detail.terms.iter().find(|(known, _)| *known == term).unwrap().1;
    for (term, figure) in [(TimeTerm::Connections, gpfs.connection_us), (TimeTerm::Revokes, gpfs.revoke_us)] {
        assert!(
            (of(term) / (4096.0 * figure.unwrap().p50 * 1e-6) - 1.0).abs() < 0.02,
            "{term:?} {}",
            of(term)
        );
    }
    let said = "the profile does not say round_trip_us, connection_us, revoke_us: the prior `gpfs` does";
    assert!(found.summary.notes.iter().any(|note| note == said), "{:?}", found.summary.notes);
    let input = found.summary.inputs.iter().find(|input| input.key == "shared_directory.revoke_us").unwrap();
    assert!(input.figure.source.as_ref().unwrap().starts_with("the prior `gpfs`: "));
    // A figure that is measured as 0 stays 0, and is not worth a setting.
    let mut free = sparse();
    free.shared_directory.connection_us = Some(Figure::exact(0.0));
    let found = forecast(&free, &request(4096)).unwrap();
    assert!(
        found.summary.advice.iter().all(|advice| advice.setting != "allToAllConnection"),
        "{:?}",
        found.summary.advice
    );
}

#[test]
fn a_rate_that_stands_in_for_another_is_named() {
    let mut measured = Profile::new("measured", crate::ProfileKind::Measured);
    measured.rates.create = Some(Figure::exact(50_000.0));
    let notes = |profile: &Profile| forecast(profile, &request(64)).unwrap().summary.notes.join("\n");
    let said = notes(&measured);
    assert!(said.contains("no rate of creates in a directory that clients share"), "{said}");
    assert!(said.contains("was not measured: where they pass tokens"), "{said}");
    measured.shared_directory.creates_per_second = Some(Figure::exact(5000.0));
    assert!(!notes(&measured).contains("no rate of creates"), "{}", notes(&measured));
    assert!(notes(&sparse()).contains("no rate of creates in directories of one's own"));
}

#[test]
fn the_size_of_a_directory_block_is_that_of_the_profile() {
    let mut small = coral();
    small.shared_directory.block_bytes = Some(Figure::exact(65_536.0));
    for (profile, size) in [(coral(), "64 blocks (16 MiB)"), (small, "64 blocks (4 MiB)")] {
        let advice = forecast(&profile, &request(4096)).unwrap().summary.advice;
        assert!(advice.iter().any(|advice| advice.reason.contains(size)), "{size}: {advice:?}");
    }
}

/// The request as it is when a piece of advice has been followed.
fn followed(advice: &SettingAdvice, request: &CreateRequest) -> CreateRequest {
    let number = || advice.value.replace(' ', "").parse::<u64>().unwrap();
    let state = request.state;
    match advice.setting {
        "DirPreSplitLevels" => CreateRequest {
            state: DirectoryState { blocks: split::blocks(number() as u32), ..state },
            ..request.clone()
        },
        "allToAllConnection" => {
            let connections = Connections::AllToAll;
            CreateRequest { state: DirectoryState { connections, ..state }, ..request.clone() }
        }
        "directories" => CreateRequest { directories: number(), ..request.clone() },
        "files" => CreateRequest { ranks_per_node: 1, files_per_rank: 1, ..request.clone() },
        "avoidDirFragments" | "maxFilesToCache" | "maxNodeDeallocHistory" => request.clone(),
        setting => panic!("{setting} is advised, and this test does not know what it does"),
    }
}

#[test]
fn an_elasticity_is_the_share_of_its_term() {
    let profile = coral();
    let creates = request(4096).creates(4096);
    let all = sensitivities(&profile, &creates, &DirectoryState::of(&profile)).unwrap();
    let of = |key: &str| all.iter().find(|known| known.figure == key).map(|known| known.elasticity).unwrap();
    // 2 x 142.8 s of 298.5 s.
    assert!((of("shared_directory.inode_token_us") - 0.957).abs() < 0.01, "{all:?}");
    assert!((of("shared_directory.connection_us") - 0.027).abs() < 0.01, "{all:?}");
    assert!(of("shared_directory.creates_per_second") < 0.0, "{all:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn more_nodes_ranks_or_files_never_take_less_time(
        nodes in 1u64..200_000, ranks in 1u64..256, files in 1u64..100, level in 0u32..8,
        profile in proptest::sample::select(vec!["coral", "gpfs", "lustre", "wide"]),
    ) {
        let profile = shipped(profile).unwrap();
        let state = DirectoryState { blocks: split::blocks(level), ..DirectoryState::of(&profile) };
        let base = CreateRequest { nodes: vec![nodes], ranks_per_node: ranks, files_per_rank: files, directories: 1, state };
        let seconds = p50(&profile, &base);
        for more in [
            CreateRequest { nodes: vec![nodes + nodes / 7 + 1], ..base.clone() },
            CreateRequest { ranks_per_node: ranks * 2, ..base.clone() },
            CreateRequest { files_per_rank: files * 2, ..base.clone() },
        ] {
            let longer = p50(&profile, &more);
            prop_assert!(longer >= seconds * 0.999_999, "{seconds} {longer} {more:?}");
        }
    }

    #[test]
    fn no_advice_makes_creates_slower(
        nodes in 1u64..200_000, ranks in 1u64..256, files in 1u64..100, directories in 1u64..300, level in 0u32..9,
        is_connected in any::<bool>(), profile in proptest::sample::select(vec!["coral", "gpfs", "lustre", "nfs", "wide"]),
    ) {
        let profile = shipped(profile).unwrap();
        let own = DirectoryState::of(&profile);
        let connections = if is_connected { Connections::AllToAll } else { own.connections };
        let state = DirectoryState { blocks: split::blocks(level), connections, ..own };
        let request = CreateRequest { nodes: vec![nodes], ranks_per_node: ranks, files_per_rank: files, directories, state };
        let seconds = p50(&profile, &request);
        for advice in forecast(&profile, &request).unwrap().summary.advice {
            let followed = p50(&profile, &followed(&advice, &request));
            prop_assert!(followed <= seconds * 1.000_001, "{seconds} to {followed}: {advice:?}");
        }
    }

    #[test]
    fn a_prediction_lies_within_its_bounds(
        nodes in 1u64..200_000, ranks in 1u64..256, files in 1u64..100, directories in 1u64..300,
        profile in proptest::sample::select(vec!["coral", "gpfs", "lustre", "wide"]),
    ) {
        let profile = shipped(profile).unwrap();
        let state = DirectoryState::of(&profile);
        let request = CreateRequest { nodes: vec![nodes], ranks_per_node: ranks, files_per_rank: files, directories, state };
        let point = forecast(&profile, &request).unwrap().points.remove(0);
        prop_assert!(point.bounds.lower <= point.seconds.p10 * 1.000_001, "{:?}", point);
        prop_assert!(point.seconds.p10 <= point.seconds.p50 && point.seconds.p50 <= point.seconds.p90);
        prop_assert!(point.seconds.p90 <= point.bounds.upper * 1.000_001, "{:?}", point);
    }
}
