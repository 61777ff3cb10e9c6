//! Epochs: how nodes agree on which pages are the oldest of the cluster.
//!
//! An epoch ends after its time, or when the node with the largest weight has received as many pages as it had
//! old ones; that node is the next initiator. The next epoch begins with the first replacement after that, so
//! that nothing happens where nothing is replaced: a node that replaces a block finds the epoch over and nudges
//! the initiator. (The paper also ends an epoch after M replacements in the whole cluster, which nobody can
//! count; the heaviest node's share of them stands for it.) The first initiator is the disk node.
//!
//! Messages of an epoch among N nodes, in their order, all of them notes that say nothing about a block (the
//! epoch's number is in its place): up to N - 1 nudges; N - 1 starts; of each node a summary and up to four parts
//! of its histogram, empty ones left out; to each node a beginning and its weights, one note for eight nodes of
//! which any has one. At most (N - 1) (8 + N / 8, rounded up); in practice half of that.

use alloc::collections::BTreeMap;

use cards_core::policy::Context;
use cards_core::{BlockId, Duration, Instant, NodeId, Note, PgId};

use super::histogram::{Histogram, PARTS, code, decode, pack, unpack};
use super::plan::Plan;
use crate::policy::hosted::Hosted;

/// To the initiator: the epoch is over, and there is something to replace.
const NUDGE: u8 = 8;
/// From the initiator: send your histogram.
const START: u8 = 9;
/// To the initiator: places of the sender's cache (32 bits), and which parts of the histogram follow (one bit each).
const SUMMARY: u8 = 10;
/// Eight classes of the histogram; the part's number is added.
const PART: u8 = 16;
/// From the initiator: MinAge in milliseconds (32 bits), the next initiator (16), the number of pages (8, coded).
const BEGIN: u8 = 11;
/// The weights of eight nodes; their number divided by eight is added.
const WEIGHTS: u8 = 128;

/// How long an initiator waits for the histograms.
const GATHER: Duration = Duration::from_millis(250);

/// A nudge that had no effect is repeated after this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pages an epoch replaces at least, but never more than a quarter of all: there would be no old ones among them.
const PAGES_MIN: u64 = 64;

pub(super) struct Epochs {
    length: Duration,
    /// Pages an epoch replaces, per mille of all places.
    share: u32,
    /// Of the epoch, and who has sent it.
    number: u32,
    sender: Option<NodeId>,
    plan: Plan,
    begun: Option<Instant>,
    /// Who begins the next epoch.
    initiator: Option<NodeId>,
    /// Pages to report on: as many as the last epoch replaced in the whole cluster.
    pages: Option<u32>,
    /// Pages received in this epoch.
    received: u32,
    /// When the initiator was nudged, without effect so far.
    nudged: Option<Instant>,
    gathering: Option<Gathering>,
}

/// At the initiator, between two epochs.
struct Gathering {
    number: u32,
    volume: PgId,
    until: Instant,
    /// Places of each node's cache, and the parts that are still to come.
    summaries: BTreeMap<NodeId, (u32, u8)>,
    /// Parts that came before their summary count as well.
    arrived: BTreeMap<NodeId, u8>,
    histograms: BTreeMap<NodeId, Histogram>,
    /// Nodes that were asked.
    asked: usize,
}

impl Gathering {
    fn is_complete(&self) -> bool {
        let complete = |(node, (_, parts)): (&NodeId, &(u32, u8))| {
            parts & !self.arrived.get(node).copied().unwrap_or(0) == 0
        };
        self.summaries.iter().filter(|&summary| complete(summary)).count() > self.asked
    }
}

impl Epochs {
    /// Epochs of this length, that replace `share` per mille of all nodes' places.
    pub(super) fn new(length: Duration, share: u32) -> Self {
        Self {
            length,
            share,
            number: 0,
            sender: None,
            plan: Plan::default(),
            begun: None,
            initiator: None,
            pages: None,
            received: 0,
            nudged: None,
            gathering: None,
        }
    }

