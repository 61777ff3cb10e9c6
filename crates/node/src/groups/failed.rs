//! Copies that are given up because their disk has failed. The node of one tells the registry, so that all nodes say the same.
//!
//! If another one is in sync, its node takes over or goes on without this one. If none is, nobody is the group's primary although its map
//! names this node: what is asked here waits as long as other nodes wait for an answer, and then fails.

use std::rc::Rc;

use cards_array::group::{Map, State};
use cards_coordinator::GroupVolume;
use cards_core::{Duration, Instant, IoError, PgId};
use cards_disk::JobError;

use crate::failures::Kind;
use crate::node::groups::{FailedCopy, Hosted};
use crate::node::{Local, Node};

impl Node {
    /// How long a request waits for a disk.
    pub(super) fn disk_wait(&self) -> Duration {
        Duration::from_nanos(self.config.disk_wait.as_nanos() as u64)
    }

    /// Why the copy here of a group is given up which this node leads by its map: no other node can take over, or none has yet.
    pub(crate) fn lost_lead(&self, of: PgId) -> Option<FailedCopy> {
        self.groups.failed_copy(of).filter(|_| self.primary(of) == Some(self.me))
    }

    /// Whether a column that the map has in sync is given up: by this node, or by another one, as the registry says.
    pub(crate) fn is_given_up(&self, record: &GroupVolume, map: &Map, number: u8) -> bool {
        let held = map.column(number).filter(|column| column.state == State::Sync);
        held.is_some_and(|column| match column.node == self.me {
            true => self.groups.failed_copy(record.pg()).is_some(),
            false => record.columns.get(usize::from(number)).is_some_and(|column| column.failed),
        })
    }

    /// What is to be done about a copy here that is given up. A file that was cut short may have failed in any way before that was seen.
    pub(crate) fn remedy(&self, failed: &FailedCopy) -> &'static str {
        let mut managed = self.managed.iter().zip(&self.managed_seen);
        let is_cut = managed.any(|(managed, seen)| managed.path() == failed.path && seen.is_cut());
        remedy_of_copy(if is_cut { Kind::Shrank } else { failed.kind })
    }

    /// Whether the last copy of a group is given up here: nobody can take over.
    pub(crate) fn is_lost(&self, of: PgId) -> bool {
        let Some(known) = self.lost_lead(of).and_then(|_| self.groups.get(of)) else {
            return false;
        };
        known.ready().is_some_and(|map| self.heir_of(map).is_none())
    }
}

impl FailedCopy {
    /// What has happened, for people.
    pub(crate) fn described(&self, node: &str) -> String {
        let Self { disk, path, error, .. } = self;
        format!("copy {node}:{disk} is given up after an error of its disk {path}: {error}")
    }
}

/// What is to be done about a disk that has failed, and the copies on it.
pub(crate) fn remedy_of_copy(kind: Kind) -> &'static str {
    match kind {
        Kind::NoSpace => "make room in the file system that has it, then restart this daemon",
        Kind::Shrank => {
            "stop this daemon and bring a copy of the whole disk back, or have the copies on it replaced; do not make it longer again"
        }
        Kind::Damaged | Kind::Changed | Kind::Other => {
            "see the kernel's log (dmesg) and the disk, then restart this daemon"
        }
    }
}

impl Hosted {
    /// When what is parked fails. It is counted from the stop: of requests that wait for one another each would else wait as long again.
    pub(super) fn gives_up(&self, disk_wait: Duration) -> Instant {
        let waits = !self.parked.is_empty() && self.group.map().is_none();
        self.stopped.filter(|_| waits).map_or(Instant::NEVER, |stopped| stopped + disk_wait)
    }
}

impl Local {
    /// A work of a group's copy has failed, and not because of damaged data: the group takes nothing more for it.
    pub(super) fn copy_failed(&self, of: PgId, begun: u64, error: JobError) {
        let column = {
            let groups = self.groups.borrow();
            let hosted = groups.get(&of).filter(|hosted| hosted.begun == begun);
            hosted.map(|hosted| hosted.column.clone())
        };
        let (Some(column), Some(known)) = (column, self.node.groups.get(of)) else { return };
        let managed = column.managed();
        let failed = FailedCopy {
            disk: managed.disk_name().to_string(),
            path: managed.path().to_owned(),
            kind: Kind::at(managed, error),
            error: error.to_string(),
        };
        if self.node.groups.copy_has_failed(of, failed.clone()) {
            let (FailedCopy { disk, path, .. }, remedy) = (&failed, self.node.remedy(&failed));
            tracing::error!(
                volume = known.record.described(),
                disk,
                path,
                %error,
                "its copy here is given up, for its disk has failed: {remedy}"
            );
            self.node.membership.look_at_columns();
        }
    }

    /// Ends what has waited for a primary for too long.
    pub(super) fn give_up_parked(self: &Rc<Self>, of: PgId) {
        let (now, wait) = (self.node.now(), self.node.disk_wait());
        let due = |hosted: &mut Hosted| match hosted.gives_up(wait) <= now {
            true => std::mem::take(&mut hosted.parked),
            false => Vec::new(),
        };
        let due = self.hosted(of, due).unwrap_or_default();
        let error = match self.node.groups.failed_copy(of) {
            Some(_) => IoError::Io,
            None => IoError::NoAnswer,
        };
        due.iter().for_each(|asked| self.disk_op_done(asked, Err(error)));
        self.carry_out_wishes();
    }

    /// The process ends: what waits for copies that nobody can replace is asked of its next life.
    pub(super) fn end_lost(self: &Rc<Self>) {
        let hosted: Vec<PgId> = self.groups.borrow().keys().copied().collect();
        hosted.into_iter().filter(|of| self.node.is_lost(*of)).for_each(|of| self.end_parked(of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_system_wants_room_and_anything_else_a_look_at_the_disk() {
        let remedy = |error| remedy_of_copy(Kind::of(error));
        let os = |errno| JobError::Os { errno };
        for full in [libc::ENOSPC, libc::EDQUOT].map(os) {
            assert!(remedy(full).starts_with("make room") && !remedy(full).contains("dmesg"), "{full}");
        }
        for broken in [os(libc::EIO), JobError::SyncFailed, JobError::ReadOnly, JobError::StoreFailed] {
            assert!(remedy(broken).contains("dmesg") && !remedy(broken).contains("make room"), "{broken}");
        }
        for error in [os(libc::ENOSPC), os(libc::EIO), JobError::StoreFailed] {
            assert!(remedy(error).ends_with("restart this daemon"), "{error}");
        }
        // A restart would make the file longer again, and what was lost zero.
        let cut = remedy(JobError::Shrank { offset: 0 });
        assert!(cut.contains("bring a copy of the whole disk back") && !cut.contains("restart"), "{cut}");
    }

    #[test]
    fn a_copy_is_named_with_its_node_its_disk_and_the_error() {
        let failed = FailedCopy {
            disk: "fast".into(),
            path: "/dev/sdb".into(),
            error: JobError::Os { errno: libc::EIO }.to_string(),
            kind: Kind::Other,
        };
        let text = failed.described("n1");
        assert!(text.starts_with("copy n1:fast is given up after an error of its disk /dev/sdb: "), "{text}");
        assert!(text.ends_with(&failed.error), "{text}");
    }
}
