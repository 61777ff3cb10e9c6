//! What became of a proposal that was rejected or given up.

use cards_core::Instant;
use cards_register::{ArbiterChange, Outcome, Output, Proposer, StoreId};

use crate::cluster::{Cluster, Text, proposer};

/// A proposer whose proposal has reached only these arbiters, and no reply has come.
fn half_done<const N: usize>(cluster: &mut Cluster, reached: [u128; N]) -> Proposer<Text> {
    let mut one = proposer(1, [1, 2, 3]);
    cluster.read(&mut one);
    one.propose(cluster.now, "half done", ArbiterChange::Keep).unwrap();
    while let Some(output) = one.poll() {
        match output {
            Output::Send(request) if reached.contains(&request.store.0) => drop(cluster.answer(&request)),
            _ => {}
        }
    }
    one
}

#[test]
fn a_proposal_that_all_have_accepted_is_found_to_be_taken() {
    let mut cluster = Cluster::of_three();
    let mut one = half_done(&mut cluster, [1, 2, 3]);
    one.read(cluster.now);
    let (value, outcome) = cluster.wait(&mut one);
    assert_eq!((value.content, outcome), ("half done", Some(Outcome::Taken)));
}

#[test]
fn a_proposal_that_was_found_is_taken() {
    let mut cluster = Cluster::of_three();
    let mut one = half_done(&mut cluster, [3]);
    cluster.cut.insert(StoreId(1));
    one.read(cluster.now);
    let (value, outcome) = cluster.wait(&mut one);
    assert_eq!((value.content, outcome), ("half done", Some(Outcome::Taken)));
}

#[test]
fn a_proposal_that_was_not_found_can_never_come_back() {
    let mut cluster = Cluster::of_three();
    let mut one = half_done(&mut cluster, [3]);
    cluster.cut.insert(StoreId(3));
    one.read(cluster.now);
    let (value, outcome) = cluster.wait(&mut one);
    assert_eq!((value.content, outcome), ("first", Some(Outcome::NotTaken)));
    // The arbiter that has it is heard of again.
    cluster.cut = [StoreId(1)].into();
    assert_eq!(cluster.read(&mut proposer(2, [1, 2, 3])), "first");
}

#[test]
fn a_proposal_that_others_have_built_on_is_unknown() {
    let mut cluster = Cluster::of_three();
    let mut one = half_done(&mut cluster, [1, 2]);
    let mut other = proposer(2, [1, 2, 3]);
    assert_eq!(cluster.read(&mut other), "half done");
    assert_eq!(cluster.propose(&mut other, "more"), Some(Outcome::Taken));
    one.read(cluster.now);
    let (value, outcome) = cluster.wait(&mut one);
    assert_eq!((value.content, outcome), ("more", Some(Outcome::Unknown)));
}

#[test]
fn a_rejected_proposal_is_read_back_by_itself() {
    let mut cluster = Cluster::of_three();
    let (mut one, mut other) = (proposer(1, [1, 2, 3]), proposer(2, [1, 2, 3]));
    cluster.read(&mut one);
    cluster.read(&mut other);
    cluster.read(&mut other);
    assert_eq!(cluster.propose(&mut other, "other's"), Some(Outcome::Taken));
    let (value, outcome) = {
        one.propose(cluster.now, "one's", ArbiterChange::Keep).unwrap();
        cluster.wait(&mut one)
    };
    assert_eq!((value.content, outcome), ("other's", Some(Outcome::NotTaken)));
    assert_eq!(cluster.propose(&mut one, "one's"), Some(Outcome::Taken));
}

#[test]
fn pauses_grow_with_rejections_and_are_random() {
    let mut pauses = Vec::new();
    for random in [0, u64::MAX] {
        let mut cluster = Cluster::of_three();
        let mut one = proposer(1, [1, 2, 3]);
        let mut waited = Vec::new();
        for round in 2..9 {
            // Another proposer is always faster.
            let mut other = proposer(round, [1, 2, 3]);
            for _ in 0..round {
                other.read(cluster.now);
            }
            cluster.run(&mut other);
            one.read(cluster.now);
            one.timeout(one.next_timeout().unwrap());
            while let Some(Output::Send(request)) = one.poll() {
                let reply = cluster.answer(&request).unwrap();
                one.receive(Instant(0), random, reply);
            }
            waited.extend(one.next_timeout().map(|until| until.0 / 1_000_000));
        }
        pauses.push(waited);
    }
    let [least, other] = pauses.try_into().unwrap();
    assert!(least.is_sorted() && least[0] == 5, "{least:?}");
    assert!(least.iter().all(|pause| *pause <= 50) && other.iter().all(|pause| *pause <= 100));
    assert_ne!(least, other);
}
