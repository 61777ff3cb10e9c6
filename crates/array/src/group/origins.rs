//! Which commands were applied: so that one that is repeated is not applied twice, at whatever primary.

use alloc::collections::{BTreeMap, BTreeSet};

use cards_core::NodeId;

use super::map::Member;

/// Shards of a process at most.
const SHARDS: usize = 64;

/// Clients of which a group knows commands: of each node those of one process.
pub const CLIENTS_MAX: usize = NodeId::MAX_NODES * SHARDS;

/// Commands of a process that were applied and may be repeated.
pub const APPLIED_MAX: usize = 4096;

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
    /// The client repeats no command with a lower number.
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
    /// Its client has an answer, and repeats it no more.
    Answered,
    /// All memories of its time were lost.
    InDoubt,
}

/// The commands that were applied to a column, as far as they may be repeated.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Origins {
    /// Those that were first sent to a primary of an earlier epoch may be missing.
    since: u64,
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
        Self { since, clients: BTreeMap::new() }
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

    /// The command was applied.
    pub(super) fn insert(&mut self, origin: Origin) {
        let window = self.clients.entry(origin.client).or_default();
        window.oldest = window.oldest.max(origin.oldest);
        window.applied.insert(origin.request);
        window.applied = window.applied.split_off(&window.oldest);
    }

    pub(super) fn known(&self, origin: &Origin) -> Known {
        match self.clients.get(&origin.client) {
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
    }
}
