//! Blocks that are fetched into this node's cache for nobody yet.

use std::collections::BTreeMap;

use cards_admin::Warmed;
use tokio::sync::oneshot;

use super::card::Seat;

/// Requests to warm that are under way at a data thread, by the number of their key.
#[derive(Default)]
pub(crate) struct Warms(pub(crate) BTreeMap<u64, Warm>);

/// One of them.
pub(crate) struct Warm {
    /// The card is in use.
    _seat: Seat,
    pub(crate) missing: u32,
    pub(crate) warmed: Warmed,
    pub(crate) done: oneshot::Sender<Warmed>,
}

impl Warm {
    /// Of no block yet.
    pub(crate) fn new(seat: Seat, done: oneshot::Sender<Warmed>) -> Self {
        Self { _seat: seat, missing: 0, warmed: Warmed::default(), done }
    }
}
