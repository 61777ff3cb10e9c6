//! Which commands were applied: so that one that is repeated is not applied twice, at whatever primary.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound::{Excluded, Included};

use cards_core::NodeId;

use super::map::Member;

/// Shards of a process at most.
const SHARDS: usize = 64;

/// Clients of which a group knows commands: of each node those of one process.
pub const CLIENTS_MAX: usize = NodeId::MAX_NODES * SHARDS;

/// Commands of all clients that are told to another node. A column that knows more says that it knows none, which is safe: repeated
/// ones are in doubt.
pub const ORIGINS_MAX: usize = 1 << 20;

/// Commands of a client that were applied and may be repeated, beyond which its next ones wait while one is open. The client knows more
/// answers then, and says so with what it sends.
pub(super) const APPLIED_MAX: usize = 4096;

/// What sends commands to groups, and counts them: one shard of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Client {
    /// The process.
    pub member: Member,
    /// Its shard.
    pub shard: u16,
}

/// A command of a client, the same each time it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// What sent it.
    pub client: Client,
    /// Its number there.
    pub request: u64,
    /// The client repeats no command with a lower number. A repetition may say a higher one.
    pub oldest: u64,
    /// The epoch of the primary that it was sent to first.
    pub first_epoch: u64,
}

/// What is known of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// It was not applied.
    New,
    Applied,
    /// Its client has an answer, or is gone: it repeats it no more.
    Answered,
    /// All memories of its time were lost.
    InDoubt,
}

/// The commands that were applied to a column, as far as they may be repeated.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Origins {
    /// Those that were first sent to a primary of an earlier epoch may be missing.
    since: u64,
    /// See [`Self::life`].
    life: u64,
    clients: BTreeMap<Client, Window>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Window {
    oldest: u64,
    applied: BTreeSet<u64>,
}

impl Origins {
    /// Nothing is known of commands that were first sent before epoch `since`.
    #[must_use]
    pub const fn beginning(since: u64) -> Self {
        Self { since, life: since, clients: BTreeMap::new() }
    }

    /// The same, where nothing was lost that was written since epoch `life`.
    #[must_use]
    pub fn with_life(self, life: u64) -> Self {
        Self { life, ..self }
    }

    /// The persistence life of what was written: the epoch in which it began. 0 if it is not known.
    #[must_use]
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// Commands that were first sent before this epoch may be missing.
    #[must_use]
    pub const fn since(&self) -> u64 {
        self.since
    }

    /// Adds what is known of a client: it repeats no command below `oldest`, and of later ones these were applied.
    #[must_use]
    pub fn with_client(
        mut self,
        client: Client,
        oldest: u64,
        applied: impl IntoIterator<Item = u64>,
    ) -> Self {
        self.clients.insert(client, Window { oldest, applied: applied.into_iter().collect() });
        self
    }

