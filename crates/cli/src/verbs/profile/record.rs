//! `cards profile record`.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, Demand, DemandKind, Recorded, Refusal, RefusalKind, Volume};
use cards_config::{duration, size};
use clap::Args;
use serde::Serialize;

use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::profile::{File as Profile, ProfileError, RANGES_MAX};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::table::count;

/// Record which parts of a volume the clients of this node read, in order
#[derive(Debug, Args)]
#[command(after_help = "\
Each block counts once, when it is read for the first time. Ends after --duration or at Ctrl-C; the
file is written then. One profile, or trace, is recorded at a time at a node.

Examples:
  cards profile record golden -o boot.profile --duration 90s
  cards profile play boot.profile --rate 200M")]
pub(crate) struct Record {
    /// The volume
    #[arg(add = complete::volumes())]
    volume: String,

    /// The profile to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Written<'a> {
    volume: &'a str,
    profile: &'a Path,
    ranges: usize,
    bytes: u64,
    /// Requests that came faster than they were fetched.
    lost: u64,
    /// The recording ended at the largest number of ranges.
    full: bool,
}

/// How often the node is asked: its rings hold half a second of 64,000 requests a second.
const LOOK: Duration = Duration::from_millis(20);

impl Record {
    pub(super) fn run(self) -> Result<(), Error> {
        let signals = Signals::block();
        if self.output.exists() && !self.force {
            return Err(ProfileError::Exists { path: self.output }.into());
        }
        let mut client = self.daemon.connect()?;
        let volume = client.volume(&self.volume)?;
        if volume.attached.is_none() {
            return Err(not_attached(&self.volume).into());
        }
        let recording = client.record()?;
        let known = recording.volumes.iter().find(|known| known.name == self.volume);
        let number = known.ok_or_else(|| not_attached(&self.volume))?.number;
        eprintln!("cards: recording what clients of this node read of {}; Ctrl-C ends it", self.volume);
        let mut touched = Touched::new(number, volume.block);
        let lost = self.watch(&mut client, &mut touched, &signals)?;
        let profile = touched.profile(&volume);
        if profile.ranges.is_empty() {
            let (volume, path) = (self.volume, self.output);
            return Err(ProfileError::Nothing { volume, path }.into());
        }
        let written = File::create(&self.output).and_then(|file| profile.write(&mut BufWriter::new(file)));
        written.map_err(|source| ProfileError::Write { path: self.output.clone(), source })?;
        let written = Written {
            volume: &self.volume,
            profile: &self.output,
            ranges: profile.ranges.len(),
            bytes: profile.bytes(),
            lost,
            full: touched.full,
        };
        output::print_either(self.json, &written, || written.to_string())
    }

    /// Notes what is read until the end; says how many requests were lost.
    fn watch(
        &self,
        client: &mut Client,
        touched: &mut Touched,
        signals: &Signals,
    ) -> Result<u64, ClientError> {
        let began = Instant::now();
        let progress = Progress::new("recording");
        loop {
            let left = self.duration.map(|duration| duration.saturating_sub(began.elapsed()));
            let over = signals.end_within(left.map_or(LOOK, |left| left.min(LOOK)));
            let over = over || left.is_some_and(|left| left.is_zero());
            let lost = loop {
                let Recorded { demands, more, lost, .. } = client.take_recorded()?;
                demands.iter().for_each(|demand| touched.note(demand));
                if !more {
                    break lost;
                }
            };
            let all = self.duration.map_or(f64::INFINITY, |all| all.as_secs_f64());
            let share = (began.elapsed().as_secs_f64() / all).min(1.0);
            progress.show(share, touched.requests, Some(touched.first.len() as u64), "");
            if over || touched.full {
                return Ok(lost);
            }
        }
    }
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranges, bytes) = (count(self.ranges as u64), size::human(self.bytes));
        writeln!(f, "{}: {ranges} ranges, {bytes}", self.profile.display())?;
        if self.lost > 0 {
            writeln!(
                f,
                "  {} requests were lost: they came faster than they were fetched",
                count(self.lost)
            )?;
        }
        if self.full {
            writeln!(f, "  ended at {} blocks; what came later is not in it", count(RANGES_MAX as u64))?;
        }
        Ok(())
    }
}

