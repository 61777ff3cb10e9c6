//! What a disk node has to do as its volumes are attached at more nodes: messages, processor time and memory, in the core
//! alone; and what a request costs the simulator with so many nodes.
//!
//! All nodes run in one thread and give each other their messages; nothing waits for a network or a disk. So messages are
//! exact, and processor time, of the thread and at the disk node alone, is what the protocol itself costs there.
//!
//! - A write to blocks that nobody else has: the first one in a region of 1,024 blocks, and later ones.
//! - A write to a block that all other nodes have.
//! - Renewals: with one volume and with several.
//! - What each input costs besides: to ask when to wake, and to wake for nothing.
//! - Memory of a card that does nothing.
//! - Memory of the directory when each block that is cached anywhere is in a region that nobody else reads.

mod cluster;
mod simulator;

use cards_core::Duration;
use serde::Serialize;

use crate::Error;
use crate::report::{Style, table};
use crate::stats::median;
use cluster::{CAPACITY, Cluster, LEASE};
use simulator::{Simulated, simulated};

/// What to measure.
#[derive(Debug, Clone)]
pub struct ScaleOptions {
    /// How many nodes have cards.
    pub cards: Vec<u16>,
    /// How often each is measured.
    pub rounds: u16,
}

/// Most nodes that can have cards of one disk node's volumes.
pub const CARDS_MAX: u16 = cards_core::NodeId::MAX_NODES as u16 - 1;

/// Writes that are under way at the same time.
const DEPTH: u32 = 32;
/// Blocks of a region.
const REGION: u32 = 1024;
/// Disks, where it is several.
const DISKS: u16 = 16;

/// Processor time at the disk node: the least of the rounds, and the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cpu {
    /// Microseconds.
    pub least_us: f64,
    /// Microseconds.
    pub median_us: f64,
}

/// A kind of write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Write {
    /// Which.
    pub what: &'static str,
    /// Nodes with a card, the writer among them.
    pub cards: u16,
    /// All messages of one write.
    pub messages: f64,
    /// Of one write.
    pub cpu: Cpu,
    /// Of one write, for each node that has the block, but the writer.
    pub per_holder_us: Option<f64>,
}

/// Renewals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Renewals {
    /// Nodes with cards.
    pub cards: u16,
    /// Volumes that each has attached.
    pub volumes: u16,
    /// Messages a second between one node and the disk node.
    pub per_pair: f64,
    /// Messages a second that the disk node hears and says.
    pub total: f64,
    /// Of one renewal.
    pub cpu: Cpu,
}

/// What an input costs besides, and what memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Idle {
    /// Nodes with cards.
    pub cards: u16,
    /// To ask when to wake: the control, then the shard, each with 16 volumes at each node. Nanoseconds.
    pub next_timeout_ns: [f64; 2],
    /// To wake for nothing.
    pub tick_ns: [f64; 2],
    /// Memory of one card at the disk node, in one shard and in the control.
    pub bytes_at_primary: Option<[f64; 2]>,
    /// Memory of the card at its own node.
    pub bytes_at_card: Option<[f64; 2]>,
    /// What the disk node's shard says that its tables take, with all cards.
    pub index_bytes: usize,
}

/// The directory at its largest: all caches are full, each block of a region of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Locks {
    /// Nodes with cards.
    pub cards: u16,
    /// Blocks that they have in their caches, together.
    pub cached: u64,
    /// Locks that were revoked for want of room.
    pub revoked: u64,
    /// Memory at the disk node for each block that is cached.
    pub bytes_per_block: Option<f64>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scale {
    /// Writes.
    pub writes: Vec<Write>,
    /// Renewals.
    pub renewals: Vec<Renewals>,
    /// The directory.
    pub locks: Vec<Locks>,
    /// The rest.
    pub idle: Vec<Idle>,
    /// The simulator.
    pub simulated: Vec<Simulated>,
}

/// Measures.
///
/// # Errors
/// The core did not do what it was asked for.
pub fn run(options: &ScaleOptions) -> Result<Scale, Error> {
    let mut scale = Scale {
        writes: Vec::new(),
        renewals: Vec::new(),
        locks: Vec::new(),
        idle: Vec::new(),
        simulated: Vec::new(),
    };
    // Memory that nobody has touched yet is paid for by whoever is first.
    let largest = options.cards.iter().copied().max().unwrap_or(1);
    drop(attached(largest, DISKS)?);
    for &cards in &options.cards {
        scale.writes.extend(writes(cards, options.rounds)?);
        for volumes in [1, DISKS] {
            scale.renewals.push(renewals(cards, volumes, options.rounds)?);
        }
        scale.locks.push(locks(cards)?);
        scale.idle.push(idle(cards)?);
        scale.simulated.push(simulated(cards, options.rounds)?);
    }
    Ok(scale)
}

