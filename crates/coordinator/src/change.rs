//! What can be asked of the registry, and what it answers.

use std::collections::BTreeSet;

use cards_array::group::{KeptExclusivity, Term};
use cards_layout::format::Uuid;
use cards_layout::layout::Layout;
use cards_register::StoreId;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Incarnation, Revision, WallClock, random};
use crate::record::{
    AttachMode, Certificate, GroupVolume, Volume, exclusivity, hex, store_id, text, uuid_digits, uuid_list,
};
use crate::seat::Seat;

/// A request to become a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Join {
    /// The cluster the node believes to talk to.
    pub cluster: String,
    /// The node and its new life, larger than all before.
    pub seat: Seat,
    /// Where its peer port listens.
    pub address: String,
    /// Its time of day.
    pub clock: WallClock,
    /// The highest epoch the node has stored in any life; zero if none. A registry that is behind it has been
    /// restored from an old copy.
    pub seen: Epoch,
    /// The life of the same node that this one follows, if the node has proof that it is over: it holds the lock
    /// that the earlier life held. If that very life is live in the registry, the join ends it.
    #[serde(default)]
    pub succeeds: Option<Incarnation>,
}

/// A managed disk, as its node tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToldDisk {
    /// Its UUID.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// What the node's configuration calls it.
    pub name: String,
    /// Bytes that it has for data.
    pub bytes: u64,
    /// Bytes of them that are free.
    pub free: u64,
    /// What a column takes of the disk is a multiple of it.
    pub piece_bytes: u64,
    /// Its failure domain; the name of the node if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// A volume to be made of columns on managed disks, each a whole copy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewGroup {
    /// Its name.
    pub name: String,
    /// Its UUID, which no other volume has: asked for again with the same one, nothing is done.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// Its size in bytes, a multiple of 4096.
    pub bytes: u64,
    /// The unit of caching, in bytes: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: u64,
    /// The policy and its settings.
    pub policy: String,
    /// The modes nodes may attach it in.
    pub modes: BTreeSet<AttachMode>,
    /// Columns, 2 to 8.
    pub copies: u8,
    /// The disks of the columns, in their order; none: those with the most free space, one in each failure domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "uuid_list")]
    pub on: Vec<Uuid>,
}

/// A volume to be made of several groups.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewStriped {
    /// Its name.
    pub name: String,
    /// Its UUID, which no other volume has: asked for again with the same one, nothing is done.
    #[serde(with = "uuid_digits")]
    pub uuid: Uuid,
    /// How its bytes are spread: `raid10`, `raid0` or `linear`.
    #[serde(with = "text")]
    pub layout: Layout,
    /// Its size in bytes, a multiple of 4096.
    pub bytes: u64,
    /// The unit of caching, in bytes: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: u64,
    /// The policy and its settings.
    pub policy: String,
    /// The modes nodes may attach it in.
    pub modes: BTreeSet<AttachMode>,
    /// The disks that it is spread over; none: all that have room.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "uuid_list")]
    pub on: Vec<Uuid>,
}

impl NewGroup {
    /// A UUID that no volume has.
    ///
    /// # Panics
    /// The system has no random numbers.
    #[must_use]
    pub fn new_uuid() -> Uuid {
        Uuid::random(random().to_le_bytes())
    }
}

/// A map in the place of another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewMap {
    /// The number of the volume.
    pub number: u32,
    /// The generation of the map before it.
    pub generation: u32,
    /// The epoch of the map before it.
    pub epoch: u64,
    /// The fence that the record of the map before it has.
    pub fence: u64,
    /// The map, as bytes.
    #[serde(with = "hex")]
    pub map: Vec<u8>,
}

impl NewMap {
    /// The term of the map before it.
    #[must_use]
    pub const fn before(&self) -> Term {
        Term { generation: self.generation, epoch: self.epoch }
    }
}

/// Which card has a volume for itself, as its primary says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewExclusivity {
    /// The number of the volume.
    pub number: u32,
    /// The card, and the primary.
    #[serde(with = "exclusivity")]
    pub exclusivity: KeptExclusivity,
}

