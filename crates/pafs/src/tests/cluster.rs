//! Servers, parity servers, memories and disks of a small cluster, with bytes: a block is two words, of which a
//! partial write changes one. Whatever is under way advances in any order that the contract allows.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use cards_core::{BlockId, NodeId, PgId, mix};

use super::super::*;

pub(super) const V: PgId = PgId(0);
pub(super) const BLOCKS: u32 = 24;

/// A block's contents.
type Words = [u32; 2];

/// Two parties whose dealings keep their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Channel {
    Disk(BlockId),
    ToParity(u16, NodeId),
    FromParity(NodeId, u16),
    Copy(u16, BufferNumber),
    Servers(u16, u16),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Fetch { server: u16, block: BlockId, frame: Frame, buffer: BufferNumber },
    Flush { server: u16, block: BlockId, words: Words, buffer: BufferNumber },
    Announce { server: u16, block: BlockId, frame: Frame, buffer: BufferNumber },
    Ready { server: u16, buffer: BufferNumber },
    Modified { server: u16, buffer: BufferNumber },
    ParityCopied { server: u16, frame: Frame, buffer: BufferNumber, written: Words },
    Covered { server: u16, buffer: BufferNumber },
    Uncover { server: u16, frame: Frame, buffer: BufferNumber },
    Uncovered { server: u16, buffer: BufferNumber },
    Ask { from: u16, donor: u16 },
    Hand { to: u16, frame: Frame },
    Refuse { to: u16 },
}

pub(super) struct Cluster {
    pub(super) servers: Vec<CacheServer>,
    parities: Vec<ParityServer>,
    lines: Lines,
    level: Level,
    frames: usize,
    /// What lies in the frames, parity buffers too.
    memory: BTreeMap<Frame, Words>,
    /// The parity servers' copies of buffers that are being modified.
    saved: BTreeMap<Frame, Words>,
    disk: BTreeMap<BlockId, Words>,
    under_way: BTreeMap<Channel, VecDeque<Step>>,
    /// What a read must find; unknown after a discard.
    current: BTreeMap<BlockId, Option<Words>>,
    /// As of the last acknowledged write.
    acknowledged: BTreeMap<BlockId, Words>,
    writes: BTreeMap<u32, Access>,
    seed: u64,
    tokens: u32,
    pub(super) reads: [u32; 2],
    pub(super) acknowledgements: u32,
}

