//! Volumes of managed disks, read and compared with their checksums: progress, pace and report.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cards_admin::{Damage, Scrubbed};
use cards_config::size;
use serde::Serialize;

use crate::error::Error;
use crate::signals::{self, Signals};
use crate::{output, progress};

/// Bytes that are asked for at a time.
const STEP: u64 = 4 << 20;
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
    /// Bytes of copies that were damaged, and were written anew from another copy.
    repaired: u64,
    /// A signal has ended it before all was looked at.
    interrupted: bool,
    /// Where what is damaged and what was repaired are; the first thousand places.
    places: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    volume: String,
    #[serde(flatten)]
    damage: Damage,
}

/// Looks at volumes, each with its size in bytes, at most `rate` bytes a second (0: any), and prints what was found; `part` reads so many
/// bytes of a volume from an offset on. A signal ends it after the part that is being read. The status is 1 if anything is damaged, 128 and its number if
/// a signal came.
pub(crate) fn run(
    volumes: &[(String, u64)],
    rate: u64,
    json: bool,
    mut part: impl FnMut(&str, u64, u64) -> Result<Scrubbed, Error>,
) -> Result<ExitCode, Error> {
    let signals = Signals::block();
    let bar = progress::bar(volumes.iter().map(|(_, bytes)| bytes).sum());
    let began = Instant::now();
    let mut report =
        Report { bytes: 0, unverified: 0, damaged: 0, repaired: 0, interrupted: false, places: Vec::new() };
    'all: for (volume, bytes) in volumes {
        for at in (0..*bytes).step_by(STEP as usize) {
            let found = part(volume, at, STEP.min(bytes - at))?;
            report.bytes += found.bytes;
            report.unverified += found.unverified;
            report.damaged += found.damaged;
            report.repaired += found.repaired;
            let places = found.places.into_iter().map(|damage| Place { volume: volume.clone(), damage });
            report.places.extend(places.take(LISTED_MAX - report.places.len()));
            bar.set_position(report.bytes);
            let (read, damaged) = (size::human(report.bytes), size::human(report.damaged));
            let repaired = match report.repaired {
                0 => String::new(),
                repaired => format!(", {} repaired", size::human(repaired)),
            };
            bar.set_message(format!("{volume}: {read} read, {damaged} damaged{repaired}"));
            let due = match rate {
                0 => Duration::ZERO,
                rate => Duration::from_secs_f64(report.bytes as f64 / rate as f64),
            };
            if signals.end_within(due.saturating_sub(began.elapsed())) {
                report.interrupted = true;
                break 'all;
            }
        }
    }
    bar.finish_and_clear();
    output::print_either(json, &report, || text(&report))?;
    Ok(match report {
        Report { interrupted: true, .. } => ExitCode::from(signals::interrupted()),
        Report { damaged: 0, .. } => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn text(report: &Report) -> String {
    let mut text = format!("read         {}\n", size::human(report.bytes));
    if report.unverified > 0 {
        text += &format!("unverified   {}\n", size::human(report.unverified));
    }
    if report.interrupted {
        text += "interrupted  the rest was not read\n";
    }
    if report.repaired > 0 {
        text += &format!("repaired     {}\n", size::human(report.repaired));
    }
    let damaged = match report.damaged {
        0 => "nothing".into(),
        damaged => size::human(damaged),
    };
    text += &format!("damaged      {damaged}\n");
    for Place { volume, damage: Damage { offset, length, reason, .. } } in &report.places {
        text +=
            &format!("             volume {volume}, {} at byte {offset}: {reason}\n", size::human(*length));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_it_after_the_part_that_is_read() {
        let mut parts = 0;
        let status = run(&[("data".into(), 4 * STEP)], 0, true, |_, _, bytes| {
            parts += 1;
            if parts == 2 {
                // SAFETY: no memory is passed; the signal is blocked in this thread, which alone gets it.
                unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGINT) };
            }
            Ok(Scrubbed { bytes, ..Scrubbed::default() })
        });
        assert_eq!((format!("{:?}", status.unwrap()), parts), (format!("{:?}", ExitCode::from(130)), 2));
    }
}