/// A change of the registry. Each may be asked again when its answer was lost: the second time it does nothing
/// and answers as the first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Become a member.
    Join(Join),
    /// Extend the member's lease by a full one from now.
    Renew {
        /// The member.
        seat: Seat,
        /// Its time of day. The lease does not depend on it.
        clock: WallClock,
    },
    /// Begin to leave: homes and new work go elsewhere.
    Leave {
        /// The member.
        seat: Seat,
    },
    /// End the membership: the member has drained and has no attachments any more.
    Left {
        /// The member.
        seat: Seat,
    },
    /// Declare members dead whose lease has ended.
    Expire,
    /// Drop the record of a member that has left or died and has no disks, free its number, and revoke its certificates.
    Forget {
        /// Its name.
        name: String,
    },
    /// Tell of a disk at a member: new, of another size, or moved from a member that is not live.
    PutDisk {
        /// The member.
        seat: Seat,
        /// The physical ID of the disk.
        disk: String,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// Tell of the store by which a member can keep a part of the registry, in place of an earlier one.
    PutStore {
        /// The member.
        seat: Seat,
        /// The store.
        #[serde(with = "store_id")]
        store: StoreId,
    },
    /// Drop the record of a disk that has no volume.
    RemoveDisk {
        /// Its physical ID.
        disk: String,
        /// Also if it has volumes: they and their attachments are dropped with it. At most 64 records at once; repeated
        /// until it changes nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_volumes: bool,
    },
    /// Create or redefine a volume. One that is attached keeps everything but its policy.
    PutVolume(Volume),
    /// Drop the record of a volume that is not attached.
    RemoveVolume {
        /// Its name.
        volume: String,
    },
    /// Change the policy of a volume.
    SetPolicy {
        /// Its name.
        volume: String,
        /// The new policy.
        policy: String,
    },
    /// Attach a volume at a member, or change the mode of its attachment.
    Attach {
        /// The member.
        seat: Seat,
        /// Name of the volume.
        volume: String,
        /// How.
        mode: AttachMode,
        /// The disk node has given the attachments of others up that are in the way: they are dropped.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        takes_over: bool,
    },
    /// Detach a volume from a member.
    Detach {
        /// The member.
        seat: Seat,
        /// Name of the volume.
        volume: String,
    },
    /// Know of a certificate. One of a key that was revoked is refused.
    Certify {
        /// The certificate, which is not revoked.
        certificate: Certificate,
        /// It is the only one of its name from now on: those of other keys are revoked.
        alone: bool,
    },
    /// Revoke a certificate that is no live member's.
    Revoke(Certificate),
    /// Tell of a managed disk at a member: new, with other free space, or moved from a member that is not live and has no columns on it.
    PutManagedDisk {
        /// The member.
        seat: Seat,
        /// The disk.
        disk: ToldDisk,
    },
    /// Drop the record of a managed disk that has no columns. If its member is not live, columns of volumes that are being removed
    /// count as removed.
    RemoveManagedDisk {
        /// The disk.
        #[serde(with = "uuid_digits")]
        disk: Uuid,
    },
    /// Create a volume over managed disks. Its columns are made by their nodes.
    CreateGroup(NewGroup),
    /// Create a volume over several groups. Their columns are made by their nodes.
    CreateStriped(NewStriped),
    /// Tell that the column of a volume is on its disk, durably.
    ColumnMade(ToldColumn),
    /// Remove a volume over managed disks that is not attached. Its columns are removed by their nodes.
    RemoveGroup {
        /// Its name.
        volume: String,
    },
    /// Have a volume over managed disks become larger: its columns are given the space by their nodes, then its primaries take commands for
    /// it, and then it has the new size.
    GrowVolume {
        /// Its name.
        volume: String,
        /// The size, in bytes.
        bytes: u64,
    },
    /// Have a volume keep the size that it has. Refused when all its columns have the new one.
    CancelGrowth {
        /// Its name.
        volume: String,
    },
    /// Tell that the column of a group that grows has its new size on its disk, durably.
    ColumnGrown {
        /// The column.
        column: ToldColumn,
        /// The size, in bytes.
        bytes: u64,
    },
    /// Tell whether the disk of a column that the map has in sync was put back to an earlier image.
    ColumnPutBack {
        /// The column.
        column: ToldColumn,
        /// The epoch of the image; None: the disk has all that the map says.
        epoch: Option<u64>,
    },
    /// Tell whether the node of a column that the map has in sync has given it up, because its disk has failed.
    ColumnFailed {
        /// The column.
        column: ToldColumn,
        /// It is given up until its node's daemon is started anew.
        failed: bool,
    },
    /// Tell that the primary of a group takes commands up to its new size.
    SizeServed {
        /// The member that has it.
        seat: Seat,
        /// The number of the group.
        number: u32,
        /// The epoch of the map in which it took over.
        since: u64,
        /// The size, in bytes.
        bytes: u64,
    },
    /// Have a copy of a volume replaced by one on another managed disk.
    ReplaceColumn {
        /// The volume.
        volume: String,
        /// The disk whose copy is to leave.
        #[serde(with = "uuid_digits")]
        from: Uuid,
        /// The disk of the new copy, a list of one; none: the one with the most free space.
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "uuid_list")]
        to: Vec<Uuid>,
    },
    /// Give up all other histories of a volume for what the copy of a node has. Refused while a node lives whose copy is in sync, and was not put
    /// back to an earlier image.
    ForceMap {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
        /// The epoch of the map that this was decided by.
        epoch: u64,
    },
    /// Tell that the column of a volume that is being removed, or is to leave, is not on its disk any more, durably.
    ColumnRemoved(ToldColumn),
    /// Replace the map of a volume: compare-and-set on the term and the fence.
    PutMap(NewMap),
    /// Raise the fence of a volume's map by one, if it is this: what was proposed with it is taken no more.
    FenceMap {
        /// The number of the volume.
        number: u32,
        /// The fence.
        fence: u64,
    },
    /// Note which card has a volume for itself: while its map names the primary that says so. An earlier word of that primary
    /// changes nothing.
    PutExclusivity(NewExclusivity),
}

