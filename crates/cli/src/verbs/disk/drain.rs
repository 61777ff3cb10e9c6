//! `cards disk drain`: all copies of a disk, or of all disks of a node, go elsewhere.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use cards_admin::{Client, ClientError, ManagedDisk};
use clap::Args;
use serde::Serialize;

use super::error::DiskError;
use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::{output, progress};

/// How often is looked how far it is.
const LOOK: Duration = Duration::from_secs(1);

/// What `cards disk drain` is told.
#[derive(Debug, Args)]
pub(super) struct Drain {
    /// The disk, or the node, all disks of which are drained
    #[arg(value_name = "NODE[:DISK]", add = complete::disks())]
    from: String,
    /// Wait until nothing is left there; a node that is away removes its copies when it is back
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Drained {
    from: String,
    /// The volumes whose copies leave, those that did before included.
    leaving: Vec<String>,
    /// Those whose copies stay, and why.
    refused: Vec<Refused>,
}

#[derive(Serialize)]
struct Refused {
    volume: String,
    reason: String,
}

impl Drain {
    /// Exit status 1: a copy cannot leave.
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let Self { from, wait, daemon, json } = self;
        let mut client = daemon.connect()?;
        let mut drained = Drained { from, leaving: Vec::new(), refused: Vec::new() };
        for disk in disks(&mut client, &drained.from)? {
            for volume in &disk.copies {
                let is_leaving = disk.leaving.contains(volume);
                let asked =
                    if is_leaving { Ok(()) } else { client.replace_copy(volume, &disk.place(), None) };
                match asked {
                    Ok(()) => drained.leaving.push(volume.clone()),
                    Err(ClientError::Refused(refusal)) => {
                        drained.refused.push(Refused { volume: volume.clone(), reason: refusal.message });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if wait {
            wait_until_left(&mut client, &drained)?;
        }
        output::print_either(json, &drained, || text(&drained, wait))?;
        Ok(if drained.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Returns when no copy leaves any more. A node that is away removes its copies when it is back.
fn wait_until_left(client: &mut Client, drained: &Drained) -> Result<(), Error> {
    let count = drained.leaving.len() as u64;
    let bar = progress::bar(count);
    loop {
        let disks = disks(client, &drained.from)?;
        let left: Vec<&str> = disks.iter().flat_map(|disk| &disk.leaving).map(String::as_str).collect();
        if left.is_empty() {
            bar.finish_and_clear();
            return Ok(());
        }
        let away = if disks.iter().any(|disk| !disk.is_up) { ", whose node is away" } else { "" };
        bar.set_position(count.saturating_sub(left.len() as u64));
        bar.set_message(format!("{}{away}: the copies of {} leave", drained.from, left.join(", ")));
        thread::sleep(LOOK);
    }
}

fn disks(client: &mut Client, from: &str) -> Result<Vec<ManagedDisk>, Error> {
    let all = client.managed_disks()?;
    let (found, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|disk| disk.node == from || disk.place() == from);
    if found.is_empty() {
        let there = others.iter().map(ManagedDisk::place).collect();
        return Err(DiskError::Unknown { from: from.into(), there }.into());
    }
    Ok(found)
}

fn text(drained: &Drained, waited: bool) -> String {
    let Drained { from, leaving, refused } = drained;
    let mut text = match (leaving.is_empty() && refused.is_empty(), leaving.is_empty()) {
        (true, _) => format!("there are no copies of volumes on {from}\n"),
        (false, true) => String::new(),
        (false, false) if waited => format!("{from}: the copies of {} have left\n", leaving.join(", ")),
        (false, false) => format!(
            "{from}: the copies of {} leave when the new ones are in sync; `cards disk list` shows what is left\n",
            leaving.join(", ")
        ),
    };
    for Refused { volume, reason } in refused {
        text += &format!("{from}: the copy of {volume} stays: {reason}\n");
    }
    text
}
