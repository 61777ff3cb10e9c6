//! How many commands a node has under way.
//!
//! The disk node takes a limited number of commands of each card and lets those beyond go unanswered, for the card to repeat
//! them. Nothing is lost or repeated here, so no node sends more than it takes: a trim of a gigabyte is sent bit by bit.

use std::collections::VecDeque;

use cards_core::{CommandKind, PgId};

use crate::kernel::IoToken;

/// Commands of one node under way at the same time: far below what a disk node takes.
const MOST: u32 = 256;

/// Commands that wait, by node.
#[derive(Default)]
pub(super) struct CommandWindow {
    nodes: Vec<Commands>,
    /// Nodes whose commands have ended lately.
    freed: Vec<u16>,
}

#[derive(Default)]
struct Commands {
    under_way: u32,
    waiting: VecDeque<Rest>,
}

/// What of a request has not been sent.
#[derive(Clone, Copy)]
pub(super) struct Rest {
    pub(super) token: IoToken,
    pub(super) volume: PgId,
    pub(super) kind: CommandKind,
    /// In bytes.
    pub(super) offset: u64,
    /// In bytes.
    pub(super) end: u64,
}

impl CommandWindow {
    pub(super) fn new(nodes: u16) -> Self {
        Self { nodes: (0..nodes).map(|_| Commands::default()).collect(), freed: Vec::new() }
    }

    /// A node is to send commands for this range.
    pub(super) fn push(&mut self, node: u16, rest: Rest) {
        self.nodes[usize::from(node)].waiting.push_back(rest);
    }

    /// The next command of a node, up to a multiple of `stripe` bytes, if one may be sent.
    pub(super) fn next(&mut self, node: u16, stripe: u64) -> Option<Rest> {
        let commands = &mut self.nodes[usize::from(node)];
        if commands.under_way == MOST {
            return None;
        }
        let rest = commands.waiting.front_mut()?;
        let end = ((rest.offset / stripe + 1) * stripe).min(rest.end);
        let command = Rest { end, ..*rest };
        rest.offset = end;
        if end == rest.end {
            commands.waiting.pop_front();
        }
        commands.under_way += 1;
        Some(command)
    }

    /// A command of a node has ended.
    pub(super) fn done(&mut self, node: u16) {
        let commands = &mut self.nodes[usize::from(node)];
        commands.under_way -= 1;
        if !commands.waiting.is_empty() {
            self.freed.push(node);
        }
    }

    /// A node that may be able to go on.
    pub(super) fn freed(&mut self) -> Option<u16> {
        self.freed.pop()
    }
}
