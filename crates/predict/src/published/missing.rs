//! Published figures that cannot be reproduced, and what would have to be known.

/// A figure that no row can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFigure {
    /// The document.
    pub source: &'static str,
    /// Its claim.
    pub what: &'static str,
    /// The facts that would have to be known.
    pub lacks: &'static str,
}

/// Every one.
pub const MISSING: &[MissingFigure] = &[
    MissingFigure {
        source: HOPPER,
        what: "Warp with DLFM starts in around 7 minutes at 40K cores",
        lacks: "operations that each rank still asks for (458 of 5020 would explain it alone; a bare Python asks for 917), size and \
                striping of the DLcache file (100 MB: 5 s over all targets, 569 s from one), form of the broadcast",
    },
    MissingFigure {
        source: HOPPER,
        what: "Pynamic on five file systems, Figures 1 and 2; start-up by parts, Figures 8 and 9",
        lacks: "the numbers: the figures' values are not in the text",
    },
    MissingFigure {
        source: "Kelly et al. 2011, cited by Zhao et al.",
        what: "Pynamic starts in 30 minutes at 32K cores of Cielo, from 50 I/O servers",
        lacks: "what the servers keep, cores of a node: 32 MB/s a server if each node reads 1.39 GB once",
    },
    MissingFigure {
        source: HOPPER,
        what: "without the shared root Pynamic could not run beyond 2048 cores",
        lacks: "a failure, not a time: predictions say how far a server is over capacity, and that failures are possible",
    },
    MissingFigure {
        source: "EPCC 2017",
        what: "import of Firedrake takes about 45 minutes on 1000 nodes of ARCHER, 24 000 interpreters",
        lacks: "operations of one import: Warp's 5020 from Hopper's /scratch would give the same 45 minutes, by coincidence",
    },
    MissingFigure {
        source: "python-mpi-bcast",
        what: "40 s on 1024 ranks, under 2 minutes on 98 304, 4 minutes on 127 440, with a bundle of 300 MB",
        lacks: "time to unpack on a node, and what is still asked of the file system",
    },
    MissingFigure {
        source: "scalable-python on BlueGene",
        what: "45 minutes become 45 s",
        lacks: "scale and operations; the ratio of 60 alone follows from any number of ranks that no longer ask",
    },
    MissingFigure {
        source: "glotzerlab/software pull request 335, 2023",
        what: "import of `flow` and other packages takes around 500 s on 64 nodes of Frontier, 56 ranks each, from NFS",
        lacks: "the other packages, hence the operations, and for how long clients of that NFS keep names",
    },
    MissingFigure {
        source: "julia-mpi-fsbench, Paderborn 2022",
        what: "a Julia program with 32 000 ranks on 500 nodes of Noctua 2 takes 34 s with its packages on Lustre and 156 s with them in \
               the home directory; 5.3 s and 5.7 s on one node",
        lacks: "operations of one start; the times are the least of five runs, warm, and hold MPI_Init and a broadcast of 200 MB",
    },
    MissingFigure {
        source: "Langton, numpy-discussion, 2012",
        what: "32K processes of BlueGene/P import 100 C extensions in 5.5 hours, and in 6 minutes where one rank looks for them",
        lacks: "directories of the search path, hence the failed opens; the file system, and what its I/O nodes keep",
    },
    MissingFigure {
        source: "desihub/redrock issue 217, 2022",
        what: "imports take about a minute in 128 processes on one node of Perlmutter",
        lacks: "operations and computing of the imports",
    },
    MissingFigure {
        source: "Spindle, ICS 2013",
        what: "more than ten hours for 16K processes to reach main",
        lacks: "operations, file system, cores of a node",
    },
    MissingFigure {
        source: "Lewars, Spectrum Scale Performance v1.2.1",
        what: "creates against tasks of a node, and reads of one mapped file, as charts",
        lacks: "the charts' values",
    },
    MissingFigure {
        source: COURSE,
        what: "dump of 6.4 GB from 8000 PEs takes over 5 minutes",
        lacks: "writes of each PE: 10 would be lock hand-overs of 30 ms, 100 of 3 ms; only the lower bound is judged",
    },
    MissingFigure {
        source: COURSE,
        what: "one writer over 1 to 160 stripes; collective buffering 0, 1, 2",
        lacks: "the plots' values",
    },
    MissingFigure {
        source: "Tovar, Scaling Up Julia",
        what: "total meltdown of the shared file system at a thousand nodes; a run of 10 s becomes one of 0.5 s",
        lacks: "a time at scale; the 10 s include compiling, and which example is not said: at most 0.8 ms a stat()",
    },
    MissingFigure {
        source: "UCX issue 6658, Flux issue 1469",
        what: "MPI_Init takes 68 to 72 s on 76 000 ranks; a launch 7.5 minutes on 2048 nodes",
        lacks: "not the file system's time: `predict` keeps it apart",
    },
];

const HOPPER: &str = "Zhao et al., Shared library performance on Hopper";
const COURSE: &str = "Cray and KTH: Optimizing I/O";
