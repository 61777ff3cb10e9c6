//! The daemon that a verb asks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_admin::Client;
use clap::Args;

use crate::error::Error;

/// Which daemon to talk to.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// Admin socket of the daemon: admin.sock in its runtime_dir
    #[arg(long, value_name = "PATH", env = "CARDS_SOCKET", default_value = "/run/cards/admin.sock")]
    socket: PathBuf,
}

impl Daemon {
    /// Its admin socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connects to its admin socket.
    pub(crate) fn connect(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.socket)?)
    }

    /// Connects to its admin socket; each request may take `timeout`.
    pub(crate) fn connect_within(&self, timeout: Duration) -> Result<Client, Error> {
        Ok(Client::connect_within(&self.socket, timeout)?)
    }
}
