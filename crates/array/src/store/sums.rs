//! Pages of checksums in memory.

use alloc::collections::{BTreeMap, BTreeSet};

use cards_layout::format::{Sum, SumPage};

use super::Ticket;
use alloc::vec::Vec;

/// Pages in memory, by their number over all pieces of the disk.
#[derive(Debug)]
pub(super) struct Sums {
    pages: BTreeMap<u64, Cached>,
    /// Pages that are as on the disk and that no request needs, the longest unused first.
    unused: BTreeSet<(u64, u64)>,
    /// Pages that are not.
    changed: BTreeSet<u64>,
    /// Pages on their way, and who waits for them.
    loading: BTreeMap<u64, Vec<Ticket>>,
    /// How many pages may be in memory before those that are as on the disk leave.
    most: usize,
    clock: u64,
}

#[derive(Debug)]
struct Cached {
    page: SumPage,
    used: u64,
    /// Requests that need it: it stays until they have ended.
    users: usize,
}

impl Sums {
    pub(super) fn new(most: usize) -> Self {
        Self {
            pages: BTreeMap::new(),
            unused: BTreeSet::new(),
            changed: BTreeSet::new(),
            loading: BTreeMap::new(),
            most,
            clock: 0,
        }
    }

    /// Whether a page is in memory. It then stays until [`Self::let_go`].
    pub(super) fn hold(&mut self, number: u64) -> bool {
        let Some(cached) = self.pages.get_mut(&number) else { return false };
        self.clock += 1;
        self.unused.remove(&(cached.used, number));
        cached.used = self.clock;
        cached.users += 1;
        true
    }

    /// A request that needed a page has ended.
    pub(super) fn let_go(&mut self, number: u64) {
        let Some(cached) = self.pages.get_mut(&number) else { return };
        cached.users -= 1;
        self.rest(number);
    }

    /// A page that is as on the disk and that no request needs may leave.
    fn rest(&mut self, number: u64) {
        if let Some(cached) = self.pages.get(&number)
            && cached.users == 0
            && !self.changed.contains(&number)
        {
            self.unused.insert((cached.used, number));
        }
    }

    /// Has `ticket` wait for a page that is not in memory. Whether the page must be read: nobody else waits for it.
    pub(super) fn wait(&mut self, number: u64, ticket: Ticket) -> bool {
        let waiting = self.loading.entry(number).or_default();
        waiting.push(ticket);
        waiting.len() == 1
    }

    /// A page has been read; who waited for it, and holds it now.
    pub(super) fn loaded(&mut self, number: u64, page: SumPage) -> Vec<Ticket> {
        self.clock += 1;
        let waiting = self.loading.remove(&number).unwrap_or_default();
        self.pages.insert(number, Cached { page, used: self.clock, users: waiting.len() });
        self.rest(number);
        waiting
    }

    /// Drops the longest unused of those that may leave, as long as there are too many.
    pub(super) fn shrink(&mut self) {
        while self.pages.len() > self.most
            && let Some((_, number)) = self.unused.pop_first()
        {
            self.pages.remove(&number);
        }
    }

    /// So many pages differ from the disk that no others fit.
    pub(super) fn is_full(&self) -> bool {
        self.changed.len() > self.most / 2
    }

    /// A checksum of a page that is in memory.
    pub(super) fn get(&self, (number, entry): (u64, usize)) -> Option<Sum> {
        self.pages.get(&number).map(|cached| cached.page.sums[entry])
    }

    /// Changes a checksum of a page that is in memory.
    pub(super) fn set(&mut self, (number, entry): (u64, usize), sum: Sum) {
        let Some(cached) = self.pages.get_mut(&number) else { return };
        cached.page.sums[entry] = sum;
        cached.page.sequence += 1;
        if self.changed.insert(number) {
            self.unused.remove(&(cached.used, number));
        }
    }

    /// Pages that differ from the disk.
    pub(super) const fn changed(&self) -> &BTreeSet<u64> {
        &self.changed
    }

    pub(super) fn page(&self, number: u64) -> Option<&SumPage> {
        self.pages.get(&number).map(|cached| &cached.page)
    }

    /// A page is on the disk as it was at `sequence`.
    pub(super) fn written(&mut self, number: u64, sequence: u64) {
        let Some(cached) = self.pages.get(&number) else { return };
        if cached.page.sequence == sequence && self.changed.remove(&number) {
            self.rest(number);
        }
    }

    /// Forgets a page, whatever is in it: its piece begins anew.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(cached) = self.pages.remove(&number) {
            self.unused.remove(&(cached.used, number));
            self.changed.remove(&number);
        }
    }
}
