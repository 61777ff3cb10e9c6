//! Schedules for what random ones seldom meet.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use cards_core::{Duration, NodeId};

use super::media::{SUMMED, UNITS};
use super::world::{Faults, LEASE, MS, NEVER, Node, World};
use crate::group::mistakes::Mistake;
use crate::group::{
    Change, Command, DropCause, Extent, Extents, Group, Marks, Member, Message, Output, State, Token, Work,
};

const QUIET: Faults = Faults {
    loss: 0,
    repeats: 0,
    late: 0,
    register_loss: 0,
    little_room: false,
    confirm: NEVER,
    stalls: false,
};

/// A world in which a primary serves, and its node.
fn serving(seed: u64, columns: usize, mistake: Option<Mistake>) -> (World, usize) {
    let mut world = World::new(seed, columns, QUIET, mistake);
    world.is_calm = true;
    world.run(500 * MS);
    let primary = usize::from(world.register.primary.node.0);
    assert!(world.nodes[primary].serves, "seed {seed}");
    (world, primary)
}

/// Each of two columns serves what it has, and all is judged.
fn each_serves(world: &mut World) {
    for _ in 0..2 {
        world.clients_rest = false;
        world.run(world.now + 3 * LEASE);
        let primary = usize::from(world.register.primary.node.0);
        world.hand_over(primary, 1 - primary);
        world.run(world.now + 3 * LEASE);
    }
    world.clients_rest = true;
    world.run(world.now + 6 * LEASE);
    world.judge_whole();
}

/// In the end somebody serves, and nothing was wrong.
fn goes_on(world: &mut World, seed: u64) {
    world.run(world.now + 60 * LEASE);
    let writes = world.counts.writes;
    world.run(world.now + 10 * LEASE);
    assert_eq!(world.wrong, None, "seed {seed}");
    assert!(world.counts.writes > writes, "seed {seed}: nobody serves, {:?}", world.register);
}

/// The first of some seeds in which the schedule finds the mistake; without the mistake all are well.
fn finds(mistake: Mistake, schedule: impl Fn(u64, Option<Mistake>) -> Option<String>) {
    for seed in 0..40 {
        assert_eq!(schedule(seed, None), None, "seed {seed}");
    }
    assert!((0..40).any(|seed| schedule(seed, Some(mistake)).is_some()), "{mistake:?}");
}

/// Until the column of this node is let in to be filled.
fn until_filled(world: &mut World, node: usize) {
    let until = world.now + 300 * MS;
    let is_filled = |world: &World| {
        let number = world.register.column_at(NodeId(node as u16)).map(usize::from);
        number.is_some_and(|number| matches!(world.register.columns[number].state, State::Fill { .. }))
    };
    while !is_filled(world) && world.now < until {
        world.run(world.now + MS / 10);
    }
}

/// The only witness of the primary's right is started again at once, and does not reach the primary.
#[test]
fn a_promise_outlives_the_process_that_gave_it() {
    finds(Mistake::ForgetPromise, |seed, mistake| {
        let (mut world, primary) = serving(seed, 2, mistake);
        let witness = 1 - primary;
        world.cuts.insert((witness, primary));
        world.register_cuts.insert(primary);
        world.crash(witness, false);
        world.start(witness);
        world.run(900 * MS);
        world.wrong
    });
}

/// The primary's beacons come late to the only witness, whose acknowledgements it still counts.
#[test]
fn nobody_takes_over_while_its_promise_lasts() {
    finds(Mistake::SealWithinPromise, |seed, mistake| {
        let (mut world, primary) = serving(seed, 2, mistake);
        let witness = 1 - primary;
        world.cuts.insert((witness, primary));
        world.cuts.insert((primary, witness));
        world.register_cuts.insert(primary);
        world.run(900 * MS);
        world.wrong
    });
}

/// A column is dropped twice, and comes back from the second absence with the disk that it had before the first.
#[test]
fn an_old_disk_is_filled_whole() {
    finds(Mistake::TrustDisk, |seed, mistake| {
        let (mut world, primary) = serving(seed, 2, mistake);
        let away = 1 - primary;
        let image = world.nodes[away].media.clone();
        for absence in 0..2 {
            world.clients_rest = false;
            world.run(world.now + 60 * MS);
            world.crash(away, false);
            world.run(world.now + 90 * MS);
            world.clients_rest = true;
            world.run(world.now + 60 * MS);
            if world.wrong.is_some() {
                return world.wrong;
            }
            assert!(matches!(world.register.columns[away].state, State::Stale { .. }), "seed {seed}");
            if absence == 1 {
                world.nodes[away].media = image.clone();
                world.nodes[away].media.record.is_lossy = true;
            }
            world.start(away);
            world.run(world.now + 600 * MS);
        }
        world.judge_whole();
        world.wrong
    });
}

/// A column is dropped, and comes back with the disk that it had earlier in the same epoch: what it had confirmed since is gone, and nobody
/// counts it as missed.
fn put_back(mistake: Option<Mistake>, seed: u64, away_is_primary: bool) -> Option<String> {
    let (mut world, primary) = serving(seed, 2, mistake);
    let away = if away_is_primary { primary } else { 1 - primary };
    let image = world.nodes[away].media.clone();
    world.clients_rest = false;
    world.run(world.now + 4 * LEASE);
    world.clients_rest = true;
    world.run(world.now + 2 * LEASE);
    world.crash(away, false);
    world.run(world.now + 6 * LEASE);
    let number = usize::from(world.register.column_at(NodeId(away as u16)).expect("a column"));
    assert!(matches!(world.register.columns[number].state, State::Stale { .. }), "seed {seed}");
    world.nodes[away].media = image;
    world.start(away);
    world.run(world.now + 6 * LEASE);
    world.judge_whole();
    world.wrong
}

#[test]
fn a_disk_that_was_put_back_is_filled_whole() {
    finds(Mistake::IgnoreMarks, |seed, mistake| put_back(mistake, seed, false));
    finds(Mistake::IgnoreMarks, |seed, mistake| put_back(mistake, seed, true));
}

/// All copies end, and one disk is put back to what it was some maps ago, when its column was in sync, too. Its node is alone at first.
#[test]
fn a_disk_that_was_put_back_is_not_what_a_group_goes_on_from() {
    for comes_first in [true, false] {
        finds(Mistake::IgnoreMarks, |seed, mistake| {
            let (mut world, primary) = serving(seed, 2, mistake);
            let (old, sound) = (primary, 1 - primary);
            let image = world.nodes[old].media.clone();
            for _ in 0..2 {
                world.clients_rest = false;
                world.run(world.now + 2 * LEASE);
                let primary = usize::from(world.register.primary.node.0);
                world.hand_over(primary, 1 - primary);
                world.run(world.now + 4 * LEASE);
            }
            world.clients_rest = true;
            world.run(world.now + 2 * LEASE);
            assert_eq!(world.register.in_sync().count(), 2, "seed {seed}");
            [old, sound].into_iter().for_each(|node| world.crash(node, false));
            world.nodes[old].media = image.clone();
            if comes_first {
                world.start(old);
                world.run(world.now + 10 * LEASE);
                world.start(sound);
            } else {
                world.start(sound);
                world.start(old);
            }
            world.run(world.now + 10 * LEASE);
            each_serves(&mut world);
            world.wrong
        });
    }
}

