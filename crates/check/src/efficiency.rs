//! What runs cost: messages, refusals, reads of the disk, dropped copies, bytes, repetitions. Each has a limit for each kind
//! of run. A protocol that keeps its promises and does all of its work twice fails here.

use std::collections::BTreeMap;
use std::fmt;

use cards_core::{Duration, Limits};
use cards_world::models::{Delivery, Parcel};

use crate::options::{Mode, Options};

/// What was sent in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Messages between shards.
    pub messages: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Arrivals of blocks that a node has asked for.
    pub deliveries: u64,
}

impl Traffic {
    pub(crate) fn sent(&mut self, parcel: Parcel<'_>, deliveries: &[Delivery]) {
        let Parcel::Shard { message, payload_bytes } = parcel else { return };
        self.messages += 1;
        self.payload_bytes += u64::from(payload_bytes);
        if matches!(message.body, cards_core::Body::Data { .. }) {
            self.deliveries += deliveries.iter().filter(|delivery| !delivery.broken).count() as u64;
        }
    }
}

/// What a run has done, and what it has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Requests of clients that were done.
    pub operations: u64,
    /// Bytes that these have read or written.
    pub bytes: u64,
    /// What was sent.
    pub traffic: Traffic,
    /// Deliveries that were refused as stale.
    pub refused: u64,
    /// Reads of disks ...
    pub disk_reads: u64,
    /// ... of blocks that some node held a usable copy of at that moment.
    pub reads_in_vain: u64,
    /// Copies that were dropped as stale.
    pub dropped: u64,
    /// Copies that writes have made stale, at most: for each block written, one at each node.
    pub stale_at_most: u64,
    /// Commands that were sent to disk nodes.
    pub commands: u64,
    /// How often, all together ...
    pub commands_sent: u64,
    /// ... and those of them that came soon after the one before, in less than half a `peer_timeout`.
    pub hasty: u64,
}

impl Figures {
    /// Adds those of another run.
    pub const fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.traffic.messages += other.traffic.messages;
        self.traffic.payload_bytes += other.traffic.payload_bytes;
        self.traffic.deliveries += other.traffic.deliveries;
        self.refused += other.refused;
        self.disk_reads += other.disk_reads;
        self.reads_in_vain += other.reads_in_vain;
        self.dropped += other.dropped;
        self.stale_at_most += other.stale_at_most;
        self.commands += other.commands;
        self.commands_sent += other.commands_sent;
        self.hasty += other.hasty;
    }

    /// Judges a run of this kind. Returns the number of costs judged.
    pub(crate) fn judge(&self, kind: Kind) -> Result<u64, String> {
        let mut judged = 0;
        for cost in Cost::ALL {
            let (Some(limit), Some(measured)) = (cost.limit(kind), cost.of(self)) else { continue };
            judged += 1;
            if measured > limit {
                let (words, kind) = (cost.words(measured), kind.words());
                return Err(format!("{words} in {kind}, and more than {limit} is too many"));
            }
        }
        Ok(judged)
    }
}

/// Kinds of runs that have limits of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// All nodes read a cold volume.
    Cold,
    /// Clients read and write, and nothing goes wrong.
    Quiet,
    /// Something goes wrong.
    Faulty,
    /// The same with tables smaller than real ones: what does not fit is taken from others, or dropped.
    Scarce,
    /// Primaries move, whatever else goes wrong.
    Moving,
    /// One node writes alone, and the disk node's process dies again and again.
    Lone,
    /// One node writes a log, all read what is elsewhere, and nothing goes wrong.
    Log,
    /// The volume is a group of copies, whose primary dies, is cut off or moves all the time, whatever else goes wrong.
    Mirrored,
}

