//! What sharing a volume costs: nothing where nobody is in the way of anybody, and little where somebody is.
//!
//! - Local and remote hits on a volume that three nodes have attached read-write, beside the same on one that nobody
//!   can write.
//! - Writes to a range that the writer holds alone.
//! - One block that two nodes write and read in turn, beside a bare round trip with as many bytes: with hand-over from
//!   cache to cache and by way of the disk, with and without copies at the disk node.
//! - Reads at three nodes with one write in a hundred, beside reads alone.
//!
//! Times are of one minute on one machine and mean something only beside each other; messages are counted.

mod client;
mod cluster;
mod format;
mod hits;
mod mix;
mod ping_pong;
mod sample;

use std::time::Instant;

use serde::Serialize;

use crate::Error;
use crate::compare::{Effort, Skipped};
use crate::peers::Site;

pub use format::format;
pub use sample::{Claim, Row};

use sample::{Case, Results};

/// The unit of caching and of requests, in bytes.
const BLOCK: u32 = 4 << 10;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Sharing {
    /// Bytes per block and request.
    pub block: u32,
    /// One row per case: medians over the rounds.
    pub rows: Vec<Row>,
    /// What should hold, checked.
    pub claims: Vec<Claim>,
    /// What could not be measured.
    pub skipped: Vec<Skipped>,
    /// Rounds that were not begun because the time was over.
    pub not_run: usize,
}

/// Measures all cases, all of them in each round.
///
/// # Errors
/// [`Error::MissingTool`] without the `cards` program. What fails later is noted as skipped.
pub fn run(site: &Site, effort: &Effort) -> Result<Sharing, Error> {
    type Group = fn(&Site, &Effort, usize, &mut Results) -> Result<(), Error>;
    let groups: [(&str, Group); 3] = [
        ("hits and writes without conflict", hits::measure),
        ("one block in turn", ping_pong::measure),
        ("reads with writes among them", mix::measure),
    ];
    let cases: Vec<Case> = hits::cases().into_iter().chain(ping_pong::cases()).chain(mix::cases()).collect();
    let mut results = Results::new(&cases);
    let mut skipped: Vec<Skipped> = Vec::new();
    let mut not_run = 0;
    for round in 0..effort.rounds {
        if Instant::now() >= effort.deadline {
            not_run = effort.rounds - round;
            break;
        }
        results.begin_round();
        for (what, measure) in groups {
            match measure(site, effort, round, &mut results) {
                Ok(()) => {}
                Err(error @ (Error::Interrupted | Error::MissingTool { .. })) => return Err(error),
                Err(error) => note(&mut skipped, Skipped::new(what.to_owned(), &error)),
            }
        }
        results.take_failures().into_iter().for_each(|failure| note(&mut skipped, failure));
    }
    let rows = results.rows();
    let claims = sample::claims(&rows);
    Ok(Sharing { block: BLOCK, rows, claims, skipped, not_run })
}

/// The same thing once, not once per round.
fn note(skipped: &mut Vec<Skipped>, new: Skipped) {
    if !skipped.iter().any(|known| known.what == new.what) {
        skipped.push(new);
    }
}
