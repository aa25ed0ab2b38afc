//! Directories in the arguments of a command: `-I/a`, `-L /a`, `-cp /a:/b`, `-d include_path=/a:/b`, `-DLIST=/a;/b`.

/// A text of a command line that may name a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// The argument that it stands in. Range: index into the arguments.
    pub(crate) argument: usize,
    /// Its first byte in the argument.
    pub(crate) at: usize,
    /// The option that it belongs to, as a user types it: `-I`, `-d include_path=`.
    pub(crate) option: String,
    /// The option is an argument of its own, in front of this one.
    pub(crate) separate: bool,
    pub(crate) text: &'a str,
}

/// The separators of several directories in one argument.
pub(crate) const SEPARATORS: [char; 3] = [':', ';', ','];

/// The elements of all arguments but the program, which the first one is. What belongs to no option is left out.
///
/// Both readings are given of an option of one letter that may be joined with a relative path (`-Ia/b`).
pub(crate) fn elements(arguments: &[String]) -> Vec<Element<'_>> {
    let mut elements = Vec::new();
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        let before = arguments[index - 1].as_str();
        let before = if index > 1 && before.starts_with('-') { before } else { "" };
        let separate = !argument.starts_with('-') && !before.is_empty();
        for length in option_lengths(argument) {
            let option = match (separate, length) {
                (true, 0) => before.to_owned(),
                (true, _) => format!("{before} {}", &argument[..length]),
                (false, 0) => continue,
                (false, _) => argument[..length].to_owned(),
            };
            let mut at = length;
            for text in argument[length..].split(SEPARATORS) {
                if !text.is_empty() {
                    elements.push(Element { argument: index, at, option: option.clone(), separate, text });
                }
                at += text.len() + 1;
            }
        }
    }
    elements
}

/// The lengths that the part of an argument may have which is no directory: an option with its letters, a name with `=`.
fn option_lengths(argument: &str) -> impl Iterator<Item = usize> {
    let path = argument.find(['/', '.']).unwrap_or(argument.len());
    let letter = argument.char_indices().nth(2).map_or(argument.len(), |(at, _)| at);
    let (first, second) = match argument.find('=') {
        Some(equals) if equals < path => (equals + 1, None),
        _ if !argument.starts_with('-') => (0, None),
        _ if path > letter => (letter, Some(path).filter(|path| *path < argument.len())),
        _ => (path, None),
    };
    std::iter::once(first).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_behind_their_options() {
        for (line, expected) in [
            ("gcc -I/a -Ib x.c", vec![("-I", "/a"), ("-I", "b")]),
            ("gcc -Ia/b", vec![("-I", "a/b"), ("-Ia", "/b")]),
            ("ld -L /a -L ../b", vec![("-L", "/a"), ("-L", "../b")]),
            ("java -cp /a:/b:. App", vec![("-cp", "/a"), ("-cp", "/b"), ("-cp", ".")]),
            ("php -d include_path=.:/a", vec![("-d include_path=", "."), ("-d include_path=", "/a")]),
            ("cmake -DLIST=/a;/b", vec![("-DLIST=", "/a"), ("-DLIST=", "/b")]),
            ("java --module-path=/a:/b", vec![("--module-path=", "/a"), ("--module-path=", "/b")]),
            ("cp /a /b", vec![]),
        ] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = elements(&arguments);
            let found: Vec<_> = found.iter().map(|element| (element.option.as_str(), element.text)).collect();
            // Other readings name nothing that is there.
            assert!(expected.iter().all(|element| found.contains(element)), "{line}: {found:?}");
            assert_eq!(expected.is_empty(), found.is_empty(), "{line}: {found:?}");
        }
    }
}
