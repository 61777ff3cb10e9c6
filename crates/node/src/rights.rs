//! Who may attach the disks of this node: `allow` in its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use cards_config::{Allow, Disk};
use cards_core::{Access, Allowed, NodeId, PgId, Rights, VolumeSpec};
use tokio::sync::watch;

use crate::node::members::Members;

/// What the configuration allows to the members, who have numbers.
#[derive(Debug)]
pub(crate) struct Configured {
    /// Of the volumes on disks of this node of which not everybody may do everything.
    allowed: BTreeMap<PgId, Allow>,
    members: watch::Receiver<Arc<Members>>,
}

impl Configured {
    /// What is allowed of a disk of this node; everything of a volume that is none.
    fn of(&self, volume: PgId) -> Option<&Allow> {
        self.allowed.get(&volume)
    }
}

impl Configured {
    /// `own` are the volumes on the disks.
    pub(crate) fn new(own: &[VolumeSpec], disks: &[Disk], members: watch::Receiver<Arc<Members>>) -> Self {
        let of = |spec: &VolumeSpec| {
            let disk = disks.iter().find(|disk| disk.name == spec.name)?;
            Some((spec.id, disk.allow.clone()?))
        };
        Self { allowed: own.iter().filter_map(of).collect(), members }
    }
}

impl Rights for Configured {
    fn most(&self, volume: PgId, node: NodeId) -> Option<Access> {
        let Some(allow) = self.of(volume) else { return Some(Access::Exclusive) };
        let members = self.members.borrow();
        allow.most(&members.get(node)?.name)
    }

    fn allowed(&self, volume: PgId) -> Allowed {
        let Some(allow) = self.of(volume) else { return Allowed::All };
        if allow.is_for_all() {
            return Allowed::All;
        }
        let members = self.members.borrow();
        Allowed::Only(Arc::new(allow.nodes().filter_map(|name| members.number(name)).collect()))
    }
}
