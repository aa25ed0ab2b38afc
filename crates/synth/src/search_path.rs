//! A search path: a program needs libraries, and the loader looks for each in one directory after the other.

use super::script::{Dynamic, Script};

/// A path and what is looked for on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPathShape {
    /// Directories. Range: 1 and up.
    pub entries: u32,
    /// Names that are looked for.
    pub names: u32,
    /// Their places.
    pub positions: LibraryPositions,
    /// Of each file. Unit: bytes.
    pub bytes: u64,
}

/// The directory that holds each name, counted from 1; 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryPositions {
    /// As many names in each directory as in any other, as near as can be.
    Uniform,
    /// These, and from their begin again when there are more names. Shape: not empty.
    Given(Vec<u32>),
}

impl SearchPathShape {
    pub(super) fn calls(&self) -> u64 {
        u64::from(self.names) * (6 + u64::from(self.entries)) + 10
    }

    /// The directory that holds a name, counted from 1; 0 for none.
    fn position(&self, number: u32) -> u32 {
        match &self.positions {
            LibraryPositions::Uniform => number % self.entries + 1,
            LibraryPositions::Given(list) => {
                list.get(number as usize % list.len().max(1)).copied().unwrap_or(0)
            }
        }
    }

    pub(super) fn play(&self, script: &mut Script) {
        let directory = |entry: u32| format!("entry{entry:03}");
        (1..=self.entries).for_each(|entry| script.directory(&directory(entry)));
        let name = |number: u32| format!("libname{number:04}.so");
        for number in 0..self.names {
            let position = self.position(number);
            if (1..=self.entries).contains(&position) {
                script.elf(
                    &format!("{}/{}", directory(position), name(number)),
                    self.bytes,
                    Dynamic::default(),
                );
            }
        }
        let path: Vec<String> = (1..=self.entries).map(|entry| script.at(&directory(entry))).collect();
        let needed: Vec<String> = (0..self.names).map(name).collect();
        script.execute("bin/program", 100_000, &needed, &[("LD_LIBRARY_PATH", path.join(":"))]);
        for number in 0..self.names {
            let mut entries = 1..=self.entries;
            // The loader stops at the first directory that holds the name.
            _ = entries.any(|entry| script.load(&format!("{}/{}", directory(entry), name(number)), 100));
        }
        script.load_c_library();
    }
}
