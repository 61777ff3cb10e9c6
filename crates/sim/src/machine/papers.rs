//! The machines of the papers.

use std::time::Duration;

use super::{Disk, Machine};

const MIB: u64 = 1 << 20;
/// The papers' MB of bandwidths: a million bytes.
const MB: f64 = 1e6;

const TABLE_2: &str = "Cortes, Girona and Labarta, IOPADS 1997, Table 2";
const NO_LATENCY: &str = "in the startups (IOPADS 1997, section 5)";
const NO_SERVICE: &str = "not modelled in IOPADS 1997, section 5: copies go from memory to memory";
const ONE_REQUEST: &str = "one request at a time (IOPADS 1997, section 5)";

const ONE_BLOCK: &str = "a block is a message in the papers";

const TABLE_1: &str = "Olaru and Tichy, CCGrid 2003, Table 1";
const SECTION_5: &str = "Olaru and Tichy, CCGrid 2003, section 5";

const CDD: &str = "Ho, Hwang and Jin, Design and Analysis of Clusters with Single I/O Space, section 5";
const TYPICAL_1999: &str = "typical of a 400 MHz Pentium II with 100 MHz SDRAM";
const TYPICAL_LINUX_2_2: &str = "typical of TCP in Linux 2.2 on such a PC";
const TYPICAL_DISK_1999: &str = "typical of a 7,200 rpm disk of 10 GB";

fn us(microseconds: f64) -> Duration {
    Duration::from_nanos((microseconds * 1e3).round() as u64)
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|&(parameter, source)| (parameter.to_owned(), source.to_owned())).collect()
}

/// The parallel machine of PAFS (SIM-5).
pub(super) fn pm() -> Machine {
    Machine {
        name: "pm".into(),
        title: "the parallel machine of the PAFS paper".into(),
        nodes: 128,
        cache_bytes: vec![MIB],
        memory_bandwidth: 500.0 * MB,
        network_bandwidth: 200.0 * MB,
        local_port: us(2.0),
        remote_port: us(10.0),
        local_copy: us(1.0),
        remote_copy: us(5.0),
        staging_bandwidth: 500.0 * MB,
        disks: 16,
        ..now()
    }
}

/// The network of workstations of PAFS (SIM-5).
pub(super) fn now() -> Machine {
    Machine {
        name: "now".into(),
        title: "the network of workstations of the PAFS paper".into(),
        nodes: 50,
        cache_bytes: vec![16 * MIB],
        block_bytes: 8192,
        memory_bandwidth: 40.0 * MB,
        network_bandwidth: 19.4 * MB,
        network_latency: Duration::ZERO,
        local_port: us(50.0),
        remote_port: us(100.0),
        local_copy: us(25.0),
        remote_copy: us(50.0),
        message_bytes: 0,
        service: Duration::ZERO,
        staging_copies: 0,
        staging_bandwidth: 40.0 * MB,
        disks: 8,
        disk: Disk {
            read_seek: us(10_500.0),
            sequential_seek: us(10_500.0),
            write_seek: us(12_500.0),
            bandwidth: 10.0 * MB,
            channels: 1,
            passovers: 0,
        },
        sources: pairs(&[
            ("nodes", TABLE_2),
            ("cache_bytes", TABLE_2),
            ("block_bytes", TABLE_2),
            ("memory_bandwidth_bytes_per_s", TABLE_2),
            ("network_bandwidth_bytes_per_s", TABLE_2),
            ("network_latency_us", NO_LATENCY),
            ("local_port_us", TABLE_2),
            ("remote_port_us", TABLE_2),
            ("local_copy_us", TABLE_2),
            ("remote_copy_us", TABLE_2),
            ("message_bytes", ONE_BLOCK),
            ("service_us", NO_SERVICE),
            ("staging_copies", NO_SERVICE),
            ("staging_bandwidth_bytes_per_s", NO_SERVICE),
            ("disks", TABLE_2),
            ("disk.read_seek_us", TABLE_2),
            ("disk.sequential_seek_us", "as any read (IOPADS 1997, section 5)"),
            ("disk.write_seek_us", TABLE_2),
            ("disk.bandwidth_bytes_per_s", TABLE_2),
            ("disk.channels", ONE_REQUEST),
            ("disk.passovers", "requests in order of arrival (IOPADS 1997, section 5)"),
        ]),
    }
}