    /// Where an evicted page of this age goes, if it is worth another node's oldest page.
    pub(super) fn target(&self, cx: &mut Context<'_>, age_ms: u32) -> Option<NodeId> {
        if age_ms >= self.plan.min_age_ms {
            return None;
        }
        let total = self.others(cx).map(|(_, weight)| weight).sum();
        let mut left = cx.random(total);
        self.others(cx).find_map(|(node, weight)| {
            let chosen = left < weight;
            left = left.saturating_sub(weight);
            chosen.then_some(node)
        })
    }

    /// The other nodes with their weights.
    fn others(&self, cx: &Context<'_>) -> impl Iterator<Item = (NodeId, u64)> {
        let weights = self.plan.weights.iter().enumerate();
        weights
            .map(|(node, &weight)| (NodeId(node as u16), u64::from(weight)))
            .filter(|&(node, _)| node != cx.me() && cx.is_up(node))
    }

    /// A block is replaced here.
    pub(super) fn replaced(&mut self, cx: &mut Context<'_>, block: BlockId, globals: &Hosted) {
        self.tick(cx);
        if !self.is_over(cx) || self.gathering.is_some() {
            return;
        }
        let initiator = self.initiator.unwrap_or(cx.disk_node());
        match self.nudged {
            _ if initiator == cx.me() || !cx.is_up(initiator) => self.start(cx, block.volume, globals),
            Some(at) if cx.now() < at + PATIENCE => {}
            Some(_) => self.start(cx, block.volume, globals),
            None => {
                self.nudged = Some(cx.now());
                cx.note(initiator, block, Note { kind: NUDGE, value: 0 });
            }
        }
    }

    /// A page has come from another node.
    pub(super) fn received(&mut self, cx: &mut Context<'_>, block: BlockId, globals: &Hosted) {
        self.received = self.received.saturating_add(1);
        if self.initiator == Some(cx.me()) {
            self.replaced(cx, block, globals);
        }
    }

    /// Histograms that have not come by now are not waited for.
    pub(super) fn tick(&mut self, cx: &mut Context<'_>) {
        if self.gathering.as_ref().is_some_and(|gathering| cx.now() >= gathering.until) {
            self.begin(cx);
        }
    }

    pub(super) fn note(
        &mut self,
        cx: &mut Context<'_>,
        block: BlockId,
        from: NodeId,
        kind: u8,
        value: u64,
        globals: &Hosted,
    ) {
        match kind {
            NUDGE if self.gathering.is_none() && self.is_over(cx) => self.start(cx, block.volume, globals),
            START => {
                self.nudged = Some(cx.now());
                self.report(cx, block, from, globals);
            }
            SUMMARY => {
                self.gather(cx, block, |gathering| {
                    gathering.summaries.insert(from, (value as u32, (value >> 32) as u8));
                });
            }
            PART..WEIGHTS => {
                let part = usize::from(kind - PART);
                if part < PARTS {
                    self.gather(cx, block, |gathering| {
                        *gathering.arrived.entry(from).or_default() |= 1 << part;
                        gathering.histograms.entry(from).or_default().set_part(part, value);
                    });
                }
            }
            BEGIN => {
                self.sender = Some(from);
                self.number = block.index;
                let weights = alloc::vec![0; usize::from(cx.node_bound())];
                let plan = Plan { min_age_ms: value as u32, weights };
                self.adopt(cx, plan, NodeId((value >> 32) as u16), decode((value >> 48) as u8));
            }
            WEIGHTS.. if self.sender == Some(from) && self.number == block.index => {
                let first = 8 * usize::from(kind - WEIGHTS);
                for (weight, told) in self.plan.weights.iter_mut().skip(first).zip(unpack(value)) {
                    *weight = told;
                }
            }
            _ => {}
        }
    }

    /// Nobody replaces anything before the first epoch.
    fn is_over(&self, cx: &Context<'_>) -> bool {
        let full = self.initiator == Some(cx.me())
            && self.plan.weights.get(usize::from(cx.me().0)).is_some_and(|&w| w > 0 && self.received >= w);
        full || self.begun.is_none_or(|begun| cx.now() >= begun + self.length)
    }

