//! The first frame in each direction: who speaks, and whether the two may talk.

use cards_core::{Coherence, Handover, PgId, VolumeSpec};
use thiserror::Error;

use super::body::{Reader, Writer};
use super::versions::{LIVES, Versions};
use super::{FrameError, LIVES_MAX, MAX_BLOCK, MAX_LANES, MAX_NAME, MAX_POLICY};

/// The smallest block in bytes.
const MIN_BLOCK: u32 = 4096;

/// The sizes of blocks there are, each with what stands for it on the wire: its FNV-1a hash. Earlier versions hashed with it the
/// members that a configuration could list.
fn blocks() -> impl Iterator<Item = (u32, u64)> {
    let hash = |bytes: [u8; 4]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    (MIN_BLOCK.ilog2()..=MAX_BLOCK.ilog2())
        .map(|bits| 1_u32 << bits)
        .map(move |block| (block, hash(block.to_le_bytes())))
}

/// A node's introduction. Its body starts with the names of cluster and node, in this and every future
/// version of the protocol, so that a node of another version can be refused by name. Later versions only add to its end:
/// what a node does not know there it passes over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Which versions of the protocol the node speaks. The newest is in the header, the oldest at the end of the body.
    pub versions: Versions,
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// Bytes of a block, a power of two from 4 KiB to 1 MiB; none if the node lists members in its configuration, which an
    /// earlier release could.
    pub block: Option<u32>,
    /// Shards of each node's core.
    pub shards: u16,
    /// Grows with each start of the node.
    pub incarnation: u64,
    /// The incarnations of the node's last processes on the same machine, which are over for certain, the latest first, at most
    /// [`LIVES_MAX`]; none if they are not known.
    pub succeeds: Vec<u64>,
    /// What the coordinator calls this membership of the node; none without a coordinator.
    pub membership: Option<u64>,
    /// The highest epoch the node has heard of; zero without a coordinator.
    pub epoch: u64,
    /// Lanes for reads that the node wants beside the first lane, at most [`MAX_LANES`]. A link has as many as the end
    /// that wants more; with none, reads go by the first lane.
    pub lanes: u16,
    /// The lane of its link that this connection is, from 0. The end that is dialled repeats it, and the next field.
    pub lane: u16,
    /// The number of the link, from the node that dials: later links of one incarnation have higher ones.
    pub link: u64,
    /// The volumes on the node's disks, at most [`PgId::MAX_DISKS`].
    pub disks: Vec<VolumeSpec>,
}

/// Why two nodes may not talk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// Another cluster.
    #[error(
        "node {node} belongs to cluster {theirs:?}, this node to {ours:?}; check the addresses of the members"
    )]
    Cluster {
        /// The peer.
        node: String,
        /// Its cluster.
        theirs: String,
        /// This node's.
        ours: String,
    },
    /// Another size of blocks.
    #[error(
        "node {node} caches blocks of {theirs} bytes, this node of {ours}; set the same `block` on all nodes"
    )]
    Block {
        /// The peer.
        node: String,
        /// Its size, in bytes.
        theirs: u32,
        /// This node's.
        ours: u32,
    },
    /// A list of members in the peer's configuration.
    #[error(
        "node {node} lists the members in its configuration, as an earlier release could; make it a member with `cards join`"
    )]
    Members {
        /// The peer.
        node: String,
    },
    /// Another number of shards.
    #[error(
        "node {node} has {theirs} shards, this node {ours}, and all nodes of a cluster have one number: write `shards = {ours}` into the file of node \
         {node}, or `shards = {theirs}` into this node's, whichever of the two is new, and restart that one"
    )]
    Shards {
        /// The peer.
        node: String,
        /// Its shards.
        theirs: u16,
        /// This node's.
        ours: u16,
    },
}

