//! The requests of a client: the operations that the model counts.

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $word:literal,)*) => {
        /// One request of a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ServerOperation { $($(#[$doc])* $name,)* }

        impl ServerOperation {
            /// Every operation. Shape: as declared; index equals discriminant.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word in JSON and in tables.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

operations! {
    /// One name of a path that is there.
    Lookup "lookup",
    /// One name that is absent.
    LookupAbsent "lookup_absent",
    /// Attributes of a file that the client knows.
    Getattr "getattr",
    /// Opening a file.
    Open "open",
    /// Closing one.
    Close "close",
    /// Opening a directory to list it.
    OpenDirectory "open_directory",
    /// Listing a directory.
    Readdir "readdir",
    /// The target of a symbolic link.
    Readlink "readlink",
    /// The place of a file's data.
    Layout "layout",
    /// Making a file, a directory, a link.
    Create "create",
    /// Removing one.
    Unlink "unlink",
    /// Renaming one.
    Rename "rename",
    /// Data, asked of a data server.
    Read "read",
}

impl ServerOperation {
    /// True if it changes the tree: no image answers it.
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Create | Self::Unlink | Self::Rename)
    }

    /// True if a metadata server answers it.
    pub const fn is_metadata(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// The number of operations.
pub const OPERATIONS: usize = ServerOperation::ALL.len();

/// A number for each operation: how many, or how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerOperation(pub [f64; OPERATIONS]);

impl PerOperation {
    /// A number for each operation.
    pub fn of(each: impl Fn(ServerOperation) -> f64) -> Self {
        let mut numbers = [0.0; OPERATIONS];
        for &operation in ServerOperation::ALL {
            numbers[operation as usize] = each(operation);
        }
        Self(numbers)
    }

    /// The number of one operation.
    pub fn get(&self, operation: ServerOperation) -> f64 {
        self.0[operation as usize]
    }

    /// Adds to the number of one operation.
    pub fn add(&mut self, operation: ServerOperation, more: f64) {
        self.0[operation as usize] += more;
    }

    /// Adds numbers, each times `factor`.
    pub fn add_all(&mut self, other: &Self, factor: f64) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += factor * more;
        }
    }

    /// The sum over operations of the products.
    pub fn dot(&self, other: &Self) -> f64 {
        self.0.iter().zip(other.0).map(|(a, b)| a * b).sum()
    }

    /// The sum over those that a metadata server answers.
    pub fn metadata(&self) -> f64 {
        ServerOperation::ALL
            .iter()
            .filter(|operation| operation.is_metadata())
            .map(|operation| self.get(*operation))
            .sum()
    }
}