/// Two columns with writes of one map, and of the next one; the disk of one as it was at the first. The world, that node, and the other one.
fn with_image(seed: u64, confirm: u64, mistake: Option<Mistake>) -> (World, usize, usize) {
    let mut world = World::new(seed, 2, Faults { confirm, ..QUIET }, mistake);
    world.is_calm = true;
    world.run(500 * MS);
    let old = usize::from(world.register.primary.node.0);
    let image = world.nodes[old].media.clone();
    world.hand_over(old, 1 - old);
    world.clients_rest = false;
    world.run(world.now + 6 * LEASE);
    world.clients_rest = true;
    world.run(world.now + 2 * LEASE);
    assert_eq!(world.register.in_sync().count(), 2, "seed {seed}");
    [old, 1 - old].into_iter().for_each(|node| world.crash(node, false));
    world.nodes[old].media = image;
    (world, old, 1 - old)
}

/// The disk of one column is put back to what it was before the last map.
#[test]
fn a_disk_is_as_old_as_the_map_that_another_column_has_opened() {
    finds(Mistake::IgnoreMarks, |seed, mistake| {
        let (mut world, old, sound) = with_image(seed, NEVER, mistake);
        [old, sound].into_iter().for_each(|node| world.start(node));
        world.run(world.now + 10 * LEASE);
        each_serves(&mut world);
        world.wrong
    });
}

/// The same, and its node takes over before the other one is there.
#[test]
fn a_primary_whose_disk_was_put_back_finds_that_another_column_has_opened_more() {
    finds(Mistake::IgnoreMarks, |seed, mistake| {
        let (mut world, old, sound) = with_image(seed, NEVER, mistake);
        world.start(old);
        let until = world.now + 10 * LEASE;
        while world.register.primary.node != NodeId(old as u16) && world.now < until {
            world.run(world.now + MS / 10);
        }
        world.start(sound);
        world.run(world.now + 10 * LEASE);
        each_serves(&mut world);
        world.wrong
    });
}

/// The same, and its node is alone at first: the register was told that the map was opened.
#[test]
fn a_disk_is_as_old_as_the_map_that_was_opened_last() {
    finds(Mistake::IgnoreMarks, |seed, mistake| {
        let (mut world, old, sound) = with_image(seed, 2 * LEASE, mistake);
        world.start(old);
        world.run(world.now + 10 * LEASE);
        world.start(sound);
        world.run(world.now + 10 * LEASE);
        each_serves(&mut world);
        world.wrong
    });
}

/// The same, and the register was not told yet: the image is served, and what the other one has beyond it is replaced as well.
#[test]
fn columns_are_the_same_though_an_image_is_served() {
    for seed in 0..40 {
        let (mut world, old, other) = with_image(seed, NEVER, None);
        world.start(old);
        world.run(world.now + 10 * LEASE);
        assert!(world.nodes[old].serves, "seed {seed}");
        world.start(other);
        until_filled(&mut world, other);
        let number = usize::from(world.register.column_at(NodeId(other as u16)).expect("a column"));
        assert_eq!(world.register.columns[number].state, State::Fill { since: 0 }, "seed {seed}");
        world.run(world.now + 10 * LEASE);
        assert_eq!(world.nodes[old].media.current, world.nodes[other].media.current, "seed {seed}");
    }
}

/// What a process of a column has said as it ended comes when the next one was sealed.
#[test]
fn a_late_word_of_a_process_that_ended_bars_no_other_one() {
    for seed in 0..80 {
        let (mut world, primary) = serving(seed, 2, None);
        let other = 1 - primary;
        world.crash(primary, true);
        world.crash(other, false);
        world.start(primary);
        world.run(world.now + 10 * LEASE);
        let term = world.register.term;
        world.start(other);
        let until = world.now + 10 * LEASE;
        while world.nodes[other].media.record.term() != term && world.now < until {
            world.run(world.now + MS / 10);
        }
        let message = Box::new(Message::Failed { term });
        let after = seed % 10 * MS / 2;
        world.at(after, super::world::Event::Message { to: primary, from: other, message });
        world.run(world.now + 20 * LEASE);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(
            world.register.is_whole() && world.nodes.iter().any(|node| node.serves),
            "seed {seed}: {:?}",
            world.register
        );
    }
}

/// The process that is the primary is a member of a later time than its first one when a person forces its column.
#[test]
fn a_column_of_a_node_that_has_joined_again_is_forced() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2, None);
        [primary, 1 - primary].into_iter().for_each(|node| world.crash(node, true));
        world.start(primary);
        world.run(world.now + 10 * LEASE);
        let by = Member { node: NodeId(primary as u16), incarnation: world.nodes[primary].incarnation + 100 };
        let forced = world.register.forced(by).expect("it has a column");
        world.register = forced.clone();
        let message = Box::new(Message::HandOver(Box::new(forced)));
        world.at(0, super::world::Event::Message { to: primary, from: primary, message });
        world.run(world.now + 10 * LEASE);
        assert!(world.nodes[primary].serves, "seed {seed}: {:?}", world.register);
    }
}

/// All machines have lost their power, and one disk was put back besides: the group goes on without it.
#[test]
fn who_may_have_lost_something_does_not_wait_for_an_old_disk() {
    for comes_first in [true, false] {
        for seed in 0..40 {
            let (mut world, old, other) = with_image(seed, 2 * LEASE, None);
            [old, other].into_iter().for_each(|node| world.nodes[node].media.record.is_lossy = true);
            world.start(if comes_first { old } else { other });
            world.run(world.now + 10 * LEASE);
            world.start(if comes_first { other } else { old });
            world.run(world.now + 20 * LEASE);
            world.judge_whole();
            assert_eq!(world.wrong, None, "seed {seed}");
            assert!(
                world.nodes[other].serves && world.register.is_whole(),
                "seed {seed}: {:?}",
                world.register
            );
        }
    }
}

/// All machines have lost their power, and only one is started: it waits for the other one, until a person gives that up. It is the primary all the
/// time.
#[test]
fn a_column_in_sync_that_waits_for_another_one_is_forced() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2, None);
        world.run(world.now + 2 * LEASE);
        [primary, 1 - primary].into_iter().for_each(|node| world.crash(node, true));
        world.start(primary);
        world.run(world.now + 10 * LEASE);
        let awaited = world.awaited(primary);
        assert_eq!(
            awaited,
            [world.register.column_at(NodeId(1 - primary as u16)).expect("a column")],
            "seed {seed}"
        );
        assert!(!world.nodes[primary].serves, "seed {seed}");
        world.force(primary);
        world.run(world.now + 10 * LEASE);
        assert!(world.nodes[primary].serves, "seed {seed}: {:?}", world.register);
        world.start(1 - primary);
        world.run(world.now + 10 * LEASE);
        each_serves(&mut world);
        assert!(world.register.is_whole() && world.register.forced, "seed {seed}: {:?}", world.register);
    }
}

/// All disks are put back to what they were some maps ago: nobody serves, whoever is started again, before a person has chosen one. All that follows is
/// from that one.
#[test]
fn disks_that_were_all_put_back_are_served_only_by_force() {
    for copies in [1, 2, 3] {
        finds(Mistake::IgnoreMarks, |seed, mistake| {
            let (mut world, _) = serving(seed, copies, mistake);
            let images: Vec<_> = world.nodes.iter().map(|node| node.media.clone()).collect();
            for _ in 0..3 {
                world.clients_rest = false;
                world.run(world.now + 2 * LEASE);
                let primary = usize::from(world.register.primary.node.0);
                if copies == 1 {
                    world.crash(primary, false);
                    world.start(primary);
                } else {
                    world.hand_over(primary, (primary + 1) % copies);
                }
                world.run(world.now + 4 * LEASE);
            }
            world.clients_rest = true;
            world.run(world.now + 4 * LEASE);
            assert_eq!(world.register.in_sync().count(), copies, "seed {seed}");
            (0..copies).for_each(|node| world.crash(node, false));
            let put_back = world.nodes.iter_mut().zip(images);
            put_back.for_each(|(node, image)| node.media = image);
            (0..copies).for_each(|node| world.start(node));
            let again = seed as usize % copies;
            for _ in 0..2 {
                world.run(world.now + 10 * LEASE);
                if let Some(node) = (0..copies).find(|node| world.nodes[*node].serves) {
                    return Some(format!("n{node} serves an old image: {:?}", world.register));
                }
                world.crash(again, false);
                world.start(again);
            }
            world.run(world.now + 4 * LEASE);
            let map = world.register.clone();
            for node in &world.nodes {
                let group = node.group.as_ref().expect("it runs");
                let epoch = group.put_back(&map).expect("it was put back");
                assert!(epoch < map.opened, "seed {seed}");
            }
            world.force(again);
            world.run(world.now + 10 * LEASE);
            world.clients_rest = false;
            world.run(world.now + 6 * LEASE);
            world.clients_rest = true;
            world.run(world.now + 6 * LEASE);
            assert!(world.wrong.is_some() || world.nodes.iter().any(|node| node.serves), "seed {seed}");
            let map = world.register.clone();
            let is_told = |node: &Node| node.group.as_ref().is_some_and(|g| g.put_back(&map).is_some());
            assert!(!world.nodes.iter().any(is_told), "seed {seed}");
            world.judge_whole();
            world.wrong
        });
    }
}