impl Hello {
    /// Whether the node that sent `self` may talk to the node that says `ours`.
    ///
    /// # Errors
    /// What differs; the connection ends without any change of state.
    pub fn check(&self, ours: &Hello) -> Result<(), Mismatch> {
        let node = self.node.clone();
        if self.cluster != ours.cluster {
            let (theirs, ours) = (self.cluster.clone(), ours.cluster.clone());
            return Err(Mismatch::Cluster { node, theirs, ours });
        }
        match (self.block, ours.block) {
            (theirs, ours) if theirs == ours => {}
            (Some(theirs), Some(ours)) => return Err(Mismatch::Block { node, theirs, ours }),
            _ => return Err(Mismatch::Members { node }),
        }
        if self.shards != ours.shards {
            return Err(Mismatch::Shards { node, theirs: self.shards, ours: ours.shards });
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, FrameError> {
        let mut out = Writer::default();
        out.string("cluster name", &self.cluster, MAX_NAME)?;
        out.string("node name", &self.node, MAX_NAME)?;
        out.u64(blocks().find(|(block, _)| Some(*block) == self.block).map_or(0, |(_, hash)| hash));
        out.u16(self.shards);
        out.u64(self.incarnation);
        out.u64(self.succeeds.first().copied().unwrap_or(0));
        out.u64(self.membership.unwrap_or(0));
        out.u64(self.epoch);
        out.u16(self.lanes);
        out.u16(self.lane);
        out.u64(self.link);
        out.length("list of disks", self.disks.len(), usize::from(PgId::MAX_DISKS))?;
        for disk in &self.disks {
            encode_disk(&mut out, disk)?;
        }
        out.byte(self.versions.oldest);
        if self.versions.newest >= LIVES {
            let earlier = self.succeeds.get(1..).unwrap_or_default();
            out.length("list of earlier lives", earlier.len(), LIVES_MAX - 1)?;
            earlier.iter().for_each(|life| out.u64(*life));
        }
        Ok(out.bytes)
    }

    /// Decodes the body of one that says that its sender speaks `newest` and earlier versions.
    pub(super) fn decode(newest: u8, body: &[u8]) -> Result<Self, FrameError> {
        let ours = Versions::default();
        let refused = || FrameError::Version { theirs: newest, who: name_of_any_version(body) };
        if newest < ours.oldest {
            return Err(refused());
        }
        match Self::read(newest, body) {
            Ok(hello) if ours.agree(hello.versions).is_some() => Ok(hello),
            Err(error) if newest <= ours.newest => Err(error),
            _ => Err(refused()),
        }
    }

    fn read(newest: u8, body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let cluster = reader.string("cluster name", MAX_NAME)?;
        let node = reader.string("node name", MAX_NAME)?;
        let hash = reader.u64("size of blocks")?;
        let block = blocks().find(|(_, of)| *of == hash).map(|(block, _)| block);
        let shards = reader.u16("number of shards")?;
        if !shards.is_power_of_two() {
            return Err(FrameError::Field { what: "number of shards", value: shards.into() });
        }
        let incarnation = reader.u64("incarnation")?;
        let last = reader.u64("incarnation before")?;
        let membership = Some(reader.u64("membership")?).filter(|&membership| membership > 0);
        let epoch = reader.u64("epoch")?;
        let lanes = lane_number(&mut reader, "number of lanes")?;
        let lane = lane_number(&mut reader, "lane")?;
        let link = reader.u64("number of the link")?;
        let count = reader.length("list of disks", usize::from(PgId::MAX_DISKS))?;
        let disks = (0..count).map(|_| decode_disk(&mut reader)).collect::<Result<_, _>>()?;
        let oldest = reader.byte("oldest version")?;
        if oldest > newest {
            return Err(FrameError::Field { what: "oldest version", value: oldest.into() });
        }
        let mut succeeds: Vec<u64> = Some(last).filter(|&life| life > 0).into_iter().collect();
        if newest >= LIVES {
            let count = reader.length("list of earlier lives", LIVES_MAX - 1)?;
            if count > 0 && last == 0 {
                return Err(FrameError::Field { what: "list of earlier lives", value: count as u64 });
            }
            for _ in 0..count {
                succeeds.push(reader.u64("an earlier life")?);
            }
        }
        if newest <= Versions::default().newest {
            reader.end()?;
        }
        Ok(Self {
            versions: Versions { oldest, newest },
            cluster,
            node,
            block,
            shards,
            incarnation,
            succeeds,
            membership,
            epoch,
            lanes,
            lane,
            link,
            disks,
        })
    }
}

fn lane_number(reader: &mut Reader<'_>, what: &'static str) -> Result<u16, FrameError> {
    let value = reader.u16(what)?;
    if value > MAX_LANES {
        return Err(FrameError::Field { what, value: value.into() });
    }
    Ok(value)
}

/// The sender of a Hello of an unknown version, `node of cluster`, as far as it can be read.
pub(super) fn name_of_any_version(body: &[u8]) -> Option<String> {
    let mut reader = Reader::new(body);
    let cluster = reader.string("cluster name", MAX_NAME).ok()?;
    let node = reader.string("node name", MAX_NAME).ok()?;
    Some(format!("node {node} of cluster {cluster}"))
}

fn encode_disk(out: &mut Writer, disk: &VolumeSpec) -> Result<(), FrameError> {
    let VolumeSpec {
        id,
        primary,
        epoch,
        name,
        size_bytes,
        block_bytes,
        policy,
        read_only,
        content,
        network_attached,
        coherence,
        handover,
    } = disk;
    out.volume(*id);
    out.u16(primary.0);
    out.u64(*epoch);
    out.string("volume name", name, MAX_NAME)?;
    out.u64(*size_bytes);
    out.u32(*block_bytes);
    out.string("policy", policy, MAX_POLICY)?;
    out.flag(*read_only);
    out.u64(*content);
    out.flag(*network_attached);
    out.byte(match coherence {
        Coherence::Confirmed => 0,
        Coherence::Policy => 1,
    });
    out.byte(match handover {
        Handover::Cache => 0,
        Handover::Disk => 1,
    });
    Ok(())
}

fn decode_disk(reader: &mut Reader<'_>) -> Result<VolumeSpec, FrameError> {
    let spec = VolumeSpec {
        id: reader.volume()?,
        primary: reader.node()?,
        epoch: reader.u64("epoch")?,
        name: reader.string("volume name", MAX_NAME)?,
        size_bytes: reader.u64("size of a volume")?,
        block_bytes: reader.u32("block size")?,
        policy: reader.string("policy", MAX_POLICY)?,
        read_only: reader.flag("read-only flag")?,
        content: reader.u64("identity of contents")?,
        network_attached: reader.flag("network-attached flag")?,
        coherence: match reader.byte("coherence")? {
            0 => Coherence::Confirmed,
            1 => Coherence::Policy,
            value => return Err(FrameError::Field { what: "coherence", value: value.into() }),
        },
        handover: match reader.byte("hand-over")? {
            0 => Handover::Cache,
            1 => Handover::Disk,
            value => return Err(FrameError::Field { what: "hand-over", value: value.into() }),
        },
    };
    let block = spec.block_bytes;
    if !block.is_power_of_two() || !(MIN_BLOCK..=MAX_BLOCK).contains(&block) {
        return Err(FrameError::Field { what: "block size", value: block.into() });
    }
    // Blocks are numbered in 32 bits.
    if spec.size_bytes.div_ceil(u64::from(block)) > u64::from(u32::MAX) {
        return Err(FrameError::Field {
            what: "size of a volume with this block size",
            value: spec.size_bytes,
        });
    }
    Ok(spec)
}
