//! What always holds of a registry. Checked whenever one is read, so that damage is refused, not spread.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{
    AttachMode, Attachment, ColumnState, Damage, GROUP_NUMBER_MIN, GROUP_NUMBERS, GroupState, GroupVolume,
    HEAD, PARTS_MAX, SCHEMA, attachment_key, disk_key, group_key, managed_key, map_key, member_key,
    part_name, store_key, striped_key, volume_key,
};

use super::attachments::excludes;
use super::groups::check_map;
use super::{
    ATTACHMENTS_MAX, CERTIFICATES_MAX, DISKS_MAX, GROUPS_MAX, MANAGED_DISKS_MAX, MEMBERS_MAX, Registry,
    VOLUMES_MAX, check_name,
};

impl Registry {
    /// Checks all records against each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn verify(&self) -> Result<(), Damage> {
        self.verify_head()?;
        self.verify_members()?;
        self.verify_disks()?;
        self.verify_groups()?;
        self.verify_attachments()
    }

    fn verify_head(&self) -> Result<(), Damage> {
        if self.head.schema != SCHEMA {
            return Err(Damage {
                key: HEAD.to_owned(),
                problem: format!(
                    "is of schema {}, this version reads schema {SCHEMA}; use the version that wrote it",
                    self.head.schema
                ),
            });
        }
        require(check_name("cluster", &self.head.cluster).is_ok(), HEAD, "names no cluster")?;
        require(self.head.lease_ms > 0, HEAD, "has leases without length")?;
        require(self.members.len() <= MEMBERS_MAX, HEAD, "has more members than a registry can")?;
        require(self.disks.len() <= DISKS_MAX, HEAD, "has more disks than a registry can")?;
        require(self.volumes.len() <= VOLUMES_MAX, HEAD, "has more volumes than a registry can")?;
        require(self.managed.len() <= MANAGED_DISKS_MAX, HEAD, "has more managed disks than a registry can")?;
        require(
            self.groups.len() <= GROUPS_MAX,
            HEAD,
            "has more volumes over managed disks than a registry can",
        )?;
        require(self.attachments.len() <= ATTACHMENTS_MAX, HEAD, "has more attachments than a registry can")?;
        require(
            self.certificates.len() <= CERTIFICATES_MAX,
            HEAD,
            "has more certificates than a registry can",
        )
    }

    fn verify_members(&self) -> Result<(), Damage> {
        let (mut ids, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        for member in self.members.values() {
            let key = member_key(&member.name);
            require(check_name("node", &member.name).is_ok(), &key, "has a name that is none")?;
            require((member.id as usize) < MEMBERS_MAX, &key, "has a number out of range")?;
            require(ids.insert(member.id), &key, "has the number of another member")?;
            require(member.since <= self.head.epoch, &key, "is of an epoch that has not begun")?;
            let alone = !member.state.is_live() || addresses.insert(&member.address);
            require(alone, &key, "has the address of another live member")?;
        }
        let mut stores = BTreeSet::new();
        for store in self.stores.values() {
            let key = store_key(&store.node);
            require(self.members.contains_key(&store.node), &key, "is at a node that is no member")?;
            require(stores.insert(store.store), &key, "is the store of another member")?;
        }
        Ok(())
    }

    fn verify_disks(&self) -> Result<(), Damage> {
        for disk in self.disks.values() {
            let key = disk_key(&disk.id);
            require(check_name("disk", &disk.id).is_ok(), &key, "has an ID that is none")?;
            require(self.members.contains_key(&disk.node), &key, "is at a node that is no member")?;
        }
        for volume in self.volumes.values() {
            let key = volume_key(&volume.name);
            require(check_name("volume", &volume.name).is_ok(), &key, "has a name that is none")?;
            require(self.disks.contains_key(&volume.disk), &key, "is on a disk that is not registered")?;
            require(volume.block_bytes.is_power_of_two(), &key, "has blocks of no power of two")?;
        }
        Ok(())
    }

    fn verify_groups(&self) -> Result<(), Damage> {
        for disk in self.managed.values() {
            let key = managed_key(&disk.uuid);
            require(self.members.contains_key(&disk.node), &key, "is at a node that is no member")?;
        }
        require(self.numbers.next >= GROUP_NUMBER_MIN, GROUP_NUMBERS, "is a number of plain disks")?;
        let (mut numbers, mut volumes) = (BTreeSet::new(), BTreeSet::new());
        for group in self.groups.values() {
            let key = group_key(&group.name);
            require(check_name("volume", group.volume()).is_ok(), &key, "has a name that is none")?;
            self.verify_part(group)?;
            let is_ready = group.state == GroupState::Ready;
            let may = group.grows.is_none_or(|growth| is_ready && growth.bytes > group.bytes);
            require(may, &key, "grows to a size that is none, or while it is made or removed")?;
            let has_grown = group.there().any(|(_, column)| column.grown);
            require(
                group.grows.is_some() || !has_grown,
                &key,
                "has columns that have grown, and does not grow",
            )?;
            require(!self.volumes.contains_key(&group.name), &key, "has the name of another volume")?;
            require(group.block_bytes.is_power_of_two(), &key, "has blocks of no power of two")?;
            let is_given = (GROUP_NUMBER_MIN..self.numbers.next).contains(&group.number);
            require(is_given, &key, "has a number that was not given")?;
            require(numbers.insert(group.number), &key, "has the number of another volume")?;
            let identity = (group.uuid.key(), group.part);
            require(volumes.insert(identity), &key, "has the UUID of another volume")?;
            let there = group.columns.iter().filter(|column| column.state != ColumnState::Removed);
            let is_known = |disk| self.managed.contains_key(disk);
            let has_disks = there.into_iter().all(|column| is_known(&column.disk));
            require(has_disks, &key, "has a column on a disk that is not registered")?;
            let has_map = self.maps.contains_key(&group.number);
            let may = match group.state {
                GroupState::Making => !has_map,
                GroupState::Ready => has_map,
                GroupState::Removing => true,
            };
            require(may, &key, "is ready without a map, or has one before")?;
        }
        self.verify_striped()?;
        for map in self.maps.values() {
            let key = map_key(map.number);
            let Some(group) = self.group(map.number) else {
                return require(false, &key, "is of a volume that is missing");
            };
            let Ok(decoded) = map.decode() else { return require(false, &key, "does not read back") };
            require(decoded.term == map.term(), &key, "has another term than its record")?;
            if let Err(problem) = check_map(group, &decoded) {
                return require(false, &key, problem);
            }
        }
        Ok(())
    }

    /// A part is one of a volume that knows it.
    fn verify_part(&self, group: &GroupVolume) -> Result<(), Damage> {
        let key = group_key(&group.name);
        let Some(part) = group.part else { return Ok(()) };
        require(
            group.name == part_name(group.volume(), part),
            &key,
            "has a name that is not that of its part",
        )?;
        let striped = self.striped.get(group.volume());
        let is_known = striped.is_some_and(|striped| {
            striped.uuid == group.uuid && striped.groups.get(usize::from(part)) == Some(&group.number)
        });
        require(is_known, &key, "is a part of a volume that does not have it")
    }

    fn verify_striped(&self) -> Result<(), Damage> {
        for striped in self.striped.values() {
            let key = striped_key(&striped.name);
            require(check_name("volume", &striped.name).is_ok(), &key, "has a name that is none")?;
            let is_taken =
                self.volumes.contains_key(&striped.name) || self.groups.contains_key(&striped.name);
            require(!is_taken, &key, "has the name of another volume")?;
            require((1..=PARTS_MAX).contains(&striped.groups.len()), &key, "has no parts, or too many")?;
            let parts: Vec<Option<&GroupVolume>> = (0..)
                .zip(&striped.groups)
                .map(|(part, _)| self.groups.get(&part_name(&striped.name, part)))
                .collect();
            let states = parts.iter().map(|part| part.map(|part| part.state));
            let may = match striped.state {
                GroupState::Making => {
                    states.clone().all(|state| matches!(state, Some(GroupState::Making | GroupState::Ready)))
                }
                GroupState::Ready => states.clone().all(|state| state == Some(GroupState::Ready)),
                // Those that are gone count.
                GroupState::Removing => {
                    states.clone().all(|state| matches!(state, None | Some(GroupState::Removing)))
                        && states.clone().any(|state| state.is_some())
                }
            };
            require(may, &key, "has parts that are in other states than it")?;
            if striped.state != GroupState::Removing {
                let sizes: Vec<u64> = parts.iter().flatten().map(|part| part.bytes).collect();
                require(
                    striped.stripes(&sizes).is_some(),
                    &key,
                    "shares its blocks in no way that there is",
                )?;
                let room = sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
                require(striped.bytes <= room, &key, "is larger than its parts")?;
            }
            let grows = parts.iter().flatten().any(|part| part.grows.is_some());
            let may = striped.grows_to.is_none_or(|bytes| bytes > striped.bytes);
            require(may, &key, "grows to a size that it has")?;
            require(
                grows == striped.grows_to.is_some(),
                &key,
                "grows without its parts, or they without it",
            )?;
        }
        Ok(())
    }

    fn verify_attachments(&self) -> Result<(), Damage> {
        let mut by_volume: BTreeMap<&str, Vec<&Attachment>> = BTreeMap::new();
        for held in self.attachments.values() {
            let key = attachment_key(&held.node, &held.volume);
            let live = self.members.get(&held.node).is_some_and(|member| member.state.is_live());
            require(live, &key, "is of a node that is no live member")?;
            let modes = self.volumes.get(&held.volume).map(|volume| &volume.modes);
            let modes = modes.or(self.groups.get(&held.volume).map(|group| &group.modes));
            let modes = modes.or(self.striped.get(&held.volume).map(|striped| &striped.modes));
            let allowed = modes.is_some_and(|modes| modes.contains(&held.mode));
            require(allowed, &key, "is of a volume that is missing or does not allow its mode")?;
            by_volume.entry(&held.volume).or_default().push(held);
        }
        for held in by_volume.values().filter(|held| held.len() > 1) {
            if let Some(strict) = held.iter().find(|held| excludes(held.mode, AttachMode::Ro)) {
                let key = attachment_key(&strict.node, &strict.volume);
                return require(false, &key, "is exclusive but not the only one of its volume");
            }
        }
        Ok(())
    }
}

fn require(holds: bool, key: &str, problem: &str) -> Result<(), Damage> {
    if holds { Ok(()) } else { Err(Damage { key: key.to_owned(), problem: problem.to_owned() }) }
}