/// The cluster of the CARDs paper. Its figures are set so that a read of a cached 4 KiB block at another node takes
/// 300 us: 80 of copies (25 at each end, 30 to the reader), 15 of service and 205 of network.
pub(super) fn cards2003() -> Machine {
    let network = "205 us of network less the wire, half each (CCGrid 2003, Table 1)";
    let copies = "80 us of copies less the reader's 30, half each (CCGrid 2003, Table 1)";
    let sequential = "870 us for 4 KiB read ahead, from the speed-ups in CCGrid 2003, section 5.2";
    let gm = "typical of GM 1 on LANai 7";
    Machine {
        name: "cards2003".into(),
        title: "the three PCs of the CARDs paper".into(),
        nodes: 3,
        cache_bytes: vec![240 * MIB, 225 * MIB, 225 * MIB],
        block_bytes: 4096,
        memory_bandwidth: 4096.0 / 30e-6,
        network_bandwidth: 250.0 * MB,
        network_latency: us(7.0),
        local_port: us(5.0),
        remote_port: us(87.0),
        local_copy: Duration::ZERO,
        remote_copy: us(87.1),
        message_bytes: 0,
        service: us(15.0),
        staging_copies: 2,
        staging_bandwidth: 4096.0 / 25e-6,
        disks: 1,
        disk: Disk {
            read_seek: us(11_130.0),
            sequential_seek: Duration::ZERO,
            write_seek: us(11_130.0),
            bandwidth: 4096.0 / 870e-6,
            channels: 1,
            passovers: 2048,
        },
        sources: pairs(&[
            ("nodes", SECTION_5),
            ("cache_bytes", SECTION_5),
            ("block_bytes", TABLE_1),
            ("memory_bandwidth_bytes_per_s", "30 us for a cached block of 4 KiB (CCGrid 2003, Table 1)"),
            ("network_bandwidth_bytes_per_s", "2 Gbit/s in each direction (CCGrid 2003, section 5)"),
            ("network_latency_us", gm),
            ("local_port_us", "typical of a 350 MHz Pentium II"),
            ("remote_port_us", network),
            ("local_copy_us", "in the bandwidth"),
            ("remote_copy_us", network),
            ("message_bytes", ONE_BLOCK),
            ("service_us", TABLE_1),
            ("staging_copies", copies),
            ("staging_bandwidth_bytes_per_s", copies),
            ("disks", SECTION_5),
            ("disk.read_seek_us", "12,000 us for 4 KiB, less the transfer (CCGrid 2003, Table 1)"),
            ("disk.sequential_seek_us", sequential),
            ("disk.write_seek_us", "as reads"),
            ("disk.bandwidth_bytes_per_s", sequential),
            ("disk.channels", "one SCSI disk, no tagged queue"),
            ("disk.passovers", "ELEVATOR_LINUS of Linux 2.4, reads; Linux 2.2 sorts as well"),
        ]),
    }
}

/// The cluster of the single I/O space of cooperating device drivers.
pub(super) fn sios1999() -> Machine {
    Machine {
        name: "sios1999".into(),
        title: "the 16 PCs of the single I/O space paper".into(),
        nodes: 16,
        cache_bytes: vec![64 * MIB],
        block_bytes: 4096,
        memory_bandwidth: 150.0 * MB,
        network_bandwidth: 12.5 * MB,
        network_latency: us(20.0),
        local_port: us(20.0),
        remote_port: us(100.0),
        local_copy: us(1.0),
        remote_copy: us(100.0),
        message_bytes: 0,
        service: us(15.0),
        staging_copies: 2,
        staging_bandwidth: 150.0 * MB,
        disks: 16,
        disk: Disk {
            read_seek: us(13_000.0),
            sequential_seek: Duration::ZERO,
            write_seek: us(13_000.0),
            bandwidth: 12.0 * MB,
            channels: 1,
            passovers: 0,
        },
        sources: pairs(&[
            ("nodes", CDD),
            ("cache_bytes", "half of 128 MB, typical of such a PC"),
            ("block_bytes", "the page of the processor"),
            ("memory_bandwidth_bytes_per_s", TYPICAL_1999),
            ("network_bandwidth_bytes_per_s", "100 Mbit/s Fast Ethernet (Ho, Hwang and Jin, section 5)"),
            ("network_latency_us", "typical of a store-and-forward Fast Ethernet switch"),
            ("local_port_us", TYPICAL_LINUX_2_2),
            ("remote_port_us", TYPICAL_LINUX_2_2),
            ("local_copy_us", TYPICAL_1999),
            ("remote_copy_us", TYPICAL_LINUX_2_2),
            ("message_bytes", ONE_BLOCK),
            ("service_us", "as cards2003"),
            ("staging_copies", "one at each end, as TCP has it"),
            ("staging_bandwidth_bytes_per_s", TYPICAL_1999),
            ("disks", CDD),
            ("disk.read_seek_us", TYPICAL_DISK_1999),
            ("disk.sequential_seek_us", TYPICAL_DISK_1999),
            ("disk.write_seek_us", TYPICAL_DISK_1999),
            ("disk.bandwidth_bytes_per_s", TYPICAL_DISK_1999),
            ("disk.channels", "one request at a time"),
            ("disk.passovers", "arrays write and read in order of arrival here"),
        ]),
    }
}
