//! Checks a cache of Lmod before it is installed: it must be plain data, and each modulepath may hold only paths below
//! itself.
//!
//! Every user evaluates the cache of Lmod. Lmod's program does not quote every name, and evaluates modulefiles while it
//! builds. The author of a modulefile could therefore write any Lua into the cache, or lead the modules of one modulepath to
//! files of another. The check passes nothing but assignments of tables of literals in which each modulefile lies below its
//! modulepath.
//!
//! Source: Lua 5.3 reference manual, section 3.1; `serializeTbl.lua` of Lmod.

use std::collections::BTreeMap;

/// The fault of a text.
pub(super) type Fault = &'static str;

/// Nesting of tables; Lmod's own is below ten.
const DEEPEST: usize = 64;

/// The variable that holds modulepaths.
const MODULEPATHS: &[u8] = b"spiderT";

/// The variable that tells which modulefile adds a modulepath.
const ADDED: &[u8] = b"mpathMapT";

/// Fields whose value Lmod takes for a file.
const FILES: [&[u8]; 2] = [b"fn", b"mpath"];

/// Modulepaths that modulefiles add, as Lmod followed them, each with one that has such a modulefile. Some may not exist.
pub(super) type Added = BTreeMap<Vec<u8>, Vec<u8>>;

/// Looks at `spiderT.lua`; returns the modulepaths that it covers besides those that it was made for.
///
/// **Errors**: what is wrong with it.
pub(super) fn check(text: &[u8]) -> Result<Added, Fault> {
    let mut reader = Reader { text, added: Added::new() };
    while reader.skips_to_more() {
        let name = reader.name()?;
        if !(name.ends_with(b"T") || name.ends_with(b"Fn")) {
            return Err("it sets a variable that no cache has");
        }
        reader.expect(b'=')?;
        let (is_modulepaths, is_added) = (name == MODULEPATHS, name == ADDED);
        reader.value(&Within { is_modulepaths, is_added, ..Within::default() })?;
    }
    Ok(reader.added)
}

/// The place where a value stands.
#[derive(Clone, Copy, Default)]
struct Within<'a> {
    is_modulepaths: bool,
    is_added: bool,
    modulepath: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    depth: usize,
}

struct Reader<'a> {
    text: &'a [u8],
    added: Added,
}

impl<'a> Reader<'a> {
    /// Skips space. Tells whether anything follows.
    fn skips_to_more(&mut self) -> bool {
        self.text = self.text.trim_ascii_start();
        !self.text.is_empty()
    }

    /// Skips this character if it is next, and tells whether it was.
    fn passes(&mut self, sign: u8) -> bool {
        self.skips_to_more();
        match self.text.split_first() {
            Some((first, rest)) if *first == sign => {
                self.text = rest;
                true
            }
            _ => false,
        }
    }

    fn expect(&mut self, sign: u8) -> Result<(), Fault> {
        if self.passes(sign) { Ok(()) } else { Err("it holds more than tables of literals") }
    }

    fn word(&mut self, is_of: impl Fn(u8) -> bool) -> &'a [u8] {
        self.skips_to_more();
        let end = self.text.iter().position(|byte| !is_of(*byte)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }

    fn name(&mut self) -> Result<&'a [u8], Fault> {
        let word = self.word(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match word.first() {
            Some(first) if !first.is_ascii_digit() => Ok(word),
            _ => Err("it does more than set variables"),
        }
    }

