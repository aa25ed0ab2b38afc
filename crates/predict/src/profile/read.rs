//! From a profile's text to a profile, or to the first thing that is wrong with it.

use super::{Figure, FigureRange, Profile, ProfileError, ProfileKind, ProfileSlot, SCHEMA_VERSION};
use quell_base::escape;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type SpannedKey<'a, 'i> = &'a Spanned<std::borrow::Cow<'i, str>>;
type SpannedValue<'a, 'i> = &'a Spanned<DeValue<'i>>;

impl Profile {
    /// Reads a profile. What the file does not name is absent.
    ///
    /// # Errors
    /// The flaw with the lowest line: [`ProfileError`] has one variant for each kind of flaw.
    pub fn read(text: &[u8]) -> Result<Self, ProfileError> {
        let table = parse(text)?;
        let mut reader = ProfileReader { text, flaws: Vec::new() };
        let profile = reader.profile(table.get_ref());
        match reader.flaws.into_iter().min_by_key(ProfileError::line) {
            Some(flaw) => Err(flaw),
            None => Ok(profile),
        }
    }
}

fn parse(text: &[u8]) -> Result<Spanned<DeTable<'_>>, ProfileError> {
    let not_toml =
        |at, reason: &str| ProfileError::NotToml { line: line(text, at), reason: escape(reason.as_bytes()) };
    let text =
        std::str::from_utf8(text).map_err(|error| not_toml(error.valid_up_to(), "this is not UTF-8"))?;
    DeTable::parse(text).map_err(|error| not_toml(error.span().map_or(0, |span| span.start), error.message()))
}

/// The line of a byte. Range: from 1.
fn line(text: &[u8], at: usize) -> usize {
    1 + text.iter().take(at).filter(|byte| **byte == b'\n').count()
}

struct ProfileReader<'a> {
    text: &'a [u8],
    flaws: Vec<ProfileError>,
}

