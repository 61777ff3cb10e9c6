//! Volumes that are groups of copies: what the registry says of them, and the groups of which this node has a column.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cards_array::group::{CommandError, Extent, Group, KeptExclusivity, Map, Origin, Token};
use cards_coordinator::{GroupState, GroupVolume, StripedVolume};
use cards_core::{Instant, NodeId, OpId, PgId, Slot};
use cards_disk::Column;
use tokio::sync::oneshot;

use super::Node;
use super::buffers::Bytes;
use super::copies::CopyCounts;
use super::group_damage::{Found, GroupDamage};
use crate::failures::Kind;

/// What all threads see of the groups.
#[derive(Default)]
pub(crate) struct Groups {
    /// What the registry has, by number.
    known: Mutex<BTreeMap<PgId, Arc<Known>>>,
    /// The volumes over several groups, by name.
    striped: Mutex<BTreeMap<String, Arc<StripedVolume>>>,
    damage: Mutex<BTreeMap<PgId, Arc<GroupDamage>>>,
    failed: Mutex<BTreeMap<PgId, FailedCopy>>,
    put_back: Mutex<BTreeMap<PgId, Option<u64>>>,
    /// Columns in sync that the primaries here wait for: what all others have may be less.
    awaited: Mutex<BTreeMap<PgId, Vec<u8>>>,
}

/// A copy at this node that is given up until its daemon is started anew, because its disk has failed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FailedCopy {
    /// The disk's name, and where it is.
    pub(crate) disk: String,
    pub(crate) path: String,
    /// What its first error was.
    pub(crate) error: String,
    pub(crate) kind: Kind,
}

/// A group as the registry has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) record: GroupVolume,
    /// Its map; none before all columns have been made.
    pub(crate) map: Option<Map>,
}

impl Known {
    /// The map, unless the volume is being made or removed.
    pub(crate) fn ready(&self) -> Option<&Map> {
        self.map.as_ref().filter(|_| self.record.state == GroupState::Ready)
    }
}

impl Groups {
    fn known(&self) -> MutexGuard<'_, BTreeMap<PgId, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the registry has now. Returns the numbers of those that have changed.
    pub(crate) fn replace(&self, now: impl IntoIterator<Item = Known>) -> Vec<PgId> {
        let now: BTreeMap<PgId, Arc<Known>> =
            now.into_iter().map(|known| (known.record.pg(), Arc::new(known))).collect();
        let mut known = self.known();
        let gone = known.keys().filter(|of| !now.contains_key(of)).copied();
        let news = now.iter().filter(|(of, is)| known.get(of) != Some(is)).map(|(&of, _)| of);
        let changed = gone.chain(news).collect();
        *known = now;
        changed
    }

    fn shared(&self) -> MutexGuard<'_, BTreeMap<String, Arc<StripedVolume>>> {
        self.striped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the volumes over several groups that the registry has now. Says whether any has changed.
    pub(crate) fn replace_striped(&self, now: impl IntoIterator<Item = StripedVolume>) -> bool {
        let now = now.into_iter().map(|volume| (volume.name.clone(), Arc::new(volume))).collect();
        let mut known = self.shared();
        let news = *known != now;
        *known = now;
        news
    }

    /// The volume over several groups of this name.
    pub(crate) fn striped(&self, name: &str) -> Option<Arc<StripedVolume>> {
        self.shared().get(name).cloned()
    }

