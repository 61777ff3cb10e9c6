//! What a client may have under way, beside the others of its thread.

use std::rc::Rc;
use std::time::Duration;

use crate::node::Local;
use crate::node::client::{COST_MIN, Client};
use crate::node::replies::Lent;

/// Requests one client may have under way.
const REQUESTS_MAX: u32 = 4096;
/// What a request counts that passes however much others have under way: so everybody gets something.
const SMALL: u64 = (128 << 10) + COST_MIN as u64;
/// How long a client may hold up others with a long request, or with each [`PACE_BYTES`] of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest request is over within minutes at this pace; without it, a byte now and then would hold up the others for days.
const PACE_BYTES: u64 = 4 << 20;

impl Client {
    /// Takes a request of this cost on, if the budgets of the client and of its thread allow: it may have as much of the
    /// thread's as is left to others. A client's only request may have all that is left, and passes if it is small. Of the
    /// others, one at a time is taken on beyond the thread's budget, in the order of [`Local::in_line`]. So the clients of
    /// a thread have no more than its budget, one request of the longest, and a small one each; and nobody waits for ever,
    /// since who holds up the line, and is slower than [`PACE_BYTES`] in [`PATIENCE`], is sent away: see [`Self::watch`].
    pub(super) fn admit(self: &Rc<Self>, local: &Rc<Local>, cost: u32) -> bool {
        let (own, cost) = (self.in_flight.get(), u64::from(cost));
        let left = local.in_flight_max.saturating_sub(local.in_flight.get());
        let may = match own {
            0 => cost <= left.max(SMALL) || self.goes_beyond(local),
            _ => {
                let fits = own + cost <= left.min(self.budget);
                fits && !self.is_beyond.get() && self.requests.get() < REQUESTS_MAX
            }
        };
        if may {
            // However it has come by it, it waits no more.
            local.in_line.borrow_mut().retain(|client| !Rc::ptr_eq(client, self));
            self.in_flight.set(own + cost);
            self.requests.set(self.requests.get() + 1);
            if !self.is_beyond.get() {
                local.in_flight.set(local.in_flight.get() + cost);
            }
        }
        may
    }

    /// Whether it is the turn of this client to have a request beyond the budget; if not, it is woken when it may be.
    fn goes_beyond(self: &Rc<Self>, local: &Rc<Local>) -> bool {
        let mut line = local.in_line.borrow_mut();
        let place = line.iter().position(|client| Rc::ptr_eq(client, self));
        if local.is_beyond.get() || place.map_or(!line.is_empty(), |place| place > 0) {
            if place.is_none() {
                line.push_back(Rc::clone(self));
            }
            return false;
        }
        local.is_beyond.set(true);
        self.is_beyond.set(true);
        tokio::task::spawn_local(Rc::clone(self).watch(Rc::clone(local)));
        true
    }

    /// Sends it away if it holds up others: in [`PATIENCE`] it has taken less than [`PACE_BYTES`] of its answer, or sent less of
    /// its bytes.
    async fn watch(self: Rc<Self>, local: Rc<Local>) {
        while self.is_beyond.get() {
            let moved = self.moved.get();
            tokio::time::sleep(PATIENCE).await;
            let is_slow = self.moved.get() - moved < PACE_BYTES;
            let is_stuck = self.is_beyond.get() && self.owes.get() && is_slow;
            if is_stuck && !local.in_line.borrow().is_empty() {
                self.sent_away.set(true);
                return self.wake();
            }
        }
    }

    /// Requests of this total cost have been answered in full.
    pub(super) fn settle(&self, local: &Local, cost: u64, requests: u32) {
        self.in_flight.set(self.in_flight.get() - cost);
        self.requests.set(self.requests.get() - requests);
        if !self.is_beyond.get() {
            local.in_flight.set(local.in_flight.get() - cost);
        } else if self.in_flight.get() == 0 {
            self.is_beyond.set(false);
            local.is_beyond.set(false);
        }
        let mut line = local.in_line.borrow_mut();
        while line.pop_front_if(|client| client.gone.get()).is_some() {}
        if let Some(next) = line.front() {
            next.wake();
        }
    }

    /// The connection has ended: nothing more is sent, and what its replies pinned is given back.
    pub(super) fn leave(self: &Rc<Self>, local: &Rc<Local>) {
        self.gone.set(true);
        self.settle(local, self.in_flight.get(), 0);
        let mut lent = self.replies.borrow_mut().clear();
        lent.unpin(local);
        if let Some(key) = self.key.take() {
            local.clients.borrow_mut().remove(key);
        }
        local.route();
    }
}

impl Lent {
    /// Gives them back.
    pub(super) fn unpin(&mut self, local: &Local) {
        local.unpin(self.unpin.drain(..), true);
        local.unpin_and_drop(self.drop.drain(..), true);
    }
}
