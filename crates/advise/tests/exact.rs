//! An LRU cache, done the simple way.

use std::collections::{HashMap, VecDeque};

/// A queue of all references, oldest first; one counts only if it is its block's last.
pub(crate) struct Lru {
    room: usize,
    last: HashMap<u32, u64>,
    queue: VecDeque<(u32, u64)>,
    time: u64,
}

impl Lru {
    pub(crate) fn new(room: usize) -> Self {
        Self { room, last: HashMap::new(), queue: VecDeque::new(), time: 0 }
    }

    /// A block is used; whether it was there.
    pub(crate) fn refer(&mut self, block: u32) -> bool {
        self.time += 1;
        let hit = self.last.insert(block, self.time).is_some();
        self.queue.push_back((block, self.time));
        while self.last.len() > self.room
            && let Some((oldest, time)) = self.queue.pop_front()
        {
            if self.last.get(&oldest) == Some(&time) {
                self.last.remove(&oldest);
            }
        }
        hit
    }
}
