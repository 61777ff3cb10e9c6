//! Why a read takes the way it takes: what every node knows of one block.

use serde::{Deserialize, Serialize};

/// One block of a volume, as all nodes see it, and the way that a read of it would take from one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The node that was asked, where the read would be.
    pub node: String,
    /// The volume.
    pub volume: String,
    /// Its policy, with all parameters.
    pub policy: String,
    /// The node that has the disk, and so is the home of the locks on copies.
    pub disk_node: String,
    /// The offset that was asked for, in bytes.
    pub offset: u64,
    /// The block that it is in.
    pub block: u32,
    /// Where the block begins, in bytes.
    pub block_offset: u64,
    /// Its length, in bytes.
    pub block_bytes: u32,
    /// The shard that it belongs to, at every node.
    pub shard: u16,
    /// The region of the lock service that it is in.
    pub region: u64,
    /// The home of its index entry, by the policy's placement.
    pub home: String,
    /// What a read would do, in one sentence.
    pub sentence: String,
    /// The same, node by node. The first is the one that was asked.
    pub way: Vec<Step>,
    /// What every live member knows of the block.
    pub nodes: Vec<NodeBlock>,
}

/// One node on the way of a read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The node.
    pub node: String,
    /// What happens there; none if it cannot be asked.
    pub course: Option<Course>,
    /// Why it cannot be asked.
    pub error: Option<String>,
}

/// What happens to a read at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "does", rename_all = "snake_case")]
pub enum Course {
    /// A copy is there that may be used.
    Served,
    /// It waits for a fetch that is under way.
    Joins,
    /// It waits until the card may be used.
    WaitsForCard,
    /// It waits until the write to the block has ended.
    WaitsForWrite,
    /// It waits for the lock on the copy that is there.
    WaitsForLock,
    /// The disk is read.
    Disk,
    /// Another node is asked.
    Asks {
        /// Which.
        to: String,
        /// It is to pass the question to nobody but the disk node.
        from_disk: bool,
    },
    /// It fails.
    Fails,
}

/// What one member knows of the block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBlock {
    /// Its name.
    pub node: String,
    /// What it knows; none if it did not answer.
    pub block: Option<Block>,
    /// Why it did not.
    pub error: Option<String>,
}

/// What a node knows of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The home of its index entry, as this node places it.
    pub home: String,
    /// A copy is in memory.
    pub cached: bool,
    /// It may not be used: the block is being written.
    pub locked: bool,
    /// It is there for another node, and has not been used there since.
    pub hosted: bool,
    /// It was read ahead, and has not been used since.
    pub ahead: bool,
    /// A copy is on its way to this node.
    pub leaving_to: Option<String>,
    /// A fetch is under way: what it waits for.
    pub under_way: Option<String>,
    /// It is being written, as far as this node knows.
    pub being_written: bool,
    /// Index entry: who delivered the copy there, towards older copies.
    pub previous: Option<String>,
    /// Index entry: who asked for the block last, towards newer copies.
    pub next: Option<String>,
    /// Who has a copy, as the policy believes without the index: its hints, or its directory.
    pub believed_holders: Vec<String>,
    /// This node's card of the volume.
    pub card: Option<Lease>,
    /// The range around the block, in bytes, on which this card holds the lock.
    pub held: Option<ByteRange>,
    /// The card asks for the lock beside the block.
    pub asks_lock: bool,
    /// What a read of a client would do there.
    pub course: Course,
    /// At the disk node: the cards of the other nodes.
    pub holders: Vec<Holder>,
    /// At the disk node: who has written the block last and is likely to have it.
    pub last_writer: Option<String>,
}

/// A node's card of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Which card; a later one has a higher number.
    pub generation: u64,
    /// Copies may be used for so many milliseconds more, if the lease is not renewed; none if no lease is needed.
    pub lease_ms: Option<u64>,
}

/// Another node's card, as the disk node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Whose.
    pub node: String,
    /// Which card.
    pub generation: u64,
    /// It may not write.
    pub reads_only: bool,
    /// Nobody can confirm anything on its behalf: a write waits for the end of its lease.
    pub lost: bool,
    /// The range around the block, in bytes, on which it may hold the lock: a write there asks it first.
    pub held: Option<ByteRange>,
}

/// Bytes of a volume. With several shards, only the blocks of the block's shard in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// Where it begins.
    pub start: u64,
    /// Where it ends: the first byte that is not in it.
    pub end: u64,
}
