//! `cards attach`: a volume as a file, a block device or an NBD export of this machine.

use std::path::PathBuf;
use std::time::Duration;

use cards_config::{Attach as CardConfig, Mode, ReadAhead};
use cards_device::Description;
use clap::Args;
use serde::Serialize;

use crate::card_args;
use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::local::{self, Attachment, By, Card, LocalError, Place, Service};
use crate::output;
use crate::signals::Signals;

/// Make a volume of the cluster a file or a block device of this machine
///
/// Prints its path. It stays until `cards detach`, also while the daemon is restarted.
#[derive(Debug, Args)]
#[command(after_help = "\
A volume that is attached already is left as it is, and its path printed.

Examples:
  cards attach data
  cards attach data --block
  mkfs.ext4 $(cards attach data --block --mode exclusive)
  nbdcopy \"$(cards attach data --nbd)\" copy.img")]
pub(crate) struct Attach {
    /// Its name
    #[arg(add = complete::volumes())]
    volume: String,

    #[command(flatten)]
    daemon: Daemon,

    /// ro: reads; rw: reads and writes, as others may elsewhere; exclusive: no other node has the volume
    /// [default: that of the card that is there, else rw]
    #[arg(long, value_parser = card_args::mode())]
    mode: Option<Mode>,

    /// With --mode exclusive: cards of other nodes are given up for it, once they can write no more
    #[arg(long, requires = "mode")]
    takeover: bool,

    /// How far sequential reads run ahead: auto, off or a size
    #[arg(long, default_value = "auto", value_name = "SIZE")]
    read_ahead: ReadAhead,

    #[command(flatten)]
    kind: KindArgs,

    /// The kernel keeps no pages of the file: each read asks the daemon
    #[arg(long, conflicts_with = "nbd")]
    direct: bool,

    /// A block is in one cache only: the daemon drops what has been read here, and has room for the rest
    #[arg(long, conflicts_with = "direct")]
    exclusive: bool,

    /// Wait so long for the daemon, and for the volume to be known
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = wait)]
    wait: Duration,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct KindArgs {
    /// A block device: a loop device over the file
    #[arg(long)]
    block: bool,

    /// A disk of the kernel's ublk driver, /dev/ublkbN. Its page cache does not follow what other nodes write
    #[arg(long, conflicts_with = "direct")]
    ublk: bool,

    /// No device: the daemon's NBD export
    #[arg(long)]
    nbd: bool,
}

/// What the volume becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file.
    File,
    /// A file, and a loop device over it.
    Loop,
    /// A disk of the ublk driver.
    Ublk,
    /// An export.
    Nbd,
}

impl From<KindArgs> for Kind {
    fn from(args: KindArgs) -> Self {
        match args {
            KindArgs { nbd: true, .. } => Self::Nbd,
            KindArgs { block: true, .. } => Self::Loop,
            KindArgs { ublk: true, .. } => Self::Ublk,
            KindArgs { .. } => Self::File,
        }
    }
}

/// Where the volume is, as printed.
#[derive(Debug, Serialize)]
struct Attached {
    volume: String,
    mode: Mode,
    kind: &'static str,
    /// The path to use, or the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    major: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
}

impl Attach {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        if self.takeover && self.mode != Some(Mode::Exclusive) {
            return Err(Error::Usage {
                problem: "--takeover: only --mode exclusive takes a volume from others".into(),
            });
        }
        let kind = Kind::from(self.kind);
        let place = Place::new(self.daemon.socket(), &self.volume)?;
        check_machine(kind)?;
        let attach = CardConfig {
            mode: self.mode.unwrap_or_default(),
            read_ahead: self.read_ahead,
            takeover: self.takeover,
            ..CardConfig::new(&self.volume)
        };
        let service = Service {
            block: kind == Kind::Loop,
            ublk: kind == Kind::Ublk,
            direct: self.direct,
            exclusive: self.exclusive,
            mode: attach.mode,
        };
        let signals = Signals::block();
        let attached = local::patient(self.daemon.socket(), self.wait, &signals, |client| {
            let (_turn, server) = local::prepare(&place, &signals)?;
            let card = Card::find_or_make(client, &attach, &signals)?;
            let has = |mode: Mode| mode == card.mode || (mode == Mode::Ro && card.read_only);
            if let Some(mode) = self.mode.filter(|mode| !has(*mode)) {
                return Err(other_mode(&place, card.mode, mode));
            }
            if kind == Kind::Nbd {
                let uri = local::nbd_uri(&place, client, self.exclusive).and_then(|uri| {
                    local::Origin::add(&place, By::Attach, card)?;
                    Ok(uri)
                });
                if uri.is_err() {
                    local::give_up(&place, client, card);
                }
                return Ok(Attached::export(&self.volume, card.mode, uri?));
            }
            let service = Service { mode: card.mode, ..service };
            let device = Attachment::new(&place, client, server, (card, By::Attach), service, &signals)?;
            Ok(Attached::device(&self.volume, card.mode, &device.record))
        })?;
        if self.json {
            return output::print_json(&attached);
        }
        let path = attached.path.as_ref().map(|path| path.display().to_string());
        output::print(&(path.or(attached.uri).unwrap_or_default() + "\n"))
    }
}

impl Attached {
    fn device(volume: &str, mode: Mode, record: &Description) -> Self {
        Self {
            volume: volume.into(),
            mode,
            kind: match &record.block {
                Some(_) if record.is_ublk() => "ublk",
                Some(_) => "loop",
                None => "fuse",
            },
            path: Some(record.device().into()),
            file: Some(record.path.clone()),
            major: Some(record.major),
            minor: Some(record.minor),
            uri: None,
        }
    }

    fn export(volume: &str, mode: Mode, uri: String) -> Self {
        let (path, file, major, minor) = (None, None, None, None);
        Self { volume: volume.into(), mode, kind: "nbd", path, file, major, minor, uri: Some(uri) }
    }
}

fn other_mode(place: &Place, has: Mode, wants: Mode) -> LocalError {
    let volume = place.volume().to_owned();
    let why = format!("--mode {}", wants.name());
    let remedy = format!(
        "run `cards detach {volume}` first, or `cards volume detach {volume}` if node.toml or `cards volume attach` \
         has made its card"
    );
    LocalError::OtherMode { volume, has, why, wants, remedy }
}

/// What is known to be missing before anything is done.
fn check_machine(kind: Kind) -> Result<(), LocalError> {
    match kind {
        // What the ublk driver lacks, the process says that tries to use it.
        Kind::Nbd | Kind::Ublk => Ok(()),
        Kind::File => local::check_machine(false),
        Kind::Loop => local::check_machine(true),
    }
}

/// How long to wait, as given on the command line.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    let wait = cards_config::duration::parse(text).map_err(|e| e.to_string())?;
    if wait <= Duration::from_secs(3600) { Ok(wait) } else { Err("use at most 1h".into()) }
}
