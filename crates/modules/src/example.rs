//! An example of a module tree, for trials and tests: the one of the cookbook of Environment Modules, "Reduce I/O load", and
//! larger ones of the same shape.
//!
//! Two modulepaths, 15 names in each, four versions of each name. `applications` has a `.version` that sets a default for
//! each name, `libraries` a `.modulerc` that sets a symbolic version. Two names in 15 also have a README, a version that
//! only root may read, and one that asks for Modules 99. Further modulepaths repeat the two shapes.

use crate::ModulesError;
use crate::tools::unless_ended;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The size of an example. The default is that of the cookbook: 116 modulefiles for an ordinary user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExampleSize {
    /// Modulepaths. Range: from 1.
    pub modulepaths: u16,
    /// Names in each.
    pub names: u32,
    /// Versions of each name. Range: from 1.
    pub versions: u16,
    /// Lines of a modulefile after its first. Each is a command that sets a variable.
    pub lines: u16,
}

impl Default for ExampleSize {
    fn default() -> Self {
        Self { modulepaths: 2, names: 15, versions: 4, lines: 0 }
    }
}

/// An example that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The modulepaths, absolute if the given directory was. Shape: in the order in which they were made.
    pub modulepaths: Vec<PathBuf>,
    /// Files that were written, rc files and READMEs included.
    pub files: u64,
    /// Modulefiles that `module avail` lists for an ordinary user.
    pub modulefiles: u64,
}

/// The number of names after which the letters, and the pattern of odd files, start again. Source: the cookbook's `a` to
/// `o`.
const ROUND: u32 = 15;
/// Names of a round that have a README, an unreadable version and one that is too new. Source: the cookbook's `g`, `l`.
const ODD: [u32; 2] = [6, 11];

/// Makes the example in `directory`, which is new or empty.
///
/// **Errors**: [`ModulesError::Occupied`]; [`ModulesError::Write`], also after [`crate::tools::end_flag`] is set. A partial
/// example is removed.
pub fn create(directory: &Path, size: ExampleSize) -> Result<Example, ModulesError> {
    let is_new = !directory.exists();
    let absolute = std::path::absolute(directory).map_err(ModulesError::write(directory))?;
    crate::place::make_trusted_directory(&absolute)?;
    let mut entries = fs::read_dir(directory).map_err(ModulesError::read(directory))?;
    if entries.next().is_some() {
        return Err(ModulesError::Occupied { path: directory.to_owned() });
    }
    let made = fill(directory, size);
    if made.is_err() {
        // The directory was empty. What cannot be removed makes the next attempt fail.
        entries = fs::read_dir(directory).map_err(ModulesError::read(directory))?;
        entries.flatten().for_each(|entry| _ = fs::remove_dir_all(entry.path()));
        _ = is_new.then(|| fs::remove_dir(directory));
    }
    made
}

fn fill(directory: &Path, size: ExampleSize) -> Result<Example, ModulesError> {
    let mut example = Example { modulepaths: Vec::new(), files: 0, modulefiles: 0 };
    for number in 0..size.modulepaths {
        let shape = if number % 2 == 0 { Shape::Applications } else { Shape::Libraries };
        let round = match number / 2 {
            0 => String::new(),
            round => round.to_string(),
        };
        let modulepath = directory.join(format!("{}{round}", shape.directory()));
        for index in 0..size.names {
            name(&modulepath, shape, index, size, &mut example)?;
        }
        example.modulepaths.push(modulepath);
    }
    Ok(example)
}

/// The kind of rc files in a modulepath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Applications,
    Libraries,
}

impl Shape {
    fn directory(self) -> &'static str {
        match self {
            Self::Applications => "applications",
            Self::Libraries => "libraries",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Applications => "app",
            Self::Libraries => "lib",
        }
    }

    /// The name and the content of the rc file of a name.
    fn rc(self, name: &str, versions: u16) -> (&'static str, String) {
        match self {
            Self::Applications => {
                (".version", format!("#%Module\nset ModulesVersion {}.0\n", versions.min(2)))
            }
            Self::Libraries => {
                (".modulerc", format!("#%Module\nmodule-version {name}/{}.0 sym\n", versions.min(3)))
            }
        }
    }
}

