//! What a shard knows of a volume.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;

use super::answered::Answered;
use super::directory::Directory;
use super::held::Held;
use super::limits::Limits;
use super::marks::Marks;
use crate::ids::{Generation, NodeId, OpId, Stamp};
use crate::mistakes::{Mistake, makes};
use crate::persistence::{Loss, Persistence};
use crate::policy::Policy;
use crate::time::Instant;
use crate::volume::{Coherence, VolumeSpec};

pub(super) struct Volume {
    pub(super) spec: VolumeSpec,
    pub(super) policy: Box<dyn Policy>,
    /// This node has the disk.
    pub(super) at_disk_node: bool,
    /// This node's card, while it is attached.
    pub(super) card: Option<Generation>,
    /// Lives of the disk node that this node has had cards of: the latest few by number. They need not follow each
    /// other: its clock may have been set back between two.
    pub(super) lives: BTreeSet<u64>,
    /// The one that the last card was of.
    pub(super) life: Option<u64>,
    /// Stamps from here on are of a life of the disk node that has a higher number than the card's, and came before it.
    pub(super) ceiling: Option<Stamp>,
    /// Commands of earlier cards are sent again from this one on, see [`crate::Input::RepeatFrom`].
    pub(super) repeat_from: Generation,
    /// Whether the card wants the disk node to keep copies of what it reads; none: as the volume has it.
    pub(super) leave_copies: Option<bool>,
    /// Somebody beyond this node's cache keeps pages.
    pub(super) pages: bool,
    /// When the policy is called, if it wants to be.
    pub(super) policy_wake: Instant,
    /// The card may serve cached blocks until then.
    pub(super) lease_until: Instant,
    /// All writes up to this one are complete, by the word of the disk node to this card: what may be used here includes
    /// them.
    pub(super) heard: Stamp,
    pub(super) limits: Limits,
    /// Blocks that this node has written later than `heard`.
    pub(super) own: BTreeMap<u32, Stamp>,
    /// The card's locks.
    pub(super) held: Held,
    /// At the disk node: everything about the cards of the volume.
    pub(super) desk: Desk,
}

/// What only the disk node keeps of a volume.
pub(super) struct Desk {
    /// The cards of other nodes.
    pub(super) cards: BTreeMap<NodeId, Generation>,
    /// Those of them that may not write (any more).
    pub(super) readers: BTreeSet<NodeId>,
    /// Those of them on whose behalf nobody can confirm anything.
    pub(super) lost: BTreeSet<NodeId>,
    pub(super) last_stamp: Stamp,
    /// Writes that have begun and are not complete.
    pub(super) open: BTreeMap<Stamp, OpId>,
    /// The blocks that they write.
    pub(super) writing: BTreeSet<u32>,
    /// Which cards may have copies of what, and what was written last.
    pub(super) directory: Directory,
    /// What was answered to the cards' commands lately.
    pub(super) answered: Answered,
    /// The persistence life of the disk, and what a flush is told that was not flushed in it.
    pub(super) persistence: Persistence,
    pub(super) loss: Loss,
    /// The disk may have lost contents that cards of an earlier life of this node still use.
    pub(super) held: bool,
    /// When some of it is forgotten.
    pub(super) forget_at: Instant,
    /// Blocks that were written in this life, and by whom, as long as there are few.
    touched: BTreeMap<u32, Touched>,
    touched_max: usize,
    /// Who has written anything in this life.
    writers: Option<Touched>,
}

/// Whose writes have touched something in this life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Those of one process.
    By(Writer),
    /// Those of several.
    ByMany,
}

/// A process that writes: a node, and which life of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) node: NodeId,
    pub(super) life: u64,
}

impl Touched {
    /// What is true after another write.
    fn and(self, writer: Writer) -> Self {
        if self == Self::By(writer) { self } else { Self::ByMany }
    }
}

impl Desk {
    /// `first` is before all writes of this life of the disk node, and after all of its earlier lives.
    fn new(limits: Limits, first: Stamp, marks: Option<&Marks>) -> Self {
        Self {
            cards: BTreeMap::new(),
            readers: BTreeSet::new(),
            lost: BTreeSet::new(),
            last_stamp: first,
            open: BTreeMap::new(),
            writing: BTreeSet::new(),
            directory: Directory::new(first, marks, limits.directory_regions),
            answered: Answered::new(limits.node_lives),
            persistence: Persistence::default(),
            loss: Loss::default(),
            held: false,
            forget_at: Instant::NEVER,
            touched: BTreeMap::new(),
            touched_max: limits.touched,
            writers: None,
        }
    }

    /// All writes up to this one are complete.
    pub(super) fn through(&self) -> Stamp {
        self.open.first_key_value().map_or(self.last_stamp, |(&open, _)| Stamp(open.0 - 1))
    }

    /// What a node is told of complete writes: it has a card, which was asked about all of them.
    pub(super) fn through_for(&self, node: NodeId) -> Stamp {
        let current = self.cards.contains_key(&node) && !self.lost.contains(&node);
        if current { self.through() } else { Stamp(0) }
    }

