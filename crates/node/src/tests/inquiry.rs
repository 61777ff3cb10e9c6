//! Questions between daemons.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use cards_admin::{ClientError, Cluster as Answer, Course, MemberState, RefusalKind, Status, Why};
use cards_core::NodeId;

use super::cluster::{BLOCK, Cluster};
use crate::inquiry::{AskError, Question, ask, ask_members, ask_peer};
use crate::node::Node;

/// Runs what needs a runtime.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn states(answer: &Answer) -> Vec<(&str, MemberState, bool)> {
    answer.nodes.iter().map(|node| (node.name.as_str(), node.state, node.status.is_some())).collect()
}

#[test]
fn one_node_tells_how_all_are() {
    let mut cluster = Cluster::start(3, 4 * BLOCK);
    let mut client = cluster.client(3);
    client.read(0, 512).unwrap();
    let answer = cluster.admin(2).cluster().unwrap();
    assert_eq!(answer.node, "n2");
    assert_eq!(
        answer.headline.replace(char::is_numeric, "0"),
        cluster.status(2).headline().replace(char::is_numeric, "0")
    );
    let up = MemberState::Up;
    assert_eq!(states(&answer), [("n1", up, true), ("n2", MemberState::Here, true), ("n3", up, true)]);
    let status =
        |name: &str| answer.nodes.iter().find(|node| node.name == name).unwrap().status.clone().unwrap();
    assert_eq!((status("n3").counters.reads, status("n3").node.as_str()), (1, "n3"));
    assert_eq!(status("n1").disks.len(), 1);
    assert!(status("n1").members.iter().all(|member| member.address.is_empty()));
    assert_eq!(status("n2").members.len(), 3);

    cluster.kill(3);
    cluster.wait("the dead node is known", || {
        let answer = cluster.admin(2).cluster().unwrap();
        let dead = &answer.nodes[2];
        assert_eq!(
            (dead.status.is_none(), dead.error.is_some()),
            (dead.error.is_some(), dead.status.is_none())
        );
        matches!(dead.state, MemberState::Down | MemberState::Dead) && dead.status.is_none()
    });
}

#[test]
fn many_who_ask_at_once_cost_one_round() {
    let cluster = Cluster::start(2, BLOCK);
    let begin = Instant::now();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..20).map(|_| scope.spawn(|| cluster.admin(1).cluster().unwrap())).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| states(answer).iter().all(|(_, _, answered)| *answered)));
    // A round gives all who wait the same numbers, those of the traffic included.
    let rounds: BTreeSet<String> =
        answers.iter().map(|answer| serde_json::to_string(answer).unwrap()).collect();
    // At most twice a second, and the first is free.
    let most = 1 + begin.elapsed().as_millis() as usize / 500;
    assert!(rounds.len() <= most, "{} rounds, not {most}", rounds.len());
}

#[test]
fn what_is_no_question_is_refused_by_name() {
    let cluster = Cluster::start(2, BLOCK);
    let node = Arc::clone(cluster.node(1));
    for (question, part) in
        [("\"unknown\"", "unknown"), ("{}", "question"), ("", "EOF"), ("[[[[", "does not know")]
    {
        let refusal = wait(ask_peer(&node, NodeId(1), question.into())).unwrap().unwrap_err();
        let refusal = String::from_utf8(refusal).unwrap();
        assert!(refusal.contains(part) && refusal.contains("bad_request"), "{refusal}");
    }
    assert!(
        wait(ask::<Status>(&node, NodeId(1), &Question::Status {})).is_ok(),
        "the connection is as before"
    );
}

#[test]
fn nobody_waits_for_a_node_that_is_gone() {
    let mut cluster = Cluster::start(3, BLOCK);
    let node: Arc<Node> = Arc::clone(cluster.node(1));
    cluster.kill(2);
    cluster.wait("its connection is lost", || {
        matches!(wait(ask::<Status>(&node, NodeId(1), &Question::Status {})), Err(AskError::Down { node }) if node == "n2")
    });
    let answers = wait(ask_members::<Status>(&node, &Question::Status {}));
    let answered: Vec<_> = answers.iter().map(|(peer, answer)| (peer.0, answer.is_ok())).collect();
    assert_eq!(answered, [(0, true), (1, false), (2, true)]);
    let strange = wait(ask::<u64>(&node, NodeId(2), &Question::Status {}));
    assert!(matches!(strange, Err(AskError::Strange { node, .. }) if node == "n3"));
    let nobody = wait(ask::<Status>(&node, NodeId(77), &Question::Status {}));
    assert!(matches!(nobody, Err(AskError::Down { .. })));
}

