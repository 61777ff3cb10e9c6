//! The fields of lock messages.

use cards_core::rendezvous::RegionId;
use cards_core::{Duration, Instant, NodeId};
use cards_locks::{Beat, Change, Fence, GroupKey, LockError, LockRange, Locked, Mode, Part, SessionId};

use crate::peer::FrameError;
use crate::peer::body::{Reader, Writer};

/// Ranges of one part of a lock group.
pub const MAX_RANGES: usize = 64;

/// Parts, of a session or of a home, in one list.
pub const MAX_PARTS: usize = 16_384;

/// Changes of copies in one message.
const MAX_CHANGES: usize = 1_024;

const PUT: u8 = 0;
const REMOVE: u8 = 1;
const COMPLETE: u8 = 2;

impl Writer {
    pub(super) fn region(&mut self, region: RegionId) {
        self.volume(region.volume);
        self.u32(region.index);
    }

    pub(super) fn session(&mut self, session: SessionId) {
        self.u16(session.node.0);
        self.u64(session.number);
    }

    pub(super) fn key(&mut self, key: GroupKey) {
        self.session(key.session);
        self.u64(key.group);
    }

    pub(super) fn beat(&mut self, beat: Beat) {
        self.u64(beat.sequence);
        self.u64(beat.sent.0);
    }

    pub(super) fn token(&mut self, token: Fence) {
        self.u64(token.epoch);
        self.u64(token.count);
    }

    /// Nanoseconds.
    pub(super) fn duration(&mut self, duration: Duration) -> Result<(), FrameError> {
        let nanoseconds = u64::try_from(duration.as_nanos());
        let too_long = |_| FrameError::TooLong {
            what: "lease in seconds",
            length: duration.as_secs(),
            limit: u64::MAX / 1_000_000_000,
        };
        self.u64(nanoseconds.map_err(too_long)?);
        Ok(())
    }

    fn range(&mut self, range: LockRange) {
        self.u64(range.start());
        self.u64(range.end());
    }

    pub(super) fn ranges(&mut self, ranges: &[Locked]) -> Result<(), FrameError> {
        self.length("list of ranges", ranges.len(), MAX_RANGES)?;
        for Locked { range, mode } in ranges {
            self.range(*range);
            self.byte(match mode {
                Mode::Read => 0,
                Mode::Write => 1,
            });
        }
        Ok(())
    }

    fn part(&mut self, part: &Part) -> Result<(), FrameError> {
        self.region(part.region);
        self.key(part.key);
        self.ranges(&part.ranges)?;
        self.token(part.token);
        Ok(())
    }

    pub(super) fn parts(&mut self, parts: &[Part]) -> Result<(), FrameError> {
        self.length("list of parts", parts.len(), MAX_PARTS)?;
        parts.iter().try_for_each(|part| self.part(part))
    }

    pub(super) fn names(&mut self, names: &[(RegionId, u64)]) -> Result<(), FrameError> {
        self.length("list of parts", names.len(), MAX_PARTS)?;
        for &(region, group) in names {
            self.region(region);
            self.u64(group);
        }
        Ok(())
    }

    pub(super) fn changes(&mut self, changes: &[Change]) -> Result<(), FrameError> {
        self.length("list of changes", changes.len(), MAX_CHANGES)?;
        changes.iter().try_for_each(|change| self.change(change))
    }

    fn change(&mut self, change: &Change) -> Result<(), FrameError> {
        match change {
            Change::Put(part) => {
                self.byte(PUT);
                self.part(part)?;
            }
            Change::Remove { region, key } => {
                self.byte(REMOVE);
                self.region(*region);
                self.key(*key);
            }
            Change::Complete => self.byte(COMPLETE),
        }
        Ok(())
    }

    pub(super) fn error(&mut self, error: &LockError) {
        match error {
            LockError::NoRanges => self.byte(0),
            LockError::Overlapping { first, second } => {
                self.byte(1);
                self.range(*first);
                self.range(*second);
            }
            LockError::TooManyRanges { given, limit } => {
                self.byte(2);
                self.u64(*given as u64);
                self.u64(*limit as u64);
            }
            LockError::OutsideRegion { range } => {
                self.byte(3);
                self.range(*range);
            }
            LockError::TableFull { limit } => {
                self.byte(4);
                self.u64(*limit as u64);
            }
            LockError::TooManySessions { limit } => {
                self.byte(5);
                self.u64(*limit as u64);
            }
            LockError::TooManyGroups { limit } => {
                self.byte(6);
                self.u64(*limit as u64);
            }
            LockError::Exists => self.byte(7),
            LockError::WouldBlock => self.byte(9),
            LockError::TimedOut => self.byte(12),
            LockError::LeaseEnded => self.byte(13),
        }
    }
}

