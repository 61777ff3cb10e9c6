//! Machines of today: an Ethernet, and one of three origins. Typical figures; measure your own and overlay them.

use std::time::Duration;

use super::{Disk, Machine};

const TCP: &str = "typical of kernel TCP on a server of the 2020s: send and receive, half each";
const MEMCPY: &str = "typical of one core of a server of the 2020s";
const OURS: &str = "a choice";
const P4500: &str = "Intel SSD DC P4500 2 TB, specification";
const GP3: &str = "AWS EBS gp3, specification: 3,000 IOPS and 125 MiB/s";
const GP3_LATENCY: &str = "AWS EBS gp3, typical (specification: single-digit milliseconds)";
const S3: &str = "typical of Amazon S3 and its like within a region";
const S3_STREAM: &str = "64 HTTP streams of 85 MB/s (S3 performance guidelines), or the link";

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// A speed of Ethernet.
struct Lan {
    name: &'static str,
    gigabits: u32,
    latency_us: u64,
}

const LANS: [Lan; 3] = [
    Lan { name: "lan10", gigabits: 10, latency_us: 5 },
    Lan { name: "lan25", gigabits: 25, latency_us: 3 },
    Lan { name: "lan100", gigabits: 100, latency_us: 2 },
];

/// Where blocks come from when no memory has them.
struct Origin {
    suffix: &'static str,
    title: &'static str,
    disk: Disk,
    /// Of seeks, of the bandwidth, and of the channels.
    sources: [&'static str; 3],
}

fn origins() -> [Origin; 3] {
    let nvme = Disk {
        read_seek: us(85),
        sequential_seek: us(10),
        write_seek: us(20),
        bandwidth: 3.2e9,
        channels: 42,
        passovers: 0,
    };
    let volume = Disk {
        read_seek: us(700),
        sequential_seek: us(700),
        write_seek: us(700),
        bandwidth: 131.072e6,
        channels: 2,
        passovers: 0,
    };
    let object = Disk {
        read_seek: us(30_000),
        sequential_seek: us(30_000),
        write_seek: us(60_000),
        bandwidth: 64.0 * 85e6,
        channels: 64,
        passovers: 0,
    };
    [
        Origin {
            suffix: "",
            title: "an NVMe disk",
            disk: nvme,
            sources: [P4500, P4500, "so many reads of 85 us at a time are the specified 490,000 a second"],
        },
        Origin { suffix: "-cloud", title: "a cloud volume", disk: volume, sources: [GP3_LATENCY, GP3, GP3] },
        Origin {
            suffix: "-object",
            title: "an object store",
            disk: object,
            sources: [S3, S3_STREAM, "connections of the disk node, a choice"],
        },
    ]
}

/// All of them.
pub(super) fn all() -> Vec<Machine> {
    LANS.iter().flat_map(|lan| origins().into_iter().map(|origin| machine(lan, origin))).collect()
}

fn machine(lan: &Lan, origin: Origin) -> Machine {
    let [seeks, bandwidth, channels] = origin.sources;
    let line = format!("{} Gbit/s", lan.gigabits);
    let sources = [
        ("nodes", OURS),
        ("cache_bytes", OURS),
        ("block_bytes", "the default of cards"),
        ("memory_bandwidth_bytes_per_s", MEMCPY),
        ("network_bandwidth_bytes_per_s", line.as_str()),
        ("network_latency_us", "typical of two adapters and a switch of this speed"),
        ("local_port_us", "typical of waking another thread"),
        ("remote_port_us", TCP),
        ("local_copy_us", MEMCPY),
        ("remote_copy_us", TCP),
        ("message_bytes", "what cards sends in one message"),
        ("service_us", "typical of looking a block up and answering"),
        ("staging_copies", "one at each end, as kernel TCP has it"),
        ("staging_bandwidth_bytes_per_s", MEMCPY),
        ("disks", "one origin"),
        ("disk.read_seek_us", seeks),
        ("disk.sequential_seek_us", seeks),
        ("disk.write_seek_us", seeks),
        ("disk.bandwidth_bytes_per_s", bandwidth),
        ("disk.channels", channels),
        ("disk.passovers", "where blocks lie makes no difference"),
    ];
    let link = f64::from(lan.gigabits) * 1e9 / 8.0;
    let mut disk = origin.disk;
    if !origin.suffix.is_empty() {
        // It comes over the disk node's link.
        disk.bandwidth = disk.bandwidth.min(link);
    }
    Machine {
        name: format!("{}{}", lan.name, origin.suffix),
        title: format!("{} Gbit/s Ethernet and {}", lan.gigabits, origin.title),
        nodes: 8,
        cache_bytes: vec![1 << 30],
        block_bytes: 65_536,
        memory_bandwidth: 10e9,
        network_bandwidth: link,
        network_latency: us(lan.latency_us),
        local_port: us(3),
        remote_port: us(10),
        local_copy: Duration::from_nanos(200),
        remote_copy: us(10),
        message_bytes: 128 << 10,
        service: us(2),
        staging_copies: 2,
        staging_bandwidth: 10e9,
        disks: 1,
        disk,
        sources: sources.map(|(parameter, source)| (parameter.to_owned(), source.to_owned())).into(),
    }
}
