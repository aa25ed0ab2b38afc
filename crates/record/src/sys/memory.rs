//! Reads and writes the memory of a stopped thread.

use super::checked;
use quell_trace::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The smallest page size, on both architectures. A read that does not cross a multiple of it either succeeds or fails
/// as a whole.
const PAGE: u64 = 4096;

/// The size of the first read, which most paths fit into, so that little is copied in vain.
const FIRST_READ: u64 = 256;

/// The maximum bytes of a path with its final zero. Source: `PATH_MAX` of `linux/limits.h`.
const LONGEST: usize = 4096;

/// Reads into `buffer` from `address`. Returns the number of bytes read, which is smaller than the buffer where memory
/// is not mapped.
pub(crate) fn read(thread: Pid, address: u64, buffer: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: `local` describes `buffer`, which is borrowed mutably; `remote` is an address in another process that
    // the kernel checks.
    let read = unsafe { libc::process_vm_readv(thread.0, &raw const local, 1, &raw const remote, 1, 0) };
    match checked(read as i64) {
        Ok(read) => read as usize,
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
        // The kernel lacks or forbids the call. The slower way gives the same result.
        Err(_) => open_memory(thread, false).and_then(|file| file.read_at(buffer, address)).unwrap_or(0),
    }
}

/// Finds out if this process may read the memory of a thread, and so may trace it, without a change to the thread.
///
/// # Errors
/// `EPERM` where the kernel or a security module refuses.
pub(crate) fn verify_access(thread: Pid) -> std::io::Result<()> {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    // SAFETY: `local` describes a local byte; `remote` is an address in another process that the kernel checks.
    let read = unsafe { libc::process_vm_readv(thread.0, &raw const local, 1, &raw const remote, 1, 0) };
    match checked(read as i64) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error),
        // Nothing is mapped at the address.
        _ => Ok(()),
    }
}

/// Writes all of `bytes`; true on success. Also works on memory that is read-only for the thread.
pub(crate) fn write(thread: Pid, address: u64, bytes: &[u8]) -> bool {
    open_memory(thread, true).and_then(|file| file.write_all_at(bytes, address)).is_ok()
}

fn open_memory(thread: Pid, write: bool) -> std::io::Result<File> {
    File::options().read(true).write(write).open(format!("/proc/{thread}/mem"))
}

/// Appends the string at `address`, without its final zero, to `text`; true when it was read completely. A string
/// longer than any path is cut.
pub(crate) fn read_string(thread: Pid, address: u64, text: &mut Vec<u8>) -> bool {
    text.clear();
    let mut chunk = FIRST_READ;
    let mut address = address;
    while text.len() < LONGEST {
        let (begin, in_page) = (text.len(), PAGE - address % PAGE);
        let wanted = in_page.min(chunk).min((LONGEST - begin) as u64) as usize;
        text.resize(begin + wanted, 0);
        let read = read(thread, address, &mut text[begin..]);
        if let Some(zero) = text[begin..begin + read].iter().position(|&byte| byte == 0) {
            text.truncate(begin + zero);
            return true;
        }
        if read < wanted {
            return false;
        }
        address = address.wrapping_add(wanted as u64);
        chunk = PAGE;
    }
    text.truncate(LONGEST - 1);
    true
}

/// The little-endian word at `address`.
pub(crate) fn read_word(thread: Pid, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    (read(thread, address, &mut word) == word.len()).then(|| u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Pid {
        crate::facts::ourselves()
    }

    #[test]
    fn strings_are_read_up_to_their_zero_wherever_pages_end() {
        let mut memory = vec![b'a'; 3 * PAGE as usize];
        let base = memory.as_ptr() as u64;
        let mut text = Vec::new();
        for (begin, length) in [(0, 0), (10, 5), (4000, 300), (4090, 5), (100, 4095), (17, 255), (17, 256)] {
            memory.fill(b'a');
            memory[begin + length] = 0;
            assert!(read_string(me(), base + begin as u64, &mut text));
            assert_eq!(text.len(), length, "at {begin}");
        }
    }

    #[test]
    fn a_string_longer_than_any_path_is_cut_off() {
        let memory = vec![b'a'; 3 * PAGE as usize];
        let mut text = Vec::new();
        assert!(read_string(me(), memory.as_ptr() as u64, &mut text));
        assert_eq!(text.len(), LONGEST - 1);
    }

    #[test]
    fn an_address_without_memory_reads_nothing() {
        let mut text = Vec::new();
        assert!(!read_string(me(), 0, &mut text));
        assert_eq!(read_word(me(), 8), None);
    }
}
