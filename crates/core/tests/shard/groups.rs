//! Volumes that are no plain disks: their medium does each command once, whatever primary it is sent to.

use std::collections::VecDeque;

use super::*;

const G: PgId = PgId(1 << 31);

/// Nodes of one shard, and a medium that does nothing before it is told to.
struct Group {
    nodes: Vec<Shard>,
    wire: VecDeque<(u16, u16, Message, Payload)>,
    /// What the medium was given, by which node.
    disk: Vec<(u16, OpId, DiskWork)>,
    answers: Vec<(Token, Result<(), IoError>)>,
    patches: usize,
}

impl Group {
    fn new() -> Self {
        let setup = Setup { policy: "rd", ..SETUP };
        let nodes = (0..3).map(|node| Shard::new(setup.config(node, 7), 1)).collect();
        let mut group =
            Self { nodes, wire: VecDeque::new(), disk: Vec::new(), answers: Vec::new(), patches: 0 };
        for node in 0..3 {
            for peer in (0..3).filter(|&peer| peer != node) {
                group.give(node, Input::PeerUp { node: NodeId(peer) });
            }
        }
        group.primary(0, 5);
        group
    }

    /// All nodes hear of a term, and attach in it. Nobody may repeat anything, if this were a plain disk.
    fn primary(&mut self, primary: u16, epoch: u64) {
        let setup = Setup { policy: "rd", ..SETUP };
        for node in 0..3 {
            self.give(node, Input::Suspended { volume: G });
            let spec = VolumeSpec { id: G, primary: NodeId(primary), epoch, ..setup.spec() };
            self.give(node, Input::Volume { spec });
        }
        let ended: Vec<_> = self.disk.drain(..).collect();
        for (node, op, _) in ended {
            self.give(node, Input::DiskDone { op, result: Err(IoError::NotAttached) });
        }
        for node in 0..3 {
            let (generation, access) = (Generation((epoch << 20) | (u64::from(node) + 1)), Access::Write);
            if node != primary {
                let holder =
                    Input::CardAttached { volume: G, node: NodeId(node), life: 7, generation, access };
                self.give(primary, holder);
            }
            self.give(node, Input::RepeatFrom { volume: G, generation: Generation(u64::MAX) });
            self.give(node, Input::Attached { volume: G, generation, access });
            self.give(node, Input::Lease { volume: G, until: Instant::NEVER });
        }
        self.give(primary, Input::Right { volume: G, until: Instant::NEVER });
        self.give(primary, Input::WritesAllowed { volume: G });
        self.run();
    }

    fn write(&mut self, node: u16, token: u64, block: u64) {
        let (token, kind, payload) = (Token(token), CommandKind::Write, Payload::Buffer(BufferId(token)));
        let (offset, length) = (block * u64::from(BLOCK_BYTES), BLOCK_BYTES);
        self.give(node, Input::Command { token, volume: G, kind, offset, length, fua: false, payload });
        self.run();
    }

    fn give(&mut self, node: u16, input: Input) {
        self.nodes[usize::from(node)].handle(Instant(0), input);
        while let Some(output) = self.nodes[usize::from(node)].poll() {
            match output {
                Output::Send { to, message, payload } => self.wire.push_back((node, to.0, message, payload)),
                Output::Disk { op, work, .. } => self.disk.push((node, op, work)),
                Output::Done { token, result, .. } => self.answers.push((token, result)),
                Output::Patch { .. } => self.patches += 1,
                _ => {}
            }
        }
    }

    fn run(&mut self) {
        while let Some((from, to, message, payload)) = self.wire.pop_front() {
            let landing = self.nodes[usize::from(to)].landing(NodeId(from), &message);
            let payload = if landing == Landing::Buffer { payload } else { Payload::None };
            self.give(to, Input::Message { from: NodeId(from), message, payload });
        }
    }

    /// What the medium has in hand, and where.
    fn origins(&self) -> Vec<(u16, Option<CommandOrigin>)> {
        let of = |work: &DiskWork| match work {
            DiskWork::Command { origin, .. } => *origin,
            DiskWork::Read { .. } => None,
        };
        self.disk.iter().map(|(node, _, work)| (*node, of(work))).collect()
    }

    fn finish(&mut self) {
        for (node, op, _) in self.disk.drain(..).collect::<Vec<_>>() {
            self.give(node, Input::DiskDone { op, result: Ok(()) });
        }
        self.run();
    }
}

#[test]
fn a_command_is_the_same_at_each_primary() {
    for node in 0..3 {
        let mut group = Group::new();
        group.write(node, 20, 1);
        group.finish();
        group.write(node, 21, 2);
        group.write(node, 22, 3);
        let origin = |number, oldest| CommandOrigin {
            node: NodeId(node),
            life: 7,
            shard: 0,
            number,
            oldest,
            first_epoch: 5,
        };
        assert_eq!(group.origins(), [(0, Some(origin(2, 2))), (0, Some(origin(3, 2)))]);
        // To another node's primary, to this one's, and back.
        for (epoch, primary) in [(6, 1), (7, 2), (8, 0)] {
            group.primary(primary, epoch);
            let mut origins = group.origins();
            origins.sort_unstable_by_key(|(_, origin)| origin.map(|origin| origin.number));
            assert_eq!(origins, [(primary, Some(origin(2, 2))), (primary, Some(origin(3, 2)))], "{node}");
        }
        group.finish();
        group.answers.sort_unstable_by_key(|(token, _)| token.0);
        assert_eq!(group.answers, [20, 21, 22].map(|token| (Token(token), Ok(()))));
        group.write(node, 23, 2);
        assert_eq!(group.origins(), [(0, Some(CommandOrigin { first_epoch: 8, ..origin(4, 4) }))]);
        assert_eq!(group.nodes[usize::from(node)].doubts(), 0);
    }
}

/// It may have been done before others wrote the same block: what is there now, only the medium knows.
#[test]
fn what_was_repeated_leaves_no_copy() {
    for (node, primary) in [(0, 1), (1, 1), (2, 1), (0, 0)] {
        let mut group = Group::new();
        group.write(node, 20, 1);
        group.primary(primary, 6);
        group.finish();
        assert_eq!(group.answers, [(Token(20), Ok(()))]);
        let has = |group: &Group, n: u16| group.nodes[usize::from(n)].contains(BlockId::new(G, 1));
        assert!((0..3).all(|n| !has(&group, n)), "{node} to {primary}");
        group.write(node, 21, 1);
        group.finish();
        assert!(has(&group, node) || has(&group, primary), "what was not repeated does");
    }
}