fn attached(cards: u16, disks: u16) -> Result<Cluster, Error> {
    let mut cluster = Cluster::new(cards, disks);
    for node in 1..=cards {
        (0..disks).for_each(|disk| cluster.attach(node, disk));
    }
    expect("attach", u64::from(cards) * u64::from(disks), cluster.done)?;
    Ok(cluster)
}

fn expect(what: &'static str, wanted: u64, done: u64) -> Result<(), Error> {
    if wanted == done { Ok(()) } else { Err(Error::Core { what, wanted, done }) }
}

/// Rounds of one thing, each with so many operations, after one that does not count.
fn rounds(
    cluster: &mut Cluster,
    rounds: u16,
    mut round: impl FnMut(&mut Cluster, u32) -> Result<u64, Error>,
) -> Result<(f64, Cpu), Error> {
    let (mut times, mut messages) = (Vec::new(), 0.0);
    for number in 0..=rounds {
        let operations = round(cluster, u32::from(number))? as f64;
        if number > 0 {
            times.push(cluster.primary_ns as f64 / operations / 1e3);
            messages = cluster.messages as f64 / operations;
        }
    }
    let least_us = times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok((messages, Cpu { least_us, median_us: median(&times).unwrap_or(least_us) }))
}

fn reset(cluster: &mut Cluster) {
    (cluster.messages, cluster.primary_ns, cluster.done) = (0, 0, 0);
}

fn writes(cards: u16, repeat: u16) -> Result<[Write; 3], Error> {
    let mut cluster = attached(cards, 1)?;
    let write = |what, (messages, cpu): (f64, Cpu), per_holder_us| Write {
        what,
        cards,
        messages,
        cpu,
        per_holder_us,
    };
    let first = rounds(&mut cluster, repeat, |cluster, round| {
        reset(cluster);
        cluster.write(1, (0..DEPTH).map(|n| (1 + round * DEPTH + n) * REGION));
        expect("write", DEPTH.into(), cluster.done)?;
        Ok(DEPTH.into())
    })?;
    let later = rounds(&mut cluster, repeat, |cluster, round| {
        reset(cluster);
        cluster.write(1, (0..DEPTH).map(|n| REGION + 1 + round % 16 * DEPTH + n));
        expect("write", DEPTH.into(), cluster.done)?;
        Ok(DEPTH.into())
    })?;
    let holders = u64::from(cards - 1);
    let held = rounds(&mut cluster, repeat, |cluster, _| {
        reset(cluster);
        (2..=cards).for_each(|node| cluster.read(node, 0));
        expect("read", holders, cluster.done)?;
        reset(cluster);
        cluster.write(1, 0..1);
        expect("write", 1, cluster.done)?;
        Ok(1)
    })?;
    let per_holder = (holders > 0).then(|| held.1.median_us / holders as f64);
    Ok([
        write("first in a region", first, None),
        write("later in it", later, None),
        write("to a block that all have", held, per_holder),
    ])
}

fn renewals(cards: u16, volumes: u16, repeat: u16) -> Result<Renewals, Error> {
    let mut cluster = Cluster::new(cards, volumes);
    // They do not all begin at the same time.
    let apart = LEASE / 4 / u32::from(cards);
    for node in 1..=cards {
        (0..volumes).for_each(|disk| cluster.attach(node, disk));
        cluster.pass(apart);
    }
    expect("attach", u64::from(cards) * u64::from(volumes), cluster.done)?;
    const SECONDS: u32 = 3;
    let (messages, cpu) = rounds(&mut cluster, repeat, |cluster, _| {
        reset(cluster);
        cluster.pass(Duration::from_secs(SECONDS.into()));
        // Each has one answer.
        Ok((cluster.messages / 2).max(1))
    })?;
    expect("answer", 2, messages as u64)?;
    let total = cluster.messages as f64 / f64::from(SECONDS);
    Ok(Renewals { cards, volumes, per_pair: total / f64::from(cards), total, cpu })
}

fn locks(cards: u16) -> Result<Locks, Error> {
    let mut cluster = attached(cards, 1)?;
    reset(&mut cluster);
    let regions = (0..CAPACITY).flat_map(|n| (1..=cards).map(move |node| (node, n * u32::from(cards))));
    regions.for_each(|(node, n)| cluster.read(node, (n + u32::from(node)) * REGION));
    let reads = u64::from(cards) * u64::from(CAPACITY);
    expect("read", reads, cluster.done)?;
    let (cached, revoked) = (cluster.cached(), cluster.revoked());
    let bytes = |cluster: Cluster| cluster.bytes().map(|[[shard, _], _]| shard);
    let (with, without) = (bytes(cluster), bytes(attached(cards, 1)?));
    let grown = with.and_then(|with| Some(with - without?));
    Ok(Locks { cards, cached, revoked, bytes_per_block: grown.map(|bytes| bytes / cached as f64) })
}

