//! The package of a file, from the directories that languages keep packages in.

use quell_base::escape;

/// A language whose packages have directories of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackageLanguage {
    /// `site-packages/NAME`, `dist-packages/NAME`, `lib/pythonX.Y`.
    Python,
    /// `node_modules/NAME`, `node_modules/@SCOPE/NAME`.
    Node,
    /// `share/perl5/NAME` and the like.
    Perl,
    /// `gems/NAME-VERSION`, `vendor_ruby/NAME`, `lib/ruby`.
    Ruby,
    /// `R/library/NAME`, `R/site-library/NAME`.
    R,
    /// `.julia/packages/NAME`, `compiled/vX.Y/NAME`, `stdlib/vX.Y/NAME`.
    Julia,
    /// `share/lua/X.Y/NAME`, `lib/lua/X.Y/NAME`.
    Lua,
}

impl PackageLanguage {
    /// Its name in views.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Node => "Node",
            Self::Perl => "Perl",
            Self::Ruby => "Ruby",
            Self::R => "R",
            Self::Julia => "Julia",
            Self::Lua => "Lua",
        }
    }
}

/// A package of a language. All its versions and places are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    /// The language.
    pub language: PackageLanguage,
    /// Its name, as its directory has it; escaped.
    pub name: String,
}

/// Stands for the name of what comes with a language.
const STANDARD: &str = "(standard library)";

impl Package {
    /// The package that a file or a directory belongs to; `None` for a directory of packages itself.
    pub fn of(path: &[u8]) -> Option<Self> {
        let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        // The innermost directory of packages decides: a virtual environment may lie in a package.
        (1..parts.len()).rev().find_map(|index| below(&parts, index))
    }
}

/// The package where `parts[index]` is a directory of packages.
fn below(parts: &[&[u8]], index: usize) -> Option<Package> {
    use PackageLanguage as Of;
    let (before, rest) = (parts[index - 1], &parts[index + 1..]);
    let is_library = |name: &[u8]| {
        matches!(name, b"lib" | b"lib64" | b"share" | b"etc")
            || name.windows(7).any(|part| part == b"-linux-")
    };
    match parts[index] {
        b"site-packages" | b"dist-packages" => named(Of::Python, python(rest)?),
        b"node_modules" => match rest {
            [scope, name, ..] if scope.starts_with(b"@") => named(Of::Node, &[*scope, b"/", *name].concat()),
            _ => named(Of::Node, first(rest)?),
        },
        b"perl" | b"perl5" if is_library(before) => named(
            Of::Perl,
            first(without(rest, |name| is_version(name) || is_library(name) || name == b"auto"))?,
        ),
        b"gems" | b"specifications" => named(Of::Ruby, without_version(rest.first()?)?),
        b"vendor_ruby" | b"site_ruby" => {
            named(Of::Ruby, first(without(rest, |name| is_version(name) || is_library(name)))?)
        }
        b"ruby" if is_library(before) && rest.len() > 1 && is_version(rest[0]) => standard(Of::Ruby),
        b"library" | b"site-library" if before == b"R" => named(Of::R, rest.first()?),
        name if before == b"R" && name.ends_with(b"-library") => {
            named(Of::R, without(rest, is_version).first()?)
        }
        b"packages" if matches!(before, b".julia" | b"julia") => named(Of::Julia, rest.first()?),
        b"compiled" | b"stdlib" if rest.first()?.starts_with(b"v") && is_version(&rest[0][1..]) => {
            named(Of::Julia, first(&rest[1..])?)
        }
        b"lua" if is_library(before) && is_version(rest.first()?) => named(Of::Lua, first(&rest[1..])?),
        name if is_library(before) && name.starts_with(b"python") && is_version(&name[6..]) => match rest {
            [] if !name.ends_with(b".zip") => None,
            [b"site-packages" | b"dist-packages", ..] => None,
            _ => standard(Of::Python),
        },
        _ => None,
    }
}

fn named(language: PackageLanguage, name: &[u8]) -> Option<Package> {
    (!name.is_empty()).then(|| Package { language, name: escape(name) })
}

#[expect(clippy::unnecessary_wraps, reason = "an arm among others that may have none")]
fn standard(language: PackageLanguage) -> Option<Package> {
    Some(Package { language, name: STANDARD.to_owned() })
}

