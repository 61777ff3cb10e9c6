//! Table 1 of the CARDs paper (section 5.1): a card as a plain remote disk against the local disk.
//!
//! Node 1 holds the disk on the server's core, the client reads at node 2 beside it, all four policy operations are void (`rd`). The paper
//! timed `find` over 1.7 GB and took 4 KiB reads apart into copies, service and network. Here the
//! scan is a sequential read with 128 KiB requests, one at a time; copies are a measured `memcpy` of a
//! block, network is the bare round trip over TCP without that copy, and service is the rest of the
//! remote cached read, so the three sum up to it as they do in the paper. Service is negative where a node
//! that stays awake answers faster than the bare round trip, whose ends sleep.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bare::pingpong;
use crate::load::{self, Access, Options, Pattern};
use crate::peers::{Cluster, ClusterOptions, Site, Transport, free_host};
use crate::proc::child::Guard;
use crate::report::{Style, micros, table};
use crate::{Error, interrupt};

/// The block of the paper's read times.
const BLOCK: u32 = 4 << 10;
/// The request of the scan.
const SCAN_BLOCK: u32 = 128 << 10;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Table1Options {
    /// How long each read time is sampled, at most.
    pub duration: Duration,
    /// Added to each disk access on both sides: a modelled slow disk, as the paper's was.
    pub disk_delay: Duration,
}

/// The table; times in microseconds per 4 KiB read, throughput in MB/s. `None`: not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table1 {
    /// Scanning the cold disk through the card.
    pub card_mb_s: Option<f64>,
    /// Scanning the cold local disk.
    pub local_mb_s: Option<f64>,
    /// Copying a block in memory.
    pub copies_us: Option<f64>,
    /// What is neither copying nor network.
    pub service_us: Option<f64>,
    /// The bare round trip without its copy.
    pub network_us: Option<f64>,
    /// A read at node 2 of a block in node 1's cache.
    pub card_cached_us: Option<f64>,
    /// The same read again, from node 2's own cache.
    pub card_local_cached_us: Option<f64>,
    /// A read of the local disk's file from the page cache.
    pub local_cached_us: Option<f64>,
    /// A read at node 2 that reaches node 1's disk.
    pub card_disk_us: Option<f64>,
    /// A read of the local disk past the page cache.
    pub local_disk_us: Option<f64>,
}

impl Table1 {
    /// The paper's numbers: 350 MHz Pentium II, Myrinet, a SCSI disk.
    pub const PAPER: Table1 = Table1 {
        card_mb_s: Some(2.14),
        local_mb_s: Some(2.93),
        copies_us: Some(80.0),
        service_us: Some(15.0),
        network_us: Some(205.0),
        card_cached_us: Some(300.0),
        card_local_cached_us: None,
        local_cached_us: Some(30.0),
        card_disk_us: Some(12_300.0),
        local_disk_us: Some(12_000.0),
    };

    /// The card's scan as a share of the local disk's; the paper reports 73.03 %.
    pub fn throughput_share(&self) -> Option<f64> {
        Some(self.card_mb_s? / self.local_mb_s?)
    }

    /// How many times faster a remotely cached block is than the local disk; the paper reports 40.
    pub fn remote_cache_speedup(&self) -> Option<f64> {
        Some(self.local_disk_us? / self.card_cached_us?)
    }
}

