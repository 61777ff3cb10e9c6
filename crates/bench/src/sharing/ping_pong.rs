//! One block that two nodes write and read in turn. An operation is one change of hands: the write that takes the block
//! from the other node, or the read that gets what the other node has written.

use std::time::Instant;

use super::client::Client;
use super::cluster::{self, SHARERS};
use super::sample::{Case, Limit, Results, Sample};
use super::{BLOCK, Effort, Error, Site};
use crate::bare::pingpong;
use crate::interrupt;
use crate::peers::{Cluster, ClusterOptions, Transport, free_host};
use crate::proc::cpu::Meter;
use crate::remote::start_pong;

const BARE: &str = "bare round trip";

/// A message there and a message back, twice.
const TWO_ROUND_TRIPS: f64 = 4.0;

/// By then every node knows what it will know.
const WARM_UP_TURNS: u64 = 20;

/// How blocks change hands, and whether the disk node keeps copies of what others read.
const WAYS: [(&str, bool); 4] = [("cache", false), ("disk", false), ("cache", true), ("disk", true)];

fn name(handover: &str, network_attached: bool) -> String {
    let attached = if network_attached { "network" } else { "computer" };
    format!("change of hands, handover = {handover}, attached = {attached}")
}

pub(super) fn cases() -> Vec<Case> {
    let bare = Case { name: BARE.to_owned(), base: None, limits: Vec::new() };
    let ways = WAYS.map(|(handover, network_attached)| {
        let mut limits = Vec::new();
        if handover == "cache" {
            limits.push(Limit::DiskReads(0.0));
        }
        if !network_attached {
            limits.push(Limit::Messages(TWO_ROUND_TRIPS));
        }
        Case { name: name(handover, network_attached), base: Some(BARE.to_owned()), limits }
    });
    [bare].into_iter().chain(ways).collect()
}

pub(super) fn measure(
    site: &Site,
    effort: &Effort,
    round: usize,
    results: &mut Results,
) -> Result<(), Error> {
    results.add(BARE, bare(site, effort))?;
    let mut ways = WAYS;
    ways.rotate_left(round % WAYS.len());
    for (handover, network_attached) in ways {
        let sample = shared(site, effort, handover, network_attached);
        results.add(&name(handover, network_attached), sample)?;
    }
    Ok(())
}

fn bare(site: &Site, effort: &Effort) -> Result<Sample, Error> {
    let host = free_host()?;
    let pong = start_pong(site, &host, BLOCK, effort.duration, None)?;
    Ok(Sample::of(&pingpong::run(&host, BLOCK, 1, effort.duration, &pong.roots(), None)?))
}

fn shared(
    site: &Site,
    effort: &Effort,
    handover: &'static str,
    network_attached: bool,
) -> Result<Sample, Error> {
    let options = cluster::options(site, "disk-in-turn.raw")?;
    // The default needs no flag. The block has no home under a remote disk: its own policy costs no hop.
    let handover = Some(handover).filter(|&handover| handover != "cache");
    let options = ClusterOptions { policy: "rd", network_attached, handover, ..options };
    let cluster = cluster::start(site, &options)?;
    let mut turns = Turns::new(&cluster)?;
    for _ in 0..WARM_UP_TURNS {
        turns.take()?;
    }
    let before = cluster.counters()?;
    let mut meter = Meter::start(cluster.pids());
    let (start, first) = (Instant::now(), turns.changes);
    while start.elapsed() < effort.duration {
        turns.take()?;
        interrupt::check()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    meter.sample();
    let changes = turns.changes - first;
    let sample = Sample::new(changes, seconds, seconds * 1e6 / changes as f64, Some(meter.used_ns()));
    Ok(sample.counted(changes, &before, &cluster.counters()?))
}

/// Both ends of the game.
struct Turns {
    clients: [Client; 2],
    changes: u64,
}

impl Turns {
    fn new(cluster: &Cluster) -> Result<Turns, Error> {
        let [one, other] =
            SHARERS.map(|node| Client::open(&cluster.target(node, Transport::Unix)?, BLOCK as usize));
        Ok(Turns { clients: [one?, other?], changes: 0 })
    }

    /// Each node writes the block once, and the other one reads it and finds just that.
    fn take(&mut self) -> Result<(), Error> {
        for writer in [0, 1] {
            let bytes = self.changes.to_le_bytes().repeat(BLOCK as usize / 8);
            self.clients[writer].write_bytes(0, &bytes)?;
            let is_same = self.clients[1 - writer].read(0)? == bytes;
            if !is_same {
                return Err(self.clients[1 - writer].wrong_content(0));
            }
            self.changes += 2;
        }
        Ok(())
    }
}
