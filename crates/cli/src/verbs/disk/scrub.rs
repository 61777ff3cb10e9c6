//! `cards disk scrub`: all volumes of a managed disk, read and compared with their checksums.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cards_config::size;
use cards_disk::{DiskOptions, Managed, ManagedOptions, Scrub, Scrubbed};
use serde::Serialize;

use super::DiskError;
use crate::error::Error;
use crate::{output, progress};

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    path: PathBuf,
    disk: String,
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
    offset: u64,
    length: u64,
    reason: String,
}

impl From<Scrubbed> for Place {
    fn from(place: Scrubbed) -> Self {
        let reason = place.error.unwrap_or_else(|| "does not fit its checksum".into());
        Self { volume: place.volume, offset: place.offset, length: place.length, reason }
    }
}

pub(super) fn run(path: &Path, rate: u64, json: bool) -> Result<ExitCode, Error> {
    let managed = Managed::open(&ManagedOptions::new(DiskOptions::path(path))).map_err(DiskError::from)?;
    let bar = progress::bar(managed.volumes().iter().map(|volume| volume.bytes).sum());
    let shown = bar.clone();
    let scrubbed = managed.scrub(rate, move |scrub| {
        shown.set_position(scrub.done);
        shown.set_message(format!(
            "{} read, {} damaged",
            size::human(scrub.done),
            size::human(scrub.damaged)
        ));
        true
    });
    bar.finish_and_clear();
    let Scrub { done, unverified, damaged, places, .. } =
        scrubbed.map_err(|source| DiskError::Managed { path: path.into(), source: Box::new(source) })?;
    let disk = managed.superblock().name.to_string();
    managed.close();
    let places = places.into_iter().map(Place::from).collect();
    let report = Report { path: path.into(), disk, bytes: done, unverified, damaged, places };
    output::print_either(json, &report, || text(&report))?;
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(report: &Report) -> String {
    let mut text = format!("disk         {}\nread         {}\n", report.disk, size::human(report.bytes));
    if report.unverified > 0 {
        text += &format!("unverified   {}\n", size::human(report.unverified));
    }
    text += &format!(
        "damaged      {}\n",
        if report.damaged == 0 { "nothing".into() } else { size::human(report.damaged) }
    );
    for Place { volume, offset, length, reason } in &report.places {
        text +=
            &format!("             volume {volume}, {} at byte {offset}: {reason}\n", size::human(*length));
    }
    text
}
