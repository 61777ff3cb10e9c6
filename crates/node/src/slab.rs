//! A table whose keys are numbers that go stale: a key names an entry and its generation.

/// Bits of a key's generation.
pub(crate) const GENERATION_BITS: u32 = 24;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Entries by key. Memory is reused, never given back.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

/// Names one entry of a [`Slab`]: 24 bits of generation above 32 bits of index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    /// Bits of a key; the rest of a 64-bit number is the caller's.
    pub(crate) const BITS: u32 = 32 + GENERATION_BITS;

    fn new(generation: u32, index: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn parts(self) -> (u32, usize) {
        ((self.0 >> 32) as u32 & GENERATION_MASK, self.0 as u32 as usize)
    }
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Reserves a key; nothing can be found under it until [`Self::fill`].
    pub(crate) fn reserve(&mut self) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            (self.entries.len() - 1) as u32
        });
        Key::new(self.entries[index as usize].0, index)
    }

    /// Puts an entry under a reserved key.
    pub(crate) fn fill(&mut self, key: Key, entry: T) {
        self.entries[key.parts().1].1 = Some(entry);
    }

    /// Gives back a reserved key that nobody was told.
    pub(crate) fn cancel(&mut self, key: Key) {
        self.free.push(key.parts().1 as u32);
    }

    pub(crate) fn insert(&mut self, entry: T) -> Key {
        let key = self.reserve();
        self.fill(key, entry);
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let (generation, index) = key.parts();
        self.entries.get(index).filter(|entry| entry.0 == generation)?.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, index) = key.parts();
        self.entries.get_mut(index).filter(|entry| entry.0 == generation)?.1.as_mut()
    }

    /// Takes the entry out; its key is stale from now on.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let (generation, index) = key.parts();
        let entry = self.entries.get_mut(index).filter(|entry| entry.0 == generation)?;
        let taken = entry.1.take()?;
        entry.0 = (generation + 1) & GENERATION_MASK;
        self.free.push(index as u32);
        Some(taken)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.1.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_removed_entry_is_stale() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        assert_eq!(slab.remove(a), Some('a'));
        let b = slab.insert('b');
        assert_ne!(a, b);
        assert_eq!(slab.remove(a), None);
        assert_eq!((slab.get(a), slab.get(b)), (None, Some(&'b')));
        assert_eq!(slab.iter().count(), 1);
    }

    #[test]
    fn a_cancelled_key_is_used_again() {
        let mut slab = Slab::new();
        let key = slab.reserve();
        assert_eq!(slab.get(key), None);
        slab.cancel(key);
        assert_eq!(slab.insert(1), key);
        assert_eq!(slab.get(Key(u64::MAX)), None);
    }
}
