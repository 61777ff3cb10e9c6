//! One thing at a time.

use cards_core::NodeId;
use cards_core::rendezvous::RegionId;
use cards_locks::{
    ClientOutput, FenceGate, GroupKey, HoldingState, LockError, LockRange, Mode, SessionId, Wait,
};

use crate::world::*;

/// Nodes that know each other, and one session at each.
fn cluster(nodes: u16, seed: u64) -> (World, Vec<SessionId>) {
    let mut world = World::new(nodes, 1, seed);
    world.run_ms(2_000);
    assert!(world.is_settled());
    let sessions = world.sessions();
    (world, sessions)
}

fn told(world: &World, session: SessionId) -> Vec<ClientOutput> {
    world.outputs.iter().filter(|(s, _)| *s == session).map(|(_, output)| output.clone()).collect()
}

/// What all homes together know of a group.
fn known(world: &World, session: SessionId, group: u64) -> Vec<(RegionId, HoldingState)> {
    let homes = world.nodes.iter().filter_map(|node| node.home.as_ref());
    let mut known: Vec<_> =
        homes.flat_map(|h| h.by_group(GroupKey { session, group })).map(|h| (h.region, h.state)).collect();
    known.sort_unstable_by_key(|(region, _)| *region);
    known
}

#[test]
fn a_group_of_several_homes_is_granted_as_a_whole_and_released_as_a_whole() {
    let (mut world, sessions) = cluster(4, 1);
    let all: Vec<_> = (0..8).map(|i| want(V, i * REGION, i * REGION + 4, Mode::Write)).collect();
    let last = vec![want(V, 7 * REGION, 7 * REGION + 1, Mode::Read)];
    world.acquire(sessions[1], 1, last, Wait::Forever);
    world.run_ms(500);
    world.acquire(sessions[0], 1, all, Wait::Forever);
    world.run_ms(3_000);
    assert_eq!(told(&world, sessions[0]), [], "all but the last part are granted");
    assert!(world.granted(sessions[0], 1).is_none());
    world.release(sessions[1], 1);
    world.run_ms(500);
    assert_eq!(told(&world, sessions[0]), [ClientOutput::Granted { group: 1 }]);
    assert_eq!(known(&world, sessions[0], 1).len(), 8);
    world.release(sessions[0], 1);
    world.run_ms(500);
    assert_eq!(told(&world, sessions[0]).last(), Some(&ClientOutput::Released { group: 1 }));
    assert_eq!(known(&world, sessions[0], 1), []);
}

/// It does not know what was lost before it came; those who were there do, so it need not wait for a term.
#[test]
fn a_node_that_comes_back_grants_at_once() {
    let (mut world, sessions) = cluster(3, 7);
    world.kill(2, u64::MAX);
    world.run_ms(4_000);
    assert!(world.is_settled(), "without it");
    world.start(2, 1);
    world.run_ms(2_000);
    assert!(world.is_settled(), "with it, less than half a term later");
    let all: Vec<_> = (0..8).map(|i| want(V, i * REGION, i * REGION + 4, Mode::Write)).collect();
    world.acquire(sessions[0], 1, all, Wait::Forever);
    world.run_ms(1_000);
    assert_eq!(told(&world, sessions[0]), [ClientOutput::Granted { group: 1 }]);
}

