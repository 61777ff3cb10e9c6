//! `cards device`: the process that serves a volume as a file and a block device.

use std::path::PathBuf;
use std::time::Duration;

use cards_config::{Mode, duration};
use cards_device::{Device as Served, DeviceError, Options};
use clap::Args;

use crate::card_args;
use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::signals::Signals;

/// How often it is looked whether the file was unmounted.
const TURN: Duration = Duration::from_millis(250);

/// Serve an attached volume as a file, in the foreground (what `cards attach` starts)
#[derive(Debug, Args)]
#[command(after_help = "\
The file is VOLUME in /run/cards-dev (RUNTIME_DIR-dev; if the daemon is the same user's, RUNTIME_DIR/dev), and has the
volume's size. When it can be used, one line of JSON says so on standard output, and VOLUME.json beside the file:
  volume, path, block (the loop device or null), major, minor, size, read_only, pid

The daemon may end and start again meanwhile: requests wait for it. SIGTERM and SIGINT end the device, if
nobody uses it; SIGHUP takes it out of sight now and ends it when nobody uses it any more.

Examples:
  cards device data
  cards device data --block --direct
  cards device data --give-up 60s")]
pub(crate) struct Device {
    /// The volume; it must be attached at the daemon
    #[arg(add = complete::volumes())]
    volume: String,

    #[command(flatten)]
    daemon: Daemon,

    /// Where the file is to be
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,

    /// Attach the volume so, if the daemon does not have it attached, as after a restart [default: it must]
    #[arg(long, value_parser = card_args::mode())]
    mode: Option<Mode>,

    /// Make a block device too: a loop device over the file
    #[arg(long)]
    block: bool,

    /// Make a disk of the kernel's ublk driver instead of the file: /dev/ublkbN. Its page cache does not follow what
    /// other nodes write
    #[arg(long, conflicts_with_all = ["path", "block", "direct"])]
    ublk: bool,

    /// Let the kernel cache nothing: every read asks the daemon
    #[arg(long)]
    direct: bool,

    /// Keep a block in one cache only: the daemon drops what the kernel has read
    #[arg(long)]
    exclusive: bool,

    /// NBD connections to the daemon
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,

    /// How long to look for the daemon at the start
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration::parse)]
    connect_timeout: Duration,

    /// Requests fail with EIO when the daemon is gone for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    give_up: Option<Duration>,
}

impl Device {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        // Before any thread starts, so that none takes them.
        let signals = Signals::block();
        let _log = crate::log::start(cx.verbose)?;
        cards_device::serve_write_back();
        let device = Served::start(Options {
            socket: self.daemon.socket().to_path_buf(),
            volume: self.volume,
            path: self.path,
            block: self.block,
            ublk: self.ublk,
            mode: self.mode,
            direct: self.direct,
            exclusive: self.exclusive,
            connections: self.connections.into(),
            connect_timeout: self.connect_timeout,
            give_up: self.give_up,
        })?;
        output::print_json(device.description())?;
        let mut leaving = false;
        while !device.has_ended() {
            let Some(signal) = signals.wait(TURN).filter(|signal| signal.ends()) else {
                if leaving && device.stop(true).is_ok() {
                    leaving = false;
                }
                continue;
            };
            let lazy = signal.number == libc::SIGHUP;
            if let Err(error) = device.stop(lazy) {
                // The driver tells nobody when the last user of a disk has gone.
                leaving = lazy && matches!(error, DeviceError::UblkInUse { .. });
                eprintln!("cards: {error}");
            }
        }
        Ok(device.join()?)
    }
}
