//! Entries under small reusable numbers.

/// A vector whose free places are reused; an entry keeps its number until it is removed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.entries[id as usize] = Some(entry);
            return id;
        }
        let id = u32::try_from(self.entries.len()).expect("fewer than 2^32 jobs are in flight");
        self.entries.push(Some(entry));
        id
    }

    /// The entry `id`, which must be in use.
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        self.entries[id as usize].as_mut().expect("ids name live entries")
    }

    /// The entry `id`, if it is in use.
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// Takes the entry `id`, which must be in use.
    pub(crate) fn remove(&mut self, id: u32) -> T {
        let entry = self.entries[id as usize].take().expect("ids name live entries");
        self.free.push(id);
        entry
    }
}
