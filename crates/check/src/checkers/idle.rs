//! A card that has asked for nothing is asked for nothing: an idle card costs writers nothing.

use std::collections::BTreeSet;

use cards_core::{Body, Generation, Message, NodeId, PgId};

use crate::faults::{Seen, Word};

/// Cards that have acquired something, or sent a command.
#[derive(Debug, Default)]
pub(super) struct Idle(BTreeSet<(PgId, NodeId, Generation)>);

impl Idle {
    /// Whether a card was asked to let copies go, which it must have acquired something for.
    pub(super) fn saw(&mut self, seen: &Seen) -> Result<bool, String> {
        let Seen::Sent { from, to, word: Word::Shard(Message { volume, body, .. }), .. } = seen else {
            return Ok(false);
        };
        match *body {
            Body::Acquire { generation, .. } | Body::Command { generation, .. } => {
                self.0.insert((*volume, *from, generation));
                Ok(false)
            }
            Body::Invalidate { generation, .. } if !self.0.contains(&(*volume, *to, generation)) => {
                Err(format!("{from:?} asks {to:?} about {volume:?}, where that has acquired nothing"))
            }
            Body::Invalidate { .. } => Ok(true),
            _ => Ok(false),
        }
    }
}