impl Kind {
    pub(crate) fn of(options: &Options) -> Self {
        match options.mode {
            Mode::ColdRead => Self::Cold,
            Mode::Storm if !options.world.mirrors.is_empty() => Self::Mirrored,
            Mode::Storm if options.lone.is_some() => Self::Lone,
            Mode::Storm if options.nodes.move_every > Duration::ZERO => Self::Moving,
            Mode::Storm if options.is_quiet() && options.log.is_some() => Self::Log,
            Mode::Storm if options.is_quiet() => Self::Quiet,
            Mode::Storm if options.world.limits != Limits::default() => Self::Scarce,
            Mode::Storm => Self::Faulty,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Cold => "a cold read",
            Self::Quiet => "a run without faults",
            Self::Faulty => "a run with faults",
            Self::Scarce => "a run with faults and small tables",
            Self::Moving => "a run with moving primaries",
            Self::Lone => "a run with one writer",
            Self::Log => "a run with a log",
            Self::Mirrored => "a run with copies",
        }
    }
}

/// What is measured: so many of one thing for one of another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cost {
    /// Messages for each operation that was done.
    Messages,
    /// Bytes of payloads for each byte that was read or written.
    Payload,
    /// Refusals among deliveries.
    Refused,
    /// Reads of disks, of blocks that some node held, among all.
    ReadsInVain,
    /// Copies that were dropped, for each that a write may have made stale.
    Dropped,
    /// Times that each command was sent.
    Sent,
    /// Repetitions that came soon after the sending before, among all sendings.
    Hasty,
}

/// With fewer of what is divided by, a cost is chance.
const FEW: u64 = 100;

impl Cost {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Messages,
        Self::Payload,
        Self::Refused,
        Self::ReadsInVain,
        Self::Dropped,
        Self::Sent,
        Self::Hasty,
    ];

    /// The cost of a run, unless it has done too little.
    #[must_use]
    pub fn of(self, figures: &Figures) -> Option<Rate> {
        let Figures { traffic, .. } = figures;
        let (all, each, least) = match self {
            Self::Messages => (traffic.messages, figures.operations, FEW),
            Self::Payload => (traffic.payload_bytes, figures.bytes, FEW * 4096),
            Self::Refused => (figures.refused, traffic.deliveries, FEW),
            Self::ReadsInVain => (figures.reads_in_vain, figures.disk_reads, FEW),
            Self::Dropped => (figures.dropped, figures.stale_at_most, FEW),
            Self::Sent => (figures.commands_sent, figures.commands, FEW / 4),
            Self::Hasty => (figures.hasty, figures.commands_sent, FEW / 2),
        };
        (each >= least).then(|| Rate(all * 1000 / each))
    }

    /// What no run of the kind reaches. For runs with faults, half again to four times the worst of 2,000 seeds; where
    /// primaries move, of 700; with copies, twice to four times the worst of 2,001; with small tables, which are each of a size of
    /// its own, twice the worst of 7,236 such runs.
    ///
    /// How often the disk is read though a node has the block is the policy's doing: some ask no other nodes, one answers at
    /// random. Only a cold read has a limit, where all wait for the first.
    const fn limit(self, kind: Kind) -> Option<Rate> {
        let (cold, quiet, faulty, scarce, moving, lone, log, mirrored) = match self {
            Self::Messages => (4_000, 6_000, 10_000, 19_000, 10_000, 10_000, 2_000, 10_000),
            Self::Payload => (1_500, 2_000, 4_000, 3_500, 2_500, 4_000, 500, 4_000),
            Self::Refused => (0, 350, 450, 950, 450, 600, 20, 800),
            Self::ReadsInVain => return if matches!(kind, Kind::Cold) { Some(Rate(100)) } else { None },
            Self::Dropped => (0, 500, 2_000, 2_800, 2_000, 2_000, 20, 2_000),
            Self::Sent => (1_000, 5_000, 100_000, 7_000, 10_000, 100_000, 1_100, 10_000),
            Self::Hasty => (0, 100, 500, 800, 800, 500, 20, 800),
        };
        Some(Rate(match kind {
            Kind::Cold => cold,
            Kind::Quiet => quiet,
            Kind::Faulty => faulty,
            Kind::Scarce => scarce,
            Kind::Moving => moving,
            Kind::Lone => lone,
            Kind::Log => log,
            Kind::Mirrored => mirrored,
        }))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages an operation",
            Self::Payload => "bytes sent a byte",
            Self::Refused => "refusals a delivery",
            Self::ReadsInVain => "needless disk reads",
            Self::Dropped => "copies dropped a stale one",
            Self::Sent => "sendings a command",
            Self::Hasty => "hasty sendings",
        }
    }

    fn words(self, measured: Rate) -> String {
        match self {
            Self::Messages => format!("{measured} messages for each operation"),
            Self::Payload => format!("{measured} bytes sent for each that was read or written"),
            Self::Refused => format!("{measured} refusals for each delivery"),
            Self::ReadsInVain => {
                format!("{measured} reads of blocks that a node held, for each read of a disk")
            }
            Self::Dropped => format!("{measured} copies dropped for each that a write may have made stale"),
            Self::Sent => format!("{measured} times that each command was sent"),
            Self::Hasty => format!("{measured} repetitions that are too soon, for each sending of a command"),
        }
    }
}

