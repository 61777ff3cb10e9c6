//! The bytes of writes on their way: held under a number until the core releases it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use cards_core::BufferId;

use super::group_mail::Room;
use super::link::credit::Connection;
use crate::slab::{Key, Slab};

/// A part of the bytes of a write. Large writes are cut into commands without copying.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    whole: Arc<Whole>,
    range: Range<usize>,
}

#[derive(Debug)]
struct Whole {
    bytes: Vec<u8>,
    /// Given back with the bytes.
    _room: Option<Room>,
}

impl Bytes {
    pub(crate) fn new(whole: Vec<u8>) -> Self {
        Self::of(whole, None)
    }

    /// Those of a peer, which take room until they are dropped.
    pub(crate) fn in_room(whole: Vec<u8>, room: Room) -> Self {
        Self::of(whole, Some(room))
    }

    fn of(bytes: Vec<u8>, room: Option<Room>) -> Self {
        let range = 0..bytes.len();
        Self { whole: Arc::new(Whole { bytes, _room: room }), range }
    }

    /// The part `range` of this part.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        let shifted = self.range.start + range.start..self.range.start + range.end;
        assert!(range.start <= range.end && shifted.end <= self.range.end, "a part lies within the whole");
        Self { whole: Arc::clone(&self.whole), range: shifted }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole.bytes[self.range.clone()]
    }
}

/// All buffers of a node. A buffer may be released by another thread than the one that made it.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// By the thread that made them, so that threads rarely meet.
    threads: Box<[Mutex<Slab<Held>>]>,
}

/// The bytes of a write, and on which connection they have come if not from a client.
type Held = (Bytes, Option<Connection>);

impl Buffers {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| Mutex::new(Slab::new())).collect() }
    }

    pub(crate) fn insert(&self, thread: u8, bytes: Bytes, from: Option<Connection>) -> BufferId {
        let key = self.of(u64::from(thread)).insert((bytes, from));
        BufferId(u64::from(thread) << Key::BITS | key.0)
    }

    pub(crate) fn get(&self, id: BufferId) -> Option<Bytes> {
        self.of(id.0 >> Key::BITS).get(key(id)).map(|(bytes, _)| bytes.clone())
    }

    pub(crate) fn remove(&self, id: BufferId) -> Option<Held> {
        self.of(id.0 >> Key::BITS).remove(key(id))
    }

    fn of(&self, thread: u64) -> std::sync::MutexGuard<'_, Slab<Held>> {
        self.threads[thread as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(id: BufferId) -> Key {
    Key(id.0 & ((1 << Key::BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_the_bytes() {
        let all = Bytes::new((0..10).collect());
        let part = all.slice(2..8).slice(1..3);
        assert_eq!(*part, [3, 4]);
    }

    #[test]
    fn a_released_buffer_is_gone_everywhere() {
        let buffers = Buffers::new(2);
        let id = buffers.insert(1, Bytes::new(vec![1]), None);
        assert_eq!(buffers.get(id).as_deref(), Some(&[1][..]));
        assert!(buffers.remove(id).is_some());
        assert!(buffers.get(id).is_none() && buffers.remove(id).is_none());
    }
}