/// The group is handed over while clients have copies of the last primary's.
#[test]
fn copies_of_the_last_primary_are_void_before_the_next_one_writes() {
    finds(Mistake::SkipGrace, |seed, mistake| {
        let (mut world, _) = serving(seed, 2, mistake);
        for _ in 0..6 {
            let primary = usize::from(world.register.primary.node.0);
            world.hand_over(primary, 1 - primary);
            world.run(world.now + 250 * MS);
        }
        world.wrong
    });
}

/// Handed over, the group is served by the other node in a fraction of a lease.
#[test]
fn a_group_that_is_handed_over_goes_on_at_once() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 3, None);
        world.hand_over(primary, (primary + 1) % 3);
        world.run(world.now + 100 * MS);
        assert_eq!(world.wrong, None);
        assert!(world.nodes[(primary + 1) % 3].serves, "seed {seed}");
    }
}

/// A primary that ends leaves the group at once, though its column is gone with it; one of another column is not waited for.
#[test]
fn nobody_waits_for_a_process_that_said_it_ends() {
    for seed in 0..40 {
        let copies = 2 + seed as usize % 2;
        let (mut world, primary) = serving(seed, copies, None);
        let leaves = if seed % 4 < 2 { primary } else { (primary + 1) % copies };
        let epoch = world.register.term.epoch;
        world.leave(leaves, 3);
        world.run(world.now + 30 * MS);
        world.crash(leaves, false);
        let writes = world.counts.writes;
        world.run(world.now + 90 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        let serving = usize::from(world.register.primary.node.0);
        assert!(serving != leaves && world.nodes[serving].serves, "seed {seed}");
        assert_eq!(world.register.in_sync().count(), copies - 1, "seed {seed}");
        assert_eq!(world.register.term.epoch, epoch + 1, "seed {seed}: one change of the map");
        // Cards of the last primary may be valid for a grace; those of a primary that goes on are.
        assert!(leaves == primary || world.counts.writes > writes, "seed {seed}");
        world.run(world.now + 900 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.writes > writes, "seed {seed}");
    }
}

/// Both processes of two columns end at once, and the primary's leaves the group to the other one: that one's disk lacks nothing.
#[test]
fn a_column_that_ends_as_it_becomes_the_primarys_is_not_taken_for_an_image() {
    let mut handed_over = 0;
    for seed in 0..10 {
        let (mut world, primary) = serving(seed, 2, None);
        let other = 1 - primary;
        world.leave(primary, 100);
        world.with(other, |group, now| group.leave(now, None));
        world.run(world.now + 3 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        handed_over += usize::from(usize::from(world.register.primary.node.0) == other);
        world.with(other, |group, _| assert!(!group.is_outdated(), "seed {seed}"));
    }
    assert!(handed_over > 0, "the other one was dropped each time");
}

/// The primary is gone for good: another node serves, and writes, mostly the next column's.
#[test]
fn the_death_of_a_primary_is_a_pause() {
    let mut next = 0;
    for seed in 0..40 {
        let copies = 2 + seed as usize % 2;
        let (mut world, primary) = serving(seed, copies, None);
        world.dead = Some(primary);
        world.crash(primary, true);
        let (begun, writes) = (world.now, world.counts.writes);
        while world.counts.writes == writes && world.wrong.is_none() {
            world.run(world.now + 5 * MS);
        }
        // A promise, sealing, dropping the dead column, and the grace of cards; all by slow clocks.
        assert_eq!(world.wrong, None, "seed {seed}");
        let pause = (world.now - begun) / MS;
        assert!(pause < 730, "seed {seed}: {pause} ms");
        let serving = usize::from(world.register.primary.node.0);
        next += usize::from(serving == (primary + 1) % copies);
    }
    assert!(next > 32, "the others wait longer, if clocks run alike: {next}");
}

/// A column whose disk failed is dropped once, and not let in and dropped again and again: its process is to end first.
#[test]
fn a_column_whose_disk_failed_stays_away() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        let (other, before) = ((primary + 1) % 2, world.register.term.epoch);
        world.nodes[other].disk_fails = true;
        world.run(world.now + 20 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert_eq!(world.register.term.epoch, before + 1, "seed {seed}");
    }
}

/// The primary has lost power, and the disk of the only other column in sync has failed: what that one has may be all there is, so it is not
/// dropped. The map changes seldom meanwhile, because each change is a vote of the keepers.
#[test]
fn a_column_that_may_not_be_dropped_is_not_asked_without_pause() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        let other = 1 - primary;
        world.clients_rest = true;
        world.run(world.now + 50 * MS);
        world.nodes[other].disk_fails = true;
        world.crash(primary, true);
        world.start(primary);
        world.run(world.now + 5 * LEASE);
        let before = world.register.term.epoch;
        world.run(world.now + 10 * LEASE);
        let terms = world.register.term.epoch - before;
        assert_eq!(world.wrong, None, "seed {seed}");
        // By the fastest clock.
        assert!(terms <= 14, "seed {seed}: {terms} terms in 10 leases");
    }
}

/// Cards of the primary before the last one may be in use at the last one's node, if that has won its map and stood still before it knew: until
/// they have ended, its word is waited for.
#[test]
fn a_primary_that_was_it_for_long_is_outlived_and_one_that_was_not_is_not() {
    let grace = LEASE * 10;
    for seed in 0..20 {
        for (time, is_outlived) in [(LEASE * 3, false), (LEASE * 20, true)] {
            let (mut world, first) = serving(seed, 3, None);
            world.timing.grace = Duration::from_nanos(grace * 1000);
            for node in 0..3 {
                world.crash(node, false);
                world.start(node);
            }
            world.run(world.now + LEASE * 30);
            let primary = |world: &World| usize::from(world.register.primary.node.0);
            let die = |world: &mut World| {
                let last = primary(world);
                world.crash(last, true);
                world.dead = Some(last);
                while primary(world) == last && world.wrong.is_none() {
                    world.run(world.now + MS);
                }
                last
            };
            // One dies and comes back, so that the next one is it for a time that is known.
            let last = die(&mut world);
            world.dead = None;
            world.start(last);
            world.run(world.now + time);
            assert_eq!(world.wrong, None, "seed {seed} {first}");
            let last = die(&mut world);
            world.run(world.now + LEASE);
            let group = world.nodes[primary(&world)].group.as_ref().expect("it runs");
            let expected = is_outlived.then_some(NodeId(last as u16));
            assert_eq!(group.outlived(), expected, "seed {seed}, after {time}");
        }
    }
}

