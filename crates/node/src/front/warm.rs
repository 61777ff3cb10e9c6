//! Blocks that are fetched into this node's cache for nobody yet.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use cards_admin::{Refusal, RefusalKind, WARM_BLOCKS_MAX, Warmed};
use cards_core::{Origin, Output, Read, VolumeSpec};
use tokio::sync::oneshot;

use crate::node::card::{Card, Seat};
use crate::node::warms::Warm;
use crate::node::{Local, Node, Place};
use crate::slab::Key;

/// The blocks of ranges of a volume, offsets and lengths in bytes, in their order, each once.
///
/// # Errors
/// They are not all in the volume, or too many.
pub(crate) fn blocks_to_warm(
    node: &Node,
    spec: &VolumeSpec,
    ranges: &[(u64, u64)],
) -> Result<Vec<u32>, Refusal> {
    let bad = |message| Refusal { kind: RefusalKind::BadRequest, message };
    let block = u64::from(spec.block_bytes.max(1));
    // A quarter of the cache, so that the first are still there when the last one comes.
    let most = (node.config.cache / block / 4).clamp(1, WARM_BLOCKS_MAX);
    let mut blocks = Vec::new();
    let mut known = HashSet::new();
    for &(offset, length) in ranges {
        let end = offset.checked_add(length).filter(|&end| end <= spec.size_bytes).ok_or_else(|| {
            let (name, size) = (&spec.name, spec.size_bytes);
            bad(format!("{length} bytes from {offset} on are not all in volume {name:?}, which has {size}"))
        })?;
        let touched = if length == 0 { 0..0 } else { offset / block..end.div_ceil(block) };
        let room = most - blocks.len() as u64;
        if touched.end - touched.start > room {
            return Err(bad(format!(
                "one request warms at most {most} blocks of {block} bytes here; send several"
            )));
        }
        // A volume has at most 2^32 blocks.
        blocks.extend(touched.map(|index| index as u32).filter(|&index| known.insert(index)));
    }
    Ok(blocks)
}

impl Local {
    /// Fetches blocks of a card's volume, and says what came of it when the last one is there.
    pub(crate) fn warm(
        self: &Rc<Self>,
        card: &Arc<Card>,
        blocks: impl Iterator<Item = u32>,
        done: oneshot::Sender<Warmed>,
    ) {
        // Without a volume there is no block, and whoever waits hears that nobody answers.
        let Some(parts) = card.parts() else { return };
        // Nothing is ever found under this key: its answers are taken before.
        let key = self.requests.borrow_mut().reserve();
        let (token, now) = (Node::token(self.index, key), self.node.now());
        let mut warm = Warm::new(Seat::new(card), done);
        for index in blocks {
            let block = parts.block(index);
            let here = self.shard(block.shard(self.node.shard_count()), |state| {
                match state.read(now, token, block) {
                    Read::Hit(slot, _) => {
                        state.shard.unpin(slot);
                        true
                    }
                    Read::Pending => false,
                }
            });
            warm.warmed.here += u64::from(here);
            warm.missing += u32::from(!here);
        }
        self.warms.borrow_mut().0.insert(key.0, warm);
        self.warm_over(key);
        self.route();
    }

    /// Takes an output that answers to a block of [`Self::warm`]; gives back any other one.
    pub(super) fn warm_came(self: &Rc<Self>, key: Key, shard: u16, output: Output) -> Option<Output> {
        {
            let mut warms = self.warms.borrow_mut();
            let Some(warm) = warms.0.get_mut(&key.0) else { return Some(output) };
            let count = match output {
                Output::Ready { slot, origin, .. } => {
                    self.unpin([Place { shard, slot }], false);
                    match origin {
                        Origin::Local => &mut warm.warmed.here,
                        Origin::Remote => &mut warm.warmed.from_peers,
                        Origin::Disk => &mut warm.warmed.from_disk,
                    }
                }
                _ => &mut warm.warmed.failed,
            };
            *count += 1;
            warm.missing -= 1;
        }
        self.warm_over(key);
        None
    }

    /// Says what came of it, if nothing is missing any more.
    fn warm_over(&self, key: Key) {
        let mut warms = self.warms.borrow_mut();
        if warms.0.get(&key.0).is_some_and(|warm| warm.missing == 0)
            && let Some(warm) = warms.0.remove(&key.0)
        {
            self.requests.borrow_mut().cancel(key);
            // Whoever asked may be gone.
            let _ = warm.done.send(warm.warmed);
        }
    }
}
