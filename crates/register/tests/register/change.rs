//! Changes of arbiters.

use cards_register::{ArbiterChange, Arbiters, ArbitersError, Outcome, ProposeError, StoreId};

use crate::cluster::{Cluster, proposer, stores};

#[test]
fn one_arbiter_becomes_three_and_any_two_go_on() {
    for dead in 1..=3 {
        let mut cluster = Cluster::of_three();
        cluster.cut.insert(StoreId(dead));
        let mut one = proposer(1, [1, 2, 3]);
        assert_eq!(cluster.read(&mut one), "first");
        assert_eq!(cluster.propose(&mut one, "second"), Some(Outcome::Taken));
    }
}

#[test]
fn one_that_knows_only_the_founder_finds_the_present_arbiters() {
    let mut cluster = Cluster::of_three();
    for id in 4..=6 {
        let blank = cards_register::AcceptorState::blank(StoreId(id));
        cluster.acceptors.insert(StoreId(id), cards_register::Acceptor::new(blank));
    }
    let mut one = proposer(1, [1]);
    cluster.read(&mut one);
    cluster.change(&mut one, [3, 4, 5]);
    cluster.change(&mut one, [4, 5, 6]);
    assert_eq!(cluster.propose(&mut one, "moved"), Some(Outcome::Taken));
    let mut other = proposer(2, [1]);
    // The founder is no arbiter any more, and knows who was next.
    assert_eq!(cluster.read(&mut other), "moved");
    assert_eq!(*other.known(), stores([4, 5, 6]));
}

#[test]
fn a_change_that_its_proposer_did_not_finish_another_finishes() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(1, [1, 2, 3]);
    cluster
        .acceptors
        .insert(StoreId(4), cards_register::Acceptor::new(cards_register::AcceptorState::blank(StoreId(4))));
    cluster.read(&mut one);
    one.propose(cluster.now, "begun", ArbiterChange::Begin(stores([1, 2, 4]))).unwrap();
    assert_eq!(cluster.wait(&mut one).1, Some(Outcome::Taken));
    drop(one);
    let mut other = proposer(2, [1, 2, 3]);
    assert_eq!(cluster.read(&mut other), "begun");
    other.propose(cluster.now, "finished", ArbiterChange::Finish).unwrap();
    let (value, _) = cluster.wait(&mut other);
    assert_eq!(value.arbiters, Arbiters::new(stores([1, 2, 4])).unwrap());
}

#[test]
fn during_a_change_a_majority_of_the_earlier_arbiters_is_not_enough() {
    let mut cluster = Cluster::new([2, 3]);
    let mut one = proposer(1, [1]);
    cluster.read(&mut one);
    cluster.cut.extend([StoreId(2), StoreId(3)]);
    one.propose(cluster.now, "begun", ArbiterChange::Begin(stores([1, 2, 3]))).unwrap();
    assert_eq!(cluster.run(&mut one), None);
    cluster.cut.remove(&StoreId(3));
    assert_eq!(cluster.wait(&mut one).1, Some(Outcome::Taken));
}

#[test]
fn changes_do_not_overlap() {
    let mut cluster = Cluster::of_three();
    let mut one = proposer(1, [1, 2, 3]);
    cluster.read(&mut one);
    let refused = one.propose(cluster.now, "x", ArbiterChange::Finish).unwrap_err();
    assert_eq!(refused, ProposeError::Arbiters(ArbitersError::NotChanging));
    one.propose(cluster.now, "begun", ArbiterChange::Begin(stores([1, 2]))).unwrap();
    cluster.wait(&mut one);
    let refused = one.propose(cluster.now, "x", ArbiterChange::Begin(stores([1]))).unwrap_err();
    assert_eq!(refused, ProposeError::Arbiters(ArbitersError::Changing));
    assert!(one.chosen().is_some(), "it may still propose something else");
}