/// A rate, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Rate(pub u64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The costs of many runs of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Of all together.
    pub sum: Figures,
    /// Of the worst run.
    pub worst: BTreeMap<Cost, Rate>,
}

impl Costs {
    /// Adds a run, or others.
    pub fn add(&mut self, other: &Self) {
        self.sum.add(&other.sum);
        for (&cost, &rate) in &other.worst {
            let worst = self.worst.entry(cost).or_default();
            *worst = rate.max(*worst);
        }
    }
}

impl Costs {
    /// A line: each cost of all runs together, and of the worst.
    #[must_use]
    pub fn told(&self, kind: Kind) -> String {
        let rates = self.worst.iter().map(|(&cost, worst)| {
            let all = cost.of(&self.sum).unwrap_or_default();
            format!("{} {all} (at most {worst})", cost.name())
        });
        format!("costs of {}: {}", kind.words(), rates.collect::<Vec<_>>().join(", "))
    }
}

impl From<Figures> for Costs {
    fn from(sum: Figures) -> Self {
        let worst = Cost::ALL.into_iter().filter_map(|cost| Some((cost, cost.of(&sum)?)));
        Self { sum, worst: worst.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Figures {
        Figures {
            operations: 1_000,
            bytes: 4_096_000,
            traffic: Traffic { messages: 2_000, payload_bytes: 2_048_000, deliveries: 500 },
            refused: 10,
            disk_reads: 200,
            reads_in_vain: 100,
            dropped: 50,
            stale_at_most: 900,
            commands: 100,
            commands_sent: 120,
            hasty: 3,
        }
    }

    #[test]
    fn work_that_is_done_again_and_again_is_too_much_and_said_in_words() {
        assert_eq!(usual().judge(Kind::Faulty), Ok(6));
        let refused = Figures { refused: 500, ..usual() };
        let words = refused.judge(Kind::Faulty).unwrap_err();
        assert_eq!(
            words,
            "1.000 refusals for each delivery in a run with faults, and more than 0.450 is too many"
        );
        let repeated = Figures { commands_sent: 10_100, ..usual() };
        assert!(repeated.judge(Kind::Faulty).unwrap_err().starts_with("101.000 times"));
        let dropped = Figures { dropped: 900, ..usual() };
        assert!(dropped.judge(Kind::Quiet).unwrap_err().starts_with("1.000 copies dropped"));
    }

    #[test]
    fn a_run_that_has_done_little_is_not_judged() {
        let little = Figures {
            operations: 9,
            traffic: Traffic { messages: 9_000, ..Traffic::default() },
            ..Figures::default()
        };
        assert_eq!(little.judge(Kind::Quiet), Ok(0));
    }

    #[test]
    fn costs_of_many_runs_are_of_all_together_and_of_the_worst() {
        let mut costs = Costs::from(usual());
        costs.add(&Figures { refused: 90, ..usual() }.into());
        let told = costs.told(Kind::Quiet);
        assert!(
            told.starts_with("costs of a run without faults: messages an operation 2.000 (at most 2.000)"),
            "{told}"
        );
        assert!(told.contains("refusals a delivery 0.100 (at most 0.180)"), "{told}");
    }
}
