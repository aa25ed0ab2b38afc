//! The nodes of a job find each other, and prove that they belong to it.
//!
//! ```text
//! --peers            the first host of the list            --key FILE, else MUNGE, else the file
//! PMI (MPICH)        addresses and secret in the job's key-value space
//! Open MPI           the hosts of mpirun's daemon, and the file      the job's transport key
//! Slurm              the first host of the step            MUNGE, else the file
//!                    from 8192 nodes on the hosts of the nodes above this one, with MUNGE
//! other launchers    the file
//! ```
//!
//! PMI serves `quell bcast` alone: under `quell run` it is the program's. The file is a [`Notice`](super::notice::Notice) of the first
//! node; others read it where the hosts do not answer.

use super::notice::{NoticePlace, WrittenNotice};
use super::{addresses, munge};
use crate::failure::Failure;
use crate::host;
use quell_base::files::read_private;
use quell_base::launcher::{all_hosts, first_host};
use quell_base::{NodeId, RankId, RankPlace, shown};
use quell_mount::ImageVersion;
use quell_spread::{Contact, NUMBERED_MIN, SpreadRole};
use quell_talk::MeetingKey;
use rustix::fs::CWD;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The wish of a process to meet those of other nodes.
pub(crate) struct Meeting<'a> {
    /// The file, on a file system that all nodes see.
    pub(crate) image: &'a Path,
    /// The nodes, where no launcher tells.
    pub(crate) peers: &'a [String],
    /// The file of the secret.
    pub(crate) key: Option<&'a Path>,
    /// The network.
    pub(crate) interface: Option<&'a str>,
    pub(crate) port: Option<u16>,
    pub(crate) purpose: Purpose<'a>,
}

/// The use of a file that nodes give each other.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// A copy at `dest`. All ranks come.
    Bcast { dest: &'a Path },
    /// An image. One process of each node comes, of any rank.
    Run { version: ImageVersion },
}

/// The first node as others find it.
pub(crate) struct FirstNode {
    listener: TcpListener,
    interface: Option<IpAddr>,
    side: Side,
    /// Keeps other ranks of this node from acting.
    _node: Option<UnixListener>,
}

enum Side {
    First {
        key: MeetingKey,
        credential: Option<Box<dyn Fn() -> Option<Vec<u8>> + Sync>>,
        nodes: u32,
        is_numbered: bool,
        file: Option<Box<WrittenNotice>>,
    },
    Numbered {
        number: u32,
        nodes: u32,
        at: Box<dyn Fn(u32) -> Vec<SocketAddr>>,
    },
    Other {
        find: Box<dyn Fn() -> Vec<Contact>>,
    },
}

/// The job as both sides know it.
struct Job<'a> {
    wanted: &'a Meeting<'a>,
    place: Option<&'a RankPlace>,
    /// Distinguishes the jobs of a user.
    name: String,
    /// Ports of the first node.
    ports: Vec<u16>,
    /// The secret, where all ranks have it from the start.
    secret: Option<String>,
    /// True where the first node gives its key by a credential.
    by_munge: bool,
    /// True where the file is used.
    by_file: bool,
    /// The nodes, where each knows its place.
    numbered: Option<NumberedNodes>,
}

/// The nodes of a job of which each knows its number and the hosts of all.
struct NumberedNodes {
    number: u32,
    hosts: Vec<String>,
}

impl NumberedNodes {
    /// The nodes of a step of Slurm. A node has the number of its name in the list, which is the same for all.
    fn of_slurm(place: &RankPlace) -> Option<Self> {
        let is_large = place.name == "Slurm" && place.nodes.is_some_and(|nodes| nodes >= NUMBERED_MIN);
        let hosts = is_large.then(step_hosts).flatten().and_then(|list| all_hosts(&list))?;
        let own = std::env::var("SLURMD_NODENAME").ok()?;
        let number = hosts.iter().position(|host| *host == own)? as u32;
        Some(Self { number, hosts })
    }
}

/// The list of a step's hosts.
fn step_hosts() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"))
}

