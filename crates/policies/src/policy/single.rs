//! One copy in the cluster, at the home of the block's run, and replicas at its readers only as far as they pay.
//!
//! A miss asks the home. If it has no copy it fetches the block itself, once for all nodes that ask meanwhile, and keeps it. A reader
//! keeps what it had from another node only at its second remote read within the reach of a list of as many blocks as nine tenths of its cache
//! (`admit=2`), as a *replica*. The home knows which reader has told it of a replica last; when it evicts the block, that replica becomes the only copy,
//! and when this one leaves in turn, it goes home once. So there is one eviction order for the whole cluster: that of the homes, each
//! with the replacement of its node, whose ghosts are the cluster's.
//!
//! What was fetched ahead at its first remote read is kept as well, until a client has read it and later blocks want its place: it goes before all
//! others, and the home is not told of it.
//!
//! Whether a replica goes or an only copy is a matter of age and cost (`weigh=age`): an only copy is kept K times as long as a replica last used at the
//! same time, as in the weighted LRU of Dahlin, put between two queues. K is what a disk costs more than a peer over what a peer costs more
//! than the node's own memory, as measured.
//!
//! Where many read a block at about the same time, the home answers the first few (`answers=4`) and sends each of the others to one that is receiving
//! it, which passes it on: the home's link is not what all wait for.
//!
//! The home is asked where that pays, by what blocks have cost lately, as `hscc ask=measured` does, and always where a disk costs much more than a peer
//! (`ask=measured`). What is read past the home stays with its reader and with the primary.
//!
//! The primary reads its own disk for itself, and keeps what it has read: as its only copy, which goes home when it leaves, once it was used again, and
//! as long as the home has free places: of a fleet whose first reader is the primary, the others find there what that one has read.
//!
//! The homes of a volume whose primary keeps no copies of what others read (`attached = "network"`) are other nodes. A block that a home does not
//! keep, since it has no card or is gone, stays with its reader, which tells the home.
//!
//! Unfit where most reads repeat at one node and a peer is not much faster than the disk: each first read goes by the home.

mod receivers;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use cards_core::policy::{
    Ages, Answer, Asker, Context, Delivery, Eviction, Fetched, Offer, Policy, Room, View,
};
use cards_core::{BlockId, Duration, Instant, NodeId, Note, STRIPE_BLOCKS, Source};

use self::receivers::Receivers;
use super::hscc::costs::Costs;
use super::typical::Typical;
use super::words::{class, note};
use super::{Build, Entry, Parameter};
use crate::replacement::ghosts::{GhostKind, Ghosts};

/// To the home: the sender keeps a copy.
const HOLDS: u8 = 0;
/// To the home: the sender keeps none.
const GONE: u8 = 1;
/// From the home, which has dropped its copy: the receiver's is the only one.
const SOLE: u8 = 2;
/// From a node that was taken for the home: it has no card.
const ABSENT_HERE: u8 = 3;

/// The tag of a block that the primary has read for others and that is not at its home yet, which is about to ask for it: the next to leave, so
/// that the disk is read once. Others' tags are the numbers of nodes.
const PASSING: u32 = 1 << 16;

/// The tag of an only copy of which the home was told.
const TOLD: u32 = 1 << 17;

/// The tag of a replica that was fetched ahead at the first remote read of its block, and of which the home was not told.
const AHEAD: u32 = 1 << 18;

/// Blocks on their way past the primary, at most.
const BURST: usize = 64;

/// Blocks that the primary remembers having been asked for past their homes: more than are being read, unless reads have failed.
const DIRECT: usize = 1024;

/// When a reader keeps a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admit {
    Never,
    AtOnce,
    /// At the second remote read.
    Twice,
}

/// Whether a replica goes before an only copy.
#[derive(Clone, Copy)]
enum Weigh {
    /// By age and cost.
    Age,
    /// As soon as replicas hold more than so many percent of the cache.
    Share(u8),
}

/// In sixteenths: how much longer an only copy is kept.
const EVEN: u64 = 16;
const MOST: u64 = 64 * EVEN;
/// A disk is dear from here on.
const DEAR: u64 = 8 * EVEN;

