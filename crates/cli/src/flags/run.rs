//! The flags of `quell run`.

use super::AutoFlags;
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use quell_base::Bytes;
use std::ffi::OsString;
use std::path::PathBuf;

/// Headings of the help.
const IMAGE: &str = "Image";
const NODES: &str = "Nodes that share an image";

/// Run a command with an image mounted in place of the directories that it was made from, in a namespace of its own: no
/// root, no change to the program.
///
/// The original answers for files that the image does not hold, and for those that have changed since it was packed; writes
/// reach the original. The first rank on a node makes
/// the namespace, later ranks join it. On a node that allows no mount, the command runs plain and quell gives the reason.
///
/// Exit status: the command's own; 1 when originals have changed and `--on-stale fail` or `--require` is given; 125 when quell failed, 126 when
/// the command cannot be executed, 127 when it is not found.
#[derive(Debug, Args)]
#[command(
    override_usage = "quell run [OPTIONS] IMG -- CMD [ARG]...\n       quell run [OPTIONS] --auto -- CMD [ARG]...\n       \
                      quell run [OPTIONS] --output FILE -- CMD [ARG]...\n       \
                      quell run [OPTIONS] --scratch DIR -- CMD [ARG]...\n       \
                      quell run [OPTIONS] --gather DIR -- CMD [ARG]...\n       \
                      quell run [OPTIONS] --buffer DIR -- CMD [ARG]..."
)]
#[command(after_help = "Examples:\n  \
    quell run --auto -- python3 app.py\n  \
    quell run app.qimg -- python3 app.py\n  \
    srun -N 64 quell run app.qimg -- python3 app.py\n  \
    srun -N 64 quell run --output 'log.%h' --label -- ./simulate\n  \
    srun -N 64 quell run --scratch tmp app.qimg -- python3 app.py\n  \
    srun -N 64 quell run --gather results -- ./simulate in.dat\n  \
    srun -N 64 quell run --buffer 'out/*.dat:size=4M,private' -- ./simulate\n  \
    quell run --stats stats.json app.qimg -- ./simulate in.dat")]
pub struct Run {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// The image is found.
    #[command(flatten)]
    pub auto: AutoFlags,
    /// The ranks that compare the image with its originals before the command starts.
    #[arg(long, value_enum, default_value_t, env = "QUELL_CHECK", help_heading = IMAGE)]
    pub check: CheckFlag,
    /// Effect of originals that have changed since the image was packed. With `--require`: `fail`.
    #[arg(long, value_enum, default_value_t, env = "QUELL_ON_STALE", help_heading = IMAGE)]
    pub on_stale: OnStaleFlag,
    /// Fail, rather than run the command plain, where the image cannot be used.
    #[arg(long, env = "QUELL_REQUIRE", value_parser = FalseyValueParser::new())]
    pub require: bool,
    /// Write what was asked of the image and of the originals to this file, as JSON, when the command has ended, and again when the
    /// last process of the node's ranks has.
    #[arg(long, value_name = "FILE", env = "QUELL_STATS")]
    pub stats: Option<PathBuf>,
    /// Run the command plain: the switch to leave in a script.
    #[arg(long, env = "QUELL_DISABLE", value_parser = FalseyValueParser::new())]
    pub disable: bool,
    /// Write what the image did not answer to this file when the command has ended, and again when the last process of the
    /// node's ranks has; `quell pack --refresh IMG --learn FILE` takes it in. Of a job, rank 0 and its node write.
    #[arg(long, value_name = "FILE", env = "QUELL_LEARN", help_heading = IMAGE)]
    pub learn: Option<PathBuf>,
    /// Have the nodes of these ranks write instead, such as 0,17,31; each rank but 0 to FILE.rankN.
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "QUELL_LEARN_RANKS", default_value = "0", help_heading = IMAGE)]
    pub learn_ranks: Vec<u32>,
    /// Run from a mount; or, on a node without FUSE, from the image's content, extracted into memory; or plain.
    #[arg(long, value_enum, default_value_t, env = "QUELL_MODE", help_heading = IMAGE)]
    pub mode: ModeFlag,
    /// Let the image take at most so much of the node's memory, such as 500M or 2G [default: all that is free]. A plain image on a local
    /// file system takes none.
    #[arg(long, value_name = "BYTES", env = "QUELL_MEMORY", help_heading = IMAGE)]
    pub memory: Option<Bytes>,
    /// Have these nodes give each other the parts of an image that lies on a network file system, so that one node reads it: the same
    /// list on each; `off`, each node reads it; `auto`, the nodes of the job [default: auto where a launcher tells of several nodes].
    #[arg(long, value_name = "off|auto|HOST[:PORT],...", value_delimiter = ',', env = "QUELL_PEERS", help_heading = NODES)]
    pub peers: Vec<String>,
    /// Get and give parts over this network: the name or the address of an interface [default: the route to the peer].
    #[arg(long, value_name = "NAME|ADDRESS", env = "QUELL_INTERFACE", help_heading = NODES)]
    pub interface: Option<String>,
    /// Use an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new(), help_heading = IMAGE)]
    pub trust: bool,
    /// Collect the output.
    #[command(flatten)]
    pub collect: OutputFlags,
    /// Keep temporary files on the node.
    #[command(flatten)]
    pub local: ScratchFlags,
    /// Make small reads and writes large.
    #[command(flatten)]
    pub buffers: BufferFlags,
    /// Gather new files in containers.
    #[command(flatten)]
    pub gathering: GatherFlags,
    /// The command and its arguments.
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<OsString>,
    /// No image is on the line, and none is looked for.
    #[arg(skip)]
    pub imageless: bool,
    /// `--` stands where an image is needed.
    #[arg(skip)]
    pub lacks_image: bool,
}

