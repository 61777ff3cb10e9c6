//! Blocks that follow each other, in one message.

use cards_core::{Body, Instant, Message, NodeId, RequestId};

/// Blocks of a message, as on the wire.
const BLOCKS: u64 = 17;

/// What a node has sent last: other blocks of which the same is said go in the same message, as between daemons.
#[derive(Clone, Default)]
pub(super) struct Run {
    last: Option<(Instant, NodeId, Message)>,
    blocks: u64,
}

impl Run {
    /// A message leaves; whether it is part of the last, which may carry so many bytes.
    pub(super) fn adds(
        &mut self,
        now: Instant,
        to: NodeId,
        message: &Message,
        bytes: u64,
        most: u64,
    ) -> bool {
        let next = |last: &Message| after(last).map(|next| Message { free: message.free, ..next });
        let is_next = self.last.as_ref().is_some_and(|(at, last_to, last)| {
            *at == now && *last_to == to && next(last).as_ref() == Some(message)
        });
        let adds = is_next && most > 0 && self.blocks < BLOCKS && (self.blocks + 1) * bytes <= most;
        self.blocks = if adds { self.blocks + 1 } else { 1 };
        self.last = Some((now, to, message.clone()));
        adds
    }
}

/// What is said of the next block.
fn after(last: &Message) -> Option<Message> {
    let mut next = match last.body {
        Body::Read { .. } | Body::Data { .. } => last.clone(),
        _ => return None,
    };
    if let Body::Read { block, request, .. } | Body::Data { block, request, .. } = &mut next.body {
        *block = block.checked_add(1)?;
        *request = RequestId(request.0.checked_add(1)?);
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use cards_core::{PgId, Stamp};

    use super::*;

    fn read(block: u32) -> Message {
        let body = Body::Read {
            request: RequestId(100 + u64::from(block)),
            block,
            requester: NodeId(1),
            hops: 0,
            leave_copy: true,
            read_ahead: false,
            from_disk: false,
        };
        Message { volume: PgId::plain(NodeId(0), 0), shard: 0, through: Stamp(0), free: block as u16, body }
    }

    fn adds(run: &mut Run, at: u64, to: u16, block: u32) -> bool {
        run.adds(Instant(at), NodeId(to), &read(block), 0, 1)
    }

    #[test]
    fn the_next_block_at_the_same_time_to_the_same_node_is_added() {
        let mut run = Run::default();
        let added = [(1, 2, 5), (1, 2, 6), (1, 3, 7), (1, 3, 9), (2, 3, 10), (2, 3, 11)]
            .map(|(at, to, block)| adds(&mut run, at, to, block));
        assert_eq!(added, [false, true, false, false, false, true]);
    }

    #[test]
    fn a_message_has_as_many_blocks_and_bytes_as_on_the_wire() {
        let mut run = Run::default();
        let messages = (0..40).filter(|&block| !adds(&mut run, 1, 2, block)).count();
        assert_eq!(messages, 3);
        let mut with_bytes =
            |most| (0..8).filter(|&n| !run.adds(Instant(1), NodeId(2), &read(n), 4096, most)).count();
        assert_eq!([0, 4096, 8192, 16_384].map(&mut with_bytes), [8, 8, 4, 2]);
    }
}
