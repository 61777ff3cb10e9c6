//! `cards warm` and `cards profile play`: blocks into a node's cache before anybody asks for them.

mod bar;
mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, Refusal, RefusalKind, Volume, VolumeState, WARM_BLOCKS_MAX, Warmed};
use cards_config::size;
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::{Error, Failure};
use crate::output;
use crate::profile::{File, ProfileError};
use crate::range;
use crate::signals::{Arrived, Signals};
use crate::table::count;
use bar::Bar;
use plan::Plan;

/// Fetch a volume, or parts of it, into this node's cache
#[derive(Debug, Args)]
#[command(after_help = "\
Blocks come from other nodes' caches where they are, else from the disk. All of the volume unless
--from or --range say less. Ctrl-C ends it; what is cached stays. docs/operating/warm.md says more.

Examples:
  cards warm data
  cards warm golden --from boot.profile --rate 200M
  cards warm data --range 0+1G --range 40G+512M --json")]
pub(crate) struct Warm {
    /// The volume
    #[arg(value_name = "VOLUME")]
    volume: String,

    /// A profile: what it names, in its order
    #[arg(long, value_name = "PROFILE", conflicts_with = "range")]
    from: Option<PathBuf>,

    /// Only this part, in bytes; can be given several times
    #[arg(long, value_name = range::SYNTAX, value_parser = range::parse)]
    range: Vec<(u64, u64)>,

    #[command(flatten)]
    how: How,
}

/// Fetch what a profile names into this node's cache, in its order
#[derive(Debug, Args)]
#[command(after_help = "\
The same as `cards warm VOLUME --from FILE`, with the volume that the profile names.

Examples:
  cards profile play boot.profile
  cards profile play boot.profile --rate 200M --json")]
pub(crate) struct Play {
    /// The profile
    #[arg(value_name = "FILE")]
    profile: PathBuf,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// Bytes a second at most [default: as fast as it goes]
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,

    /// Use the profile although it is of another volume, or of another size
    #[arg(long)]
    force: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

/// A volume cannot be warmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WarmError {
    /// The volume ends before.
    #[error("--range {offset}+{length}: volume {volume:?} has {size} bytes; name a part of it")]
    Range { offset: u64, length: u64, volume: String, size: u64 },
    /// Blocks could not be read.
    #[error("volume {volume:?}: {failed} blocks could not be read; see `cards status`, and try again")]
    Failed { volume: String, failed: u64 },
}

impl Failure for WarmError {}

/// What was done.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Outcome {
    volume: String,
    /// Bytes that were asked for, and those that have been done.
    bytes: u64,
    bytes_done: u64,
    #[serde(flatten)]
    blocks: Warmed,
    seconds: f64,
    interrupted: bool,
}

/// How long one request may take: a disk may be slow, and others may use it.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Requests a second, at least, at a limited rate, so that it is limited at every moment.
const STEPS_PER_SECOND: u64 = 10;

fn rate(text: &str) -> Result<u64, String> {
    match size::parse(text).map_err(|error| error.to_string())? {
        0 => Err("nothing would ever be fetched; give a rate above 0".into()),
        rate => Ok(rate),
    }
}

impl Play {
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        let volume = File::open(&self.profile)?.volume;
        Warm { volume, from: Some(self.profile), range: Vec::new(), how: self.how }.run(cx)
    }
}

