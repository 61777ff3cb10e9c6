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
const CAPS: [u32; 7] = [0, 3, 7, 15, AHEAD, 63, 127];
/// Where the kernel's is.
const DEFAULT: usize = 4;

/// Blocks of a batch, at most: not in the paper.
const BATCHES: [u32; 6] = [1, 4, 16, 64, 256, u32::MAX];

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
            let delivery = |most| Attachment::Network(Delivery::Thread(most));
            BATCHES
                .into_iter()
                .map(|most| Scene::single(delivery(most), HEAVY, disk).add(plan, scale))
                .collect()
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
    }
}

pub(crate) fn introduction(scale: Scale) -> Vec<String> {
    let _ = scale;
    Vec::new()
}
