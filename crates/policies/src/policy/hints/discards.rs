//! The discard cache: a part of the disk node's cache for master copies that were older than all others.

use alloc::collections::VecDeque;

use cards_core::BlockId;
use cards_core::policy::{Answer, Context, Room};

pub(super) struct Discards {
    /// Of the disk node's cache.
    percent: u32,
    /// Blocks (their indexes) by arrival; some have been used, or are gone, since.
    queue: VecDeque<u32>,
}

impl Discards {
    pub(super) const fn new(percent: u32) -> Self {
        Self { percent, queue: VecDeque::new() }
    }

    /// Makes room for a discarded block: beyond the share, that of the one that came first and was not used.
    pub(super) fn store(&mut self, cx: &Context<'_>, block: BlockId) -> Answer {
        if cx.cached(block) {
            return Answer::Present;
        }
        let most = (u64::from(cx.capacity().0) * u64::from(self.percent) / 100) as usize;
        if most == 0 {
            return Answer::Drop;
        }
        let mut room = Room::Evict;
        while self.queue.len() >= most && room == Room::Evict {
            let Some(index) = self.queue.pop_front() else { break };
            let oldest = BlockId::new(block.volume, index);
            if cx.is_hosted(oldest) && cx.has_room(Room::Of(oldest)) {
                room = Room::Of(oldest);
            }
        }
        self.queue.push_back(block.index);
        Answer::Keep(room)
    }
}
