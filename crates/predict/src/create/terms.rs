//! Seconds of many creates, term by term, for parameters that are known exactly.
//!
//! ```text
//! T = n tau            every waiting node takes the inode's exclusive token once      (before 5.0.3, new directory)
//!   + split(B)         nodes wait for the tokens of B blocks, `split.rs`
//!   + n c              the token's first revoke connects to every node                 (new directory)
//!   + n r              and asks every node                                             (new directory)
//!   + m / mu           creates, at the rate of the saturated metadata service
//!   + D t              making D directories, one after the other by one process
//! ```
//!
//! n is the nodes of one directory, m all files. Assumes that the terms do not overlap, which makes T an upper bound for given
//! parameters, that directories do not wait for each other, and that all nodes begin at once. Every published time is of
//! 4096 nodes: that the terms grow with n as they do here is an assumption that no published figure tests.
//! Source: J. Lewars, Spectrum Scale Performance v1.2.1, "Performance of File Creates in a Shared Directory".

use super::split::SplitLaw;

/// A number of files, and the ranks and directories that they are spread over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creates {
    /// **Range**: 1 to 10 000 000.
    pub nodes: u64,
    /// Ranks of a node that create files.
    pub ranks_per_node: u64,
    /// Files of each rank.
    pub files_per_rank: u64,
    /// Directories that the nodes are spread over evenly. Above `nodes` it is `nodes`.
    pub directories: u64,
}

impl Creates {
    /// All ranks.
    pub fn ranks(&self) -> u64 {
        self.nodes.saturating_mul(self.ranks_per_node)
    }

    /// All files.
    pub fn files(&self) -> u64 {
        self.ranks().saturating_mul(self.files_per_rank)
    }

    /// Files that one node creates.
    pub fn files_per_node(&self) -> u64 {
        self.ranks_per_node.saturating_mul(self.files_per_rank)
    }

    /// Nodes that meet in the fullest directory.
    pub fn nodes_per_directory(&self) -> u64 {
        self.nodes.div_ceil(self.directories())
    }

    /// Directories that are used.
    pub fn directories(&self) -> u64 {
        self.directories.clamp(1, self.nodes.max(1))
    }
}

/// The state of the directory and of the daemons when the nodes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryState {
    /// True if the directory has left its inode already.
    pub directory: DirectoryAge,
    /// Its blocks as soon as it is out of its inode. **Range**: from 1.
    pub blocks: u64,
    /// The way in which nodes learn that the directory has left its inode.
    pub inode_token: InodeToken,
    /// True if all daemons are connected to each other.
    pub connections: Connections,
}

impl std::fmt::Display for DirectoryState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let blocks =
            if self.blocks == 1 { "one block".to_owned() } else { format!("{} blocks", self.blocks) };
        if self.directory == DirectoryAge::Grown {
            return write!(formatter, "a directory that has left its inode and has {blocks}");
        }
        let token = match self.inode_token {
            InodeToken::Serial => "each node takes the inode's token exclusively",
            InodeToken::Shared => "nodes share the inode's token",
        };
        let connections = match self.connections {
            Connections::OnDemand => "connect when they need to",
            Connections::AllToAll => "are connected",
        };
        write!(
            formatter,
            "a new directory, {blocks} when it leaves its inode; {token}, and daemons {connections}"
        )
    }
}

/// True if a directory has left its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryAge {
    /// Just made, its entries inside the inode.
    New,
    /// It has its blocks already.
    Grown,
}

/// The way of nodes to the inode's token while a directory leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeToken {
    /// One after the other takes it exclusively, only to find the work done: before 5.0.3.
    Serial,
    /// All but the first get a shared one: from 5.0.3.
    Shared,
}

/// Connections between daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Made when they are first needed.
    OnDemand,
    /// Made when a node joins: `allToAllConnection`.
    AllToAll,
}

/// Parameters, known exactly. `None` for what a file system does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreateRates {
    /// Creates in one directory that many clients share, saturated. Unit: per second.
    pub shared: f64,
    /// Creates in directories of their own, saturated. Unit: per second.
    pub unique: f64,
    /// One create by one client alone. Unit: seconds.
    pub single: f64,
    /// Tokens between clients.
    pub tokens: Option<TokenCosts>,
}

