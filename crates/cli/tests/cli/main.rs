//! Tests of the `quell` binary as its users meet it: what it does, what it says, how it ends, what it leaves behind.
//!
//! ```text
//! harness        a fresh directory, commands in it, what they said, what is left when they have ended
//! about          help, version, completions, and suggested commands, which can be pasted
//! bad_input      one clear line with a hint, the right status, nothing left behind
//! attach         `record -p`: a program that runs already, which notices nothing
//! engines        ptrace and the mount record the same of real programs
//! transparent    under `record` and `run` a command behaves as without quell
//! pack_and_run   a local tree from its image: equal results, statistics, absences, changes, joining
//! complete       one file for a node that has nothing else of the program
//! parts          an image holds what a run used of its files
//! peers          nodes of a job that give each other an image's parts
//! compressed     an image compressed for transport, opened by every command
//! ranks          recordings of several ranks and widths, packed together
//! learn          what a run had to ask of the originals, and the image that answers it
//! calibrate      `quell calibrate`: tables, profile, what it refuses, nothing left behind
//! check          `quell check`, its stamp, and which ranks compare
//! libraries      an application of large shared libraries: what its image holds of them
//! refresh        `quell pack --refresh`: an image made anew without a recording
//! launchers      which ranks record; two real MPI ranks in one namespace
//! mpi            Open MPI and MPICH: the end of a job, by any cause
//! server_life    the server beside what it serves: how many there are, what they survive
//! slurm          steps and jobs of a real Slurm: as without quell, checked once, nothing left behind
//! cluster        that Slurm
//! diff           what went away and what came between recordings, and when that fails
//! csv            tables with every row, quoted
//! findings       remedies applied for real, compared with what was predicted; healthy programs have none
//! fix            `quell fix`, `--fail-on`, limits
//! tiers          kills at random moments of `--buffer`, `--scratch --keep` and `--gather`
//! demo           `quell demo` for every user
//! doctor         `quell doctor` where one thing after the other is barred for real
//! image          `quell image`: what is in an image, and what comes out of it
//! html           the page of `report --html`: where it goes, whole or not at all
//! imports        `record --python`: the tree of imports, as the interpreter tells it
//! import         the log of a command and its recording are the same trace
//! packaging      an installation and its module file
//! programs       real programs, plain and under `run`: the same output, status and files
//! data           requests, phases and ranks of real programs that know what they do
//! config         settings files: what goes before what, and what is wrong in them
//! creates        `quell predict create`, and the profiles that come with quell
//! strangers      other users of the node: what they hold, own or change stops no command and gets nothing from one
//! statistics     `run --stats`: there when the run has ended, which is as without it
//! starts         `quell predict` of a start: its curve, what changes change, what it refuses
//! other_roots    programs with another root or mounts of their own, whose files have their true names
//! storms         storms of known cause: the first finding names it, and its remedy does what it says
//! searches       searches against what loader, Python and strace tell of the same programs
//! scratch        `run --scratch`: as plain, with nothing of it in the real directory, and nothing left
//! output         `run --output`: every byte of every rank, in few writes, whatever is killed or full
//! killed         SIGKILL of any process leaves nothing but a readable partial trace
//! auto           `run --auto`: the cache, what is made in it, and what stands in its way
//! awaited        a file that another process makes while the program waits for it
//! bcast          `quell bcast`: nodes that find each other, and the file that they all get
//! warm           `quell warm`: what is in memory afterwards, and what is left alone
//! top            `quell top`: counts, whom it follows, and what it leaves behind
//! export         `quell export`: every call in the forms of other tools
//! ```
//!
//! A test that needs root, ptrace or FUSE is named `privileged_*` and says `skipped, because ...` where it cannot run;
//! with QUELL_TESTS_MUST_RUN=1 it fails instead.
#![allow(clippy::unwrap_used, reason = "tests")]

mod gather;
mod gather_reading;
mod harness;
#[path = "../../../../tests/place.rs"]
mod place;
#[path = "../../../../tests/processes.rs"]
mod processes;

mod about;
mod attach;
mod auto;
mod awaited;
mod bad_input;
mod bcast;
mod buffer;
mod calibrate;
mod check;
mod cluster;
mod complete;
mod compressed;
mod config;
mod creates;
mod csv;
mod data;
mod demo;
mod diff;
mod doctor;
mod engines;
mod export;
mod findings;
mod fix;
mod fleet;
mod hostile;
mod html;
mod image;
mod image_lost;
mod import;
mod imports;
mod killed;
mod launchers;
mod learn;
#[cfg(target_arch = "x86_64")] // Its generator writes machine code.
mod libraries;
mod modules;
mod modules_convert;
mod modules_root;
mod modules_tools;
mod mpi;
mod other_roots;
mod output;
mod pack_and_run;
mod packaging;
mod parts;
mod peers;
mod programs;
mod ranks;
mod recorded_start;
mod refresh;
mod replay;
mod scratch;
mod scratch_keep;
mod searches;
mod server_life;
mod slurm;
mod stale;
mod starts;
mod statistics;
mod storms;
mod strangers;
mod synth;
mod tiers;
mod top;
mod transparent;
mod warm;
