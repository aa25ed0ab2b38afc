//! The JSON header of a recording: the command, the user, the command's end, and the completeness of the recording.

use crate::{Exit, NodeId, RankId};
use quell_counters::ClientCounters;
use serde::{Deserialize, Serialize};

/// First field of every header. Part of the format.
pub const FORMAT: &str = "quell-trace";

/// Version of the format. Readers accept this and all earlier ones, and refuse later ones by name.
pub const VERSION: u32 = 1;

/// The completeness of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completeness {
    /// The recorder finished.
    Complete,
    /// The recorder ended early: the last events may be missing.
    Partial,
}

/// The event that ended a complete recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The command and all its descendants ended.
    Exit,
    /// The command had started: nothing new was loaded for long. It ran on, unrecorded.
    Started,
    /// A limit on the time or the calls of a recorded start was reached, or the user ended the recording. Processes ran on,
    /// unrecorded.
    Limit,
}

impl Ended {
    /// Its name in headers and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Started => "started",
            Self::Limit => "limit",
        }
    }
}

/// Facts about the recorder itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderFacts {
    /// The engine: `ptrace`, `mount`, or `strace` for an imported log.
    pub engine: String,
    /// The version of quell.
    pub version: String,
    /// Events in the recording.
    pub events: u64,
    /// Events that happened and are not in the recording.
    pub lost: u64,
    /// The reasons for lost events and other remarks, one sentence each.
    pub notes: Vec<String>,
}

/// The header of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always [`FORMAT`].
    pub format: String,
    /// The version of the format of this recording. Range: 1 to [`VERSION`].
    pub version: u32,
    /// The completeness of the recording.
    pub completeness: Completeness,
    /// The event that ended the recording; `None` in a partial recording, in an imported one, and in those of older
    /// versions of quell, which all ended with the command.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// The command ran already when the recording began: what it did before is not in it.
    #[serde(default)]
    pub attached: bool,
    /// The command with its arguments, to be given again; a word that is not UTF-8 is escaped.
    pub command: Vec<String>,
    /// The directory in which the command was started; escaped.
    pub working_directory: String,
    /// The end of the command; `None` in a partial recording, and where the command ran on.
    pub exit: Option<Exit>,
    /// The start of the recording. Unit: seconds since 1970.
    pub began: f64,
    /// The duration of the recording. Unit: seconds; `None` in a partial recording.
    pub seconds: Option<f64>,
    /// The recorder.
    pub recorder: RecorderFacts,
    /// The node's host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// The machine's architecture, such as `x86_64`.
    pub architecture: String,
    /// The user who recorded.
    pub user: u32,
    /// The rank, under a launcher.
    pub rank: Option<RankId>,
    /// The number of ranks in the job.
    pub ranks: Option<u32>,
    /// The node's number in the job, where the launcher sets it.
    pub node: Option<NodeId>,
    /// Job and step as the launcher names them.
    pub job: Option<String>,
    /// Counters of the clients of shared file systems on this node; `None` where there are none, in recordings of ranks other than
    /// the first, and in those of older versions of quell.
    #[serde(default)]
    pub client_counters: Option<ClientCounters>,
}

impl Header {
    /// The header of a recording that has just begun: partial, started in `/` at the beginning of 1970, without facts
    /// about a node or a launcher.
    pub fn begun(engine: &str, version: &str, command: Vec<String>) -> Self {
        let recorder = RecorderFacts {
            engine: engine.to_owned(),
            version: version.to_owned(),
            events: 0,
            lost: 0,
            notes: Vec::new(),
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            completeness: Completeness::Partial,
            ended: None,
            attached: false,
            command,
            working_directory: "/".to_owned(),
            exit: None,
            began: 0.0,
            seconds: None,
            recorder,
            host: String::new(),
            kernel: String::new(),
            architecture: String::new(),
            user: 0,
            rank: None,
            ranks: None,
            node: None,
            job: None,
            client_counters: None,
        }
    }
}
