//! Log lines that somebody outside could cause without end.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// At most one line in this time; the others are left out.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets one line through in a second.
#[derive(Debug, Default)]
pub struct Seldom(Cell<Option<Instant>>);

impl Seldom {
    /// Whether the line may be written now.
    #[must_use]
    pub fn may(&self) -> bool {
        let now = Instant::now();
        let may = self.0.get().is_none_or(|last| now - last >= PAUSE);
        if may {
            self.0.set(Some(now));
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_one_line() {
        let seldom = Seldom::default();
        assert_eq!((0..1000).filter(|_| seldom.may()).count(), 1);
        seldom.0.set(Instant::now().checked_sub(PAUSE));
        assert!(seldom.may());
    }
}
