//! What the kernel has asked and was not answered yet.

use std::sync::Arc;

use crate::link::Payload;

/// What kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cached`: it fills pages of the kernel's cache, which are locked until it is answered.
    Read { cached: bool },
    /// A write.
    Write,
    /// Make durable what was written.
    Flush,
    /// Write zeroes; `hole`: the space may be given back.
    Zeroes { hole: bool },
}

/// A request that is not answered.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The kernel's name for it.
    pub(crate) unique: u64,
    /// What it is.
    pub(crate) kind: Kind,
    /// First byte of its range.
    pub(crate) offset: u64,
    /// Bytes of its range.
    pub(crate) length: u64,
    /// What to write.
    pub(crate) payload: Option<Payload>,
    /// Bytes of it that are done; more than 0 only for zeroes, which go in several steps.
    pub(crate) done: u64,
    /// The data of a READ that comes in parts.
    pub(crate) assembled: Option<Vec<u8>>,
    /// The names under which the daemon was asked and has not answered; the last one counts.
    cookies: Vec<u64>,
    /// Its place in the order of arrival.
    order: u64,
}

impl Pending {
    /// A request of the kernel for which the daemon was not asked.
    pub(crate) fn new(unique: u64, kind: Kind, offset: u64, length: u64) -> Self {
        let (payload, assembled, cookies) = (None, None, Vec::new());
        Self { unique, kind, offset, length, payload, done: 0, assembled, cookies, order: 0 }
    }

    /// Takes a part of a READ's data; zeroes if there are no `bytes`. What lies outside is not taken.
    pub(crate) fn assemble(&mut self, offset: u64, length: usize, bytes: Option<&[u8]>) {
        // A READ is no longer than the kernel's limit, 1 MiB.
        let all = self.length as usize;
        let data = self.assembled.get_or_insert_with(|| vec![0; all]);
        let at = offset.checked_sub(self.offset).and_then(|at| usize::try_from(at).ok());
        if let Some(place) = at.and_then(|at| data.get_mut(at..at.checked_add(length)?)) {
            match bytes {
                Some(bytes) => place.copy_from_slice(bytes),
                None => place.fill(0),
            }
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Option<Pending>>,
    free: Vec<usize>,
    asks: u32,
    arrivals: u64,
}

impl Requests {
    /// Keeps `pending`, under the number that is given back.
    pub(crate) fn insert(&mut self, mut pending: Pending) -> usize {
        self.arrivals += 1;
        pending.order = self.arrivals;
        match self.free.pop() {
            Some(number) => {
                self.slots[number] = Some(pending);
                number
            }
            None => {
                self.slots.push(Some(pending));
                self.slots.len() - 1
            }
        }
    }

    /// The request of this number.
    pub(crate) fn get(&mut self, number: usize) -> Option<&mut Pending> {
        self.slots.get_mut(number)?.as_mut()
    }

    /// It is answered.
    pub(crate) fn remove(&mut self, number: usize) -> Option<Pending> {
        let pending = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        Some(pending)
    }

    /// A new name under which the daemon is asked for it. An answer under an earlier name does not count.
    pub(crate) fn ask(&mut self, number: usize) -> u64 {
        self.asks = self.asks.wrapping_add(1);
        let cookie = u64::from(self.asks) << 32 | number as u64;
        if let Some(pending) = self.get(number) {
            pending.cookies.push(cookie);
            pending.assembled = None;
        }
        cookie
    }

    /// The number of the request that the daemon was asked for under this name, and whether for the last time.
    pub(crate) fn asked(&mut self, cookie: u64) -> Option<(usize, bool)> {
        let number = (cookie & u64::from(u32::MAX)) as usize;
        let cookies = &self.get(number)?.cookies;
        cookies.contains(&cookie).then_some((number, cookies.last() == Some(&cookie)))
    }

    /// As [`Self::asked`], and the daemon has answered.
    pub(crate) fn replied(&mut self, cookie: u64) -> Option<(usize, bool)> {
        let (number, last) = self.asked(cookie)?;
        self.get(number)?.cookies.retain(|open| *open != cookie);
        Some((number, last))
    }

    /// All numbers, in order of arrival.
    pub(crate) fn all(&self) -> Vec<usize> {
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (number, slot) in self.slots.iter().enumerate() {
            all.extend(slot.as_ref().map(|pending| (pending.order, number)));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, number)| number).collect()
    }

    /// The daemon is gone: nothing is asked for any more.
    pub(crate) fn lost(&mut self) {
        for pending in self.slots.iter_mut().flatten() {
            pending.cookies.clear();
        }
    }
}

/// The buffer of a payload that nobody else uses any more.
pub(crate) fn take_back(pending: Pending) -> Option<Vec<u8>> {
    Arc::try_unwrap(pending.payload?.buffer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_the_last_question_counts() {
        let mut requests = Requests::default();
        let number = requests.insert(Pending::new(9, Kind::Read { cached: true }, 0, 4096));
        let (first, second) = (requests.ask(number), requests.ask(number));
        assert_eq!(
            (requests.asked(first), requests.asked(second)),
            (Some((number, false)), Some((number, true)))
        );
        assert_eq!((requests.replied(first), requests.replied(first)), (Some((number, false)), None));
        assert_eq!(requests.asked(second), Some((number, true)));
        requests.lost();
        assert_eq!(requests.asked(second), None);
        requests.remove(number);
        assert_eq!(requests.asked(second), None);
    }

    #[test]
    fn requests_are_repeated_in_the_order_of_their_arrival() {
        let mut requests = Requests::default();
        let first = requests.insert(Pending::new(1, Kind::Flush, 0, 0));
        let second = requests.insert(Pending::new(2, Kind::Flush, 0, 0));
        requests.remove(first);
        let third = requests.insert(Pending::new(3, Kind::Flush, 0, 0));
        assert_eq!((third, requests.all()), (first, vec![second, third]));
    }

    #[test]
    fn parts_are_put_together_and_what_lies_outside_is_not_taken() {
        let mut pending = Pending::new(1, Kind::Read { cached: false }, 100, 4);
        pending.assemble(102, 2, Some(b"cd"));
        pending.assemble(100, 2, Some(b"ab"));
        pending.assemble(99, 1, Some(b"x"));
        pending.assemble(103, 2, None);
        assert_eq!(pending.assembled.as_deref(), Some(&b"abcd"[..]));
    }
}
