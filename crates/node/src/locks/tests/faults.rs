//! Random work under late, lost and repeated messages and deaths, then healing: nobody believes in what another
//! one has, and all come to an end.

use cards_locks::{GroupKey, Mode, SessionId, Wait, Want};

use super::world::{Heard, World, want};
use crate::locks::limits::REGION_BYTES;

/// A client, who acquires, holds for a while, and releases.
struct User {
    session: SessionId,
    waits: Option<(GroupKey, Heard)>,
    holds: Option<(GroupKey, u64)>,
    granted: u32,
}

fn some_wants(world: &mut World) -> Vec<Want> {
    let regions = 1 + world.below(3);
    let wants = (0..regions).map(|region| {
        let start = region * REGION_BYTES + world.below(20);
        let mode = if world.below(2) == 0 { Mode::Read } else { Mode::Write };
        want(start, 1 + world.below(10), mode)
    });
    wants.collect()
}

fn work(world: &mut World, user: &mut User, acquire: bool) {
    if world.nodes[usize::from(user.session.node.0)].is_none() {
        return;
    }
    if let Some((key, heard)) = &mut user.waits {
        match heard.try_recv() {
            Ok(Ok(())) => {
                user.granted += 1;
                user.holds = Some((*key, world.ms + world.below(1_000)));
                user.waits = None;
            }
            Ok(Err(_)) => user.waits = None,
            Err(tokio::sync::oneshot::error::TryRecvError::Closed) => user.waits = None,
            Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {}
        }
    } else if let Some((key, until)) = user.holds {
        if until <= world.ms {
            user.holds = None;
            // A session that was closed has nothing to release.
            let _ = world.release(key);
        }
    } else if acquire {
        let (wants, wait) = (some_wants(world), world.below(4));
        let wait = match wait {
            0 => Wait::Try,
            1 => Wait::Until(world.now() + super::world::LEASE),
            _ => Wait::Forever,
        };
        match world.acquire(user.session, wants, wait) {
            Ok(waits) => user.waits = Some(waits),
            Err(_) => user.session = world.open(usize::from(user.session.node.0)),
        }
    }
}

#[test]
fn nobody_has_what_another_has_and_all_is_granted_after_healing() {
    let mut granted = 0;
    for seed in 0..4 {
        let mut world = World::new(2 + seed as usize % 3, seed);
        let nodes = world.nodes.len();
        let mut users: Vec<User> = (0..nodes * 3)
            .map(|index| User { session: world.open(index % nodes), waits: None, holds: None, granted: 0 })
            .collect();
        (world.loss_percent, world.repeat_percent, world.delay_ms) = (10, 20, 400);
        for round in 0..1_200 {
            world.run_ms(100);
            // Each session must be kept alive once in 10 s: now and then, for longer than that, none is.
            if round % 300 >= 120 {
                world.keep_alive(None);
            }
            users.iter_mut().for_each(|user| work(&mut world, user, true));
            match round % 400 {
                200 => world.kill((round / 400) % nodes),
                // Its membership is over by then.
                230 => world.tell_view(),
                300 => {
                    let node = (round / 400) % nodes;
                    world.come_back(node);
                    for user in users.iter_mut().filter(|u| usize::from(u.session.node.0) == node) {
                        *user = User { session: world.open(node), waits: None, holds: None, ..*user };
                    }
                }
                _ => {}
            }
        }
        (world.loss_percent, world.repeat_percent, world.delay_ms) = (0, 0, 2);
        for _ in 0..300 {
            world.run_ms(100);
            world.keep_alive(None);
            users.iter_mut().for_each(|user| work(&mut world, user, false));
        }
        granted += users.iter().map(|user| user.granted).sum::<u32>();
        for user in &users {
            assert!(user.waits.is_none() && user.holds.is_none(), "seed {seed}: somebody still waits");
            assert_eq!(world.known(user.session), 0, "seed {seed}: something is left of {:?}", user.session);
        }
    }
    assert!(granted > 200, "{granted} groups granted");
}
