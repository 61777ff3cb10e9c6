//! How high the disk node puts a block.

use alloc::boxed::Box;

use cards_core::BlockId;
use cards_core::policy::Context;

use crate::replacement::ghosts::{GhostKind, Ghosts};

/// Where a block at the disk node has come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the disk, or it has just been sent to a client: it is read, not demoted.
    Disk,
    /// From a client that has evicted it.
    Client,
}

/// The rule.
pub(super) enum Insertion {
    /// Demoted blocks at the top, others at the bottom.
    Mru,
    /// Demoted blocks in the middle, others at the bottom.
    Mid,
    /// Both as high as they have proved worth it.
    Adaptive(Box<Adaptive>),
}

/// Requests after which the shares are adapted, and by how much: a tenth.
const ROUND: u32 = 1000;
const WEIGHT: u32 = 10;

/// All hits, as a share.
const ONE: u32 = 1 << 16;

/// What the ghost caches show.
pub(super) struct Adaptive {
    /// As many blocks as fit into the disk node's cache, of each kind; none before the first request.
    ghosts: Option<[Ghosts; 2]>,
    /// Hits in this round, of read and of demoted blocks.
    hits: [u32; 2],
    requests: u32,
    /// The share of the demoted blocks.
    demoted: u32,
}

impl Insertion {
    pub(super) fn adaptive() -> Self {
        Self::Adaptive(Box::new(Adaptive { ghosts: None, hits: [0; 2], requests: 0, demoted: ONE / 2 }))
    }

    /// A client wants a block.
    pub(super) fn requested(&mut self, cx: &Context<'_>, block: BlockId) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.requested(cx, block);
        }
    }

    /// Whether a block belongs to the top; else to the bottom.
    pub(super) fn goes_on_top(&mut self, cx: &mut Context<'_>, block: BlockId, origin: Origin) -> bool {
        match (self, origin) {
            (Self::Mru | Self::Mid, Origin::Disk) => false,
            (Self::Mru, Origin::Client) => true,
            (Self::Mid, Origin::Client) => cx.random(2) == 0,
            (Self::Adaptive(adaptive), origin) => {
                let share = match origin {
                    Origin::Disk => ONE - adaptive.demoted,
                    Origin::Client => {
                        let [_, demoted] = adaptive.ghosts(cx);
                        demoted.take(block.hash());
                        demoted.put(block.hash());
                        adaptive.demoted
                    }
                };
                cx.random(u64::from(ONE)) < u64::from(share)
            }
        }
    }
}

impl Adaptive {
    fn ghosts(&mut self, cx: &Context<'_>) -> &mut [Ghosts; 2] {
        let (capacity, _) = cx.capacity();
        let ghosts = || Ghosts::new(u64::from(capacity), GhostKind::Hashed);
        self.ghosts.get_or_insert_with(|| [ghosts(), ghosts()])
    }

    /// A cache of read blocks alone would have the block from now on; one of demoted blocks alone would give it up.
    fn requested(&mut self, cx: &Context<'_>, block: BlockId) {
        let [read, demoted] = self.ghosts(cx);
        let hits = [read.take(block.hash()), demoted.take(block.hash())];
        read.put(block.hash());
        for (count, hit) in self.hits.iter_mut().zip(hits) {
            *count += u32::from(hit);
        }
        self.requests += 1;
        if self.requests < ROUND {
            return;
        }
        let [read, demoted] = core::mem::take(&mut self.hits);
        self.requests = 0;
        if let Some(share) = (demoted * ONE).checked_div(read + demoted) {
            self.demoted = (self.demoted * (WEIGHT - 1) + share) / WEIGHT;
        }
    }
}