impl ProfileReader<'_> {
    fn profile(&mut self, table: &DeTable<'_>) -> Profile {
        let mut profile = Profile::new(String::new(), ProfileKind::Prior);
        for key in ["schema_version", "name", "kind"] {
            if !table.contains_key(key) {
                self.flaws.push(ProfileError::Missing { line: 1, key });
            }
        }
        for (name, value) in table {
            match name.get_ref().as_ref() {
                "schema_version" => self.version(value),
                "name" => profile.name = self.text_of("name", value).unwrap_or_default(),
                "note" => profile.note = self.text_of("note", value),
                "kind" => profile.kind = self.kind(value),
                title => self.section(title, name, value, &mut profile),
            }
        }
        profile
    }

    fn version(&mut self, value: SpannedValue<'_, '_>) {
        let line = self.line(value);
        let version = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().to_owned(),
            other => return self.wrong_type(line, "schema_version", "a whole number", other),
        };
        let known = version.parse().is_ok_and(|number: u32| (1..=SCHEMA_VERSION).contains(&number));
        if !known {
            self.flaws.push(ProfileError::Newer { line, version });
        }
    }

    fn kind(&mut self, value: SpannedValue<'_, '_>) -> ProfileKind {
        let Some(word) = self.text_of("kind", value) else { return ProfileKind::Prior };
        ProfileKind::ALL.into_iter().find(|kind| kind.name() == word).unwrap_or_else(|| {
            let known = ProfileKind::ALL.iter().map(|kind| kind.name());
            let nearest = nearest(&word, known);
            let of = "a kind of profile (`measured`, `prior`, `fitted`)".to_owned();
            self.flaws.push(ProfileError::Unknown {
                line: self.line(value),
                key: escape(word.as_bytes()),
                of,
                nearest,
            });
            ProfileKind::Prior
        })
    }

    /// A table `[title]`; the tables within it are sections of their own, named `title.name`.
    fn section(
        &mut self,
        title: &str,
        name: SpannedKey<'_, '_>,
        value: SpannedValue<'_, '_>,
        profile: &mut Profile,
    ) {
        let titles: Vec<&str> = profile.slots().iter().map(|(section, ..)| *section).collect();
        let is_known = |title: &str| titles.contains(&title);
        let DeValue::Table(table) = value.get_ref() else {
            return match is_known(title) {
                true => self.wrong_type(self.line(name), title, "a section of its own", value.get_ref()),
                false => self.unknown(name, title, "a key of a profile", profile),
            };
        };
        if !is_known(title) {
            return self.unknown(name, title, "a section of a profile", profile);
        }
        for (key, value) in table {
            let inner = format!("{title}.{}", key.get_ref());
            match is_known(&inner) {
                true => self.section(&inner, key, value, profile),
                false => self.entry(title, key, value, profile),
            }
        }
    }

    fn entry(
        &mut self,
        title: &str,
        key: SpannedKey<'_, '_>,
        value: SpannedValue<'_, '_>,
        profile: &mut Profile,
    ) {
        let word = key.get_ref().as_ref();
        let slots = profile.slots();
        let Some((.., slot)) =
            slots.into_iter().find(|(section, name, _)| (*section, *name) == (title, word))
        else {
            return self.unknown(key, word, &format!("a key of `[{title}]`"), profile);
        };
        match (slot, value.get_ref()) {
            (ProfileSlot::Switch(place), DeValue::Boolean(on)) => *place = Some(*on),
            (ProfileSlot::Switch(_), other) => {
                self.wrong_type(self.line(value), word, "`true` or `false`", other);
            }
            (ProfileSlot::Figure(place, range), _) => *place = self.figure(word, value, range),
        }
    }

    fn figure(&mut self, key: &str, value: SpannedValue<'_, '_>, range: FigureRange) -> Option<Figure> {
        if let DeValue::Table(table) = value.get_ref() {
            return self.spread(key, value, table, range);
        }
        self.number(key, value, range).map(Figure::exact)
    }

    fn spread(
        &mut self,
        key: &str,
        value: SpannedValue<'_, '_>,
        table: &DeTable<'_>,
        range: FigureRange,
    ) -> Option<Figure> {
        for (name, _) in table {
            let word = name.get_ref().as_ref();
            if !PARTS.contains(&word) {
                let (line, word) = (self.line(name), escape(word.as_bytes()));
                let nearest = nearest(&word, PARTS.into_iter());
                let of = format!("a part of a figure ({})", PARTS.join(", "));
                self.flaws.push(ProfileError::Unknown { line, key: word, of, nearest });
            }
        }
        let line = self.line(value);
        let mut part = |name: &'static str| match table.get(name) {
            Some(value) => self.number(&format!("{key}.{name}"), value, range),
            None => {
                self.flaws.push(ProfileError::Missing { line, key: name });
                None
            }
        };
        let (p10, p50, p90) = (part("p10"), part("p50"), part("p90"));
        let whole = FigureRange { least: 1.0, most: 1e15, what: "measurements" };
        let count = table.get("count").and_then(|value| self.number("count", value, whole));
        let source = table.get("source").and_then(|value| self.text_of("source", value));
        let (p10, p50, p90) = (p10?, p50?, p90?);
        if !(p10 <= p50 && p50 <= p90) {
            self.flaws.push(ProfileError::Disordered { line, key: key.to_owned(), p10, p50, p90 });
        }
        Some(Figure { p10, p50, p90, count: count.map(|count| count as u64), source })
    }

    fn number(&mut self, key: &str, value: SpannedValue<'_, '_>, range: FigureRange) -> Option<f64> {
        let line = self.line(value);
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(number) => number.as_str().parse().ok(),
            other => {
                self.wrong_type(line, key, "a number, or { p10 = , p50 = , p90 = }", other);
                return None;
            }
        };
        match number.filter(|number| range.holds(*number)) {
            // A zero has one sign.
            Some(number) => Some(number + 0.0),
            None => {
                let value = number.map_or_else(|| "too large a number".to_owned(), shown);
                let FigureRange { least, most, what } = range;
                self.flaws.push(ProfileError::OutOfRange {
                    line,
                    key: key.to_owned(),
                    value,
                    least,
                    most,
                    what,
                });
                None
            }
        }
    }

    fn text_of(&mut self, key: &str, value: SpannedValue<'_, '_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            other => {
                self.wrong_type(self.line(value), key, "a text", other);
                None
            }
        }
    }

    fn unknown(&mut self, name: SpannedKey<'_, '_>, key: &str, of: &str, profile: &mut Profile) {
        let slots = profile.slots();
        let own = name.get_ref().as_ref();
        let names = slots.iter().map(|(_, key, _)| *key).chain(slots.iter().map(|(title, ..)| *title));
        let nearest = nearest(own, names.chain(["schema_version", "name", "kind", "note"]));
        let (key, of) = (escape(key.as_bytes()), of.to_owned());
        let nearest = nearest.map(|near| match slots.iter().find(|(_, key, _)| *key == near) {
            Some((title, ..)) => format!("{near}` in `[{title}]"),
            None => near,
        });
        self.flaws.push(ProfileError::Unknown { line: self.line(name), key, of, nearest });
    }

    fn wrong_type(&mut self, line: usize, key: &str, expected: &'static str, found: &DeValue<'_>) {
        let found = match found {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "`true` or `false`",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.flaws.push(ProfileError::WrongType { line, key: escape(key.as_bytes()), expected, found });
    }

    fn line<T>(&self, value: &Spanned<T>) -> usize {
        line(self.text, value.span().start)
    }
}

/// A number in few digits, however large or small it is.
fn shown(number: f64) -> String {
    let is_long = number.is_finite() && number != 0.0 && !(1e-6..1e12).contains(&number.abs());
    if is_long { format!("{number:e}") } else { number.to_string() }
}

/// The parts of a figure that is a table.
const PARTS: [&str; 5] = ["p10", "p50", "p90", "count", "source"];

/// The name that was probably meant.
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let score = |name: &&str| strsim::jaro_winkler(word, name);
    let best = names.max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(&best) > 0.8).then(|| best.to_owned())
}
