//! The registry as a state machine: no I/O, no clock, the same in both homes.
//!
//! A home does, for every change:
//!
//! 1. [`Registry::decide`] with [`Change::Expire`], then with the change itself: what would follow from it, or why
//!    it is refused. Nothing has changed yet.
//! 2. Make [`Effects::writes`] durable, all of them or none.
//! 3. [`Registry::take`] the effects, and only then answer.
//!
//! Leases are not records: they are measured by the home, which after a restart cannot know how long it was away
//! and gives every live member a full one ([`Registry::load`]).

mod attachments;
mod certificates;
mod content;
mod disks;
mod draft;
mod groups;
mod growth;
mod members;
mod placement;
mod striped;
mod verify;

use std::collections::BTreeMap;
use std::time::Duration;

use cards_layout::format::Uuid;
use cards_tls::Fingerprint;

use crate::change::{Applied, Change};
use crate::ids::{Epoch, History, Now, Revision};
use crate::record::{
    Attachment, Certificate, Damage, Disk, GroupMap, GroupNumbers, GroupVolume, HEAD, Head, ManagedDisk,
    Member, Record, SCHEMA, Store, StripedVolume, Volume, Write,
};
use crate::refusal::Refusal;
use crate::view::View;

pub use content::records_in;
use draft::Draft;
pub use draft::{Effects, LeaseChange};

/// Members a registry can hold, dead ones included: one less than ten bits can tell apart.
pub const MEMBERS_MAX: usize = (1 << 10) - 1;
/// Disks a registry can hold.
pub const DISKS_MAX: usize = 1 << 12;
/// Volumes a registry can hold.
pub const VOLUMES_MAX: usize = 1 << 12;
/// Attachments a registry can hold.
pub const ATTACHMENTS_MAX: usize = 1 << 16;
/// Certificates a registry can hold, those included that were revoked and have not ended.
pub const CERTIFICATES_MAX: usize = 1 << 13;
/// Managed disks a registry can hold.
pub const MANAGED_DISKS_MAX: usize = 1 << 12;
/// Volumes over managed disks a registry can hold.
pub const GROUPS_MAX: usize = 1 << 10;
/// Members that one [`Change::Expire`] declares dead at most; the next one goes on. Bounds the size of a
/// transaction in etcd (128 operations by default).
pub const DEATHS_MAX: usize = 32;
/// Records that one [`Change::RemoveDisk`] or [`Change::Attach`] drops at most; the next one goes on. For the same reason.
pub const REMOVALS_MAX: usize = 64;
/// So many volumes over managed disks none of the nodes that kept the registry was behind.
const NUMBERS_UNHEARD_OF: u32 = 1 << 16;
/// So many epochs and revisions no node can be behind: a thousand changes a second for a quarter of an hour.
const UNHEARD_OF: u64 = 1 << 20;
/// Longest name or physical ID, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest address, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Longest failure domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 255;
/// Longest policy, in bytes.
pub const POLICY_BYTES_MAX: usize = 1024;

/// What a new registry begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Name of the cluster.
    pub cluster: String,
    /// Length of a lease: from 100 ms to an hour, in whole milliseconds. Etcd rounds up to whole seconds and has
    /// a minimum of its own (2 s by default).
    pub lease: Duration,
    /// How far a node's time of day may be from the coordinator's: from 1 s to a day.
    pub clock_bound: Duration,
    /// The first epoch: zero for a new cluster, or one above all that nodes and disks remember when a lost
    /// registry is replaced.
    pub first_epoch: Epoch,
}

impl Terms {
    /// A new cluster with leases of 3 s and clocks within 5 minutes.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            lease: Duration::from_secs(3),
            clock_bound: Duration::from_secs(300),
            first_epoch: Epoch(0),
        }
    }

    /// The head of a registry with these terms.
    ///
    /// # Errors
    /// The name is none, or a duration is out of its range.
    pub fn head(&self) -> Result<Head, Refusal> {
        check_name("cluster", &self.cluster)?;
        let ms = |term: &str, value: Duration, min_ms: u64, max_ms: u64| {
            let value_ms = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
            if (min_ms..=max_ms).contains(&value_ms) {
                Ok(value_ms)
            } else {
                Err(Refusal::BadTerm { term: term.to_owned(), value_ms, min_ms, max_ms })
            }
        };
        Ok(Head {
            schema: SCHEMA,
            cluster: self.cluster.clone(),
            epoch: self.first_epoch,
            revision: Revision(0),
            lease_ms: ms("the lease", self.lease, 100, 3_600_000)?,
            clock_bound_ms: ms("the bound on clocks", self.clock_bound, 1_000, 86_400_000)?,
            history: None,
            succeeds: Vec::new(),
        })
    }
}

