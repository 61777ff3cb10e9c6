//! What does not fit its checksums at a copy of a mirrored volume, and scrubs: at the primary, which has it written anew from another copy.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cards_admin::{Damage, Refusal, RefusalKind, Scrubbed};
use cards_array::group::{Command, Extent, Token};
use cards_core::PgId;
use tokio::sync::oneshot;

use crate::damage::UNIT;
use crate::failures::Asked;
use crate::node::group_damage::Found;
use crate::node::groups::{Known, Scrub};
use crate::node::{Local, Node};

/// Bytes that are compared at a time: writes of them wait meanwhile.
const STEP: u64 = 256 << 10;

/// Most places that an answer lists.
const LISTED_MAX: usize = 1000;

impl Local {
    /// A copy of a group that this node leads has had units that do not fit their checksums.
    pub(super) fn group_damaged(&self, of: PgId, column: u8, extent: Extent, is_repaired: bool) {
        let damage = self.node.groups.damage(of);
        let units = extent.length.div_ceil(UNIT);
        if is_repaired {
            damage.repaired.fetch_add(units, Ordering::Relaxed);
            let Extent { offset, length } = extent;
            damage.known.was_done(&Asked { name: "write", offset, length });
        } else {
            damage.unrepaired.fetch_add(units, Ordering::Relaxed);
            damage.known.was_read(extent.offset, extent.length);
        }
        self.hosted(of, |hosted| {
            for scrub in hosted.scrubs.values_mut().filter(|scrub| scrub.extent.overlaps(extent)) {
                scrub.found.push(Found { column, extent, is_repaired });
            }
        });
        let Some(known) = self.node.groups.get(of).filter(|_| self.refusals.may()) else { return };
        let Some(copy) = known.record.columns.get(usize::from(column)) else { return };
        let (volume, node, disk) = (known.record.described(), &copy.node, &copy.disk_name);
        let Extent { offset, length } = extent;
        if is_repaired {
            tracing::warn!(
                volume,
                offset,
                length,
                node,
                disk,
                "a copy did not fit its checksums, and was written anew from another one: see to the device"
            );
        } else {
            tracing::error!(
                volume,
                offset,
                length,
                node,
                disk,
                "data fit their checksums at no copy in sync: write them anew from a backup, and see to the device"
            );
        }
    }

    /// Begins to compare a range at all copies of a group; what was found is sent when that is done. Dropped, this node does not lead the
    /// group, or ceased to.
    fn scrub_group(self: &Rc<Self>, of: PgId, extent: Extent, done: oneshot::Sender<Vec<Found>>) {
        let now = self.node.now();
        self.hosted(of, |hosted| {
            if hosted.reign.is_none() {
                return;
            }
            let token = Token(hosted.next_token);
            hosted.next_token += 1;
            hosted.scrubs.insert(token, Scrub { extent, found: Vec::new(), done });
            hosted.group.command(now, token, Command::Verify { extent });
        });
        self.carry_out_wishes();
    }
}

/// What no copy in sync of a mirrored volume has, of which this node is the primary.
pub(crate) fn describe(node: &Node, known: &Known) -> Option<String> {
    let of = known.record.pg();
    let is_primary = known.ready().is_some_and(|map| map.primary.node == node.me);
    let lost = node.groups.damage(of).known.describe().filter(|_| is_primary)?;
    Some(format!("volume {}, at all its copies in sync: {lost}", known.record.described()))
}

/// Reads a part of a mirrored volume at all copies in sync, and has written anew what does not fit its checksums.
pub(crate) async fn scrub(
    node: &Arc<Node>,
    volume: &str,
    of: PgId,
    offset: u64,
    length: u64,
) -> Result<Scrubbed, Refusal> {
    let refused = |message: String| Refusal { kind: RefusalKind::Failed, message };
    let known = node.groups.get(of).ok_or_else(|| Refusal::no_such_volume(volume))?;
    let (end, unit) = (offset.checked_add(length), UNIT);
    if !offset.is_multiple_of(unit)
        || !length.is_multiple_of(unit)
        || end.is_none_or(|end| end > known.record.bytes)
    {
        return Err(refused(format!(
            "volume {volume} has {} bytes, of which whole units of {UNIT} can be scrubbed",
            known.record.bytes
        )));
    }
    let mut scrubbed = Scrubbed::default();
    for at in (offset..offset + length).step_by(STEP as usize) {
        let extent = Extent { offset: at, length: STEP.min(offset + length - at) };
        let (done, answer) = oneshot::channel();
        node.at_home(of, move |local| local.scrub_group(of, extent, done));
        let Ok(found) = answer.await else {
            let at = node.groups.primary(of).map(|primary| node.name(primary));
            return Err(refused(match at.filter(|at| *at != node.name(node.me)) {
                Some(at) => format!("the primary of volume {volume} is node {at}: run this command there"),
                None => format!("volume {volume} has no primary at the moment; try again"),
            }));
        };
        scrubbed.bytes += extent.length;
        let lost = found.iter().filter(|found| !found.is_repaired);
        node.groups.damage(of).known.was_scrubbed(
            extent.offset,
            extent.length,
            lost.map(|found| (found.extent.offset, found.extent.length)),
        );
        for Found { column, extent: Extent { offset, length }, is_repaired } in found {
            let copy = known.record.columns.get(usize::from(column));
            let copy = copy.map_or_else(String::new, |copy| format!("{}:{}", copy.node, copy.disk_name));
            let reason = match is_repaired {
                true => {
                    scrubbed.repaired += length;
                    format!("copy {copy} did not fit its checksum; it was written anew from another copy")
                }
                false => {
                    scrubbed.damaged += length;
                    format!("copy {copy} does not fit its checksum, and no other one in sync has it")
                }
            };
            if scrubbed.places.len() < LISTED_MAX {
                scrubbed.places.push(Damage { offset, length, reason, repaired: is_repaired });
            }
        }
    }
    Ok(scrubbed)
}

/// Answers a scrub.
pub(super) fn answer(scrub: Scrub) {
    // Who asked may have gone.
    let _ = scrub.done.send(scrub.found);
}
