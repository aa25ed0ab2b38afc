//! The answer to INIT, by which the kernel and a server settle what both can do.

use rustix::io::Errno;

use crate::abi::{self, InitFlags};
use crate::reply::Reply;
use crate::request::Operation;

/// Answers INIT with those of the wanted flags that the kernel offers.
///
/// **Parameters** `max_write`: the most bytes of one WRITE.
pub fn settle(operation: &Operation<'_>, reply: Reply<'_>, wanted: InitFlags, max_write: u32) {
    let &Operation::Init { major, minor, max_readahead, flags, flags2 } = operation else { return };
    if major != abi::MAJOR || minor < abi::OLDEST_MINOR {
        return reply.error(Errno::PROTO);
    }
    let flags = InitFlags::from_bits_truncate(flags) & wanted;
    let flags2 = match flags.contains(InitFlags::INIT_EXT) {
        true => flags2 & abi::INIT2_DIRECT_IO_ALLOW_MMAP,
        false => 0,
    };
    reply.bytes(&abi::encode_init(minor.min(abi::MINOR), max_readahead, flags, flags2, max_write));
}