/// A column of a volume, as its node tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToldColumn {
    /// The member.
    pub seat: Seat,
    /// The UUID of the volume.
    #[serde(with = "uuid_digits")]
    pub volume: Uuid,
    /// Which part of it.
    #[serde(default, skip_serializing_if = "is_first")]
    pub group: u16,
    /// The disk.
    #[serde(with = "uuid_digits")]
    pub disk: Uuid,
    /// Bytes that are free on the disk now.
    pub free: u64,
}

/// The only part of most volumes.
const fn is_first(group: &u16) -> bool {
    *group == 0
}

impl ToldColumn {
    /// Whether the column is one of that group.
    pub(crate) fn is_of(&self, group: &GroupVolume) -> bool {
        group.uuid == self.volume && group.group() == self.group
    }
}

impl Change {
    /// The member that it is for, if only that may ask for it.
    pub(crate) const fn seat(&self) -> Option<&Seat> {
        match self {
            Self::Join(Join { seat, .. })
            | Self::Renew { seat, .. }
            | Self::Leave { seat }
            | Self::Left { seat }
            | Self::PutDisk { seat, .. }
            | Self::PutStore { seat, .. }
            | Self::Attach { seat, .. }
            | Self::Detach { seat, .. }
            | Self::PutManagedDisk { seat, .. }
            | Self::ColumnMade(ToldColumn { seat, .. })
            | Self::ColumnGrown { column: ToldColumn { seat, .. }, .. }
            | Self::ColumnPutBack { column: ToldColumn { seat, .. }, .. }
            | Self::ColumnFailed { column: ToldColumn { seat, .. }, .. }
            | Self::SizeServed { seat, .. }
            | Self::ColumnRemoved(ToldColumn { seat, .. }) => Some(seat),
            Self::Expire
            | Self::Forget { .. }
            | Self::RemoveDisk { .. }
            | Self::PutVolume(_)
            | Self::RemoveVolume { .. }
            | Self::SetPolicy { .. }
            | Self::Certify { .. }
            | Self::Revoke(_)
            | Self::RemoveManagedDisk { .. }
            | Self::CreateGroup(_)
            | Self::CreateStriped(_)
            | Self::RemoveGroup { .. }
            | Self::GrowVolume { .. }
            | Self::CancelGrowth { .. }
            | Self::ReplaceColumn { .. }
            | Self::ForceMap { .. }
            | Self::PutMap(_)
            | Self::FenceMap { .. }
            | Self::PutExclusivity(_) => None,
        }
    }
}

/// What a change has led to. It is durable when the answer is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// Whether anything is now other than before. Removing what is not there changes nothing and is no error.
    pub changed: bool,
    /// The epoch after the change.
    pub epoch: Epoch,
    /// The revision after the change.
    pub revision: Revision,
    /// The number of the member that joined or renewed.
    pub id: Option<u16>,
    /// Members that were declared dead.
    pub dead: Vec<String>,
    /// The coordinator's time of day, if that of the member that renewed is further off than it may be when it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator_clock: Option<WallClock>,
}
