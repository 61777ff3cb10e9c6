//! What a request had to wait for, as far as its thread has seen: what the core wanted done when the request began to
//! wait, and where its blocks came from.

use cards_core::{Body, DiskWork, NodeId, Origin, Output, PgId};

use cards_admin::WaitKind;

/// See the head of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitReasons {
    /// The node that was asked first.
    asked: Option<NodeId>,
    /// A lock had to be given up, here or elsewhere.
    lock: bool,
    /// A lock was asked for.
    acquires: bool,
    /// A node was asked for blocks, or given some.
    blocks: bool,
    /// This node's own disk was asked.
    disk: bool,
    /// Where the last block came from.
    origin: Option<Origin>,
}

impl WaitReasons {
    /// The core wants this done for the request.
    pub fn wants(&mut self, output: &Output) {
        match output {
            Output::Send { to, message, .. } => match message.body {
                Body::Acquire { .. } => {
                    self.acquires = true;
                    self.asked = self.asked.or(Some(*to));
                }
                Body::Invalidate { count: 1.., .. } => {
                    self.lock = true;
                    self.asked = self.asked.or(Some(*to));
                }
                Body::Read { .. } | Body::Command { .. } => {
                    self.blocks = true;
                    self.asked = self.asked.or(Some(*to));
                }
                _ => {}
            },
            Output::Withdraw { .. } => self.lock = true,
            Output::Disk { work: DiskWork::Read { .. } | DiskWork::Command { .. }, .. } => self.disk = true,
            _ => {}
        }
    }

    /// A block has come.
    pub fn came(&mut self, origin: Origin) {
        self.origin = Some(origin);
    }

    /// What a part of the request had to wait for.
    pub fn join(&mut self, part: Self) {
        self.asked = self.asked.or(part.asked);
        self.origin = part.origin.or(self.origin);
        self.lock |= part.lock;
        self.acquires |= part.acquires;
        self.blocks |= part.blocks;
        self.disk |= part.disk;
    }

    /// Whether it had to wait for a lock first. One that is asked for beside the blocks delays nothing.
    pub fn waited_for_lock(&self) -> bool {
        self.lock || self.acquires && !self.blocks
    }

    /// Where the last block came from, if it waited for nothing but blocks.
    pub(crate) fn block_origin(&self) -> Option<Origin> {
        self.origin.filter(|_| !self.waited_for_lock())
    }

    /// What it waited for and at which node, as far as is known.
    pub(crate) fn wait(&self, me: NodeId, volume: PgId) -> (WaitKind, Option<NodeId>) {
        let disk_node = volume.is_plain().then(|| volume.disk_node());
        match (self.asked, self.origin) {
            (asked, _) if self.waited_for_lock() => (WaitKind::Lock, asked),
            (_, Some(Origin::Disk)) => (WaitKind::Disk, disk_node),
            (Some(peer), _) => (WaitKind::Peer, Some(peer)),
            (None, _) if self.disk => (WaitKind::Disk, Some(me)),
            (None, Some(Origin::Remote)) => (WaitKind::Peer, None),
            (None, Some(Origin::Local) | None) => (WaitKind::Other, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use cards_core::{Message, OpId, Payload, RequestId, Slot, Stamp};

    use super::*;

    const ME: NodeId = NodeId(2);

    fn send(to: u16, body: Body) -> Output {
        let volume = PgId::plain(NodeId(0), 0);
        let message = Message { volume, shard: 0, through: Stamp(0), free: 0, body };
        Output::Send { to: NodeId(to), message, payload: Payload::None }
    }

    fn read(to: u16) -> Output {
        let body = Body::Read {
            request: RequestId(1),
            block: 0,
            requester: ME,
            hops: 0,
            leave_copy: true,
            read_ahead: false,
            from_disk: false,
        };
        send(to, body)
    }

    fn wait(outputs: &[Output], origin: Option<Origin>) -> (WaitKind, Option<NodeId>) {
        let mut waits = WaitReasons::default();
        outputs.iter().for_each(|output| waits.wants(output));
        origin.into_iter().for_each(|origin| waits.came(origin));
        waits.wait(ME, PgId::plain(NodeId(0), 0))
    }

    #[test]
    fn a_wait_has_the_cause_that_was_seen() {
        let acquire = || {
            send(
                0,
                Body::Acquire { generation: cards_core::Generation::default(), block: 0, turn: 1, ahead: 0 },
            )
        };
        let work = DiskWork::Read { block: 0, slot: Slot(0), read_ahead: false };
        let disk = Output::Disk { op: OpId(1), volume: PgId::plain(ME, 0), card: ME, work };
        assert_eq!(wait(&[read(1)], Some(Origin::Remote)), (WaitKind::Peer, Some(NodeId(1))));
        assert_eq!(wait(&[read(1)], Some(Origin::Disk)), (WaitKind::Disk, Some(NodeId(0))));
        assert_eq!(wait(&[acquire()], Some(Origin::Disk)), (WaitKind::Lock, Some(NodeId(0))));
        assert_eq!(wait(&[acquire(), read(1)], Some(Origin::Remote)), (WaitKind::Peer, Some(NodeId(0))));
        assert_eq!(wait(&[disk], None), (WaitKind::Disk, Some(ME)));
        assert_eq!(wait(&[], Some(Origin::Remote)), (WaitKind::Peer, None));
        assert_eq!(wait(&[], None), (WaitKind::Other, None));
    }
}
