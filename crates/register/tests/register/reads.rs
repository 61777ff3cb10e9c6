//! Reads and proposals without trouble, and what they cost.

use cards_core::{Duration, Instant};
use cards_register::{
    AcceptorState, ArbiterChange, Outcome, Output, ProposeError, ReplyBody, Request, RequestBody, StoreId,
};

use crate::cluster::{Cluster, proposer};

#[test]
fn what_one_proposes_another_reads() {
    let mut cluster = Cluster::of_three();
    let (mut one, mut other) = (proposer(1, [1, 2, 3]), proposer(2, [1, 2, 3]));
    assert_eq!(cluster.read(&mut one), "first");
    assert_eq!(cluster.propose(&mut one, "second"), Some(Outcome::Taken));
    assert_eq!(cluster.read(&mut other), "second");
}

#[test]
fn the_last_to_succeed_needs_one_round_trip() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(1, [1, 2, 3]);
    cluster.read(&mut one);
    (cluster.prepares, cluster.accepts) = (0, 0);
    for content in ["a", "b", "c"] {
        assert_eq!(cluster.propose(&mut one, content), Some(Outcome::Taken));
    }
    assert_eq!((cluster.prepares, cluster.accepts), (0, 9));
    assert_eq!(cluster.read(&mut one), "c");
    assert_eq!((cluster.prepares, cluster.accepts), (0, 12), "a read is confirmed by votes");
}

#[test]
fn a_value_that_all_have_is_read_without_a_vote() {
    let mut cluster = Cluster::of_three();
    cluster.accepts = 0;
    cluster.read(&mut proposer(1, [1, 2, 3]));
    assert_eq!(cluster.accepts, 0);
}

#[test]
fn two_of_three_are_enough_and_one_is_not() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(1, [1, 2, 3]);
    cluster.cut.insert(StoreId(2));
    assert_eq!(cluster.read(&mut one), "first");
    assert_eq!(cluster.propose(&mut one, "second"), Some(Outcome::Taken));
    cluster.cut.insert(StoreId(1));
    one.propose(cluster.now, "third", ArbiterChange::Keep).unwrap();
    assert_eq!(cluster.run(&mut one), None);
    // The next time it is asked, it is there again.
    cluster.cut.clear();
    assert_eq!(cluster.wait(&mut one).1, Some(Outcome::Taken));
}

#[test]
fn nothing_is_proposed_before_a_read() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(1, [1, 2, 3]);
    let not_read = |one: &mut cards_register::Proposer<_>| {
        matches!(one.propose(Instant(0), "x", ArbiterChange::Keep), Err(ProposeError::NotRead(_)))
    };
    assert!(not_read(&mut one));
    cluster.read(&mut one);
    one.propose(cluster.now, "second", ArbiterChange::Keep).unwrap();
    assert!(not_read(&mut one), "a proposal is in flight");
}

#[test]
fn only_silent_arbiters_are_asked_again() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(2000, [1, 2, 3]);
    cluster.cut.extend([StoreId(2), StoreId(3)]);
    one.read(cluster.now);
    assert_eq!(cluster.run(&mut one), None);
    let later = one.next_timeout().unwrap();
    assert_eq!(later.since(cluster.now), Duration::from_millis(200));
    one.timeout(Instant(later.0 - 1));
    assert_eq!(one.poll(), None, "not yet");
    one.timeout(later);
    let mut asked = Vec::new();
    while let Some(Output::Send(request)) = one.poll() {
        asked.push(request.store.0);
    }
    assert_eq!(asked, [2, 3]);
}

#[test]
fn a_store_that_was_lost_is_a_stranger() {
    let mut cluster = Cluster::of_three();
    let blank = cards_register::Acceptor::new(AcceptorState::<&str>::blank(StoreId(30)));
    let asked = StoreId(3);
    let ballot = cards_register::Ballot::prepared(9, cards_register::ProposerId(9));
    let decision = blank.decide(&Request { store: asked, body: RequestBody::Prepare(ballot) });
    assert_eq!(decision.state, None);
    assert_eq!(decision.reply.body, ReplyBody::Stranger { asked });
    // It does not count: without a second arbiter nothing is chosen.
    cluster.acceptors.insert(asked, blank);
    cluster.cut.insert(StoreId(2));
    let mut one = proposer(1, [1, 2, 3]);
    one.read(cluster.now);
    assert_eq!(cluster.run(&mut one), None);
    cluster.cut.clear();
    assert_eq!(cluster.wait(&mut one).0.content, "first");
}

#[test]
fn blank_stores_alone_tell_nothing() {
    let mut cluster = Cluster::new([2, 3]);
    let mut one = proposer(1, [2, 3]);
    one.read(cluster.now);
    assert_eq!(cluster.run(&mut one), None);
    one.ask([StoreId(1)]);
    assert_eq!(cluster.run(&mut one).unwrap().0.content, "first");
}
