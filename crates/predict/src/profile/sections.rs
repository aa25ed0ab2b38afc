//! Every key of a profile, declared once: struct, file section, name in the file, range.

use super::Figure;
use super::figure::{BYTES, BYTES_RATE, COUNT, FACTOR, FigureRange, MICROSECONDS, RATE, SECONDS};

/// A key's place in a profile.
#[derive(Debug)]
pub enum ProfileSlot<'a> {
    /// A figure, and what it may be.
    Figure(&'a mut Option<Figure>, FigureRange),
    /// A switch.
    Switch(&'a mut Option<bool>),
}

macro_rules! slot_type {
    (switch) => {
        bool
    };
    ($range:ident) => {
        Figure
    };
}

macro_rules! slot {
    ($place:expr, switch) => {
        ProfileSlot::Switch($place)
    };
    ($place:expr, $range:ident) => {
        ProfileSlot::Figure($place, $range)
    };
}

macro_rules! sections {
    ($($(#[$doc:meta])* $section:ident $title:literal { $($(#[$field:meta])* $key:ident $range:ident,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $section { $($(#[$field])* pub $key: Option<slot_type!($range)>,)* }

            impl $section {
                /// The section's name in the file.
                pub const TITLE: &'static str = $title;

                /// Every key with its place. Shape: in the order of the file.
                pub(super) fn slots(&mut self) -> Vec<(&'static str, &'static str, ProfileSlot<'_>)> {
                    vec![$(($title, stringify!($key), slot!(&mut self.$key, $range)),)*]
                }
            }
        )*
    };
}

sections! {
    /// The way between client and server.
    NetworkSection "network" {
        /// From client to metadata server and back, the server's own work excluded. Unit: microseconds.
        round_trip_us MICROSECONDS,
        /// The same of a request right after another; absent where that is no different. Unit: microseconds.
        round_trip_in_a_row_us MICROSECONDS,
        /// From one node to another, where that is not `client_bytes_per_second`.
        bytes_per_second BYTES_RATE,
    }

    /// The metadata servers.
    MetadataSection "metadata" {
        /// Servers that share the load of one tree.
        servers COUNT,
        /// Requests that one server works on at once.
        threads COUNT,
        /// The rates are those of all servers of the file system, taken for one.
        together switch,
    }

    /// Operations a second of one metadata server with all its threads.
    RatesSection "metadata.operations_per_second" {
        /// One name of a path that is there.
        lookup RATE,
        /// One name that is absent.
        lookup_absent RATE,
        /// Attributes of a file that the client knows.
        getattr RATE,
        /// Opening a file; with `atomic_open`, its lookup included.
        open RATE,
        /// Closing one, where that is asked.
        close RATE,
        /// Listing a directory, a request.
        readdir RATE,
        /// The target of a symbolic link.
        readlink RATE,
        /// The place of a file's data, where that is a request of its own.
        layout RATE,
        /// Making a file.
        create RATE,
        /// Removing one.
        unlink RATE,
        /// Renaming one.
        rename RATE,
    }

    /// The caches of a client, and the requests that it repeats.
    ClientSection "client" {
        /// The time for which the client itself answers a file's name; 0 is never. Unit: seconds.
        positive_seconds SECONDS,
        /// The same for an absent name. Unit: seconds.
        negative_seconds SECONDS,
        /// The same for a directory's name. Unit: seconds.
        directory_seconds SECONDS,
        /// The same for attributes. Unit: seconds.
        attribute_seconds SECONDS,
        /// The same for the entries of a directory that was listed; 0 or absent is never. Unit: seconds.
        listing_seconds SECONDS,
        /// Names that a client keeps at once, where that is limited: the oldest goes first.
        cached_entries COUNT,
        /// True if opening a file whose name is known costs a request.
        open_asks switch,
        /// True if opening a directory to list it costs a request beside the listing.
        open_directory_asks switch,
        /// True if lookup and open of a file are one request.
        atomic_open switch,
        /// For how long after a file's lookup its first open is told to the server and not waited for; 0 or absent is never.
        /// Unit: seconds.
        open_rides_seconds SECONDS,
        /// True if closing a file costs a request.
        close_asks switch,
        /// True if listing a directory brings names and attributes of its entries along.
        readdir_fills switch,
        /// True if the first read of a file costs a request for the place of its data, unless a lookup has brought that.
        layout_asks switch,
        /// True if attributes are asked again after a file was read or a directory listed, as a FUSE client does for
        /// the time of the last access.
        read_spoils_attributes switch,
        /// True if a daemon of the client (FUSE), and not the kernel, answers for a name that the client knows to be absent.
        absences_ask_daemon switch,
        /// Requests of one client that may be under way at once.
        requests_in_flight COUNT,
        /// Processor time of client and server for a request after [`COMPUTING_US`](super::COMPUTING_US) of computing; it matters
        /// where they share processors with the program. Unit: microseconds.
        cpu_us MICROSECONDS,
        /// The same of a request right after another; absent where that is no different. Unit: microseconds.
        cpu_in_a_row_us MICROSECONDS,
        /// The same for a million bytes of data, where that is more than `cpu_us` for each of their reads. Unit:
        /// microseconds.
        cpu_us_per_mb MICROSECONDS,
        /// A program's processor time where more processes run than there are cores, over that without interruption: what others
        /// did on the core has taken its place in the processor's caches. A program that hardly computes between its calls has
        /// less of it.
        time_shared FACTOR,
        /// An answer of the client without a server, such as to a close: some 50 for a daemon (FUSE), 0 or absent for a
        /// kernel. All of it is processor time. Unit: microseconds.
        own_answer_us MICROSECONDS,
        /// The same right after another answer; absent where that is no different. Unit: microseconds.
        own_answer_in_a_row_us MICROSECONDS,
        /// The same where more processes ask than there are cores: the time for which an answer keeps a core then, waking the daemon and the
        /// program included; absent where that takes no more. Unit: microseconds.
        own_answer_shared_us MICROSECONDS,
    }

    /// The data servers.
    DataSection "data" {
        /// Their number.
        servers COUNT,
        /// Those that one file is spread over, where that is not all of them. An image is one file.
        stripes COUNT,
        /// Of one server.
        bytes_per_second BYTES_RATE,
        /// Of one client, whatever the number of servers.
        client_bytes_per_second BYTES_RATE,
        /// One small read of data that no cache holds: of a file that was just opened, where that takes longer. Unit:
        /// microseconds.
        read_us MICROSECONDS,
    }

    /// Gateways between nodes and servers, as DVS has them: `client` is then what a gateway keeps and asks, for all its nodes.
    ForwardingSection "forwarding" {
        /// Their number. Each node has one.
        gateways COUNT,
        /// Requests of one that it works on at once.
        gateway_threads COUNT,
        /// Requests a second of one, with all its threads.
        gateway_requests_per_second RATE,
        /// From a node to its gateway and back, the gateway's own work excluded. Unit: microseconds.
        gateway_round_trip_us MICROSECONDS,
        /// Data through one.
        gateway_bytes_per_second BYTES_RATE,
        /// The time for which a node itself keeps names and attributes; 0, the default of DVS, is never: every name of a path is
        /// asked for each time. Unit: seconds.
        node_keeps_seconds SECONDS,
    }

    /// Creates of many nodes in one directory.
    SharedDirectorySection "shared_directory" {
        /// Handing an exclusive token, of the directory's inode or of one of its blocks, from one node to the next.
        /// Unit: microseconds.
        inode_token_us MICROSECONDS,
        /// The time that each waiting node adds to the split of a block, where splits come one after the other. Unit:
        /// microseconds.
        split_us MICROSECONDS,
        /// Nodes that a block serves between two such splits.
        split_serves COUNT,
        /// Blocks of a directory as soon as it has left its inode: more than 1 with `DirPreSplitLevels`.
        blocks COUNT,
        /// True if nodes share the inode's token once the directory has left its inode (Spectrum Scale 5.0.3), false if they take it
        /// exclusively one after the other.
        shares_inode_token switch,
        /// True if every node is connected to every other before it needs to be (`allToAllConnection`).
        connects_all switch,
        /// Size of a directory block. Unit: bytes.
        block_bytes BYTES,
        /// One node's first connection to another. Unit: microseconds.
        connection_us MICROSECONDS,
        /// Taking a token away from the node that holds it. Unit: microseconds.
        revoke_us MICROSECONDS,
        /// Creates of all nodes together, once the directory has grown.
        creates_per_second RATE,
    }
}