/// A primary that begins anew follows itself: the node that it has outlived before may have a card of its own first term, and is waited for.
#[test]
fn a_primary_that_begins_anew_has_outlived_nobody() {
    let mut anew = 0;
    for seed in 0..20 {
        let faults = Faults { little_room: true, ..QUIET };
        let mut world = World::new(seed, 2, faults, None);
        world.is_calm = true;
        world.run(20 * LEASE);
        let last = usize::from(world.register.primary.node.0);
        let next = 1 - last;
        world.crash(last, true);
        world.run(world.now + 10 * LEASE);
        let since = world.register.since;
        let outlived = |world: &World| world.nodes[next].group.as_ref().and_then(Group::outlived);
        assert_eq!(outlived(&world), Some(NodeId(last as u16)), "seed {seed}");
        // Its column is let in: the next term finds that no memory has room for all commands.
        world.start(last);
        world.run(world.now + 10 * LEASE);
        assert_eq!((world.wrong.clone(), world.register.primary.node), (None, NodeId(next as u16)));
        if world.register.since > since {
            anew += 1;
            assert_eq!(outlived(&world), None, "seed {seed}");
        }
    }
    assert!(anew > 0, "none has begun anew");
}

/// A primary that is cut off from the next one hears of it from the register, and ends its term by that alone.
#[test]
fn a_primary_that_finds_another_one_in_the_register_steps_down() {
    for seed in 0..20 {
        let (mut world, last) = serving(seed, 2, None);
        let next = 1 - last;
        world.cuts.extend([(last, next), (next, last)]);
        world.register_cuts.insert(last);
        world.run(world.now + LEASE * 10);
        let leads =
            |world: &World| world.nodes[last].group.as_ref().is_some_and(|group| group.map().is_some());
        assert_eq!((world.register.primary.node, leads(&world)), (NodeId(next as u16), true), "seed {seed}");
        world.register_cuts.clear();
        world.run(world.now + LEASE * 5);
        assert!(world.wrong.is_none() && !leads(&world), "seed {seed}");
    }
}

/// A node whose last claim outlived another one was handed the group since: that one has been the primary meanwhile, and its word is waited for.
#[test]
fn a_primary_that_was_handed_the_group_has_outlived_nobody() {
    for seed in 0..20 {
        let (mut world, last) = serving(seed, 2, None);
        let next = 1 - last;
        world.run(world.now + LEASE * 20);
        world.crash(last, false);
        world.run(world.now + LEASE * 10);
        let outlived = |world: &World| world.nodes[next].group.as_ref().and_then(Group::outlived);
        assert_eq!(outlived(&world), Some(NodeId(last as u16)), "seed {seed}");
        world.start(last);
        world.run(world.now + LEASE * 10);
        for (from, to) in [(next, last), (last, next)] {
            world.hand_over(from, to);
            world.run(world.now + LEASE * 5);
            assert!(world.wrong.is_none() && world.nodes[to].serves, "seed {seed}");
        }
        assert_eq!(outlived(&world), None, "seed {seed}");
    }
}

/// The register's nodes tell all of its maps, and may tell the primary of its own before they answer it.
#[test]
fn a_claim_that_is_heard_of_before_the_register_answers_is_the_same_claim() {
    for seed in 0..40 {
        let (mut world, last) = serving(seed, 2, None);
        world.run(world.now + LEASE * 20);
        world.crash(last, true);
        world.dead = Some(last);
        let next = 1 - last;
        while world.register.primary.node != NodeId(next as u16) && world.wrong.is_none() {
            world.run(world.now + MS / 10);
        }
        let map = Box::new(world.register.clone());
        world.with(next, |group, now| group.receive(now, NodeId(next as u16), Message::HandOver(map)));
        world.run(world.now + LEASE * 20);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes[next].serves, "seed {seed}");
        let group = world.nodes[next].group.as_ref().expect("it runs");
        assert_eq!(group.outlived(), Some(NodeId(last as u16)), "seed {seed}");
    }
}

/// A column's own claim came too late, and the register does not answer it for long: what seals it tells it that it is not the primary.
#[test]
fn a_column_that_claimed_in_vain_and_hears_nothing_of_the_register_stays_in_sync() {
    for seed in 0..40 {
        let (mut world, last) = serving(seed, 3, None);
        world.run(world.now + LEASE * 20);
        let others = [(last + 1) % 3, (last + 2) % 3];
        world.crash(last, true);
        world.dead = Some(last);
        let claims = |world: &World, node: usize| {
            world.nodes[node].group.as_ref().is_some_and(|group| group.column.claims.is_some())
        };
        while !others.iter().any(|&node| claims(&world, node)) && world.wrong.is_none() {
            world.run(world.now + MS / 10);
        }
        let late = *others.iter().find(|&&node| claims(&world, node)).expect("it claims");
        let next = 3 - last - late;
        world.register_cuts.insert(late);
        world.run(world.now + LEASE * 20);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes[next].serves, "seed {seed}");
        let column = usize::from(world.register.column_at(NodeId(late as u16)).expect("a column"));
        assert_eq!(world.register.columns[column].state, State::Sync, "seed {seed}");
    }
}

/// What was written while a column was away is copied, and nothing else.
#[test]
fn a_short_absence_is_a_short_copy() {
    let mut all = 0;
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2, None);
        let away = 1 - primary;
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        world.crash(away, false);
        world.run(world.now + 120 * MS);
        world.clients_rest = false;
        world.run(world.now + 15 * MS);
        world.clients_rest = true;
        world.run(world.now + 20 * MS);
        // What has one checksum is copied as a whole.
        let count = |set: [bool; UNITS]| {
            (SUMMED * set.chunks(SUMMED).filter(|summed| summed.contains(&true)).count()) as u64
        };
        let missed = count(world.nodes[primary].media.missed);
        let dirty = count(world.nodes[away].media.dirty);
        world.counts.copied = 0;
        world.start(away);
        world.run(world.now + 600 * MS);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.copied <= missed + dirty, "seed {seed}: {} copied", world.counts.copied);
        assert!(world.nodes[primary].media.missed.iter().all(|missed| !missed), "seed {seed}");
        all += world.counts.copied;
    }
    assert!(0 < all && all < 40 * UNITS as u64, "{all} units copied");
}

/// A fill that is interrupted does not copy again what it has told: the column ends when it has got a part.
#[test]
fn a_fill_that_is_interrupted_goes_on() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2, None);
        let away = 1 - primary;
        world.crash(away, false);
        world.run(world.now + 300 * MS);
        world.clients_rest = true;
        world.run(world.now + 20 * MS);
        let missed =
            |world: &World| world.nodes[primary].media.missed.iter().filter(|missed| **missed).count();
        let all = missed(&world);
        world.start(away);
        while world.wrong.is_none() && missed(&world) == all && !world.register.is_whole() {
            world.run(world.now + MS / 10);
        }
        world.crash(away, false);
        world.run(world.now + 120 * MS);
        (before, after) = (before + all, after + missed(&world));
        world.counts.copied = 0;
        let dirty = world.nodes[away].media.dirty.iter().filter(|dirty| **dirty).count();
        let most = (missed(&world) + dirty) as u64;
        world.start(away);
        world.run(world.now + 600 * MS);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.copied <= most.next_multiple_of(SUMMED as u64), "seed {seed}");
    }
    assert!(4 * after < 3 * before, "{after} of {before} units were missed after half a fill");
}

