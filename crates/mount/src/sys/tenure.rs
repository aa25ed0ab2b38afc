//! A place that one thread has until it is dead, among processes that share memory.
//!
//! A thread that is killed may be in the middle of a system call, which is carried out to its end first: it reads a
//! request, makes a file. Its successor must not begin before. A robust mutex that the thread never gives back tells
//! when that is: the kernel marks it when the thread is gone, and wakes its successor. Source: pthread_mutexattr_setrobust(3),
//! the kernel's `Documentation/locking/robust-futexes.rst`.

use std::sync::Arc;

use rustix::io::Errno;

use super::shared::SharedMemory;

/// The place.
#[derive(Debug, Clone)]
pub(crate) struct Tenure(Arc<SharedMemory>);

impl Tenure {
    /// A place that no thread has.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn new() -> Result<Self, Errno> {
        let memory = Arc::new(SharedMemory::new(size_of::<libc::pthread_mutex_t>())?);
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: initialises the attributes that it is given.
        check(unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised above.
        let mut attributes = unsafe { attributes.assume_init() };
        // SAFETY: valid attributes, and a value that they may have.
        check(unsafe {
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED)
        })?;
        // SAFETY: the same.
        check(unsafe { libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST) })?;
        // SAFETY: the memory is zeroed, aligned to a page, large enough, and stays where it is in every process that
        // is forked from here; no thread knows of it yet.
        check(unsafe { libc::pthread_mutex_init(memory.start().cast(), &raw const attributes) })?;
        Ok(Self(memory))
    }

    /// Gives the place to this thread, for the rest of its life. Waits until the thread that had it is dead.
    pub(crate) fn take(&self) {
        let mutex = self.0.start().cast();
        // SAFETY: `new` made it a robust mutex. The thread's number is known to the C library, or the mutex could
        // not be given back; the caller is a thread that was started as such, or the first one of fork(2).
        if unsafe { libc::pthread_mutex_lock(mutex) } == libc::EOWNERDEAD {
            // SAFETY: this thread has it now, and what it protects is made good by the next server.
            let _cannot_fail = unsafe { libc::pthread_mutex_consistent(mutex) };
        }
    }

    /// Tells whether no thread has the place.
    pub(crate) fn is_free(&self) -> bool {
        let mutex = self.0.start().cast();
        // SAFETY: as in `take`.
        let outcome = unsafe { libc::pthread_mutex_trylock(mutex) };
        if outcome == libc::EOWNERDEAD {
            // SAFETY: this thread has it now.
            let _cannot_fail = unsafe { libc::pthread_mutex_consistent(mutex) };
        }
        let is_taken = outcome == 0 || outcome == libc::EOWNERDEAD;
        if is_taken {
            // SAFETY: this thread has just taken it.
            let _cannot_fail = unsafe { libc::pthread_mutex_unlock(mutex) };
        }
        is_taken
    }

    /// Waits until no thread has the place.
    pub(crate) fn wait(&self) {
        self.take();
        // SAFETY: this thread has just taken it.
        let _cannot_fail = unsafe { libc::pthread_mutex_unlock(self.0.start().cast()) };
    }
}

fn check(error: libc::c_int) -> Result<(), Errno> {
    if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_its_thread_is_dead() {
        let place = Tenure::new().unwrap();
        place.wait();
        let (theirs, (hold, held), (taken, is_taken)) =
            (place.clone(), std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel());
        let thread = std::thread::spawn(move || {
            theirs.take();
            taken.send(()).unwrap();
            let _until_the_end = held.recv();
        });
        is_taken.recv().unwrap();
        let next = place.clone();
        let waiting = std::thread::spawn(move || {
            next.wait();
            next.take();
        });
        assert!(!waiting.is_finished() && !place.is_free());
        drop(hold);
        thread.join().unwrap();
        waiting.join().unwrap();
        assert!(place.is_free() && place.is_free(), "the thread that took it last is dead");
    }
}
