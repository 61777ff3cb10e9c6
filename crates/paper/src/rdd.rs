//! Olaru and Tichy, *On the Design and Performance of Remote Disk Drivers for Clusters of PCs*, section 7: figures 2 to 5.

mod figures;
mod reasons;

use std::time::Duration;

use cards_sim::{Attachment, Delivery, Ethernet, Heads, Library, Machine, RemoteDisk, Report, Setup};

use crate::figure::Figure;
use crate::plan::{Plan, Results, Run};
use crate::study::Scale;

pub(crate) const TITLE: &str = "Remote disk drivers (Olaru and Tichy), simulated";

const MIB: u64 = 1 << 20;

/// Connections of Figures 2 and 3.
const LIGHT: u16 = 150;
const HEAVY: u16 = 300;

/// Share of the documents that are not contiguous, on the fresh and on the aged disk.
const DISKS: [(&str, f64); 2] = [("0 %", 0.0), ("39.5 %", 0.395)];
/// Of the second disk of two servers.
const SECOND: f64 = 0.017;
const FRESH: usize = 0;
const AGED: usize = 1;
/// Of 100 documents of WebStone 65 have more than a block; others cannot be in pieces.
const OF_MORE_THAN_A_BLOCK: f64 = 0.65;

/// How the server reads the documents.
const SYSTEMS: [(&str, Attachment); 5] = [
    ("local disk", Attachment::Local),
    ("NFS", Attachment::Nfs(8)),
    ("synchronous", Attachment::Network(Delivery::Sync)),
    ("asynchronous", Attachment::Network(THREAD)),
    ("event driven", EVENT),
];
const LOCAL: usize = 0;
const NFS: usize = 1;
const SYNC: usize = 2;
const THREAD_DRIVEN: usize = 3;
const EVENT_DRIVEN: usize = 4;

/// All that waits is a batch.
const THREAD: Delivery = Delivery::Thread(u32::MAX);
const EVENT: Attachment = Attachment::Network(Delivery::Event);

/// Pages that are read ahead at most: the kernel's, and the others of Figure 4.
const AHEAD: u32 = 31;
const CAPS: [u32; 6] = [0, 7, 15, AHEAD, 63, 127];
/// Where the kernel's is.
const DEFAULT: usize = 3;

/// Batches: blocks at most. Not in the paper.
const BATCHES: [(&str, Delivery); 5] = [
    ("1", Delivery::Sync),
    ("4", Delivery::Thread(4)),
    ("16", Delivery::Thread(16)),
    ("64", Delivery::Thread(64)),
    ("all", THREAD),
];

/// Two servers, Figure 5.
const PAIRS: [(&str, Attachment); 3] = [
    ("two local disks", Attachment::Local),
    ("computer-attached", Attachment::Computer(Delivery::Event)),
    ("network-attached", EVENT),
];
const LOCAL_PAIR: usize = 0;
const COMPUTER: usize = 1;
const NETWORK: usize = 2;

/// Bytes that each connection asks for, on average.
const LOAD: u64 = 54 * MIB / 10;

/// What one run found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// MB/s of all documents.
    rate: f64,
    /// Mean time of a GET in ms.
    response: f64,
    /// Share of the time that the disks worked.
    disk_busy: f64,
    /// Share of the blocks that were found in a memory.
    hits: f64,
    /// Blocks read from disks.
    disk_reads: u64,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    /// By load, then by disk, then by system.
    single: Vec<Vec<Vec<Run>>>,
    /// By disk, then by cap.
    caps: Vec<Vec<Run>>,
    pairs: Vec<Run>,
    /// By disk, then by batch.
    batches: Vec<Vec<Run>>,
    scale: Scale,
}

const fn divisor(scale: Scale) -> u64 {
    match scale {
        Scale::Full => 1,
        Scale::Fast => 8,
    }
}

/// What differs between the runs.
struct Scene {
    attachment: Attachment,
    servers: u16,
    connections: u16,
    /// Share of all documents, of each disk.
    non_contiguous: Vec<f64>,
    read_ahead: u32,
}

impl Scene {
    fn single(attachment: Attachment, connections: u16, disk: usize) -> Self {
        Self { attachment, servers: 1, connections, non_contiguous: vec![DISKS[disk].1], read_ahead: AHEAD }
    }