/// The name of a Python package: its directory, its one file, its compiled file, its metadata or its libraries.
fn python<'a>(rest: &[&'a [u8]]) -> Option<&'a [u8]> {
    let name = match rest {
        [b"__pycache__", file, ..] => file,
        [name, ..] => name,
        [] => return None,
    };
    for suffix in [&b".dist-info"[..], b".egg-info", b".egg"] {
        if let Some(name) = name.strip_suffix(suffix) {
            return name.split(|&byte| byte == b'-').next();
        }
    }
    if let Some(name) = name.strip_suffix(b".libs") {
        return Some(name);
    }
    name.split(|&byte| byte == b'.').next().filter(|stem| !stem.is_empty()).or(Some(name))
}

/// The first component, without the ending of a file.
fn first<'a>(rest: &[&'a [u8]]) -> Option<&'a [u8]> {
    let name = *rest.first()?;
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0 && rest.len() == 1);
    Some(&name[..dot.unwrap_or(name.len())])
}

/// The components behind those for which `passes` holds.
fn without<'a, 'b>(rest: &'b [&'a [u8]], passes: impl Fn(&[u8]) -> bool) -> &'b [&'a [u8]] {
    let begin = rest.iter().position(|name| !passes(name)).unwrap_or(rest.len());
    &rest[begin..]
}

fn is_version(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_digit)
}

/// The name before `-VERSION`; `None` where there is no version.
fn without_version(name: &[u8]) -> Option<&[u8]> {
    let dash = name.windows(2).position(|pair| pair[0] == b'-' && pair[1].is_ascii_digit())?;
    Some(&name[..dash])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_package_of_their_directory() {
        for (path, expected) in [
            ("/env/lib/python3.11/site-packages/numpy/core/__init__.py", "Python numpy"),
            ("/env/lib/python3.11/site-packages/numpy.libs/libopenblas.so", "Python numpy"),
            ("/env/lib/python3.11/site-packages/numpy-1.26.4.dist-info/METADATA", "Python numpy"),
            ("/env/lib/python3.11/site-packages/six.py", "Python six"),
            ("/env/lib/python3.11/site-packages/__pycache__/six.cpython-311.pyc", "Python six"),
            ("/env/lib/python3.11/site-packages/_cffi.cpython-311-x86_64-linux-gnu.so", "Python _cffi"),
            ("/usr/lib/python3/dist-packages/apt_pkg.cpython-311-x86_64-linux-gnu.so", "Python apt_pkg"),
            ("/env/lib/python3.11/site-packages", ""),
            ("/usr/lib/python3.11/json/__init__.py", "Python (standard library)"),
            ("/usr/lib/python311.zip", "Python (standard library)"),
            ("/usr/lib/python3.11", ""),
            ("/app/node_modules/a/node_modules/b/index.js", "Node b"),
            ("/app/node_modules/@types/node/index.d.ts", "Node @types/node"),
            ("/app/node_modules/left-pad.js", "Node left-pad"),
            ("/app/node_modules", ""),
            ("/usr/share/perl/5.36/File/Spec.pm", "Perl File"),
            ("/usr/share/perl5/Moose.pm", "Perl Moose"),
            ("/usr/lib/x86_64-linux-gnu/perl5/5.36/auto/List/Util/Util.so", "Perl List"),
            ("/home/me/perl/run.pl", ""),
            ("/var/lib/gems/3.1.0/gems/rake-13.0.6/lib/rake.rb", "Ruby rake"),
            ("/var/lib/gems/3.1.0/specifications/rake-13.0.6.gemspec", "Ruby rake"),
            ("/usr/lib/ruby/vendor_ruby/rubygems.rb", "Ruby rubygems"),
            ("/usr/lib/ruby/3.1.0/set.rb", "Ruby (standard library)"),
            ("/usr/lib/R/library/stats/R/stats.rdb", "R stats"),
            ("/home/me/R/x86_64-pc-linux-gnu-library/4.2/ggplot2/DESCRIPTION", "R ggplot2"),
            ("/home/me/.julia/packages/Plots/a1b2c/src/Plots.jl", "Julia Plots"),
            ("/home/me/.julia/compiled/v1.10/Plots/x_y.ji", "Julia Plots"),
            ("/usr/share/lua/5.4/pl/path.lua", "Lua pl"),
            ("/usr/lib/lua/5.4/lfs.so", "Lua lfs"),
            ("/etc/passwd", ""),
            ("", ""),
        ] {
            let package = Package::of(path.as_bytes());
            let said = package.map(|package| format!("{} {}", package.language.name(), package.name));
            assert_eq!(said.unwrap_or_default(), expected, "{path}");
        }
    }
}
