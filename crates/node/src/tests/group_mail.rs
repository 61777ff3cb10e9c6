//! Messages of groups of copies between two nodes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cards_array::group::{Extent, Extents, Message, Origins, Term};
use cards_core::{NodeId, PgId};
use cards_wire::peer::{OLDEST, Versions};

use super::cluster::Cluster;
use crate::node::Node;
use crate::node::buffers::Bytes;
use crate::node::group_mail::GroupSendError;

const GROUP: PgId = PgId(1 << 20);
const TERM: Term = Term { generation: 1, epoch: 2 };
const LONG: Duration = Duration::from_secs(20);

/// What arrives at a node.
pub(super) struct Listener(mpsc::Receiver<(NodeId, PgId, Message<Bytes>)>);

/// Has a node host those groups for which `hosts` is true: it keeps what comes for them.
pub(super) fn listen(node: &Arc<Node>, hosts: fn(PgId) -> bool) -> Listener {
    let (sender, receiver) = mpsc::channel();
    node.group_mail.receive_with(Box::new(move |from, group, message| {
        hosts(group) && sender.send((from, group, message)).is_ok()
    }));
    Listener(receiver)
}

impl Listener {
    fn next(&self) -> (NodeId, PgId, Message<Bytes>) {
        self.0.recv_timeout(LONG).expect("a message of a group")
    }

    /// The write of this number, which is next.
    #[track_caller]
    pub(super) fn put(&self, number: u64) -> Bytes {
        let Message::Put { number: next, payload, extent, .. } = self.next().2 else { panic!("no write") };
        assert_eq!((next, extent.length), (number, payload.len() as u64));
        assert!(payload.iter().all(|byte| *byte == number as u8));
        payload
    }

    #[track_caller]
    pub(super) fn opened(&self) {
        assert_eq!(self.next().2.map(|_| ()), Message::Opened { term: TERM });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn number(node: usize) -> NodeId {
    NodeId(node as u16 - 1)
}

fn send(cluster: &Cluster, from: usize, to: usize, message: Message<Bytes>) -> Result<(), GroupSendError> {
    cluster.node(from).send_group(number(to), GROUP, message)
}

/// A write of `length` bytes, all of them its number.
pub(super) fn put(
    cluster: &Cluster,
    from: usize,
    to: usize,
    number: u64,
    length: usize,
) -> Result<(), GroupSendError> {
    let payload = Bytes::new(vec![number as u8; length]);
    let extent = Extent { offset: number << 20, length: length as u64 };
    let (floor, missed, doubtful, origin) = (0, false, false, None);
    send(
        cluster,
        from,
        to,
        Message::Put { term: TERM, number, floor, extent, payload, missed, doubtful, origin },
    )
}

pub(super) fn opened(cluster: &Cluster, from: usize, to: usize) -> Result<(), GroupSendError> {
    send(cluster, from, to, Message::Opened { term: TERM })
}

#[test]
fn messages_of_groups_go_both_ways_with_and_without_payloads() {
    let cluster = Cluster::start(2, 4096);
    let mails = [1, 2].map(|at| listen(cluster.node(at), |group| group == GROUP));
    for (from, to) in [(1, 2), (2, 1)] {
        let mail = &mails[to - 1];
        opened(&cluster, from, to).unwrap();
        let (sender, group, message) = mail.next();
        assert_eq!((sender, group), (number(from), GROUP));
        assert_eq!(message.map(|_| ()), Message::Opened { term: TERM });
        for (at, length) in [1, 512, 4096, 4097, 256 << 10, 1 << 20].into_iter().enumerate() {
            put(&cluster, from, to, at as u64 + 1, length).unwrap();
            assert_eq!(mail.put(at as u64 + 1).len(), length);
        }
        let missed: Extents = (0..4096).map(|at| Extent { offset: at * 8192, length: 4096 }).collect();
        let (origins, missed) = (Box::new(Origins::beginning(7)), Box::new(missed));
        let open = Message::Open { term: TERM, origins: origins.clone(), missed: missed.clone() };
        send(&cluster, from, to, open).unwrap();
        assert_eq!(mail.next().2.map(|_| ()), Message::Open { term: TERM, origins, missed });
    }
    for at in [1, 2] {
        let node = cluster.node(at);
        assert_eq!(node.group_mail.unknown.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_message_for_a_group_that_is_not_hosted_is_dropped_and_counted() {
    let cluster = Cluster::start(2, 4096);
    let node = cluster.node(1);
    let unknown = || node.group_mail.unknown.load(Ordering::Relaxed);
    let opened_of = |group| cluster.node(2).send_group(NodeId(0), group, Message::Opened { term: TERM });
    opened_of(PgId(GROUP.0 + 1)).unwrap();
    cluster.wait("nothing hosts groups", || unknown() == 1);
    let mail = listen(node, |group| group == GROUP);
    opened_of(PgId(GROUP.0 + 1)).unwrap();
    put(&cluster, 2, 1, 3, 9000).unwrap();
    assert_eq!(mail.put(3).len(), 9000);
    cluster.wait("another group is not hosted", || unknown() == 2);
    assert!(cluster.is_up(1, 2) && cluster.is_up(2, 1));
}

#[test]
fn payloads_for_which_there_is_no_memory_are_dropped_until_there_is() {
    let cluster = Cluster::start(2, 4096);
    let node = cluster.node(1);
    let mail = listen(node, |_| true);
    // 128 MiB of one peer's.
    let held: Vec<Bytes> = (1..=128)
        .map(|number| {
            put(&cluster, 2, 1, number, 1 << 20).unwrap();
            mail.put(number)
        })
        .collect();
    put(&cluster, 2, 1, 129, 4096).unwrap();
    opened(&cluster, 2, 1).unwrap();
    mail.opened();
    cluster.wait("it is counted", || node.group_mail.without_room.load(Ordering::Relaxed) == 1);
    drop(held);
    put(&cluster, 2, 1, 129, 4096).unwrap();
    assert_eq!(mail.put(129).len(), 4096);
    assert!(mail.is_empty());
}

#[test]
fn a_peer_of_the_release_before_is_sent_nothing_and_named() {
    let cluster = Cluster::with(2, 4096, |config| {
        if config.node == "n2" {
            config.versions = Versions::only(OLDEST);
        }
    });
    let mail = listen(cluster.node(2), |_| true);
    assert_eq!(
        opened(&cluster, 1, 2).unwrap_err().to_string(),
        "node n2 runs an earlier release (protocol version 11), which has no mirrored volumes; upgrade it"
    );
    assert!(matches!(put(&cluster, 2, 1, 1, 512), Err(GroupSendError::Release { version: 11, .. })));
    assert!(mail.is_empty() && cluster.is_up(1, 2) && cluster.is_up(2, 1));
}

#[test]
fn what_cannot_leave_is_said() {
    let mut cluster = Cluster::start(2, 4096);
    cluster.kill(2);
    cluster.wait("the connection has ended", || !cluster.is_up(1, 2));
    let said = opened(&cluster, 1, 2).unwrap_err().to_string();
    assert!(said.starts_with("node n2 cannot be reached"), "{said}");
}