    fn add(self, plan: &mut Plan, scale: Scale) -> Run {
        let Self { attachment, servers, connections, .. } = self;
        let disks = if attachment == Attachment::Local { servers } else { 1 };
        let nodes = match attachment {
            Attachment::Local | Attachment::Computer(_) => servers,
            Attachment::Network(_) | Attachment::Nfs(_) => servers + 1,
        };
        let machine = Library::default().find("cards2003").cloned();
        let machine = Machine { disks, ..machine.unwrap_or_else(|_| unreachable!("a preset")) };
        let block_bytes = u64::from(machine.block_bytes);
        let cache = |mib: u64| (mib * MIB / block_bytes / divisor(scale)) as u32;
        let mut cache_blocks = vec![cache(225); usize::from(servers)];
        cache_blocks.resize(nodes.into(), cache(240));
        let remote = RemoteDisk {
            attachment,
            partition_bytes: 1700 * MIB / divisor(scale),
            fragmented: self.non_contiguous.iter().map(|share| share / OF_MORE_THAN_A_BLOCK).collect(),
            read_ahead: self.read_ahead,
            heads: Heads {
                turn: Duration::from_micros(11_111),
                settle: Duration::from_micros(1_500),
                passed: 16,
                merged: 31,
            },
            ethernet: Ethernet {
                bandwidth: 12.5e6,
                startup: Duration::from_micros(50),
                latency: Duration::from_micros(20),
            },
        };
        let setup = Setup { nodes, cache_blocks, remote: Some(remote), ..Setup::new(machine, "rd") };
        let (bytes, load) = (1024 * MIB / divisor(scale), LOAD / divisor(scale));
        let more = format!("connections={connections},bytes={bytes},load={load},request=8KiB,open=yes");
        plan.add(setup, &format!("gen:webstone:nodes={servers},{more}"))
    }
}

impl Runs {
    pub(crate) fn new(plan: &mut Plan, scale: Scale) -> Self {
        let disks = [FRESH, AGED];
        let mut of_systems = |connections, disk| -> Vec<Run> {
            let run = |(_, attachment)| Scene::single(attachment, connections, disk).add(plan, scale);
            SYSTEMS.into_iter().map(run).collect()
        };
        let single = [LIGHT, HEAVY].map(|load| disks.map(|disk| of_systems(load, disk)).into()).into();
        let mut of_caps = |disk| -> Vec<Run> {
            let run = |read_ahead| Scene { read_ahead, ..Scene::single(EVENT, HEAVY, disk) }.add(plan, scale);
            CAPS.into_iter().map(run).collect()
        };
        let caps = disks.map(&mut of_caps).into();
        let mut of_batches = |disk| -> Vec<Run> {
            let run =
                |(_, delivery)| Scene::single(Attachment::Network(delivery), HEAVY, disk).add(plan, scale);
            BATCHES.into_iter().map(run).collect()
        };
        let batches = disks.map(&mut of_batches).into();
        let pair = |(_, attachment)| {
            let non_contiguous = vec![0.0, SECOND];
            Scene { servers: 2, non_contiguous, ..Scene::single(attachment, HEAVY, FRESH) }.add(plan, scale)
        };
        let pairs = PAIRS.into_iter().map(pair).collect();
        Self { single, caps, pairs, batches, scale }
    }

    pub(crate) fn figures(&self, results: &Results<'_>) -> Vec<Figure> {
        let found = |connections: u16| {
            move |&run: &Run| found(&results[run], connections, LOAD / divisor(self.scale))
        };
        let of_load = |(disks, connections): (&Vec<Vec<Run>>, u16)| -> Vec<Vec<Found>> {
            disks.iter().map(|runs| runs.iter().map(found(connections)).collect()).collect()
        };
        let light = of_load((&self.single[0], LIGHT));
        let heavy = of_load((&self.single[1], HEAVY));
        let caps = of_load((&self.caps, HEAVY));
        let batches = of_load((&self.batches, HEAVY));
        let pairs: Vec<Found> = self.pairs.iter().map(found(HEAVY)).collect();
        vec![
            figures::light(&light),
            figures::heavy(&heavy, &light),
            figures::caps(&caps),
            figures::pairs(&pairs, &heavy[FRESH]),
            figures::batches(&batches, &heavy),
        ]
    }
}

