//! What a command has come to, for its exit status.

use crate::run::Failure;

/// What a command has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All seeds passed.
    Passed,
    /// A promise was broken.
    Wrong,
    /// The command line asks for something that cannot be.
    Usage,
    /// Something never completed.
    Stuck,
    /// A node panicked.
    Crashed,
    /// All seeds passed, but a kind of fault never happened, or an observer never had anything to judge.
    Untested,
    /// All seeds passed that ran before it was stopped.
    Stopped,
}

impl Verdict {
    /// The exit status. That of [`Self::Stopped`] is as if SIGINT had ended the program.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Wrong => 1,
            Self::Usage => 2,
            Self::Stuck => 3,
            Self::Crashed => 4,
            Self::Untested => 5,
            Self::Stopped => 130,
        }
    }

    /// The name of a failure's kind.
    pub(super) const fn name(failure: &Failure) -> &'static str {
        match failure {
            Failure::Wrong(_) => "wrong",
            Failure::Stuck(_) => "stuck",
            Failure::Crashed(_) => "crashed",
        }
    }
}

impl From<&Failure> for Verdict {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Wrong(_) => Self::Wrong,
            Failure::Stuck(_) => Self::Stuck,
            Failure::Crashed(_) => Self::Crashed,
        }
    }
}