    /// The clients, ascending; for each the number below which it repeats no command, and which later ones were applied, ascending.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = (Client, u64, &BTreeSet<u64>)> + '_ {
        self.clients.iter().map(|(client, window)| (*client, window.oldest, &window.applied))
    }

    /// No command was applied.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether they can be told to another node, of which no more than `most` commands are told.
    pub(super) fn fits(&self, most: usize) -> bool {
        let lengths = self.clients.values().map(|window| window.applied.len());
        self.clients.len() <= CLIENTS_MAX
            && lengths.clone().all(|length| length <= usize::from(u16::MAX))
            && lengths.sum::<usize>() <= most
    }

    /// The command was applied. A later process of a node has the place of those before.
    pub(super) fn insert(&mut self, origin: Origin) {
        let member = origin.client.member;
        if self.is_over(member) {
            return;
        }
        let first = Client { member: Member { incarnation: 0, ..member }, shard: 0 };
        while let Some((&earlier, _)) = self.clients.range(first..Client { member, shard: 0 }).next() {
            self.clients.remove(&earlier);
        }
        let window = self.clients.entry(origin.client).or_default();
        window.oldest = window.oldest.max(origin.oldest);
        window.applied.insert(origin.request);
        while window.applied.first().is_some_and(|request| *request < window.oldest) {
            window.applied.pop_first();
        }
    }

    /// The command is done again.
    pub(super) fn remove(&mut self, origin: &Origin) {
        if let Some(window) = self.clients.get_mut(&origin.client) {
            window.applied.remove(&origin.request);
        }
    }

    /// A later process of the node has sent commands.
    fn is_over(&self, member: Member) -> bool {
        let last = Client { member: Member { incarnation: u64::MAX, ..member }, shard: u16::MAX };
        let later = (Excluded(Client { member, shard: u16::MAX }), Included(last));
        self.clients.range(later).next().is_some()
    }

    /// The number below which the client repeats no command, as far as is known.
    pub(super) fn oldest(&self, client: Client) -> u64 {
        self.clients.get(&client).map_or(0, |window| window.oldest)
    }

    /// How many commands of a client from number `oldest` on were applied.
    pub(super) fn applied_from(&self, client: Client, oldest: u64) -> usize {
        self.clients.get(&client).map_or(0, |window| window.applied.range(oldest..).count())
    }

    pub(super) fn known(&self, origin: &Origin) -> Known {
        match self.clients.get(&origin.client) {
            _ if self.is_over(origin.client.member) => Known::Answered,
            Some(window) if origin.request < window.oldest => Known::Answered,
            Some(window) if window.applied.contains(&origin.request) => Known::Applied,
            _ if origin.first_epoch < self.since => Known::InDoubt,
            _ => Known::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(request: u64, oldest: u64, first_epoch: u64) -> Origin {
        let client = Client { member: Member { node: NodeId(3), incarnation: 1 }, shard: 0 };
        Origin { client, request, oldest, first_epoch }
    }

    #[test]
    fn a_command_is_known_until_its_client_has_the_answer() {
        let mut origins = Origins::beginning(5);
        assert_eq!(origins.known(&origin(1, 1, 5)), Known::New);
        assert_eq!(origins.known(&origin(1, 1, 4)), Known::InDoubt);
        origins.insert(origin(1, 1, 4));
        origins.insert(origin(3, 1, 5));
        assert_eq!(origins.known(&origin(1, 1, 4)), Known::Applied);
        assert_eq!(origins.known(&origin(2, 1, 5)), Known::New);
        origins.insert(origin(4, 3, 5));
        assert_eq!(origins.known(&origin(1, 1, 4)), Known::Answered);
        assert_eq!(origins.known(&origin(3, 3, 5)), Known::Applied);
        let client = origin(1, 1, 5).client;
        assert_eq!((origins.oldest(client), origins.oldest(Client { shard: 1, ..client })), (3, 0));
        let applied = [0, 3, 4, 5].map(|oldest| origins.applied_from(client, oldest));
        assert_eq!(applied, [2, 2, 1, 0]);
    }

    #[test]
    fn a_later_process_of_a_node_has_the_place_of_those_before() {
        let of = |node, incarnation, shard, request| {
            let client = Client { member: Member { node: NodeId(node), incarnation }, shard };
            Origin { client, request, oldest: 1, first_epoch: 5 }
        };
        let mut origins = Origins::beginning(5);
        for (node, incarnation, shard) in [(2, 9, 0), (3, 1, 0), (3, 1, 7), (3, 2, 4), (4, 1, 0)] {
            origins.insert(of(node, incarnation, shard, 6));
        }
        let clients: std::vec::Vec<_> = origins.clients().map(|(client, ..)| client).collect();
        assert_eq!(clients, [(2, 9, 0), (3, 2, 4), (4, 1, 0)].map(|(n, i, s)| of(n, i, s, 6).client));
        assert_eq!(origins.known(&of(3, 1, 7, 6)), Known::Answered);
        assert_eq!(origins.known(&of(3, 1, 1, 8)), Known::Answered, "its process is gone");
        assert_eq!(origins.known(&of(3, 2, 1, 8)), Known::New);
        assert_eq!(origins.known(&of(3, u64::MAX, u16::MAX, 8)), Known::New, "there is no later one");
        let before = origins.clone();
        origins.insert(of(3, 1, 1, 8));
        assert_eq!(origins, before);
    }

    #[test]
    fn no_more_is_told_than_is_allowed() {
        let client =
            |number: u16| Client { member: Member { node: NodeId(number), incarnation: 1 }, shard: 0 };
        let with = |clients: u16, applied: u64| {
            (0..clients).fold(Origins::beginning(1), |all, n| all.with_client(client(n), 0, 0..applied))
        };
        assert!(with(16, 1 << 10).fits(1 << 14));
        assert!(!with(16, (1 << 10) + 1).fits(1 << 14));
        assert!(with(1, 0xffff).fits(ORIGINS_MAX) && !with(1, 0x1_0000).fits(ORIGINS_MAX));
    }
}