/// Measures the table on this machine.
///
/// # Errors
/// [`Error::MissingTool`] without the `cards` program; [`local`] measures what does not need it.
pub fn run(site: &Site, options: &Table1Options) -> Result<Table1, Error> {
    let baseline = local(site, options)?;
    let image = site.image("disk-cards.raw")?;
    evict(&image)?;
    // The disk node's own cache holds everything, so that after one scan there every read is a cached one.
    let cluster_options = ClusterOptions {
        policy: "rd",
        disk_delay: options.disk_delay,
        read_only: true,
        ..ClusterOptions::new(2, site.whole_cache(), BLOCK, image.clone())
    };
    let read = Options {
        access: Access::Once,
        block: BLOCK,
        depth: 1,
        duration: options.duration,
        ..Options::default()
    };
    // Cold reads and the cold scan use different halves of the disk: one must not warm the other.
    let half = site.size / 2;
    let cluster = Cluster::start(site, &cluster_options)?;
    cluster.pin_beside_client(2, site)?;
    let at_node2 = cluster.target(2, Transport::Unix)?;
    let cold = load::run(&at_node2, &Options { range: half..site.size, ..read.clone() })?;
    let scan = Options { access: Access::Scan, block: SCAN_BLOCK, range: 0..half, ..read.clone() };
    let scanned = load::run(&at_node2, &Options { duration: scan_limit(options), ..scan })?;
    drop(cluster);

    // A new cluster: node 2 is cold again, node 1 is warmed at its own export.
    let cluster = Cluster::start(site, &ClusterOptions { disk_delay: Duration::ZERO, ..cluster_options })?;
    cluster.pin_beside_client(2, site)?;
    load::read_all(&cluster.target(1, Transport::Unix)?)?;
    let at_node2 = cluster.target(2, Transport::Unix)?;
    let remote = load::run(&at_node2, &read)?;
    let again = Options { duration: options.duration / 4, ..read };
    let own = load::run(&at_node2, &again)?;

    let card_cached_us = remote.latency.mean_us;
    let parts = baseline.copies_us.zip(baseline.network_us);
    Ok(Table1 {
        card_mb_s: Some(scanned.bytes_per_s / 1e6),
        card_cached_us: Some(card_cached_us),
        card_local_cached_us: Some(own.latency.mean_us),
        card_disk_us: Some(cold.latency.mean_us),
        service_us: parts.map(|(copies, network)| card_cached_us - copies - network),
        ..baseline
    })
}

/// The half of the table that needs no CARDs: the local disk, copies and network.
pub fn local(site: &Site, options: &Table1Options) -> Result<Table1, Error> {
    let image = site.image("disk.raw")?;
    let copies_us = copy_us();
    let round_trip_us = round_trip_us(site, options.duration)?;
    evict(&image)?;
    let local_mb_s = scan_mb_s(&image, site.size, options)?;
    let cached = File::open(&image).map_err(Error::io(format!("opening {}", image.display())))?;
    warm(&cached, site.size)?;
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&image);
    // Some file systems know no O_DIRECT; there an evicted page cache has to do.
    let local_disk_us = match direct {
        Ok(file) => pread_us(&file, site.size, options.duration, options.disk_delay)?,
        Err(_) => {
            evict(&image)?;
            pread_us(&cached, site.size, options.duration, options.disk_delay)?
        }
    };
    warm(&cached, site.size)?;
    Ok(Table1 {
        card_mb_s: None,
        local_mb_s: Some(local_mb_s),
        copies_us: Some(copies_us),
        service_us: None,
        network_us: Some((round_trip_us - copies_us).max(0.0)),
        card_cached_us: None,
        card_local_cached_us: None,
        local_cached_us: Some(pread_us(&cached, site.size, options.duration, Duration::ZERO)?),
        card_disk_us: None,
        local_disk_us: Some(local_disk_us),
    })
}

/// A scan of a slow disk is cut off after this.
fn scan_limit(options: &Table1Options) -> Duration {
    options.duration * 10
}

/// Drops the file from the page cache.
fn evict(path: &Path) -> Result<(), Error> {
    let doing = || format!("evicting {} from the page cache", path.display());
    let file = File::open(path).map_err(Error::io(doing()))?;
    // Dirty pages cannot be dropped.
    file.sync_all().map_err(Error::io(doing()))?;
    // SAFETY: the descriptor is open; the call has no memory effects.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(Error::Io { doing: doing(), source: std::io::Error::from_raw_os_error(code) }),
    }
}

fn warm(file: &File, size: u64) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..size).step_by(buffer.len()) {
        file.read_at(&mut buffer, offset).map_err(Error::io("reading the test disk"))?;
    }
    Ok(())
}

fn scan_mb_s(path: &Path, size: u64, options: &Table1Options) -> Result<f64, Error> {
    let file = File::open(path).map_err(Error::io(format!("opening {}", path.display())))?;
    let mut buffer = vec![0; SCAN_BLOCK as usize];
    let (start, mut bytes) = (Instant::now(), 0);
    while bytes < size && start.elapsed() < scan_limit(options) {
        std::thread::sleep(options.disk_delay);
        let len = file.read_at(&mut buffer, bytes).map_err(Error::io("reading the test disk"))?;
        if len == 0 {
            break;
        }
        bytes += len as u64;
        interrupt::check()?;
    }
    Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64().max(1e-9))
}