    fn value(&mut self, within: &Within<'_>) -> Result<(), Fault> {
        self.skips_to_more();
        match self.text {
            [b'{', ..] => self.table(within),
            [b'"', ..] => {
                let text = self.quoted()?;
                if let (true, Some(path)) = (within.is_added, within.modulepath) {
                    self.added.entry(path.to_vec()).or_insert_with(|| text.clone());
                }
                refuse_elsewhere(&text, within)
            }
            [b'[', ..] => {
                let text = self.long()?;
                refuse_elsewhere(text, within)
            }
            [b'-' | b'0'..=b'9', ..] => {
                let number = self.word(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte));
                let is_comment = number.windows(2).any(|pair| matches!(pair, b"--" | b".."));
                if is_comment { Err("it holds more than tables of literals") } else { Ok(()) }
            }
            _ => match self.name()? {
                b"true" | b"false" | b"nil" => Ok(()),
                _ => Err("it names something in place of a value"),
            },
        }
    }

    fn table(&mut self, within: &Within<'_>) -> Result<(), Fault> {
        self.expect(b'{')?;
        if within.depth > DEEPEST {
            return Err("its tables are too deep");
        }
        loop {
            if self.passes(b'}') {
                return Ok(());
            }
            let key = self.key()?;
            let modulepath = match (within.is_modulepaths || within.is_added, within.depth) {
                (true, 0) => key.as_deref(),
                _ => within.modulepath,
            };
            let depth = within.depth + 1;
            self.value(&Within { modulepath, key: key.as_deref(), depth, ..*within })?;
            if !self.passes(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// The key of a field; `None` if it has none.
    fn key(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.skips_to_more();
        let key = match self.text {
            [b'[', b'"', ..] => {
                self.expect(b'[')?;
                let key = self.quoted()?;
                self.expect(b']')?;
                key
            }
            [b'[', b'0'..=b'9', ..] => {
                self.expect(b'[')?;
                let key = self.word(|byte| byte.is_ascii_digit()).to_vec();
                self.expect(b']')?;
                key
            }
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let before = self.text;
                let name = self.name()?;
                if matches!(name, b"true" | b"false" | b"nil") {
                    self.text = before;
                    return Ok(None);
                }
                name.to_vec()
            }
            _ => return Ok(None),
        };
        self.expect(b'=')?;
        Ok(Some(key))
    }

    /// A string in quotes, without the backslashes before quotes, backslashes and newlines.
    fn quoted(&mut self) -> Result<Vec<u8>, Fault> {
        self.expect(b'"')?;
        let mut text = Vec::new();
        let mut rest = self.text.iter();
        while let Some(byte) = rest.next() {
            match byte {
                b'"' => {
                    self.text = rest.as_slice();
                    return Ok(text);
                }
                b'\n' => break,
                b'\\' => match rest.next() {
                    Some(kept @ (b'"' | b'\\' | b'\n')) => text.push(*kept),
                    // Its meaning does not matter. The NUL keeps the text from being taken for a path.
                    Some(other) => text.extend([0, *other]),
                    None => break,
                },
                byte => text.push(*byte),
            }
        }
        Err("it has a string without an end")
    }

    /// A string between long brackets of one level.
    fn long(&mut self) -> Result<&'a [u8], Fault> {
        let fault = "it has a string without an end";
        let rest = self.text.strip_prefix(b"[").ok_or(fault)?;
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        let rest = rest[level..].strip_prefix(b"[").ok_or("it holds more than tables of literals")?;
        let end = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
        let at = rest.windows(end.len()).position(|window| window == end).ok_or(fault)?;
        self.text = &rest[at + end.len()..];
        Ok(&rest[..at])
    }
}

/// Refuses the path of a modulefile that does not lie below its modulepath.
fn refuse_elsewhere(value: &[u8], within: &Within<'_>) -> Result<(), Fault> {
    let Some(modulepath) = within.modulepath else { return Ok(()) };
    if !within.key.is_some_and(|key| FILES.contains(&key)) {
        return Ok(());
    }
    let below = value.strip_prefix(modulepath);
    let is_below = below.is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with(b"/")
                && !rest.contains(&0)
                && !rest.split(|byte| *byte == b'/').any(|part| part == b"..")
    });
    if is_below { Ok(()) } else { Err("it leads a modulepath to a file that is not in it") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_passes() {
        for text in [
            "timestampFn = {\n  false,\n}\nmrcT = {}\n",
            "spiderT = {\n  [\"/m\"] = {\n foo = { fileT = { [\"foo/1\"] = { fn = \"/m/foo/1\", mpath = \"/m\", n = -1.5e3, \
             help = [==[ ]] os.execute() ]==], whatis = { \"a \\\"q\\\" \\\\ x\", }, [1] = true } } } },\n version = 5,\n}\n",
            "",
        ] {
            assert_eq!(check(text.as_bytes()), Ok(Added::new()), "{text}");
        }
        let added = "mpathMapT = {\n [\"/b\"] = {\n [\"gcc/12\"] = \"/a\",\n },\n}\n";
        assert_eq!(check(added.as_bytes()), Ok(Added::from([(b"/b".to_vec(), b"/a".to_vec())])));
    }

    #[test]
    fn code_and_what_leads_elsewhere_do_not() {
        for text in [
            "os.execute(\"x\")",
            "spiderT = os.execute(\"x\")",
            "spiderT = {} os.execute(\"x\")",
            "spiderT = { a = os.execute \"x\" }",
            "spiderT = { [\"x\"] = os.execute(\"x\"), [\"y\"] = 1 }",
            "spiderT = { [os.execute(\"x\")] = 1 }",
            "spiderT = { (1) }",
            "spiderT = { \"a\" .. x }",
            "spiderT = { help = [[ ]] .. os.execute() }",
            "spiderT = { function() end }",
            "os = {}",
            "local spiderT = {}",
            "spiderT = { 1 --[[ ]] }",
            "spiderT = { 1--[[\n]], }",
            "spiderT = {",
            "spiderT = { \"a",
            "spiderT = { \"a\nb\" }",
            "return {}",
            "spiderT = { [\"/m\"] = { a = { fn = \"/n/a\" } } }",
            "spiderT = { [\"/m\"] = { a = { [\"fn\"] = [[/m/../n/a]] } } }",
            "spiderT = { [\"/m\"] = { a = { fn = \"/m/\\x2e./n\" } } }",
            "spiderT = { [\"/m\"] = { a = { mpath = \"/mn\" } } }",
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("spiderT = {}", "{".repeat(100_000));
        assert!(check(deep.as_bytes()).is_err());
    }
}
