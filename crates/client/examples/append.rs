//! Processes on several nodes append records to one shared volume, and lose and tear none.
//!
//! The first 4 KiB block of the volume is a header: how many records there are, and the token under which the
//! last of them were appended. The records follow it, 512 bytes each. Who appends locks the header, reads it,
//! writes records behind the last one, flushes, and only then writes the header and flushes again: whatever dies
//! in between leaves a header that does not count what may be torn. The volume itself checks no tokens, so who
//! appends does: a header with a later token than its own means that its lock is lost.
//!
//! ```text
//! append write NAME COUNT [--batch N] --at API-SOCKET,NBD-SOCKET [--at ...]   appends records NAME 1..COUNT
//! append verify --at API-SOCKET,NBD-SOCKET [NAME=COUNT ...]                   reads all and checks
//! ```
//!
//! With several `--at`, the next one is used when a node fails. After that a process cannot know whether its last
//! batch was counted, so it looks for its own last record first.

mod append {
    pub(super) mod log;
    pub(super) mod nbd;
    pub(super) mod record;
}

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use append::log::{Log, Trouble};
use cards_client::{Client, Range, Session, Wait};
use clap::{Parser, Subcommand};

/// Appends records to a shared volume, or checks them.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Where a node is: its API socket and its NBD socket
    #[arg(long = "at", global = true, value_name = "API,NBD")]
    places: Vec<Place>,
    /// The volume
    #[arg(long, global = true, default_value = "disk")]
    volume: String,
}

#[derive(Subcommand)]
enum Verb {
    /// Append records NAME 1, NAME 2 ... NAME COUNT
    Write {
        name: String,
        count: u64,
        /// Records appended under one lock
        #[arg(long, default_value_t = 10)]
        batch: u64,
    },
    /// Read all records and check that those of each NAME are 1 to COUNT, in order
    Verify { expected: Vec<Expected> },
}

#[derive(Clone)]
struct Place {
    api: PathBuf,
    nbd: PathBuf,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (api, nbd) = text.split_once(',').ok_or("write API-SOCKET,NBD-SOCKET")?;
        Ok(Self { api: api.into(), nbd: nbd.into() })
    }
}

#[derive(Clone)]
struct Expected {
    name: String,
    count: u64,
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.split_once('=').ok_or("write NAME=COUNT")?;
        Ok(Self { name: name.into(), count: count.parse().map_err(|e| format!("{count}: {e}"))? })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.verb {
        Verb::Write { name, count, batch } => write(&cli, name, *count, (*batch).max(1)).await,
        Verb::Verify { expected } => verify(&cli, expected).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("append: {trouble}");
            ExitCode::FAILURE
        }
    }
}

/// How long a node may be out of service before the next one is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// Failures in a row before a process gives up.
const FAILURES_MAX: u32 = 300;

async fn write(cli: &Cli, name: &str, count: u64, batch: u64) -> Result<(), Trouble> {
    let mut failures = 0;
    let mut next = 0;
    loop {
        let place = cli.places.get(next % cli.places.len().max(1)).ok_or(Trouble::NoPlace)?;
        let failed = match write_at(place, &cli.volume, name, count, batch, &mut failures).await {
            Err(trouble) if trouble.may_pass() && failures < FAILURES_MAX => trouble,
            end => return end,
        };
        eprintln!("append: {failed}; trying the next node");
        failures += 1;
        next += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Appends what is missing, at one node, until something fails.
async fn write_at(
    place: &Place,
    volume: &str,
    name: &str,
    count: u64,
    batch: u64,
    failures: &mut u32,
) -> Result<(), Trouble> {
    let session: Session = Client::unix(&place.api).session(name, Duration::from_secs(5)).await?;
    let mut log = Log::open(&place.nbd, volume).await?;
    let header = [Range::write(volume, 0, append::log::HEADER_BYTES)];
    // Only the first look at a node can find what was appended at another one.
    let mut known = None;
    loop {
        let group = session.lock(&header, Wait::Seconds(60.0)).await?;
        let last = match known {
            Some(last) => last,
            None => log.last_of(name).await?,
        };
        if last >= count {
            group.release().await?;
            return Ok(session.close().await?);
        }
        let sequences = last + 1..=count.min(last + batch);
        log.append(name, sequences.clone(), &group).await?;
        known = Some(*sequences.end());
        println!("{name} {}", sequences.end());
        group.release().await?;
        *failures = 0;
    }
}

async fn verify(cli: &Cli, expected: &[Expected]) -> Result<(), Trouble> {
    let place = cli.places.first().ok_or(Trouble::NoPlace)?;
    let mut log = Log::open(&place.nbd, &cli.volume).await?;
    let counts = log.check().await?;
    for Expected { name, count } in expected {
        let found = counts.get(name).copied().unwrap_or(0);
        if found != *count {
            return Err(Trouble::Missing { name: name.clone(), found, count: *count });
        }
    }
    for (name, count) in &counts {
        println!("{name} {count}");
    }
    Ok(())
}