impl FirstNode {
    /// Finds out what this process is in its job; `None` if another rank acts for this node.
    pub(crate) fn prepare(
        wanted: &Meeting<'_>,
        place: Option<&RankPlace>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, Failure> {
        let interface = wanted.interface.map(addresses::of_interface).transpose()?;
        let job = Job::of(wanted, place)?;
        let (listener, first) = job.listen(interface)?;
        // All nodes of a job come to the first at once. The kernel cuts the number to its own limit.
        _ = rustix::net::listen(&listener, BACKLOG);
        let acts = match wanted.purpose {
            Purpose::Bcast { .. } => place.and_then(|place| place.local_rank).is_none_or(|local| local == 0),
            Purpose::Run { .. } => true,
        };
        let space = job.key_value_space();
        let shared = match space {
            Some(descriptor) => share(descriptor, first.then(|| told(&listener, interface)), stop),
            None => None,
        };
        let node = if acts { job.only_one_of_node() } else { None };
        let Some(node) = node else { return Ok(None) };
        let side = match first {
            true => job.first(&listener, interface, shared)?,
            false => job.other(shared),
        };
        Ok(Some(Self { listener, interface, side, _node: node }))
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    pub(crate) fn interface(&self) -> Option<IpAddr> {
        self.interface
    }

    pub(crate) fn is_first(&self) -> bool {
        matches!(self.side, Side::First { .. })
    }

    pub(crate) fn role(&self) -> SpreadRole<'_> {
        match &self.side {
            Side::First { key, credential, nodes, is_numbered, .. } => SpreadRole::First {
                key,
                credential: credential.as_deref(),
                nodes: *nodes,
                is_numbered: *is_numbered,
            },
            Side::Numbered { number, nodes, at } => {
                SpreadRole::Numbered { number: *number, nodes: *nodes, at, redeem: &redeem }
            }
            Side::Other { find } => SpreadRole::Other { find, redeem: &redeem },
        }
    }

    /// Removes the file.
    pub(crate) fn end(self) {
        if let Side::First { file: Some(file), .. } = self.side {
            file.remove();
        }
    }
}

/// True for any rank of the node on which rank 0 runs, where that can be told.
pub(super) fn is_of_first_node(place: &RankPlace) -> bool {
    match place.node {
        Some(node) => node == NodeId(0),
        // Launchers fill one node after the other, or give each node a rank in turn.
        None => place.local_rank.unwrap_or(0) == place.rank.0,
    }
}

/// The key of a job with this secret.
fn key_of(secret: &str) -> MeetingKey {
    MeetingKey::of(&[b"quell bcast", secret.as_bytes()])
}

fn redeem(credential: &[u8]) -> Option<MeetingKey> {
    munge::decode(credential).map(|secret| key_of(&secret))
}

fn random_secret() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(|error| Failure::new(error).context("cannot read `/dev/urandom`"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The secret and the addresses of the first node, in one line: `SECRET ADDRESS,ADDRESS`.
fn line(secret: &str, addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!("{secret}/{}", addresses.join(","))
}

fn contacts(line: &str) -> Vec<Contact> {
    let Some((secret, addresses)) =
        line.trim_end().split_once('/').filter(|(secret, _)| secret.len() >= SECRET_MIN)
    else {
        return Vec::new();
    };
    let key = key_of(secret);
    let addresses = addresses.split(',').filter_map(|address| address.parse().ok());
    addresses.map(|address| Contact { address, key: Some(key.clone()) }).collect()
}

/// The places that a notice names.
fn noticed(place: &NoticePlace) -> Vec<Contact> {
    let Some(notice) = place.read().filter(|notice| notice.secret.len() >= SECRET_MIN) else {
        return Vec::new();
    };
    let key = key_of(&notice.secret);
    notice.addresses.into_iter().map(|address| Contact { address, key: Some(key.clone()) }).collect()
}

/// The addresses at which the first node listens.
fn told(listener: &TcpListener, interface: Option<IpAddr>) -> Vec<SocketAddr> {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let addresses = interface.map_or_else(addresses::own, |address| vec![address]);
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// Meets the other ranks in PMI's key-value space: the line of the first. `None` where the launcher does not answer.
fn share(
    descriptor: i32,
    addresses: Option<Vec<SocketAddr>>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<String> {
    let mine = match addresses {
        Some(addresses) => Some(line(&random_secret().ok()?, &addresses)),
        None => None,
    };
    quell_mount::pmi::share(descriptor, "quell-bcast", mine.as_deref(), stop).ok()
}

impl<'a> Job<'a> {
    fn of(wanted: &'a Meeting<'a>, place: Option<&'a RankPlace>) -> Result<Self, Failure> {
        let user = rustix::process::geteuid().as_raw();
        let name = match wanted.peers.is_empty() {
            true => host::job(place),
            false => wanted.peers.join(","),
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let open_mpi = wanted.peers.is_empty() && place.is_some_and(|place| place.name == "Open MPI");
        let secret = match wanted.key {
            Some(path) => Some(read_key(path)?),
            None => variable("OMPI_MCA_orte_precondition_transports").filter(|_| open_mpi),
        };
        let hosts = !wanted.peers.is_empty() || place.is_some_and(|place| place.name == "Slurm");
        let by_munge = secret.is_none() && hosts && munge::is_here();
        let several = !wanted.peers.is_empty() || place.is_some_and(|place| place.ranks != Some(1));
        let by_file = several && !(hosts && (secret.is_some() || by_munge));
        // Images of one step have ports of their own.
        let name = match wanted.purpose {
            Purpose::Bcast { .. } => name,
            Purpose::Run { version } => format!("{name} {version:?}"),
        };
        let number = MeetingKey::of(&[b"port", name.as_bytes(), &user.to_le_bytes()]).derive("port", b"");
        let start = PORTS.start + u16::from_le_bytes([number[0], number[1]]) % (PORTS.end - PORTS.start);
        // Of the processes at the first host of a list, the one that gets its port is the first node.
        let tries = if wanted.peers.is_empty() { TRIES } else { 1 };
        let ports = wanted.port.map_or_else(|| (start..start + tries).collect(), |port| vec![port]);
        // The addresses of an interface on other nodes are not known.
        let is_known = by_munge && wanted.peers.is_empty() && wanted.interface.is_none();
        let numbered = place.filter(|_| is_known).and_then(NumberedNodes::of_slurm);
        Ok(Self { wanted, place, name, ports, secret, by_munge, by_file, numbered })
    }

    /// A listener, and whether this is the first node.
    fn listen(&self, interface: Option<IpAddr>) -> Result<(TcpListener, bool), Failure> {
        let any = interface.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let refused = |error| {
            Failure::new(error)
                .context(format!("cannot listen at `{any}`"))
                .hint("`--interface` names an interface of this node, `--port` a free port")
        };
        if let Some(first) = self.wanted.peers.first() {
            // Only the first host can listen at its address.
            let addresses = addresses::of_host(first, &self.ports);
            let is_here = |address: &SocketAddr| TcpListener::bind((address.ip(), 0)).is_ok();
            let here: Vec<&SocketAddr> = addresses.iter().filter(|address| is_here(address)).collect();
            let at = |address: &&SocketAddr| TcpListener::bind((any, address.port())).ok();
            if let Some(listener) = here.iter().find_map(at) {
                return Ok((listener, true));
            }
        } else if self.is_first() {
            let derived = self.ports.iter().find_map(|port| TcpListener::bind((any, *port)).ok());
            let listener = derived.map_or_else(|| TcpListener::bind((any, 0)), Ok).map_err(refused)?;
            return Ok((listener, true));
        }
        let port = self.wanted.port.unwrap_or(if self.numbered.is_some() { self.ports[0] } else { 0 });
        let listener = TcpListener::bind((any, port)).or_else(|_| TcpListener::bind((any, 0)));
        Ok((listener.map_err(refused)?, false))
    }

    /// True if this process runs on the first node. It is asked where the launcher gives no list of hosts.
    fn is_first(&self) -> bool {
        let Some(place) = self.place else { return true };
        if let Some(nodes) = &self.numbered {
            return nodes.number == 0;
        }
        match self.wanted.purpose {
            Purpose::Bcast { .. } => place.rank == RankId(0),
            Purpose::Run { .. } => is_of_first_node(place),
        }
    }

    /// PMI's descriptor, of the launcher that speaks its first version.
    fn key_value_space(&self) -> Option<i32> {
        let is_for_us = self.wanted.peers.is_empty() && matches!(self.wanted.purpose, Purpose::Bcast { .. });
        let is_pmi = is_for_us && self.place?.name == "PMI";
        std::env::var("PMI_FD").ok().filter(|_| is_pmi)?.parse().ok()
    }

    /// Makes sure that only one rank of this node acts, where the launcher does not number those of a node. Outer `None` if another
    /// one does.
    fn only_one_of_node(&self) -> Option<Option<UnixListener>> {
        let dest = match self.wanted.purpose {
            Purpose::Bcast { .. } if self.place.is_none_or(|place| place.local_rank.is_some()) => {
                return Some(None);
            }
            Purpose::Bcast { dest } => std::path::absolute(dest).unwrap_or_else(|_| dest.to_owned()),
            // The ranks of a launcher have chosen one of them.
            Purpose::Run { .. } if self.place.is_some() => return Some(None),
            Purpose::Run { .. } => PathBuf::new(),
        };
        let user = rustix::process::geteuid();
        let parts: [&[u8]; 3] =
            [self.name.as_bytes(), dest.as_os_str().as_encoded_bytes(), &user.as_raw().to_le_bytes()];
        let address = UnixAddress::from_abstract_name(MeetingKey::of(&parts).name()).ok()?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Some(Some(listener)),
            Err(_) => {
                let holder = std::os::unix::net::UnixStream::connect_addr(&address);
                let theirs =
                    holder.and_then(|holder| Ok(rustix::net::sockopt::socket_peercred(&holder)?.uid));
                // A name that another user holds keeps this one from nothing.
                theirs.is_ok_and(|theirs| theirs != user).then_some(None)
            }
        }
    }

    fn first(
        &self,
        listener: &TcpListener,
        interface: Option<IpAddr>,
        shared: Option<String>,
    ) -> Result<Side, Failure> {
        let from_space = shared.as_deref().and_then(|line| Some(line.split_once('/')?.0.to_owned()));
        let by_file = self.by_file && from_space.is_none() && !self.is_at_a_host(listener, interface);
        let secret = match from_space.or_else(|| self.secret.clone()) {
            Some(secret) => secret,
            None => random_secret()?,
        };
        let key = key_of(&secret);
        let nodes = self.nodes();
        let place = by_file.then(|| self.notice()).filter(|_| nodes != 1);
        let file =
            place.and_then(|place| place.write(secret.clone(), told(listener, interface))).map(Box::new);
        // One credential serves all nodes: each of them accepts one that others have used.
        let credential = OnceLock::new();
        let encode = move || credential.get_or_init(|| munge::encode(&secret)).clone();
        let credential = self.by_munge.then(|| Box::new(encode) as Box<dyn Fn() -> Option<Vec<u8>> + Sync>);
        let is_numbered = self.numbered.is_some();
        Ok(Side::First { key, credential, nodes, is_numbered, file })
    }

    /// True if others have the key, and find this node at a host and a port that they know.
    fn is_at_a_host(&self, listener: &TcpListener, interface: Option<IpAddr>) -> bool {
        let addresses = told(listener, interface);
        let known: Vec<SocketAddr> =
            self.hosts().iter().flat_map(|host| addresses::of_host(host, &self.ports)).collect();
        self.secret.is_some() && addresses.iter().any(|address| known.contains(address))
    }

    fn other(&self, shared: Option<String>) -> Side {
        if let Some(NumberedNodes { number, hosts }) = &self.numbered {
            let (number, nodes, ports) = (*number, hosts.len() as u32, self.ports.clone());
            let hosts = hosts.clone();
            // The first node may have another one of its ports.
            let at = move |number: u32| {
                addresses::of_host(&hosts[number as usize], if number == 0 { &ports } else { &ports[..1] })
            };
            return Side::Numbered { number, nodes, at: Box::new(at) };
        }
        if let Some(line) = shared {
            return Side::Other { find: Box::new(move || contacts(&line)) };
        }
        let key = self.secret.as_deref().map(key_of);
        let (hosts, ports) = (self.hosts(), self.ports.clone());
        let has_key = key.is_some() || self.by_munge;
        let file = self.by_file.then(|| self.notice());
        let tries = Cell::new(0);
        let find = move || {
            tries.set(tries.get() + 1);
            let at_host = |host: &String| addresses::of_host(host, &ports);
            let known = hosts.iter().filter(|_| has_key).flat_map(at_host);
            let known = known.map(|address| Contact { address, key: key.clone() });
            let mut known: Vec<Contact> = known.collect();
            if known.is_empty() && tries.get() == 1 {
                std::thread::sleep(BEFORE_FIRST_LOOK);
            }
            // Each look costs the file system some operations.
            if known.is_empty() || tries.get() > TRIES_AT_HOSTS {
                known.extend(file.iter().flat_map(noticed));
            }
            known
        };
        Side::Other { find: Box::new(find) }
    }

    /// Hosts of which one may be the first node.
    fn hosts(&self) -> Vec<String> {
        if let Some(first) = self.wanted.peers.first() {
            return vec![first.clone()];
        }
        let variable = |name: &str| std::env::var(name).ok();
        match self.place.map(|place| place.name) {
            Some("Open MPI") => hosts_of_daemon(&variable("OMPI_MCA_orte_hnp_uri").unwrap_or_default()),
            Some("Slurm") => step_hosts().and_then(|list| first_host(&list)).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Nodes of the job; 0 if that is not known.
    fn nodes(&self) -> u32 {
        if !self.wanted.peers.is_empty() {
            return self.wanted.peers.len() as u32;
        }
        host::nodes(self.place)
    }

    fn notice(&self) -> NoticePlace {
        let kind = match self.wanted.purpose {
            Purpose::Bcast { .. } => "bcast",
            Purpose::Run { .. } => "peers",
        };
        NoticePlace::of(self.wanted.image, kind, &self.name)
    }
}

/// The addresses in the URI of Open MPI's daemon: `NUMBER;tcp://ADDRESS,ADDRESS:PORT;tcp6://...`.
fn hosts_of_daemon(uri: &str) -> Vec<String> {
    let part = uri.split(';').find_map(|part| part.strip_prefix("tcp://"));
    let addresses = part.and_then(|part| Some(part.rsplit_once(':')?.0)).unwrap_or_default();
    addresses.split(',').filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

/// A secret, in a file that only this user can read or write.
fn read_secret(path: &Path) -> Option<String> {
    String::from_utf8(read_private(CWD, path, SECRET_MAX).ok()?.0).ok()
}

/// The secret that `--key` names.
fn read_key(path: &Path) -> Result<String, Failure> {
    let secret = read_secret(path).filter(|secret| secret.trim().len() >= SECRET_MIN);
    secret.ok_or_else(|| {
        let message =
            format!("`--key {}`: no file of yours with at least {SECRET_MIN} bytes of text", shown(path));
        Failure::message(format!("{message} that only you can read"))
            .hint("(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one")
    })
}

/// The pause of nodes that meet by the file alone, before they look for it. A client that has once found no file may keep that for
/// longer than a node waits, and the first node writes the file some milliseconds after its start.
const BEFORE_FIRST_LOOK: Duration = Duration::from_millis(80);

/// Times that a node looks for the first one at the hosts that it knows, before it looks for a file.
const TRIES_AT_HOSTS: u32 = 4;

/// Ports of first nodes: no service has one of them, and no system gives them away.
///
/// **Source** IANA's registry of port numbers: 23547 to 23999 are unassigned.
const PORTS: std::ops::Range<u16> = 23_547..24_000 - TRIES;

/// Connections that wait for a node.
const BACKLOG: i32 = 4096;

/// Ports that a first node tries.
const TRIES: u16 = 3;

/// Shortest secret. Unit: bytes.
const SECRET_MIN: usize = 16;

/// Longest secret, with the addresses of the first node. Unit: bytes.
const SECRET_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_key_and_the_addresses() {
        let addresses =
            [SocketAddr::from(([10, 0, 0, 1], 23_550)), SocketAddr::from(([10, 0, 0, 2], 23_550))];
        let written = line("0123456789abcdef", &addresses);
        assert_eq!(written, "0123456789abcdef/10.0.0.1:23550,10.0.0.2:23550");
        let read: Vec<SocketAddr> = contacts(&written).iter().map(|contact| contact.address).collect();
        assert_eq!(read, addresses);
        for damaged in ["", "short/10.0.0.1:1", "0123456789abcdef", "0123456789abcdef/x,10.0.0.1"] {
            assert!(contacts(damaged).is_empty(), "{damaged}");
        }
    }

    #[test]
    fn no_first_node_takes_the_port_of_a_service() {
        let version = |length| ImageVersion { length, modified: (0, 0), changed: (0, 0), inode: 1 };
        for length in 0..2000 {
            let purpose = Purpose::Run { version: version(length) };
            let image = Path::new("app.qimg");
            let wanted = Meeting { image, peers: &[], key: None, interface: None, port: None, purpose };
            let ports = Job::of(&wanted, None).unwrap().ports;
            assert!(ports.iter().all(|port| (23_547..24_000).contains(port)), "{ports:?}");
        }
    }

    #[test]
    fn the_daemon_of_open_mpi_tells_its_hosts() {
        let uri = "336265216.0;tcp://192.0.2.2,10.0.0.1:51699;tcp6://[fd00::2]:51827";
        assert_eq!(hosts_of_daemon(uri), ["192.0.2.2", "10.0.0.1"]);
        assert!(hosts_of_daemon("").is_empty());
    }
}
