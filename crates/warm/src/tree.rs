//! A directory with everything below it: level by level, then the data of its files in the order of their paths.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quell_base::parallel::in_parallel;
use rustix::fs::{FileType, Stat};

use crate::in_memory::InMemory;
use crate::reading::{ReadBudget, Reading, attributes, pieces};
use crate::spread::spread;
use crate::tally::{Tally, Warmed, count};
use crate::warmer::{Warmer, list, read_link};

impl Warmer<'_> {
    /// Reads names, attributes, listings, links and data of everything below `directory`. Links are not followed, and other file
    /// systems not entered.
    ///
    /// # Errors
    /// Those of the directory itself. Names below it that cannot be read are counted.
    pub fn tree(&self, directory: &Path) -> io::Result<Warmed> {
        let top = directory.canonicalize()?;
        let device = attributes(&top)?.st_dev;
        let (in_memory, tally) = (InMemory::of_this_node(), Tally::default());
        let files = self.walk(top, device, &tally);
        let pieces: Vec<_> = files
            .iter()
            .flat_map(|(path, size)| {
                pieces(Cow::Borrowed(path.as_path()), None, std::slice::from_ref(&(0..*size)))
            })
            .collect();
        let budget = ReadBudget::new(self.budget);
        let reading = Reading { in_memory: &in_memory, tally: &tally, budget, counts_names: false };
        self.each(&pieces, &tally, |piece| piece.read(&reading, &|| !(self.stop)()));
        Ok(tally.so_far())
    }

    /// Asks for the names below `top`. Returns the files with their sizes, sorted by path.
    fn walk(&self, top: PathBuf, device: u64, tally: &Tally) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        // A directory may be mounted below itself.
        let mut met = HashSet::new();
        let mut level = vec![top];
        while !level.is_empty() && !(self.stop)() {
            let mut found = self.entries(&level, tally);
            found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            level.clear();
            for (path, stat) in found {
                let kind = FileType::from_raw_mode(stat.st_mode);
                if kind.is_file() {
                    files.push((path, stat.st_size.cast_unsigned()));
                } else if kind.is_dir() && stat.st_dev == device && met.insert(stat.st_ino) {
                    level.push(path);
                }
            }
        }
        files.sort_unstable();
        files
    }

    /// Lists each of `directories`, and looks up what is in it.
    fn entries(&self, directories: &[PathBuf], tally: &Tally) -> Vec<(PathBuf, Stat)> {
        let listed = in_parallel(directories, self.in_flight, |directory| {
            let names = if (self.stop)() { Vec::new() } else { list(directory, tally) };
            (self.progress)(tally.so_far());
            names.into_iter().map(|name| directory.join(OsStr::from_bytes(&name))).collect()
        });
        let spread = spread(listed, |path| path.parent().map(Path::to_owned));
        in_parallel(&spread, self.in_flight, |path| {
            let stat = if (self.stop)() { None } else { look(path, tally) };
            (self.progress)(tally.so_far());
            stat.map(|stat| (path.clone(), stat)).into_iter().collect()
        })
    }
}

/// Reads the attributes of a name, and its target where it is a link.
fn look(path: &Path, tally: &Tally) -> Option<Stat> {
    let Ok(stat) = attributes(path) else {
        count(&tally.skipped);
        return None;
    };
    tally.named();
    if FileType::from_raw_mode(stat.st_mode).is_symlink() {
        read_link(path, tally);
    }
    Some(stat)
}