/// The registry of one cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registry {
    head: Head,
    members: BTreeMap<String, Member>,
    disks: BTreeMap<String, Disk>,
    volumes: BTreeMap<String, Volume>,
    /// By node, then volume.
    attachments: BTreeMap<(String, String), Attachment>,
    /// By node.
    stores: BTreeMap<String, Store>,
    /// By name, then key.
    certificates: BTreeMap<(String, Fingerprint), Certificate>,
    managed: BTreeMap<Uuid, ManagedDisk>,
    /// By name.
    groups: BTreeMap<String, GroupVolume>,
    /// By name.
    striped: BTreeMap<String, StripedVolume>,
    /// By number.
    maps: BTreeMap<u32, GroupMap>,
    /// Not kept while it is that of a new registry.
    numbers: GroupNumbers,
    /// When the lease of each live member ends, by the home's clock ([`Now::mono`]).
    leases: BTreeMap<String, Duration>,
}

impl Registry {
    /// A registry from its records. `lease_end` tells when the lease of a live member ends, by the home's clock.
    ///
    /// # Errors
    /// The head is missing or of another schema, or the records contradict each other.
    pub fn load(
        records: impl IntoIterator<Item = Record>,
        lease_end: impl Fn(&Member, &Head) -> Duration,
    ) -> Result<Self, Damage> {
        let mut head = None;
        let (mut members, mut disks, mut volumes, mut attachments) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut certificates, mut stores) = (BTreeMap::new(), BTreeMap::new());
        let (mut managed, mut groups, mut maps) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut striped = BTreeMap::new();
        let mut numbers = GroupNumbers::default();
        for record in records {
            match record {
                Record::Head(found) => head = Some(found),
                Record::Member(member) => drop(members.insert(member.name.clone(), member)),
                Record::Disk(disk) => drop(disks.insert(disk.id.clone(), disk)),
                Record::Volume(volume) => drop(volumes.insert(volume.name.clone(), volume)),
                Record::Attachment(attachment) => {
                    attachments.insert((attachment.node.clone(), attachment.volume.clone()), attachment);
                }
                Record::Certificate(known) => {
                    drop(certificates.insert((known.name.clone(), known.key), known))
                }
                Record::Store(store) => drop(stores.insert(store.node.clone(), store)),
                Record::ManagedDisk(disk) => drop(managed.insert(disk.uuid, disk)),
                Record::Group(group) => drop(groups.insert(group.name.clone(), group)),
                Record::Striped(volume) => drop(striped.insert(volume.name.clone(), volume)),
                Record::Map(map) => drop(maps.insert(map.number, map)),
                Record::GroupNumbers(found) => numbers = found,
            }
        }
        let head = head.ok_or_else(|| Damage { key: HEAD.to_owned(), problem: "is missing".to_owned() })?;
        let leases = members
            .values()
            .filter(|member| member.state.is_live())
            .map(|member| (member.name.clone(), lease_end(member, &head)))
            .collect();
        let registry = Self {
            head,
            members,
            disks,
            volumes,
            attachments,
            stores,
            certificates,
            managed,
            groups,
            striped,
            maps,
            numbers,
            leases,
        };
        registry.verify()?;
        Ok(registry)
    }

    /// This is the registry of that name from now on. It has none of its own.
    pub(crate) fn begin_history(&mut self, history: History) {
        self.head.history = Some(history);
    }

    /// Goes on as another registry, from what one of several nodes that kept it knows of it: above every epoch and revision that others
    /// can have heard of.
    pub(crate) fn begin_anew(&mut self, history: History) {
        let Head { epoch, revision, succeeds, history: earlier, .. } = &mut self.head;
        epoch.0 = epoch.0.saturating_add(UNHEARD_OF);
        revision.0 = revision.0.saturating_add(UNHEARD_OF);
        succeeds.extend(earlier.replace(history));
        self.numbers.next = self.numbers.next.saturating_add(NUMBERS_UNHEARD_OF);
    }

    /// What follows from `change`, or why it is refused. Changes nothing.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn decide(&self, now: Now, change: &Change) -> Result<Effects, Refusal> {
        let mut draft = Draft::new(self, now);
        match change {
            Change::Join(join) => members::join(&mut draft, join),
            Change::Renew { seat, clock } => members::renew(&mut draft, seat, *clock),
            Change::Leave { seat } => members::leave(&mut draft, seat),
            Change::Left { seat } => members::left(&mut draft, seat),
            Change::Expire => {
                members::expire(&mut draft);
                Ok(())
            }
            Change::Forget { name } => members::forget(&mut draft, name),
            Change::PutDisk { seat, disk, bytes } => disks::put_disk(&mut draft, seat, disk, *bytes),
            Change::PutStore { seat, store } => members::put_store(&mut draft, seat, *store),
            Change::RemoveDisk { disk, with_volumes } => disks::remove_disk(&mut draft, disk, *with_volumes),
            Change::PutVolume(volume) => disks::put_volume(&mut draft, volume),
            Change::RemoveVolume { volume } => disks::remove_volume(&mut draft, volume),
            Change::SetPolicy { volume, policy } => disks::set_policy(&mut draft, volume, policy),
            Change::Attach { seat, volume, mode, takes_over } => {
                attachments::attach(&mut draft, seat, volume, *mode, *takes_over)
            }
            Change::Detach { seat, volume } => attachments::detach(&mut draft, seat, volume),
            Change::Certify { certificate, alone } => certificates::certify(&mut draft, certificate, *alone),
            Change::Revoke(certificate) => certificates::revoke(&mut draft, certificate),
            Change::PutManagedDisk { seat, disk } => groups::put_disk(&mut draft, seat, disk),
            Change::RemoveManagedDisk { disk } => groups::remove_disk(&mut draft, *disk),
            Change::CreateGroup(new) => groups::create(&mut draft, new),
            Change::CreateStriped(new) => striped::create(&mut draft, new),
            Change::ColumnMade(told) => groups::column_made(&mut draft, told),
            Change::RemoveGroup { volume } if self.striped.contains_key(volume) => {
                striped::remove(&mut draft, volume)
            }
            Change::RemoveGroup { volume } => groups::remove(&mut draft, volume),
            Change::GrowVolume { volume, bytes } => growth::grow(&mut draft, volume, *bytes),
            Change::CancelGrowth { volume } => growth::cancel(&mut draft, volume),
            Change::ColumnPutBack { column, epoch } => groups::put_back(&mut draft, column, *epoch),
            Change::ColumnFailed { column, failed } => groups::failed(&mut draft, column, *failed),
            Change::ColumnGrown { column, bytes } => growth::column_grown(&mut draft, column, *bytes),
            Change::SizeServed { seat, number, since, bytes } => {
                growth::served(&mut draft, seat, *number, *since, *bytes)
            }
            Change::ReplaceColumn { volume, from, to } => {
                striped::replace(&mut draft, volume, *from, to.first().copied())
            }
            Change::ForceMap { volume, node, epoch } => groups::force(&mut draft, volume, node, *epoch),
            Change::ColumnRemoved(told) => groups::column_removed(&mut draft, told),
            Change::PutMap(new) => groups::put_map(&mut draft, new),
            Change::FenceMap { number, fence } => groups::fence_map(&mut draft, *number, *fence),
            Change::PutExclusivity(new) => groups::put_exclusivity(&mut draft, new),
        }?;
        Ok(draft.finish())
    }

    /// Adopts what [`Registry::decide`] said at `now`. No other effects may have been taken in between.
    pub fn take(&mut self, now: Now, effects: Effects) -> Applied {
        for write in effects.writes {
            self.write(write);
        }
        for change in effects.leases {
            match change {
                LeaseChange::Begin(name) | LeaseChange::Extend(name) => {
                    self.leases.insert(name, now.mono.saturating_add(self.head.lease()));
                }
                LeaseChange::End(name) => {
                    self.leases.remove(&name);
                }
            }
        }
        effects.applied
    }

    /// [`Registry::decide`] and [`Registry::take`] in one, for a registry that nobody else keeps.
    ///
    /// # Errors
    /// The [`Refusal`]; nothing has changed then.
    pub fn apply(&mut self, now: Now, change: &Change) -> Result<Applied, Refusal> {
        let effects = self.decide(now, change)?;
        Ok(self.take(now, effects))
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Put(Record::Head(head)) => self.head = head,
            Write::Put(Record::Member(member)) => drop(self.members.insert(member.name.clone(), member)),
            Write::Put(Record::Disk(disk)) => drop(self.disks.insert(disk.id.clone(), disk)),
            Write::Put(Record::Volume(volume)) => drop(self.volumes.insert(volume.name.clone(), volume)),
            Write::Put(Record::Attachment(attachment)) => {
                self.attachments.insert((attachment.node.clone(), attachment.volume.clone()), attachment);
            }
            Write::Put(Record::Store(store)) => drop(self.stores.insert(store.node.clone(), store)),
            Write::DeleteStore(node) => drop(self.stores.remove(&node)),
            Write::DeleteMember(name) => drop(self.members.remove(&name)),
            Write::DeleteDisk(id) => drop(self.disks.remove(&id)),
            Write::DeleteVolume(name) => drop(self.volumes.remove(&name)),
            Write::DeleteAttachment { node, volume } => drop(self.attachments.remove(&(node, volume))),
            Write::DeleteAttachmentsOf(node) => self.attachments.retain(|(of, _), _| *of != node),
            Write::Put(Record::Certificate(known)) => {
                self.certificates.insert((known.name.clone(), known.key), known);
            }
            Write::Put(Record::ManagedDisk(disk)) => drop(self.managed.insert(disk.uuid, disk)),
            Write::Put(Record::Group(group)) => drop(self.groups.insert(group.name.clone(), group)),
            Write::Put(Record::Striped(volume)) => drop(self.striped.insert(volume.name.clone(), volume)),
            Write::Put(Record::Map(map)) => drop(self.maps.insert(map.number, map)),
            Write::Put(Record::GroupNumbers(numbers)) => self.numbers = numbers,
            Write::DeleteManagedDisk(uuid) => drop(self.managed.remove(&uuid)),
            Write::DeleteGroup(name) => drop(self.groups.remove(&name)),
            Write::DeleteStriped(name) => drop(self.striped.remove(&name)),
            Write::DeleteMap(number) => drop(self.maps.remove(&number)),
            Write::DeleteCertificate { name, key } => drop(self.certificates.remove(&(name, key))),
        }
    }

    /// All records, in the order of their keys within each kind.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        std::iter::once(Record::Head(self.head.clone()))
            .chain(self.members.values().cloned().map(Record::Member))
            .chain(self.disks.values().cloned().map(Record::Disk))
            .chain(self.volumes.values().cloned().map(Record::Volume))
            .chain(self.attachments.values().cloned().map(Record::Attachment))
            .chain(self.certificates.values().cloned().map(Record::Certificate))
            .chain(self.stores.values().cloned().map(Record::Store))
            .chain(self.managed.values().cloned().map(Record::ManagedDisk))
            .chain(self.groups.values().cloned().map(Record::Group))
            .chain(self.striped.values().cloned().map(Record::Striped))
            .chain(self.maps.values().cloned().map(Record::Map))
            .chain((self.numbers != GroupNumbers::default()).then_some(Record::GroupNumbers(self.numbers)))
    }

    /// The versions and terms.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// When the next lease ends, by the home's clock.
    #[must_use]
    pub fn next_lease_end(&self) -> Option<Duration> {
        self.leases.values().min().copied()
    }

    /// A copy of everything.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            cluster: self.head.cluster.clone(),
            epoch: self.head.epoch,
            revision: self.head.revision,
            lease: self.head.lease(),
            members: self.members.clone(),
            disks: self.disks.clone(),
            volumes: self.volumes.clone(),
            attachments: self.attachments.values().cloned().collect(),
            certificates: self.certificates.values().cloned().collect(),
            stores: self.stores.clone(),
            managed: self.managed.values().cloned().collect(),
            striped: self.striped.clone(),
            groups: self.groups.clone(),
            maps: self.maps.clone(),
        }
    }
}

/// Refuses what cannot be part of a key.
pub(crate) fn check_name(kind: &str, name: &str) -> Result<(), Refusal> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@+-".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(good) {
        return Ok(());
    }
    Err(Refusal::BadName { kind: kind.to_owned(), name: printable(name), length_max: NAME_BYTES_MAX })
}

/// Text from outside as a message may show it.
fn printable(text: &str) -> String {
    text.chars().take(NAME_BYTES_MAX).flat_map(char::escape_debug).collect()
}
