//! Several blocks of which the same is said: one header for all.

use cards_core::{BlockId, Body, Message, RequestId};

/// A [`Body::Read`] or [`Body::Data`], and the like of it for blocks that follow within a window.
///
/// What is said of the block that is *n* after the first has a request number that is *n* higher, and is the same otherwise.
/// Blocks between may be missing: another node is asked for them. Of other messages there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    first: Message,
    /// Bit *n* - 1 is that block.
    others: u16,
}

impl Run {
    /// Of one block.
    pub const fn new(first: Message) -> Self {
        Self { first, others: 0 }
    }

    /// None if these are not blocks, or have no numbers.
    pub(super) fn of(first: Message, others: u16) -> Option<Self> {
        let run = Self { first, others };
        (others == 0 || run.nth(run.last()).is_some()).then_some(run)
    }

    /// What is said of the first block.
    pub const fn first(&self) -> &Message {
        &self.first
    }

    pub(super) const fn others(&self) -> u16 {
        self.others
    }

    /// Blocks, at most 17.
    pub const fn count(&self) -> u32 {
        self.others.count_ones() + 1
    }

    /// The distance of the last block from the first.
    const fn last(&self) -> u32 {
        u16::BITS - self.others.leading_zeros()
    }

    /// Adds what is said of a later block, if it is the same. Of the free blocks of the sender the last word counts.
    pub fn add(&mut self, next: &Message) -> bool {
        let (Some(block), Some(later)) = (block(&self.first.body), block(&next.body)) else { return false };
        let distance = later.wrapping_sub(block);
        if distance <= self.last() || distance > u16::BITS {
            return false;
        }
        let is_same = self.nth(distance).is_some_and(|same| Message { free: next.free, ..same } == *next);
        if is_same {
            self.first.free = next.free;
            self.others |= 1 << (distance - 1);
        }
        is_same
    }

    /// What is said of each block, in order.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.distances().filter_map(|n| self.nth(n))
    }

    /// The blocks, in order; none if it is not about any.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + Clone {
        let first = block(&self.first.body);
        self.distances().filter_map(move |n| Some(BlockId::new(self.first.volume, first?.checked_add(n)?)))
    }

    /// The distances of the blocks from the first.
    fn distances(&self) -> impl Iterator<Item = u32> + Clone {
        core::iter::once(0).chain((1..=self.last()).filter(|n| self.others & 1 << (n - 1) != 0))
    }

    /// What is said of the block that is `n` after the first; none beyond the last block or number that there can be.
    fn nth(&self, n: u32) -> Option<Message> {
        let mut message = self.first.clone();
        if n > 0 {
            let (Body::Read { block, request, .. } | Body::Data { block, request, .. }) = &mut message.body
            else {
                return None;
            };
            *block = block.checked_add(n)?;
            *request = RequestId(request.0.checked_add(n.into())?);
        }
        Some(message)
    }
}

const fn block(body: &Body) -> Option<u32> {
    match *body {
        Body::Read { block, .. } | Body::Data { block, .. } => Some(block),
        _ => None,
    }
}
