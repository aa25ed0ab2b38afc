//! `quell predict`: the curve as a table and a plot, what it rests on, and its regime in words.

use super::Page;
use super::findings::plain;
use crate::Style;
use crate::number::{self, GLUE, bytes, counted, grouped, rough, rounded, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{
    PredictInputs, PredictPeers, PredictPoint, PredictProfile, PredictView, assumptions, doubts,
    narrowing_measurement, not_told_apart, of_each,
};
use quell_trace::Bytes;

/// The time that a program takes to start.
pub fn predict(object: &PredictView, style: Style) -> String {
    let mut page = Page::new(style);
    page.command("command", "", &object.command, "");
    let inputs = &object.inputs;
    page.entry("rank", &rank(inputs), TextRole::Plain);
    page.entry("nodes", &nodes(inputs), TextRole::Plain);
    if inputs.launch_seconds > 0.0 {
        let text = format!("{}, no file system's time, in every time below", seconds(inputs.launch_seconds));
        page.entry("launch", &text, TextRole::Plain);
    }
    if !inputs.what_if.is_empty() {
        page.entry("what if", &inputs.what_if.join("; "), TextRole::Plain);
    }
    object.notes.iter().for_each(|note| page.entry("note", &plain(note), TextRole::Plain));
    match object.profiles.as_slice() {
        [only] => one(&mut page, only, inputs),
        several => compared(&mut page, several, inputs),
    }
    peers(&mut page, &object.peers);
    page.finished()
}

/// The image read by each node, and passed on by peers.
fn peers(page: &mut Page, beside: &[PredictPeers]) {
    if beside.is_empty() {
        return;
    }
    let size = |size: f64| bytes(Bytes(size as u64));
    let mut table = TextTable::default()
        .number("nodes")
        .number("each reads")
        .number("with --peers")
        .number("from servers, each reads")
        .number("with --peers");
    for at in beside {
        let with = seconds(at.peers_seconds.p50);
        let read = seconds(at.read_seconds.p50);
        table.row(vec![grouped(at.nodes), read, with, size(at.read_bytes), size(at.peers_bytes)]);
    }
    page.section("From the image: each node reads it, or peers pass it on; medians", &table);
    if let Some(first) = beside.iter().find(|at| !at.all_find_peers) {
        let nodes = grouped(first.nodes);
        page.paragraph(&format!(
            "with {nodes} nodes that start at once under another launcher than Slurm, the first one cannot give all of them a place before \
             they read the image by themselves"
        ));
    }
}

fn rank(inputs: &PredictInputs) -> String {
    let calls = grouped(inputs.calls.round() as u64);
    let think = seconds(inputs.think_seconds);
    let image =
        inputs.image_bytes.map_or(String::new(), |size| format!("; image of {}", bytes(Bytes(size as u64))));
    format!("{calls} metadata calls on the tree, {think} of computing and local work{image}")
}

fn nodes(inputs: &PredictInputs) -> String {
    let mut said = vec![format!(
        "{} each",
        counted(inputs.processes_per_node.into(), "process").replace("processs", "processes")
    )];
    said.push(format!("{} clients", inputs.clients));
    if let Some(cores) = inputs.cores {
        let on = if inputs.shared_host { "all nodes and servers on" } else { "on" };
        said.push(format!("{on} {}", number::cores(cores)));
    }
    if inputs.skew_seconds > 0.0 {
        said.push(format!("starting within {}", seconds(inputs.skew_seconds)));
    }
    if inputs.background > 0.0 {
        said.push(format!("{:.0}{GLUE}% of the metadata servers taken by others", inputs.background * 100.0));
    }
    said.join(", ")
}

fn one(page: &mut Page, profile: &PredictProfile, inputs: &PredictInputs) {
    page.entry("fs", &about(profile), TextRole::Plain);
    page.entry("assumed", &assumptions(inputs, profile), TextRole::Plain);
    if let Some(last) = profile.points.last() {
        page.entry("time", &time(last, inputs.launch_seconds), TextRole::Plain);
    }
    narrowing_measurement(profile).iter().for_each(|text| page.entry("narrower", text, TextRole::Plain));
    page.entry("knee", &knee(profile), TextRole::Plain);
    profile.points.last().iter().for_each(|last| page.entry("rate", &pace(last), TextRole::Plain));
    regime(profile).iter().for_each(|text| page.entry("regime", text, TextRole::Doubt));
    doubts(profile).iter().for_each(|text| page.entry("doubt", &plain(text), TextRole::Doubt));
    page.section("Start-up, slowest rank; at least, at most: medians of bounds", &points(&profile.points));
    plot(page, std::slice::from_ref(profile));
    let title = format!(
        "What the time depends on, at the largest number of nodes; at medians {}",
        seconds(profile.seconds_at_medians)
    );
    page.section(&title, &tornado(profile));
}

fn about(profile: &PredictProfile) -> String {
    let note = profile.note.as_ref().map_or(String::new(), |note| format!(": {}", clean(note)));
    format!("{} ({}){note}", clean(&profile.name), profile.kind)
}

/// In the unit in which the counters of clients are shown.
fn pace(point: &PredictPoint) -> String {
    format!(
        "{}: {} metadata operations at the server, {} a second",
        counted(point.nodes, "node"),
        brief(point.metadata_operations.round() as u64),
        brief(point.metadata_operations_per_second.round() as u64)
    )
}

fn time(point: &PredictPoint, launch: f64) -> String {
    let range = point.seconds;
    let at = counted(point.nodes, "node");
    if point.may_fail {
        return format!("{at}: about {}, if the servers survive it", rough(range.p50));
    }
    let without = match launch > 0.0 {
        true => format!(" ({} without the launch)", seconds((range.p50 - launch).max(0.0))),
        false => String::new(),
    };
    let spread = match range.p10 < range.p90 {
        true => format!(", and with four in five chances {} to {}", seconds(range.p10), seconds(range.p90)),
        false => String::new(),
    };
    format!(
        "{at}: {}{without}{spread}; the mean rank {}; decided by {}",
        seconds(range.p50),
        seconds(point.mean_seconds.p50),
        point.bottleneck
    )
}

fn knee(profile: &PredictProfile) -> String {
    match profile.knee_nodes {
        Some(knee) if profile.knee_is_lower_limit && knee < 1.0 => {
            "unknown: no measurement fully used the server".to_owned()
        }
        Some(knee) if profile.knee_is_lower_limit => {
            let nodes = counted(knee as u64, "node");
            format!("at least {nodes}: no measurement fully used the server")
        }
        Some(knee) if knee >= 1.0 => {
            let nodes = counted(knee.round() as u64, "node");
            format!("{nodes}: with more, the busiest stretch grows in proportion to their number")
        }
        Some(_) => "below one node: one alone fully uses a shared server, or the shared cores".to_owned(),
        None => "none: nothing is shared".to_owned(),
    }
}

/// From where on the servers are so far over what they can do that a time is no longer a statement.
fn regime(profile: &PredictProfile) -> Option<String> {
    let last = profile.points.last().filter(|point| point.may_fail)?;
    let from = profile.points.iter().find(|point| point.may_fail).map_or(last.nodes, |point| point.nodes);
    Some(format!(
        "{} times over capacity at {}: expect failures from {} on, not a time",
        grouped(last.load.round() as u64),
        counted(last.nodes, "node"),
        grouped(from)
    ))
}

/// The curve. Ranks are a column of their own only where they are not the nodes: 80 columns hold no more.
fn points(points: &[PredictPoint]) -> TextTable {
    let has_ranks = points.iter().any(|point| point.ranks != point.nodes);
    let mut table = TextTable::default().number("nodes");
    if has_ranks {
        table = table.number("ranks");
    }
    let mut table = table
        .number("p10")
        .number("p50")
        .number("p90")
        .number("at least")
        .number("at most")
        .number("requests")
        .phrase("decided by");
    for point in points {
        let time = |value: f64| if point.may_fail { rough(value) } else { seconds(value) };
        let load = match point.may_fail {
            true => format!("x{}{GLUE}over{GLUE}capacity", grouped(point.load.round() as u64)),
            false => short(&point.bottleneck),
        };
        let mut cells = vec![grouped(point.nodes)];
        if has_ranks {
            cells.push(brief(point.ranks));
        }
        cells.extend([
            time(point.seconds.p10),
            time(point.seconds.p50),
            time(point.seconds.p90),
            time(point.bounds.lower),
            time(point.bounds.upper),
            brief(point.metadata_operations.round() as u64),
            load,
        ]);
        table.painted_row(cells, if point.may_fail { TextRole::More } else { TextRole::Plain });
    }
    table
}

/// The bottleneck, for a narrow column.
fn short(bottleneck: &str) -> String {
    bottleneck.replace("metadata server", "MDS")
}

/// A count in three digits: `4.81 M`.
fn brief(number: u64) -> String {
    let words = [("million", "M"), ("billion", "G"), ("trillion", "T")];
    words.iter().fold(rounded(number), |text, (word, letter)| text.replace(word, letter))
}

fn tornado(profile: &PredictProfile) -> TextTable {
    let mut table =
        TextTable::default().text("figure").number("at its p10").number("at its p90").number("elasticity");
    for found in profile.sensitivities.iter().take(8) {
        table.row(vec![
            found.figure.clone(),
            seconds(found.seconds_at_p10),
            seconds(found.seconds_at_p90),
            format!("{:+.2}", found.elasticity),
        ]);
    }
    table
}

fn compared(page: &mut Page, profiles: &[PredictProfile], inputs: &PredictInputs) {
    let mut ranked: Vec<&PredictProfile> = profiles.iter().collect();
    ranked.sort_by_key(|profile| profile.rank);
    for profile in &ranked {
        page.entry("fs", &about(profile), TextRole::Plain);
    }
    for text in of_each(profiles, |profile| vec![assumptions(inputs, profile)]) {
        page.entry("assumed", &text, TextRole::Plain);
    }
    if let Some((profile, text)) =
        profiles.iter().find_map(|profile| Some((profile, narrowing_measurement(profile)?)))
    {
        page.entry("narrower", &format!("{}: {text}", clean(&profile.name)), TextRole::Plain);
    }
    for profile in &ranked {
        let name = clean(&profile.name);
        regime(profile)
            .iter()
            .for_each(|text| page.entry("regime", &format!("{name}: {text}"), TextRole::Doubt));
    }
    for text in of_each(profiles, doubts) {
        page.entry("doubt", &plain(&text), TextRole::Doubt);
    }
    let mut title = "Start-up, slowest rank, medians; fastest first";
    let mut rest = ranked.as_slice();
    while !rest.is_empty() {
        let fits = |count: &usize| medians(&rest[..*count]).natural_width() <= page.style.width;
        let (block, further) = rest.split_at((2..=rest.len()).rev().find(fits).unwrap_or(1));
        page.section(title, &medians(block));
        title = "And";
        rest = further;
    }
    let mut table = TextTable::default()
        .number("place")
        .text("")
        .number("p10")
        .number("p50")
        .number("p90")
        .number("knee")
        .phrase("decided by");
    for profile in &ranked {
        let Some(last) = profile.points.last() else { continue };
        let time = |value: f64| if last.may_fail { rough(value) } else { seconds(value) };
        let knee = match profile.knee_nodes {
            Some(knee) if profile.knee_is_lower_limit => format!(">={GLUE}{}", grouped(knee as u64)),
            Some(knee) if knee < 1.0 => "<1".to_owned(),
            Some(knee) => grouped(knee.round() as u64),
            None => "none".to_owned(),
        };
        table.row(vec![
            profile.rank.to_string(),
            clean(&profile.name),
            time(last.seconds.p10),
            time(last.seconds.p50),
            time(last.seconds.p90),
            knee,
            last.bottleneck.clone(),
        ]);
    }
    page.section("At the largest number of nodes", &table);
    not_told_apart(profiles).iter().for_each(|line| page.paragraph(&plain(line)));
    let owned: Vec<PredictProfile> = ranked.into_iter().cloned().collect();
    plot(page, &owned);
}

/// The medians of some file systems over nodes.
fn medians(profiles: &[&PredictProfile]) -> TextTable {
    let mut table = TextTable::default().number("nodes");
    for profile in profiles {
        table = table.number(&clean(&profile.name));
    }
    let cell = |point: &PredictPoint| match point.may_fail {
        true => {
            format!("{} (x{}{GLUE}over)", rough(point.seconds.p50), grouped(point.load.round() as u64))
        }
        false => seconds(point.seconds.p50),
    };
    for (index, point) in profiles.first().map_or(&[][..], |first| &first.points).iter().enumerate() {
        let at = profiles.iter().filter_map(|profile| profile.points.get(index));
        table.row(std::iter::once(grouped(point.nodes)).chain(at.map(cell)).collect());
    }
    table
}

/// The curves, both axes logarithmic. Nothing with fewer than three points: a table says that better.
fn plot(page: &mut Page, profiles: &[PredictProfile]) {
    if profiles.first().is_none_or(|profile| profile.points.len() < 3) {
        return;
    }
    let mut plot = super::plot::Plot::new(page.style);
    for (number, profile) in profiles.iter().enumerate() {
        let (mark, band) = (MARKS[number % MARKS.len()], profiles.len() == 1);
        for point in &profile.points {
            let (x, range) = (point.nodes as f64, point.seconds);
            if band {
                plot.bar(x, range.p10, range.p90);
            }
            plot.mark(x, range.p50, mark);
        }
        let line: Vec<(f64, f64)> =
            profile.points.iter().map(|point| (point.nodes as f64, point.seconds.p50)).collect();
        plot.line(&line);
    }
    let names = profiles
        .iter()
        .enumerate()
        .map(|(number, profile)| format!("{} {}", MARKS[number % MARKS.len()], clean(&profile.name)));
    let title = match profiles {
        [_] => "Seconds by nodes: median *, four in five chances |".to_owned(),
        _ => format!("Seconds by nodes: {}", names.collect::<Vec<_>>().join(", ")),
    };
    page.drawing(&title, &plot.rendered());
}

const MARKS: [char; 8] = ['*', 'o', 'x', '+', '#', '@', '%', '='];
