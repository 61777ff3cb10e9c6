//! Volumes of managed disks, read and compared with their checksums: progress, pace and report.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Damage, Scrubbed};
use cards_config::size;
use serde::Serialize;

use crate::error::Error;
use crate::{output, progress};

/// Bytes that are asked for at a time.
const STEP: u64 = 16 << 20;
/// Most places that are listed.
const LISTED_MAX: usize = 1000;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// Bytes that were looked at.
    bytes: u64,
    /// Of these, bytes without checksums: they were being written when the disk was not closed.
    unverified: u64,
    /// Bytes that are damaged.
    damaged: u64,
    /// Where they are; the first thousand places.
    places: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    volume: String,
    #[serde(flatten)]
    damage: Damage,
}

/// Looks at volumes, each with its size in bytes, at most `rate` bytes a second (0: any), and prints what was found; `part` reads so many
/// bytes of a volume from an offset on. The status is 1 if anything is damaged.
pub(crate) fn run(
    volumes: &[(String, u64)],
    rate: u64,
    json: bool,
    mut part: impl FnMut(&str, u64, u64) -> Result<Scrubbed, Error>,
) -> Result<ExitCode, Error> {
    let bar = progress::bar(volumes.iter().map(|(_, bytes)| bytes).sum());
    let began = Instant::now();
    let mut report = Report { bytes: 0, unverified: 0, damaged: 0, places: Vec::new() };
    for (volume, bytes) in volumes {
        for at in (0..*bytes).step_by(STEP as usize) {
            let found = part(volume, at, STEP.min(bytes - at))?;
            report.bytes += found.bytes;
            report.unverified += found.unverified;
            report.damaged += found.damaged;
            let places = found.places.into_iter().map(|damage| Place { volume: volume.clone(), damage });
            report.places.extend(places.take(LISTED_MAX - report.places.len()));
            bar.set_position(report.bytes);
            let (read, damaged) = (size::human(report.bytes), size::human(report.damaged));
            bar.set_message(format!("{volume}: {read} read, {damaged} damaged"));
            if rate > 0 {
                let due = Duration::from_secs_f64(report.bytes as f64 / rate as f64);
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
        }
    }
    bar.finish_and_clear();
    output::print_either(json, &report, || text(&report))?;
    Ok(if report.damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(report: &Report) -> String {
    let mut text = format!("read         {}\n", size::human(report.bytes));
    if report.unverified > 0 {
        text += &format!("unverified   {}\n", size::human(report.unverified));
    }
    let damaged = match report.damaged {
        0 => "nothing".into(),
        damaged => size::human(damaged),
    };
    text += &format!("damaged      {damaged}\n");
    for Place { volume, damage: Damage { offset, length, reason } } in &report.places {
        text +=
            &format!("             volume {volume}, {} at byte {offset}: {reason}\n", size::human(*length));
    }
    text
}