    pub(super) fn touch(&mut self, blocks: Range<u32>, writer: Writer) {
        self.writers = Some(self.writers.map_or(Touched::By(writer), |before| before.and(writer)));
        for block in blocks {
            if self.touched.len() < self.touched_max {
                let touched = self.touched.entry(block).or_insert(Touched::By(writer));
                *touched = touched.and(writer);
            }
        }
    }

    /// Nobody else than `writer` has written the blocks in this life. No, if that is not known any more.
    pub(super) fn is_untouched(&self, blocks: Range<u32>, writer: Writer) -> bool {
        let own = Touched::By(writer);
        makes(Mistake::RepeatAfterRestart)
            || self.writers.is_none_or(|writers| writers == own)
            || self.touched.len() < self.touched_max && self.touched.range(blocks).all(|(_, &by)| by == own)
    }
}

impl Volume {
    /// `first_stamp` is before all writes of this life of the disk node, and after all of its earlier lives.
    pub(super) fn new(
        spec: VolumeSpec,
        policy: Box<dyn Policy>,
        at_disk_node: bool,
        limits: Limits,
        first_stamp: Stamp,
        marks: Option<&Marks>,
    ) -> Self {
        Self {
            spec,
            policy,
            at_disk_node,
            card: None,
            lives: BTreeSet::new(),
            life: None,
            ceiling: None,
            repeat_from: Generation(0),
            leave_copies: None,
            pages: false,
            policy_wake: Instant::NEVER,
            lease_until: Instant(0),
            heard: Stamp(0),
            limits,
            own: BTreeMap::new(),
            held: Held::default(),
            desk: Desk::new(limits, first_stamp, marks),
        }
    }

    /// The card is of this life of the disk node. What another one has said of writes says nothing of this one's.
    pub(super) fn begin_life(&mut self, life: u64) {
        if self.life.replace(life) == Some(life) {
            return;
        }
        self.lives.insert(life);
        if self.lives.len() > self.limits.disk_node_lives {
            self.lives.pop_first();
        }
        self.ceiling = self.lives.range(life + 1..).next().map(|above| Stamp(above << 20));
    }

    /// The stamp is of a life of the disk node that came before the card's, and had a higher number.
    pub(super) fn is_past(&self, stamp: Stamp) -> bool {
        self.ceiling.is_some_and(|ceiling| stamp >= ceiling)
    }

    /// Whether copies of the volume may be kept here and used now.
    pub(super) fn may_use_copies(&self, now: Instant) -> bool {
        let leased = self.needs_no_lease() || now < self.lease_until || makes(Mistake::ServeAfterLease);
        if self.at_disk_node { !self.desk.held } else { self.card.is_some() && leased }
    }

    /// As of which stamp this node's copy of a block is good. The disk node's is of the last write that has begun,
    /// since it uses no copy of a block that is being written. Elsewhere a usable copy includes all writes that the disk
    /// node has told this card are complete, and this node's own last one to the block.
    pub(super) fn as_of(&self, block: u32) -> Stamp {
        match self.at_disk_node {
            true => self.desk.last_stamp,
            false => self.own.get(&block).map_or(self.heard, |&written| written.max(self.heard)),
        }
    }

    /// The disk node's word to this card.
    pub(super) fn hear(&mut self, through: Stamp) {
        if through > self.heard && !self.is_past(through) {
            self.heard = through;
            self.own.retain(|_, &mut stamp| stamp > through);
        }
    }

    /// This node's write to a block is complete.
    pub(super) fn wrote(&mut self, block: u32, stamp: Stamp) {
        if stamp > self.heard && self.own.len() < self.limits.own_writes {
            self.own.insert(block, stamp);
        }
    }

    /// Another order of writes begins: its stamps say nothing about those before.
    pub(super) fn forget_order(&mut self) {
        (self.heard, self.held) = (Stamp(0), Held::after(&self.held));
        self.own.clear();
    }

    /// Whether the disk node is asked to keep copies of what is read here.
    pub(super) fn leaves_copies(&self) -> bool {
        self.leave_copies.unwrap_or(!self.spec.network_attached)
    }

    /// Nobody can write it, or nobody promises anything about writes.
    pub(super) fn needs_no_lease(&self) -> bool {
        self.spec.read_only || !self.confirms()
    }

    /// The disk node has copies invalidated, and confirmed, before it writes.
    pub(super) fn confirms(&self) -> bool {
        self.spec.coherence == Coherence::Confirmed
    }

    /// At the disk node: whether a card may write.
    pub(super) fn may_write(&self, node: NodeId) -> bool {
        let own = node == self.spec.id.disk_node() && self.card.is_some();
        let reads_only = self.desk.readers.contains(&node) && !makes(Mistake::LetReadersWrite);
        let peer = self.desk.cards.contains_key(&node) && !reads_only;
        !self.spec.read_only && (own || peer)
    }
}
