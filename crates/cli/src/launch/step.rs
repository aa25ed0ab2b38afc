//! Ends the job step when a rank refuses to start its program.
//!
//! The other ranks have started, and those of an MPI program would wait for this one until the time limit. Most launchers
//! end a job whose rank fails; two have to be told. `srun` ends it with `--kill-on-bad-exit` only, so the rank has
//! its own step cancelled: what the user started by one `srun`, and nothing else of the job. Hydra overlooks ranks that
//! fail before MPI is initialised, so the rank asks it to abort as `MPI_Abort` does.

use crate::printer::Printer;
use quell_base::RankPlace;
use std::os::fd::RawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Means to end a step that would go on without this rank.
#[derive(Debug, PartialEq, Eq)]
enum Means {
    /// `scancel` with this number.
    Cancel(String),
    /// PMI's abort on this descriptor.
    Abort(RawFd),
}

/// Ends the step of `launcher`, if it would go on without this rank, which ends with `status`.
pub(crate) fn end(place: &RankPlace, status: u8, printer: &Printer) {
    match means(place, |name| std::env::var(name).ok()) {
        Some(Means::Cancel(step)) => cancel(&step, printer),
        Some(Means::Abort(descriptor)) => {
            wait_until_heard();
            // If no launcher listens, this rank's own end must do.
            _ = quell_mount::pmi::abort(descriptor, status);
        }
        None => {}
    }
}

fn means(place: &RankPlace, variable: impl Fn(&str) -> Option<String>) -> Option<Means> {
    if place.ranks == Some(1) {
        return None;
    }
    match place.name {
        "Slurm" => place.job.clone().map(Means::Cancel),
        "PMI" => variable("PMI_FD")?.parse().ok().map(Means::Abort),
        _ => None,
    }
}

/// Hydra drops what a rank said and it has not passed on yet when it aborts: waits until the pipe is empty, and a little for
/// the way from its proxy.
fn wait_until_heard() {
    let began = Instant::now();
    let unread = || rustix::io::ioctl_fionread(std::io::stderr()).unwrap_or(0);
    while unread() > 0 && began.elapsed() < PATIENCE {
        std::thread::sleep(WAY);
    }
    std::thread::sleep(WAY);
}

/// The longest time that a proxy may take to read its rank's output.
const PATIENCE: Duration = Duration::from_secs(2);

/// From the proxy to the user's terminal, on a busy node.
const WAY: Duration = Duration::from_millis(200);

fn cancel(step: &str, printer: &Printer) {
    let mut cancel = Command::new("scancel");
    cancel.arg(step).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Said before: afterwards this process may be gone, too.
    printer.talk(&format!("step {step} is cancelled: srun would let its other ranks run on"));
    if !cancel.status().is_ok_and(|status| status.success()) {
        printer.warn(&format!("`scancel {step}` failed, so the other ranks run on"));
        printer.hint("srun --kill-on-bad-exit=1 ends them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_slurm_and_hydra_are_ended() {
        let of = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            means(&RankPlace::detect(variable).unwrap(), variable)
        };
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "3")];
        assert_eq!(of(&slurm), Some(Means::Cancel("7.3".to_owned())));
        assert_eq!(of(&[&slurm[..], &[("SLURM_NTASKS", "1")]].concat()), None, "no rank waits");
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "6")]), Some(Means::Abort(6)));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_FD", "six")]), None);
        assert_eq!(of(&[("PMI_RANK", "0")]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_NAMESPACE", "7")]), None);
    }
}
