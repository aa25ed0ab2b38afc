//! The assumptions of a prediction that matter most, and the measurement that would narrow its range, in words.

use super::{PredictInputs, PredictPoint, PredictProfile};
use crate::number::{counted, seconds};
use crate::text::clean;

/// The places of the tree and the image, and the way in which nodes start: inputs that users seldom know.
pub(crate) fn assumptions(inputs: &PredictInputs, profile: &PredictProfile) -> String {
    let median = |key: &str| profile.figures.iter().find(|figure| figure.key == key).map(|figure| figure.p50);
    let servers = median("metadata.servers").unwrap_or(1.0);
    let mut said = vec![match profile.switches.get("metadata.together") {
        Some(true) => "the tree on all metadata servers".to_owned(),
        _ => format!("the tree on {}", counted(servers as u64, "metadata server")),
    }];
    if inputs.image_bytes.is_some() {
        let stripes = inputs.stripes.map(f64::from).or_else(|| median("data.stripes"));
        let on =
            stripes.map_or("all data servers".to_owned(), |number| counted(number as u64, "data server"));
        said.push(format!("the image on {on}"));
    }
    if inputs.skew_seconds <= 0.0 {
        said.push("all nodes start at once".to_owned());
    }
    if inputs.launch_seconds <= 0.0 {
        said.push("no launcher's time".to_owned());
    }
    said.join(", ")
}

/// The assumptions of each profile after its name, or once where all profiles have the same.
pub(crate) fn assumptions_of_each(profiles: &[PredictProfile], inputs: &PredictInputs) -> Vec<String> {
    let said: Vec<String> = profiles.iter().map(|profile| assumptions(inputs, profile)).collect();
    match said.iter().all(|one| Some(one) == said.first()) {
        true => said.into_iter().take(1).collect(),
        false => profiles
            .iter()
            .zip(said)
            .map(|(profile, said)| format!("{}: {said}", clean(&profile.name)))
            .collect(),
    }
}

/// The measurement that would narrow the range most, at the largest number of nodes. None where the range is narrow.
pub(crate) fn narrowing_measurement(profile: &PredictProfile) -> Option<String> {
    let is_wide = |last: &&PredictPoint| last.seconds.p90 > WIDE * last.seconds.p10;
    profile.points.last().filter(is_wide)?;
    let of_a_figure = |key: &str| !["computing", "model"].contains(&key);
    let widest = profile.sensitivities.iter().find(|found| of_a_figure(&found.figure))?;
    let how = match widest.figure.as_str() {
        "stripes" | "data.servers" => "the file system tells it, and `--stripes N` takes it",
        "time_shared" => "a profile names it: the program's time beside itself on one core, over that alone",
        key if NO_CLIENT_SEES.contains(&key) || key.starts_with("gateway") => {
            "its administrators know it, and a profile names it (`--print-fs NAME > FILE` makes one to edit)"
        }
        _ => "`quell calibrate DIR -o FILE --second-client WORDS` measures it",
    };
    let (one, other) = (seconds(widest.seconds_at_p10), seconds(widest.seconds_at_p90));
    Some(format!("`{}` alone makes it {one} to {other}: {how}", widest.figure))
}

/// Figures that `quell calibrate` cannot measure, beside those of gateways.
const NO_CLIENT_SEES: [&str; 3] = ["cached_entries", "network.bytes_per_second", "node_keeps_seconds"];

/// Above this factor from p10 to p90 a range says little.
const WIDE: f64 = 4.0;
