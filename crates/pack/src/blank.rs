//! An image that holds nothing: the first one where nothing can be recorded. Runs from it ask the originals, and a
//! [`refresh`](crate::refresh()) with what they learned fills it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::error::PackError;
use crate::job::PackJob;
use crate::options::PackOptions;
use crate::outcome::Packed;
use crate::path_tree::PathTree;
use crate::roots::RootScope;

/// Writes an image of `options.roots`, and of nothing below them, at `target`, for runs of `command`.
///
/// **Errors** see [`PackError`]; whatever it is, `target` is as it was.
pub fn pack_blank(
    command: &[OsString],
    target: &Path,
    options: &PackOptions,
    directory: PathBuf,
) -> Result<Packed, PackError> {
    let roots = options.roots.iter().map(|path| crate::absolute(path)).collect::<Result<Vec<_>, _>>()?;
    let mut asked = PathTree::default();
    roots.iter().for_each(|root| asked.seen(root).touched = true);
    let job = PackJob {
        scope: RootScope::Given(&roots, options.roots_by),
        command: command.iter().map(|word| word.clone().into_vec()).collect(),
        directory: directory.into_os_string().into_vec(),
        beyond: options.beyond,
        added: Vec::new(),
        target,
        audience: options.audience,
        form: options.form,
        hold: options.hold,
    };
    job.run(asked, &mut |_, _| Ok(()), &mut |_| {})
}