#[test]
fn a_group_that_cannot_be_had_at_once_leaves_nothing_behind() {
    let (mut world, sessions) = cluster(3, 2);
    world.acquire(sessions[0], 1, vec![want(V, 40, 41, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    world.acquire(sessions[1], 1, vec![want(V, 0, 48, Mode::Read)], Wait::Try);
    world.run_ms(1_000);
    let refused = ClientOutput::Refused { group: 1, error: LockError::WouldBlock };
    assert_eq!(told(&world, sessions[1]), [refused]);
    assert_eq!(known(&world, sessions[1], 1), []);
}

/// A writer becomes a reader: readers are let in, writers are not, and so it stays when any one home dies.
#[test]
fn a_group_that_only_reads_lets_other_readers_in_and_keeps_writers_out() {
    for seed in 0..12 {
        let (mut world, sessions) = cluster(4, seed);
        (world.loss_percent, world.repeat_percent) = (10, 10);
        let all = |mode| (0..6).map(|i| want(V, i * REGION, i * REGION + 4, mode)).collect::<Vec<_>>();
        world.acquire(sessions[0], 1, all(Mode::Write), Wait::Forever);
        world.run_ms(2_000);
        let written = world.granted(sessions[0], 1).unwrap();
        world.acquire(sessions[1], 1, all(Mode::Read), Wait::Forever);
        world.run_ms(1_500);
        world.acquire(sessions[2], 1, all(Mode::Write), Wait::Forever);
        world.run_ms(1_000);
        assert_eq!(told(&world, sessions[1]), [], "seed {seed}");
        world.downgrade(sessions[0], 1);
        let read = world.granted(sessions[0], 1).unwrap();
        assert!(read.iter().flat_map(|part| &part.ranges).all(|locked| locked.mode == Mode::Read));
        assert!(read.iter().zip(&written).all(|(read, written)| read.token == written.token));
        if seed % 2 == 0 {
            let delay = world.random.below(200);
            world.run_ms(delay);
            world.kill(3, u64::MAX);
        }
        world.run_ms(6_000);
        assert_eq!(
            told(&world, sessions[0]).last(),
            Some(&ClientOutput::Downgraded { group: 1 }),
            "seed {seed}"
        );
        assert_eq!(told(&world, sessions[1]), [ClientOutput::Granted { group: 1 }], "seed {seed}");
        // The homes know it as their successors do.
        world.kill(3, u64::MAX);
        world.run_ms(6_000);
        assert!((0..2).all(|i| world.granted(sessions[i], 1).is_some()), "seed {seed}");
        assert!(world.granted(sessions[2], 1).is_none(), "seed {seed}");
        world.release(sessions[0], 1);
        world.release(sessions[1], 1);
        world.run_ms(3_000);
        assert!(world.granted(sessions[2], 1).is_some(), "seed {seed}");
        assert_eq!(world.exclusion_violations, 0, "seed {seed}");
    }
}

/// A write that was decided before the downgrade and sent after it: the token is the same, and storage refuses it
/// as soon as a reader has come that was let in.
#[test]
fn storage_refuses_a_late_write_of_a_group_that_only_reads() {
    let (mut world, sessions) = cluster(2, 3);
    world.acquire(sessions[0], 1, vec![want(V, 0, 4, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    world.acquire(sessions[1], 1, vec![want(V, 0, 4, Mode::Read)], Wait::Forever);
    world.downgrade(sessions[0], 1);
    world.run_ms(500);
    let token = |session| world.granted(session, 1).unwrap()[0].token;
    let (writer, reader) = (token(sessions[0]), token(sessions[1]));
    let mut gate = FenceGate::default();
    gate.admit(Mode::Write, writer).unwrap();
    gate.admit(Mode::Read, reader).unwrap();
    gate.admit(Mode::Read, writer).unwrap();
    assert!(gate.admit(Mode::Write, writer).is_err());
}

/// A downgrade that a dying home never heard of reaches the one that takes over.
#[test]
fn a_new_home_hears_of_a_downgrade_that_the_old_one_missed() {
    let (mut world, sessions) = cluster(3, 9);
    let members = world.members();
    let at_two = (0..100).find(|&index| members.home(RegionId { volume: V, index }) == Some(NodeId(2)));
    let start = u64::from(at_two.unwrap()) * REGION;
    world.acquire(sessions[0], 1, vec![want(V, start, start + 4, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    world.acquire(sessions[1], 1, vec![want(V, start, start + 4, Mode::Read)], Wait::Forever);
    world.kill(2, u64::MAX);
    world.downgrade(sessions[0], 1);
    world.run_ms(500);
    assert_eq!(told(&world, sessions[0]), [ClientOutput::Granted { group: 1 }], "nobody knows");
    world.run_ms(3_000);
    assert_eq!(told(&world, sessions[0]).last(), Some(&ClientOutput::Downgraded { group: 1 }));
    assert_eq!(told(&world, sessions[1]), [ClientOutput::Granted { group: 1 }]);
}

/// Its home has not heard that it was released, and hears of the session again before that is over.
#[test]
fn a_session_that_waits_for_what_it_had_itself_gets_it() {
    let mut world = World::new(3, 1, 4);
    world.nodes.iter_mut().for_each(|node| node.clock = (0, 100));
    world.run_ms(2_000);
    let session = world.sessions()[0];
    let members = world.members();
    let at_two = (0..100).find(|&index| members.home(RegionId { volume: V, index }) == Some(NodeId(2)));
    let start = u64::from(at_two.unwrap()) * REGION;
    world.acquire(session, 1, vec![want(V, start, start + 4, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    assert!(world.granted(session, 1).is_some());
    // Longer than the session believes in its lease, and shorter than its home waits for it.
    world.nodes[0].cut_until_ms = world.ms + 3_500;
    world.release(session, 1);
    world.run_ms(3_600);
    assert_eq!(told(&world, session).last(), Some(&ClientOutput::Released { group: 1 }));
    assert_eq!(known(&world, session, 1).len(), 1, "its home does not know");
    world.acquire(session, 2, vec![want(V, start, start + 4, Mode::Write)], Wait::Forever);
    world.run_ms(4_000);
    assert_eq!(told(&world, session).last(), Some(&ClientOutput::Granted { group: 2 }));
}

#[test]
fn queries_tell_who_holds_and_who_waits() {
    let (mut world, sessions) = cluster(2, 3);
    world.acquire(sessions[0], 1, vec![want(V, 3, 6, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    world.acquire(sessions[1], 1, vec![want(V, 5, 8, Mode::Read)], Wait::Forever);
    world.run_ms(500);
    let homes = || world.nodes.iter().filter_map(|node| node.home.as_ref());
    let at = |start, end| -> Vec<_> {
        let range = LockRange::new(start, end).unwrap();
        let found = homes().flat_map(move |h| h.by_range(V, range));
        found.map(|h| (h.key.session, h.state == HoldingState::Waiting)).collect()
    };
    assert_eq!(at(3, 4), [(sessions[0], false)]);
    assert_eq!(at(5, 6), [(sessions[0], false), (sessions[1], true)]);
    assert_eq!(at(9, 10), []);
    let of_session: Vec<_> = homes().flat_map(|h| h.by_session(sessions[1])).collect();
    assert_eq!(of_session.len(), 1);
}

#[test]
fn a_session_that_is_paused_for_longer_than_its_lease_loses_its_groups() {
    let (mut world, sessions) = cluster(3, 4);
    world.acquire(sessions[0], 1, vec![want(V, 0, 48, Mode::Write)], Wait::Forever);
    world.run_ms(500);
    let old = world.granted(sessions[0], 1).unwrap();
    world.acquire(sessions[1], 1, vec![want(V, 0, 48, Mode::Write)], Wait::Forever);
    world.nodes[0].paused_until_ms = world.ms + 20_000;
    world.run_ms(19_000);
    let new = world.granted(sessions[1], 1).unwrap();
    assert!(old.iter().zip(&new).all(|(old, new)| new.token > old.token));
    world.run_ms(3_000);
    assert_eq!(told(&world, sessions[0]).last(), Some(&ClientOutput::Lost { group: 1 }));
    assert_eq!(world.exclusion_violations, 0);
}

/// Records of survivors live through the death of any one node, at any moment, on a lossy network: their
/// sessions never lose them, and the homes know them.
#[test]
fn the_death_of_any_one_node_loses_no_record() {
    for seed in 0..16 {
        let (mut world, sessions) = cluster(3 + (seed % 3) as u16, seed);
        (world.loss_percent, world.repeat_percent) = (5, 5);
        // Time for a take-over in what is left of a session's lease, also with lost messages and a fast clock.
        world.membership = LEASE / 6;
        for &session in &sessions {
            let own = u64::from(session.node.0) * 4;
            let wants =
                (0..4).map(|i| want(V, i * REGION + own % 16, i * REGION + own % 16 + 2, Mode::Write));
            let wants = wants.take(if own < 16 { 4 } else { 0 });
            let mut wants: Vec<_> = wants.collect();
            wants.push(want(W, 0, 90, Mode::Read));
            world.acquire(session, 1, wants, Wait::Forever);
        }
        world.run_ms(3_000);
        // Between settled and settled one may go, whenever that is: here while all are at work.
        let dead = world.random.below(sessions.len() as u64) as usize;
        let delay = world.random.below(1_000);
        world.run_ms(delay);
        world.kill(dead, u64::MAX);
        for step in 0..120 {
            world.run_ms(100);
            for &session in sessions.iter().filter(|s| usize::from(s.node.0) != dead) {
                assert!(world.granted(session, 1).is_some(), "seed {seed}, step {step}: {session:?}");
            }
        }
        assert!(world.is_settled(), "seed {seed}");
        for &session in sessions.iter().filter(|s| usize::from(s.node.0) != dead) {
            let granted = world.granted(session, 1).unwrap();
            let known = known(&world, session, 1);
            let expected: Vec<_> = granted.iter().map(|p| (p.region, HoldingState::Held(p.token))).collect();
            assert_eq!(known, expected, "seed {seed}");
        }
        // What the dead session held is free after its lease.
        assert_eq!(known(&world, sessions[dead], 1), [], "seed {seed}");
        assert_eq!(world.exclusion_violations, 0, "seed {seed}");
    }
}

/// A member comes while another goes: what moves to the new one is not lost on the way.
#[test]
fn a_member_that_comes_takes_over_from_homes_that_live_and_from_copies() {
    for seed in 0..12 {
        let (mut world, sessions) = cluster(4, seed);
        world.kill(3, u64::MAX);
        world.run_ms(6_000);
        assert!(world.is_settled());
        let wants: Vec<_> = (0..12).map(|i| want(V, i * REGION, i * REGION + 1, Mode::Write)).collect();
        world.acquire(sessions[0], 1, wants, Wait::Forever);
        world.run_ms(4_000);
        assert!(world.granted(sessions[0], 1).is_some());
        world.start(3, 1);
        let delay = world.random.below(700);
        world.run_ms(delay);
        world.kill(1 + (seed as usize & 1), u64::MAX);
        for _ in 0..100 {
            world.run_ms(100);
            assert!(world.granted(sessions[0], 1).is_some(), "seed {seed}");
        }
        assert!(world.is_settled(), "seed {seed}");
        assert_eq!(known(&world, sessions[0], 1).len(), 12, "seed {seed}");
    }
}

/// Home and copy gone at once: the new home waits and believes what the survivors say.
#[test]
fn after_two_deaths_sessions_that_renew_keep_what_they_hold() {
    for seed in 0..8 {
        let (mut world, sessions) = cluster(5, seed);
        let wants: Vec<_> = (0..12).map(|i| want(V, i * REGION, i * REGION + 1, Mode::Write)).collect();
        world.acquire(sessions[0], 1, wants.clone(), Wait::Forever);
        world.run_ms(3_000);
        world.acquire(sessions[4], 1, wants, Wait::Forever);
        world.kill(1, u64::MAX);
        world.kill(2, u64::MAX);
        for _ in 0..120 {
            world.run_ms(100);
            assert!(world.granted(sessions[0], 1).is_some(), "seed {seed}");
        }
        assert!(world.is_settled(), "seed {seed}");
        assert_eq!(known(&world, sessions[0], 1).len(), 12, "seed {seed}");
        assert_eq!(world.exclusion_violations, 0, "seed {seed}");
        world.release(sessions[0], 1);
        world.run_ms(3_000);
        assert!(world.granted(sessions[4], 1).is_some(), "seed {seed}");
    }
}

#[test]
fn a_home_that_is_cut_off_grants_nothing_to_its_own_sessions() {
    let (mut world, sessions) = cluster(3, 5);
    world.nodes[0].cut_until_ms = world.ms + 20_000;
    let members = world.members();
    let region = (0..100).map(|index| RegionId { volume: V, index });
    let own = region.filter(|&r| members.home(r) == Some(NodeId(0))).map(|r| u64::from(r.index)).next();
    let start = own.unwrap() * REGION;
    world.acquire(sessions[0], 1, vec![want(V, start, start + 1, Mode::Write)], Wait::Forever);
    world.run_ms(19_000);
    assert_eq!(told(&world, sessions[0]), []);
    world.acquire(sessions[1], 1, vec![want(V, start, start + 1, Mode::Write)], Wait::Forever);
    world.run_ms(900);
    assert_eq!(told(&world, sessions[1]), [ClientOutput::Granted { group: 1 }]);
}

/// The bound on clocks is needed, and the observer sees what it is there to see.
#[test]
fn a_session_whose_clock_is_too_slow_believes_in_what_another_has() {
    let violations = |percent| {
        let mut world = World::new(3, 1, 7);
        for node in &mut world.nodes {
            node.clock = (0, 100);
        }
        world.nodes[0].clock = (0, percent);
        world.run_ms(2_000);
        let sessions = world.sessions();
        world.acquire(sessions[0], 1, vec![want(V, 0, 96, Mode::Write)], Wait::Forever);
        world.run_ms(2_000);
        assert!(world.granted(sessions[0], 1).is_some());
        world.nodes[0].cut_until_ms = u64::MAX;
        world.acquire(sessions[1], 1, vec![want(V, 0, 96, Mode::Write)], Wait::Forever);
        world.run_ms(20_000);
        assert!(world.granted(sessions[1], 1).is_some());
        world.exclusion_violations
    };
    assert_eq!(violations(75), 0);
    assert!(violations(30) > 0);
}

/// Alone, a home has nobody to copy for it: after its death it believes what sessions say, and waits for them.
#[test]
fn after_the_death_of_the_only_member_nothing_is_granted_twice() {
    let (mut world, sessions) = cluster(1, 8);
    world.acquire(sessions[0], 1, vec![want(V, 0, 16, Mode::Write)], Wait::Forever);
    world.run_ms(100);
    assert!(world.granted(sessions[0], 1).is_some());
    world.kill(0, 0);
    world.start(0, 1);
    let session = world.sessions()[0];
    world.acquire(session, 1, vec![want(V, 0, 16, Mode::Write)], Wait::Forever);
    world.run_ms(10_000);
    assert!(world.granted(session, 1).is_some());
    assert_eq!(world.exclusion_violations, 0);
}

/// Writers and readers of one range, all at all times: everybody gets it again and again.
#[test]
fn nobody_starves_under_contention() {
    let (mut world, sessions) = cluster(3, 6);
    let mut turns = vec![0; sessions.len()];
    let mut group = 0;
    for (turn, &session) in sessions.iter().enumerate() {
        group += 1;
        let mode = if turn == 0 { Mode::Write } else { Mode::Read };
        world.acquire(session, group, vec![want(V, 0, 40, mode)], Wait::Forever);
    }
    for _ in 0..3_000 {
        world.tick();
        for (session, output) in std::mem::take(&mut world.outputs) {
            if let ClientOutput::Granted { group: granted } = output {
                let turn = sessions.iter().position(|&s| s == session).unwrap();
                turns[turn] += 1;
                group += 1;
                let mode = if turn == 0 { Mode::Write } else { Mode::Read };
                world.acquire(session, group, vec![want(V, 0, 40, mode)], Wait::Forever);
                world.release(session, granted);
            }
        }
    }
    assert!(turns.iter().all(|&t| t > 20), "{turns:?}");
}
