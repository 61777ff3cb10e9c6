//! What the kernel has asked of each tag and was not answered yet, in the protocol's terms.

use cards_wire::nbd::Command;
use cards_wire::nbd::consts::{NBD_CMD_FLAG_FUA, NBD_CMD_FLAG_NO_HOLE};

use super::abi::{
    Descriptor, IO_F_FUA, IO_F_NOUNMAP, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES, SECTOR,
};
use crate::link::Payload;

/// A request that is not answered.
#[derive(Debug)]
pub(crate) struct Pending {
    /// What the daemon is asked.
    pub(crate) command: Command,
    /// `NBD_CMD_FLAG_*`.
    pub(crate) flags: u16,
    /// First byte of its range.
    pub(crate) offset: u64,
    /// Bytes of its range.
    pub(crate) length: u32,
    /// What to write.
    pub(crate) payload: Option<Payload>,
    /// The name under which the daemon was asked last; none if it is not asked now.
    cookie: Option<u64>,
    /// Its place in the order of arrival.
    order: u64,
}

impl Pending {
    /// The request that `wanted` describes.
    ///
    /// # Errors
    /// The error number to refuse it with.
    pub(crate) fn parse(wanted: &Descriptor) -> Result<Self, i32> {
        let fua = if wanted.operation & IO_F_FUA != 0 { NBD_CMD_FLAG_FUA } else { 0 };
        let keep = if wanted.operation & IO_F_NOUNMAP != 0 { NBD_CMD_FLAG_NO_HOLE } else { 0 };
        let (command, flags) = match wanted.operation as u8 {
            OP_READ => (Command::Read, 0),
            OP_WRITE => (Command::Write, fua),
            OP_FLUSH => (Command::Flush, 0),
            OP_DISCARD => (Command::Trim, 0),
            OP_WRITE_ZEROES => (Command::WriteZeroes, fua | keep),
            _ => return Err(libc::EOPNOTSUPP),
        };
        // A FLUSH has no range; what stands in its place is none.
        let (start, sectors) =
            if command == Command::Flush { (0, 0) } else { (wanted.start, wanted.sectors) };
        let offset = start.checked_mul(SECTOR).ok_or(libc::EINVAL)?;
        let length = u32::try_from(u64::from(sectors) * SECTOR).map_err(|_| libc::EINVAL)?;
        Ok(Self { command, flags, offset, length, payload: None, cookie: None, order: 0 })
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Tags {
    tags: Vec<Option<Pending>>,
    asks: u32,
    arrivals: u64,
}

impl Tags {
    /// `depth` tags without requests.
    pub(crate) fn new(depth: u16) -> Self {
        Self { tags: (0..depth).map(|_| None).collect(), asks: 0, arrivals: 0 }
    }

    /// A request has arrived.
    pub(crate) fn insert(&mut self, tag: u16, mut pending: Pending) {
        self.arrivals += 1;
        pending.order = self.arrivals;
        if let Some(slot) = self.tags.get_mut(usize::from(tag)) {
            *slot = Some(pending);
        }
    }

    /// The request of this tag.
    pub(crate) fn get(&mut self, tag: u16) -> Option<&mut Pending> {
        self.tags.get_mut(usize::from(tag))?.as_mut()
    }

    /// It is answered.
    pub(crate) fn remove(&mut self, tag: u16) -> Option<Pending> {
        self.tags.get_mut(usize::from(tag))?.take()
    }

    /// Tags without requests.
    pub(crate) fn idle(&self) -> usize {
        self.tags.iter().filter(|slot| slot.is_none()).count()
    }

    /// A new name under which the daemon is asked for it. An answer under an earlier name does not count.
    pub(crate) fn ask(&mut self, tag: u16) -> u64 {
        self.asks = self.asks.wrapping_add(1);
        let cookie = u64::from(self.asks) << 16 | u64::from(tag);
        if let Some(pending) = self.get(tag) {
            pending.cookie = Some(cookie);
        }
        cookie
    }

    /// The tag for which the daemon was asked last under this name.
    pub(crate) fn asked(&mut self, cookie: u64) -> Option<u16> {
        let tag = cookie as u16;
        (self.get(tag)?.cookie == Some(cookie)).then_some(tag)
    }

    /// Those with requests, in order of arrival.
    pub(crate) fn all(&self) -> Vec<u16> {
        let mut all: Vec<(u64, u16)> = Vec::new();
        for (tag, slot) in (0..).zip(&self.tags) {
            all.extend(slot.as_ref().map(|pending| (pending.order, tag)));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, tag)| tag).collect()
    }

    /// The daemon is gone: nothing is asked for any more.
    pub(crate) fn lost(&mut self) {
        for pending in self.tags.iter_mut().flatten() {
            pending.cookie = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(operation: u32, start: u64, sectors: u32) -> Descriptor {
        Descriptor { operation, sectors, start, address: 0 }
    }

    #[test]
    fn a_flush_has_no_range_whatever_the_kernel_puts_there() {
        let flush = Pending::parse(&wanted(OP_FLUSH.into(), u64::MAX, 0)).unwrap();
        assert_eq!((flush.command, flush.offset, flush.length), (Command::Flush, 0, 0));
    }

    #[test]
    fn flags_of_the_block_layer_become_flags_of_the_protocol() {
        let write = Pending::parse(&wanted(u32::from(OP_WRITE) | IO_F_FUA, 3, 8)).unwrap();
        assert_eq!((write.flags, write.offset, write.length), (NBD_CMD_FLAG_FUA, 1536, 4096));
        let zeroes = Pending::parse(&wanted(u32::from(OP_WRITE_ZEROES) | IO_F_NOUNMAP, 0, 8)).unwrap();
        assert_eq!((zeroes.command, zeroes.flags), (Command::WriteZeroes, NBD_CMD_FLAG_NO_HOLE));
        let discard = Pending::parse(&wanted(u32::from(OP_DISCARD) | IO_F_NOUNMAP, 0, 8)).unwrap();
        assert_eq!((discard.command, discard.flags), (Command::Trim, 0));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        for (operation, start, sectors, errno) in [
            (4, 0, 8, libc::EOPNOTSUPP),
            (OP_READ.into(), u64::MAX, 8, libc::EINVAL),
            (OP_READ.into(), 0, u32::MAX, libc::EINVAL),
        ] {
            assert_eq!(Pending::parse(&wanted(operation, start, sectors)).unwrap_err(), errno);
        }
    }

    #[test]
    fn only_the_answer_to_the_last_question_counts_and_all_are_repeated_in_order() {
        let mut tags = Tags::new(4);
        let flush = || Pending::parse(&wanted(OP_FLUSH.into(), 0, 0)).unwrap();
        tags.insert(2, flush());
        tags.insert(1, flush());
        let (first, second) = (tags.ask(2), tags.ask(2));
        assert_eq!((tags.asked(first), tags.asked(second), tags.idle()), (None, Some(2), 2));
        tags.lost();
        assert_eq!((tags.asked(second), tags.all()), (None, vec![2, 1]));
        tags.remove(2);
        assert_eq!((tags.all(), tags.idle()), (vec![1], 3));
        assert_eq!(tags.asked(u64::MAX), None);
    }
}
