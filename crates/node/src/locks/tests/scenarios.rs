//! One thing at a time.

use cards_core::{Instant, NodeId};
use cards_locks::{LockError, Mode, SessionId, Wait};

use super::world::{LEASE, TTL, World, starts_at, want};
use crate::locks::{Refusal, Service, limits};

const WRITE: Mode = Mode::Write;

#[test]
fn without_a_coordinator_every_request_is_refused_with_the_remedy() {
    let mut service = Service::new(NodeId(0), 1, LEASE, Instant(0));
    let refusal = service.open(Instant(0), String::new(), TTL).unwrap_err();
    assert_eq!(refusal, Refusal::NoCoordinator);
    assert!(refusal.to_string().contains("add [coordinator] to node.toml"), "{refusal}");
}

#[test]
fn a_range_goes_from_node_to_node_under_growing_tokens() {
    let mut world = World::new(3, 1);
    let (one, two) = (world.open(0), world.open(1));
    for home in 0..3 {
        let start = starts_at(&world, home).next().unwrap();
        let (first, mut told) = world.acquire(one, vec![want(start, 9, WRITE)], Wait::Forever).unwrap();
        world.run_ms(100);
        assert_eq!(told.try_recv(), Ok(Ok(())), "home {home}");
        let (second, mut waits) = world.acquire(two, vec![want(start + 8, 9, WRITE)], Wait::Forever).unwrap();
        world.run_ms(500);
        assert!(waits.try_recv().is_err(), "home {home}: it is taken");
        let old = world.held(first).unwrap();
        let mut released = world.release(first).unwrap();
        world.run_ms(100);
        assert_eq!((released.try_recv(), waits.try_recv()), (Ok(()), Ok(Ok(()))), "home {home}");
        assert!(world.held(second).unwrap()[0].token > old[0].token);
        world.release(second).unwrap();
        world.run_ms(100);
    }
    assert_eq!((world.known(one), world.known(two)), (0, 0));
}

#[test]
fn who_does_not_want_to_wait_is_told_and_leaves_nothing_behind() {
    let mut world = World::new(2, 2);
    let (one, two) = (world.open(0), world.open(1));
    world.acquire(one, vec![want(0, 10, WRITE)], Wait::Forever).unwrap().1.close();
    let (key, _told) = world.acquire(one, vec![want(10, 10, WRITE)], Wait::Forever).unwrap();
    world.run_ms(200);
    assert!(world.held(key).is_some());
    let (_, mut told) = world.acquire(two, vec![want(15, 1, WRITE)], Wait::Try).unwrap();
    let until = Wait::Until(world.now() + LEASE);
    let (_, mut late) = world.acquire(two, vec![want(15, 1, WRITE)], until).unwrap();
    world.run_ms(9_500);
    assert_eq!(told.try_recv(), Ok(Err(LockError::WouldBlock)));
    assert_eq!(late.try_recv(), Ok(Err(LockError::TimedOut)));
    assert_eq!(world.known(two), 0);
    // Nobody listened to the answer of the first one: it holds nothing.
    assert_eq!(world.known(one), 1);
}

/// A client that dies: its session is silent, and after the ttl others have what it held.
#[test]
fn a_session_that_is_silent_loses_its_groups_after_its_ttl() {
    let mut world = World::new(2, 3);
    let (silent, other) = (world.open(0), world.open(1));
    let (dead, _told) = world.acquire(silent, vec![want(0, 1 << 20, WRITE)], Wait::Forever).unwrap();
    world.run_ms(100);
    let (_, mut waits) = world.acquire(other, vec![want(0, 1, WRITE)], Wait::Forever).unwrap();
    for _ in 0..9 {
        world.run_ms(1_000);
        world.keep_alive(Some(silent));
    }
    assert!(world.held(dead).is_some() && waits.try_recv().is_err(), "before the ttl is over");
    world.run_ms(1_200);
    assert_eq!(waits.try_recv(), Ok(Ok(())));
    let refusal = world.with(0, |service, now| service.keep_alive(now, silent).unwrap_err());
    assert_eq!(refusal, Refusal::NoSession(silent));
    assert!(refusal.to_string().contains("open a new one"), "{refusal}");
}