    fn start(&mut self, cx: &mut Context<'_>, volume: PgId, globals: &Hosted) {
        let number = self.number.wrapping_add(1);
        let mut asked = 0;
        let peers = cx.nodes().filter(|&node| node != cx.me() && cx.is_up(node));
        for node in peers.collect::<alloc::vec::Vec<_>>() {
            asked += 1;
            cx.note(node, BlockId::new(volume, number), Note { kind: START, value: 0 });
        }
        let until = cx.now() + GATHER;
        let summaries = BTreeMap::from([(cx.me(), (cx.capacity().0, 0))]);
        let histograms = BTreeMap::from([(cx.me(), self.histogram(cx, volume, globals))]);
        self.gathering =
            Some(Gathering { number, volume, until, summaries, arrived: BTreeMap::new(), histograms, asked });
        match asked {
            0 => self.begin(cx),
            _ => cx.wake_at(until),
        }
    }

    /// The ages of this node's pages: of the oldest ones, of which no more are replaced in any case.
    fn histogram(&self, cx: &Context<'_>, volume: PgId, globals: &Hosted) -> Histogram {
        let (capacity, resident) = cx.capacity();
        let most = self.pages.unwrap_or(capacity) as usize;
        let mut histogram = Histogram::default();
        histogram.add_free(capacity.saturating_sub(resident));
        cx.tail()
            .take(most)
            .filter(|&block| !cx.is_hosted(block))
            .for_each(|block| histogram.add(cx.age_ms(block)));
        globals.ages_ms(cx, volume).take(most).for_each(|age_ms| histogram.add(age_ms));
        histogram
    }

    fn report(&self, cx: &mut Context<'_>, label: BlockId, to: NodeId, globals: &Hosted) {
        let histogram = self.histogram(cx, label.volume, globals);
        let mut parts = 0;
        for part in 0..PARTS {
            let value = histogram.part(part);
            if value != 0 {
                parts |= 1 << part;
                cx.note(to, label, Note { kind: PART + part as u8, value });
            }
        }
        let value = u64::from(cx.capacity().0) | parts << 32;
        cx.note(to, label, Note { kind: SUMMARY, value });
    }

    fn gather(&mut self, cx: &mut Context<'_>, label: BlockId, take: impl FnOnce(&mut Gathering)) {
        let Some(gathering) = self.gathering.as_mut().filter(|g| g.number == label.index) else { return };
        take(gathering);
        if gathering.is_complete() {
            self.begin(cx);
        }
    }

    /// Ends the gathering and tells everybody what came of it.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let Some(gathering) = self.gathering.take() else { return };
        let places: u64 = gathering.summaries.values().map(|&(places, _)| u64::from(places)).sum();
        let pages = (places * u64::from(self.share) / 1000).max(PAGES_MIN).min(places / 4);
        let pages = u32::try_from(pages.max(1)).unwrap_or(u32::MAX);
        let plan = Plan::new(cx.node_bound(), &gathering.histograms, pages);
        let initiator = plan.largest().unwrap_or(cx.me());
        let label = BlockId::new(gathering.volume, gathering.number);
        let begin = u64::from(plan.min_age_ms) | u64::from(initiator.0) << 32 | u64::from(code(pages)) << 48;
        for node in cx.nodes().filter(|&node| cx.is_up(node)).collect::<alloc::vec::Vec<_>>() {
            cx.note(node, label, Note { kind: BEGIN, value: begin });
            for (eight, weights) in plan.weights.chunks(8).enumerate() {
                let value = pack(weights.iter().copied());
                if value != 0 {
                    cx.note(node, label, Note { kind: WEIGHTS + eight as u8, value });
                }
            }
        }
        self.number = gathering.number;
        self.sender = Some(cx.me());
        self.adopt(cx, plan, initiator, pages);
    }

    fn adopt(&mut self, cx: &Context<'_>, plan: Plan, initiator: NodeId, pages: u32) {
        self.plan = plan;
        self.initiator = Some(initiator);
        self.pages = Some(pages);
        self.begun = Some(cx.now());
        self.received = 0;
        self.nudged = None;
    }
}
