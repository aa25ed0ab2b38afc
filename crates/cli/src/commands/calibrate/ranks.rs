//! The ranks of a launcher as clients of one calibration.
//!
//! ```text
//! rank 0        writes its addresses and a secret to a private file in the measured directory, and leads
//! other ranks   read it there, prove that they have the secret, and work for rank 0 over that connection
//! ```

use crate::failure::Failure;
use crate::flags::Calibrate;
use crate::host;
use crate::peers::own_addresses;
use crate::signals::Signals;
use quell_base::files::{Durability, OutputMode, read_private, replace};
use quell_base::{RankPlace, shown};
use quell_calibrate::ClientLink;
use quell_talk::{Meeting, MeetingKey, MeetingPlace};
use rustix::fs::CWD;
use serde::{Deserialize, Serialize};
use std::io::{Error, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The side of this process.
pub(super) enum Side {
    /// It leads these other ranks.
    Leads(Vec<ClientLink>),
    /// It has worked for rank 0.
    HasWorked,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Invitation {
    secret: [u8; 32],
    addresses: Vec<IpAddr>,
    port: u16,
}

/// Meets the other ranks of the launcher. A rank that works for another returns when that one has ended.
pub(super) fn meet(flags: &Calibrate, signals: &Signals) -> Result<Side, Failure> {
    let place = host::rank_place().filter(|place| place.ranks.is_some_and(|ranks| ranks > 1));
    let Some(place) = place.filter(|_| flags.second_client.is_empty()) else {
        return Ok(Side::Leads(Vec::new()));
    };
    let file = file(&flags.directory, &place);
    let stop = || signals.have_come();
    let ranks = (place.rank.0, place.ranks.unwrap_or(1));
    let attend = |place: &MeetingPlace, secret: &[u8]| {
        let met = Meeting::attend(place, &MeetingKey::of(&[secret]), ranks, &stop);
        met.map_err(|error| Failure::new(error).hint("start the same `quell calibrate` in every rank"))
    };
    if host::is_first(Some(&place)) {
        let invitation = Invitation::new().map_err(|error| unmet(&file, error))?;
        let _removed = Invited::write(&file, &invitation).map_err(|error| unmet(&file, error))?;
        let here = MeetingPlace::Network(format!("0.0.0.0:{}", invitation.port));
        let streams = attend(&here, &invitation.secret)?.into_files();
        let streams = streams.map_err(|error| unmet(&file, error))?;
        return Ok(Side::Leads(streams.into_iter().map(ClientLink::Connection).collect()));
    }
    let Some((invitation, address)) = invited(&file, &stop) else {
        let failure = match signals.have_come() {
            true => Failure::message("interrupted").status(signals.status()),
            false => Failure::message(format!("rank 0 did not come to `{}`", shown(&file))),
        };
        return Err(failure.hint("start the same `quell calibrate` in every rank"));
    };
    let streams = attend(&MeetingPlace::Network(address.to_string()), &invitation.secret)?.into_files();
    let streams = streams.map_err(|error| unmet(&file, error))?;
    for stream in streams {
        let replies = stream.try_clone()?;
        let leave = || std::process::exit(0);
        // Rank 0 tells the reason if it ends the connection.
        _ = quell_calibrate::serve(stream, replies, leave);
    }
    Ok(Side::HasWorked)
}

impl Invitation {
    fn new() -> Result<Self, Error> {
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        // The kernel gives no port again soon that it has just given.
        let port = TcpListener::bind(("0.0.0.0", 0))?.local_addr()?.port();
        Ok(Self { secret, addresses: own_addresses(), port })
    }
}

/// The file of the meeting, which goes away with this value.
struct Invited<'a>(&'a Path);

impl<'a> Invited<'a> {
    fn write(file: &'a Path, invitation: &Invitation) -> Result<Self, Error> {
        let bytes = quell_talk::encode(invitation)?;
        replace(file, OutputMode::Exactly(0o600), Durability::Cached, &bytes)?;
        Ok(Self(file))
    }
}

impl Drop for Invited<'_> {
    fn drop(&mut self) {
        // A file that stays is named by the next calibration.
        _ = std::fs::remove_file(self.0);
    }
}

/// The invitation of rank 0 and an address at which it answers; `None` when it did not come in time.
fn invited(file: &Path, stop: &dyn Fn() -> bool) -> Option<(Invitation, SocketAddr)> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !stop() {
        // A client that was asked for an absent name may keep the absence for longer than we wait.
        let read = is_listed(file).then(|| read_private(CWD, file, LONGEST).ok()).flatten();
        if let Some(invitation) = read.and_then(|(bytes, _)| quell_talk::decode::<Invitation>(&bytes).ok()) {
            let places =
                invitation.addresses.iter().map(|&address| SocketAddr::new(address, invitation.port));
            let mut answering = places.filter(|place| TcpStream::connect_timeout(place, ANSWER).is_ok());
            if let Some(address) = answering.next() {
                return Some((invitation, address));
            }
        }
        std::thread::sleep(RETRY);
    }
    None
}

fn is_listed(file: &Path) -> bool {
    let names = file.parent().and_then(|directory| directory.read_dir().ok());
    names.into_iter().flatten().flatten().any(|entry| Some(&*entry.file_name()) == file.file_name())
}

/// The name of the job is in it, so that two jobs can measure one directory.
fn file(directory: &Path, place: &RankPlace) -> PathBuf {
    let job = MeetingKey::of(&[host::job(Some(place)).as_bytes()]).derive("file", &[]);
    let job: String = job[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("{}{job}.meeting", quell_calibrate::PREFIX))
}

fn unmet(file: &Path, error: Error) -> Failure {
    Failure::new(error).context(format!("cannot meet the other ranks by `{}`", shown(file)))
}

/// The time that ranks wait for rank 0.
const PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(100);
/// The time in which an address of rank 0 answers.
const ANSWER: Duration = Duration::from_secs(1);
/// Longest file. Unit: bytes.
const LONGEST: u64 = 4096;
