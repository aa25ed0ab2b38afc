//! Finds the mount that serves a path in the mount namespace of a process.

use crate::context::NamespaceChange;
use crate::{Mount, MountId, Nanos, PathId, ProcessId};
use std::collections::{HashMap, VecDeque};

/// Mounts by namespace, and the namespace of each process over time.
#[derive(Debug)]
pub(super) struct MountTable {
    /// Mounts by namespace. Shape: in the order of mountinfo, so that of equal mount points the last one is on top.
    by_namespace: HashMap<u64, Vec<(Vec<u8>, MountId)>>,
    /// Shape: sorted by time.
    changes: VecDeque<NamespaceChange>,
    current: HashMap<ProcessId, u64>,
    served: HashMap<(u64, PathId), Option<MountId>>,
}

impl MountTable {
    pub(super) fn new(mounts: &[Mount], namespaces: &[NamespaceChange]) -> Self {
        let mut by_namespace: HashMap<u64, Vec<(Vec<u8>, MountId)>> = HashMap::new();
        for (index, mount) in mounts.iter().enumerate().take(usize::from(u16::MAX)) {
            let point = mount.mount_point.trim_end_matches('/').as_bytes().to_vec();
            by_namespace.entry(mount.namespace).or_default().push((point, MountId(index as u16)));
        }
        let changes = namespaces.iter().cloned().collect();
        Self { by_namespace, changes, current: HashMap::new(), served: HashMap::new() }
    }

    /// Starts a process in its parent's namespace.
    pub(super) fn bear(&mut self, process: ProcessId, parent: Option<ProcessId>) {
        if let Some(&namespace) = parent.and_then(|parent| self.current.get(&parent)) {
            self.current.entry(process).or_insert(namespace);
        }
    }

    /// The mount whose mount point is the longest prefix of `path`.
    pub(super) fn serving(
        &mut self,
        process: ProcessId,
        at: Nanos,
        id: PathId,
        path: &[u8],
    ) -> Option<MountId> {
        while let Some(change) = self.changes.pop_front_if(|change| change.at <= at) {
            self.current.insert(change.process, change.namespace);
        }
        let namespace = *self.current.get(&process)?;
        let mounts = self.by_namespace.get(&namespace)?;
        *self.served.entry((namespace, id)).or_insert_with(|| {
            let covering = mounts.iter().filter(|(point, _)| is_below(path, point));
            covering.max_by_key(|(point, _)| point.len()).map(|(_, mount)| *mount)
        })
    }
}

/// True when `path` is `point` or below it. The root's mount point is the empty path here.
fn is_below(path: &[u8], point: &[u8]) -> bool {
    path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