#[test]
fn a_node_that_dies_takes_its_own_locks_with_it_and_no_others() {
    let mut world = World::new(3, 4);
    let (dead, other) = (world.open(0), world.open(1));
    // Regions of all homes, also of the one that dies.
    let starts: Vec<u64> = (0..3).flat_map(|home| starts_at(&world, home).take(2)).collect();
    let wants: Vec<_> = starts.iter().map(|&start| want(start, 1, WRITE)).collect();
    let (kept, mut told) = world.acquire(other, wants.clone(), Wait::Forever).unwrap();
    let behind = starts.iter().map(|&start| want(start + 5, 1, WRITE)).collect();
    world.acquire(dead, behind, Wait::Forever).unwrap().1.close();
    let own = vec![want(starts[5] + 9, 1, WRITE)];
    let (gone, _told) = world.acquire(dead, own.clone(), Wait::Forever).unwrap();
    world.run_ms(1_000);
    assert_eq!(told.try_recv(), Ok(Ok(())));
    assert!(world.held(gone).is_some());
    let before = world.held(kept).unwrap();

    world.kill(0);
    world.run_ms(3_000);
    world.tell_view();
    let (_, mut waits) = world.acquire(other, own, Wait::Forever).unwrap();
    for _ in 0..14 {
        world.run_ms(1_000);
        world.keep_alive(None);
        assert_eq!(world.held(kept).as_ref(), Some(&before));
    }
    assert_eq!(waits.try_recv(), Ok(Ok(())), "what the dead node held is free after its lease");

    world.come_back(0);
    let back = world.open(0);
    let (_, mut conflict) = world.acquire(back, wants, Wait::Try).unwrap();
    let (_, mut free) = world.acquire(back, vec![want(starts[0] + 100, 1, WRITE)], Wait::Forever).unwrap();
    for _ in 0..15 {
        world.run_ms(1_000);
        world.keep_alive(None);
    }
    assert_eq!(world.held(kept).as_ref(), Some(&before));
    assert_eq!(conflict.try_recv(), Ok(Err(LockError::WouldBlock)));
    assert_eq!(free.try_recv(), Ok(Ok(())));
    assert!(back.number > dead.number, "a session's number is never used twice");
}

/// The take-over after one death does not wait for the sessions: their records were copied.
#[test]
fn one_death_delays_others_by_no_term() {
    let mut world = World::new(3, 5);
    let other = world.open(1);
    let start = starts_at(&world, 0).next().unwrap();
    world.kill(0);
    world.tell_view();
    let (_, mut told) = world.acquire(other, vec![want(start, 1, WRITE)], Wait::Forever).unwrap();
    world.run_ms(500);
    assert_eq!(told.try_recv(), Ok(Ok(())));
}

#[test]
fn what_is_too_much_is_refused() {
    let mut world = World::new(1, 6);
    let session = world.open(0);
    let all = vec![want(0, limits::REGION_BYTES * 257, Mode::Read)];
    let refusal = world.acquire(session, all, Wait::Try).unwrap_err();
    assert!(matches!(refusal, Refusal::TooManyParts { given: 257 }), "{refusal}");
    let mut waiting = Vec::new();
    for index in 0..=limits::GROUPS as u64 {
        waiting.push(world.acquire(session, vec![want(index, 1, WRITE)], Wait::Forever).unwrap().1);
    }
    world.run_ms(100);
    let mut answers = waiting.iter_mut().map(oneshot_answer);
    assert!(answers.by_ref().take(limits::GROUPS).all(|answer| answer == Ok(())));
    assert_eq!(answers.next(), Some(Err(LockError::TooManyGroups { limit: limits::GROUPS })));
    while world.with(0, |service, now| service.open(now, String::new(), TTL)).is_ok() {}
    let count = world.with(0, |service, now| service.sessions(now).len());
    assert_eq!(count, limits::SESSIONS);
}

fn oneshot_answer(heard: &mut super::world::Heard) -> Result<(), LockError> {
    heard.try_recv().expect("an answer")
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let mut world = World::new(1, 7);
    let session = world.open(0);
    for wrong in
        [SessionId { number: session.number + 1, ..session }, SessionId { node: NodeId(5), ..session }]
    {
        assert!(world.with(0, |service, now| service.keep_alive(now, wrong)).is_err());
        assert!(world.with(0, |service, now| service.close(now, wrong)).is_err());
    }
    let key = |group| cards_locks::GroupKey { session, group };
    assert_eq!(world.release(key(0)).unwrap_err(), Refusal::NoGroup(key(0)));
    assert_eq!(world.release(key(1)).unwrap_err(), Refusal::NoGroup(key(1)));
    let (group, _told) = world.acquire(session, vec![want(0, 1, WRITE)], Wait::Forever).unwrap();
    world.run_ms(50);
    for _ in 0..2 {
        let mut released = world.release(group).unwrap();
        world.run_ms(50);
        assert_eq!(released.try_recv(), Ok(()), "also the second time");
    }
    world.with(0, |service, now| service.close(now, session)).unwrap();
    assert!(world.with(0, |service, now| service.sessions(now)).is_empty());
}
