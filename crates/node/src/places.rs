//! Places of the connections of one socket: a bounded number, of which idle ones give way to new ones.
//!
//! A connection is idle while nothing is being done for it: its client thinks, or is gone, or is one of a flood that says
//! nothing. When all places are taken, a new connection gets that of the connection that has been idle longest, which is
//! closed. Connections that are busy keep their places; while all are, a new one waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The places of one socket.
pub(crate) struct Places {
    max: usize,
    state: Mutex<State>,
    /// A place was given back, or its connection has become idle.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Places that are taken, without those of connections that have been told to end.
    taken: usize,
    /// The idle ones by a number that grows: the one that became idle first comes first.
    idle: BTreeMap<u64, Arc<Notify>>,
    next: u64,
}

/// One connection's place; given back when dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    evicted: Arc<Notify>,
    standing: Mutex<Standing>,
}

/// What is done for a connection.
enum Standing {
    /// Nothing; its number among the idle ones. One that is not there has been told to end.
    Idle(u64),
    /// So many things.
    Busy(usize),
    /// It has been told to end.
    Evicted,
}

/// Something that is being done for a connection, until it is dropped.
pub(crate) struct Busy(Arc<Place>);

impl Places {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, state: Mutex::default(), changed: Notify::new() })
    }

    /// A place for a new connection, which is idle at first. Waits while all others are busy.
    pub(crate) async fn admit(self: &Arc<Self>) -> Arc<Place> {
        loop {
            if let Some(place) = self.try_admit() {
                return place;
            }
            self.changed.notified().await;
        }
    }

    fn try_admit(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut state = self.lock();
        if state.taken >= self.max {
            let (_, longest) = state.idle.pop_first()?;
            state.taken -= 1;
            longest.notify_one();
        }
        state.taken += 1;
        let evicted = Arc::new(Notify::new());
        let standing = Mutex::new(state.begin_idle(&evicted));
        Some(Arc::new(Place { places: Arc::clone(self), evicted, standing }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin_idle(&mut self, evicted: &Arc<Notify>) -> Standing {
        let number = self.next;
        self.next += 1;
        self.idle.insert(number, Arc::clone(evicted));
        Standing::Idle(number)
    }

    /// What becomes of an idle connection that is idle no more.
    fn end_idle(&mut self, number: u64, then: Standing) -> Standing {
        if self.idle.remove(&number).is_some() { then } else { Standing::Evicted }
    }
}

impl Place {
    /// Waits until the connection has to end, which it is told only while it is idle.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Something is done for the connection from now on. One that has been told to end ends all the same.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        let mut standing = self.lock();
        *standing = match *standing {
            Standing::Idle(number) => self.places.lock().end_idle(number, Standing::Busy(1)),
            Standing::Busy(things) => Standing::Busy(things + 1),
            Standing::Evicted => Standing::Evicted,
        };
        Busy(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Place { places, evicted, .. } = &*self.0;
        let mut standing = self.0.lock();
        *standing = match *standing {
            Standing::Busy(1) => {
                places.changed.notify_one();
                places.lock().begin_idle(evicted)
            }
            Standing::Busy(things) => Standing::Busy(things - 1),
            Standing::Idle(_) | Standing::Evicted => return,
        };
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        let last = match *self.standing.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Standing::Idle(number) => state.end_idle(number, Standing::Busy(0)),
            Standing::Busy(things) => Standing::Busy(things),
            Standing::Evicted => Standing::Evicted,
        };
        if !matches!(last, Standing::Evicted) {
            state.taken -= 1;
            self.places.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    /// Places that are taken, and how many of them are idle.
    fn counts(places: &Places) -> (usize, usize) {
        let state = places.lock();
        (state.taken, state.idle.len())
    }

    fn is_evicted(place: &Place) -> bool {
        let mut evicted = std::pin::pin!(place.evicted());
        evicted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_one_that_is_idle_longest_gives_way() {
        let places = Places::new(3);
        let taken: Vec<_> = (0..3).map(|_| places.try_admit().unwrap()).collect();
        // The first one has been served meanwhile: the second one is idle for longer.
        drop(taken[0].busy());
        let next = places.try_admit().unwrap();
        assert_eq!(taken.iter().map(|place| is_evicted(place)).collect::<Vec<_>>(), [false, true, false]);
        assert!(!is_evicted(&next));
        assert_eq!(places.lock().taken, 3);
        drop((taken, next));
        assert_eq!(counts(&places), (0, 0));
    }

    #[test]
    fn busy_ones_stay_and_a_new_one_waits_until_one_is_idle() {
        let places = Places::new(2);
        let (one, two) = (places.try_admit().unwrap(), places.try_admit().unwrap());
        let (first, second, other) = (one.busy(), one.busy(), two.busy());
        let mut waits = std::pin::pin!(places.admit());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        drop(first);
        assert!(waits.as_mut().poll(&mut cx).is_pending(), "something else is done for it still");
        drop(second);
        assert!(waits.as_mut().poll(&mut cx).is_ready());
        assert!(is_evicted(&one) && !is_evicted(&two));
        drop(other);
    }

    #[test]
    fn a_place_that_is_given_back_is_for_the_one_that_waits() {
        let places = Places::new(1);
        let one = places.try_admit().unwrap();
        let busy = one.busy();
        let mut waits = std::pin::pin!(places.admit());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        drop(one);
        assert!(waits.as_mut().poll(&mut cx).is_pending(), "it is still busy");
        drop(busy);
        assert!(waits.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn one_that_has_been_told_to_end_takes_no_place_whatever_it_begins() {
        let places = Places::new(1);
        let one = places.try_admit().unwrap();
        let two = places.try_admit().unwrap();
        drop(one.busy());
        assert!(is_evicted(&one));
        assert_eq!(counts(&places), (1, 1));
        drop(one);
        assert_eq!(places.lock().taken, 1);
        drop(two);
        assert_eq!(places.lock().taken, 0);
    }
}
