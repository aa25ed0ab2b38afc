//! The loop of a server's thread.

use rustix::io::Errno;

use crate::device::{Device, Received};
use crate::reply::Reply;
use crate::request::Request;

/// Hands each request to `answer` until the mount is gone. `buffer` has room for the largest request.
pub fn answer_requests(device: &Device, buffer: &mut [u8], mut answer: impl FnMut(&Request<'_>, Reply<'_>)) {
    loop {
        match device.receive(buffer) {
            Ok(Received::Request(bytes)) => match Request::parse(&buffer[..bytes]) {
                Ok(request) => answer(&request, Reply::new(device, request.unique)),
                Err(malformed) => {
                    if let Some(unique) = malformed.unique {
                        Reply::new(device, unique).error(Errno::INVAL);
                    }
                }
            },
            Ok(Received::Again) => {}
            // An error that fuse(4) does not know: nothing can be answered any more.
            Ok(Received::Ended) | Err(_) => return,
        }
    }
}
