//! `quell gather ls`.

use std::fmt::Write as _;

use quell_base::date::utc;

use super::image::letters;
use crate::view::{GatherListView, GatheredFile};

/// One line a file, as `tar tv` writes it.
pub fn gather_list(list: &GatherListView) -> String {
    let owner = |file: &GatheredFile| format!("{}/{}", file.uid, file.gid);
    let owners = list.files.iter().map(|file| owner(file).len()).max().unwrap_or_default();
    let sizes = list.files.iter().map(|file| file.size.to_string().len()).max().unwrap_or_default();
    let mut text = String::new();
    for file in &list.files {
        let target = file.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "{} {:<owners$} {:>sizes$} {} {}{target}",
            letters(file.kind, &file.mode),
            owner(file),
            file.size,
            utc(file.mtime),
            file.path,
        );
    }
    text
}
