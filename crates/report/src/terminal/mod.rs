//! Text for people, at the width of their terminal.

mod calibration;
mod config;
pub(crate) mod counters;
mod create;
mod data;
mod diff;
mod doctor;
mod findings;
mod fix;
mod fleet;
mod gather;
mod image;
mod modules;
mod packages;
mod phases;
mod plot;
mod predict;
mod profiles;
mod ranks;
mod replay;
mod report;
mod searches;
mod top;
mod validate;

pub use calibration::calibrate;
pub use config::config;
pub use create::create;
pub use diff::diff;
pub use doctor::doctor;
pub use findings::thresholds;
pub use fix::fix;
pub use fleet::fleet;
pub use gather::gather_list;
pub use image::{image_info, image_list};
pub use modules::{modules_audit, modules_caches_plan, modules_check, modules_measure, modules_verify};
pub use predict::predict;
pub use profiles::profiles;
pub use replay::replay;
pub use report::{Detail, report};
pub use top::top;
pub use validate::validate;

use crate::Style;
use crate::number::grouped;
use crate::table::TextTable;
use crate::text::{TextRole, clean, command, cut, painted, width, wrapped};
use crate::view::Doubt;

/// Lines are laid out for at least so many columns: below, numbers would not fit.
pub const NARROWEST: usize = 60;

/// Columns of the keys at the start of headline lines, with their gap.
const KEY: usize = 9;

/// A command that is cut keeps at least so much.
const SHORTEST: usize = 20;

/// Rows of a list: what fits on a screen beside the rest.
const ROWS: usize = 10;

/// A title that says how many rows there are, where not all are shown.
fn shown(title: &str, rows: usize) -> String {
    match rows > ROWS {
        true => format!("{title} ({ROWS} of {})", grouped(rows as u64)),
        false => title.to_owned(),
    }
}

/// A page being written.
struct Page {
    style: Style,
    text: String,
}

impl Page {
    fn new(style: Style) -> Self {
        let style = Style { width: style.width.max(NARROWEST), ..style };
        Self { style, text: String::new() }
    }

    /// A key and what there is to say, broken into lines that stand below each other.
    fn entry(&mut self, key: &str, words: &str, role: TextRole) {
        let title = if role == TextRole::Doubt { TextRole::Doubt } else { TextRole::Title };
        let words_role = if role == TextRole::Doubt { TextRole::Plain } else { role };
        for (index, line) in wrapped(words, self.style.width - KEY).iter().enumerate() {
            let key = if index == 0 { key } else { "" };
            let pad = " ".repeat(KEY - key.len());
            self.text += &painted(key, title, self.style);
            self.text += &pad;
            self.text += &painted(line, words_role, self.style);
            self.text.push('\n');
        }
    }

    /// A key and a command, cut so that it stays on one line with what goes before and after.
    fn command(&mut self, key: &str, before: &str, arguments: &[String], after: &str) {
        let room = self.style.width.saturating_sub(KEY + width(before) + width(after));
        let words = format!("{before}{}{after}", cut(&command(arguments), room.max(SHORTEST)));
        self.entry(key, &words, TextRole::Plain);
    }

    /// A key and a command that is neither cut nor broken, because it is copied.
    fn long_command(&mut self, key: &str, words: &str) {
        self.text += &painted(key, TextRole::Title, self.style);
        self.text += &" ".repeat(KEY - key.len());
        self.text += &painted(words, TextRole::Command, self.style);
        self.text.push('\n');
    }

    /// A doubt, under the key of what it is about.
    fn doubt(&mut self, key: &str, doubt: &Doubt) {
        let text = clean(&doubt.text);
        let words = match doubt.advice.as_str() {
            "" => text,
            advice => format!("{text}; {advice}"),
        };
        self.entry(key, &words, TextRole::Doubt);
    }

    /// A title and a table; nothing at all for a table without rows.
    fn section(&mut self, title: &str, table: &TextTable) {
        if !table.is_empty() {
            self.text.push('\n');
            for line in wrapped(title, self.style.width) {
                self.text += &painted(&line, TextRole::Title, self.style);
                self.text.push('\n');
            }
            self.text += &table.rendered(self.style);
        }
    }

    /// A title and lines that are drawn already.
    fn drawing(&mut self, title: &str, lines: &str) {
        self.text.push('\n');
        for line in wrapped(title, self.style.width) {
            self.text += &painted(&line, TextRole::Title, self.style);
            self.text.push('\n');
        }
        self.text += lines;
    }

    fn finished(self) -> String {
        crate::text::finished(&self.text)
    }
}