/// Mean time of a 4 KiB `pread`, each block at most once, in random order.
fn pread_us(file: &File, size: u64, duration: Duration, delay: Duration) -> Result<f64, Error> {
    /// O_DIRECT wants the buffer aligned like the device's sectors.
    #[repr(align(4096))]
    struct Aligned([u8; BLOCK as usize]);
    let mut buffer = Aligned([0; BLOCK as usize]);
    let mut pattern = Pattern::new(Access::Once, 0..size, BLOCK, 0, 1, 1);
    let (start, mut reads) = (Instant::now(), 0);
    while let Some(offset) = pattern.offset(reads).filter(|_| start.elapsed() < duration) {
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        file.read_exact_at(&mut buffer.0, offset).map_err(Error::io("reading the test disk"))?;
        reads += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / reads.max(1) as f64)
}

/// Mean time to copy a block from a random place in memory larger than the caches.
fn copy_us() -> f64 {
    const MEMORY: usize = 256 << 20;
    const COPIES: u64 = 200_000;
    let block = BLOCK as usize;
    let memory = vec![1u8; MEMORY];
    let mut pattern = Pattern::new(Access::Random, 0..MEMORY as u64, BLOCK, 0, 1, 1);
    let mut to = vec![0u8; block];
    let start = Instant::now();
    for copy in 0..COPIES {
        let at = pattern.offset(copy).unwrap_or(0) as usize;
        black_box(&mut to).copy_from_slice(&memory[at..at + block]);
    }
    start.elapsed().as_secs_f64() * 1e6 / COPIES as f64
}

fn round_trip_us(site: &Site, duration: Duration) -> Result<f64, Error> {
    let host = free_host()?;
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["pong", "--listen", &host, "--block", &BLOCK.to_string()]);
    let mut pong = Guard::spawn("ping-pong", command, site.server_core(), &site.path("pong.log"))?;
    pong.wait_for(Duration::from_secs(10), || {
        pingpong::run(&host, BLOCK, 1, Duration::ZERO, &[], None).ok()
    })?;
    Ok(pingpong::run(&host, BLOCK, 1, duration, &[], None)?.latency.mean_us)
}

/// The table with the paper's numbers beside ours.
pub fn format(ours: &Table1, style: Style) -> String {
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), micros);
    let paper = &Table1::PAPER;
    let mut rows = Vec::new();
    let mut line = |name: &str, card: fn(&Table1) -> Option<f64>, local: fn(&Table1) -> Option<f64>| {
        rows.push(vec![
            name.to_owned(),
            cell(card(ours)),
            cell(local(ours)),
            cell(card(paper)),
            cell(local(paper)),
        ]);
    };
    line("throughput, MB/s", |t| t.card_mb_s, |t| t.local_mb_s);
    line("memory copies, us", |t| t.copies_us, |_| None);
    line("service handling, us", |t| t.service_us, |_| None);
    line("network overhead, us", |t| t.network_us, |_| None);
    line("cached read (card: in the remote cache), us", |t| t.card_cached_us, |t| t.local_cached_us);
    line("cached read in the card's own node, us", |t| t.card_local_cached_us, |_| None);
    line("disk read, us", |t| t.card_disk_us, |t| t.local_disk_us);
    let head = ["4 KiB reads", "card", "local disk", "card (paper)", "local disk (paper)"];
    let mut out = table(&head, &rows, style);
    let share =
        |table: &Table1| table.throughput_share().map_or("-".into(), |s| format!("{:.2} %", s * 100.0));
    let times = |table: &Table1| table.remote_cache_speedup().map_or("-".into(), |s| format!("{s:.1}x"));
    out +=
        &format!("\ncard's share of the local disk's throughput: {} (paper {})\n", share(ours), share(paper));
    out += &format!("remote cache faster than the local disk: {} (paper {})\n", times(ours), times(paper));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_numbers_agree_with_its_text() {
        let paper = Table1::PAPER;
        assert!((paper.throughput_share().unwrap() - 0.7303).abs() < 1e-3);
        assert_eq!(paper.remote_cache_speedup(), Some(40.0));
        let parts = [paper.copies_us, paper.service_us, paper.network_us];
        assert_eq!(parts.into_iter().flatten().sum::<f64>(), paper.card_cached_us.unwrap());
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let ours = Table1 { card_mb_s: None, service_us: None, ..Table1::PAPER };
        let text = format(&ours, Style::Markdown);
        assert!(text.contains("throughput: - (paper 73.04 %)"), "{text}");
        assert!(text.contains("12300"), "{text}");
    }
}