fn name(
    modulepath: &Path,
    shape: Shape,
    index: u32,
    size: ExampleSize,
    example: &mut Example,
) -> Result<(), ModulesError> {
    let letter = char::from_u32(u32::from('a') + index % ROUND).expect("a letter from a to o");
    let round = if index < ROUND { String::new() } else { (index / ROUND).to_string() };
    let name = format!("{}{letter}{round}", shape.prefix());
    let directory = modulepath.join(&name);
    unless_ended().map_err(ModulesError::write(&directory))?;
    fs::create_dir_all(&directory).map_err(ModulesError::write(&directory))?;
    let mut write = |file: &str, content: &str| {
        let path = directory.join(file);
        example.files += 1;
        fs::write(&path, content).map_err(ModulesError::write(&path)).map(|()| path)
    };
    let (rc, content) = shape.rc(&name, size.versions);
    write(rc, &content)?;
    for version in 1..=size.versions {
        write(&format!("{version}.0"), &modulefile(&name, version, size.lines))?;
    }
    example.modulefiles += u64::from(size.versions);
    if ODD.contains(&(index % ROUND)) {
        write("README", "")?;
        write(&format!("{}.0", size.versions.saturating_add(1)), "#%Module99\n")?;
        let hidden = directory.join("1.0");
        fs::set_permissions(&hidden, PermissionsExt::from_mode(0o200))
            .map_err(ModulesError::write(&hidden))?;
        example.modulefiles -= 1;
    }
    Ok(())
}

fn modulefile(name: &str, version: u16, lines: u16) -> String {
    let mut text = String::from("#%Module\n");
    for line in 0..lines {
        // Writing to a string cannot fail.
        _ = match line % 3 {
            0 => writeln!(text, "setenv {}_{line} /apps/{name}/{version}.0", name.to_uppercase()),
            1 => writeln!(text, "prepend-path PATH /apps/{name}/{version}.0/bin{line}"),
            _ => writeln!(text, "prepend-path LD_LIBRARY_PATH /apps/{name}/{version}.0/lib{line}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(size: ExampleSize) -> (tempfile::TempDir, Example) {
        let directory = tempfile::tempdir().unwrap();
        let example = create(directory.path(), size).unwrap();
        (directory, example)
    }

    #[test]
    fn the_cookbook_has_116_modulefiles() {
        let (directory, example) = made(ExampleSize::default());
        // 30 rc files, 120 modulefiles, 4 READMEs, 4 of Modules 99.
        assert_eq!((example.files, example.modulefiles), (158, 116));
        assert_eq!(
            example.modulepaths,
            ["applications", "libraries"].map(|name| directory.path().join(name))
        );
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("applications/appa/.version"), "#%Module\nset ModulesVersion 2.0\n");
        assert_eq!(read("libraries/libo/.modulerc"), "#%Module\nmodule-version libo/3.0 sym\n");
        assert_eq!(read("libraries/libl/5.0"), "#%Module99\n");
        let mode = fs::metadata(directory.path().join("applications/appl/1.0")).unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0);
        assert!(matches!(
            create(directory.path(), ExampleSize::default()),
            Err(ModulesError::Occupied { path }) if path == directory.path()
        ));
    }

    #[test]
    fn scaled_it_keeps_the_pattern() {
        let (_directory, example) = made(ExampleSize { names: 250, ..ExampleSize::default() });
        assert_eq!(example.modulefiles, 1934);
        let (directory, example) = made(ExampleSize { modulepaths: 3, names: 16, versions: 1, lines: 4 });
        assert_eq!(example.modulepaths[2], directory.path().join("applications1"));
        let text = fs::read_to_string(directory.path().join("applications/appa1/1.0")).unwrap();
        assert_eq!(text.lines().count(), 5);
        assert!(text.starts_with("#%Module\nsetenv APPA1_0 /apps/appa1/1.0\nprepend-path PATH "), "{text}");
    }
}
