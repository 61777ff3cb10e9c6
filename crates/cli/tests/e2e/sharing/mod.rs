//! Real daemons, each in a network namespace of its own, and clients at all of them who write the same blocks.
//! Nodes are cut off, stopped, killed; whatever happens, each block must have been one register, as the
//! recorded history shows, and afterwards every client must be served again without anybody's help.
//!
//! `CARDS_TEST_FULL=1`, as `make test-full` sets it, goes through more policies, block sizes and seeds, and makes every
//! history a long one.

mod client;
mod coordinator;
mod crowd;
mod faults;
mod history;
mod late;
mod mirror;
mod planted;
mod probe;
mod quiet;
mod record;
mod repeated;
mod scene;
mod stolen;
mod storm;
mod takeover;

use std::thread;

use self::scene::{Home, Setting};
use crate::harness::tools::{missing, skip};
use crate::restart::is_full;

/// What a scene is played with, in turn.
const SETTINGS: [(&str, &str, &str); 6] = [
    // The smallest cache: half of the blocks fit.
    ("hscc", "4K", "128K"),
    ("hdc", "64K", "4M"),
    ("nchance", "4K", "128K"),
    ("rd", "64K", "4M"),
    ("gms", "4K", "128K"),
    ("hscc", "64K", "4M"),
];

/// Plays a scene, which is the `number`th, on `nodes` nodes: once, or with all settings.
fn play(number: usize, nodes: usize, scene: impl Fn(Setting)) {
    for round in 0..if is_full() { SETTINGS.len() } else { 1 } {
        let (policy, block, cache) = SETTINGS[(number + round) % SETTINGS.len()];
        let seed = (number * 100 + round) as u64;
        let home = Home::Embedded;
        scene(Setting {
            nodes,
            policy,
            block,
            cache,
            lease: "1s",
            disk_wait: "2s",
            home,
            insecure: false,
            seed,
        });
    }
}

/// Plays a scene with both homes of the list of members, at the same time; with etcd if it is installed.
fn in_homes(number: usize, nodes: usize, scene: impl Fn(Setting) + Sync) {
    let etcd = ["etcd", "etcdctl"].into_iter().find_map(missing);
    if let Some(reason) = &etcd {
        skip(&format!("{reason}; the embedded coordinator is tested"));
    }
    let homes = [Some(Home::Embedded), etcd.is_none().then_some(Home::Etcd)];
    play(number, nodes, |setting| {
        thread::scope(|scope| {
            for home in homes.into_iter().flatten() {
                let scene = &scene;
                let play = move || scene(Setting { home, ..setting });
                let named = thread::Builder::new().name(format!("{number}, {home:?}"));
                named.spawn_scoped(scope, play).expect("room for a thread");
            }
        });
    });
}

/// Leaves the test with a `SKIP` line unless there can be a network to break.
macro_rules! need_network {
    () => {
        if let Some(reason) = $crate::harness::network::missing_network() {
            return $crate::harness::tools::skip(&reason);
        }
    };
}
use need_network;