/// The flags by which the output of all ranks of a node becomes one stream.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Write standard output and error of all ranks of this node to FILE, in large pieces of whole lines, at least once a second. `%h` in
    /// FILE is the host, `%j` the job; where several nodes run and there is no `%h`, each adds `.HOST`. The image may be left out:
    /// `quell run --output FILE -- CMD`.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With --output: begin each line with the number of its rank.
    #[arg(long, requires = "output")]
    pub label: bool,
    /// With --output: the use of a FILE that is there.
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub open_mode: OpenMode,
}

/// The flags by which files below a directory stay on the node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scratch directories")]
pub struct ScratchFlags {
    /// Keep what programs make or change below DIR in this node's memory, where all ranks of the job on the node see it. It is gone when
    /// the last of them has ended; what lies in DIR before can be read, and stays as it is. What memory has no room for goes to a hidden
    /// directory in DIR. PATTERN, such as `'out/*.tmp'`, limits it to some names of DIR. May be given several times. The image may be
    /// left out: `quell run --scratch DIR -- CMD`.
    #[arg(long, value_name = "DIR[/PATTERN]")]
    pub scratch: Vec<PathBuf>,
    /// With --scratch: take at most so much of the node's memory, such as 500M or 2G [default: a quarter of what is free].
    #[arg(long, value_name = "BYTES", requires = "scratch")]
    pub scratch_memory: Option<Bytes>,
    /// With --scratch: put what memory has no room for into this directory first, which lies on a disk of the node.
    #[arg(long, value_name = "DIR", requires = "scratch")]
    pub scratch_disk: Option<PathBuf>,
    /// With --scratch: at the end, put new and changed files into the real directory. Nothing is removed from it.
    #[arg(long, requires = "scratch")]
    pub keep: bool,
}

/// The flags by which small reads and writes become large ones.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Buffers")]
pub struct BufferFlags {
    /// Have small reads and writes of files below DIR reach the file system as large aligned ones. PATTERN, such as `*.dat`, limits it to
    /// some files. OPTIONs: `size=4M` for a buffer [default: 1M], `count=8` for the buffers of a file [default: 4], `ahead=2` for the
    /// buffers that are read ahead [default: 1], `private` where no file is written by several nodes at a time [default for a job of
    /// one node], else `shared`. May be given several times. The image may be left out: `quell run --buffer DIR -- CMD`.
    #[arg(long, value_name = "DIR[/PATTERN][:OPTION,...]")]
    pub buffer: Vec<OsString>,
}

/// The flags by which new files below a directory go to one container a node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Gathered files")]
pub struct GatherFlags {
    /// Write the files that programs make or change below DIR to one container in DIR for each node, in large pieces. All ranks of the job
    /// on the node see them at once; `quell gather` lists, prints and extracts them later. What fsync acknowledged is in the
    /// container. PATTERN, such as `'results/rank-*'`, limits it to some names of DIR. May be given several times. The image may be
    /// left out: `quell run --gather DIR -- CMD`.
    #[arg(long, value_name = "DIR[/PATTERN]")]
    pub gather: Vec<PathBuf>,
}

/// Uses of a file of output that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OpenMode {
    /// It is emptied, unless another step of the job is writing to it.
    #[default]
    Truncate,
    /// Lines go to its end.
    Append,
}

impl Run {
    /// Makes the first word the program where no image is on the line: with `--auto`; and with `--output`, `--scratch`, `--gather`
    /// or `--buffer`, where `--` stands before it or nothing behind.
    pub(crate) fn settle(&mut self, is_separated: impl Fn() -> bool) {
        let is_local = !self.local.scratch.is_empty()
            || !self.gathering.gather.is_empty()
            || !self.buffers.buffer.is_empty();
        let needs_none = self.collect.output.is_some() || is_local;
        self.imageless = needs_none && !self.auto.auto && (self.command.is_empty() || is_separated());
        if self.auto.auto || self.imageless {
            self.command.insert(0, std::mem::take(&mut self.image).into_os_string());
        } else {
            self.lacks_image = self.command.is_empty() && is_separated();
        }
    }
}

/// Ways to run a command from an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ModeFlag {
    /// The first of the others that works, in this order.
    #[default]
    Auto,
    /// The image is mounted by FUSE.
    Mount,
    /// Its content is copied into a read-only tmpfs; what it holds in part is made whole from the original, other files are bound.
    Extract,
    /// The command runs plain.
    Off,
}

/// Effects of originals that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnStaleFlag {
    /// Changed files come from the originals, all others from the image.
    Live,
    /// The same; and the image is made anew when the run is over, if it is the user's own.
    #[default]
    Refresh,
    /// The command runs plain.
    Plain,
    /// The command does not run: status 1.
    Fail,
}

/// The ranks that check the originals against the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFlag {
    /// The first rank of the job.
    #[default]
    First,
    /// One rank on each node, the one that comes first, whatever a stamp of `quell check` says.
    All,
    /// No rank.
    None,
}
