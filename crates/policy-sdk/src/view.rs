//! What a policy sees of its node.

use crate::Node;
use crate::abi::{NO_NODE, NODES_MAX, Record, flags, node, room};

/// What a policy sees in one call. What it has not asked for in [`crate::Policy::NEEDS`] is absent or zero.
#[derive(Debug)]
#[repr(transparent)]
pub struct View {
    pub(crate) record: Record,
}

impl View {
    /// Nanoseconds, from a beginning that is the node's own.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.record.now
    }

    /// The block at hand.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.record.block
    }

    /// The volume.
    #[must_use]
    pub const fn volume(&self) -> u32 {
        self.record.volume
    }

    /// This node.
    #[must_use]
    pub const fn me(&self) -> Node {
        self.record.me
    }

    /// The node with the disk.
    #[must_use]
    pub const fn disk_node(&self) -> Node {
        self.record.disk_node
    }

    /// The block's home: the same node everywhere, while the members are the same.
    #[must_use]
    pub const fn home(&self) -> Node {
        self.record.home
    }

    /// The home of the first block of the run of 16 that the block is in.
    #[must_use]
    pub const fn run_home(&self) -> Node {
        self.record.run_home
    }

    /// The node that asked for the block last, by this node's index.
    #[must_use]
    pub fn next(&self) -> Option<Node> {
        some(self.record.next)
    }

    /// The node that delivered the block here, by this node's index.
    #[must_use]
    pub fn previous(&self) -> Option<Node> {
        some(self.record.previous)
    }

    /// Whether this node may hold copies of the volume.
    #[must_use]
    pub const fn may_hold(&self) -> bool {
        self.has(flags::MAY_HOLD)
    }

    /// Whether the policy must have other copies dropped after a write.
    #[must_use]
    pub const fn invalidates(&self) -> bool {
        self.has(flags::INVALIDATES)
    }

    /// Whether the disk node keeps copies of what other nodes read.
    #[must_use]
    pub const fn leaves_copies(&self) -> bool {
        self.has(flags::LEAVES_COPIES)
    }

    /// Whether a copy of the block is here that is not being written.
    #[must_use]
    pub const fn is_cached(&self) -> bool {
        self.has(flags::CACHED)
    }

    /// Whether a copy of the block is here, usable or not.
    #[must_use]
    pub const fn is_resident(&self) -> bool {
        self.has(flags::RESIDENT)
    }

    /// Whether the copy is here for another node and was not used here.
    #[must_use]
    pub const fn is_hosted(&self) -> bool {
        self.has(flags::HOSTED)
    }

    /// Whether the copy is in the reserved part of the cache.
    #[must_use]
    pub const fn is_reserved(&self) -> bool {
        self.has(flags::RESERVED)
    }

    const fn has(&self, flag: u16) -> bool {
        self.record.flags & flag != 0
    }

    /// Whether an offered block would find room of the kind; in [`crate::Policy::offered`] alone. [`crate::Room::Of`] is not known before.
    #[must_use]
    pub const fn has_room(&self, kind: crate::Room) -> bool {
        let bit = match kind {
            crate::Room::Free => room::FREE,
            crate::Room::Duplicate => room::DUPLICATE,
            crate::Room::Unread => room::UNREAD,
            crate::Room::Evict => room::EVICT,
            crate::Room::Of(_) => 0,
        };
        self.record.room & bit != 0
    }

    /// Blocks that this cache holds at most, and how many it holds.
    #[must_use]
    pub const fn capacity(&self) -> (u32, u32) {
        (self.record.capacity, self.record.resident)
    }

    /// The policy's word on the block, if it is here; zero at first.
    #[must_use]
    pub const fn tag(&self) -> u32 {
        self.record.tag
    }

    /// Milliseconds since the block was last used here; zero if it is not here.
    #[must_use]
    pub const fn age_ms(&self) -> u32 {
        self.record.age_ms
    }

    /// The next candidates for eviction with their ages in milliseconds, the likeliest first.
    pub fn tail(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let count = usize::from(self.record.tail_count);
        self.record.tail.iter().take(count).map(|tail| (tail.block, tail.age_ms))
    }

    /// One more than the highest number of a node.
    #[must_use]
    pub const fn node_bound(&self) -> u16 {
        self.record.node_bound
    }

    /// The members of the cluster, in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.numbers().filter(|&number| self.record.nodes[usize::from(number)] & node::MEMBER != 0)
    }

    fn numbers(&self) -> core::ops::Range<Node> {
        0..self.record.node_bound.min(NODES_MAX as u16)
    }

    /// Whether a node can be reached, as far as this one knows.
    #[must_use]
    pub fn is_up(&self, number: Node) -> bool {
        self.record.nodes.get(usize::from(number)).is_some_and(|bits| bits & node::UP != 0)
    }

    /// Free places at a node, as it said last; the highest number before it said anything.
    #[must_use]
    pub fn free_at(&self, number: Node) -> u16 {
        self.record.free.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Blocks cached here whose home a node is.
    #[must_use]
    pub fn load_of(&self, number: Node) -> u32 {
        self.record.load.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// The other node that can be reached and has the highest rank above zero: of equal ones the next from `turn` on, in their
    /// circle.
    pub fn highest(&self, turn: u16, rank: impl Fn(&Self, Node) -> u32) -> Option<Node> {
        let bound = self.numbers().end;
        let turn = turn.min(bound);
        let (mut best, mut found) = (0, None);
        for number in (turn..bound).chain(0..turn) {
            let ranked = if number != self.me() && self.is_up(number) { rank(self, number) } else { 0 };
            if ranked > best {
                (best, found) = (ranked, Some(number));
                if best == u32::MAX {
                    break;
                }
            }
        }
        found
    }

    /// The other node with the most free places.
    #[must_use]
    pub fn freest(&self, turn: u16) -> Option<Node> {
        self.highest(turn, |view, number| match view.free_at(number) {
            u16::MAX => u32::MAX,
            free => free.into(),
        })
    }

    /// The number below `bound` (zero if that is zero) that [`crate::Context::random`] would give as the `nth` in this call, the
    /// first being 1.
    #[must_use]
    pub fn draw(&self, nth: u64, bound: u64) -> u64 {
        let drawn = splitmix64(self.record.random.wrapping_add(nth));
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }
}

fn some(number: Node) -> Option<Node> {
    (number != NO_NODE).then_some(number)
}

/// A hash of a number.
#[must_use]
pub(crate) const fn splitmix64(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
