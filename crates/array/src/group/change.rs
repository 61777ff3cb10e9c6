//! What a change of the map has done to the copies, for people: told by the process that has decided it.

use core::fmt;

use cards_core::Duration;

use super::map::Member;

/// What a change of the map has done, or what has begun because of it. Columns are named by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A column gets no writes any more.
    Dropped {
        /// Which.
        column: u8,
        /// Why.
        cause: DropCause,
        /// It is not let in before so long.
        rests: Duration,
    },
    /// A column gets every write, and what it has missed is being copied to it. Told once more when that begins anew.
    FillBegun {
        /// Which.
        column: u8,
        /// Bytes that are to be copied.
        bytes: u64,
    },
    /// A column that was being filled is in sync.
    FillEnded {
        /// Which.
        column: u8,
        /// Bytes that were copied since the fill began last.
        bytes: u64,
        /// The time since then.
        took: Duration,
    },
    /// This process is the primary in the place of another one.
    TookOver {
        /// The last primary: of this node, if that was started anew.
        from: Member,
        /// Nothing was heard of it for so long. None: it has said that it serves no more, because its disk has failed or does not answer.
        silent: Option<Duration>,
    },
    /// This process, the primary, begins anew, as the map says that it has taken over from itself.
    BegunAnew {
        /// All columns have lost their memory of which commands were applied. Else what a column had when it came back may be all there is.
        has_forgotten: bool,
    },
    /// Another process is the primary in the place of this one.
    HandedOver {
        /// The next primary.
        to: Member,
        /// This process ends, and its column is dropped.
        leaves: bool,
    },
    /// A column has joined; it is filled next.
    Added {
        /// Which.
        column: u8,
    },
    /// A column has left.
    Retired {
        /// Which.
        column: u8,
        /// The column that has its place.
        successor: Option<u8>,
    },
}

/// Why a column was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropCause {
    /// It says that it takes nothing any more: its disk has failed, or its process ends.
    Ended,
    /// Its process was started anew.
    Restarted,
    /// Its disk was put back to an earlier image, or has something that a command has replaced.
    Outdated,
    /// Damaged units of it could not be written anew, or it may have what another copy has lost.
    Unfit,
    /// Nothing was heard of it for so long.
    Silent(Duration),
    /// Its disk answers nothing, says its node.
    Hangs,
    /// It answers, and has not confirmed a write for so long.
    Unconfirmed(Duration),
    /// It answers, and has not read what another column, or a scrub, needs of it for so long.
    Unread(Duration),
    /// It answers, and has not made durable what a client, or its own fill, waits for.
    Unflushed(Duration),
    /// It answers, and did not do what a term begins with for so long.
    Stuck(Duration),
}

impl DropCause {
    /// Whether its disk was slow.
    pub(super) const fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Hangs | Self::Unconfirmed(_) | Self::Unread(_) | Self::Unflushed(_) | Self::Stuck(_)
        )
    }
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("its node was stopped, or its disk has failed"),
            Self::Restarted => f.write_str("its node was started anew"),
            Self::Outdated => f.write_str(
                "its disk was put back to an earlier image, or lacks what another copy cannot give it",
            ),
            Self::Unfit => f.write_str("damaged data of it could not be written anew from another copy"),
            Self::Silent(time) => write!(f, "its node said nothing for {:.1} s", time.as_secs_f64()),
            Self::Hangs => f.write_str("its disk answers nothing; its node answers"),
            Self::Unconfirmed(time) => {
                write!(f, "it did not confirm a write for {:.1} s; its node answers", time.as_secs_f64())
            }
            Self::Unread(time) => {
                write!(f, "its disk did not answer a read for {:.1} s; its node answers", time.as_secs_f64())
            }
            Self::Unflushed(time) => {
                write!(f, "its disk did not answer a flush for {:.1} s; its node answers", time.as_secs_f64())
            }
            Self::Stuck(time) => {
                let seconds = time.as_secs_f64();
                write!(f, "its disk did not answer a new primary for {seconds:.1} s; its node answers")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn why_a_copy_was_dropped_is_said_for_each_cause_and_after_how_long() {
        let time = Duration::from_millis(2460);
        let timed = [
            DropCause::Silent,
            DropCause::Unconfirmed,
            DropCause::Unread,
            DropCause::Unflushed,
            DropCause::Stuck,
        ];
        let timed = timed.map(|cause| cause(time).to_string());
        assert!(timed.iter().all(|text| text.contains(" 2.5 s")), "{timed:?}");
        let others =
            [DropCause::Ended, DropCause::Restarted, DropCause::Outdated, DropCause::Unfit, DropCause::Hangs];
        let all: BTreeSet<_> = others.map(|cause| cause.to_string()).into_iter().chain(timed).collect();
        assert!(all.len() == 10 && !all.contains(""), "{all:?}");
    }
}
