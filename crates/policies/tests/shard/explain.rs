//! What is said of a read is what happens, and saying it changes nothing.

use super::*;
use cards_core::policy::Asker;
use cards_policies::policy;

const NODES: u16 = 5;

fn cluster(policy: &'static str, network_attached: bool) -> Cluster {
    Cluster::new(Setup { policy, nodes: NODES, capacity: 6, network_attached, ..SETUP })
}

/// The policies that shards run, those left out that nobody can foresee.
fn policies() -> impl Iterator<Item = &'static str> {
    policy::registry()
        .iter()
        .filter(|entry| entry.lacks().is_none() && entry.name != "chaos")
        .map(|entry| entry.name)
        .chain([
            "hints forwards=0",
            "hints forwards=1",
            "hscc depth=0 room=dup",
            "hscc homes=run ask=measured",
        ])
}

/// The nodes that would be asked for a block, in turn.
fn foreseen(c: &mut Cluster, node: u16, index: u32) -> Vec<(NodeId, NodeId)> {
    let block = BlockId::new(V, index);
    let now = c.now;
    let explanation = c.nodes[usize::from(node)].explain(now, block).unwrap();
    assert_eq!(explanation.cached, c.has(node, index));
    let (requester, mut at, mut route) = (NodeId(node), NodeId(node), explanation.route);
    let mut way = Vec::new();
    if explanation.asks_lock {
        way.push((requester, V.disk_node()));
    }
    for hops in 0.. {
        let Route::Asks { node, from_disk: failed } = route else { break };
        way.push((at, node));
        let asker = Asker { requester, via: at, hops, failed };
        route = c.nodes[usize::from(node.0)].explain_request(now, block, asker).unwrap();
        at = node;
    }
    assert!(matches!(route, Route::Served | Route::Disk), "{route:?} after {way:?}");
    way
}

/// The same as it went.
fn went(log: &[String], node: u16, index: u32) -> Vec<(NodeId, NodeId)> {
    let asked = format!(" read {index} for n{node}");
    let acquires = format!("n{node}->{:?} acquire {index}", V.disk_node());
    let nodes = log.iter().filter_map(|line| match *line == acquires {
        true => line.split(' ').next(),
        false => line.strip_suffix(&asked),
    });
    let number = |name: &str| NodeId(name[1..].parse().unwrap());
    nodes.filter_map(|line| line.split_once("->")).map(|(from, to)| (number(from), number(to))).collect()
}

/// Explains every block at every node, between the steps of some work.
fn explain_all(c: &mut Cluster) {
    let now = c.now;
    for node in 0..NODES {
        for index in (0..24).step_by(3) {
            let block = BlockId::new(V, index);
            c.nodes[usize::from(node)].explain(now, block).unwrap();
            for requester in (0..NODES).filter(|&requester| requester != node) {
                let (requester, failed) = (NodeId(requester), index % 2 == 0);
                let asker = Asker { requester, via: requester, hops: (index % 6) as u8, failed };
                c.nodes[usize::from(node)].explain_request(now, block, asker).unwrap();
            }
        }
    }
}

#[test]
fn a_read_goes_where_the_explanation_says() {
    for (round, policy) in (0..).zip(policies()) {
        let mut c = cluster(policy, round % 2 == 0);
        let (mut hops, mut refused) = (0, 0);
        for turn in 0..1_000 {
            let random = mix(turn ^ round << 32);
            let (node, index) = ((random % u64::from(NODES)) as u16, (random >> 8) as u32 % 24);
            match random >> 32 & 15 {
                0 => c.give(node, Input::DropCaches),
                1 | 2 => c.write(node, index),
                _ => {
                    let said = foreseen(&mut c, node, index);
                    c.read(node, index);
                    let log = c.log.clone();
                    let mut way = went(&log, node, index);
                    // A copy that need not include every write the reader knows of is refused when it has come.
                    if way.len() == said.len() + 1 && way.last() == Some(&(NodeId(node), V.disk_node())) {
                        way.pop();
                        refused += 1;
                    }
                    assert_eq!(way, said, "{policy}: turn {turn}: {log:?}");
                    hops = hops.max(said.len());
                }
            }
            c.answers.clear();
        }
        // Nodes write two segments of one region all the time: what one knows of writes there lags behind.
        assert!(hops >= 2 && refused <= 60, "{policy}: {hops} hops at most, {refused} copies refused");
    }
}

