//! Group commit: one sync at a time, shared by every flush and FUA write that waits when it starts.

/// The syncs of one engine.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// Jobs the running sync covers; empty when none runs.
    riding: Vec<u32>,
    /// Jobs that came after it started: it may not cover their writes.
    waiting: Vec<u32>,
}

impl Syncs {
    /// A flush, or a FUA write whose data was written, wants the next sync.
    pub(crate) fn join(&mut self, id: u32) {
        self.waiting.push(id);
    }

    /// Says whether a sync is to be started now; everything that waits rides on it.
    pub(crate) fn start(&mut self) -> bool {
        if self.waiting.is_empty() || !self.riding.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.riding, &mut self.waiting);
        true
    }

    /// The running sync ended: the jobs it answers.
    pub(crate) fn end(&mut self) -> std::vec::Drain<'_, u32> {
        self.riding.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_comers_wait_for_the_next_sync() {
        let mut syncs = Syncs::default();
        assert!(!syncs.start());
        syncs.join(1);
        syncs.join(2);
        assert!(syncs.start());
        syncs.join(3);
        assert!(!syncs.start(), "one at a time");
        assert_eq!(syncs.end().collect::<Vec<_>>(), [1, 2]);
        assert!(syncs.start());
        assert_eq!(syncs.end().collect::<Vec<_>>(), [3]);
        assert!(!syncs.start());
    }
}
