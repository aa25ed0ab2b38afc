//! Access control lists of originals, of files that the image has none of: asked for once, and only where a list could allow
//! more than the bits do.
//!
//! Most files let all users do the same, and cost nothing. Names in a listing are not asked about either:
//! the kernel looks up names that a program uses.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use quell_image::Nid;
use rustix::io::Errno;

use crate::lock;

/// Lists that the originals gave.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    lists: HashMap<Nid, Option<Arc<[u8]>>>,
    /// Devices, by the image's numbers, whose file systems have no lists.
    without: HashSet<u64>,
}

impl Lists {
    /// The list of `nid`, which lies on `device`; `None` if its original must be asked.
    pub(crate) fn of(&self, nid: Nid, device: u64) -> Option<Option<Arc<[u8]>>> {
        let known = lock(&self.0);
        if known.without.contains(&device) { Some(None) } else { known.lists.get(&nid).cloned() }
    }

    /// Remembers the list of the original, or that it has none. An original that cannot be asked is asked again.
    pub(crate) fn remember(
        &self,
        nid: Nid,
        device: u64,
        outcome: Result<Vec<u8>, Errno>,
    ) -> Option<Arc<[u8]>> {
        let mut known = lock(&self.0);
        let list: Option<Arc<[u8]>> = match outcome {
            Ok(list) => Some(list.into()),
            Err(Errno::NODATA) => None,
            Err(Errno::OPNOTSUPP) => {
                known.without.insert(device);
                return None;
            }
            Err(_) => return None,
        };
        known.lists.insert(nid, list.clone());
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_original_said_is_remembered() {
        let lists = Lists::default();
        let [listed, unlisted, failed, other] = [1, 2, 3, 4].map(Nid::new);
        assert_eq!(lists.remember(listed, 7, Ok(vec![2, 0])).as_deref(), Some(&[2, 0][..]));
        assert_eq!(lists.remember(unlisted, 7, Err(Errno::NODATA)), None);
        assert_eq!(lists.remember(failed, 7, Err(Errno::IO)), None);
        assert_eq!(lists.of(listed, 7).flatten().as_deref(), Some(&[2, 0][..]));
        assert_eq!(lists.of(unlisted, 7), Some(None));
        assert_eq!(lists.of(failed, 7), None);
        assert_eq!(lists.remember(other, 8, Err(Errno::OPNOTSUPP)), None);
        assert_eq!(lists.of(failed, 8), Some(None));
    }
}
