//! Why the registry refuses a change: the thing, the value, the remedy.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Incarnation, WallClock};
use crate::record::{AttachMode, GroupState, ManagedDisk};

/// A managed disk that could have a column, and what is free there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiskSpace {
    /// The failure domain.
    pub domain: String,
    /// The node.
    pub node: String,
    /// What the node calls the disk.
    pub disk: String,
    /// Bytes that a column can have there.
    pub room: u64,
    /// The node is not joined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_away: bool,
}

impl DiskSpace {
    pub(crate) fn new(disk: &ManagedDisk, room: u64) -> Self {
        let ManagedDisk { domain, node, name, .. } = disk.clone();
        Self { domain, node, disk: name, room, is_away: false }
    }
}

/// A disk that has too little room for a volume that is to grow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrowthSpace {
    /// The disk, as `NODE:DISK`.
    pub disk: String,
    /// What the volume needs there beyond what it has, in bytes.
    pub needed: u64,
    /// Bytes that are free there, and not spoken for.
    pub room: u64,
}

/// Disks, with what a volume needs there and what they have.
fn lacking(disks: &[GrowthSpace]) -> String {
    let one = |GrowthSpace { disk, needed, room }: &GrowthSpace| {
        format!("disk {disk} needs {needed} bytes more for it, and has room for {room}")
    };
    disks.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The volume that a part is one of, as commands take it: `data` of `data (part 3)` and `data/3`.
fn whole(volume: &str) -> &str {
    let named = volume.split_once(" (part ").map_or(volume, |(whole, _)| whole);
    named.split_once('/').map_or(named, |(whole, _)| whole)
}

/// The volume, or the part of it, as `cards volume force` takes it: `data/3` of `data (part 3)`.
fn named(volume: &str) -> String {
    let part = volume.strip_suffix(')').and_then(|volume| volume.split_once(" (part "));
    part.map_or_else(|| volume.to_owned(), |(whole, part)| format!("{whole}/{part}"))
}

/// The copy that takes the place of another one, if it is known.
fn by_that_on(by: &str) -> String {
    if by.is_empty() { String::new() } else { format!(" by the one on {by}") }
}

/// So many domains.
fn so_many(fitting: usize) -> String {
    match fitting {
        0 => "none has".to_owned(),
        1 => "only 1 has".to_owned(),
        count => format!("only {count} have"),
    }
}

/// Disks that a copy could be on but for their space.
fn candidates(domains: &[DiskSpace]) -> String {
    match domains {
        [] => "there is no other such disk".to_owned(),
        domains => format!("free there: {}", spaces(domains)),
    }
}

/// Nodes that have something to do.
fn have(nodes: &[String]) -> String {
    let have = if nodes.len() == 1 { "has" } else { "have" };
    format!("{} {have}", nodes.join(", "))
}

/// The largest volume, and what else helps.
fn most_of(most: u64) -> String {
    let remedy = "remove a volume, or add a managed disk (`cards disk format`)";
    match most {
        0 => format!("There is no room for a smaller one, either: {remedy}"),
        most => format!("Make it {most} bytes at most, {remedy}"),
    }
}

/// What each failure domain has.
fn spaces(domains: &[DiskSpace]) -> String {
    if domains.is_empty() {
        return "no joined node has a managed disk".to_owned();
    }
    let one = |DiskSpace { domain, node, disk, room, is_away }: &DiskSpace| {
        if *is_away {
            return format!("node {node}, which has disk {node}:{disk}, is not joined: start it");
        }
        let domain = if domain == node { String::new() } else { format!("domain {domain}, ") };
        format!("{domain}disk {node}:{disk} has room for {room}")
    };
    domains.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A change that was refused. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum Refusal {
    /// The node is configured for another cluster.
    #[error(
        "node `{node}` wants to join cluster `{wanted}`, but this is the registry of cluster `{cluster}`; \
         correct `cluster` or the coordinator's address in its configuration"
    )]
    WrongCluster {
        /// The node.
        node: String,
        /// The cluster it wants.
        wanted: String,
        /// The cluster this is.
        cluster: String,
    },
    /// A name that cannot be part of a key.
    #[error("`{name}` is no name for a {kind}; use 1 to {length_max} letters, digits and any of . _ : @ + -")]
    BadName {
        /// What it should name.
        kind: String,
        /// The name, cut to a printable length.
        name: String,
        /// Longest name, in bytes.
        length_max: usize,
    },
    /// The caller's node was forgotten, or its name has gone to another machine.
    #[error(
        "the certificate of {name} was revoked: it was forgotten (`cards forget`), or another machine has its name now. For this \
         machine to join again: have a token made on the keeper's machine with `cards cluster token`; here move `identity` in the \
         node's state_dir away, and run `cards join` with the token; its node.toml stays"
    )]
    Revoked {
        /// As the certificate says it.
        name: String,
    },
    /// An address that cannot be one.
    #[error("node `{node}` gives `{address}` as its address; use `host:port` of at most 255 characters")]
    BadAddress {
        /// The node.
        node: String,
        /// The address, cut to a printable length.
        address: String,
    },
    /// Two nodes with one name.
    #[error(
        "the name `{name}` is in use by the live member at {address} (incarnation {incarnation}); if that is this \
         node before its restart, wait until its lease has ended (at most {wait_ms} ms) and join again, else give \
         this node another name"
    )]
    NameInUse {
        /// The name.
        name: String,
        /// Where the member that has it listens.
        address: String,
        /// That member's life.
        incarnation: Incarnation,
        /// When the lease ends unless it is renewed, in milliseconds from now.
        wait_ms: u64,
    },
    /// Two nodes with one address.
    #[error(
        "node `{node}` gives the address {address}, which the live member `{name}` has; correct `address`"
    )]
    AddressInUse {
        /// The node that wants to join.
        node: String,
        /// The address.
        address: String,
        /// The member that has it.
        name: String,
    },
    /// A join in a life that is over.
    #[error(
        "node `{name}` joins with incarnation {incarnation}, but incarnation {latest} is over already; restart \
         the node, which takes a larger one"
    )]
    OldIncarnation {
        /// The node.
        name: String,
        /// The incarnation it gave.
        incarnation: Incarnation,
        /// The largest the registry knows.
        latest: Incarnation,
    },
    /// The name is now another life's.
    #[error(
        "incarnation {incarnation} of node `{name}` has lost its name to incarnation {latest} at {address}; stop \
         one of the two, or give it another name"
    )]
    NameTaken {
        /// The node.
        name: String,
        /// The life that asks.
        incarnation: Incarnation,
        /// The life that has the name.
        latest: Incarnation,
        /// Where that one listens.
        address: String,
    },
    /// The node's lease has ended.
    #[error(
        "the lease of node `{name}` (incarnation {incarnation}) has ended, the cluster goes on without it; it must \
         drop its cache and join again with a larger incarnation"
    )]
    LeaseEnded {
        /// The node.
        name: String,
        /// The life that ended.
        incarnation: Incarnation,
    },
    /// This life has not joined.
    #[error(
        "incarnation {incarnation} of node `{name}` has not joined, the latest that did is {latest}; join first"
    )]
    NotJoined {
        /// The node.
        name: String,
        /// The life that asks.
        incarnation: Incarnation,
        /// The latest that joined.
        latest: Incarnation,
    },
    /// The node has left.
    #[error("node `{name}` left the cluster in epoch {epoch}; join again to use it")]
    HasLeft {
        /// The node.
        name: String,
        /// The epoch its absence began.
        epoch: Epoch,
    },
    /// The node is leaving and gets nothing new.
    #[error("node `{name}` is leaving the cluster; let it leave, then join again")]
    Leaving {
        /// The node.
        name: String,
    },
    /// A clock that nobody should trust.
    #[error(
        "the clock of node `{name}` says {node}, the coordinator's says {coordinator}; they may differ by \
         {bound_ms} ms at most: set both by NTP"
    )]
    ClockOff {
        /// The node.
        name: String,
        /// Its clock.
        node: WallClock,
        /// The coordinator's.
        coordinator: WallClock,
        /// The bound, in milliseconds.
        bound_ms: u64,
    },
    /// The registry is older than what a node remembers.
    #[error(
        "node `{name}` has seen epoch {seen}, but this registry is at epoch {epoch}: it was restored from an old \
         copy; bring back the newer one, or create one that begins above epoch {seen}"
    )]
    RegistryBehind {
        /// The node.
        name: String,
        /// What it has seen.
        seen: Epoch,
        /// Where the registry is.
        epoch: Epoch,
    },
    /// No such member.
    #[error("there is no member `{name}`; join it first, or see `cards status` for the names")]
    UnknownMember {
        /// The name.
        name: String,
    },
    /// No such disk.
    #[error("there is no disk `{disk}`; start the node it is plugged into, which tells of it")]
    UnknownDisk {
        /// The physical ID.
        disk: String,
    },
    /// No such volume.
    #[error("there is no volume `{volume}`; create it first, or see `cards status` for the names")]
    UnknownVolume {
        /// The name.
        volume: String,
    },
    /// A member that lives is not forgotten.
    #[error("member `{name}` is live; let it leave, or stop it and wait until its lease has ended")]
    StillLive {
        /// The member.
        name: String,
    },
    /// A member that has disks is not forgotten.
    #[error(
        "member `{name}` has disk `{disk}`; run `cards forget {name} --with-disks` if that disk does not come back"
    )]
    HasDisk {
        /// The member.
        name: String,
        /// One of its disks.
        disk: String,
    },
    /// Two nodes tell of one disk.
    #[error(
        "disk `{disk}` is in use at the live member `{node}`; stop that node before another one takes the disk"
    )]
    DiskInUse {
        /// The physical ID.
        disk: String,
        /// The member that has it.
        node: String,
    },
    /// Two nodes with one store would vote twice.
    #[error(
        "the store of `{node}` is that of member `{other}` as well: the file `register` of one was copied to the other; stop \
         `{node}`, remove the file in its state_dir, and start it again"
    )]
    StoreInUse {
        /// The node.
        node: String,
        /// The member that has it.
        other: String,
    },
    /// A disk under a volume is not removed.
    #[error("disk `{disk}` has volume `{volume}`; remove the disk with its volumes")]
    HasVolume {
        /// The physical ID.
        disk: String,
        /// One of its volumes.
        volume: String,
    },
    /// A block size that no cache can have.
    #[error("volume `{volume}` has blocks of {bytes} bytes; use a power of two from 4 KiB to 1 MiB")]
    BadBlockSize {
        /// The volume.
        volume: String,
        /// The size, in bytes.
        bytes: u64,
    },
    /// A policy that is too long to be one.
    #[error("volume `{volume}` has a policy of {bytes} bytes; use 1 to {bytes_max} bytes")]
    BadPolicy {
        /// The volume.
        volume: String,
        /// Length of the text, in bytes.
        bytes: usize,
        /// Longest text, in bytes.
        bytes_max: usize,
    },
    /// A volume that nobody could attach.
    #[error("volume `{volume}` allows no attach mode; allow at least one of rw, ro and exclusive")]
    NoModes {
        /// The volume.
        volume: String,
    },
    /// A volume in use keeps its definition.
    #[error("volume `{volume}` is attached at node `{node}`; detach it there first")]
    StillAttached {
        /// The volume.
        volume: String,
        /// One of the nodes.
        node: String,
    },
    /// The volume does not allow the mode.
    #[error("volume `{volume}` does not allow `{mode}`; attach it in another mode or allow this one")]
    ModeNotAllowed {
        /// The volume.
        volume: String,
        /// The mode.
        mode: AttachMode,
    },
    /// Another node's attachment is in the way.
    #[error(
        "node `{node}` has volume `{volume}` attached `{held}`, which excludes `{mode}`; detach it there, or stop \
         that node and wait until its lease has ended"
    )]
    AttachConflict {
        /// The volume.
        volume: String,
        /// The mode that was asked for.
        mode: AttachMode,
        /// The node in the way.
        node: String,
        /// Its mode.
        held: AttachMode,
    },
    /// A member that still has volumes attached has not drained.
    #[error("node `{name}` still has volume `{volume}` attached; detach it before the node leaves")]
    NotDrained {
        /// The node.
        name: String,
        /// One of its volumes.
        volume: String,
    },
    /// A limit.
    #[error("the registry has {max} {kind} already, which is the limit; remove one first")]
    TooMany {
        /// Of what.
        kind: String,
        /// The limit.
        max: usize,
    },
    /// One managed disk at two nodes: it was moved, or one of two is a copy. Only the other node knows.
    #[error(
        "managed disk {disk} has UUID {uuid}, which the registry has at the live member `{node}`: if it was moved from there, it may be the only \
         original of what is on it, and belongs back there; if `{node}` has it still, one of the two is a copy, which is to be taken out of its node"
    )]
    DiskCloned {
        /// The disk where it is told of second, as `NODE:DISK`.
        disk: String,
        /// Its UUID.
        uuid: String,
        /// The member that has it.
        node: String,
    },
    /// A managed disk with columns at another node.
    #[error(
        "managed disk {disk} was at node `{node}`, and has a copy of volume `{volume}` for that node; put it back there"
    )]
    DiskMoved {
        /// The disk where it is now, as `NODE:DISK`.
        disk: String,
        /// The node of its columns.
        node: String,
        /// A volume that has a column on it.
        volume: String,
    },
    /// A managed disk under the name of one that has columns.
    #[error(
        "managed disk {disk} is not the disk that had this name before: that one ({uuid}) has a copy of volume `{volume}`; bring it back, or \
         give the new disk another name"
    )]
    DiskReplaced {
        /// What the node calls both, as `NODE:DISK`.
        disk: String,
        /// The UUID of the one before.
        uuid: String,
        /// A volume that has a column on it.
        volume: String,
    },
    /// No such managed disk.
    #[error("no node has told of a managed disk {disk}; start the node that has it")]
    UnknownManagedDisk {
        /// Its UUID.
        disk: String,
    },
    /// A managed disk whose node is not there.
    #[error(
        "managed disk `{disk}` is at node `{node}`, which is not joined; start that node, or choose another disk"
    )]
    DiskAway {
        /// What its node calls it.
        disk: String,
        /// The node.
        node: String,
    },
    /// A managed disk under a volume is not removed.
    #[error(
        "managed disk `{disk}` of node `{node}` has a copy of volume `{volume}`: run `cards volume replace {} --from {node}:{disk}`, or for all \
         copies there `cards disk drain {node}:{disk}`, and this again when the new ones are in sync",
        whole(volume)
    )]
    HasColumn {
        /// What its node calls it.
        disk: String,
        /// The node.
        node: String,
        /// One of its volumes.
        volume: String,
    },
    /// The name is that of a volume on one disk.
    #[error("volume `{volume}` exists, on a disk of node `{node}`; choose another name")]
    VolumeNameTaken {
        /// The name.
        volume: String,
        /// The node.
        node: String,
    },
    /// The name is that of a volume over managed disks.
    #[error(
        "volume `{volume}` exists, on managed disks of several nodes (`cards volume show {volume}`); choose another name"
    )]
    VolumeExists {
        /// The name.
        volume: String,
    },
    /// A name that managed disks cannot have in their tables.
    #[error(
        "volume `{volume}` cannot be on managed disks: name it with letters, digits, dots, dashes and underscores only"
    )]
    BadDiskName {
        /// The name.
        volume: String,
    },
    /// Another volume has the UUID.
    #[error("volume `{volume}` cannot have UUID {uuid}, which is nil or another volume's; draw another one")]
    UuidTaken {
        /// The volume.
        volume: String,
        /// The UUID.
        uuid: String,
    },
    /// A size that no volume can have.
    #[error(
        "volume `{volume}` cannot have {bytes} bytes; use a multiple of 4096, from 4096 to {bytes_max} with blocks of this size"
    )]
    BadSize {
        /// The volume.
        volume: String,
        /// The size.
        bytes: u64,
        /// The most, in bytes.
        bytes_max: u64,
    },
    /// A volume does not become smaller.
    #[error(
        "volume `{volume}` has {bytes} bytes and cannot have {wanted}: a volume does not become smaller. Create one of that size, copy what is \
         needed to it, and remove this one"
    )]
    Shrinks {
        /// The volume.
        volume: String,
        /// Its size.
        bytes: u64,
        /// The size that it was to have.
        wanted: u64,
    },
    /// The volume becomes larger already.
    #[error(
        "volume `{volume}` is growing to {bytes} bytes already; `cards volume show {volume}` says what it waits for. Try again when it has that \
         size, or keep the one that it has: `cards volume resize {volume} --cancel`"
    )]
    Growing {
        /// The volume.
        volume: String,
        /// The size that it is to have.
        bytes: u64,
    },
    /// The volume has its new size in a moment.
    #[error(
        "all copies of volume `{volume}` have the space for {bytes} bytes: this cannot be cancelled any more, and it has that size as soon as the primaries \
         take writes there; `cards volume show {volume}` names the nodes that it waits for"
    )]
    GrowthMade {
        /// The volume.
        volume: String,
        /// The size that it is to have.
        bytes: u64,
    },
    /// A copy is not in sync.
    #[error(
        "volume `{volume}` cannot grow while its copy on {copy} is not in sync: wait until it is (`cards volume show {}`), start its node, or run \
         `cards volume replace {} --from {copy}`",
        whole(volume),
        whole(volume)
    )]
    NotInSync {
        /// The volume.
        volume: String,
        /// The disk of the copy, as `NODE:DISK`.
        copy: String,
    },
    /// A copy is being replaced.
    #[error(
        "volume `{volume}` cannot grow while its copy on {from} is being replaced{}: wait until that has left (`cards volume show {}`)",
        by_that_on(by),
        whole(volume)
    )]
    GrowthAfterReplacement {
        /// The volume.
        volume: String,
        /// The disk whose copy leaves, as `NODE:DISK`.
        from: String,
        /// The disk of the new copy; empty if it is in sync already.
        by: String,
    },
    /// The node of a copy is not there.
    #[error(
        "volume `{volume}` cannot grow while node `{node}`, which has its copy on {copy}, is not joined: start it, or run `cards volume replace {} \
         --from {copy}` and try again when the new copy is in sync",
        whole(volume)
    )]
    GrowthAway {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
        /// The disk of the copy, as `NODE:DISK`.
        copy: String,
    },
    /// The disks of the volume have too little room.
    #[error(
        "volume `{volume}` has {bytes} bytes and cannot grow to {wanted} on its disks: {}. Make it {most} bytes at most, remove another volume there, \
         or move its copies to larger disks (`cards volume replace {volume} --from {}`)",
        lacking(disks),
        disks.first().map_or("NODE:DISK", |lacking| lacking.disk.as_str())
    )]
    NoGrowth {
        /// The volume.
        volume: String,
        /// Its size.
        bytes: u64,
        /// The size that it was to have.
        wanted: u64,
        /// The largest size that fits.
        most: u64,
        /// The disks with too little room.
        disks: Vec<GrowthSpace>,
    },
    /// A number of copies that no volume can have.
    #[error("volume `{volume}` cannot have {copies} copies; use 2 to {copies_max}")]
    BadCopies {
        /// The volume.
        volume: String,
        /// The copies.
        copies: u8,
        /// The most.
        copies_max: usize,
    },
    /// Another number of disks than of copies.
    #[error(
        "volume `{volume}` has {copies} copies, and {} named for them; name one disk for each",
        if *disks == 1 { "1 disk is".to_owned() } else { format!("{disks} disks are") }
    )]
    OtherCopies {
        /// The volume.
        volume: String,
        /// The copies.
        copies: u8,
        /// The disks.
        disks: usize,
    },
    /// Two columns would be lost together.
    #[error(
        "volume `{volume}` cannot have copies on both {disks}: they are in one failure domain (`{domain}`), and would be lost together; \
         name disks of different nodes"
    )]
    SameDomain {
        /// The volume.
        volume: String,
        /// Both, as `NODE:DISK and NODE:DISK`.
        disks: String,
        /// The domain.
        domain: String,
    },
    /// No room.
    #[error(
        "volume `{volume}` needs {bytes} bytes in each of {copies} failure domains, and {} that: {}; make it smaller or with fewer copies, \
         remove a volume, or add a managed disk (`cards disk format`)",
        so_many(*fitting),
        spaces(domains)
    )]
    NoPlace {
        /// The volume.
        volume: String,
        /// Its copies.
        copies: u8,
        /// The size of each, in bytes.
        bytes: u64,
        /// Domains with so much room.
        fitting: usize,
        /// The best disk of each domain.
        domains: Vec<DiskSpace>,
    },
    /// Too few failure domains for the copies of each part of a volume, whatever its size.
    #[error(
        "volume `{volume}` has {copies} copies of each part, which need as many failure domains, and {} a managed disk with room: {}; make it with \
         fewer copies, or add a managed disk at another node (`cards disk format`)",
        so_many(*fitting),
        spaces(domains)
    )]
    FewDomains {
        /// The volume.
        volume: String,
        /// Its copies.
        copies: u8,
        /// Domains that have such a disk.
        fitting: usize,
        /// The disks.
        domains: Vec<DiskSpace>,
    },
    /// No room for the parts of a volume.
    #[error(
        "volume `{volume}` does not fit: {shape}; {}. {}",
        spaces(domains),
        most_of(*most)
    )]
    NoStripes {
        /// The volume.
        volume: String,
        /// The parts that it would have, and their size.
        shape: String,
        /// The largest volume that fits, in bytes.
        most: u64,
        /// The disks.
        domains: Vec<DiskSpace>,
    },
    /// Only some layouts are made of several groups.
    #[error(
        "volume `{volume}` cannot be {layout}; make it raid10, raid0 or linear, or raid1, which is one group"
    )]
    BadLayout {
        /// The volume.
        volume: String,
        /// The layout.
        layout: String,
    },
    /// A disk is named twice.
    #[error("volume `{volume}` cannot have disk {disk} twice; name each disk once")]
    SameDisk {
        /// The volume.
        volume: String,
        /// The disk, as `NODE:DISK`.
        disk: String,
    },
    /// No copy there.
    #[error("volume `{volume}` has no copy on disk {disk}: its copies are on {}", copies.join(", "))]
    NoCopyThere {
        /// The volume.
        volume: String,
        /// The disk.
        disk: String,
        /// The disks of its copies, each as `NODE:DISK`.
        copies: Vec<String>,
    },
    /// A copy that is replaced already.
    #[error(
        "the copy of volume `{volume}` on {from} is being replaced{1} already; `cards volume show {0}` shows how far it is{2}",
        whole(volume),
        by_that_on(by),
        if by.is_empty() {
            String::new()
        } else {
            format!(". To give up the new copy for another one: `cards volume replace {} --from {by}`", whole(volume))
        }
    )]
    BeingReplaced {
        /// The volume.
        volume: String,
        /// The disk whose copy leaves, as `NODE:DISK`.
        from: String,
        /// The disk of the new copy.
        by: String,
    },
    /// The disk has a copy.
    #[error("managed disk {disk} has a copy of volume `{volume}`; choose another one")]
    HasCopy {
        /// The volume.
        volume: String,
        /// The disk, as `NODE:DISK`.
        disk: String,
    },
    /// One node cannot have two copies.
    #[error(
        "volume `{volume}` cannot have a copy on {disk} while it has one on {copy}, at the same node: choose a disk of another node, or run \
         this when that copy is not in sync any more, because its disk is out"
    )]
    SameNode {
        /// The volume.
        volume: String,
        /// The disk, as `NODE:DISK`.
        disk: String,
        /// The disk of the copy there.
        copy: String,
    },
    /// The disk is too full.
    #[error(
        "a copy of volume `{volume}` takes {bytes} bytes, and managed disk {disk} has {room} for it: {free} free, less copies that are to be \
         made there; choose another disk, or remove a volume there"
    )]
    NoRoom {
        /// The volume.
        volume: String,
        /// The disk, as `NODE:DISK`.
        disk: String,
        /// What the copy takes.
        bytes: u64,
        /// What is free.
        free: u64,
        /// What is free and not reserved.
        room: u64,
    },
    /// No disk for another copy.
    #[error(
        "no managed disk can have the copy of volume `{volume}` that is on {from}: it needs {bytes} bytes in a failure domain, and at a node, \
         where the volume has no other copy; {}; {}",
        candidates(domains),
        if domains.is_empty() {
            "add a managed disk at another node (`cards disk format`)"
        } else {
            "add a managed disk (`cards disk format`), or make room"
        }
    )]
    NoSpare {
        /// The volume.
        volume: String,
        /// The disk whose copy is to leave, as `NODE:DISK`.
        from: String,
        /// The size of a copy, in bytes.
        bytes: u64,
        /// The disks in other domains.
        domains: Vec<DiskSpace>,
    },
    /// All places are taken.
    #[error(
        "volume `{volume}` has {copies_max} copies, the most, counting those that have left and are on their disks still: {}; start their nodes, \
         or run `cards forget NODE --with-disks` for what does not come back",
        copies.join(", ")
    )]
    NoNumber {
        /// The volume.
        volume: String,
        /// The most.
        copies_max: usize,
        /// Their disks, each as `NODE:DISK`.
        copies: Vec<String>,
    },
    /// Copies of a volume that is being made or removed are not replaced or forced.
    #[error(
        "volume `{volume}` is {state}: its copies cannot change now; see `cards volume show {}`",
        whole(volume)
    )]
    NotMade {
        /// The volume.
        volume: String,
        /// What it is.
        state: GroupState,
    },
    /// A copy in sync is there.
    #[error(
        "volume `{volume}` has a copy in sync on {copy}, and its node is there: nothing has to be forced; if it is not served, `cards status` at that \
         node says why. If that node or its disk does not come back, stop its daemon, and try again when `cards status` calls it dead"
    )]
    ForceNotNeeded {
        /// The volume.
        volume: String,
        /// The disk of the copy, as `NODE:DISK`.
        copy: String,
    },
    /// No copy has what a new one is to be filled with.
    #[error(
        "no copy of volume `{volume}` can be replaced: those in sync ({}) were put back to earlier images, so that a new one cannot be filled; \
         bring their disks back as they were, or choose the copy that is to be the truth with `cards volume force {} --from NODE`",
        copies.join(", "),
        named(volume)
    )]
    NoSource {
        /// The volume.
        volume: String,
        /// The disks of the copies in sync, as `NODE:DISK`.
        copies: Vec<String>,
    },
    /// No copy in sync is at a node that is there.
    #[error(
        "volume `{volume}`: {} on {}, and {}: a new copy would have nothing to be filled from. Start {}, then replace it; if that is gone for good, {}",
        if *alone { "its only copy is" } else { "all its copies in sync are" },
        copies.join(", "),
        if copies.len() == 1 { "the node of that is away" } else { "the nodes of these are away" },
        if copies.len() == 1 { "that node with that disk" } else { "one of these nodes with its disk" },
        if *alone {
            "so is what was on it: remove the volume, and make it anew from a backup".to_owned()
        } else {
            format!("`cards volume force {} --from NODE` chooses another copy, and what that one lacks is lost", named(volume))
        }
    )]
    SourcesAway {
        /// The volume.
        volume: String,
        /// The disks of the copies in sync, as `NODE:DISK`.
        copies: Vec<String>,
        /// It has one copy only.
        alone: bool,
    },
    /// The node of the copy is not there.
    #[error(
        "node `{node}` is not joined, and volume `{volume}` cannot be served from its copy; start it first"
    )]
    ForceAway {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
    },
    /// No such column.
    #[error(
        "volume {volume} has no copy on disk {disk} of node `{node}`; `cards volume show NAME --map` says where a volume has its copies"
    )]
    UnknownColumn {
        /// The UUID of the volume.
        volume: String,
        /// The node.
        node: String,
        /// The UUID of the disk.
        disk: String,
    },
    /// The volume is going.
    #[error(
        "volume `{volume}` is being removed, and {} still to remove its copy: start those of them that are down, or run `cards forget NODE \
         --with-disks` for those that do not come back",
        have(nodes)
    )]
    BeingRemoved {
        /// The volume.
        volume: String,
        /// Nodes with a column.
        nodes: Vec<String>,
    },
    /// The volume stays.
    #[error(
        "node `{node}` says that it has removed its copy of volume `{volume}`, which is to stay: `cards volume replace {} --from {node}` \
         has another one made",
        whole(volume)
    )]
    NotBeingRemoved {
        /// The volume.
        volume: String,
        /// The node.
        node: String,
    },
    /// The volume is not made yet, or is going.
    #[error(
        "volume `{volume}` cannot be attached while it is {state}; `cards volume show {volume}` names the nodes that it waits for"
    )]
    NotReady {
        /// The volume.
        volume: String,
        /// What it is.
        state: GroupState,
    },
    /// No such map.
    #[error(
        "volume {number} has no map: it was removed, or is not made yet; `cards status` lists the volumes that there are"
    )]
    UnknownMap {
        /// The number of the volume.
        number: u32,
    },
    /// Another map is there than the one that was to be replaced.
    #[error(
        "the map of volume `{volume}` is of epoch {epoch} (generation {generation}, fence {fence}), not the one before what was proposed; \
         read it first"
    )]
    MapNotTaken {
        /// The volume.
        volume: String,
        /// The generation of the map that is there.
        generation: u32,
        /// Its epoch.
        epoch: u64,
        /// Its fence.
        fence: u64,
    },
    /// Another process is the primary now.
    #[error(
        "the primary of volume `{volume}` that took over in epoch {since} is it no more: another one took over in epoch {epoch}; \
         ask that one"
    )]
    NotPrimary {
        /// The volume.
        volume: String,
        /// The epoch in which the process took over that asked.
        since: u64,
        /// The epoch in which the present primary took over.
        epoch: u64,
    },
    /// What was proposed is no map of the volume.
    #[error("what was proposed is no map of volume `{volume}`: {problem}")]
    BadMap {
        /// The volume.
        volume: String,
        /// Why.
        problem: String,
    },
    /// Terms that no cluster can have.
    #[error("{term} is {value_ms} ms; use {min_ms} to {max_ms} ms")]
    BadTerm {
        /// Which.
        term: String,
        /// Its value, in milliseconds.
        value_ms: u64,
        /// The least, in milliseconds.
        min_ms: u64,
        /// The most, in milliseconds.
        max_ms: u64,
    },
}
