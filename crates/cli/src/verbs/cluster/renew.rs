//! `cards cluster renew`: another certificate for this node, now.

use cards_coordinator::WallClock;
use clap::Args;
use serde::Serialize;

use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// Have this node's certificate renewed now
///
/// A daemon does that by itself when two thirds of its certificate's life are over. The keeper signs for the name, the hosts and
/// the key that the node has. Connections that are open go on, and new ones begin with the new certificate. Certificates that
/// `[identity]` names are renewed by their maker: put the new files in the place of the old ones.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards cluster renew
  cards cluster renew --socket /run/cards/admin.sock --json")]
pub(crate) struct Renew {
    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Renewed {
    /// When the new certificate ends, in seconds since 1970 (UTC).
    certificate_ends_s: u64,
}

impl Renew {
    pub(crate) fn run(self) -> Result<(), Error> {
        let certificate_ends_s = self.daemon.connect()?.renew_certificate()?;
        if self.json {
            return output::print_json(&Renewed { certificate_ends_s });
        }
        output::print(&format!("this node's certificate ends {}\n", WallClock(certificate_ends_s * 1000)))
    }
}
