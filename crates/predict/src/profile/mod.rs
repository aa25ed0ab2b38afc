//! A file system as the model sees it: what its servers can do, how far away they are, what its clients remember.
//!
//! A profile is a TOML file. Every figure is a number, or a spread with how it was got; a figure that was not measured is
//! absent, and absent is never 0:
//!
//! ```
//! let profile = quell_predict::Profile::read(b"
//!     schema_version = 1
//!     name = 'scratch'
//!     kind = 'measured'
//!     [network]
//!     round_trip_us = { p10 = 40, p50 = 45, p90 = 80, count = 2000, source = 'stat of absent names' }
//!     [metadata.operations_per_second]
//!     lookup = 45_000
//! ")?;
//! assert_eq!(profile.network.round_trip_us.map(|figure| figure.p50), Some(45.0));
//! assert_eq!(profile.rates.open, None);
//! # Ok::<(), quell_predict::ProfileError>(())
//! ```
//!
//! `sections.rs` declares every key once; `read.rs` and `write.rs` know none of them by name.

mod error;
mod figure;
mod in_a_row;
mod read;
mod sections;
mod shared_cores;
mod shipped;
mod write;

pub use error::ProfileError;
pub use figure::{Figure, FigureRange};
pub use in_a_row::COMPUTING_US;
pub use sections::{
    ClientSection, DataSection, ForwardingSection, MetadataSection, NetworkSection, ProfileSlot,
    RatesSection, SharedDirectorySection,
};
pub(crate) use shared_cores::TIME_SHARED;
pub use shipped::{SHIPPED, shipped, wide};

/// Version of the file's keys. It changes when one gets another meaning; keys are only added.
pub const SCHEMA_VERSION: u32 = 1;

/// The origin of a profile's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// This file system was measured.
    Measured,
    /// It was not measured: figures of file systems like it, with their spread.
    Prior,
    /// Figures were chosen so that the model gives a time that was measured.
    Fitted,
}

impl ProfileKind {
    /// Every kind, as the file names it.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Prior, Self::Fitted];

    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Prior => "prior",
            Self::Fitted => "fitted",
        }
    }
}

/// A file system: servers, network, clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The origin of its figures.
    pub kind: ProfileKind,
    /// Method, date and place of the measurement, in a sentence.
    pub note: Option<String>,
    /// The way between client and server.
    pub network: NetworkSection,
    /// The metadata servers.
    pub metadata: MetadataSection,
    /// Operations a second of one metadata server.
    pub rates: RatesSection,
    /// The caches of a client, and the requests that it repeats.
    pub client: ClientSection,
    /// The data servers.
    pub data: DataSection,
    /// Gateways between nodes and servers; none where their number is absent.
    pub forwarding: ForwardingSection,
    /// Creates of many nodes in one directory.
    pub shared_directory: SharedDirectorySection,
}

impl Profile {
    /// A profile of which only name and kind are known.
    pub fn new(name: impl Into<String>, kind: ProfileKind) -> Self {
        Self {
            name: name.into(),
            kind,
            note: None,
            network: NetworkSection::default(),
            metadata: MetadataSection::default(),
            rates: RatesSection::default(),
            client: ClientSection::default(),
            data: DataSection::default(),
            forwarding: ForwardingSection::default(),
            shared_directory: SharedDirectorySection::default(),
        }
    }

    /// The same with one figure, named `section.key`, at one value. `None` where there is no such figure.
    pub(crate) fn with(&self, key: &str, at: &dyn Fn(&Figure) -> f64) -> Option<Self> {
        let mut changed = self.clone();
        let is_named = |title: &str, name: &str| format!("{title}.{name}") == key;
        let slot = changed.slots().into_iter().find(|(title, name, _)| is_named(title, name))?;
        let ProfileSlot::Figure(Some(figure), _) = slot.2 else { return None };
        *figure = Figure::exact(at(figure));
        Some(changed)
    }

    /// Section and key of each rate of which only the least is known. Shape: in the order of [`Self::slots`].
    pub fn open_rates(&self) -> Vec<String> {
        let mut copy = self.clone();
        let open = |(title, key, slot): (&str, &str, ProfileSlot<'_>)| match slot {
            ProfileSlot::Figure(Some(figure), _) => {
                Some(format!("{title}.{key}")).filter(|name| figure.is_open_rate(name))
            }
            _ => None,
        };
        copy.slots().into_iter().filter_map(open).collect()
    }

    /// Every figure and switch by the name of its section and its key. Shape: in the order of the file.
    pub fn slots(&mut self) -> Vec<(&'static str, &'static str, ProfileSlot<'_>)> {
        let Self { network, metadata, rates, client, data, forwarding, shared_directory, .. } = self;
        let mut all = network.slots();
        all.extend(metadata.slots());
        all.extend(rates.slots());
        all.extend(client.slots());
        all.extend(data.slots());
        all.extend(forwarding.slots());
        all.extend(shared_directory.slots());
        all
    }
}

#[cfg(test)]
mod tests;