impl Warm {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let profile = self.from.as_deref().map(File::open).transpose()?;
        let signals = Signals::block();
        let mut client = self.how.daemon.connect_within(ANSWER_WITHIN)?;
        let status = client.status()?;
        let volume = client.volume(&self.volume)?;
        if volume.attached.is_none() {
            let message =
                format!("volume {0:?} is not attached here; run `cards volume attach {0}`", self.volume);
            return Err(ClientError::from(Refusal { kind: RefusalKind::NotAttached, message }).into());
        }
        if volume.state == VolumeState::Refused {
            let message =
                volume.reason.unwrap_or_else(|| format!("volume {:?} is refused here", self.volume));
            return Err(ClientError::from(Refusal { kind: RefusalKind::NotAttached, message }).into());
        }
        let ranges = self.ranges(&volume, profile)?;
        let plan = Plan::new(ranges, volume.block.into());
        if plan.bytes > status.cache.bytes {
            eprintln!(
                "cards: {} of volume {} do not fit into the cache of {}: what comes first leaves it again; name \
                 a profile or ranges",
                size::human(plan.bytes),
                self.volume,
                size::human(status.cache.bytes)
            );
        }
        let most = WARM_BLOCKS_MAX.min(status.cache.bytes / 4 / u64::from(volume.block.max(1)));
        let (outcome, signal) = self.fetch(&mut client, plan, most, volume.block.into(), &signals)?;
        if self.how.json {
            output::print_json(&outcome)?
        } else {
            output::print(&outcome.to_string())?
        }
        match (signal, outcome.blocks.failed) {
            (Some(signal), _) => Ok(ExitCode::from(128 + signal)),
            (None, 0) => Ok(ExitCode::SUCCESS),
            (None, failed) => Err(WarmError::Failed { volume: self.volume, failed }.into()),
        }
    }

    /// What is to be fetched.
    fn ranges(&self, volume: &Volume, profile: Option<File>) -> Result<Vec<(u64, u64)>, Error> {
        if let (Some(profile), Some(path)) = (profile, &self.from) {
            return Ok(self.of_profile(volume, profile, path)?);
        }
        if self.range.is_empty() {
            return Ok(vec![(0, volume.size)]);
        }
        for &(offset, length) in &self.range {
            if offset + length > volume.size {
                let (volume, size) = (volume.name.clone(), volume.size);
                return Err(WarmError::Range { offset, length, volume, size }.into());
            }
        }
        Ok(self.range.clone())
    }

    fn of_profile(
        &self,
        volume: &Volume,
        profile: File,
        path: &Path,
    ) -> Result<Vec<(u64, u64)>, ProfileError> {
        let fits = profile.volume == volume.name && profile.size == volume.size;
        if !fits && !self.how.force {
            return Err(ProfileError::OtherVolume {
                path: path.into(),
                volume: profile.volume,
                size: profile.size,
                asked: volume.name.clone(),
                asked_size: volume.size,
            });
        }
        let cut = |(offset, length): (u64, u64)| (offset, length.min(volume.size.saturating_sub(offset)));
        Ok(profile.ranges.into_iter().map(cut).filter(|(_, length)| *length > 0).collect())
    }

    /// Fetches it; the number of the signal that has ended it, if one has.
    fn fetch(
        &self,
        client: &mut Client,
        mut plan: Plan,
        most: u64,
        block: u64,
        signals: &Signals,
    ) -> Result<(Outcome, Option<u8>), ClientError> {
        let began = Instant::now();
        let bar = Bar::new(&self.volume, plan.bytes);
        let step = self.how.rate.map_or(most, |rate| most.min(rate / STEPS_PER_SECOND / block.max(1)));
        let (mut blocks, mut done, mut signal) = (Warmed::default(), 0, None);
        while signal.is_none()
            && let Some((ranges, bytes)) = plan.next(step)
        {
            blocks = blocks.plus(client.warm(&self.volume, &ranges)?);
            done += bytes;
            bar.show(done, began.elapsed());
            // What was there already has cost nobody anything, but a rate is a promise that is easy to understand.
            let due = self.how.rate.map(|rate| Duration::from_secs_f64(done as f64 / rate as f64));
            signal = pause(signals, due.map_or(Duration::ZERO, |due| due.saturating_sub(began.elapsed())));
        }
        let outcome = Outcome {
            volume: self.volume.clone(),
            bytes: plan.bytes,
            bytes_done: done,
            blocks,
            seconds: began.elapsed().as_secs_f64(),
            interrupted: done < plan.bytes,
        };
        Ok((outcome, signal))
    }
}

/// Waits; the number of a signal that asks this program to end.
fn pause(signals: &Signals, duration: Duration) -> Option<u8> {
    let until = Instant::now() + duration;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match signals.wait(left) {
            Some(arrived) if Arrived::ends(arrived) => return u8::try_from(arrived.number).ok(),
            _ if left.is_zero() => return None,
            _ => {}
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Warmed { here, from_peers, from_disk, failed } = self.blocks;
        let rate = size::human((self.bytes_done as f64 / self.seconds.max(1e-3)) as u64);
        let (volume, bytes, seconds) = (&self.volume, size::human(self.bytes_done), self.seconds);
        write!(f, "volume {volume}: {bytes}")?;
        if self.interrupted {
            write!(f, " of {}, interrupted", size::human(self.bytes))?;
        }
        writeln!(f, " in {seconds:.1} s, {rate}/s")?;
        let (disk, peers, here) = (count(from_disk), count(from_peers), count(here));
        write!(f, "  blocks: {disk} from the disk, {peers} from other nodes, {here} were here already")?;
        if failed > 0 {
            write!(f, ", {} failed", count(failed))?;
        }
        writeln!(f)
    }
}
