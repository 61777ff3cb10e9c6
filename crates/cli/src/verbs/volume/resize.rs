//! `cards volume resize`: a volume over managed disks of several nodes becomes larger.

use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, Growing, Volume};
use cards_config::size;
use clap::Args;
use serde::Serialize;

use super::error::VolumeError;
use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::signals::Signals;

/// How long the nodes are waited for: each gives its copies the space, which takes a moment where the disk can make it zero at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often is looked whether they have.
const LOOK: Duration = Duration::from_millis(50);

/// What `cards volume resize` is told.
#[derive(Debug, Args)]
pub(super) struct Resize {
    /// The volume
    #[arg(value_name = "NAME", add = complete::volumes())]
    name: String,
    /// The size that it is to have, a multiple of 4096 bytes, such as 20G
    #[arg(value_name = "SIZE", value_parser = size::parse, required_unless_present = "cancel")]
    size: Option<u64>,
    /// Keep the size that it has, while a growth waits for space or for a node
    #[arg(long, conflicts_with = "size")]
    cancel: bool,
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of a volume that has become larger, or had the size.
#[derive(Serialize)]
struct Resized {
    volume: String,
    /// Its size, in bytes.
    size: u64,
    /// The one that it had.
    before: u64,
}

impl Resize {
    pub(super) fn run(self) -> Result<(), Error> {
        let Self { name, size, cancel: _, daemon, json } = self;
        let mut client = daemon.connect()?;
        let Some(size) = size else { return cancel(&mut client, name, json) };
        let before = client.volume(&name)?.size;
        let signals = Signals::block();
        let line = client.hang_up()?;
        let (answer, interrupted) = signals.during(|| line.now(), || client.resize_volume(&name, size));
        let unanswered = |why: String| VolumeError::GrowthUnanswered { volume: name.clone(), size, why };
        let goes_on = |why: Option<String>| VolumeError::GrowthGoesOn { volume: name.clone(), size, why };
        match answer {
            Some(Err(ClientError::Io { source, .. })) => return Err(unanswered(source.to_string()).into()),
            Some(answer) => answer?,
            None => return Err(unanswered("interrupted".into()).into()),
        }
        if interrupted {
            return Err(goes_on(None).into());
        }
        let until = Instant::now() + PATIENCE;
        let mut is_growing = false;
        loop {
            let found = match client.volume(&name) {
                Err(ClientError::Io { source, .. }) => return Err(goes_on(Some(source.to_string())).into()),
                found => found?,
            };
            let grows = growing(&found);
            if found.size >= size && grows.is_none() {
                break;
            }
            if is_growing && grows.is_none() {
                return Err(
                    VolumeError::GrowthCancelled { volume: name, size: found.size, wanted: size }.into()
                );
            }
            is_growing |= grows.is_some();
            if Instant::now() >= until {
                let waits_for = grows.map(|grows| grows.waits_for).unwrap_or_default();
                return Err(VolumeError::NotGrown { volume: name, size, waits_for }.into());
            }
            if signals.end_within(LOOK) {
                return Err(goes_on(None).into());
            }
        }
        let resized = Resized { volume: name, size, before };
        output::print_either(json, &resized, || {
            let Resized { volume, size, before } = &resized;
            if size == before {
                return format!("volume {volume} has {} ({size} bytes) already\n", size::human(*size));
            }
            format!(
                "volume       {volume}\n\
                 size         {} ({size} bytes), was {} ({before} bytes)\n\
                 clients      see it when they connect or attach anew\n",
                size::human(*size),
                size::human(*before)
            )
        })
    }
}

/// The volume keeps the size that it has.
fn cancel(client: &mut Client, name: String, json: bool) -> Result<(), Error> {
    let found = client.volume(&name)?;
    let Some(Growing { to, .. }) = growing(&found) else {
        return Err(VolumeError::NotGrowing { volume: name, size: found.size }.into());
    };
    client.cancel_resize(&name)?;
    let until = Instant::now() + PATIENCE;
    let mut found = found;
    while growing(&found).is_some() && Instant::now() < until {
        thread::sleep(LOOK);
        found = client.volume(&name)?;
    }
    if growing(&found).is_some() {
        return Err(VolumeError::CancelNotHeard { volume: name, size: found.size }.into());
    }
    if found.size >= to {
        return Err(VolumeError::GrownBefore { volume: name, size: found.size }.into());
    }
    let kept = Resized { volume: name, size: found.size, before: found.size };
    output::print_either(json, &kept, || {
        let Resized { volume, size, .. } = &kept;
        format!("volume {volume} keeps {} ({size} bytes)\n", size::human(*size))
    })
}

/// A volume that becomes larger, as the node knows it.
fn growing(volume: &Volume) -> Option<Growing> {
    let mirror = volume.mirror.as_ref().and_then(|mirror| mirror.grows.clone());
    mirror.or_else(|| volume.striped.as_ref().and_then(|striped| striped.grows.clone()))
}
