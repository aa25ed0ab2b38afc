//! The list of files by which a CVMFS client fetches what a start needs when its first file is opened.
//!
//! A repository has the list beside the file that triggers it, under the name `.cvmfsbundle-NAME`; clients from version 2.14 on use it
//! where `CVMFS_PREFETCH_FILEBUNDLES` is set. Source: cvmfs/cvmfs, pull request 4002. Its form:
//!
//! ```json
//! {"name": "CVMFS_BUNDLE", "version": "1.0.0", "encoding": "UTF-8", "dependencies": ["/path/from/the/repository"]}
//! ```

use crate::plan::WarmPlan;

/// A list for one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The repository, such as `/cvmfs/sft.cern.ch`.
    pub repository: String,
    /// The file whose opening fetches the others: the first that is read. A path from the repository.
    pub trigger: String,
    /// The others, in order of first access. Paths from the repository.
    pub dependencies: Vec<String>,
    /// Files that are not in the list: those of other repositories, and names that are no text.
    pub left_out: u64,
}

/// The list of the files that `plan` reads of the first repository that it reads from; `None` where it reads from none.
pub fn bundle(plan: &WarmPlan) -> Option<Bundle> {
    let mut read: Vec<_> =
        plan.names.iter().filter_map(|name| Some((name.data.as_ref()?.at, &name.path))).collect();
    read.sort_unstable();
    let of_cvmfs = |path: &std::path::PathBuf| path.starts_with(PLACE) && path.components().count() > 3;
    let mut files = read.into_iter().map(|(_, path)| path).filter(|path| of_cvmfs(path));
    let mut bundle =
        Bundle { repository: String::new(), trigger: String::new(), dependencies: Vec::new(), left_out: 0 };
    for file in &mut files {
        let split = file.to_str().and_then(|path| {
            let name = path.strip_prefix(PLACE)?.strip_prefix('/')?;
            Some(path.split_at(PLACE.len() + 1 + name.find('/')?))
        });
        match split {
            Some((repository, path)) if bundle.trigger.is_empty() => {
                (bundle.repository, bundle.trigger) = (repository.to_owned(), path.to_owned());
            }
            Some((repository, path)) if repository == bundle.repository => {
                bundle.dependencies.push(path.to_owned());
            }
            _ => bundle.left_out += 1,
        }
    }
    (!bundle.trigger.is_empty()).then_some(bundle)
}

impl Bundle {
    /// The path at which the repository must have the list.
    pub fn place(&self) -> String {
        let (directory, name) = self.trigger.rsplit_once('/').unwrap_or(("", &self.trigger));
        format!("{}{directory}/.cvmfsbundle-{name}", self.repository)
    }
}

/// Repositories are mounted here.
const PLACE: &str = "/cvmfs";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedData;

    #[test]
    fn the_first_file_of_a_repository_brings_its_others() {
        let mut plan = WarmPlan::default();
        for (at, path) in [
            (1, "/usr/lib/a.so"),
            (2, "/cvmfs/sw.org/v1/bin/python"),
            (5, "/cvmfs/sw.org/v1/lib/b.so"),
            (4, "/cvmfs/sw.org/v1/lib/c.so"),
            (6, "/cvmfs/other.org/d"),
        ] {
            plan.name(path.as_bytes(), 0).data = Some(PlannedData { at, ..PlannedData::default() });
        }
        plan.name(b"/cvmfs/sw.org/v1/only-looked-up", 3);
        plan.name(b"/cvmfs/sw.org/\xff", 3).data = Some(PlannedData { at: 9, ..PlannedData::default() });
        let found = bundle(&plan).unwrap();
        assert_eq!(found.place(), "/cvmfs/sw.org/v1/bin/.cvmfsbundle-python");
        assert_eq!(found.dependencies, ["/v1/lib/c.so", "/v1/lib/b.so"]);
        assert_eq!(found.left_out, 2);
        assert_eq!(bundle(&WarmPlan::default()), None);
    }
}