/// What a policy that throws dice will draw is known beforehand. (What it does besides may change the rest of the way.)
#[test]
fn chance_is_foreseen_one_step_ahead() {
    let mut c = cluster("chaos", false);
    let mut to_others = 0;
    for turn in 0..500 {
        let random = mix(turn);
        let (node, index) = (1 + (random % u64::from(NODES - 1)) as u16, (random >> 8) as u32 % 24);
        let now = c.now;
        let said = c.nodes[usize::from(node)].explain(now, BlockId::new(V, index)).unwrap().route;
        c.read(node, index);
        let way = went(&c.log, node, index);
        match said {
            Route::Asks { node: to, .. } => {
                assert!(way.contains(&(NodeId(node), to)), "turn {turn}: {said:?}, {way:?}");
                to_others += u32::from(to != V.disk_node());
            }
            said => assert_eq!((said, way), (Route::Served, Vec::new())),
        }
        c.answers.clear();
    }
    assert!(to_others > 100, "{to_others}");
}

#[test]
fn an_explanation_changes_nothing() {
    for (round, policy) in (0..).zip(policies().chain(["chaos"])) {
        let (mut asked, mut left_alone) = (cluster(policy, round % 2 == 0), cluster(policy, round % 2 == 0));
        for turn in 0..150 {
            explain_all(&mut asked);
            let random = mix(turn ^ round << 40);
            let (node, index) = ((random % u64::from(NODES)) as u16, (random >> 8) as u32 % 24);
            for c in [&mut asked, &mut left_alone] {
                match random >> 32 & 15 {
                    0 => c.give(node, Input::DropCaches),
                    1 | 2 => c.write(node, index),
                    _ => drop(c.read(node, index)),
                }
                c.answers.clear();
            }
            assert_eq!(asked.log, left_alone.log, "{policy}: turn {turn}");
            asked.log.clear();
            left_alone.log.clear();
        }
        for node in 0..NODES {
            assert_eq!(asked.stats(node), left_alone.stats(node), "{policy}");
        }
    }
}

#[test]
fn what_waits_is_said_to_wait() {
    let mut c = cluster("hscc", false);
    c.hold_disk = true;
    let block = BlockId::new(V, 3);
    c.give(2, Input::Read { token: Token(1), block });
    c.run();
    let now = c.now;
    let explain = |c: &mut Cluster, node: usize| c.nodes[node].explain(now, block).unwrap();
    assert_eq!(explain(&mut c, 0).under_way, Some(UnderWay::Disk));
    let reader = explain(&mut c, 2);
    assert_eq!((reader.route, reader.cached), (Route::Joins, false));
    assert!(matches!(reader.under_way, Some(UnderWay::Asked(_))));
    c.hold_disk = false;
    c.run();
    c.finish_reads();
    assert!(explain(&mut c, 2).cached && explain(&mut c, 2).route == Route::Served);

    // A write: whoever had a copy has given the range up, and the disk node knows.
    c.write(1, 3);
    let (reader, disk) = (explain(&mut c, 2), explain(&mut c, 0));
    assert!(!reader.cached && reader.held.is_none());
    assert!(reader.asks_lock && matches!(reader.route, Route::Asks { .. }));
    assert_eq!((disk.last_writer, disk.holders.len()), (Some(NodeId(1)), usize::from(NODES) - 1));
    assert_eq!(disk.holders[1].held, reader.held);

    c.give(2, Input::Suspended { volume: V });
    assert_eq!(explain(&mut c, 2).route, Route::WaitsForCard);
    assert_eq!(c.nodes[2].explain(now, BlockId::new(V, u32::MAX)), None, "beyond the end");
    assert_eq!(c.nodes[2].explain(now, BlockId::new(PgId(99), 0)), None);
}
