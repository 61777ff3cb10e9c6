//! The content of the modelled register.

use std::fmt;

const LETTERS: usize = 8;

/// The letters of all proposals that led to a value, the first one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Log {
    letters: [u8; LETTERS],
    length: usize,
}

impl Log {
    /// The letters.
    #[must_use]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..self.length]
    }

    /// The same and one more letter.
    ///
    /// # Panics
    /// There are more than eight: the instance is too large.
    #[must_use]
    pub fn with(mut self, letter: u8) -> Self {
        self.letters[self.length] = letter;
        self.length += 1;
        self
    }

    /// Whether `later` begins with all of this.
    #[must_use]
    pub fn leads_to(&self, later: &Self) -> bool {
        later.letters().starts_with(self.letters())
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.letters().fmt(f)
    }
}