/// Nanoseconds, where there is no clock to measure with: an NVMe disk and a network of 25 Gbit/s.
const NOMINAL_PEER: u64 = 45_000;
const NOMINAL_DISK: u64 = 115_000;

struct Single {
    admit: Admit,
    weigh: Weigh,
    /// Remote reads of blocks that were not kept, and replicas that have left. Made when it is known for how many.
    seen: Option<Ghosts>,
    /// Nodes without a card, and until when they are taken for that.
    absent: BTreeMap<NodeId, Instant>,
    peer: Typical,
    disk: Typical,
    /// What has been measured, if that decides whether the home is asked.
    costs: Option<Costs>,
    /// The block that has come last, and whom it was asked of.
    last: Option<(BlockId, NodeId)>,
    /// Blocks that were tagged [`PASSING`] last, the oldest first: as many as requests of several blocks have under way.
    passing: VecDeque<BlockId>,
    /// The block that is about to be kept since it was fetched ahead, and for that only.
    ahead: Option<BlockId>,
    /// At the primary: blocks that readers have asked for past the home, and that are being read.
    direct: BTreeSet<BlockId>,
    /// At the home: who asks at the same time.
    receivers: Receivers,
}

/// The first block of a run, whose home is that of all: a request of several blocks goes to few nodes.
const fn first(block: BlockId) -> BlockId {
    BlockId { index: block.index - block.index % STRIPE_BLOCKS, ..block }
}

/// Homes of a block that are considered, one after the other.
const HOMES: u32 = 8;
/// A home that has said that it has no card is not asked again for so long.
const ABSENT: Duration = Duration::from_secs(1);

impl Single {
    /// The first of the block's homes that can keep it, as far as is known.
    fn home<C: core::ops::Deref<Target = cards_core::Cache>>(
        &self,
        cx: &View<'_, C>,
        block: BlockId,
    ) -> NodeId {
        let first = first(block);
        let keeps = |node: &NodeId| {
            let is_absent = self.absent.get(node).is_some_and(|&until| cx.now() < until);
            !is_absent && (*node != cx.disk_node() || cx.leaves_copies())
        };
        let nth = |nth: u32| cx.home(BlockId { index: first.index ^ nth << 28, ..first });
        (0..HOMES).map(nth).find(keeps).unwrap_or_else(|| nth(0))
    }

    fn seen(&mut self, cx: &Context<'_>) -> &mut Ghosts {
        let capacity = u64::from(cx.capacity().0);
        self.seen.get_or_insert_with(|| Ghosts::new(capacity * 9 / 10, GhostKind::Hashed))
    }

    /// At the home: the other node that is known to have a copy.
    fn holder<C: core::ops::Deref<Target = cards_core::Cache>>(
        cx: &View<'_, C>,
        block: BlockId,
    ) -> Option<NodeId> {
        match cx.is_resident(block) {
            true if cx.tag(block) >= PASSING => None,
            true => (cx.tag(block) as u16).checked_sub(1).map(NodeId),
            false => cx.entry(block).next,
        }
    }

    fn set_holder(cx: &mut Context<'_>, block: BlockId, holder: Option<NodeId>) {
        match cx.is_resident(block) {
            true => cx.set_tag(block, holder.map_or(0, |node| u32::from(node.0) + 1)),
            false => cx.set_next(block, holder),
        }
    }

    /// Whether the home of a block is asked for it: where the disk is dear, always, since what all keep in one place is what keeps reads from it.
    fn home_pays<C: core::ops::Deref<Target = cards_core::Cache>>(
        &self,
        cx: &View<'_, C>,
        block: BlockId,
    ) -> bool {
        let at_disk = cx.me() == cx.disk_node();
        self.costs.as_ref().is_none_or(|costs| self.worth() >= DEAR || costs.home_pays(block, at_disk))
    }

    /// Another node keeps what has come: the home, which was asked. (What has come for others is kept here, which they take for the home.)
    fn is_elsewhere(&self, cx: &Context<'_>, block: BlockId, delivery: Delivery) -> bool {
        let home = self.home(cx, block);
        let is_asked = self.last == Some((block, home));
        home != cx.me() && delivery.from != cx.me() && !delivery.for_others && is_asked
    }