    /// The registry has a volume of this name, whether or not it can be used yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.striped(name).is_some() || self.known().values().any(|known| known.record.name == name)
    }

    /// The number of a volume, or of its first part, and the size that clients are told of it, in bytes.
    pub(crate) fn size_of(&self, name: &str) -> Option<(u32, u64)> {
        if let Some(striped) = self.striped(name) {
            return Some((*striped.groups.first()?, striped.bytes));
        }
        let known = self.known();
        let found = known.values().find(|known| known.record.name == name);
        found.map(|known| (known.record.number, known.record.bytes))
    }

    /// All volumes over several groups.
    pub(crate) fn all_striped(&self) -> Vec<Arc<StripedVolume>> {
        self.shared().values().cloned().collect()
    }

    pub(crate) fn get(&self, of: PgId) -> Option<Arc<Known>> {
        self.known().get(&of).cloned()
    }

    /// What was found here of a group that does not fit its checksums.
    pub(crate) fn damage(&self, of: PgId) -> Arc<GroupDamage> {
        let mut damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(damage.entry(of).or_default())
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<PgId, FailedCopy>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the copy here is given up, if it is.
    pub(crate) fn failed_copy(&self, of: PgId) -> Option<FailedCopy> {
        self.failed().get(&of).cloned()
    }

    /// The copy here is given up. Says whether that is news: the first error is the cause of the others.
    pub(crate) fn copy_has_failed(&self, of: PgId, failed: FailedCopy) -> bool {
        let mut all = self.failed();
        let is_news = !all.contains_key(&of);
        all.entry(of).or_insert(failed);
        is_news
    }

    fn put_back(&self) -> MutexGuard<'_, BTreeMap<PgId, Option<u64>>> {
        self.put_back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch of which the copy here is an image, if its disk was put back; None: its disk was not looked at yet.
    pub(crate) fn found_put_back(&self, of: PgId) -> Option<Option<u64>> {
        self.put_back().get(&of).copied()
    }

    /// The same is found of the copy here. Says whether that is news.
    pub(crate) fn note_put_back(&self, of: PgId, found: Option<u64>) -> bool {
        self.put_back().insert(of, found) != Some(found)
    }

    fn all_awaited(&self) -> MutexGuard<'_, BTreeMap<PgId, Vec<u8>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The columns in sync that the group's primary waits for, if it is here and cannot go on without them.
    pub(crate) fn awaited(&self, of: PgId) -> Vec<u8> {
        self.all_awaited().get(&of).cloned().unwrap_or_default()
    }

    /// It does, or with none it does not any more.
    pub(crate) fn note_awaited(&self, of: PgId, columns: Vec<u8>) {
        self.all_awaited().insert(of, columns);
    }

    /// There is no copy here any more.
    pub(crate) fn copy_is_gone(&self, of: PgId) {
        self.failed().remove(&of);
        self.put_back().remove(&of);
        self.all_awaited().remove(&of);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Known>> {
        self.known().values().cloned().collect()
    }

    /// The group's primary, as far as the registry's word has come here.
    pub(crate) fn primary(&self, of: PgId) -> Option<NodeId> {
        Some(self.known().get(&of)?.map.as_ref()?.primary.node)
    }
}

impl Node {
    /// The nodes that lead a volume, or parts of it, and do not answer: in words, with the remedy.
    pub(crate) fn away(&self, volume: &str) -> Option<String> {
        let mut away: BTreeMap<NodeId, Vec<Option<u16>>> = BTreeMap::new();
        for known in self.groups.all() {
            let primary = known.ready().map(|map| map.primary.node).filter(|primary| *primary != self.me);
            let silent = primary
                .filter(|primary| !self.links.get(usize::from(primary.0)).is_some_and(|link| link.answers()));
            if let Some(silent) = silent.filter(|_| known.record.volume() == volume) {
                away.entry(silent)
                    .or_default()
                    .push(known.record.part.is_some().then(|| known.record.group()));
            }
        }
        let named = away.iter().map(|(silent, parts)| {
            let mut parts: Vec<u16> = parts.iter().flatten().copied().collect();
            parts.sort_unstable();
            let numbers: Vec<String> = parts.iter().map(ToString::to_string).collect();
            match numbers.as_slice() {
                [] => format!("node {}, its primary,", self.name(*silent)),
                [one] => format!("node {}, which has part {one} of it,", self.name(*silent)),
                several => {
                    format!("node {}, which has parts {} of it,", self.name(*silent), several.join(", "))
                }
            }
        });
        let named: Vec<String> = named.collect();
        let does = if named.len() == 1 { "does" } else { "do" };
        (!named.is_empty()).then(|| {
            format!(
                "volume {volume:?}: {} {does} not answer: start it, or see `cards status`",
                named.join(" and ")
            )
        })
    }
}

/// A group of which this node has a column: on the one thread that drives it.
pub(crate) struct Hosted {
    pub(crate) group: Group<Bytes>,
    pub(crate) column: Column,
    pub(crate) counts: Arc<CopyCounts>,
    /// The core orders the group's commands here in a term that began with this epoch of the map.
    pub(crate) reign: Option<u64>,
    /// This process took over in that epoch, and the registry is asked who had the volume for itself.
    pub(crate) reading: Option<u64>,
    /// Who has it for itself, until the registry has said that it keeps that.
    pub(crate) noting: Option<KeptExclusivity>,
    /// Until when nobody else is the primary, as the core was told.
    pub(crate) right: Option<Instant>,
    /// Commands of the core that the group has.
    pub(crate) open: BTreeMap<Token, Asked>,
    /// Those that it has given back because this node is not the primary: they wait until it is again, or the core hears that
    /// its term is over.
    pub(crate) parked: Vec<Asked>,
    /// Since when it is not the primary, after it was.
    pub(crate) stopped: Option<Instant>,
    /// Results that are told when the right is there again.
    pub(crate) held: VecDeque<(Token, Result<Option<Bytes>, CommandError>)>,
    /// Scrubs that the group has.
    pub(crate) scrubs: BTreeMap<Token, Scrub>,
    pub(crate) next_token: u64,
    /// The groups of this thread that have begun before it: another one of the same volume may have its place, on another disk.
    pub(crate) begun: u64,
    /// The log says that the copy of this node is not what the map takes it for.
    pub(crate) is_outdated: bool,
    /// Columns in sync that it waits for as the primary, see [`Group::awaited`].
    pub(crate) awaited: Vec<u8>,
    /// When the group wants to be woken.
    pub(crate) wake: Instant,
}

/// A range that is being compared with its checksums.
#[derive(Debug)]
pub(crate) struct Scrub {
    pub(crate) extent: Extent,
    pub(crate) found: Vec<Found>,
    pub(crate) done: oneshot::Sender<Vec<Found>>,
}

/// What a group wants done.
pub(crate) type Wish = cards_array::group::Output<Bytes>;

/// A command of the core.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) shard: u16,
    pub(crate) op: OpId,
    pub(crate) wanted: Wanted,
}

/// What the core wants of a group.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A block, in a slot. What is behind the end of the volume is zero.
    Read { slot: Slot, extent: Extent },
    /// A write; `hardens`: and then a flush.
    Write { extent: Extent, bytes: Bytes, hardens: bool, origin: Option<Origin> },
    /// All that is complete made durable.
    Flush,
}