/// What was said of a range before it was written once more is void at a column that has the later write.
#[test]
fn what_is_written_later_stays_missed() {
    finds(Mistake::ClearOvertaken, |seed, mistake| {
        let (mut world, primary) = serving(seed, 3, mistake);
        let (away, other) = ((primary + 1) % 3, (primary + 2) % 3);
        world.crash(away, false);
        world.run(world.now + 300 * MS);
        world.clients_rest = true;
        world.run(world.now + 20 * MS);
        let term = world.register.term;
        let told = |unit| {
            let unit = Extent { offset: unit as u64, length: 1 };
            Message::CaughtUp { term, number: 0, extents: Box::new([unit].into_iter().collect::<Extents>()) }
        };
        for unit in 0..UNITS {
            world.with(other, |group, now| group.receive(now, NodeId(primary as u16), told(unit)));
        }
        world.run(world.now + 5 * MS);
        world.wrong
    });
}

/// Its disk is what it was before it was dropped, and let in again: the primary that has seen what it had counted then is gone.
#[test]
fn a_disk_that_is_put_back_while_it_is_filled_is_filled_whole() {
    finds(Mistake::FillPutBack, |seed, mistake| {
        let (mut world, primary) = serving(seed, 2, mistake);
        let other = 1 - primary;
        // Nothing is dirty in the image.
        world.clients_rest = true;
        world.run(world.now + 600 * MS);
        let image = world.nodes[other].media.clone();
        world.clients_rest = false;
        world.run(world.now + 300 * MS);
        world.clients_rest = true;
        world.run(world.now + 600 * MS);
        world.crash(other, false);
        world.run(world.now + 300 * MS);
        world.start(other);
        until_filled(&mut world, other);
        world.crash(primary, false);
        world.crash(other, false);
        world.nodes[other].media = image;
        world.start(primary);
        world.start(other);
        world.run(world.now + 900 * MS);
        world.judge_whole();
        world.wrong
    });
}

/// The register is silent about the map that admits a column, which is cut off meanwhile: when the old map is heard of again, the column is given up
/// while writes wait for it alone.
#[test]
fn what_a_column_lacks_that_is_given_up_stays_missed() {
    finds(Mistake::TellGivenUp, |seed, mistake| {
        let (mut world, primary) = serving(seed, 2, mistake);
        let other = 1 - primary;
        world.crash(other, false);
        world.run(world.now + 300 * MS);
        world.clients_rest = true;
        world.run(world.now + 60 * MS);
        world.start(other);
        until_filled(&mut world, other);
        world.run(world.now + 6 * MS);
        world.register_cuts.insert(primary);
        world.run(world.now + 100 * MS);
        world.clients_rest = false;
        world.run(world.now + 60 * MS);
        world.cuts.extend([(other, primary), (primary, other)]);
        world.run(world.now + 100 * MS);
        world.register_cuts.remove(&primary);
        world.run(world.now + 60 * MS);
        world.clients_rest = true;
        world.run(world.now + 300 * MS);
        world.cuts.clear();
        world.run(world.now + 900 * MS);
        world.judge_whole();
        world.wrong
    });
}

/// Another node's column takes a column's place when it is filled, and outlives the first one.
#[test]
fn a_disk_that_replaces_another_one_is_filled() {
    for seed in 0..20 {
        let mut world = World::with_spare(seed, 3, 1, QUIET, None);
        world.is_calm = true;
        world.run(500 * MS);
        let primary = usize::from(world.register.primary.node.0);
        let other = 1 - primary;
        world.replace(other as u8, 2);
        world.run(world.now + 600 * MS);
        let of = |column: usize| world.register.columns[column].state;
        assert_eq!((of(other), of(2)), (State::None, State::Sync), "seed {seed}");
        world.judge_whole();
        world.dead = Some(primary);
        world.crash(primary, true);
        let writes = world.counts.writes;
        world.run(world.now + 900 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert_eq!(world.register.primary.node, NodeId(2));
        assert!(world.counts.writes > writes, "seed {seed}");
    }
}

/// The last column in sync is gone. A person forces the stale one, and what comes back is filled from it.
#[test]
fn a_stale_column_serves_only_when_it_is_forced() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        let other = 1 - primary;
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        world.crash(other, false);
        world.run(world.now + 200 * MS);
        world.crash(primary, false);
        world.start(other);
        world.clients_rest = false;
        let writes = world.counts.writes;
        world.run(world.now + 900 * MS);
        assert_eq!(world.counts.writes, writes, "seed {seed}");
        let by = Member { node: NodeId(other as u16), incarnation: world.nodes[other].incarnation };
        world.register = world.register.forced(by).unwrap();
        world.run(world.now + 900 * MS);
        assert!(world.counts.writes > writes, "seed {seed}");
        world.start(primary);
        world.run(world.now + 1200 * MS);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
        let copied = world.counts.copied;
        assert!(copied >= UNITS as u64, "seed {seed}: {copied}");
    }
}

/// The node to which a group was left alone has not heard of it when a person forces the other column. The word that it was left to comes later.
#[test]
fn a_hand_over_that_comes_after_another_column_was_forced_is_void() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        let heir = 1 - primary;
        world.clients_rest = true;
        world.run(world.now + 50 * MS);
        let member = |world: &World, node: usize| Member {
            node: NodeId(node as u16),
            incarnation: world.nodes[node].incarnation,
        };
        let (by, to) = (member(&world, primary), member(&world, heir));
        let left = world.register.left_to(by, to, Marks(0)).unwrap();
        let forced = left.forced(by).unwrap();
        world.register = forced.clone();
        world.with(heir, |group, now| group.overtaken(now, forced.term));
        world.with(primary, |group, now| {
            group.overtaken(now, left.term);
            group.receive(now, by.node, Message::HandOver(Box::new(forced)));
        });
        world.with(heir, |group, now| group.receive(now, by.node, Message::HandOver(Box::new(left))));
        world.run(world.now + 10 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(!world.nodes[heir].serves && world.nodes[primary].serves, "seed {seed}");
    }
}

/// What rots at one column is written anew from another one, and costs no column its place.
#[test]
fn what_rots_at_one_column_is_repaired() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2 + seed as usize % 2, None);
        let other = (primary + 1) % world.nodes.len();
        let epoch = world.register.term.epoch;
        world.rots(primary, 0);
        world.rots(other, 3);
        world.scrub();
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes.iter().all(|node| node.media.rotten == [false; UNITS]), "seed {seed}");
        assert_eq!(world.register.term.epoch, epoch, "seed {seed}");
    }
}

/// What rots at all columns fails, there only, and clients heal it.
#[test]
fn what_rots_at_all_columns_fails_until_it_is_written_anew() {
    let mut unreadable = 0;
    for seed in 0..40 {
        let (mut world, _) = serving(seed, 2, None);
        let epoch = world.register.term.epoch;
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        (0..2).for_each(|node| world.rots(node, 2));
        world.scrub();
        assert_eq!((world.wrong.clone(), world.counts.unrepaired), (None, 2), "seed {seed}");
        world.clients_rest = false;
        world.run(world.now + 300 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes.iter().all(|node| node.media.rotten == [false; UNITS]), "seed {seed}");
        assert_eq!(world.register.term.epoch, epoch, "seed {seed}");
        unreadable += world.counts.unreadable;
    }
    assert!(unreadable > 0, "no client has met it");
}

/// A unit is lost at all columns, and the next one at one of them only.
#[test]
fn what_is_behind_a_unit_that_no_column_has_is_repaired_all_the_same() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        (0..2).for_each(|node| world.rots(node, 2));
        world.rots(seed as usize % 2, 4);
        let extent = Extent { offset: 2, length: 4 };
        world.with(primary, |group, now| group.command(now, Token(1 << 40), Command::Verify { extent }));
        world.run(world.now + 100 * MS);
        let is_rotten = world.nodes.iter().any(|node| node.media.rotten[4]);
        assert_eq!((is_rotten, world.counts.unrepaired), (false, 2), "seed {seed}");
    }
}

