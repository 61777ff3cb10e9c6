//! How long clients wait when the node that orders a volume's writes fails, or is stopped.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Bar, options};
use crate::compare::Effort;
use crate::load::{self, Access, Mode, Options, Target};
use crate::peers::{Cluster, Medium, Site, Transport};
use crate::stats::median;
use crate::{Error, interrupt};

const VOLUME: u64 = 64 << 20;
/// After so long as the primary, a node that dies is not waited for: 1.5 leases of a primary (1.5 s), and 1.5 of a card (3 s).
const LONG: Duration = Duration::from_millis(7500);
/// As the primary for less.
const SHORT: Duration = Duration::from_millis(2500);
/// Clients go on for so long after the signal.
const AFTER: Duration = Duration::from_secs(9);
/// The same after a hand-over.
const SOON: Duration = Duration::from_secs(3);
/// A node that was started again is in sync within this.
const IN_SYNC_WITHIN: Duration = Duration::from_secs(60);
/// More rounds take too long: one is 20 s.
const ROUNDS_MAX: usize = 3;

/// The longest latency of requests that were sent one at a time while a node ended.
#[derive(Debug, Serialize)]
pub struct Pause {
    /// What ended, and of what.
    pub name: &'static str,
    /// Of each round, in seconds.
    pub seconds: Vec<f64>,
    /// What the longest is held against.
    pub bar: Option<Bar>,
}

impl Pause {
    pub(super) fn line(&self) -> Vec<String> {
        let longest = self.seconds.iter().copied().reduce(f64::max);
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        vec![
            self.name.to_owned(),
            self.seconds.len().to_string(),
            number(median(&self.seconds)),
            number(longest),
            self.bar.map_or_else(|| "-".to_owned(), |bar| bar.judge(longest)),
        ]
    }
}

/// A way to end a node.
struct Way {
    signal: i32,
    before: Duration,
    after: Duration,
    /// Of writes, then of reads.
    names: [&'static str; 2],
    bar: Option<Bar>,
}

/// Ends the primary, again and again; clients are at node 3, which has no copy.
pub(super) fn run(site: &Site, effort: &Effort) -> Result<Vec<Pause>, Error> {
    let ways = [
        Way {
            signal: libc::SIGKILL,
            before: LONG,
            after: AFTER,
            names: ["kill -9, primary for 7.5 s: writes", "reads"],
            bar: Some(Bar::AtMost(3.0)),
        },
        Way {
            signal: libc::SIGKILL,
            before: SHORT,
            after: AFTER,
            names: ["kill -9, primary for 2.5 s: writes", "reads"],
            bar: None,
        },
        Way {
            signal: libc::SIGTERM,
            before: SHORT,
            after: SOON,
            names: ["SIGTERM, hand-over: writes", "reads"],
            bar: Some(Bar::AtMost(0.2)),
        },
    ];
    let mut cluster = Cluster::start(site, &options(Medium::Mirror(VOLUME)))?;
    let mut pauses = Vec::new();
    for way in ways {
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..effort.rounds.min(ROUNDS_MAX) {
            if Instant::now() >= effort.deadline {
                break;
            }
            let measured = end_primary(&mut cluster, &way, site)?;
            seconds.iter_mut().zip(measured).for_each(|(seconds, pause)| seconds.push(pause));
        }
        let rows = way.names.into_iter().zip(seconds);
        pauses.extend(rows.map(|(name, seconds)| Pause { name, seconds, bar: way.bar }));
    }
    Ok(pauses)
}

/// The pauses of writes and of reads, in seconds. All copies are in sync before and after.
fn end_primary(cluster: &mut Cluster, way: &Way, site: &Site) -> Result<[f64; 2], Error> {
    let target = Target { pids: Vec::new(), ..cluster.target(3, Transport::Unix)? };
    let options = |mode| Options {
        mode,
        access: Access::Random,
        depth: 1,
        duration: way.before + way.after,
        ..Options::default()
    };
    thread::scope(|scope| {
        let flows = [Mode::Write, Mode::Read].map(|mode| {
            let (target, options) = (&target, options(mode));
            scope.spawn(move || load::run(target, &options))
        });
        let ended = interrupt::sleep(way.before).and_then(|()| {
            let primary = cluster.mirror(3)?.map.primary;
            let node = primary.trim_start_matches('n').parse().map_err(|_| Error::Output {
                tool: "cards volume show",
                reason: format!("the primary is {primary:?}"),
            })?;
            cluster.signal(node, way.signal).map(|()| node)
        });
        let mut pauses = [0.0; 2];
        for (pause, flow) in pauses.iter_mut().zip(flows) {
            let outcome = flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            *pause = outcome.latency.max_us / 1e6;
        }
        cluster.restart(ended?, site)?;
        wait_in_sync(cluster, 3)?;
        Ok(pauses)
    })
}

/// Waits until all copies are in sync, says a node.
pub(super) fn wait_in_sync(cluster: &Cluster, node: usize) -> Result<(), Error> {
    let end = Instant::now() + IN_SYNC_WITHIN;
    while !cluster.mirror(node)?.is_in_sync() {
        if Instant::now() >= end {
            let reason = format!("copies are not in sync within {} s", IN_SYNC_WITHIN.as_secs());
            return Err(Error::Output { tool: "cards volume show", reason });
        }
        interrupt::sleep(Duration::from_millis(20))?;
    }
    Ok(())
}
