//! `quell predict --list-fs`: what comes with quell.

use super::Page;
use crate::Style;
use crate::table::TextTable;
use crate::text::clean;
use crate::view::ProfileHead;

/// One line a profile.
pub fn profiles(profiles: &[ProfileHead], style: Style) -> String {
    let mut table = TextTable::default().text("name").text("kind").phrase("what it is");
    for profile in profiles {
        let note = profile.note.as_ref().map_or_else(String::new, |note| clean(note));
        table.row(vec![clean(&profile.name), profile.kind.clone(), note]);
    }
    let mut page = Page::new(style);
    page.text += &table.rendered(page.style);
    page.finished()
}