impl Cluster {
    pub(super) fn new(nodes: u16, cache: u32, servers: u16, level: Level, seed: u64) -> Self {
        let caches: Vec<u32> = (0..nodes).map(|node| cache + u32::from(node % 2)).collect();
        let lines = Lines::new(&caches, 3);
        let partitions = deal(&caches, (level != Level::A).then_some(&lines), servers);
        let config = ServerConfig { nodes, tip_percent: 30, level };
        Self {
            frames: partitions.iter().map(Vec::len).sum(),
            servers: partitions.iter().map(|frames| CacheServer::new(config, frames)).collect(),
            parities: (0..nodes).map(|_| ParityServer::default()).collect(),
            lines,
            level,
            memory: BTreeMap::new(),
            saved: BTreeMap::new(),
            disk: BTreeMap::new(),
            under_way: BTreeMap::new(),
            current: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            writes: BTreeMap::new(),
            seed,
            tokens: 0,
            reads: [0; 2],
            acknowledgements: 0,
        }
    }

    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed = mix(self.seed);
        self.seed % below
    }

    pub(super) fn access(&mut self, index: u32, kind: AccessKind) {
        self.tokens += 1;
        let client = NodeId(self.random(self.parities.len() as u64) as u16);
        let block = BlockId::new(V, index);
        let access = Access { token: self.tokens, client, block, kind };
        if kind != AccessKind::Read {
            self.writes.insert(access.token, access);
        }
        let owner = (index as usize / 4) % self.servers.len();
        self.call(owner as u16, |s, out| s.access(access, out));
    }

    pub(super) fn discard(&mut self, first: u32, end: u32) {
        for index in first..end {
            // Whether a write under way comes before or after it is open.
            let block = BlockId::new(V, index);
            self.current.insert(block, None);
            self.acknowledged.remove(&block);
        }
        for server in 0..self.servers.len() as u16 {
            self.call(server, |s, out| s.discard(V, first.into(), end.into(), out));
        }
    }

    pub(super) fn call(&mut self, server: u16, call: impl FnOnce(&mut CacheServer, &mut Vec<Action>)) {
        let mut out = Vec::new();
        call(&mut self.servers[usize::from(server)], &mut out);
        out.into_iter().for_each(|action| self.perform(server, action));
    }

    fn words(&self, frame: Frame) -> Words {
        self.memory.get(&frame).copied().unwrap_or_default()
    }

    /// What a write makes of a block.
    fn written(before: Words, access: Access) -> Words {
        match access.kind {
            AccessKind::WriteWhole => [access.token; 2],
            _ => [before[0], access.token],
        }
    }

    fn modify(&mut self, access: Access, frame: Frame) -> Words {
        let words = Self::written(self.words(frame), access);
        self.memory.insert(frame, words);
        self.current.insert(access.block, Some(words));
        words
    }

    fn perform(&mut self, server: u16, action: Action) {
        let parity_of = |lines: &Lines, frame| lines.parity_of(frame).map(|parity| parity.node);
        let (channel, step) = match action {
            Action::Deliver { access, frame, found } => {
                let words = self.words(frame);
                let expected = self.current.entry(access.block).or_insert(Some([0; 2]));
                assert_eq!(*expected.get_or_insert(words), words, "{access:?}");
                self.reads[usize::from(found == Found::OnDisk)] += 1;
                return;
            }
            Action::Accept { access, frame, .. } => {
                assert!(!self.level.covers(access.client, frame.node));
                let words = self.modify(access, frame);
                self.acknowledge(access, words);
                return;
            }
            Action::Acknowledge { access } => {
                let frame = self.servers[usize::from(server)].blocks().find(|(b, _)| *b == access.block);
                let words =
                    frame.map_or_else(|| unreachable!("it is cached"), |(_, frame)| self.words(frame));
                self.acknowledge(access, words);
                return;
            }
            Action::Announce { access, frame, buffer, .. } => {
                let Some(node) = parity_of(&self.lines, frame) else { unreachable!("it is in a line") };
                let block = access.block;
                (Channel::ToParity(server, node), Step::Announce { server, block, frame, buffer })
            }
            Action::Modify { access, frame, buffer } => {
                let written = self.modify(access, frame);
                let Some(node) = parity_of(&self.lines, frame) else { unreachable!("it is in a line") };
                let copied = Step::ParityCopied { server, frame, buffer, written };
                self.begin(Channel::FromParity(node, server), copied);
                (Channel::Copy(server, buffer), Step::Modified { server, buffer })
            }
            Action::Fetch { block, frame, buffer } => {
                (Channel::Disk(block), Step::Fetch { server, block, frame, buffer })
            }
            Action::Flush { block, frame, buffer } => {
                let words = self.words(frame);
                (Channel::Disk(block), Step::Flush { server, block, words, buffer })
            }
            Action::Uncover { frame, buffer } => {
                let Some(node) = parity_of(&self.lines, frame) else { unreachable!("it is in a line") };
                (Channel::ToParity(server, node), Step::Uncover { server, frame, buffer })
            }
            Action::Ask { donor } => (Channel::Servers(server, donor), Step::Ask { from: server, donor }),
            Action::Hand { to, frame } => (Channel::Servers(server, to), Step::Hand { to, frame }),
            Action::Refuse { to } => (Channel::Servers(server, to), Step::Refuse { to }),
        };
        self.begin(channel, step);
    }

    fn acknowledge(&mut self, access: Access, words: Words) {
        assert_eq!(self.writes.remove(&access.token), Some(access), "a write is acknowledged once");
        self.acknowledgements += 1;
        self.acknowledged.insert(access.block, words);
    }

    fn begin(&mut self, channel: Channel, step: Step) {
        self.under_way.entry(channel).or_default().push_back(step);
    }

    /// Something under way makes a step; false if there is nothing.
    pub(super) fn advance(&mut self) -> bool {
        if self.under_way.is_empty() {
            return false;
        }
        let which = self.random(self.under_way.len() as u64) as usize;
        let Some((&channel, _)) = self.under_way.iter().nth(which) else { return false };
        let Some(queue) = self.under_way.get_mut(&channel) else { return false };
        let step = queue.pop_front();
        if queue.is_empty() {
            self.under_way.remove(&channel);
        }
        if let Some(step) = step {
            self.happen(step);
        }
        true
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Fetch { server, block, frame, buffer } => {
                let words = self.disk.get(&block).copied().unwrap_or_default();
                self.memory.insert(frame, words);
                self.call(server, |s, out| s.fetched(buffer, out));
            }
            Step::Flush { server, block, words, buffer } => {
                self.disk.insert(block, words);
                self.call(server, |s, out| s.flushed(buffer, out));
            }
            Step::Announce { server, block, frame, buffer } => {
                let Some(parity) = self.lines.parity_of(frame) else { unreachable!() };
                self.parities[usize::from(parity.node.0)].will_modify(frame, block);
                self.saved.insert(frame, self.words(frame));
                self.begin(Channel::FromParity(parity.node, server), Step::Ready { server, buffer });
            }
            Step::Ready { server, buffer } => self.call(server, |s, out| s.ready(buffer, out)),
            Step::Modified { server, buffer } => self.call(server, |s, out| s.modified(buffer, out)),
            Step::ParityCopied { server, frame, buffer, written } => {
                let Some(parity) = self.lines.parity_of(frame) else { unreachable!() };
                let saved = self.saved.remove(&frame).unwrap_or_else(|| unreachable!("step 2 comes first"));
                if self.parities[usize::from(parity.node.0)].covered(frame) {
                    self.xor(parity, saved);
                }
                self.xor(parity, written);
                self.begin(Channel::FromParity(parity.node, server), Step::Covered { server, buffer });
            }
            Step::Covered { server, buffer } => self.call(server, |s, out| s.covered(buffer, out)),
            Step::Uncover { server, frame, buffer } => {
                let Some(parity) = self.lines.parity_of(frame) else { unreachable!() };
                self.parities[usize::from(parity.node.0)].uncovered(frame);
                self.xor(parity, self.words(frame));
                self.begin(Channel::FromParity(parity.node, server), Step::Uncovered { server, buffer });
            }
            Step::Uncovered { server, buffer } => self.call(server, |s, out| s.uncovered(buffer, out)),
            Step::Ask { from, donor } => self.call(donor, |s, out| s.give_one(from, out)),
            Step::Hand { to, frame } => self.call(to, |s, out| s.gain(frame, out)),
            Step::Refuse { to } => self.call(to, |s, out| s.refused(out)),
        }
    }

    fn xor(&mut self, parity: Frame, words: Words) {
        let before = self.words(parity);
        self.memory.insert(parity, [before[0] ^ words[0], before[1] ^ words[1]]);
    }

    pub(super) fn sync(&mut self) {
        (0..self.servers.len() as u16).for_each(|server| self.call(server, |s, out| s.sync(out)));
    }

    /// PAFS-3, PAFS-4, PAFS-15: each frame has one owner, each block one copy, each line its parity.
    pub(super) fn check(&self) {
        self.servers.iter().for_each(CacheServer::check);
        let hands = self.under_way.values().flatten().filter(|step| matches!(step, Step::Hand { .. }));
        let owned: usize = self.servers.iter().map(|s| s.buffers() as usize).sum();
        assert_eq!(owned + hands.count(), self.frames, "every frame has one owner");
        let mut copies: Vec<(BlockId, Frame)> = self.servers.iter().flat_map(CacheServer::blocks).collect();
        copies.sort_unstable();
        assert!(copies.windows(2).all(|pair| pair[0].0 != pair[1].0), "a block has one copy");
        let mut frames: Vec<Frame> = copies.iter().map(|(_, frame)| *frame).collect();
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), copies.len(), "a frame has one block");
        let mut parity: BTreeMap<Frame, Words> = BTreeMap::new();
        for (frame, _) in self.parities.iter().flat_map(ParityServer::buffers) {
            let words = self.saved.get(&frame).copied().unwrap_or_else(|| self.words(frame));
            let Some(of) = self.lines.parity_of(frame) else { unreachable!("it is in a line") };
            let sum = parity.entry(of).or_default();
            *sum = [sum[0] ^ words[0], sum[1] ^ words[1]];
        }
        for (&frame, &words) in self.memory.iter().filter(|(frame, _)| !self.lines.holds_blocks(**frame)) {
            if self.level != Level::A {
                assert_eq!(parity.get(&frame).copied().unwrap_or_default(), words, "parity of {frame:?}");
            }
        }
    }

    /// Everything ends, and all blocks are written: what is on the disk then is what was written last.
    pub(super) fn settle(&mut self) {
        for _ in 0..3 {
            while self.advance() {}
            self.sync();
        }
        while self.advance() {}
        self.check();
        assert!(self.servers.iter().all(CacheServer::is_quiet) && self.writes.is_empty());
        assert!(self.servers.iter().all(|s| s.dirty_blocks() == 0 && s.covered_frames().next().is_none()));
        assert!(self.parities.iter().all(ParityServer::is_empty));
        for (block, words) in &self.current {
            let on_disk = self.disk.get(block).copied().unwrap_or_default();
            assert!(words.is_none_or(|words| words == on_disk), "{block:?}");
        }
    }

    /// A node dies; nothing that is under way happens any more. PAFS-17: the disks plus what remains in memory plus
    /// what parity gives back have every acknowledged write. Returns the blocks that have lost one.
    pub(super) fn lost_with(&self, dead: NodeId) -> Vec<BlockId> {
        let mut after = self.disk.clone();
        for (block, frame) in self.servers.iter().flat_map(CacheServer::blocks) {
            let coming = self
                .under_way
                .values()
                .flatten()
                .any(|step| matches!(step, Step::Fetch { frame: other, .. } if *other == frame));
            if frame.node != dead && !coming {
                after.insert(block, self.words(frame));
            }
        }
        for (node, parity) in (0..).map(NodeId).zip(&self.parities).filter(|(node, _)| *node != dead) {
            for Restore { block, from } in parity.restore(dead, &self.lines) {
                let mut words = [0; 2];
                for operand in from {
                    let (frame, part) = match operand {
                        Operand::Parity(frame) | Operand::Buffer(frame) => (frame, self.words(frame)),
                        Operand::Saved(frame) => (frame, self.saved[&frame]),
                    };
                    assert!(frame.node != dead, "what is gone is of no use");
                    words = [words[0] ^ part[0], words[1] ^ part[1]];
                }
                assert!(self.lines.parity_of(Frame::new(node, 0)).is_some());
                after.insert(block, words);
            }
        }
        let lost = |(block, words): (&BlockId, &Words)| {
            let found = after.get(block).copied().unwrap_or_default();
            // A later write that is not acknowledged may have survived.
            let later = self.current[block].is_none_or(|later| later == found);
            (found != *words && !later).then_some(*block)
        };
        self.acknowledged.iter().filter_map(lost).collect()
    }
}
