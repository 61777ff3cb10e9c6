//! `cards lock`: lock groups of the cluster, for scripts and for people.

mod error;
mod hold;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cards_client::{Client, Mode, Range, Wait};
use cards_config::{duration, is_loopback};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::{Args, Subcommand};

use crate::{output, range};
use error::LockError;

/// Hold, list, show, downgrade and release locks on ranges of volumes
#[derive(Debug, Args)]
pub(crate) struct Lock {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lock a range of a volume, and hold it while a command runs, or until Ctrl-C or the end of the input
    #[command(after_help = "\
The command has the fencing token in $CARDS_LOCK_TOKEN, to be shown to whatever stores what it writes, and the names
of group and session in $CARDS_LOCK_GROUP and $CARDS_LOCK_SESSION. If the lock is lost the command gets SIGTERM and
the exit status is 1; else it is the command's, or 128 + N if signal N ended it.

Examples:
  cards lock acquire disk 0+1M -- sh -c 'write-header --token $CARDS_LOCK_TOKEN'
  cards lock acquire disk 64M+4K --mode read --wait 5s -- dd if=/dev/nbd0 of=header bs=4K count=1
  cards lock acquire disk 0..1G --wait none")]
    Acquire(Acquire),
    /// List the locks that this node knows: those of its sessions, and those it looks after
    #[command(after_help = "\
Every region of a volume is looked after by one node, which knows all of its locks, also of others' sessions.

Examples:
  cards lock list
  cards lock list --volume disk --range 0+64M
  cards lock list --json | jq '.holdings[].token.text'")]
    List {
        #[command(flatten)]
        api: Api,
        /// Only locks of this volume
        #[arg(long, value_name = "NAME")]
        volume: Option<String>,
        /// Only locks that overlap this part of the volume
        #[arg(long, value_name = range::SYNTAX, value_parser = range::parse, requires = "volume")]
        range: Option<(u64, u64)>,
        /// Only locks that one client has
        #[arg(long, conflicts_with = "volume")]
        session: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show one group
    #[command(after_help = "Examples:\n  cards lock show 0.6791c0a400001.3")]
    Show {
        /// Its name
        group: String,
        #[command(flatten)]
        api: Api,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make what a group writes its to read only, so that other readers may have it
    #[command(after_help = "\
For the command that holds the lock: it must not write any more from then on. The token stays the same.

Examples:
  cards lock acquire disk 0+1M -- sh -c '
    write-header && cards lock downgrade $CARDS_LOCK_GROUP --session $CARDS_LOCK_SESSION && verify'")]
    Downgrade {
        /// Its name
        group: String,
        /// The session it belongs to
        #[arg(long)]
        session: String,
        #[command(flatten)]
        api: Api,
    },
    /// Release a group of a session of this node, whoever holds it
    #[command(after_help = "Examples:\n  cards lock release 0.6791c0a400001.3 --session 0.6791c0a400001")]
    Release {
        /// Its name
        group: String,
        /// The session it belongs to
        #[arg(long)]
        session: String,
        #[command(flatten)]
        api: Api,
    },
}

/// What to lock, and how.
#[derive(Debug, Args)]
struct Acquire {
    /// The volume
    volume: String,
    /// The part of the volume to lock
    #[arg(value_name = range::SYNTAX, value_parser = range::parse)]
    range: (u64, u64),
    /// write: nobody else has it; read: only readers do
    #[arg(long, default_value = "write", value_parser = PossibleValuesParser::new(["read", "write"]).map(mode))]
    mode: Mode,
    /// How long to wait while others have it: none, forever or a time
    #[arg(long, default_value = "forever", value_name = "TIME", value_parser = wait)]
    wait: Wait,
    /// How long after the death of this program the lock is free
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration::parse)]
    ttl: Duration,
    /// The name of the session, for people
    #[arg(long, default_value = "cards lock acquire")]
    name: String,
    #[command(flatten)]
    api: Api,
    /// Print the group as one JSON object; not with a command
    #[arg(long, conflicts_with = "command")]
    json: bool,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<String>,
}

impl Acquire {
    fn range(&self) -> Range {
        let (offset, length) = self.range;
        Range { volume: self.volume.clone(), offset, length, mode: self.mode }
    }
}

fn mode(name: String) -> Mode {
    if name == Mode::Read.name() { Mode::Read } else { Mode::Write }
}

fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "none" => Ok(Wait::None),
        "forever" => Ok(Wait::Forever),
        text => {
            duration::parse(text).map(|time| Wait::Seconds(time.as_secs_f64())).map_err(|e| e.to_string())
        }
    }
}

/// Where the API of a daemon is.
#[derive(Debug, Args)]
struct Api {
    /// API socket of the daemon: api.sock in its runtime_dir [default: beside $CARDS_SOCKET, else in /run/cards]
    #[arg(long, value_name = "PATH", env = "CARDS_API_SOCKET")]
    socket: Option<PathBuf>,
    /// Over TCP instead: the daemon's api.listen
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    tcp: Option<String>,
    /// Over TLS: a file with the certificate of the cluster's authority, identity/authority.pem of any node
    #[arg(long, value_name = "PATH", env = "CARDS_API_AUTHORITY", requires = "tcp")]
    authority: Option<PathBuf>,
    /// Send the token over TCP in the clear, where others can read it
    #[arg(long, requires = "tcp", conflicts_with = "authority")]
    in_clear: bool,
    /// A file with the token in its first line, for --tcp
    #[arg(long, value_name = "PATH", env = "CARDS_API_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Api {
    fn client(&self) -> Result<Client, LockError> {
        let (Some(tcp), Some(path)) = (&self.tcp, &self.token_file) else {
            let beside = || beside(std::env::var_os("CARDS_SOCKET").map(PathBuf::from));
            return Ok(Client::unix(&self.socket.clone().unwrap_or_else(beside)));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|source| LockError::TokenFile { path: path.clone(), source })?;
        let token = text.lines().next().unwrap_or_default().trim();
        match &self.authority {
            Some(authority) => Ok(Client::tls(tcp, token, authority)?),
            None if self.in_clear || is_loopback(tcp) => Ok(Client::tcp(tcp, token)),
            None => Err(LockError::InClear { address: tcp.clone() }),
        }
    }
}

/// The API socket of the daemon that has this admin socket: both are in its `runtime_dir`.
fn beside(admin_socket: Option<PathBuf>) -> PathBuf {
    admin_socket.unwrap_or_else(|| "/run/cards/admin.sock".into()).with_file_name("api.sock")
}

impl Lock {
    /// Runs the verb; says itself what went wrong.
    pub(crate) fn run(self) -> ExitCode {
        self.try_run().unwrap_or_else(|error| {
            eprintln!("cards: {error}");
            ExitCode::FAILURE
        })
    }

    fn try_run(self) -> Result<ExitCode, LockError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LockError::Runtime)?;
        let code = runtime.block_on(async {
            match self.verb {
                Verb::Acquire(acquire) => hold::run(&acquire).await,
                Verb::List { api, volume, range, session, json } => {
                    let client = api.client()?;
                    let listing = match (volume, session) {
                        (Some(volume), _) => client.list_volume(&volume, range).await?,
                        (None, Some(session)) => client.list_session(&session).await?,
                        (None, None) => client.list().await?,
                    };
                    let printed = if json {
                        output::print_json(&listing)
                    } else {
                        output::print(&show::listing(&listing))
                    };
                    Ok(printed.map(|()| ExitCode::SUCCESS)?)
                }
                Verb::Show { group, api, json } => {
                    let shown = api.client()?.show(&group).await?;
                    let printed =
                        if json { output::print_json(&shown) } else { output::print(&show::group(&shown)) };
                    Ok(printed.map(|()| ExitCode::SUCCESS)?)
                }
                Verb::Downgrade { group, session, api } => {
                    api.client()?.downgrade(&session, &group).await?;
                    Ok(ExitCode::SUCCESS)
                }
                Verb::Release { group, session, api } => {
                    api.client()?.release(&session, &group).await?;
                    Ok(ExitCode::SUCCESS)
                }
            }
        });
        // Nobody waits for a thread that reads the terminal.
        runtime.shutdown_background();
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_socket_is_beside_the_admin_socket() {
        assert_eq!(beside(None), PathBuf::from("/run/cards/api.sock"));
        assert_eq!(beside(Some("/tmp/n2/admin.sock".into())), PathBuf::from("/tmp/n2/api.sock"));
    }

    #[test]
    fn a_wait_is_a_word_or_a_time() {
        assert_eq!(wait("none"), Ok(Wait::None));
        assert_eq!(wait("forever"), Ok(Wait::Forever));
        assert_eq!(wait("1500ms"), Ok(Wait::Seconds(1.5)));
        assert!(wait("soon").is_err());
    }
}
