//! What `cards pin` does: ranges of volumes stay in this node's cache.

use std::sync::Arc;

use cards_admin::{self as admin, PIN_RANGES_MAX, PinOrder, PinnedVolume, Refusal, RefusalKind};
use cards_core::Input;

use crate::attach::not_attached;
use crate::node::card::CardState;
use crate::node::pins::{Ranges, union, without};
use crate::node::{Local, Node};
use crate::report;

/// Does what an order says; what stays then.
///
/// # Errors
/// The volume is not attached, the ranges are not in it, or there would be too much.
pub(crate) async fn carry_out(node: &Arc<Node>, order: PinOrder) -> Result<admin::Pins, Refusal> {
    let (volume, ranges, pins) = match order {
        PinOrder::List {} => return Ok(list(node)),
        PinOrder::Pin { volume, ranges } => {
            let ranges = blocks(node, &volume, ranges)?;
            (volume, ranges, true)
        }
        PinOrder::Unpin { volume, ranges } => {
            // A name that means nothing here was not what was meant.
            let is_known = || node.cards.find(&volume).is_some() || node.volume(&volume).is_some();
            if node.pins.of(&volume).is_empty() && !is_known() {
                return Err(not_attached(node, &volume));
            }
            let ranges = if ranges.is_empty() { vec![(0, u64::MAX)] } else { bounded(ranges)? };
            (volume, ranges, false)
        }
    };
    let (at, name) = (Arc::clone(node), volume.clone());
    // It waits for the disk of state_dir.
    let changed = tokio::task::spawn_blocking(move || {
        at.pins.change(&name, at.config.pin_max(), |before| match pins {
            true => union([before, ranges].concat()),
            false => without(&before, &union(ranges)),
        })
    });
    let ending = |_| Refusal { kind: RefusalKind::Failed, message: "the daemon is ending".into() };
    changed.await.map_err(ending)??;
    if let Some(spec) = node.volume(&volume) {
        node.on_data_thread(0, move |local| local.retain(&volume, spec.block_bytes)).await;
    }
    Ok(list(node))
}

/// What stays in this node's cache.
fn list(node: &Node) -> admin::Pins {
    let by_volume = node.pins.by_volume().clone();
    let volumes = by_volume.into_iter().map(|(volume, ranges)| PinnedVolume { volume, ranges });
    admin::Pins {
        node: node.config.node.clone(),
        max: node.config.pin_max(),
        cached: report::cache(node).pinned,
        volumes: volumes.collect(),
    }
}

/// The ranges of a request, which are not too many.
fn bounded(ranges: Ranges) -> Result<Ranges, Refusal> {
    if ranges.len() <= PIN_RANGES_MAX {
        return Ok(ranges);
    }
    let message = format!("one request names at most {PIN_RANGES_MAX} ranges; send several");
    Err(Refusal { kind: RefusalKind::BadRequest, message })
}

/// The whole blocks of ranges of a volume that is attached here.
fn blocks(node: &Node, volume: &str, ranges: Ranges) -> Result<Ranges, Refusal> {
    let card = node.cards.find(volume).filter(|card| card.attach.volume == volume);
    card.filter(|card| card.state() == CardState::Attached).ok_or_else(|| not_attached(node, volume))?;
    let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
    let block = u64::from(spec.block_bytes.max(1));
    let whole = |(offset, length): (u64, u64)| {
        let end = offset.checked_add(length).filter(|&end| end <= spec.size_bytes).ok_or_else(|| {
            let message = format!(
                "{length} bytes from {offset} on are not all in volume {volume:?}, which has {}",
                spec.size_bytes
            );
            Refusal { kind: RefusalKind::BadRequest, message }
        })?;
        let first = offset / block * block;
        Ok((first, if length == 0 { 0 } else { end.div_ceil(block) * block - first }))
    };
    bounded(ranges)?.into_iter().map(whole).collect()
}

impl Local {
    /// Tells the shards which blocks of a volume stay, blocks of so many bytes.
    pub(crate) fn retain(&self, name: &str, block: u32) {
        let Some(card) = self.node.cards.find(name).filter(|card| card.attach.volume == name) else { return };
        let Some(parts) = card.parts() else { return };
        let block = u64::from(block.max(1));
        // A volume has at most 2^32 blocks.
        let index = |offset: u64| u32::try_from(offset / block).unwrap_or(u32::MAX);
        let ranges = self.node.pins.of(name);
        let ranges = ranges.into_iter().map(|(offset, length)| (index(offset), index(offset + length - 1)));
        let ranges: Vec<(u32, u32)> = ranges.collect();
        for (volume, ranges) in parts.ids().zip(parts.shared(&ranges)) {
            self.all_shards(&Input::Retain { volume, ranges: ranges.into() });
        }
    }
}