/// The cost of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenCosts {
    /// Handing the exclusive token of an inode from one node to the next, tau. Unit: seconds.
    pub hand_over: f64,
    /// Connecting to one node, c. Unit: seconds.
    pub connection: f64,
    /// Revoking one node's token, r. Unit: seconds.
    pub revoke: f64,
    /// The law of the wait for blocks.
    pub law: SplitLaw,
}

/// The terms of a sum of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeTerm {
    /// Nodes queue for the inode's token while the directory leaves its inode.
    LeavingInode,
    /// Nodes wait for directory blocks.
    Splits,
    /// The token's holder connects to all nodes.
    Connections,
    /// The token is revoked from all nodes.
    Revokes,
    /// The creates themselves.
    Creates,
    /// Directories are made beforehand.
    Directories,
}

impl TimeTerm {
    /// All, in the order of the sum.
    pub const ALL: [Self; 6] = [
        Self::LeavingInode,
        Self::Splits,
        Self::Connections,
        Self::Revokes,
        Self::Creates,
        Self::Directories,
    ];

    /// One or two words for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeavingInode => "leaving the inode",
            Self::Splits => "block splits",
            Self::Connections => "connections",
            Self::Revokes => "token revokes",
            Self::Creates => "creates",
            Self::Directories => "making directories",
        }
    }
}

/// Seconds of each term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateSeconds {
    terms: [f64; TimeTerm::ALL.len()],
}

impl CreateSeconds {
    /// Evaluates the sum at the top of this file.
    pub fn of(creates: &Creates, state: &DirectoryState, rates: &CreateRates) -> Self {
        let mut seconds = Self::default();
        let nodes = creates.nodes_per_directory() as f64;
        let is_new = state.directory == DirectoryAge::New;
        if let Some(tokens) = rates.tokens {
            let wait = |applies: bool, each: f64| if applies { nodes * each } else { 0.0 };
            let is_serial = state.inode_token == InodeToken::Serial;
            // A node that has the directory for itself neither waits nor revokes.
            let is_shared = nodes > 1.0;
            let connects = state.connections == Connections::OnDemand;
            seconds[TimeTerm::LeavingInode] = wait(is_shared && is_new && is_serial, tokens.hand_over);
            seconds[TimeTerm::Connections] = wait(is_shared && is_new && connects, tokens.connection);
            seconds[TimeTerm::Revokes] = wait(is_shared && is_new, tokens.revoke);
            let files = creates.files_per_node() as f64;
            let splits = tokens.law.wait(nodes, files, state.blocks.max(1) as f64);
            seconds[TimeTerm::Splits] = if is_shared { splits } else { 0.0 };
        }
        let directories = creates.directories() as f64;
        let rate = (directories * rates.shared).min(rates.unique.max(rates.shared));
        let alone = creates.files_per_rank as f64 * rates.single;
        seconds[TimeTerm::Creates] = (creates.files() as f64 / rate).max(alone);
        if creates.directories() > 1 {
            seconds[TimeTerm::Directories] = directories * rates.single.max(1.0 / rates.unique);
        }
        seconds
    }

    /// All terms together.
    pub fn total(&self) -> f64 {
        self.terms.iter().sum()
    }

    /// The largest term; of equal ones the first.
    pub fn largest(&self) -> TimeTerm {
        let larger = |best: TimeTerm, term: TimeTerm| if self[term] > self[best] { term } else { best };
        TimeTerm::ALL.into_iter().fold(TimeTerm::LeavingInode, larger)
    }
}

impl std::ops::Index<TimeTerm> for CreateSeconds {
    type Output = f64;

    fn index(&self, term: TimeTerm) -> &f64 {
        &self.terms[term as usize]
    }
}

impl std::ops::IndexMut<TimeTerm> for CreateSeconds {
    fn index_mut(&mut self, term: TimeTerm) -> &mut f64 {
        &mut self.terms[term as usize]
    }
}
