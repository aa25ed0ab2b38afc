//! Pynamic as source 003 configured it: 280 libraries that are imported as Python modules, 215 that those need, 1.39 GB, with
//! the two that this repository's own generated application adds: a base library, and a first module that brings all in.
//!
//! Three phases, as Pynamic reports them. Launch: the program and the loader. Import: each module is looked for on the
//! search path and loaded, the first with all utility libraries. Visit: every function is called once, which asks no
//! file system for names and touches pages: the trace says which part of each library is touched.

use super::script::{Dynamic, Script};
use super::share::{part, share};
use quell_trace::{Call, Nanos};

/// The size of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct PynamicShape {
    /// Libraries that are imported as modules, besides the first.
    pub modules: u32,
    /// Libraries that these need, besides the base.
    pub utilities: u32,
    /// Directories of the search path, over which the libraries are spread evenly. Range: 1 and up.
    pub entries: u32,
    /// All libraries together. Unit: bytes.
    pub bytes: u64,
    /// Part of each library that is touched. Unit: percent.
    pub touched: u8,
    /// The time of the visit.
    pub visit: Nanos,
}

impl Default for PynamicShape {
    fn default() -> Self {
        // Touched: 442 of 1387 MB, as bench/results/pynamic.md has it.
        Self { modules: 280, utilities: 215, entries: 1, bytes: 1_390_000_000, touched: 32, visit: Nanos(0) }
    }
}

/// Sizes differ by so much from the mean. Unit: percent.
const SPREAD: u64 = 20;

impl PynamicShape {
    pub(super) fn calls(&self) -> u64 {
        self.libraries() * (12 + 2 * u64::from(self.entries))
    }

    fn libraries(&self) -> u64 {
        u64::from(self.modules) + u64::from(self.utilities) + 2
    }

    pub(super) fn play(&self, script: &mut Script) {
        let utilities: Vec<String> =
            (0..self.utilities).map(|number| format!("libutility{number:03}.so")).collect();
        let utilities: Vec<String> = std::iter::once("libbase.so".to_owned()).chain(utilities).collect();
        let modules = (0..self.modules).map(|number| format!("module{number:03}"));
        let modules: Vec<String> = std::iter::once("opening".to_owned()).chain(modules).collect();
        self.declare(script, &utilities, &modules);
        let path: Vec<String> = (0..self.entries).map(|entry| script.at(&directory(entry))).collect();
        let variables = [("LD_LIBRARY_PATH", path.join(":"))];
        script.execute("bin/pyMPI", 4_000_000, &[], &variables);
        script.load_c_library();
        for (number, module) in modules.iter().enumerate() {
            self.import(script, number as u32, module, if number == 0 { &utilities } else { &[] });
        }
        script.section(self.visit);
    }

    fn declare(&self, script: &mut Script, utilities: &[String], modules: &[String]) {
        (0..self.entries).for_each(|entry| script.directory(&directory(entry)));
        for (number, name) in utilities.iter().enumerate() {
            let needed = if number == 0 { Vec::new() } else { vec!["libbase.so".to_owned()] };
            let at = format!("{}/{name}", directory(self.entry(number as u32)));
            script.elf(&at, self.size(number as u64), Dynamic { is_program: false, needed });
        }
        for (number, name) in modules.iter().enumerate() {
            let some = |step: usize| utilities.get(1 + (number * 7 + step) % utilities.len().max(2)).cloned();
            let needed = if number == 0 { utilities.to_vec() } else { (0..2).filter_map(some).collect() };
            let at = format!("{}/{name}.so", directory(self.entry(number as u32)));
            let size = self.size((utilities.len() + number) as u64);
            script.elf(&at, size, Dynamic { is_program: false, needed });
        }
    }

    /// The directory of a library.
    fn entry(&self, number: u32) -> u32 {
        number % self.entries.max(1)
    }

    /// Sizes go up and down around the mean, and add up to what was asked for.
    fn size(&self, number: u64) -> u64 {
        let count = self.libraries();
        let mean = share(self.bytes, count, number);
        // A library and its neighbour differ from the mean by the same, one up and one down; a last single one not.
        let swing = part(self.bytes / count, (number / 2 * 7) % (SPREAD + 1), 100);
        match (number % 2, number + 1 == count) {
            (0, true) => mean,
            (0, false) => mean + swing,
            _ => mean - swing,
        }
    }

    fn import(&self, script: &mut Script, number: u32, module: &str, needed: &[String]) {
        let at = self.entry(number);
        for entry in 0..at {
            script.ask(Call::Stat, &format!("{}/{module}", directory(entry)));
            script.open(&format!("{}/{module}.so", directory(entry)));
        }
        script.ask(Call::Stat, &format!("{}/{module}", directory(at)));
        // Python opens it to see that it is there; the loader opens it again.
        let found = format!("{}/{module}.so", directory(at));
        if let Some(fd) = script.open(&found) {
            script.fstat(fd);
            script.close(fd);
        }
        script.load(&found, self.touched.into());
        for (number, name) in needed.iter().enumerate() {
            for entry in 0..=self.entry(number as u32) {
                script.load(&format!("{}/{name}", directory(entry)), self.touched.into());
            }
        }
    }
}

fn directory(entry: u32) -> String {
    format!("lib{entry:03}")
}
