//! Copies whose disks were put back to earlier images while the map has them in sync.
//!
//! The node of such a copy finds out and tells the registry, so that all nodes say the same. The copy is used by nobody: it is filled from
//! another one, or a person forces it.

use std::rc::Rc;

use cards_array::group::{Map, State};
use cards_coordinator::GroupVolume;
use cards_core::PgId;
use cards_disk::Column;

use crate::node::groups::Known;
use crate::node::{Local, Node};

impl Node {
    /// The epoch of which a copy that the map has in sync is an image, if its disk was put back: what this node has found of its own ones, and
    /// what the registry says of others.
    pub(crate) fn put_back(&self, record: &GroupVolume, map: &Map, number: u8) -> Option<u64> {
        let held = map.column(number).filter(|column| column.state == State::Sync)?;
        let found = self.groups.found_put_back(record.pg()).filter(|_| held.node == self.me);
        found.unwrap_or_else(|| record.columns.get(usize::from(number))?.put_back)
    }

    /// Why nobody can serve a group, if all its copies in sync are earlier images: which they are, and what to do.
    pub(crate) fn all_put_back(&self, known: &Known) -> Option<AllPutBack> {
        let map = known.ready()?;
        let old = |number: u8| {
            let epoch = self.put_back(&known.record, map, number)?;
            let place = known.record.columns.get(usize::from(number))?.place();
            Some(format!("{place} (of epoch {epoch})"))
        };
        let copies: Vec<String> = map.in_sync().map(old).collect::<Option<_>>()?;
        let volume = known.record.name.clone();
        (!copies.is_empty()).then_some(AllPutBack { volume, copies, epoch: map.term.epoch })
    }
    /// The first group of a volume of which that is so.
    pub(crate) fn first_put_back(&self, volume: &str) -> Option<AllPutBack> {
        let groups = self.groups.all().into_iter().filter(|known| known.record.volume() == volume);
        groups.filter_map(|known| self.all_put_back(&known)).next()
    }
}

/// A group whose copies in sync are all earlier images.
pub(crate) struct AllPutBack {
    /// The volume, or the part of one, as `cards volume force` takes it.
    volume: String,
    /// Where they are, and of which epochs.
    copies: Vec<String>,
    epoch: u64,
}

impl AllPutBack {
    /// What has happened, for people.
    pub(crate) fn described(&self) -> String {
        let (images, copies) = match self.copies.len() {
            1 => ("its copy in sync was put back to an earlier image", self.copies.join(", ")),
            _ => ("all its copies in sync were put back to earlier images", self.copies.join(", ")),
        };
        format!("{images}: {copies}, and the volume is at epoch {}", self.epoch)
    }

    /// The same, and what clients see of it.
    pub(crate) fn reason(&self) -> String {
        format!("{}: requests wait, then EIO after disk_wait; {}", self.described(), self.remedy())
    }

    /// What is to be done.
    pub(crate) fn remedy(&self) -> String {
        let Self { volume, .. } = self;
        format!(
            "bring a disk back as it was last and restart its daemon; if there is none, `cards volume force {volume} --from NODE` chooses a copy, \
             and what was written since is lost"
        )
    }
}

impl Local {
    /// Notes whether the disk of this node's copy was put back, by this map.
    pub(super) fn note_put_back(self: &Rc<Self>, of: PgId, map: &Map) {
        // Of one that is not opened yet it is found then.
        let found = self.groups.borrow().get(&of).map(|hosted| hosted.group.put_back(map));
        if let Some(found) = found {
            self.found_put_back(of, found);
        }
    }

    /// The same of a column that is smaller than its group is served: it had the size before, durably. If the map has it in sync, and no person has
    /// forced it since, it is not used; else it grows, and is.
    pub(super) fn note_small(&self, of: PgId, column: &Column) {
        let Some(known) = self.node.groups.get(of) else { return };
        let (me, disk) = (self.node.me, column.found());
        let own = known.ready().and_then(|map| {
            let own = map.column(map.column_at(me)?)?;
            let is_it = own.state == State::Sync && disk.record.generation == map.term.generation;
            is_it.then_some(disk.record.sealed_epoch)
        });
        let volume = known.record.described();
        match own {
            Some(epoch) => tracing::error!(
                volume,
                epoch,
                "the copy of this node is smaller than the volume, though the registry takes it for one in sync: its disk was put back to an image \
                 from before the volume has grown. It is not used, but filled from another copy in sync; if there is none, `cards status` says what to do"
            ),
            None => {
                tracing::warn!(
                    volume,
                    "its copy here is smaller than the volume, and grows before it is used"
                );
            }
        }
        self.found_put_back(of, own);
    }

    fn found_put_back(&self, of: PgId, found: Option<u64>) {
        if self.node.groups.note_put_back(of, found) {
            self.node.membership.look_at_columns();
        }
    }
}
