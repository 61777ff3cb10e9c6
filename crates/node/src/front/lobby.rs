//! Who may come in: a cap on connections, which silent ones cannot use up.
//!
//! At most half of the cap may be in their handshake. When one more comes, or the cap is reached, the oldest
//! of those has to go: a flood of connections that say nothing never keeps a client out (CVE-2024-7409).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Counts the connections of all endpoints.
pub(super) struct Lobby {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections, without those that have been told to go.
    inside: usize,
    /// Of these, the ones in their handshake, oldest first.
    greeting: VecDeque<(u64, Arc<Notify>)>,
    next: u64,
}

/// One connection's place; given back when dropped.
pub(crate) struct Permit {
    lobby: Arc<Lobby>,
    number: u64,
    evicted: Arc<Notify>,
    settled: AtomicBool,
}

impl Lobby {
    pub(super) fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { max: max as usize, state: Mutex::default() })
    }

    /// A place for one more connection; nothing if clients beyond their handshake have taken all.
    pub(super) fn admit(self: &Arc<Self>) -> Option<Permit> {
        let mut state = self.lock();
        if state.inside >= self.max || state.greeting.len() >= (self.max / 2).max(1) {
            let (_, oldest) = state.greeting.pop_front()?;
            state.inside -= 1;
            oldest.notify_one();
        }
        let (number, evicted) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.inside += 1;
        state.greeting.push_back((number, Arc::clone(&evicted)));
        Some(Permit { lobby: Arc::clone(self), number, evicted, settled: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the connection was still in its handshake, and had not been told to go.
    fn leave_greeting(&mut self, number: u64) -> bool {
        let at = self.greeting.iter().position(|(other, _)| *other == number);
        at.and_then(|at| self.greeting.remove(at)).is_some()
    }
}

impl Permit {
    /// Waits until the connection has to go.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The client is about to be told that it is inside: says whether the connection may stay.
    pub(super) fn settle(&self) -> bool {
        let stays = self.lobby.lock().leave_greeting(self.number);
        self.settled.store(stays, Ordering::Relaxed);
        stays
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.lobby.lock();
        if self.settled.load(Ordering::Relaxed) || state.leave_greeting(self.number) {
            state.inside -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_make_way() {
        let lobby = Lobby::new(4);
        let silent: Vec<Permit> = (0..100).map(|_| lobby.admit().unwrap()).collect();
        assert_eq!(lobby.lock().inside, 2);
        let last = lobby.admit().unwrap();
        assert!(last.settle());
        drop(silent);
        assert_eq!(lobby.lock().inside, 1);
    }

    #[test]
    fn served_connections_do_not() {
        let lobby = Lobby::new(2);
        let mut served: Vec<Permit> = (0..2)
            .map(|_| {
                let permit = lobby.admit().unwrap();
                assert!(permit.settle());
                permit
            })
            .collect();
        assert!(lobby.admit().is_none());
        served.pop();
        assert!(lobby.admit().is_some());
    }
}
