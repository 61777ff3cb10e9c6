//! Fencing tokens: how storage tells a holder from one that has lost its lock and does not know it yet.

use core::fmt;

use super::range::Mode;

/// Comes with a grant; higher than in every earlier grant that conflicts with it, whichever home gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fence {
    /// The view in which it was granted: higher in every later life of a home and at every later home.
    pub epoch: u64,
    /// The home's count of grants in this view.
    pub count: u64,
}

/// What storage remembers of the tokens it was shown for one thing (an object, a file, a range), and checks
/// before each access to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FenceGate {
    /// The highest that anybody has shown.
    seen: Fence,
    /// The highest that a writer has shown.
    written: Fence,
}

impl FenceGate {
    /// Lets an access under this token pass, and remembers the token.
    ///
    /// Readers pass in any order; a writer passes unless anybody with a later grant was here, a reader unless a
    /// writer was. A reader has to come here too: a writer that lost its lock to it must not change what it
    /// reads.
    ///
    /// # Errors
    /// The token is too old: the lock is lost.
    pub fn admit(&mut self, mode: Mode, token: Fence) -> Result<(), StaleFence> {
        let bar = match mode {
            Mode::Read => self.written,
            Mode::Write => self.seen,
        };
        if token < bar {
            return Err(StaleFence { token, seen: bar });
        }
        self.seen = self.seen.max(token);
        if mode == Mode::Write {
            self.written = self.written.max(token);
        }
        Ok(())
    }
}

/// A token that is too old.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleFence {
    /// The token.
    pub token: Fence,
    /// A later one that was here before.
    pub seen: Fence,
}

impl fmt::Display for StaleFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (t, s) = (self.token, self.seen);
        write!(
            f,
            "fencing token {}.{} is older than {}.{}: the lock was lost, acquire it again",
            t.epoch, t.count, s.epoch, s.count
        )
    }
}

impl core::error::Error for StaleFence {}

#[cfg(test)]
mod tests {
    use super::*;

    const fn fence(epoch: u64, count: u64) -> Fence {
        Fence { epoch, count }
    }

    #[test]
    fn readers_pass_in_any_order_and_shut_out_an_older_writer() {
        let mut gate = FenceGate::default();
        assert!(gate.admit(Mode::Read, fence(1, 9)).is_ok());
        assert!(gate.admit(Mode::Read, fence(1, 8)).is_ok());
        assert!(gate.admit(Mode::Write, fence(1, 8)).is_err());
        assert!(gate.admit(Mode::Write, fence(2, 1)).is_ok());
        assert_eq!(
            gate.admit(Mode::Read, fence(1, 9)),
            Err(StaleFence { token: fence(1, 9), seen: fence(2, 1) })
        );
    }
}