/// A write of parts of two units finds one damaged at each column: each has what the other lacks.
#[test]
fn what_rots_here_at_one_column_and_there_at_another_fails_no_write() {
    finds(Mistake::FailAtOnce, |seed, mistake| {
        let (mut world, _) = serving(seed, 2 + seed as usize % 2, mistake);
        let writes = world.counts.writes;
        for _ in 0..8 {
            rots_crosswise(&mut world);
            world.run(world.now + 40 * MS);
        }
        if world.wrong.is_none() {
            assert_eq!(world.counts.unreadable, 0, "seed {seed}");
            assert!(world.counts.writes > writes, "seed {seed}");
            world.scrub();
        }
        world.wrong
    });
}

/// A unit rots at one column, and the next one at the others. A write that is open is done at some of them, or begins once more: what rots then
/// may cost it, or a column.
fn rots_crosswise(world: &mut World) {
    world.clients_rest = true;
    world.run(world.now + 40 * MS);
    world.rots(0, 0);
    (1..world.nodes.len()).for_each(|node| world.rots(node, 2));
    world.clients_rest = false;
}

/// A write has to read two units. It is done at one column, and rots there at once: each unit is damaged somewhere, and none everywhere.
fn rots_when_done(world: &mut World, doer: usize, is_same: bool) {
    let lacks = if is_same { [0, 0] } else { [0, 2] };
    (0..2).for_each(|other| world.rots((doer + 1 + other) % 3, lacks[other]));
    let primary = usize::from(world.register.primary.node.0);
    let extent = Extent { offset: 1, length: 2 };
    let write = Command::Write { extent, payload: [7, 8].into(), origin: None };
    world.with(primary, |group, now| group.command(now, Token(1 << 40), write));
    let until = world.now + 100 * MS;
    while world.nodes[doer].media.current[1] != 7 && world.now < until {
        world.run(world.now + MS / 50);
    }
    assert!(world.now < until, "it is not done");
    let rots: &[usize] = if is_same { &[2] } else { &[0, 2] };
    rots.iter().for_each(|unit| world.rots(doer, *unit));
}

/// Nobody has all units of a write, and each unit is somewhere: no column loses its place.
#[test]
fn what_rots_in_different_units_of_a_write_costs_no_column_its_place() {
    for seed in 0..60 {
        let (mut world, _) = serving(seed, 3, None);
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        let epoch = world.register.term.epoch;
        rots_when_done(&mut world, seed as usize % 3, seed % 2 == 0);
        world.run(world.now + 200 * MS);
        assert_eq!((&world.wrong, world.register.term.epoch), (&None, epoch), "seed {seed}");
        let all = world.nodes.iter().map(|node| &node.media.current[1..3]);
        assert!(all.into_iter().all(|values| *values == [7, 8]), "seed {seed}");
        world.scrub();
        assert_eq!((&world.wrong, world.register.term.epoch), (&None, epoch), "seed {seed}");
        assert!(world.nodes.iter().all(|node| node.media.rotten == [false; UNITS]), "seed {seed}");
    }
}

/// Clients write, what was just done rots, and some node dies while columns are mended unit by unit.
#[test]
fn a_command_that_is_mended_unit_by_unit_is_not_done_twice_whoever_dies_meanwhile() {
    let mut repaired = 0;
    for seed in 0..120 {
        let (mut world, primary) = serving(seed, 3, None);
        let dies = (primary + seed as usize % 3) % 3;
        for _ in 0..3 {
            world.clients_rest = true;
            world.run(world.now + 60 * MS);
            let doer = seed as usize / 3 % 3;
            let before = world.nodes[doer].media.current;
            (0..2).for_each(|other| world.rots((doer + 1 + other) % 3, 0));
            world.clients_rest = false;
            let until = world.now + 100 * MS;
            while world.nodes[doer].media.current[..4] == before[..4] && world.now < until {
                world.run(world.now + MS / 20);
            }
            world.rots(doer, 2);
            world.run(world.now + seed / 9 % 12 * MS / 2);
            world.crash(dies, false);
            world.run(world.now + 150 * MS);
            world.start(dies);
            world.run(world.now + 600 * MS);
        }
        world.clients_rest = false;
        world.run(world.now + 1000 * MS);
        world.judge_end();
        world.scrub();
        assert_eq!(world.wrong, None, "seed {seed}");
        repaired += world.counts.repaired;
    }
    assert!(repaired > 0);
}

/// The same, and the primary dies or leaves, or a column leaves or comes back, while that is compared.
#[test]
fn a_write_that_begins_once_more_loses_nothing_whatever_happens_meanwhile() {
    for seed in 0..160 {
        let (mut world, primary) = serving(seed, 3, None);
        let other = (primary + 1) % 3;
        if seed % 4 == 3 {
            world.crash(other, false);
            world.run(world.now + 60 * MS);
        }
        rots_crosswise(&mut world);
        world.run(world.now + (2 + seed / 4 % 10) * MS);
        match seed % 4 {
            0 => world.crash(primary, false),
            1 => world.leave(primary, 3),
            2 => world.leave(other, 3),
            _ => world.start(other),
        }
        world.run(world.now + 200 * MS);
        for node in 0..3 {
            if world.nodes[node].group.is_none() {
                world.start(node);
            }
        }
        world.run(world.now + 2000 * MS);
        world.judge_end();
        world.scrub();
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}

/// The one column in sync has rotted where another one has missed writes: that one is filled with the rest, and is in sync only when clients have
/// written this anew.
#[test]
fn a_column_is_not_in_sync_without_what_nobody_has() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2, None);
        let away = 1 - primary;
        world.crash(away, false);
        world.run(world.now + 300 * MS);
        world.clients_rest = true;
        world.run(world.now + 50 * MS);
        let missed = world.nodes[primary].media.missed.iter().position(|missed| *missed);
        world.rots(primary, missed.expect("something was written"));
        world.start(away);
        world.run(world.now + 600 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(matches!(world.register.columns[away].state, State::Fill { .. }), "seed {seed}");
        world.clients_rest = false;
        world.run(world.now + 600 * MS);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}

/// Acknowledgements of beacons that a process sent when it was the primary before give it no right when it is so again: the columns have
/// promised nothing since.
#[test]
fn late_acknowledgements_of_an_earlier_time_as_the_primary_give_no_right() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        let witness = 1 - primary;
        world.run(world.now + 20 * LEASE);
        for (from, to) in [(primary, witness), (witness, primary)] {
            world.hand_over(from, to);
            world.run(world.now + 150 * MS);
        }
        assert!(world.nodes[primary].serves, "seed {seed}");
        world.cuts.insert((witness, primary));
        world.cuts.insert((primary, witness));
        world.register_cuts.insert(primary);
        let member = world.register.primary;
        for _ in 0..100 {
            world.run(world.now + 10 * MS);
            for sequence in 1..80 {
                let late = Message::BeaconAck { member, sequence, hangs: false };
                world.with(primary, |group, now| group.receive(now, NodeId(witness as u16), late));
            }
        }
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes[witness].serves, "seed {seed}");
    }
}

/// A disk fails, or ceases to answer, just when its column is to be sealed: the column is dropped, and the group goes on.
#[test]
fn a_column_whose_disk_fails_while_it_is_sealed_is_dropped() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 3, None);
        let (failed, dead) = ((primary + 1) % 3, (primary + 2) % 3);
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        let node = &mut world.nodes[failed];
        (node.disk_fails, node.disk_hangs) = (seed % 2 == 0, seed % 2 == 1);
        world.dead = Some(dead);
        world.crash(dead, false);
        // The dead one is dropped, and another term begins.
        world.run(world.now + 2 * LEASE);
        world.clients_rest = false;
        let writes = world.counts.writes;
        world.run(world.now + 20 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.writes > writes, "seed {seed}: {:?}", world.register);
    }
}

