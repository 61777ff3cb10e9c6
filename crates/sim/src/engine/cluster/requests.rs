//! What processes ask of a node: reads by blocks, changes by stripes.

use cards_core::{BlockId, BufferId, CommandKind, Input, Instant, Payload, PgId, Read, STRIPE_BLOCKS, Token};
use cards_policies::read_ahead::{ReadAhead, Window};
use cards_trace::Op;

use super::window::Rest;
use super::{Cluster, ClusterEvent};
use crate::kernel::{Io, IoToken, Kernel};

/// A request that some blocks are missing for.
#[derive(Clone, Copy, Default)]
pub(super) struct Pending {
    pub(super) io: Option<Io>,
    pub(super) parts: u32,
    pub(super) last: Instant,
    pub(super) issued: Instant,
}

/// Where the number of a request ends in a token and the number of the block begins.
pub(super) const PART_BITS: u32 = 32;

impl Cluster {
    pub(super) fn part_done(&mut self, kernel: &mut Kernel<ClusterEvent>, token: IoToken, at: Instant) {
        let pending = &mut self.ios[token as usize];
        pending.parts -= 1;
        pending.last = pending.last.max(at);
        if pending.parts == 0 {
            pending.io = None;
            let last = pending.last;
            self.under_way -= 1;
            kernel.complete(token, last);
        }
    }

    pub(super) fn read(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, id: PgId) {
        for block in io.first..io.first + u64::from(io.blocks) {
            let now = kernel.now();
            let id = BlockId::new(id, block as u32);
            let shard = self.shard_at(io.node, id);
            let token = Token(u64::from(io.token) << PART_BITS | u64::from(block as u32));
            match self.shards[shard as usize].read(now, token, id) {
                Read::Hit(slot, origin) => {
                    self.shards[shard as usize].unpin(slot);
                    let bytes = io.bytes_in(block, self.setup.block_bytes);
                    let at = kernel.model.local_copy(now, io.node, bytes);
                    self.measure(origin, at.since(now));
                    self.part_done(kernel, io.token, at);
                }
                Read::Pending => self.drain(kernel, now, shard),
            }
        }
    }

    /// Fetches what the process will probably read next.
    pub(super) fn run_ahead(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, id: PgId) {
        let (window, block_bytes) = (self.setup.read_ahead, self.setup.block_bytes);
        if window == Window::Off {
            return;
        }
        let detector = self
            .read_ahead
            .entry((io.process, io.volume))
            .or_insert_with(|| ReadAhead::new(window, block_bytes));
        let Some(range) = detector.on_read(io.offset, io.bytes) else { return };
        let block = u64::from(block_bytes);
        for index in range.start / block..range.end.div_ceil(block).min(u64::from(u32::MAX)) {
            let block = BlockId::new(id, index as u32);
            let shard = self.shard_at(io.node, block);
            self.give(kernel, shard, Input::ReadAhead { block });
        }
    }

    /// Writes and trims go in commands of one stripe each.
    pub(super) fn command(
        &mut self,
        kernel: &mut Kernel<ClusterEvent>,
        io: &Io,
        volume: PgId,
        kind: CommandKind,
    ) {
        let end = io.offset + u64::from(io.bytes);
        self.window.push(io.node, Rest { token: io.token, volume, kind, offset: io.offset, end });
        self.send_commands(kernel, io.node);
    }

    /// Sends what may be sent of the commands that wait.
    fn send_commands(&mut self, kernel: &mut Kernel<ClusterEvent>, node: u16) {
        let block_bytes = u64::from(self.setup.block_bytes);
        while let Some(command) = self.window.next(node, u64::from(STRIPE_BLOCKS) * block_bytes) {
            let Rest { token, volume, kind, offset, end } = command;
            let shard = self.shard_at(node, BlockId::new(volume, (offset / block_bytes) as u32));
            let payload = match kind {
                CommandKind::Write => Payload::Buffer(BufferId(0)),
                _ => Payload::None,
            };
            let token = Token(u64::from(token) << PART_BITS);
            let length = (end - offset) as u32;
            let input = Input::Command { token, volume, kind, offset, length, fua: false, payload };
            self.give(kernel, shard, input);
        }
    }

    /// Nodes whose commands have ended send others.
    pub(super) fn go_on_with_commands(&mut self, kernel: &mut Kernel<ClusterEvent>) {
        while let Some(node) = self.window.freed() {
            self.send_commands(kernel, node);
        }
    }

    pub(super) fn parts_of(&self, io: &Io) -> u32 {
        match io.op {
            Op::Read => io.blocks,
            Op::Write | Op::Trim => {
                let stripe = u64::from(STRIPE_BLOCKS);
                let last = io.first + u64::from(io.blocks).max(1) - 1;
                if io.blocks == 0 { 0 } else { (last / stripe - io.first / stripe + 1) as u32 }
            }
            Op::Flush | Op::Open | Op::Close | Op::Send { .. } => 0,
        }
    }
}
