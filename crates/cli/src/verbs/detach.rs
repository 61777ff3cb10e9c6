//! `cards detach`: a volume is no longer a device of this machine.

use clap::Args;
use serde::Serialize;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::local::{self, Place, Release, Released};
use crate::output;
use crate::signals::Signals;

/// End what `cards attach` has begun: the device goes, and the card if it was made for it
///
/// It is refused while the device is mounted or open.
#[derive(Debug, Args)]
#[command(after_help = "\
--lazy unmounts it from everywhere in this mount namespace and lets the device go when its last user ends. Until then
processes that have files or the device open go on writing, unseen: attach it nowhere else to write before. What they
have not synced is lost if the machine stops.

Examples:
  cards detach data
  cards detach data --keep-card")]
pub(crate) struct Detach {
    /// Name of the volume
    #[arg(add = complete::volumes())]
    volume: String,

    #[command(flatten)]
    daemon: Daemon,

    /// Although it is mounted or open; see below
    #[arg(short, long)]
    lazy: bool,

    /// The volume stays attached at the daemon
    #[arg(long)]
    keep_card: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What was done, as printed.
#[derive(Debug, Serialize)]
struct Detached {
    volume: String,
    detached: bool,
    notes: Vec<String>,
}

impl Detach {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let place = Place::new(self.daemon.socket(), &self.volume)?;
        let how = Release { lazy: self.lazy, keep_card: self.keep_card, only_of_mount: false };
        let released = local::release(&place, how, &Signals::block())?;
        let notes = released.notes(&place);
        notes.iter().for_each(|note| eprintln!("cards: {note}"));
        let detached = matches!(released, Released::Gone { .. });
        match (self.json, detached) {
            (true, _) => output::print_json(&Detached { volume: self.volume, detached, notes }),
            (false, true) => output::print(&format!("volume {} is no device here any more\n", self.volume)),
            // The notes have said why it is not gone yet.
            (false, false) => Ok(()),
        }
    }
}
