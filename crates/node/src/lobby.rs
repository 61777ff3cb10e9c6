//! Who may come in: a cap on connections, which silent ones cannot use up.
//!
//! At most half of the cap may be in their handshake. When one more comes, or the cap is reached, one of those has to
//! go, the oldest of the network that has most (of IPv6 the first 64 bits): a flood of connections that say nothing never keeps a client out
//! (CVE-2024-7409), and costs those of other addresses nothing.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Counts the connections of all endpoints.
pub(crate) struct Lobby {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections, without those that have been told to go.
    inside: usize,
    /// Of these, the ones in their handshake, oldest first.
    greeting: VecDeque<Greeting>,
    next: u64,
}

struct Greeting {
    number: u64,
    /// Its network. None for a client of this machine.
    from: Option<IpAddr>,
    evicted: Arc<Notify>,
}

/// One connection's place; given back when dropped.
pub(crate) struct Permit {
    lobby: Arc<Lobby>,
    number: u64,
    from: Option<IpAddr>,
    evicted: Arc<Notify>,
    settled: AtomicBool,
}

impl Lobby {
    pub(crate) fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { max: max as usize, state: Mutex::default() })
    }

    /// A place for one more connection; nothing if clients beyond their handshake have taken all.
    pub(crate) fn admit(self: &Arc<Self>, from: Option<IpAddr>) -> Option<Permit> {
        let mut state = self.lock();
        if state.inside >= self.max || state.greeting.len() >= (self.max / 2).max(1) {
            let place = state.whose_turn_it_is_to_go()?;
            let oldest = state.greeting.remove(place)?;
            state.inside -= 1;
            oldest.evicted.notify_one();
        }
        let (number, evicted) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.inside += 1;
        state.greeting.push_back(Greeting { number, from: from.map(network), evicted: Arc::clone(&evicted) });
        Some(Permit { lobby: Arc::clone(self), number, from, evicted, settled: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the connection was still in its handshake, and had not been told to go.
    fn leave_greeting(&mut self, number: u64) -> bool {
        let at = self.greeting.iter().position(|greeting| greeting.number == number);
        at.and_then(|at| self.greeting.remove(at)).is_some()
    }

    /// The oldest of the network that has most places; of several such networks, the oldest of all.
    fn whose_turn_it_is_to_go(&self) -> Option<usize> {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        self.greeting.iter().for_each(|greeting| *counts.entry(greeting.from).or_default() += 1);
        let most = *counts.values().max()?;
        self.greeting.iter().position(|greeting| counts[&greeting.from] == most)
    }
}

impl Permit {
    /// Where the connection comes from. None for a client of this machine.
    pub(crate) fn from(&self) -> Option<IpAddr> {
        self.from
    }

    /// Waits until the connection has to go.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The client is about to be told that it is inside: says whether the connection may stay.
    pub(crate) fn settle(&self) -> bool {
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

/// By what it counts from where somebody comes: with IPv6 one machine has as many addresses as it likes, in one network.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_make_way() {
        let lobby = Lobby::new(4);
        let silent: Vec<Permit> = (0..100).map(|_| lobby.admit(None).unwrap()).collect();
        assert_eq!(lobby.lock().inside, 2);
        let last = lobby.admit(None).unwrap();
        assert!(last.settle());
        drop(silent);
        assert_eq!(lobby.lock().inside, 1);
    }

    #[test]
    fn a_crowd_from_one_network_makes_way_for_others() {
        let v4: [fn(u16) -> IpAddr; 2] = [|_| [10, 0, 0, 1].into(), |_| [10, 0, 0, 2].into()];
        // One machine has as many addresses there as it likes.
        let v6: [fn(u16) -> IpAddr; 2] = [
            |_| [0x2001, 0xdb8, 0, 1, 0, 0, 0, 1].into(),
            |number| [0x2001, 0xdb8, 0, 2, 0, 0, 0, number].into(),
        ];
        for [alone, crowd] in [v4, v6] {
            let lobby = Lobby::new(8);
            let alone = lobby.admit(Some(alone(0))).unwrap();
            let crowd: Vec<Permit> =
                (0..100).map(|number| lobby.admit(Some(crowd(number))).unwrap()).collect();
            assert!(alone.settle(), "the only one of its network was sent away");
            assert_eq!(crowd.iter().filter(|permit| permit.settle()).count(), 3);
        }
    }

    #[test]
    fn served_connections_do_not() {
        let lobby = Lobby::new(2);
        let mut served: Vec<Permit> = (0..2)
            .map(|_| {
                let permit = lobby.admit(None).unwrap();
                assert!(permit.settle());
                permit
            })
            .collect();
        assert!(lobby.admit(None).is_none());
        served.pop();
        assert!(lobby.admit(None).is_some());
    }
}
