//! Copies of modulepaths that a measurement may change.

use crate::ModulesError;
use crate::copy::{Copying, Purpose, attributes, make_directory};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Copies each modulepath into a new directory below `to`, named by its last component; a repeated name gets a number.
///
/// Shape: the copies, in the same order.
///
/// **Errors**: those of reading and writing; [`ModulesError::Within`].
pub(super) fn modulepaths(modulepaths: &[PathBuf], to: &Path) -> Result<Vec<PathBuf>, ModulesError> {
    crate::place::make_trusted_directory(to)?;
    let to = to.canonicalize().map_err(ModulesError::read(to))?;
    let mut pairs: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (number, modulepath) in modulepaths.iter().enumerate() {
        let name = modulepath.file_name().unwrap_or("modulepath".as_ref());
        let mut copy = to.join(name);
        if pairs.iter().any(|(_, taken)| *taken == copy) {
            let mut numbered = OsString::from(name);
            numbered.push(format!(".{}", number + 1));
            copy = to.join(numbered);
        }
        // The modulepath itself may be a link; its content counts.
        pairs.push((modulepath.canonicalize().map_err(ModulesError::read(modulepath))?, copy));
    }
    if let Some((modulepath, _)) = pairs.iter().find(|(source, _)| to.starts_with(source)) {
        return Err(ModulesError::Within { path: to, modulepath: modulepath.clone() });
    }
    for (source, copy) in &pairs {
        make_directory(copy).map_err(ModulesError::write(copy))?;
        let copying =
            Copying { root: source, copies: &pairs, purpose: Purpose::Trial, leaves_out: &|_| false };
        let original = copying.copy(copy)?;
        attributes(&original, copy).map_err(ModulesError::write(copy))?;
    }
    Ok(pairs.into_iter().map(|(_, copy)| copy).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_out_of_a_tree_lead_to_the_same_file_and_between_trees_to_the_copy() {
        let directory = tempfile::tempdir().unwrap();
        let site = directory.path().canonicalize().unwrap();
        for tree in ["one/modules", "two/modules"] {
            fs::create_dir_all(site.join(tree).join("foo")).unwrap();
            fs::write(site.join(tree).join("foo/1.0"), tree).unwrap();
        }
        fs::write(site.join("common"), "common").unwrap();
        symlink("../../../common", site.join("one/modules/foo/2.0")).unwrap();
        symlink("../../../two/modules/foo/1.0", site.join("one/modules/foo/3.0")).unwrap();
        let trees = ["one/modules", "two/modules"].map(|tree| site.join(tree));
        let work = site.join("work");
        let copies = modulepaths(&trees, &work).unwrap();
        assert_eq!(copies, ["modules", "modules.2"].map(|name| work.join(name)));
        assert_eq!(fs::read_to_string(copies[0].join("foo/2.0")).unwrap(), "common");
        let within = modulepaths(&trees, &trees[1].join("work"));
        assert!(matches!(within, Err(ModulesError::Within { .. })), "{within:?}");
        assert_eq!(copies[0].join("foo/3.0").canonicalize().unwrap(), copies[1].join("foo/1.0"));
    }
}
