//! Policies that keep their own view of who has what, under random work: nothing is lost, nothing old is left.

use super::*;

const POLICIES: [&str; 5] = [
    "hints",
    "hints forwards=1 discard_share=100",
    "hints discard_share=0",
    "gms",
    "gms epoch=1 boost=2 pages=10",
];

fn cluster(policy: &'static str, nodes: u16, network_attached: bool) -> Cluster {
    let coherence = Coherence::Policy;
    Cluster::new(Setup { policy, nodes, capacity: 8, network_attached, coherence, ..SETUP })
}

fn wake(c: &mut Cluster, after: Duration) {
    c.now = c.now + after;
    for node in 0..c.nodes.len() as u16 {
        c.give(node, Input::Timeout);
    }
    c.run();
}

/// Once a write has ended, nobody has an older copy: neither readers nor hosts.
#[test]
fn a_write_leaves_no_old_copies() {
    for (round, policy) in POLICIES.into_iter().enumerate() {
        let mut c = cluster(policy, 7, round % 2 == 0);
        for turn in 0..1_200 {
            let random = mix(turn ^ (round as u64) << 32);
            let (node, index) = ((random % 7) as u16, (random >> 8) as u32 % 60);
            match random >> 32 & 31 {
                0 => wake(&mut c, Duration::from_millis(700)),
                1 => {
                    c.write(node, index);
                    let old: Vec<u16> =
                        (1..7).filter(|&holder| holder != node && c.has(holder, index)).collect();
                    assert_eq!(old, [0; 0], "{policy}: turn {turn}, block {index}, writer {node}");
                    c.answers.clear();
                }
                _ => drop(c.read(node, index)),
            }
            assert!(c.answers.is_empty(), "{policy}: turn {turn}: a read fails");
        }
        assert!(c.nodes.iter().all(Shard::is_quiet), "{policy}");
    }
}

/// Reads that overtake each other, caches that are dropped, peers that come and go: every read is answered.
#[test]
fn every_read_is_answered() {
    for (round, policy) in POLICIES.into_iter().enumerate() {
        let mut c = cluster(policy, 5, round % 2 == 1);
        let (mut asked, mut answered) = (0, 0);
        for turn in 0..1_200 {
            let random = mix(turn ^ (round as u64) << 40);
            let (node, index) = ((random % 5) as u16, (random >> 8) as u32 % 40);
            match random >> 32 & 63 {
                0 => c.give(node, Input::DropCaches),
                1 => c.give(node, Input::PeerDown { node: NodeId((node + 1) % 5) }),
                2..6 => (0..5).for_each(|peer| c.give(node, Input::PeerUp { node: NodeId(peer) })),
                6 => wake(&mut c, Duration::from_millis(600)),
                _ => {
                    asked += 1;
                    c.give(node, Input::Read { token: Token(turn), block: BlockId::new(V, index) });
                }
            }
            // The network delivers a little at a time, the disk less.
            for _ in 0..random >> 40 & 3 {
                if let Some((from, to, message, payload)) = c.wire.pop_front() {
                    c.arrive(from, to, message, payload);
                }
            }
            if random >> 50 & 3 == 0
                && let Some((node, op)) = c.disk.pop_front()
            {
                c.give(node.0, Input::DiskDone { op, result: Ok(()) });
            }
            if turn % 10 == 0 {
                c.run();
            }
            for (node, output) in core::mem::take(&mut c.answers) {
                let Output::Ready { slot, .. } = output else { panic!("{policy}: {output:?}") };
                answered += 1;
                c.nodes[usize::from(node.0)].unpin(slot);
                c.drain(node.0);
            }
        }
        for node in 0..5 {
            (0..5)
                .filter(|&peer| peer != node)
                .for_each(|peer| c.give(node, Input::PeerUp { node: NodeId(peer) }));
        }
        for _ in 0..100 {
            wake(&mut c, Duration::from_millis(100));
            answered += c.answers.iter().filter(|(_, o)| matches!(o, Output::Ready { .. })).count();
            c.finish_reads();
        }
        assert_eq!(answered, asked, "{policy}");
        assert!(c.nodes.iter().all(Shard::is_quiet), "{policy}");
    }
}
