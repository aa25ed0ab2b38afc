//! The process that buffers the files of a node (`quell-buffer`). It ends when the last process of the namespace has ended.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::file::Memory;
use super::picked::Picked;
use super::request::{BufferDirectory, BufferEnd, BufferRequest, BufferSharing};
use super::service::Service;
use crate::covers::{self, CoverPlan, Covered, Door, FromServer, Judge, LEFT_PATIENCE};
use crate::error::{SetupStep, Unavailable};
use crate::message::send;
use crate::mount_points::{at, open_path};
use crate::stats::{BufferPassedStats, BufferStats, TransferStats};

/// Lets ranks in at the meeting place until the last one has left.
pub(super) fn run(listener: OwnedFd, request: &BufferRequest, source: &str) {
    covers::settle(c"quell-buffer", &listener, &request.real);
    let mut door = Door::<Vec<BufferEnd>>::new(listener);
    match serve(request, source) {
        Ok(Covered { services, threads, namespaces }) => {
            for service in &services {
                let tended = Arc::downgrade(service);
                // Without it, what a program leaves in buffers waits until it closes the file.
                _ = std::thread::Builder::new().spawn(move || Service::tend(&tended));
            }
            let last = door.attend(&namespaces);
            let calls = door.calls;
            drop((namespaces, door));
            covers::wait_for(&threads, Instant::now() + LEFT_PATIENCE);
            services.iter().for_each(|service| service.finish());
            let ends = services
                .iter()
                .zip(&request.directories)
                .map(|(service, directory)| end(service, directory, calls));
            if let Some(last) = last {
                _ = send(&last, &FromServer::Done(Some(ends.collect::<Vec<_>>())), &[]);
            }
            threads.into_iter().for_each(|thread| _ = thread.join());
            services.iter().for_each(|service| service.finish());
        }
        Err(unavailable) => door.refuse(&unavailable),
    }
}

/// Makes the namespace, with every directory served.
fn serve(request: &BufferRequest, source: &str) -> Result<Covered<Service>, Unavailable> {
    let mut real = request.real.iter();
    let open = |directory: &BufferDirectory| -> Result<_, Unavailable> {
        let failed = |errno| at(SetupStep::Cover, errno, &directory.path);
        let shown = open_path(&directory.path).map_err(failed)?;
        let Some(names) = directory.picked.clone() else { return Ok((shown, None)) };
        let real = real.next().ok_or(Errno::INVAL).and_then(|real| fcntl_dupfd_cloexec(real, 3));
        let real = real.map_err(failed)?;
        let picked = Picked::new(names, shown, &real).map_err(failed)?;
        Ok((real, Some(picked)))
    };
    let originals = request.directories.iter().map(open).collect::<Result<VecDeque<_>, _>>()?;
    let mut next = originals.into_iter().zip(&request.directories);
    let memory = Arc::new(Memory { limit: request.memory, held: AtomicU64::new(0) });
    let directories: Vec<PathBuf> =
        request.directories.iter().map(|directory| directory.path.clone()).collect();
    let plan = CoverPlan { directories: &directories, source, judge: Judge::Original };
    covers::cover(&plan, |device| {
        let ((original, picked), directory) = next.next()?;
        Service::new(device, original, picked, directory, Arc::clone(&memory)).ok()
    })
}

fn end(service: &Service, directory: &BufferDirectory, programs: TransferStats) -> BufferEnd {
    let counts = &service.common.counts;
    let total = counts.total();
    let [locked, appending, synchronous, direct] = counts.passed();
    let load = |count: &AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    BufferEnd {
        failed: counts.failed(),
        stats: BufferStats {
            directory: quell_base::shown(&directory.path).to_string(),
            kernel_gathers: directory.sharing == BufferSharing::Private,
            requests: service.requests.stats(),
            programs,
            asked: total.asked,
            file_system: total.original,
            file_system_seconds: total.busy.as_secs_f64(),
            hits: total.hits,
            passed: BufferPassedStats { locked, appending, synchronous, direct },
            lost_bytes: load(&counts.lost),
            files: counts.top(),
        },
    }
}