/// A group is handed over while a column is being filled: what is left to copy is the next primary's, and clients do not wait for it.
#[test]
fn a_group_is_handed_over_before_a_fill_has_ended() {
    for seed in 0..20 {
        let mut world = World::with_spare(seed, 4, 1, QUIET, None);
        world.is_calm = true;
        world.run(500 * MS);
        let primary = usize::from(world.register.primary.node.0);
        let (other, leaves) = ((primary + 1) % 3, (primary + 2) % 3);
        world.replace(leaves as u8, 3);
        let is_filled = |world: &World| {
            world.register.columns.get(3).is_some_and(|column| matches!(column.state, State::Fill { .. }))
        };
        while !(is_filled(&world) && world.nodes[primary].serves) {
            world.run(world.now + MS / 10);
        }
        world.hand_over(primary, other);
        while world.register.primary.node != NodeId(other as u16) && world.wrong.is_none() {
            world.run(world.now + MS);
            assert!(is_filled(&world), "seed {seed}: the fill has ended first");
        }
        world.run(world.now + 900 * MS);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}

/// What has rotted at the primary where writes are open is repaired when another column is dropped, and nothing is in doubt: the primary does
/// these writes again.
#[test]
fn a_primary_that_goes_on_is_repaired_and_forgets_nothing() {
    let mut repaired = 0;
    for seed in 0..60 {
        let (mut world, primary) = serving(seed, 3, None);
        let before = (world.register.since, world.counts.in_doubt);
        let away = (primary + 1) % 3;
        world.dead = Some(away);
        world.crash(away, false);
        world.run(world.now + 20 * MS);
        (0..UNITS).for_each(|unit| world.rots(primary, unit));
        world.run(world.now + 600 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(matches!(world.register.columns[away].state, State::Stale { .. }), "seed {seed}");
        assert_eq!((world.register.since, world.counts.in_doubt), before, "seed {seed}");
        repaired += world.counts.repaired;
    }
    assert!(repaired > 0);
}

/// Each change that a process has decided is told by that process, with its cause, and nothing else is.
#[test]
fn what_happens_to_copies_is_told_by_the_one_that_decides_it() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 3, None);
        let (away, other) = ((primary + 1) % 3, (primary + 2) % 3);
        let told = |world: &mut World, millis: u64| {
            world.run(world.now + millis * MS);
            assert_eq!(world.wrong, None, "seed {seed}");
            core::mem::take(&mut world.changes)
        };
        let column = away as u8;
        world.changes.clear();
        assert_eq!(told(&mut world, 300), [], "seed {seed}");

        world.crash(away, false);
        let dropped = told(&mut world, 90);
        let is_silent = |change: &Change| matches!(change, Change::Dropped { column: of, cause: DropCause::Silent(_), .. } if *of == column);
        assert!(dropped.len() == 1 && dropped[0].0 == primary && is_silent(&dropped[0].1), "{dropped:?}");

        let copied = |world: &World, node: usize| world.nodes[node].group.as_ref().expect("it runs").copied();
        let before = copied(&world, primary);
        world.start(away);
        let filled = told(&mut world, 900);
        let [
            (first, Change::FillBegun { column: begun, bytes }),
            (last, Change::FillEnded { column: ended, bytes: ended_bytes, .. }),
        ] = filled[..]
        else {
            panic!("seed {seed}: {filled:?}")
        };
        assert_eq!(
            (first, last, begun, ended, bytes),
            (primary, primary, column, column, ended_bytes),
            "seed {seed}"
        );
        assert_eq!(copied(&world, primary), before + bytes, "seed {seed}");

        world.leave(away, 3);
        let dropped = told(&mut world, 20);
        assert_eq!(
            dropped,
            [(primary, Change::Dropped { column, cause: DropCause::Ended, rests: Duration::ZERO })],
            "seed {seed}"
        );
        world.crash(away, false);
        world.start(away);
        world.run(world.now + 900 * MS);
        world.changes.clear();

        world.hand_over(primary, other);
        let moved = told(&mut world, 100);
        let to = Member { node: NodeId(other as u16), incarnation: world.nodes[other].incarnation };
        assert_eq!(moved, [(primary, Change::HandedOver { to, leaves: false })], "seed {seed}");
        assert!(copied(&world, primary) >= before + bytes, "seed {seed}: what it has done as the primary");

        world.crash(other, false);
        world.run(world.now + 900 * MS);
        let changes = core::mem::take(&mut world.changes);
        let took = |change: &Change| matches!(change, Change::TookOver { from, .. } if from.node == NodeId(other as u16));
        assert_eq!(changes.iter().filter(|(_, change)| took(change)).count(), 1, "seed {seed}: {changes:?}");
    }
}

/// A repair reads from a disk that never answers: the column is given up for it, and whoever waits for the repair goes on.
#[test]
fn a_repair_waits_for_no_disk_that_does_not_answer() {
    let mut repaired = 0;
    for seed in 0..20 {
        let copies = 2 + seed as usize % 2;
        let (mut world, primary) = serving(seed, copies, None);
        // The first one is asked.
        let mute = usize::from(primary == 0);
        world.mute = Some(mute);
        world.changes.clear();
        (0..UNITS).for_each(|unit| world.rots(primary, unit));
        world.run(world.now + 900 * MS);
        let is_it = |(node, change): &(usize, Change)| {
            let wanted = matches!(change, Change::Dropped { column, cause: DropCause::Unread(_), .. } if usize::from(*column) == mute);
            *node == primary && wanted
        };
        assert_eq!(
            world.changes.iter().filter(|change| is_it(change)).count(),
            1,
            "seed {seed}: {:?}",
            world.changes
        );
        assert_eq!(world.wrong, None, "seed {seed}");
        let writes = world.counts.writes;
        world.run(world.now + 300 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.writes > writes, "seed {seed}: commands go on");
        repaired += if copies == 3 { world.counts.repaired } else { 0 };
    }
    assert!(repaired > 0, "the third column has what the second one does not tell");
}

/// The primary's own disk neither answers nor fails, as one whose path is gone: another column, which has everything, goes on.
#[test]
fn a_primary_whose_disk_does_not_answer_leaves_the_group_to_another_one() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2 + seed as usize % 2, None);
        if seed % 4 < 2 {
            world.hangs = Some(primary)
        } else {
            world.mute = Some(primary)
        }
        world.run(world.now + 25 * LEASE);
        let serving = usize::from(world.register.primary.node.0);
        assert!(serving != primary && world.nodes[serving].serves, "seed {seed}: {:?}", world.changes);
        let writes = world.counts.writes;
        world.run(world.now + 5 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.writes > writes, "seed {seed}: commands go on");
    }
}

