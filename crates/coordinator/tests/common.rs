//! What the tests share.

use std::collections::BTreeSet;
use std::time::Duration;

use cards_coordinator::{
    AttachMode, Epoch, Incarnation, Join, Now, Record, Registry, Seat, Terms, Volume, WallClock,
};

pub(crate) const NOON: WallClock = WallClock(1_700_000_000_000);

pub(crate) fn at(ms: u64) -> Now {
    Now { mono: Duration::from_millis(ms), wall: NOON }
}

pub(crate) fn seat(name: &str, incarnation: u64) -> Seat {
    Seat { name: name.into(), incarnation: Incarnation(incarnation) }
}

/// A join of cluster `lab` at an address of the node's own.
pub(crate) fn join(name: &str, incarnation: u64, clock: WallClock) -> Join {
    Join {
        cluster: "lab".into(),
        seat: seat(name, incarnation),
        address: format!("{name}.lan:7700"),
        clock,
        seen: Epoch(0),
        succeeds: None,
    }
}

pub(crate) fn volume(name: &str, disk: &str) -> Volume {
    Volume {
        name: name.into(),
        disk: disk.into(),
        block_bytes: 65536,
        policy: "hscc".into(),
        modes: BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
    }
}

/// An empty registry of cluster `lab` with leases of 3 s.
pub(crate) fn registry() -> Registry {
    let head = Terms::new("lab").head().unwrap();
    Registry::load([Record::Head(head)], |_, head| head.lease()).unwrap()
}
