//! A flame graph: the directories of each path are the stack, the call and its error are the innermost frame.
//!
//! One profile counts metadata operations, the other adds up the time in all calls on files. Equal stacks are one sample, so a
//! graph is small however long the recording was. The form is that of speedscope's file-format schema.

use crate::error::ExportError;
use crate::rows::{ExportRow, for_each};
use quell_trace::Trace;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};

#[derive(Serialize)]
struct SpeedscopeFile {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: String,
    shared: SpeedscopeShared,
    profiles: [SpeedscopeProfile; 2],
}

#[derive(Serialize)]
struct SpeedscopeShared {
    frames: Vec<SpeedscopeFrame>,
}

#[derive(Serialize)]
struct SpeedscopeFrame {
    name: String,
    /// The whole path, so that directories of one name are different frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct SpeedscopeProfile {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start_value: u64,
    #[serde(rename = "endValue")]
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// The stacks of a trace, with the operations and the time of each.
#[derive(Default)]
struct Stacks {
    frames: Vec<SpeedscopeFrame>,
    numbers: HashMap<(String, Option<String>), u32>,
    /// Shape: in the order in which they were first seen.
    stacks: Vec<Stack>,
    places: HashMap<Vec<u32>, usize>,
}

struct Stack {
    frames: Vec<u32>,
    operations: u64,
    nanoseconds: u64,
}

pub(crate) fn write(trace: &Trace, file: &File) -> Result<(), ExportError> {
    let mut stacks = Stacks::default();
    for_each(trace, |row| {
        stacks.add(row);
        Ok(())
    })?;
    let named = trace
        .recordings
        .first()
        .map(|recording| quell_base::text::escape(recording.header.command.join(" ")));
    let mut file = BufWriter::new(file);
    let document = SpeedscopeFile {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: named.unwrap_or_default(),
        exporter: concat!("quell ", env!("CARGO_PKG_VERSION")).to_owned(),
        profiles: [
            stacks.profile("metadata operations by directory", "none", |stack| stack.operations),
            stacks.profile("time in calls by directory", "nanoseconds", |stack| stack.nanoseconds),
        ],
        shared: SpeedscopeShared { frames: stacks.frames },
    };
    serde_json::to_writer(&mut file, &document).map_err(|error| ExportError::Write(error.into()))?;
    Ok(file.flush()?)
}

impl Stacks {
    /// Adds a call, unless it is about no file that is known.
    fn add(&mut self, row: &ExportRow<'_>) {
        let Some(target) = row.text(row.event.target) else { return };
        let command = row.command.and_then(|line| line.split(' ').next()).unwrap_or("process");
        let mut frames = vec![self.frame(command.to_owned(), None), self.frame("/".to_owned(), None)];
        let mut end = 0;
        for name in target.split('/').filter(|name| !name.is_empty()) {
            end = target[end..].find(name).map_or(target.len(), |at| end + at + name.len());
            let is_directory = end < target.len();
            let title = if is_directory { format!("{name}/") } else { name.to_owned() };
            frames.push(self.frame(title, Some(target[..end].to_owned())));
        }
        let call = row.event.call.name();
        let innermost = row.error().map_or_else(|| call.to_owned(), |error| format!("{call}: {error}"));
        frames.push(self.frame(innermost, None));
        let place = *self.places.entry(frames.clone()).or_insert_with(|| {
            self.stacks.push(Stack { frames, operations: 0, nanoseconds: 0 });
            self.stacks.len() - 1
        });
        let stack = &mut self.stacks[place];
        stack.operations += u64::from(row.event.call.class().is_metadata());
        stack.nanoseconds = stack.nanoseconds.saturating_add(row.event.duration.0);
    }

    fn frame(&mut self, name: String, file: Option<String>) -> u32 {
        let next = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        *self.numbers.entry((name, file)).or_insert_with_key(|(name, file)| {
            self.frames.push(SpeedscopeFrame { name: name.clone(), file: file.clone() });
            next
        })
    }

    /// The stacks with a weight, as a profile.
    fn profile(
        &self,
        name: &'static str,
        unit: &'static str,
        weight: fn(&Stack) -> u64,
    ) -> SpeedscopeProfile {
        let weighed: Vec<&Stack> = self.stacks.iter().filter(|stack| weight(stack) > 0).collect();
        let weights: Vec<u64> = weighed.iter().map(|stack| weight(stack)).collect();
        SpeedscopeProfile {
            r#type: "sampled",
            name,
            unit,
            start_value: 0,
            end_value: weights.iter().sum(),
            samples: weighed.into_iter().map(|stack| stack.frames.clone()).collect(),
            weights,
        }
    }
}