impl Reader<'_> {
    pub(super) fn region(&mut self) -> Result<RegionId, FrameError> {
        Ok(RegionId { volume: self.volume()?, index: self.u32("region")? })
    }

    pub(super) fn session(&mut self) -> Result<SessionId, FrameError> {
        let node: NodeId = self.node()?;
        Ok(SessionId { node, number: self.u64("session")? })
    }

    pub(super) fn key(&mut self) -> Result<GroupKey, FrameError> {
        Ok(GroupKey { session: self.session()?, group: self.u64("group")? })
    }

    pub(super) fn beat(&mut self) -> Result<Beat, FrameError> {
        Ok(Beat { sequence: self.u64("sequence")?, sent: Instant(self.u64("time of a beat")?) })
    }

    pub(super) fn token(&mut self) -> Result<Fence, FrameError> {
        Ok(Fence { epoch: self.u64("epoch of a token")?, count: self.u64("count of a token")? })
    }

    pub(super) fn duration(&mut self) -> Result<Duration, FrameError> {
        self.u64("lease").map(Duration::from_nanos)
    }

    fn range(&mut self) -> Result<LockRange, FrameError> {
        let (start, end) = (self.u64("start of a range")?, self.u64("end of a range")?);
        LockRange::new(start, end).ok_or(FrameError::Field { what: "end of a range", value: end })
    }

    pub(super) fn ranges(&mut self) -> Result<Vec<Locked>, FrameError> {
        let count = self.length("list of ranges", MAX_RANGES)?;
        let one = |_| {
            let range = self.range()?;
            let mode = match self.byte("mode")? {
                0 => Mode::Read,
                1 => Mode::Write,
                value => return Err(FrameError::Field { what: "mode", value: value.into() }),
            };
            Ok(Locked { range, mode })
        };
        (0..count).map(one).collect()
    }

    fn part(&mut self) -> Result<Part, FrameError> {
        Ok(Part { region: self.region()?, key: self.key()?, ranges: self.ranges()?, token: self.token()? })
    }

    pub(super) fn parts(&mut self) -> Result<Vec<Part>, FrameError> {
        let count = self.length("list of parts", MAX_PARTS)?;
        (0..count).map(|_| self.part()).collect()
    }

    pub(super) fn names(&mut self) -> Result<Vec<(RegionId, u64)>, FrameError> {
        let count = self.length("list of parts", MAX_PARTS)?;
        (0..count).map(|_| Ok((self.region()?, self.u64("group")?))).collect()
    }

    pub(super) fn changes(&mut self) -> Result<Vec<Change>, FrameError> {
        let count = self.length("list of changes", MAX_CHANGES)?;
        (0..count).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Result<Change, FrameError> {
        match self.byte("kind of change")? {
            PUT => self.part().map(Change::Put),
            REMOVE => Ok(Change::Remove { region: self.region()?, key: self.key()? }),
            COMPLETE => Ok(Change::Complete),
            value => Err(FrameError::Field { what: "kind of change", value: value.into() }),
        }
    }

    fn count(&mut self) -> Result<usize, FrameError> {
        let value = self.u64("limit")?;
        usize::try_from(value).map_err(|_| FrameError::Field { what: "limit", value })
    }

    pub(super) fn error(&mut self) -> Result<LockError, FrameError> {
        Ok(match self.byte("lock error")? {
            0 => LockError::NoRanges,
            1 => LockError::Overlapping { first: self.range()?, second: self.range()? },
            2 => LockError::TooManyRanges { given: self.count()?, limit: self.count()? },
            3 => LockError::OutsideRegion { range: self.range()? },
            4 => LockError::TableFull { limit: self.count()? },
            5 => LockError::TooManySessions { limit: self.count()? },
            6 => LockError::TooManyGroups { limit: self.count()? },
            7 => LockError::Exists,
            9 => LockError::WouldBlock,
            12 => LockError::TimedOut,
            13 => LockError::LeaseEnded,
            value => return Err(FrameError::Field { what: "lock error", value: value.into() }),
        })
    }
}
