//! A profile as TOML: what [`super::read`] reads back equal.

use super::{Figure, Profile, ProfileSlot, SCHEMA_VERSION};
use std::fmt::Write as _;

impl Profile {
    /// The profile as a TOML file. Shape: sections and keys in the order of their declaration, absent ones left out.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "schema_version = {SCHEMA_VERSION}\nname = {}\nkind = \"{}\"\n",
            quoted(&self.name),
            self.kind.name()
        );
        if let Some(note) = &self.note {
            let _ = writeln!(text, "note = {}", quoted(note));
        }
        let mut written = "";
        let mut copy = self.clone();
        for (title, key, slot) in copy.slots() {
            let Some(value) = value(&slot) else { continue };
            if title != written {
                let _ = write!(text, "\n[{title}]\n");
                written = title;
            }
            let _ = writeln!(text, "{key} = {value}");
        }
        text
    }
}

fn value(slot: &ProfileSlot<'_>) -> Option<String> {
    match slot {
        ProfileSlot::Switch(on) => on.map(|on| on.to_string()),
        ProfileSlot::Figure(figure, _) => figure.as_ref().map(figure_text),
    }
}

fn figure_text(figure: &Figure) -> String {
    let Figure { p10, p50, p90, count, source } = figure;
    if figure.is_exact() && count.is_none() && source.is_none() {
        return number(*p50);
    }
    let mut text = format!("{{ p10 = {}, p50 = {}, p90 = {}", number(*p10), number(*p50), number(*p90));
    if let Some(count) = count {
        let _ = write!(text, ", count = {count}");
    }
    if let Some(source) = source {
        let _ = write!(text, ", source = {}", quoted(source));
    }
    text + " }"
}

/// The shortest text that reads back as the same number. Infinity and NaN, which no figure may be, have TOML's names.
fn number(value: f64) -> String {
    match value.abs() >= 1e15 {
        true if value.is_finite() => format!("{value:e}"),
        _ => value.to_string().to_lowercase(),
    }
}

/// A basic string. Source: TOML 1.0, strings.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if quell_base::is_hidden(control) => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
