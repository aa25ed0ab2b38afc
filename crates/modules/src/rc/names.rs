//! Names of modules in rc files, and the expansion of relative ones.

/// Tells whether every version takes a text for a name and nothing else: components of letters, digits, `.`, `_`, `-` and
/// `+`, none of them empty, `.` or `..`, and no `-` at the beginning.
pub fn is_plain(name: &[u8]) -> bool {
    let component = |component: &[u8]| {
        !matches!(component, b"" | b"." | b"..")
            && component.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(byte))
    };
    !name.starts_with(b"-") && name.split(|byte| *byte == b'/').all(component)
}

/// Tells whether a module specification means just this name, with no character that selects versions or variants. Source:
/// `parseModuleSpecification` of modulecmd.tcl.
pub fn is_specification(name: &[u8]) -> bool {
    is_plain(name) && !name.contains(&b'+')
}

/// The kind of argument that a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePlace {
    /// A module that a command concerns: `name/version` may leave out the directories above.
    Target,
    /// A name that a command defines.
    Definition,
}

/// The name that an argument stands for in the rc file of `directory`; `None` for an argument that is an error there.
/// `directory` is `gcc` for `gcc/.modulerc`, and empty for the one at the modulepath's root.
///
/// Source: `getModuleNameVersion` of modulecmd.tcl.
pub fn expanded(argument: &[u8], directory: &[u8], place: NamePlace) -> Option<Vec<u8>> {
    let version = argument.strip_prefix(b"./").or(argument.strip_prefix(b"/"));
    if let Some(version) = version {
        return match (directory, version) {
            ([], _) => None,
            (directory, b"") => Some(directory.to_vec()),
            (directory, version) => Some([directory, b"/", version].concat()),
        };
    }
    let end = argument.iter().rposition(|byte| *byte != b'/')? + 1;
    let argument = &argument[..end];
    let Some(slash) = argument.iter().rposition(|byte| *byte == b'/') else {
        return Some(argument.to_vec());
    };
    let (name, version) = (&argument[..slash], &argument[slash..]);
    let own = directory.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match place {
        NamePlace::Target if !own.is_empty() && own == name => Some([directory, version].concat()),
        _ => Some(argument.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_are_those_of_the_directory() {
        for (argument, directory, place, expected) in [
            ("./1.0", "foo", NamePlace::Target, Some("foo/1.0")),
            ("/1.0", "foo", NamePlace::Definition, Some("foo/1.0")),
            ("./", "foo", NamePlace::Target, Some("foo")),
            ("/1.0", "", NamePlace::Target, None),
            ("sub/1.0", "foo/sub", NamePlace::Target, Some("foo/sub/1.0")),
            ("sub/1.0", "foo/sub", NamePlace::Definition, Some("sub/1.0")),
            ("foo/1.0", "foo", NamePlace::Target, Some("foo/1.0")),
            ("foo/1.0/", "foo", NamePlace::Target, Some("foo/1.0")),
            ("foo", "foo", NamePlace::Target, Some("foo")),
            ("bar/1.0", "foo", NamePlace::Target, Some("bar/1.0")),
            ("", "foo", NamePlace::Target, None),
        ] {
            let found = expanded(argument.as_bytes(), directory.as_bytes(), place);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{argument} in {directory}");
        }
    }

    #[test]
    fn plain_names_have_no_signs() {
        for name in ["foo", "foo/1.0", "g++/1.0-rc_2"] {
            assert!(is_plain(name.as_bytes()), "{name}");
        }
        for name in
            ["", "-foo", "foo//1", "foo/", "./1", "foo/..", "foo@1", "foo 1", "~foo", "foo/*", "f\u{e9}"]
        {
            assert!(!is_plain(name.as_bytes()), "{name}");
        }
        assert!(!is_specification(b"g++/1.0"));
    }
}
