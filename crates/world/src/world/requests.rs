//! Requests of clients, and their completions.

use cards_core::{
    BlockId, BufferId, CommandKind, ControlInput, Input, IoError, NodeId, Payload, Persistence, PgId, Read,
    Token,
};

use super::{Asker, Lent, World};
use crate::client::{Completion, Outcome, Request};
use crate::memory::Tags;
use crate::models::Models;
use crate::node::Pending;

impl<M: Models> World<M> {
    pub(super) fn request(&mut self, token: Token, node: NodeId, request: Request) {
        if let Request::ReadDevice { block } = request {
            trace!(self, "{node:?} device client > {token:?} {block:?}");
            return self.device_read(token, node, block);
        }
        if !self.outstanding.contains_key(&token) {
            return; // the node died while it stood still: already lost
        }
        if !self.is_running(node) {
            return self.complete(token, Outcome::Lost);
        }
        trace!(self, "{node:?} client > {token:?} {request:?}");
        let shards = self.config.shards;
        match request {
            Request::Read { block, inline: true } => self.read_inline(token, node, block),
            Request::Read { block, inline: false } => {
                self.shard_input(node, block.shard(shards), Input::Read { token, block });
            }
            Request::ReadDevice { .. } => unreachable!("the device has it"),
            Request::ReadAhead { block } => {
                self.complete(token, Outcome::Done);
                self.shard_input(node, block.shard(shards), Input::ReadAhead { block });
            }
            Request::Command { volume, kind, sector, count, fua, tags } => {
                let sector_bytes = self.sector_bytes();
                let offset = sector * u64::from(sector_bytes);
                let block = BlockId::new(volume, (offset / u64::from(self.config.block_bytes)) as u32);
                let shard = block.shard(shards);
                let payload = if kind == CommandKind::Write {
                    assert_eq!(tags.len(), count as usize);
                    Payload::Buffer(self.hold(node, shard, tags))
                } else {
                    Payload::None
                };
                let length = count * sector_bytes;
                let kind = self.command_begins(node, token, volume, kind, fua);
                self.shard_input(
                    node,
                    shard,
                    Input::Command { token, volume, kind, offset, length, fua, payload },
                );
            }
            Request::Attach { volume, policy, access, takeover } => {
                // A client of the world ends with its node's process.
                let (succeeds, first) = (None, None);
                let attach =
                    ControlInput::Attach { token, volume, policy, access, takeover, succeeds, first };
                self.control_input(node, attach);
            }
            Request::Detach { volume } => {
                self.complete(token, Outcome::Done);
                self.control_input(node, ControlInput::Detach { volume });
            }
            Request::Extents { volume, sector, count } => {
                let sector_bytes = self.sector_bytes();
                let (offset, length) = (sector * u64::from(sector_bytes), count * sector_bytes);
                self.control_input(node, ControlInput::Extents { token, volume, offset, length });
            }
            Request::Retain { volume, ranges } => {
                self.complete(token, Outcome::Done);
                for shard in 0..shards {
                    let ranges = ranges.as_slice().into();
                    self.shard_input(node, shard, Input::Retain { volume, ranges });
                }
            }
            Request::DropCaches => {
                self.complete(token, Outcome::Done);
                for shard in 0..shards {
                    self.shard_input(node, shard, Input::DropCaches);
                }
            }
        }
    }

    pub(super) fn read_inline(&mut self, token: Token, node: NodeId, block: BlockId) {
        let shard = block.shard(self.config.shards);
        let now = self.clock(node);
        let found = self.shard(node, shard).core.read(now, token, block);
        trace!(self, "{node:?}.{shard} read {token:?} {block:?}: {found:?}");
        if let Read::Hit(slot, _) = found {
            let tags = self.lend(node, shard, slot, Lent::Client(block.volume));
            self.complete(token, Outcome::Read { tags, origin: None });
        }
        self.drain_shard(node, shard);
    }

    /// A card's flush says what it is to make durable.
    fn command_begins(
        &mut self,
        node: NodeId,
        token: Token,
        volume: PgId,
        kind: CommandKind,
        fua: bool,
    ) -> CommandKind {
        let life = self.running(node);
        if kind.is_flush() {
            let point = life.unflushed.entry(volume).or_default().begin_flush();
            life.commands.insert(token, Pending::Flush(volume, point));
            return CommandKind::Flush { since: point.since };
        }
        if !fua {
            life.commands.insert(token, Pending::Write(volume));
        }
        kind
    }

    /// A card's command is about to be answered.
    pub(super) fn command_ends(
        &mut self,
        node: NodeId,
        token: Token,
        persistence: Persistence,
        result: Result<(), IoError>,
    ) {
        let life = self.running(node);
        match life.commands.remove(&token) {
            Some(Pending::Write(volume)) => {
                life.unflushed.entry(volume).or_default().acknowledge(persistence)
            }
            Some(Pending::Flush(volume, point)) => {
                life.unflushed.entry(volume).or_default().end_flush(point, result);
            }
            None => {}
        }
    }

    pub(super) fn complete(&mut self, token: Token, outcome: Outcome) {
        let asker = self.outstanding.remove(&token).unwrap_or_else(|| panic!("{token:?} is answered twice"));
        trace!(self, "{asker:?} < {token:?} {outcome:?}");
        let node = match asker {
            // It notices by itself when the node has died.
            Asker::Device(..) if outcome == Outcome::Lost => return,
            Asker::Device(node, volume) => return self.answer(node, volume, token, outcome),
            Asker::Client(node) | Asker::DeviceClient(node) => node,
        };
        self.completions.push_back(Completion { token, node, at: self.now, outcome });
    }

    pub(super) fn hold(&mut self, node: NodeId, shard: u16, tags: Tags) -> BufferId {
        self.last_buffer += 1;
        let buffer = BufferId(self.last_buffer);
        self.shard(node, shard).memory.hold(buffer, tags);
        buffer
    }
}