/// A disk has columns of several groups, and one of these has waited for it.
#[test]
fn who_is_told_that_its_disk_hangs_does_not_wait_to_find_out() {
    for seed in 0..40 {
        let (mut world, primary) = serving(seed, 2 + seed as usize % 2, None);
        let leads = seed % 4 < 2;
        let hung = if leads { primary } else { (primary + 1) % 2 };
        world.clients_rest = seed % 8 < 4;
        world.run(world.now + 100 * MS);
        let until = world.now + 8 * LEASE;
        world.stall(hung, until, 0);
        world.with(hung, |group, now| group.disk_hangs(now, true));
        world.run(world.now + LEASE);
        let map = &world.register;
        let has_left = match leads {
            true => map.primary.node != NodeId(hung as u16),
            false => matches!(map.columns[hung].state, State::Stale { .. }),
        };
        assert!(has_left, "seed {seed}: {map:?}");
        world.clients_rest = false;
        let writes = world.counts.writes;
        world.run(world.now + 4 * LEASE);
        assert!(world.counts.writes > writes, "seed {seed}");
        world.run(until);
        world.with(hung, |group, now| group.disk_hangs(now, false));
        world.is_calm = true;
        world.run(until + 30 * LEASE);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}

/// It goes on as long as nobody else can.
#[test]
fn a_primary_that_is_alone_waits_for_its_disk() {
    let (mut world, primary) = serving(3, 2, None);
    world.dead = Some(1 - primary);
    world.crash(1 - primary, false);
    world.run(world.now + 10 * LEASE);
    world.mute = Some(primary);
    let epoch = world.register.term.epoch;
    world.run(world.now + 25 * LEASE);
    assert_eq!((world.register.term.epoch, usize::from(world.register.primary.node.0)), (epoch, primary));
    assert!(world.nodes[primary].serves);
}

/// A primary repeats a read that has no answer. Its disk may have a queue that takes longer than that: it would never come to an end of it, if each
/// repetition were one more read.
#[test]
fn a_disk_is_asked_once_for_a_read_that_takes_long() {
    let (mut world, primary) = serving(1, 1, None);
    world.clients_rest = true;
    world.run(world.now + 10 * LEASE);
    let (timing, mut reads) = (super::world::timing(&QUIET), 0);
    let begin = world.local(primary);
    let group = world.nodes[primary].group.as_mut().expect("it serves");
    let extent = Extent { offset: 0, length: SUMMED as u64 };
    group.command(begin, Token(7), Command::Read { extent });
    let (mut now, mut asked) = (begin, None);
    while now < begin + timing.resend * 20 {
        while let Some(output) = group.poll() {
            if let Output::Work { op, work: Work::Read { .. } } = output {
                (asked, reads) = (Some(op), reads + 1);
            }
        }
        now = group.next_timeout(now).max(now + Duration::from_micros(1));
        group.timeout(now);
    }
    assert_eq!(reads, 1);
    group.done(now, asked.expect("the disk was asked"), Ok(Some(Default::default())));
    let outputs = core::iter::from_fn(|| group.poll());
    assert!(
        outputs.into_iter().any(|output| matches!(output, Output::Done { token: Token(7), result: Ok(_) }))
    );
}

/// The disk of the primary does nothing for a while, and then what it was asked for. The other column, to which the group was left meanwhile, is
/// gone for good before it has taken over: this one has everything, and is in sync.
#[test]
fn a_primary_whose_disk_answers_again_goes_on_if_nobody_has_taken_over() {
    for seed in 0..8 {
        let (mut world, primary) = serving(seed, 2, None);
        world.stall(primary, world.now + 8 * LEASE, 0);
        let end = world.now + 8 * LEASE;
        while world.now < end
            && world.nodes[primary].group.as_ref().is_some_and(|group| group.map().is_some())
        {
            world.run(world.now + MS);
        }
        assert!(world.now < end, "seed {seed}: it has left the group");
        world.dead = Some(1 - primary);
        world.crash(1 - primary, false);
        world.run(world.now + 50 * LEASE);
        let writes = world.counts.writes;
        world.run(world.now + 10 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.writes > writes, "seed {seed}: nobody serves, {:?}", world.register);
    }
}

/// A primary whose disk fails says that it serves no more: nobody waits until it is missed.
#[test]
fn a_primary_whose_disk_fails_is_replaced_at_once() {
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2 + seed as usize % 2, None);
        world.nodes[primary].disk_fails = true;
        world.run(world.now + LEASE);
        let next = usize::from(world.register.primary.node.0);
        assert_ne!(next, primary, "seed {seed}");
        let writes = world.counts.writes;
        // Writes wait for the grace of cards.
        world.run(world.now + 3 * LEASE);
        assert!(world.counts.writes > writes, "seed {seed}");
        world.run(world.now + 5 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}

/// Neither disk does anything. The primary's own never does again; the other one does after a while, and has all that was acknowledged.
#[test]
fn a_primary_whose_disk_hangs_drops_no_column_that_could_go_on() {
    for seed in 0..16 {
        let (mut world, primary) = serving(seed, 2, None);
        world.stall(primary, NEVER, seed % 4 / 2 * 2);
        let for_so_long = world.now + (3 + seed / 4) * LEASE;
        world.stall(1 - primary, for_so_long, 0);
        goes_on(&mut world, seed);
    }
}

/// The same, and the other one's node is not heard of for a moment.
#[test]
fn a_primary_whose_disk_hangs_waits_for_a_column_that_is_away_for_a_moment() {
    for seed in 0..16 {
        let (mut world, primary) = serving(seed, 2, None);
        world.stall(primary, NEVER, 0);
        world.run(world.now + LEASE);
        world.cuts.extend([(0, 1), (1, 0)]);
        world.run(world.now + LEASE);
        world.cuts.clear();
        goes_on(&mut world, seed);
    }
}

/// A disk takes what is written, and does not make it durable: a client that waits for a flush writes nothing that would show that the disk hangs.
#[test]
fn a_flush_waits_for_no_disk_that_does_not_sync_for_long() {
    for seed in 0..8 {
        let (mut world, primary) = serving(seed, 2, None);
        let mute = if seed % 2 == 0 { primary } else { 1 - primary };
        world.stall(mute, NEVER, 3);
        world.run(world.now + 10 * LEASE);
        world.run(world.now + 50 * LEASE);
        let flushes = world.counts.flushes;
        world.run(world.now + 10 * LEASE);
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.counts.flushes > flushes, "seed {seed}: flushes wait, {:?}", world.register);
    }
}

/// The one column in sync has lost a unit that the other one has, which was away. A client writes a part of that unit, and is refused: nobody has
/// written there what the other one lacks.
#[test]
fn a_write_that_was_refused_takes_from_nobody_what_another_column_has() {
    let mut count = 0;
    for seed in 0..20 {
        let (mut world, primary) = serving(seed, 2, None);
        world.clients_rest = true;
        world.run(world.now + 100 * MS);
        // What is dirty at the other column has to be copied anyway.
        world.nodes.iter_mut().for_each(|node| node.media.sync());
        let away = 1 - primary;
        world.crash(away, false);
        world.run(world.now + 300 * MS);
        if world.nodes[primary].media.missed[2..4].contains(&true) {
            continue;
        }
        count += 1;
        world.rots(primary, 2);
        let write =
            Command::Write { extent: Extent { offset: 2, length: 1 }, payload: [7].into(), origin: None };
        world.with(primary, |group, now| group.command(now, Token(1 << 40), write));
        world.run(world.now + 50 * MS);
        world.start(away);
        world.run(world.now + 600 * MS);
        assert_eq!(world.wrong, None, "seed {seed}");
        world.judge_whole();
        world.scrub();
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(world.nodes.iter().all(|node| node.media.rotten == [false; UNITS]), "seed {seed}");
    }
    assert!(count > 5, "{count}");
}

/// A column that was dropped is heard, and hears nothing: each time it is let in the group waits for it in vain.
#[test]
fn a_column_that_hears_nothing_costs_little_time() {
    for seed in 0..8 {
        let (mut world, primary) = serving(seed, 3, None);
        let deaf = (primary + 1 + seed as usize % 2) % 3;
        world.cuts.extend((0..3).filter(|node| *node != deaf).map(|node| (node, deaf)));
        world.run(world.now + 20 * LEASE);
        let (mut serves, mut all) = (0, 0);
        let end = world.now + 100 * LEASE;
        while world.now < end {
            world.run(world.now + MS);
            serves += u32::from(world.nodes[primary].serves);
            all += 1;
        }
        assert_eq!(world.wrong, None, "seed {seed}");
        assert!(serves * 20 > all * 19, "seed {seed}: it serves {serves} of {all} ms");
        // It is back at once when it hears again.
        world.cuts.clear();
        world.run(world.now + 40 * LEASE);
        world.judge_whole();
        assert_eq!(world.wrong, None, "seed {seed}");
    }
}
