//! The assumptions of a prediction that matter most, reasons to doubt it, and the measurement that would narrow its range, in words.

use super::{PredictInputs, PredictPoint, PredictProfile};
use crate::number::{counted, seconds};
use crate::text::clean;

/// The places of the tree, the image and the most-read file, and the way in which nodes start: inputs that users seldom know.
pub(crate) fn assumptions(inputs: &PredictInputs, profile: &PredictProfile) -> String {
    let median = |key: &str| profile.figures.iter().find(|figure| figure.key == key).map(|figure| figure.p50);
    let servers = median("metadata.servers").unwrap_or(1.0);
    let mut said = vec![match profile.switches.get("metadata.together") {
        Some(true) => "the tree on all metadata servers".to_owned(),
        _ => format!("the tree on {}", counted(servers as u64, "metadata server")),
    }];
    if let Some(file) = &profile.most_read_file {
        let on = match file.servers < file.data_servers || file.data_servers <= 1.0 {
            true => counted(file.servers as u64, "data server"),
            false => "all data servers".to_owned(),
        };
        if file.is_image {
            said.push(format!("the image on {on}"));
        } else if file.servers_at_once < file.data_servers
            && profile.sensitivities.iter().any(|found| found.figure == "stripes")
        {
            said.push(format!("the most-read file, {:.0} % of the data, on {on}", 100.0 * file.share));
        }
    }
    if inputs.skew_seconds <= 0.0 {
        said.push("all nodes start at once".to_owned());
    }
    if inputs.launch_seconds <= 0.0 {
        said.push("no launcher's time".to_owned());
    }
    said.join(", ")
}

/// Reasons to doubt the prediction with a profile: keys that it leaves to the wide prior, and rates of which only the least is known.
pub(crate) fn doubts(profile: &PredictProfile) -> Vec<String> {
    let assumed = (!profile.assumed.is_empty())
        .then(|| format!("the profile does not say {}; the wide prior does", profile.assumed.join(", ")));
    let open = profile.open_rates.first().map(|first| {
        let others = match profile.open_rates.len() - 1 {
            0 => String::new(),
            others => format!(" and {}", counted(others as u64, "other rate")),
        };
        let figure = profile.figures.iter().find(|figure| figure.key == *first);
        let source = figure.and_then(|figure| figure.source.as_ref());
        let source = source.map_or(String::new(), |source| format!(" ({})", clean(source)));
        format!(
            "`{first}`{others}: only the least that the server does is known{source}; starts may be as fast as p10, and no number of \
             nodes is known that fully uses it"
        )
    });
    assumed.into_iter().chain(open).collect()
}

/// Sentences about profiles, each once, after the names of the profiles that it is about where these are not all.
pub(crate) fn of_each(
    profiles: &[PredictProfile],
    said: impl Fn(&PredictProfile) -> Vec<String>,
) -> Vec<String> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for profile in profiles {
        for sentence in said(profile) {
            let at = all.iter().position(|(known, _)| *known == sentence).unwrap_or_else(|| {
                all.push((sentence, Vec::new()));
                all.len() - 1
            });
            all[at].1.push(clean(&profile.name).to_string());
        }
    }
    let named = |(sentence, names): (String, Vec<String>)| match names.len() == profiles.len() {
        true => sentence,
        false => format!("{}: {sentence}", names.join(", ")),
    };
    all.into_iter().map(named).collect()
}

/// The measurement that would narrow the range most, at the largest number of nodes. None where the range is narrow.
pub(crate) fn narrowing_measurement(profile: &PredictProfile) -> Option<String> {
    let is_wide = |last: &&PredictPoint| last.seconds.p90 > WIDE * last.seconds.p10;
    profile.points.last().filter(is_wide)?;
    let of_a_figure = |key: &str| !["computing", "model"].contains(&key);
    let widest = profile.sensitivities.iter().find(|found| of_a_figure(&found.figure))?;
    let how = match widest.figure.as_str() {
        "stripes" => "the file system tells it, and `--stripes N` takes it",
        "data.servers" => "the file system tells it, and a profile names it",
        "time_shared" => "a profile names it: the program's time beside itself on one core, over that alone",
        key if NO_CLIENT_SEES.contains(&key) || key.starts_with("gateway") => {
            "its administrators know it, and a profile names it (`--print-fs NAME > FILE` makes one to edit)"
        }
        _ => "`quell calibrate DIR -o FILE --second-client WORDS` measures it",
    };
    let (one, other) = (widest.seconds_at_p10, widest.seconds_at_p90);
    let (least, most) = (seconds(one.min(other)), seconds(one.max(other)));
    Some(format!("the uncertainty of `{}` alone spans {least} to {most}: {how}", widest.figure))
}

/// Figures that `quell calibrate` cannot measure, beside those of gateways.
const NO_CLIENT_SEES: [&str; 3] = ["cached_entries", "network.bytes_per_second", "node_keeps_seconds"];

/// Above this factor from p10 to p90 a range says little.
const WIDE: f64 = 4.0;
