//! The queue of a disk that sorts its requests.
//!
//! The heads sweep one way (C-SCAN): the next request is the first one at or behind the place where the last access has ended, or the first of all. A request
//! that so many later ones have passed goes next, wherever it is, so none starves; with zero the order is that of arrival.

use std::collections::{BTreeMap, VecDeque};

use crate::model::DiskJob;

/// Volume and block.
type Place = (u32, u64);

/// Requests that wait for one disk.
#[derive(Debug)]
pub(crate) struct Elevator<T> {
    passovers: u64,
    /// Of one place: by arrival.
    waiting: BTreeMap<Place, VecDeque<(u64, DiskJob, T)>>,
    /// By arrival.
    places: BTreeMap<u64, Place>,
    arrived: u64,
    served: u64,
}

impl<T> Elevator<T> {
    pub(crate) const fn new(passovers: u32) -> Self {
        Self {
            passovers: passovers as u64,
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            arrived: 0,
            served: 0,
        }
    }

    pub(crate) fn push(&mut self, job: DiskJob, then: T) {
        self.places.insert(self.arrived, job.begin);
        self.waiting.entry(job.begin).or_default().push_back((self.arrived, job, then));
        self.arrived += 1;
    }

    /// The next request, with the heads at a place.
    pub(crate) fn take(&mut self, heads: Place) -> Option<(DiskJob, T)> {
        let (&oldest, &of_oldest) = self.places.first_key_value()?;
        // All that arrived before the oldest one have been served; the rest of those served have passed it.
        let place = match self.served - oldest >= self.passovers {
            true => of_oldest,
            false => *self.waiting.range(heads..).next().or_else(|| self.waiting.first_key_value())?.0,
        };
        let here = self.waiting.get_mut(&place)?;
        let (arrival, job, then) = here.pop_front()?;
        if here.is_empty() {
            self.waiting.remove(&place);
        }
        self.places.remove(&arrival);
        self.served += 1;
        Some((job, then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(block: u64) -> DiskJob {
        DiskJob { disk: 0, begin: (0, block), end: Some((0, block + 1)), bytes: 4096 }
    }

    /// The order in which blocks that wait are read.
    fn order(passovers: u32, blocks: &[u64]) -> Vec<u64> {
        let mut queue = Elevator::new(passovers);
        blocks.iter().for_each(|&block| queue.push(job(block), ()));
        let mut heads = (0, 5);
        let mut order = Vec::new();
        while let Some((DiskJob { begin, .. }, ())) = queue.take(heads) {
            heads = (0, begin.1 + 1);
            order.push(begin.1);
        }
        order
    }

    #[test]
    fn the_heads_sweep_one_way_and_begin_anew() {
        assert_eq!(order(100, &[9, 3, 6, 3, 5, 7]), [5, 6, 7, 9, 3, 3]);
    }

    #[test]
    fn without_passovers_the_order_is_that_of_arrival() {
        assert_eq!(order(0, &[9, 3, 6, 3, 5, 7]), [9, 3, 6, 3, 5, 7]);
    }

    #[test]
    fn a_request_is_passed_by_no_more_than_is_allowed() {
        let mut queue = Elevator::new(3);
        queue.push(job(1), ());
        let mut passed = 0;
        for block in 10.. {
            queue.push(job(block), ());
            match queue.take((0, block)) {
                Some((DiskJob { begin: (0, 1), .. }, ())) => break,
                _ => passed += 1,
            }
        }
        assert_eq!(passed, 3);
    }
}
