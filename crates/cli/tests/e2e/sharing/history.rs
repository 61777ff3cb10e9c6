//! What the clients of a volume did and saw, block by block.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Instant;

use cards_check::checkers::linearizable;
use cards_check::history::{Op, Step};

use crate::harness::content;

/// Bytes of a block of the history: the unit of all operations.
pub(super) const BLOCK: usize = 4096;
/// Number of such blocks, from the start of the volume on.
pub(super) const BLOCKS: u64 = 64;
/// The name of what is in all blocks at first.
pub(super) const INITIAL: u64 = 0;

/// Members of the crowd; they count from 1.
pub(super) const CLIENTS: usize = 16;

/// Where a member of the crowd works, if the crowd works at the first `nodes` nodes.
pub(super) fn node_of(client: u64, nodes: usize) -> usize {
    1 + (client as usize - 1) % nodes
}

/// Nanoseconds on the one clock of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now(self) -> Step {
        self.0.elapsed().as_nanos() as Step
    }
}

/// An operation and who did it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) block: u64,
    pub(super) client: u64,
    pub(super) op: Op,
    /// When its client was told that it had failed; its outcome stays unknown nevertheless.
    pub(super) failed: Option<Step>,
}

/// All operations of all clients.
#[derive(Clone, Debug, Default)]
pub(super) struct History(pub(super) Vec<Event>);

/// What a block of the volume holds after `name` was written to it: every sector says so, and where it belongs.
pub(super) fn block_of(name: u64, block: u64) -> Vec<u8> {
    content::bytes(block * BLOCK as u64, BLOCK, name)
}

/// The name of the only write whose content this is.
pub(super) fn name_of(found: &[u8], block: u64) -> Result<u64, String> {
    let name = |sector: &[u8]| u64::from_le_bytes(sector[8..16].try_into().expect("eight bytes"));
    let first = name(found);
    if found == block_of(first, block) {
        return Ok(first);
    }
    let names: Vec<_> = found.chunks(content::SECTOR).map(|sector| format!("{:#x}", name(sector))).collect();
    Err(format!("block {block} is torn or damaged; its sectors claim to be of {}", names.join(" ")))
}

impl History {
    /// The operations on each block.
    pub(super) fn blocks(&self) -> BTreeMap<u64, Vec<Op>> {
        let mut blocks: BTreeMap<u64, Vec<Op>> = BTreeMap::new();
        for event in &self.0 {
            blocks.entry(event.block).or_default().push(event.op);
        }
        blocks
    }

    /// Operations that were answered with success.
    pub(super) fn answered(&self) -> usize {
        self.0.iter().filter(|event| event.op.returned != Step::MAX).count()
    }

    /// Writes whose outcome nobody knows.
    pub(super) fn open(&self) -> usize {
        self.0.len() - self.answered()
    }

    /// The names of all that was ever read.
    pub(super) fn seen(&self) -> BTreeSet<u64> {
        self.0.iter().filter(|event| !event.op.write).map(|event| event.op.tag).collect()
    }

    /// The part of one block.
    pub(super) fn of(&self, block: u64) -> History {
        History(self.0.iter().filter(|event| event.block == block).copied().collect())
    }

    /// Insists that nothing was begun and answered at `node` in this time, errors apart.
    #[track_caller]
    pub(super) fn is_silent_at(&self, node: usize, nodes: usize, (from, to): (Step, Step)) {
        self.has_none_at(node, nodes, (from, to), |_| true);
    }

    /// The same of writes only.
    #[track_caller]
    pub(super) fn writes_nothing_at(&self, node: usize, nodes: usize, (from, to): (Step, Step)) {
        self.has_none_at(node, nodes, (from, to), |op| op.write);
    }

    #[track_caller]
    fn has_none_at(&self, node: usize, nodes: usize, (from, to): (Step, Step), such: impl Fn(&Op) -> bool) {
        let here = |client| (1..=CLIENTS as u64).contains(&client) && node_of(client, nodes) == node;
        let within = |op: &Op| op.invoked >= from && op.returned <= to && such(op);
        if let Some(event) = self.0.iter().find(|event| here(event.client) && within(&event.op)) {
            panic!("n{node} was to serve nothing of this from {from} to {to}, and did: {event:x?}");
        }
    }

    /// Insists that what the crowd began to write at `node` in this time, and was told in this time to have failed,
    /// was not written. How many such writes there were.
    #[track_caller]
    pub(super) fn is_refused_at(&self, node: usize, nodes: usize, (from, to): (Step, Step)) -> usize {
        let refused = |event: &&Event| {
            (1..=CLIENTS as u64).contains(&event.client)
                && node_of(event.client, nodes) == node
                && event.op.invoked >= from
                && event.failed.is_some_and(|failed| failed <= to)
        };
        let refused: Vec<u64> = self.0.iter().filter(refused).map(|event| event.op.tag).collect();
        self.never_shows(&refused);
        refused.len()
    }

    /// Insists that nobody has read what these writes wrote.
    #[track_caller]
    pub(super) fn never_shows(&self, refused: &[u64]) {
        let seen = self.seen();
        for tag in refused {
            assert!(!seen.contains(tag), "{tag:#x} was refused, and written nevertheless");
        }
    }

    /// Finds the blocks that were no registers.
    pub(super) fn judge(&self) -> Result<(), String> {
        let mut story = String::new();
        for (block, ops) in self.blocks() {
            if let Err(error) = linearizable::check(INITIAL, &ops) {
                writeln!(story, "block {block} is {error}").expect("memory");
            }
        }
        if story.is_empty() { Ok(()) } else { Err(story) }
    }

    /// One line for each operation, by the time it began.
    pub(super) fn text(&self) -> String {
        let mut events = self.0.clone();
        events.sort_by_key(|event| event.op.invoked);
        let mut text = String::from("block client verb name invoked_ns returned_ns\n");
        for Event { block, client, op, failed } in events {
            let verb = if op.write { "write" } else { "read" };
            let end = match (op.returned, failed) {
                (Step::MAX, Some(failed)) => format!("failed:{failed}"),
                (Step::MAX, None) => "open".into(),
                (returned, _) => returned.to_string(),
            };
            writeln!(text, "{block} {client} {verb} {:#x} {} {end}", op.tag, op.invoked).expect("memory");
        }
        text
    }
}
