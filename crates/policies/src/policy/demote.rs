//! DEMOTE: exclusive caching between clients and the disk node (Wong and Wilkes, USENIX 2002).
//!
//! What the disk node sends to a client it will not be asked for soon: it makes it its next victim. What a client
//! evicts comes back to the disk node, which takes it in as if just used. So the caches of a client and of the
//! disk node hold different blocks, and act as one large one.
//!
//! Where clients share blocks, what one has got another may want next. So the disk node can be told to put
//! what comes back only half as high (`insert=mid`), or learn it (`insert=adaptive`): two ghost caches show how
//! many hits a cache would have of demoted blocks alone, and one of blocks read from the disk alone; each kind
//! of block goes as high as its share of these hits.
//!
//! Where the papers leave a choice:
//! - To be put in at some height means here to be put in at the top with that probability, and at the bottom
//!   otherwise: the block stays as long on average, whatever the replacement.
//! - The shares follow the last thousands of requests: a tenth of the weight is the last thousand's.
//! - The block travels with the question whether the disk node wants it; it is refused if it is there already
//!   (and counts as demoted), or if slots are short.
//! - In a write all other copies are dropped. Where no other protocol does it, the disk node remembers them: it
//!   sees all that comes and goes.
//!
//! Unfit where the links are the bottleneck: every eviction sends a block.

mod insertion;

use alloc::boxed::Box;

use cards_core::policy::{Answer, Asker, Context, Delivery, Eviction, Offer, Policy, Room};
use cards_core::{BlockId, NodeId, Note, Source};

use super::directory::Directory;
use super::words::{INVALIDATE, class};
use super::{Build, Entry, Parameter};
use insertion::{Insertion, Origin};

struct Demote {
    exclusive: bool,
    insertion: Insertion,
    /// At the disk node: the copies of all others, if it has to invalidate them.
    copies: Directory,
}

impl Policy for Demote {
    fn handle_eviction(&mut self, cx: &mut Context<'_>, _block: BlockId) -> Eviction {
        if cx.me() == cx.disk_node() {
            return Eviction::Drop;
        }
        Eviction::Send { to: cx.disk_node(), class: class::DEMOTED, depth: 0 }
    }

    fn keep_consistency(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        if cx.me() == cx.disk_node() {
            self.copies.written(cx, block, writer);
            cx.refresh(block);
        }
    }

    fn asked(&mut self, cx: &mut Context<'_>, block: BlockId, asker: Asker, _to: Option<NodeId>) {
        if cx.me() != cx.disk_node() || asker.requester == cx.me() {
            return;
        }
        if cx.invalidates() {
            self.copies.add(block, asker.requester);
        }
        self.insertion.requested(cx, block);
        if cx.cached(block) {
            self.place(cx, block, Origin::Disk);
        }
    }

    fn offered(&mut self, cx: &mut Context<'_>, block: BlockId, offer: Offer) -> Answer {
        if offer.class != class::DEMOTED || cx.me() != cx.disk_node() {
            return Answer::Drop;
        }
        self.copies.remove(block, offer.evictor);
        if !cx.cached(block) {
            return Answer::Keep(Room::Evict);
        }
        cx.refresh(block);
        self.place(cx, block, Origin::Client);
        Answer::Present
    }

    fn note(&mut self, cx: &mut Context<'_>, block: BlockId, _from: NodeId, note: Note) {
        if note.kind == INVALIDATE {
            cx.invalidate(block);
        }
    }

    fn filled(&mut self, cx: &mut Context<'_>, block: BlockId, delivery: Delivery) {
        if cx.me() == cx.disk_node() && delivery.source == Source::Disk && delivery.for_others {
            self.place(cx, block, Origin::Disk);
        }
    }

    fn stored(&mut self, cx: &mut Context<'_>, block: BlockId, _depth: u8) {
        self.place(cx, block, Origin::Client);
    }
}

impl Demote {
    /// At the disk node: a block that is at the top goes to the bottom instead, if that is where its kind belongs.
    fn place(&mut self, cx: &mut Context<'_>, block: BlockId, origin: Origin) {
        let to_top = match origin {
            Origin::Disk if !self.exclusive => true,
            _ => self.insertion.goes_on_top(cx, block, origin),
        };
        if !to_top {
            cx.cool(block);
        }
    }
}

pub(super) const ENTRY: Entry = Entry {
    name: "demote",
    title: "exclusive caching with demotions",
    paper: "Wong and Wilkes, My Cache or Yours? Making Storage More Exclusive, USENIX 2002",
    parameters: &[
        Parameter {
            name: "insert",
            default: "mru",
            meaning: "how high the disk node puts what clients evict: mru (as if just used), mid (half as high) or adaptive (by ghost caches, for blocks from the disk as well)",
        },
        Parameter {
            name: "excl",
            default: "on",
            meaning: "whether what the disk node sends to a client goes first there: on or off",
        },
    ],
    when_not: "the links are the bottleneck (every eviction sends a block), or clients share what they read",
    build: Build::Shard(|arguments| {
        let insertion = arguments.parse_with("insert", "mru, mid or adaptive", |v| match v {
            "mru" => Some(Insertion::Mru),
            "mid" => Some(Insertion::Mid),
            "adaptive" => Some(Insertion::adaptive()),
            _ => None,
        })?;
        let exclusive = arguments.parse_with("excl", "on or off", |v| match v {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        Ok(Box::new(Demote { exclusive, insertion, copies: Directory::default() }))
    }),
};