fn idle(cards: u16) -> Result<Idle, Error> {
    let mut cluster = attached(cards, DISKS)?;
    let [control, control_tick, shard, shard_tick] = cluster.idle_ns();
    drop(cluster);
    let index_bytes = attached(cards, 1)?.index_bytes();
    let (with, without) = (attached(cards, 1)?.bytes(), Cluster::new(cards, 1).bytes());
    let grown = |at: usize| {
        let (with, without) = (with?[at], without?[at]);
        Some([0, 1].map(|part| (with[part] - without[part]) / f64::from(cards)))
    };
    Ok(Idle {
        cards,
        next_timeout_ns: [control, shard],
        tick_ns: [control_tick, shard_tick],
        bytes_at_primary: grown(0),
        bytes_at_card: grown(1),
        index_bytes,
    })
}

/// The tables.
#[must_use]
pub fn format(scale: &Scale, style: Style) -> String {
    let us = |us: f64| format!("{us:.2}");
    let writes = scale.writes.iter().map(|row| {
        let per_holder = row.per_holder_us.map_or(String::new(), us);
        let messages = format!("{:.1}", row.messages);
        let (least, median) = (us(row.cpu.least_us), us(row.cpu.median_us));
        vec![row.what.to_owned(), row.cards.to_string(), messages, least, median, per_holder]
    });
    let head = ["write", "cards", "messages", "CPU us, least", "median", "per holder"];
    let mut text = table(&head, &writes.collect::<Vec<_>>(), style);
    let renewals = scale.renewals.iter().map(|row| {
        let (pair, total) = (format!("{:.2}", row.per_pair), format!("{:.0}", row.total));
        let (least, median) = (us(row.cpu.least_us), us(row.cpu.median_us));
        vec![row.volumes.to_string(), row.cards.to_string(), pair, total, least, median]
    });
    let head =
        ["volumes", "cards", "messages/s of a pair", "in total", "CPU us of a renewal, least", "median"];
    text.push('\n');
    text += &table(&head, &renewals.collect::<Vec<_>>(), style);
    let locks = scale.locks.iter().map(|row| {
        let bytes = row.bytes_per_block.map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
        vec![row.cards.to_string(), row.cached.to_string(), row.revoked.to_string(), bytes]
    });
    let head = ["cards", "blocks cached", "locks revoked", "directory B a block"];
    text.push('\n');
    text += &table(&head, &locks.collect::<Vec<_>>(), style);
    let idle = scale.idle.iter().map(|row| {
        let pair = |[a, b]: [f64; 2]| format!("{a:.0} + {b:.0}");
        let bytes = |bytes: Option<[f64; 2]>| bytes.map_or("-".to_owned(), pair);
        vec![
            row.cards.to_string(),
            pair(row.next_timeout_ns),
            pair(row.tick_ns),
            bytes(row.bytes_at_primary),
            bytes(row.bytes_at_card),
            row.index_bytes.to_string(),
        ]
    });
    let head = [
        "cards",
        "next_timeout ns, control + shard",
        "tick",
        "B a card, shard + control",
        "at the card",
        "index B",
    ];
    text.push('\n');
    text += &table(&head, &idle.collect::<Vec<_>>(), style);
    let simulated = scale.simulated.iter().map(|row| {
        let messages = format!("{:.2}", row.messages);
        vec![row.nodes.to_string(), messages, us(row.cpu.least_us), us(row.cpu.median_us)]
    });
    let head = ["simulated nodes", "messages a request", "CPU us of the simulator, least", "median"];
    text.push('\n');
    text += &table(&head, &simulated.collect::<Vec<_>>(), style);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One renewal and its answer, each quarter of a lease, whatever there is to renew.
    #[test]
    fn a_pair_of_nodes_renews_once_for_all_its_volumes() {
        let scale = run(&ScaleOptions { cards: vec![3], rounds: 2 }).unwrap();
        assert_eq!(scale.writes.len(), 3);
        assert!(scale.writes.iter().all(|row| row.messages >= 2.0 && row.cpu.median_us > 0.0));
        // All their blocks are of regions of their own, and the directory may have 1,024 of them.
        assert!(scale.locks.iter().all(|row| row.cached == 3 * 64 && row.revoked == 0));
        for row in &scale.renewals {
            assert!((2.0..=3.4).contains(&row.per_pair), "{row:?}");
        }
        let text = format(&scale, Style::Plain);
        assert!(text.contains("to a block that all have"), "{text}");
    }
}
