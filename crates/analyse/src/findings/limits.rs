//! Every limit of every rule, declared once: help, documentation and the check of `--threshold` are made from it.

use super::Threshold;

/// A limit as it is declared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FindingLimit {
    /// The name and its default.
    pub threshold: Threshold,
    /// The figure that is measured against it.
    pub meaning: &'static str,
}

macro_rules! limits {
    ($($constant:ident $name:literal $value:literal $unit:literal $meaning:literal;)*) => {
        $(pub(super) const $constant: FindingLimit = FindingLimit {
            threshold: Threshold { name: $name, value: $value, unit: $unit },
            meaning: $meaning,
        };)*

        /// Every limit. Shape: sorted by name.
        pub const LIMITS: &[FindingLimit] = &[$($constant,)*];
    };
}

// Each figure is that of one recording: several recordings are averaged, so that more ranks do not make more findings.
limits! {
    ABSENT_ATTRIBUTES "absent-attributes" 500.0 "operations"
        "calls such as `getxattr` of a recording that found no extended attribute";
    CHATTY_OUTPUT "chatty-output" 1000.0 "writes"
        "writes to standard output and standard error by each rank of a job";
    COLLECTIVE_BUFFERING "collective-buffering" 1000.0 "writes"
        "writes that are small or leave gaps, to a file that several ranks write";
    FONT_CACHE "font-cache" 200.0 "operations"
        "operations of a recording on fonts and their configuration, for a list of fonts that matplotlib cannot keep";
    JULIA_WITHOUT_IMAGE "julia-without-image" 1000.0 "operations"
        "operations of a recording on Julia's packages, environments and precompiled files";
    LOCALE_FILES "locale-files" 100.0 "operations"
        "operations of a recording on locales and message catalogues, most of them absent";
    LUSTRE_STRIPING "lustre-striping" 104857600.0 "bytes"
        "bytes written to the files of a directory whose stripe count does not suit them";
    MANY_CREATES "many-creates" 1000.0 "files"
        "names that were made in one directory";
    MODULE_RC_FILES "module-rc-files" 20.0 "files"
        "`.modulerc` and `.version` files below the root of a module tree";
    MODULE_TREE_WALK "module-tree-walk" 200.0 "operations"
        "operations of a recording below the directories of MODULEPATH";
    NETWORK_START_UP "network-start-up" 1000.0 "operations"
        "operations of a recording on network file systems";
    OPEN_CLOSE_CHURN "open-close-churn" 200.0 "opens"
        "opens of a recording, by a process that had opened the same file before";
    POLLING "polling" 200.0 "operations"
        "operations of a recording on names and directories that the program waits for";
    PROGRAM_WRAPPERS "program-wrappers" 200.0 "operations"
        "operations of a recording by shims of version managers and by commands such as `poetry run`, before the program";
    PYTHON_BYTECODE "python-bytecode" 50.0 "files"
        "modules of a recording for which no byte code was found";
    PYTHON_DISTRIBUTIONS "python-distributions" 200.0 "operations"
        "operations of a recording on the metadata of Python distributions, which a search for plugins or versions reads one by one";
    PYTHON_IMPORTS "python-imports" 200.0 "files"
        "Python modules that a recording opens one by one";
    PYTHON_USER_SITE "python-user-site" 20.0 "operations"
        "operations of a recording in the user's site directory, which held nothing that was needed";
    READLINK_STORM "readlink-storm" 500.0 "operations"
        "`readlink` calls of a recording on names that are no symbolic link";
    REPEATED_LISTINGS "repeated-listings" 100.0 "operations"
        "calls of a recording that listed a directory again, for directories listed more than 3 times";
    REPEATED_STATS "repeated-stats" 500.0 "operations"
        "operations of a recording by which a program asked again for attributes of unchanged paths, more than 10 times each";
    SEARCH_LIST_MISSES "search-list-misses" 200.0 "operations"
        "operations of a recording that a shorter search list would spare, without idle entries or with all entries in one directory";
    SEARCH_PATH_MISSES "search-path-misses" 200.0 "operations"
        "operations of a recording in entries of one search list that never had what was looked for";
    SMALL_FILE "small-file" 1048576.0 "bytes"
        "the size below which a file is a small one";
    SMALL_FILES_BY_EVERY_RANK "small-files-by-every-rank" 100.0 "files"
        "small files that every rank reads";
    SMALL_REQUEST "small-request" 4096.0 "bytes"
        "the size below which a read or write is a tiny one";
    SMALL_WRITE "small-write" 1048576.0 "bytes"
        "the average size below which writes of several ranks to one file are small";
    TEMPORARY_FILES "temporary-files" 1000.0 "operations"
        "operations of a recording on files that it made and removed again, in directories where it left nothing";
    TINY_READS "tiny-reads" 1000.0 "reads"
        "tiny sequential reads of one file by each rank";
    TINY_WRITES "tiny-writes" 1000.0 "writes"
        "tiny sequential writes to one file by each rank";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sorted_and_distinct() {
        assert!(LIMITS.is_sorted_by(|a, b| a.threshold.name < b.threshold.name));
    }
}
