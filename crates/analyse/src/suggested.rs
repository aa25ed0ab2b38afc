//! Words of commands that a report suggests: the recordings as they were named, and the image that is made of them. They can be pasted.

use crate::Summary;
use quell_base::shell::quoted;
use std::collections::BTreeSet;

impl Summary {
    /// The recordings as they were named. Of very many, the pattern of each directory that holds some.
    pub fn trace_words(&self) -> String {
        let names = self.recordings.iter().map(|facts| facts.name.trim_end_matches('/'));
        let words: BTreeSet<_> = match self.recordings.len() {
            0 => return "TRACE".to_owned(),
            1..=MOST_NAMES => return names.map(quoted).collect::<Vec<_>>().join(" "),
            _ => names.map(pattern).collect(),
        };
        words.into_iter().collect::<Vec<_>>().join(" ")
    }

    /// The image's name: that of the first recording.
    pub fn image_word(&self) -> String {
        let name = self.recordings.first().map_or("app", |facts| facts.name.trim_end_matches('/'));
        let name = name.rsplit('/').next().unwrap_or(name);
        quoted(format!("{}.qimg", name.strip_suffix(".qtrace").unwrap_or(name)))
    }
}

/// The recordings of a directory; the name itself if it has another ending.
fn pattern(name: &str) -> String {
    match (name.ends_with(".qtrace"), name.rsplit_once('/')) {
        (true, Some((directory, _))) => format!("{}/*.qtrace", quoted(directory)),
        (true, None) => "*.qtrace".to_owned(),
        (false, _) => quoted(name),
    }
}

/// More names make a command that is longer than a screen.
const MOST_NAMES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordingFacts;
    use quell_trace::Header;

    fn of(names: &[String]) -> Summary {
        let header = Header::begun("ptrace", "0", vec!["app".to_owned()]);
        let mut summary = Summary::default();
        summary.recordings = names.iter().map(|name| RecordingFacts::new(name, &header)).collect();
        summary
    }

    #[test]
    fn recordings_are_named_by_words_that_a_shell_reads() {
        assert_eq!(of(&[]).trace_words(), "TRACE");
        let few = ["runs/a.qtrace/".to_owned(), "it's.qtrace".to_owned()];
        assert_eq!(of(&few).trace_words(), r"runs/a.qtrace 'it'\''s.qtrace'");
        assert_eq!(of(&few).image_word(), "a.qimg");
        let many: Vec<_> = (0..20).map(|rank| format!("my runs/app.rank{rank}.qtrace")).collect();
        assert_eq!(of(&many[..4]).trace_words().matches(".qtrace").count(), 4);
        assert_eq!(of(&many).trace_words(), "'my runs'/*.qtrace");
    }
}
