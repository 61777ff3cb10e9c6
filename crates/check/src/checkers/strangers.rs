//! Who may not attach a volume gets nothing of what is in it: neither when it asks, nor when a holder wants room.

use cards_core::{Body, Message, NodeId};

use crate::faults::{Seen, Word};

/// Whether a stranger is told that it does not get a block.
pub(super) fn saw(strangers: &[NodeId], seen: &Seen) -> Result<bool, String> {
    let Seen::Sent { from, to, word: Word::Shard(Message { volume, body, .. }), .. } = seen else {
        return Ok(false);
    };
    if !strangers.contains(to) {
        return Ok(false);
    }
    match body {
        body if body.has_payload() => {
            Err(format!("{from:?} gives {to:?} contents of {volume:?}, which that may not attach: {body:?}"))
        }
        Body::Nack { .. } => Ok(true),
        _ => Ok(false),
    }
}
