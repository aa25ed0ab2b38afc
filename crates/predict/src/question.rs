//! A question to the model: scale, load beside it, changes to try.

/// A job, and what is around it.
#[derive(Clone, Debug, PartialEq)]
pub struct StartQuestion {
    /// Shape: sorted, no number twice, at least one.
    pub nodes: Vec<u64>,
    /// Processes a node.
    pub processes: u32,
    /// From the first node's start to the last one's. Unit: seconds.
    pub skew: f64,
    /// Share of the metadata servers' time that others take. Range: from 0 to less than 1.
    pub background: f64,
    /// The program has run on the nodes before, and their caches have kept what they may.
    pub is_warm: bool,
    /// Cores that the processes of a node share, in units of one that works alone: less than their number where they slow
    /// each other down. Range: at least 1.
    pub cores: Option<f64>,
    /// All nodes and servers share the cores of one machine.
    pub is_shared_host: bool,
    /// Data servers that one file is spread over; `None` is what the profile says.
    pub stripes: Option<u32>,
    /// Launcher, MPI_Init and whatever else is no file system's time. Unit: seconds.
    pub launch: f64,
    /// Changes to try.
    pub changes: StartChanges,
    /// Runs of which the spread is made.
    pub samples: u32,
    /// Of the runs' choices.
    pub seed: u64,
}

/// Changes to try.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartChanges {
    /// The program starts from an image.
    pub image: Option<ImageDelivery>,
    /// A process of each node asks for all others, and keeps every answer.
    pub once_a_node: bool,
    /// Clients keep absent names.
    pub keeps_absences: bool,
    /// Share of the absent names that are no longer asked for. Range: 0 to 1.
    pub fewer_misses: f64,
    /// Share of the files that are gathered into others. Range: 0 to 1.
    pub fewer_files: f64,
    /// Lookup and open become one request.
    pub atomic_open: bool,
}

/// The way of an image to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDelivery {
    /// Each node reads it.
    Read,
    /// One node reads it, and the nodes pass it on as a tree.
    Broadcast,
    /// Each node mounts it and reads what is touched, as of a container's image.
    Mounted,
    /// It is on the nodes already.
    Local,
    /// One node compares it with the originals, as all others wait; then as [`ImageDelivery::Broadcast`].
    Compared,
}

/// The ways of a program to its nodes, to be compared: name, what it is, changes.
pub fn ways() -> [(&'static str, &'static str, StartChanges); 7] {
    let image = |image| StartChanges { image: Some(image), ..StartChanges::default() };
    let once_a_node = StartChanges { once_a_node: true, ..StartChanges::default() };
    [
        ("plain", "every process asks, and its client keeps what the profile says", StartChanges::default()),
        ("once a node", "a server on each node asks once for all its processes, as Spindle's", once_a_node),
        ("container", "a squashfs or container image that each node mounts", image(ImageDelivery::Mounted)),
        ("image", "an image of quell that each node reads", image(ImageDelivery::Read)),
        (
            "broadcast",
            "an image of quell that one node reads and all pass on",
            image(ImageDelivery::Broadcast),
        ),
        (
            "auto",
            "the same as `run --auto` does it from its second start on: one node compares it with the originals first",
            image(ImageDelivery::Compared),
        ),
        ("local", "an image of quell that is on the nodes' disks already", image(ImageDelivery::Local)),
    ]
}

impl Default for StartQuestion {
    fn default() -> Self {
        Self {
            nodes: vec![1],
            processes: 1,
            skew: 0.0,
            background: 0.0,
            is_warm: false,
            cores: None,
            is_shared_host: false,
            stripes: None,
            launch: 0.0,
            changes: StartChanges::default(),
            samples: 100,
            seed: 1,
        }
    }
}