    /// The class that an only copy goes home with, if it does. One that was used again takes the place of others there; any other
    /// one only a free place: without these the memory of nodes that read nothing serves no reads of the primary.
    fn way_home(&self, cx: &Context<'_>, block: BlockId, home: NodeId) -> Option<u8> {
        let class = match cx.is_main(block) {
            true => class::SINGLETON,
            false if cx.free_at(home) > 0 => class::SERVER,
            false => return None,
        };
        (cx.is_up(home) && self.home_pays(cx, block)).then_some(class)
    }

    /// In sixteenths: the K of the module's head.
    fn worth(&self) -> u64 {
        let peer = self.peer.get().unwrap_or(NOMINAL_PEER);
        let disk = self.disk.get().unwrap_or(NOMINAL_DISK);
        (disk.saturating_sub(peer) * EVEN / peer).clamp(EVEN, MOST)
    }
}

impl Policy for Single {
    fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let home = self.home(cx, block);
        match home == cx.me() {
            true => Self::holder(cx, block).filter(|&node| ![asker.requester, asker.via].contains(&node)),
            // What the home has taken this node to have.
            false if asker.via == home && asker.requester != home => Some(home),
            false => (asker.via == cx.me() && self.home_pays(cx, block)).then_some(home),
        }
    }

    fn has_fetches_for_others(&self) -> bool {
        true
    }

    /// Who asks takes this node for the home. The primary reads its own disk for itself.
    fn fetches_for(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> bool {
        let is_known = || Self::holder(cx, block).is_some_and(|holder| holder != asker.requester);
        ![cx.disk_node(), self.home(cx, block)].contains(&asker.requester) && !is_known()
    }

    fn relieved(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let is_here = self.home(cx, block) == cx.me();
        is_here
            .then(|| self.receivers.next(block, asker.requester, cx.now(), |node| cx.is_up(node)))
            .flatten()
    }

    /// The home sends nobody to one that has asked later, and waits for none that it has sent on.
    fn vouched(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> bool {
        let home = self.home(cx, block);
        let has_come_back = home == cx.me() && asker.via != asker.requester;
        has_come_back || asker.via == home && ![cx.me(), asker.requester].contains(&home)
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, to: Option<NodeId>) {
        if let Some(costs) = self.costs.as_mut().filter(|_| asker.via == cx.me()) {
            costs.asked(block, false);
        }
        if asker.requester != cx.me() && !asker.failed && self.home(cx, block) == cx.me() {
            match asker.via == asker.requester {
                true => {
                    self.receivers.make_places(cx.capacity().0);
                    self.receivers.asked(block, asker.requester, to, cx.now(), |node| cx.is_up(node));
                }
                false => self.receivers.sent_back(block, asker.requester, to),
            }
        }
        // Nobody else knows where it will be: it stays here, for those that ask next.
        let is_direct = asker.via == asker.requester && asker.requester != self.home(cx, block);
        if is_direct && cx.me() == cx.disk_node() && asker.requester != cx.me() && !cx.is_resident(block) {
            if self.direct.len() >= DIRECT {
                self.direct.clear();
            }
            self.direct.insert(block);
        }
        if asker.via != cx.me()
            && Self::holder(cx, block).is_some_and(|node| [asker.requester, asker.via].contains(&node))
        {
            Self::set_holder(cx, block, None);
        }
        if !cx.may_hold() && asker.via == asker.requester && asker.requester != cx.me() {
            cx.note(asker.requester, block, note(ABSENT_HERE, 0));
        }
        if to.is_none() && asker.via != cx.me() && asker.requester == self.home(cx, block) && cx.cached(block)
        {
            // The home has a copy from now on.
            match cx.tag(block) == PASSING {
                true => cx.discard(block),
                false => cx.set_replica(block, true),
            }
        }
    }

    fn keeps(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) -> bool {
        if delivery.from == cx.me() && delivery.for_others && self.home(cx, block) != cx.me() {
            if self.direct.remove(&block) {
                return true;
            }
            self.passing.push_back(block);
            let most = (cx.capacity().0 as usize / 8).clamp(1, BURST);
            while self.passing.len() > most
                && let Some(oldest) = self.passing.pop_front()
            {
                if cx.tag(oldest) == PASSING {
                    cx.discard(oldest);
                }
            }
            return true;
        }
        self.ahead = None;
        if !self.is_elsewhere(cx, block, delivery) {
            return true;
        }
        let is_admitted = match self.admit {
            Admit::Never => false,
            Admit::AtOnce => true,
            Admit::Twice => {
                let seen = self.seen(cx);
                let again = seen.take(block.hash());
                if !again {
                    seen.put(block.hash());
                }
                again
            }
        };
        self.ahead = (delivery.ahead && !is_admitted).then_some(block);
        is_admitted || delivery.ahead
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        let (me, home) = (cx.me(), self.home(cx, block));
        if self.passing.back() == Some(&block) && delivery.from == me && delivery.for_others {
            cx.set_tag(block, PASSING);
            cx.cool(block);
        }
        if self.is_elsewhere(cx, block, delivery) {
            cx.set_replica(block, true);
            if self.ahead == Some(block) {
                return cx.set_tag(block, AHEAD);
            }
        }
        let is_told = cx.is_replica(block) || self.home_pays(cx, block);
        if home != me && delivery.from != me && !delivery.for_others && is_told {
            cx.set_tag(block, TOLD);
            cx.note(home, block, note(HOLDS, 0));
        }
    }

    fn fetched(&mut self, cx: &mut Context<'_>, block: BlockId, fetched: Fetched) {
        self.last = Some((block, fetched.asked));
        if let Some(costs) = &mut self.costs {
            costs.fetched(block, fetched, cx.me(), cx.disk_node());
        }
        let Some(took) = fetched.took else { return };
        let ns = took.as_nanos() as u64;
        match (fetched.asked == cx.me(), fetched.source) {
            (true, _) | (false, Source::Disk) => self.disk.add(ns),
            (false, Source::Cache) => self.peer.add(ns),
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context<'_>, block: BlockId) -> Eviction {
        let home = self.home(cx, block);
        if cx.tag(block) == PASSING {
            return Eviction::Drop;
        }
        if home == cx.me() {
            let holder = Self::holder(cx, block);
            if let Some(holder) = holder {
                cx.note(holder, block, note(SOLE, 0));
            }
            // What the core remembers of a block that is not here: who keeps it.
            cx.set_next(block, holder);
            return Eviction::Drop;
        }
        if cx.tag(block) == AHEAD && cx.is_replica(block) {
            return Eviction::Drop;
        }
        if cx.is_replica(block) {
            self.seen(cx).put(block.hash());
        } else if let Some(class) = self.way_home(cx, block, home) {
            return Eviction::Send { to: home, class, depth: 0 };
        }
        if cx.tag(block) == TOLD {
            cx.note(home, block, note(GONE, 0));
        }
        Eviction::Drop
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        if cx.cached(block) {
            return Answer::Present;
        }
        if Self::holder(cx, block) == Some(offer.evictor) {
            Self::set_holder(cx, block, None);
        }
        match self.home(cx, block) == cx.me() {
            true if offer.class == class::SERVER => Answer::Keep(Room::Free),
            true => Answer::Keep(Room::Evict),
            false => Answer::Drop,
        }
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, from: NodeId, word: Note) {
        match word.kind {
            HOLDS => Self::set_holder(cx, block, Some(from)),
            GONE if Self::holder(cx, block) == Some(from) => Self::set_holder(cx, block, None),
            SOLE if cx.is_resident(block) => cx.set_replica(block, false),
            SOLE => cx.note(from, block, note(GONE, 0)),
            ABSENT_HERE => {
                self.absent.insert(from, cx.now() + ABSENT);
                cx.set_replica(block, false);
            }
            _ => {}
        }
    }

    fn has_replicas(&self) -> bool {
        true
    }

    fn replica_goes(&self, cx: &View<'_>, ages: Ages) -> bool {
        // The client's next reads may be of the same block, but not for long: a window is a sixteenth of the cache, or some runs of blocks.
        let is_past = ages.replica > (ages.capacity / 8).max(STRIPE_BLOCKS);
        if is_past && cx.tag(ages.block) == AHEAD && !cx.is_unread(ages.block) {
            return true;
        }
        match (self.weigh, ages.other) {
            (Weigh::Share(percent), _) => {
                u64::from(ages.replicas) * 100 > u64::from(ages.capacity) * u64::from(percent)
            }
            (Weigh::Age, None) => ages.replicas > ages.capacity / 2,
            (Weigh::Age, Some(other)) => u64::from(ages.replica) * self.worth() > u64::from(other) * EVEN,
        }
    }

    fn needs_frame_data(&self) -> bool {
        true
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "single",
    title: "one copy at the home, replicas where they pay",
    paper: "ours; it unites PAFS (IOPADS 1997), the weighted LRU of Dahlin et al. (OSDI 1994) and S3-FIFO (SOSP 2023)",
    parameters: &[
        Parameter {
            name: "admit",
            default: "2",
            meaning: "when a reader keeps a replica: 0 (never), 1 (at its first remote read of the block) or 2 (at the second)",
        },
        Parameter {
            name: "answers",
            default: "4",
            meaning: "how many readers of a block at about the same time its home answers, 1 to 255; it sends others to one of those before them",
        },
        Parameter {
            name: "ask",
            default: "measured",
            meaning: "who is asked for a missing block: measured (home or primary, by what that has cost lately) or home (always)",
        },
        Parameter {
            name: "weigh",
            default: "age",
            meaning: "whether a replica goes first or an only copy: age (by age and cost) or the percent of the cache, 0 to 100, that replicas may hold",
        },
    ],
    when_not: "most reads repeat at one node, and a peer is not much faster than the disk: each first read goes by the home",
    build: Build::Shard(|arguments| {
        Ok(Box::new(Single {
            admit: arguments.parse_with("admit", "0, 1 or 2", |v| match v {
                "0" => Some(Admit::Never),
                "1" => Some(Admit::AtOnce),
                "2" => Some(Admit::Twice),
                _ => None,
            })?,
            weigh: arguments.parse_with("weigh", "age or a number from 0 to 100", |v| match v {
                "age" => Some(Weigh::Age),
                _ => v.parse().ok().filter(|percent| *percent <= 100).map(Weigh::Share),
            })?,
            costs: arguments.parse_with("ask", "measured or home", |v| match v {
                "measured" => Some(Some(Costs::default())),
                "home" => Some(None),
                _ => None,
            })?,
            last: None,
            passing: VecDeque::new(),
            ahead: None,
            direct: BTreeSet::new(),
            receivers: arguments.parse_with("answers", "a number from 1 to 255", |v| {
                v.parse().ok().filter(|&answers| answers > 0).map(Receivers::new)
            })?,
            seen: None,
            absent: BTreeMap::new(),
            peer: Typical::default(),
            disk: Typical::default(),
        }))
    }),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn single(times: &[(u64, u64)]) -> Single {
        let mut single = Single {
            admit: Admit::Twice,
            weigh: Weigh::Age,
            seen: None,
            costs: None,
            last: None,
            passing: VecDeque::new(),
            ahead: None,
            direct: BTreeSet::new(),
            receivers: Receivers::new(4),
            absent: BTreeMap::new(),
            peer: Typical::default(),
            disk: Typical::default(),
        };
        for &(peer, disk) in times {
            single.peer.add(peer);
            single.disk.add(disk);
        }
        single
    }

    #[test]
    fn an_only_copy_is_worth_what_a_disk_costs_more() {
        assert_eq!(single(&[]).worth(), 24);
        assert_eq!(single(&[(50_000, 850_000)]).worth(), 16 * EVEN);
        assert_eq!(single(&[(50_000, 20_000)]).worth(), EVEN);
        assert_eq!(single(&[(1, u64::MAX)]).worth(), MOST);
    }
}
