//! Profiles by name or by file.

use crate::failure::Failure;
use crate::given;
use quell_base::escape;
use quell_predict::profile::{SHIPPED, shipped};
use quell_predict::{Profile, ProfileError};
use std::path::Path;

/// A profile that comes with quell, by its name; or that of a file.
///
/// **Errors**: a word that is neither, a file that cannot be read, a file that is no profile.
pub(crate) fn load(word: &str) -> Result<Profile, Failure> {
    match shipped(word) {
        Some(profile) => Ok(profile),
        None => Profile::read(&read(word)?).map_err(|error| refuse(word, &error)),
    }
}

/// The text of a profile, with its comments.
pub(crate) fn text(word: &str) -> Result<String, Failure> {
    if let Some((_, text)) = SHIPPED.iter().find(|(name, _)| *name == word) {
        return Ok((*text).to_owned());
    }
    load(word).map(|profile| profile.to_toml())
}

/// Every profile that comes with quell, and what it is.
pub(crate) fn list(style: quell_report::Style) -> String {
    let profiles: Vec<Profile> = SHIPPED.iter().filter_map(|(name, _)| shipped(name)).collect();
    quell_report::terminal::profiles(&quell_report::view::profiles(&profiles), style)
}

fn read(word: &str) -> Result<Vec<u8>, Failure> {
    let shown = escape(word.as_bytes());
    match given::read(Path::new(word), MOST_BYTES) {
        Ok(bytes) if bytes.len() as u64 > MOST_BYTES => {
            Err(Failure::message(format!("`{shown}` is too large to be a profile")).hint(WHERE_FROM))
        }
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let missing = format!("`{shown}` is neither a file nor a profile that comes with quell");
            let mut failure = Failure::message(missing);
            if let Some(near) = nearest(word) {
                failure = failure.hint(format!("perhaps `{near}`"));
            }
            Err(failure
                .hint("`quell predict --list-fs` lists the profiles that come with quell")
                .hint(WHERE_FROM))
        }
        Err(error) => Err(Failure::new(error).context(format!("cannot read the profile `{shown}`"))),
    }
}

fn refuse(word: &str, error: &ProfileError) -> Failure {
    Failure::message(format!("profile `{}`: {error}", escape(word.as_bytes()))).hints(error.hint())
}

fn nearest(word: &str) -> Option<&'static str> {
    let score = |name: &str| strsim::jaro_winkler(word, name);
    let best = SHIPPED.iter().map(|(name, _)| *name).max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.8).then_some(best)
}

/// A profile with a page of comments has 10 KiB.
const MOST_BYTES: u64 = 1 << 20;
const WHERE_FROM: &str = "`quell calibrate DIR -o FILE` measures a file system and writes its profile";
