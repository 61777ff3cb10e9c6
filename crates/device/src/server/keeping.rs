//! Whether the kernel may keep pages: agreed with the daemon before the first file that uses them is open, and given
//! up after the last is closed. So a device that nobody reads through the page cache costs nobody a withdrawal.

/// What to tell the daemon, if anything.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Nothing,
    /// That the kernel keeps pages, or does not.
    Keeps(bool),
}

/// What becomes of the OPENs that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They go on waiting.
    Wait,
    /// Pages that are there must be dropped; then [`Keeping::cleared`].
    Clear,
    /// They are open, with pages.
    Cached,
    /// They are open, without.
    Direct,
}

/// The agreement.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// Files that are open and use pages.
    open: usize,
    /// What the daemon was told last.
    told: bool,
    /// Answers it owes.
    owed: u32,
    /// It agrees.
    granted: bool,
    /// And pages of before are dropped.
    agreed: bool,
}

impl Keeping {
    /// Files that are open and use pages.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Whether the daemon withdraws pages from now on.
    pub(super) fn granted(&self) -> bool {
        self.granted
    }

    /// Whether pages may be kept, for as long as the daemon says.
    pub(super) fn agreed(&self) -> bool {
        self.agreed
    }

    /// Whether the daemon was told that pages are kept.
    pub(super) fn told(&self) -> bool {
        self.told
    }

    /// A file wants to use pages, or several are waiting for it.
    pub(super) fn wanted(&mut self) -> Say {
        if self.told { Say::Nothing } else { self.tell(true) }
    }

    /// Such a file is open.
    pub(super) fn opened(&mut self) {
        self.open += 1;
    }

    /// Such a file was closed. If it was the last, all pages must be withdrawn, and then [`Self::dropped`].
    pub(super) fn closed(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        self.open == 0
    }

    /// After the last file was closed, all pages were dropped. `wanted`: another one is waiting.
    pub(super) fn dropped(&mut self, wanted: bool) -> Say {
        if self.open > 0 || wanted || !self.told { Say::Nothing } else { self.tell(false) }
    }

    /// The daemon answers.
    pub(super) fn answered(&mut self, pages: bool) -> Verdict {
        self.owed = self.owed.saturating_sub(1);
        if self.owed > 0 || !self.told {
            return Verdict::Wait;
        }
        self.granted = pages;
        self.told = pages;
        if pages { Verdict::Clear } else { Verdict::Direct }
    }

    /// Pages of before the agreement are dropped.
    pub(super) fn cleared(&mut self) -> Verdict {
        self.agreed = self.granted;
        if self.agreed { Verdict::Cached } else { Verdict::Wait }
    }

    /// The daemon is gone, and with it the agreement.
    pub(super) fn lost(&mut self) {
        *self = Self { open: self.open, ..Self::default() };
    }

    fn tell(&mut self, keeps: bool) -> Say {
        self.told = keeps;
        (self.granted, self.agreed) = (false, false);
        self.owed += 1;
        Say::Keeps(keeps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_waits_for_the_agreement_and_the_last_ends_it() {
        let mut keeping = Keeping::default();
        assert_eq!(keeping.wanted(), Say::Keeps(true));
        assert_eq!(keeping.wanted(), Say::Nothing);
        assert_eq!((keeping.answered(true), keeping.agreed()), (Verdict::Clear, false));
        assert_eq!(keeping.cleared(), Verdict::Cached);
        keeping.opened();
        keeping.opened();
        assert!(!keeping.closed());
        assert!(keeping.closed());
        assert_eq!(keeping.dropped(false), Say::Keeps(false));
        assert_eq!(keeping.answered(false), Verdict::Wait);
    }

    #[test]
    fn the_answer_to_an_earlier_word_is_not_taken_for_that_to_the_last() {
        let mut keeping = Keeping::default();
        assert_eq!(keeping.wanted(), Say::Keeps(true));
        assert_eq!((keeping.answered(true), keeping.agreed()), (Verdict::Clear, false));
        assert_eq!(keeping.cleared(), Verdict::Cached);
        keeping.opened();
        assert!(keeping.closed());
        assert_eq!(keeping.dropped(false), Say::Keeps(false));
        assert_eq!(keeping.wanted(), Say::Keeps(true));
        assert_eq!(keeping.answered(false), Verdict::Wait);
        assert!(!keeping.agreed());
        assert_eq!((keeping.answered(true), keeping.agreed()), (Verdict::Clear, false));
        assert_eq!(keeping.cleared(), Verdict::Cached);
    }

    #[test]
    fn a_new_daemon_is_asked_anew() {
        let mut keeping = Keeping::default();
        assert_eq!(keeping.wanted(), Say::Keeps(true));
        assert_eq!((keeping.answered(true), keeping.agreed()), (Verdict::Clear, false));
        assert_eq!(keeping.cleared(), Verdict::Cached);
        keeping.opened();
        keeping.lost();
        assert!(!keeping.agreed());
        assert_eq!(keeping.wanted(), Say::Keeps(true));
        assert_eq!(keeping.answered(false), Verdict::Direct);
    }
}
