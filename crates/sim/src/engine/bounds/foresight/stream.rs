//! The references of a trace, each with the next ones to its block.

use std::collections::{BTreeMap, VecDeque};

use cards_trace::{Op, Source};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Worth;
use crate::engine::xfs::key::Key;
use crate::run::{Interrupt, Pace, RunError};
use crate::setup::Setup;

/// What becomes of a reference, in 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::engine::bounds) struct Tag(u16);

impl Tag {
    const FIRST: u16 = 1 << 15;
    const LOCAL: u16 = 1 << 14;
    /// One more than the node that has loaded the block; 0 if it is in no memory.
    const NODE: u16 = (1 << 14) - 1;

    pub(in crate::engine::bounds) fn loaded_by(self) -> Option<u16> {
        (self.0 & Self::NODE).checked_sub(1)
    }

    pub(in crate::engine::bounds) const fn is_local(self) -> bool {
        self.0 & Self::LOCAL != 0
    }

    /// Whether a request begins with it.
    const fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }
}

/// No such position.
const NEVER: u32 = u32::MAX;
/// Requests between two words to the pace.
const PACE: u64 = 1 << 13;

/// All references, by position.
pub(super) struct Stream {
    /// The position until which it is worth keeping the block, after this reference to it.
    next: Vec<u32>,
    /// The same, as far as this node's own references go: not beyond another node's write.
    next_at_node: Vec<u32>,
    tags: Vec<Tag>,
    /// By request: whose it is, as a number of `processes`.
    requests: Vec<u32>,
    /// Node and process.
    processes: Vec<(u16, u32)>,
}

/// The past of a block.
struct Block {
    key: Key,
    last: u32,
    last_write: u32,
    /// Whose that was.
    writer: u16,
    /// The last write of any other node.
    write_before: u32,
}

impl Block {
    /// The last write by another node than this one.
    const fn written_elsewhere(&self, node: u16) -> u32 {
        if self.writer == node { self.write_before } else { self.last_write }
    }

    const fn written(&mut self, node: u16, position: u32) {
        if self.writer != node {
            self.write_before = self.last_write;
            self.writer = node;
        }
        self.last_write = position;
    }
}

/// A node's last reference to a block.
struct AtNode {
    key: Key,
    node: u16,
    last: u32,
}

/// The last references to all blocks.
#[derive(Default)]
struct Past {
    blocks: HashTable<Block>,
    at_nodes: HashTable<AtNode>,
}

impl Stream {
    pub(super) fn read(
        setup: &Setup,
        name: &str,
        source: &mut dyn Source,
        pace: &mut dyn Pace,
        worth: Worth,
        limit: u32,
    ) -> Result<Self, RunError> {
        let mut stream = Self {
            next: Vec::new(),
            next_at_node: Vec::new(),
            tags: Vec::new(),
            requests: Vec::new(),
            processes: Vec::new(),
        };
        let mut numbers = BTreeMap::new();
        let mut past = Past::default();
        let mut count: u64 = 0;
        while let Some(request) = source.next()? {
            count += 1;
            if count.is_multiple_of(PACE)
                && pace.tick(count, stream.len(), source.progress()) == Interrupt::Stop
            {
                return Err(RunError::Stopped);
            }
            let blocks = request.blocks(setup.block_bytes);
            let sound = request.node < u32::from(setup.nodes) && blocks.end <= u64::from(u32::MAX);
            // The run itself says what is wrong with the others.
            if !request.op.is_data() || blocks.is_empty() || !sound {
                continue;
            }
            if stream.len() + (blocks.end - blocks.start) > u64::from(limit) {
                return Err(RunError::TooLong { trace: name.into(), policy: setup.policy.clone(), limit });
            }
            let node = request.node as u16;
            let process = *numbers.entry((node, request.process)).or_insert_with(|| {
                stream.processes.push((node, request.process));
                (stream.processes.len() - 1) as u32
            });
            stream.requests.push(process);
            let counts = worth == Worth::References || request.op == Op::Read;
            for index in blocks.clone() {
                let tag = Tag(if index == blocks.start { Tag::FIRST } else { 0 });
                let key = Key::new(request.volume, index);
                stream.push(&mut past, tag, node, key, request.op == Op::Write, counts);
            }
        }
        Ok(stream)
    }

    fn push(&mut self, past: &mut Past, tag: Tag, node: u16, key: Key, writes: bool, counts: bool) {
        let position = self.tags.len() as u32;
        self.tags.push(tag);
        self.next.push(NEVER);
        self.next_at_node.push(NEVER);
        let mut new = false;
        let mut block = past
            .blocks
            .entry(key.hash(), |block| block.key == key, |block| block.key.hash())
            .or_insert_with(|| {
                new = true;
                Block { key, last: position, last_write: NEVER, writer: node, write_before: NEVER }
            });
        let block = block.get_mut();
        let last = std::mem::replace(&mut block.last, position);
        if !new && counts {
            self.next[last as usize] = position;
        }
        let same = |at: &AtNode| at.node == node && at.key == key;
        match past.at_nodes.entry(key.hash_at(node), same, |at| at.key.hash_at(at.node)) {
            Entry::Occupied(mut entry) => {
                let last = std::mem::replace(&mut entry.get_mut().last, position);
                let elsewhere = block.written_elsewhere(node);
                if counts && (elsewhere == NEVER || elsewhere < last) {
                    self.next_at_node[last as usize] = position;
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(AtNode { key, node, last: position });
            }
        }
        if writes {
            block.written(node, position);
        }
    }

    pub(super) const fn len(&self) -> u64 {
        self.tags.len() as u64
    }

    pub(super) fn tag(&self, position: u32) -> Tag {
        self.tags[position as usize]
    }

    pub(super) fn next(&self, position: u32) -> Option<u32> {
        Some(self.next[position as usize]).filter(|&next| next != NEVER)
    }

    pub(super) fn next_at_node(&self, position: u32) -> Option<u32> {
        Some(self.next_at_node[position as usize]).filter(|&next| next != NEVER)
    }

    /// The reference at a position finds its block in memory: this node has loaded it.
    pub(super) fn keep(&mut self, position: u32, node: u16) {
        self.tags[position as usize].0 |= node + 1;
    }

    /// It does not, after all.
    pub(super) fn give_up(&mut self, position: u32) {
        self.tags[position as usize].0 &= !Tag::NODE;
    }

    /// Whether the node could have kept the block for the reference by itself.
    pub(super) fn keep_locally(&mut self, position: u32, kept: bool) {
        let tag = &mut self.tags[position as usize].0;
        *tag = if kept { *tag | Tag::LOCAL } else { *tag & !Tag::LOCAL };
    }

    /// Goes through all references, with their positions and nodes.
    pub(super) fn each(&mut self, mut visit: impl FnMut(&mut Self, u32, u16)) {
        let mut request = 0;
        for position in 0..self.tags.len() as u32 {
            request += usize::from(self.tag(position).is_first());
            let (node, _) = self.processes[self.requests[request - 1] as usize];
            visit(self, position, node);
        }
    }

    /// What becomes of the references of each process.
    pub(super) fn into_processes(self) -> BTreeMap<(u16, u32), VecDeque<Tag>> {
        let Self { next, next_at_node, tags, requests, processes } = self;
        drop((next, next_at_node));
        let mut by_number = vec![VecDeque::new(); processes.len()];
        let mut requests = requests.into_iter();
        let mut process = 0;
        for tag in tags {
            if tag.is_first() {
                process = requests.next().unwrap_or_default();
            }
            by_number[process as usize].push_back(tag);
        }
        processes.into_iter().zip(by_number).collect()
    }
}
