//! The reader of a file by its name: code, a library, MPI, the system.

use quell_trace::loaded::{is_code, is_library};
use quell_trace::{PathId, PathTable};

/// The meaning of a name. Shape: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameKind(u8);

impl NameKind {
    /// It was looked at.
    const KNOWN: u8 = 1;
    /// A file of code or configuration that an interpreter loads.
    const CODE: u8 = 2;
    const LIBRARY: u8 = 4;
    const MPI_LIBRARY: u8 = 8;
    const LANDMARK: u8 = 16;
    const SYSTEM: u8 = 32;

    pub(super) fn is_code(self) -> bool {
        self.0 & Self::CODE != 0
    }

    pub(super) fn is_library(self) -> bool {
        self.0 & Self::LIBRARY != 0
    }

    /// The library whose `MPI_Init` a program calls.
    pub(super) fn is_mpi_library(self) -> bool {
        self.0 & Self::MPI_LIBRARY != 0
    }

    /// MPI looks for it while it initialises, and hardly any other program.
    pub(super) fn is_landmark(self) -> bool {
        self.0 & Self::LANDMARK != 0
    }

    /// The kernel's and the node's: MPI and all others look for it at any time.
    pub(super) fn is_system(self) -> bool {
        self.0 & Self::SYSTEM != 0
    }

    fn of(path: &[u8]) -> Self {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let starts =
            |prefixes: &[&[u8]], bytes: &[u8]| prefixes.iter().any(|prefix| bytes.starts_with(prefix));
        let library = is_library(name);
        let lazy = starts(LAZY, name);
        let landmark = !lazy
            && (starts(LANDMARK_NAMES, name)
                || starts(LANDMARK_PATHS, path)
                || is_topology(path)
                || is_descriptor_of_another(path)
                || LANDMARK_DIRECTORIES.contains(&name)
                || library && name.windows(PROVIDER.len()).any(|part| part == PROVIDER)
                || path.split(|&byte| byte == b'/').any(|part| starts(SESSIONS, part)));
        let bits = [
            (true, Self::KNOWN),
            (is_code(name), Self::CODE),
            (library, Self::LIBRARY),
            (library && starts(MPI_LIBRARIES, name), Self::MPI_LIBRARY),
            (landmark, Self::LANDMARK),
            (starts(SYSTEM, path) || path == b"/", Self::SYSTEM),
        ];
        Self(bits.iter().filter(|(applies, _)| *applies).map(|(_, bit)| bit).sum())
    }
}

/// The kinds of a recording's paths. Shape: one entry a path, found when it is asked for.
#[derive(Debug)]
pub(super) struct NameKinds(Vec<NameKind>);

impl NameKinds {
    pub(super) fn new(paths: &PathTable) -> Self {
        Self(vec![NameKind::default(); paths.len()])
    }

    pub(super) fn of(&mut self, paths: &PathTable, path: PathId) -> NameKind {
        let Some(kind) = self.0.get_mut(path.0 as usize) else { return NameKind::default() };
        if *kind == NameKind::default() {
            *kind = NameKind::of(paths.bytes(path));
        }
        *kind
    }
}

/// Names that hwloc reads of each processor. The C library and libnuma read other names there.
fn is_topology(path: &[u8]) -> bool {
    let processor = path.strip_prefix(b"/sys/devices/system/cpu/cpu").unwrap_or_default();
    processor.splitn(2, |&byte| byte == b'/').nth(1).is_some_and(|name| name.starts_with(b"topology"))
}

/// `/proc/1234/fd/5`, by which UCX attaches to the memory of a neighbour. A program's own are below `/proc/self`.
fn is_descriptor_of_another(path: &[u8]) -> bool {
    let mut parts = path.strip_prefix(b"/proc/").unwrap_or_default().split(|&byte| byte == b'/');
    parts.next().is_some_and(|pid| pid.iter().all(u8::is_ascii_digit)) && parts.next() == Some(b"fd")
}

/// Of Open MPI, MPICH and those derived from it.
const MPI_LIBRARIES: &[&[u8]] = &[b"libmpi.so", b"libmpich", b"libmpi_", b"libmpicxx", b"libmpifort"];
/// Seen with Open MPI 4.1, PMIx 2 and 4, MPICH 4.0 and UCX 1.13.
const LANDMARK_NAMES: &[&[u8]] = &[
    b"mca_",
    b"mca-params.conf",
    b"openmpi-mca-params",
    b"pmix-mca-params",
    b"pmix_mca_",
    b"libpmix",
    b"libpmi",
    b"libuct_",
    b"hwloc_",
];
/// Directories of components.
const LANDMARK_DIRECTORIES: &[&[u8]] = &[b"hwloc", b"ucx", b"openmpi", b"openmpi3", b"pmix"];
const LANDMARK_PATHS: &[&[u8]] = &[
    b"/dev/shm/vader_segment",
    b"/dev/shm/sm_segment",
    b"/dev/shm/open_mpi",
    b"/dev/shm/mpich_sh",
    b"/dev/shm/ucx_shm",
    b"/dev/shm/psm",
    b"/dev/infiniband",
    b"/dev/cxi",
    b"/sys/class/infiniband",
    b"/sys/class/cxi",
];
/// Session directories.
const SESSIONS: &[&[u8]] = &[b"ompi.", b"prte.", b"pmix_dstor", b"openmpi-sessions"];
/// A provider of libfabric: `libpsm2-fi.so`.
const PROVIDER: &[u8] = b"-fi.so";
/// Components that Open MPI loads when a file is opened for the first time.
const LAZY: &[&[u8]] = &[b"mca_io_", b"mca_fs_", b"mca_fcoll_", b"mca_fbtl_", b"mca_sharedfp_"];
const SYSTEM: &[&[u8]] = &[b"/proc", b"/sys", b"/dev", b"/etc", b"/run", b"/usr/share/misc/"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_libraries_code_and_landmarks() {
        for (path, library, code, landmark) in [
            ("/usr/lib/libm.so.6", true, false, false),
            ("/a/_x.cpython-311-x86_64-linux-gnu.so", true, false, false),
            ("/a/module.py", false, true, false),
            ("/a/notes.source", false, false, false),
            ("/usr/lib/openmpi3/mca_btl_self.so", true, false, true),
            ("/usr/lib/openmpi3/mca_io_ompio.so", true, false, false),
            ("/usr/lib/openmpi/lib/libopen-rte.so.40", true, false, false),
            ("/dev/shm/vader_segment.n.0.1", false, false, true),
            ("/sys/devices/system/cpu/online", false, false, false),
            ("/sys/devices/system/cpu/cpu0/topology/core_id", false, false, true),
            ("/tmp/ompi.n.0/pid.7/1/0", false, false, true),
            ("/proc/1234/fd/5", false, false, true),
            ("/proc/1234/stat", false, false, false),
            ("/root/ucx.conf", false, true, false),
            ("/usr/lib/libfabric/libpsm2-fi.so", true, false, true),
        ] {
            let kind = NameKind::of(path.as_bytes());
            let found = (kind.is_library(), kind.is_code(), kind.is_landmark());
            assert_eq!(found, (library, code, landmark), "{path}");
        }
        assert!(
            NameKind::of(b"/lib/libmpi.so.40").is_mpi_library()
                && NameKind::of(b"/lib/libmpich.so.12").is_mpi_library()
        );
        assert!(!NameKind::of(b"/lib/libmpiwrapper.so").is_mpi_library());
    }
}