fn why(cluster: &Cluster, node: usize, offset: u64) -> Why {
    cluster.admin(node).why("disk", offset).unwrap()
}

/// Whoever is the last to be asked, and what it does.
fn end(why: &Why) -> (String, Option<Course>) {
    let last = why.way.last().unwrap();
    (last.node.clone(), last.course.clone())
}

#[test]
fn a_read_takes_the_way_that_is_explained() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    let mut client = cluster.client(2);
    (0..8).for_each(|block| drop(client.read(block * BLOCK as u64, 512).unwrap()));
    let mut reader = cluster.client(3);
    for block in 0..16 {
        let offset = block * BLOCK as u64 + 100;
        let before = cluster.counters(3);
        let why = why(&cluster, 3, offset);
        assert_eq!((u64::from(why.block), why.block_offset, why.node.as_str()), (block, offset - 100, "n3"));
        assert_eq!(cluster.counters(3).messages_sent, before.messages_sent, "asking reads nothing");
        let cached: Vec<bool> =
            why.nodes.iter().map(|node| node.block.as_ref().is_some_and(|block| block.cached)).collect();
        assert_eq!(cached[1..], [block < 8, false], "{why:?}");
        let (last, course) = end(&why);
        let served = |node: &str| cluster.counters(node[1..].parse().unwrap()).served;
        let served_before = served(&last);
        reader.read(offset - 100, 512).unwrap();
        let after = cluster.counters(3);
        match course {
            Some(Course::Served) => {
                assert_eq!(after.remote_hits, before.remote_hits + 1, "{why:?}");
                assert_eq!(served(&last), served_before + 1, "{why:?}");
                assert!(why.sentence.contains(&format!("{last} has a copy: a remote hit")), "{why:?}");
            }
            Some(Course::Disk) => {
                assert_eq!((last.as_str(), after.disk_reads), ("n1", before.disk_reads + 1), "{why:?}");
                assert!(why.sentence.contains("n1 has no copy and reads its disk"), "{why:?}");
            }
            other => panic!("{other:?}: {why:?}"),
        }
        assert!(block >= 8 || end(&why).1 == Some(Course::Served), "{why:?}");
        let again = self::why(&cluster, 3, offset);
        assert_eq!(again.sentence, "A read of this block at n3 would be a local hit.");
    }
    // A write makes the others release their locks, and the disk node knows.
    (0..16).for_each(|block| client.write(block * BLOCK as u64, &[1; BLOCK]).unwrap());
    let why = why(&cluster, 3, 0);
    assert!(
        why.sentence.contains("would ask n1 for the lock on the range around it, and at once ask"),
        "{why:?}"
    );
    let disk_node = why.nodes[0].block.as_ref().unwrap();
    let locks: Vec<(&str, bool)> =
        disk_node.holders.iter().map(|holder| (holder.node.as_str(), holder.held.is_some())).collect();
    assert_eq!((locks, disk_node.last_writer.as_deref()), (vec![("n2", true), ("n3", false)], Some("n2")));
}

#[test]
fn what_cannot_be_explained_is_refused_by_name() {
    let mut cluster = Cluster::start(2, 4 * BLOCK);
    let refused = |cluster: &Cluster, volume: &str, offset| match cluster.admin(2).why(volume, offset) {
        Err(ClientError::Refused(refusal)) => (refusal.kind, refusal.message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = refused(&cluster, "dsk", 0);
    assert!(kind == RefusalKind::NoSuchVolume && message.contains("\"dsk\""), "{message}");
    for offset in [4 * BLOCK as u64, u64::MAX] {
        let (kind, message) = refused(&cluster, "disk", offset);
        assert!(kind == RefusalKind::BadRequest && message.contains("beyond the end"), "{message}");
    }
    cluster.kill(1);
    cluster.wait("the way ends at the dead disk node", || {
        let why = why(&cluster, 2, 0);
        let (last, course) = end(&why);
        why.nodes[0].block.is_none()
            && (last.as_str(), course) == ("n1", None)
            && why.sentence.contains("not known")
    });
    cluster.admin(2).detach("disk").unwrap();
    let (kind, message) = refused(&cluster, "disk", 0);
    assert!(kind == RefusalKind::NotAttached && message.contains("cards volume attach"), "{message}");
}
