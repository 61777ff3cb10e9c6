//! Copies whose disks were put back to earlier images while the map has them in sync.
//!
//! The node of such a copy finds out and tells the registry, so that all nodes say the same. The copy is used by nobody: it is filled from
//! another one, or a person forces it.

use std::rc::Rc;

use cards_array::group::{Map, State};
use cards_coordinator::GroupVolume;
use cards_core::PgId;
use cards_disk::Column;

use crate::node::{Local, Node};

impl Node {
    /// The epoch of which a copy that the map has in sync is an image, if its disk was put back: what this node has found of its own ones, and
    /// what the registry says of others.
    pub(crate) fn put_back(&self, record: &GroupVolume, map: &Map, number: u8) -> Option<u64> {
        let held = map.column(number).filter(|column| column.state == State::Sync)?;
        let found = self.groups.found_put_back(record.pg()).filter(|_| held.node == self.me);
        found.unwrap_or_else(|| record.columns.get(usize::from(number))?.put_back)
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
