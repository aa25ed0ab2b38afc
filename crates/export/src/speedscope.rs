//! A flame graph: the directories of each path are the stack, the call and its error are the innermost frame.
//!
//! One profile counts metadata operations, the other adds up the time in all calls on files. Where Python's imports were recorded,
//! two more have the imports as the stack, each with the statement that asked. Equal stacks are one sample, so a graph is small
//! however long the recording was. The form is that of speedscope's file-format schema.

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
    profiles: Vec<SpeedscopeProfile>,
}

#[derive(Serialize)]
struct SpeedscopeShared {
    frames: Vec<SpeedscopeFrame>,
}

#[derive(Serialize)]
struct SpeedscopeFrame {
    name: String,
    /// The whole path, so that directories of one name are different frames; of an import, the file of its statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The line of an import's statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// A frame as it is told from others: name, file, line.
type FrameKey = (String, Option<String>, Option<u32>);

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

/// The frames of all profiles.
#[derive(Default)]
struct Frames {
    frames: Vec<SpeedscopeFrame>,
    numbers: HashMap<FrameKey, u32>,
}

/// The stacks of a trace, with the operations and the time of each.
#[derive(Default)]
struct Stacks {
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
    let (mut frames, mut directories, mut imports) =
        (Frames::default(), Stacks::default(), Stacks::default());
    for_each(trace, |row| {
        if let Some(stack) = directory_stack(row, &mut frames) {
            directories.add(stack, row);
        }
        if !row.importing.is_empty() {
            imports.add(import_stack(row, &mut frames), row);
        }
        Ok(())
    })?;
    let by = |stacks: &Stacks, names: [&'static str; 2]| {
        [
            stacks.profile(names[0], "none", |stack| stack.operations),
            stacks.profile(names[1], "nanoseconds", |stack| stack.nanoseconds),
        ]
    };
    let mut profiles =
        Vec::from(by(&directories, ["metadata operations by directory", "time in calls by directory"]));
    if !imports.stacks.is_empty() {
        profiles.extend(by(&imports, ["metadata operations by import", "time in calls by import"]));
    }
    let named = trace
        .recordings
        .first()
        .map(|recording| quell_base::text::escape(recording.header.command.join(" ")));
    let mut file = BufWriter::new(file);
    let document = SpeedscopeFile {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: named.unwrap_or_default(),
        exporter: concat!("quell ", env!("CARGO_PKG_VERSION")).to_owned(),
        profiles,
        shared: SpeedscopeShared { frames: frames.frames },
    };
    serde_json::to_writer(&mut file, &document).map_err(|error| ExportError::Write(error.into()))?;
    Ok(file.flush()?)
}

/// The program and the directories of a call's file; `None` where no file is known.
fn directory_stack(row: &ExportRow<'_>, frames: &mut Frames) -> Option<Vec<u32>> {
    let target = row.text(row.event.target)?;
    let mut stack = vec![frames.program(row), frames.number("/".to_owned(), None, None)];
    let mut end = 0;
    for name in target.split('/').filter(|name| !name.is_empty()) {
        end = target[end..].find(name).map_or(target.len(), |at| end + at + name.len());
        let is_directory = end < target.len();
        let title = if is_directory { format!("{name}/") } else { name.to_owned() };
        stack.push(frames.number(title, Some(target[..end].to_owned()), None));
    }
    stack.push(frames.call(row));
    Some(stack)
}

/// The program and the imports around a call.
fn import_stack(row: &ExportRow<'_>, frames: &mut Frames) -> Vec<u32> {
    let mut stack = vec![frames.program(row)];
    for import in row.imports() {
        let line = (import.line > 0).then_some(import.line);
        stack.push(frames.number(import.module.clone(), import.file.clone(), line));
    }
    stack.push(frames.call(row));
    stack
}

impl Frames {
    fn program(&mut self, row: &ExportRow<'_>) -> u32 {
        let command = row.command.and_then(|line| line.split(' ').next()).unwrap_or("process");
        self.number(command.to_owned(), None, None)
    }

    fn call(&mut self, row: &ExportRow<'_>) -> u32 {
        let call = row.event.call.name();
        let name = row.error().map_or_else(|| call.to_owned(), |error| format!("{call}: {error}"));
        self.number(name, None, None)
    }

    fn number(&mut self, name: String, file: Option<String>, line: Option<u32>) -> u32 {
        let next = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        *self.numbers.entry((name, file, line)).or_insert_with_key(|(name, file, line)| {
            self.frames.push(SpeedscopeFrame { name: name.clone(), file: file.clone(), line: *line });
            next
        })
    }
}

impl Stacks {
    fn add(&mut self, frames: Vec<u32>, row: &ExportRow<'_>) {
        let place = *self.places.entry(frames.clone()).or_insert_with(|| {
            self.stacks.push(Stack { frames, operations: 0, nanoseconds: 0 });
            self.stacks.len() - 1
        });
        let stack = &mut self.stacks[place];
        stack.operations += u64::from(row.event.call.class().is_metadata());
        stack.nanoseconds = stack.nanoseconds.saturating_add(row.event.duration.0);
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
