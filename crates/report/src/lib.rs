//! Everything a person or a program reads: terminal text, a page for a browser, JSON.
//!
//! It computes nothing: numbers come from `quell-analyse`, and only percentages, ratios and units are made here, for
//! the eye. It prints nothing either: each function returns what the caller prints. What comes from a trace is
//! hostile, so control characters in it are escaped before they can reach a terminal.

pub mod csv;
pub mod html;
pub mod markdown;
mod number;
pub mod openmetrics;
mod published;
mod table;
pub mod terminal;
mod text;
pub mod view;

/// The look of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Below [`terminal::NARROWEST`] lines are as long as at that width.
    pub width: usize,
    /// The use of escape sequences. They add nothing that is not in the words.
    pub colour: Colour,
}

/// The use of escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// They may.
    On,
    /// Plain text.
    Off,
}