fn not_attached(volume: &str) -> ClientError {
    let message = format!("volume {volume:?} is not attached here; run `cards volume attach {volume}`");
    Refusal { kind: RefusalKind::NotAttached, message }.into()
}

/// The blocks that have been read.
struct Touched {
    volume: u16,
    block: u64,
    /// When each was read first, in nanoseconds.
    first: HashMap<u64, u64>,
    requests: u64,
    full: bool,
}

impl Touched {
    fn new(volume: u16, block: u32) -> Self {
        Self { volume, block: u64::from(block).max(1), first: HashMap::new(), requests: 0, full: false }
    }

    fn note(&mut self, demand: &Demand) {
        if demand.volume != self.volume || demand.kind != DemandKind::Read || demand.bytes == 0 {
            return;
        }
        self.requests += 1;
        let end = demand.offset.saturating_add(demand.bytes.into());
        for index in demand.offset / self.block..end.div_ceil(self.block) {
            if self.first.len() == RANGES_MAX && !self.first.contains_key(&index) {
                self.full = true;
                return;
            }
            // Threads tell one after the other, so an earlier read may be told later.
            let first = self.first.entry(index).or_insert(u64::MAX);
            *first = demand.time_ns.min(*first);
        }
    }

    /// The blocks in order, neighbours that follow each other as one range.
    fn profile(&self, volume: &Volume) -> Profile {
        let mut blocks: Vec<(u64, u64)> = self.first.iter().map(|(&index, &time)| (time, index)).collect();
        blocks.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (_, index) in blocks {
            let offset = index * self.block;
            let Some(length) = volume.size.checked_sub(offset).map(|left| left.min(self.block)) else {
                continue;
            };
            match ranges.last_mut() {
                Some((last, extent)) if *last + *extent == offset => *extent += length,
                _ if length > 0 => ranges.push((offset, length)),
                _ => {}
            }
        }
        Profile { volume: volume.name.clone(), size: volume.size, ranges }
    }
}

#[cfg(test)]
mod tests {
    use cards_admin::VolumeState;

    use super::*;

    #[test]
    fn blocks_are_in_the_order_of_their_first_reads() {
        let read = |time_ns, offset, bytes| Demand {
            time_ns,
            client: 0,
            volume: 3,
            kind: DemandKind::Read,
            offset,
            bytes,
        };
        let mut touched = Touched::new(3, 4096);
        touched.note(&read(5, 8192, 10));
        touched.note(&read(7, 8192, 8193));
        touched.note(&read(9, 0, 1));
        // Of another thread.
        touched.note(&read(1, 40_000, 1));
        touched.note(&Demand { volume: 4, ..read(2, 0, 1) });
        touched.note(&Demand { kind: DemandKind::Write, ..read(2, 0, 1) });
        let volume = Volume {
            name: "d".into(),
            disk_node: None,
            size: 41_000,
            block: 4096,
            policy: None,
            state: VolumeState::Ready,
            reason: None,
            attached: None,
            cached_blocks: 0,
            ..volume()
        };
        let profile = touched.profile(&volume);
        assert_eq!(profile.ranges, [(36_864, 4096), (8192, 12_288), (0, 4096)]);
        assert_eq!((profile.volume.as_str(), profile.size), ("d", 41_000));
    }

    fn volume() -> Volume {
        serde_json::from_str(
            r#"{"name":"","disk_node":null,"size":null,"block":null,"policy":null,"coherence":null,"read_only":null,"state":"ready","attached":null,"cached_blocks":0}"#,
        )
        .unwrap()
    }
}
