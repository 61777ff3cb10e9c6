//! What is copied to a node that was away.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Bar, failover, options};
use crate::load::{self, Access, Mode, Options};
use crate::peers::{Cluster, Medium, Site, Transport};
use crate::size::format_size;
use crate::{Error, interrupt};

const VOLUME: u64 = 1 << 30;
/// The hundredth part that is written meanwhile is in so many places.
const PLACES: u64 = 20;
/// The copy is dropped within this, and writes go on: what is written then is missed.
const DROPPED_WITHIN: Duration = Duration::from_secs(10);

/// A disk has settled all regions that were written before it was quiet for so long: they are copied no more.
const SETTLED_AFTER: Duration = Duration::from_secs(36);

/// An absence.
#[derive(Debug, Serialize)]
pub struct Resync {
    /// Nothing was written for long before the node was killed. Else what was written last may be different at the two, and is
    /// copied, too.
    pub was_quiet: bool,
    /// Bytes of the volume.
    pub volume: u64,
    /// Bytes that were written meanwhile.
    pub written: u64,
    /// Bytes that were copied.
    pub copied: u64,
    /// How long it was away.
    pub away_s: f64,
    /// From the start of its daemon until it was in sync.
    pub seconds: f64,
}

impl Resync {
    pub(super) fn sentence(&self) -> String {
        let percent = 100.0 * self.copied as f64 / self.volume as f64;
        // The bar is of what was missed.
        let bar = if self.was_quiet { Bar::AtMost(1.2).judge(Some(percent)) } else { "none".to_owned() };
        format!(
            "{}, away for {:.1} s, {} of {} written in {PLACES} places: {} copied, {percent:.2} % of the volume (bar: {bar}), in sync {:.1} s \
             after the start of its daemon\n",
            if self.was_quiet {
                "killed after 36 s without writes"
            } else {
                "killed right after all of it was written"
            },
            self.away_s,
            format_size(self.written),
            format_size(self.volume),
            format_size(self.copied),
            self.seconds
        )
    }
}

/// Kills the node that has a copy and does not order the writes, writes a hundredth of the volume, and brings it back: a minute, scaled to the
/// time that the writes take, for a node that is away is asked for nothing.
pub(super) fn run(site: &Site) -> Result<Vec<Resync>, Error> {
    let mut cluster = Cluster::start(site, &options(Medium::Mirror(VOLUME)))?;
    let primary = cluster.mirror(1)?.map.primary;
    let (primary, other) = if primary == "n1" { (1, 2) } else { (2, 1) };
    load::fill(&cluster.target(1, Transport::Unix)?)?;
    let busy = absence(&mut cluster, site, (primary, other), false)?;
    interrupt::sleep(SETTLED_AFTER)?;
    Ok(vec![busy, absence(&mut cluster, site, (primary, other), true)?])
}

fn absence(
    cluster: &mut Cluster,
    site: &Site,
    (primary, other): (usize, usize),
    was_quiet: bool,
) -> Result<Resync, Error> {
    let before = cluster.mirror(primary)?.copied;
    let killed = Instant::now();
    cluster.signal(other, libc::SIGKILL)?;
    let piece = VOLUME / 100 / PLACES / (64 << 10) * (64 << 10);
    for place in 0..PLACES {
        let start = VOLUME / PLACES * place;
        let options = Options {
            mode: Mode::Write,
            access: Access::Scan,
            block: 64 << 10,
            depth: 8,
            duration: DROPPED_WITHIN,
            range: start..start + piece,
            ..Options::default()
        };
        load::run(&cluster.target(primary, Transport::Unix)?, &options)?;
        interrupt::check()?;
    }
    let end = killed + DROPPED_WITHIN;
    while cluster.mirror(primary)?.is_in_sync() && Instant::now() < end {
        interrupt::sleep(Duration::from_millis(20))?;
    }
    let (away_s, started) = (killed.elapsed().as_secs_f64(), Instant::now());
    cluster.restart(other, site)?;
    failover::wait_in_sync(cluster, primary)?;
    let copied = cluster.mirror(primary)?.copied - before;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Resync { was_quiet, volume: VOLUME, written: piece * PLACES, copied, away_s, seconds })
}