fn found(report: &Report, connections: u16, load: u64) -> Found {
    // Each GET begins with an open, which reads nothing.
    let gets = (report.requests - report.read_requests) as f64;
    let connections = f64::from(connections);
    Found {
        rate: load as f64 * connections / report.simulated_s / 1e6,
        // Each connection always has one under way.
        response: connections * report.simulated_s * 1e3 / gets,
        disk_busy: report.disk_busy,
        hits: report.global_hit_ratio,
        disk_reads: report.disk_reads,
    }
}

pub(crate) fn introduction(scale: Scale) -> Vec<String> {
    let mut all = vec![
        "What `cards paper rdd` finds: figures 2 to 5 of V. Olaru and W. F. Tichy, *On the Design and Performance of Remote Disk Drivers for \
         Clusters of PCs*, section 7, from simulations of its web servers. This page is written by that command. The paper's figures have no \
         numbers in the text, so what it says about them is judged: orders, and \"clearly\", \"slightly\" and the like. Which number \
         is meant by such a word was fixed before the first run: what differs by 5 % or less does not differ visibly, and what differs by a \
         tenth or less does not differ much. After it, that what differs by 1 % or less is equal: about so much differ two seeds."
            .to_owned(),
        "**What runs** is a simulation of its own (`crates/sim/src/engine/remote.rs`), not the daemon's core: a disk with a queue that is sorted by \
         place, one request at a time, where neighbours that wait are read together (31 pages at most); a page cache \
         (LRU) at each server; read-ahead as in Linux 2.2, a window from 3 pages that doubles up to 31 and ends with the document. \
         **Local disk**: the queue is the server's own. **Synchronous**, **asynchronous**, **event driven**: the disk is at another node, which keeps \
         nothing (single copy); the pages that a process misses, and those read ahead, go there at once, a message for each. Synchronous: \
         the node reads and sends one page at a time, in the order of arrival. Asynchronous: a thread gives all that waits to the queue, sleeps \
         until the first is there, and sends one after the other; what arrives meanwhile waits until the last is sent. Event driven: what arrives \
         goes into the queue, and is sent when it has been read. **NFS**: a file server with 8 threads, a cache of 240 MB and a read-ahead \
         of its own, reads of a page, over the Ethernet."
            .to_owned(),
        "**The machine** is `cards2003` (`cards sim machines cards2003`), the same PCs, network and disk in an earlier paper of the same \
         authors, which has times: a page takes 300 us from another node's memory, a read of the disk 12 ms. A position costs half a turn (5,400 per \
         minute), 1.5 ms to settle and what grows with the square root of the way; places drawn at random from the partition cost what the \
         machine has on average, and so a third of the whole disk costs 8.5 ms of seeking. 225 MB of a server cache pages, whatever Apache takes. \
         The client's 100 Mbit/s are shared by all connections. Interrupts and copies take the processor from Apache, which has 3 ms for each \
         GET. NFS: 50 us of each processor for a message, and a copy, as of TCP on such a PC."
            .to_owned(),
        "**The load** is `gen:webstone`: 1 GiB of documents of WebStone's five sizes, Zipf's popularity with an exponent of .9 (not in \
         the paper), .85 GB for 150 connections and 1.7 GB for 300, read 8 KiB at a time, as Apache does. Caches are empty at first. A \
         connection always has a GET under way; its response time contains that of the processor. The **aged** disk has 39.5 % of its \
         documents in pieces, which are 61 % of those with more than a page: one of up to 8 pages is cut in two, a larger one every 8 pages, \
         as ext2 allocates them; the first piece is where it is on the fresh disk, all others are anywhere on the partition of 1.7 GB."
            .to_owned(),
        "**Left out**: inodes and indirect blocks, the cache and the read-ahead of the disk itself, packets, and who is charged for work at \
         interrupt time (the paper's unfairness)."
            .to_owned(),
        "**The daemon** has the three deliveries too (`delivery` of a disk). Of real daemons, with a modelled disk of 2 ms that works on many reads at \
         a time, event-driven delivery has 1.5 to 1.8 times the throughput of batches, and with data in memory none is better for \
         certain ([benchmarks](../internals/benchmarks.md#deliveries)). Network-attached and computer-attached are its `attached`; there it keeps copies of what \
         others read with a computer-attached disk, the driver of these figures never does."
            .to_owned(),
    ];
    if scale == Scale::Fast {
        all.push("**Fast**: documents, caches, partition and load are an eighth.".to_owned());
    }
    all
}
