//! `cards cluster token`: with what machines join.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cards_config::duration;
use cards_coordinator::{Grant, Granted, TokenId, Tokens};
use cards_tls::Fingerprint;
use clap::Args;
use serde::Serialize;

use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table};

/// Longest life of a token.
const LIFE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// How long the daemon here may take to say who the members are.
const ASK: Duration = Duration::from_secs(2);

/// Make a token with which machines join; list tokens, or revoke one
///
/// On the machine of the keeper, where `cards cluster init` has run. The token alone goes to standard output. A machine that has
/// it can become a node until it is used up, revoked or expired; it cannot be read here again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards cluster token
  cards cluster token --uses 3 --ttl 24h
  cards cluster token --rejoin n2
  cards cluster token --list
  cards cluster token --revoke 1f0c22d9")]
pub(crate) struct Token {
    /// How many machines may join with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1023))]
    uses: u32,

    /// For how long, 720h at most
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = life)]
    ttl: Duration,

    /// Only for this node, which was a member, is dead or has left, and has lost its identity
    #[arg(long, value_name = "NODE", conflicts_with = "uses", add = complete::nodes())]
    rejoin: Option<String>,

    /// List the tokens
    #[arg(long, conflicts_with_all = ["uses", "ttl", "rejoin", "revoke"])]
    list: bool,

    /// Revoke the token with this ID; nodes that have joined with it stay nodes
    #[arg(long, value_name = "ID", conflicts_with_all = ["uses", "ttl", "rejoin"])]
    revoke: Option<TokenId>,

    /// Directory of what the node must not forget
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cards")]
    state_dir: PathBuf,

    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object; with --list one JSON array
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of a new token.
#[derive(Serialize)]
struct Made {
    token: String,
    #[serde(flatten)]
    granted: Granted,
}

/// What `--json` prints of one that is revoked.
#[derive(Serialize)]
struct Revoked {
    revoked: TokenId,
}

impl Token {
    pub(crate) fn run(self) -> Result<(), Error> {
        let dir = self.state_dir.join("authority");
        let authority = authority(&dir)?;
        let tokens = Tokens::within(&dir);
        if self.list {
            let all = tokens.list()?;
            return output::print_either(self.json, &all, || list(&all, now()));
        }
        if let Some(id) = self.revoke {
            tokens.revoke(id)?;
            return if self.json {
                output::print_json(&Revoked { revoked: id })
            } else {
                output::print(&format!("Token {id} is revoked.\n"))
            };
        }
        if let Some(node) = &self.rejoin {
            self.warn_of_stranger(node);
        }
        let grant = Grant { uses: self.uses, life: self.ttl, rejoin: self.rejoin };
        let (token, granted) = tokens.make(authority, grant)?;
        let token = token.to_string();
        if self.json {
            return output::print_json(&Made { token, granted });
        }
        output::print(&format!("{token}\n"))?;
        let whom = match (&granted.rejoin, granted.uses) {
            (Some(node), _) => format!("node {node} can join again"),
            (None, 1) => "one machine can join".into(),
            (None, uses) => format!("{uses} machines can join"),
        };
        eprintln!(
            "cards: with it {whom} within {}: `cards join` there, with --token; `cards cluster token --revoke {}` ends it",
            duration::exact(self.ttl),
            granted.id
        );
        Ok(())
    }
}

impl Token {
    /// Says so if no member is called like that, as far as the daemon here knows: one whose machine has never joined needs such a
    /// token as well.
    fn warn_of_stranger(&self, node: &str) {
        let Ok(status) = self.daemon.connect_within(ASK).and_then(|mut daemon| Ok(daemon.status()?)) else {
            return;
        };
        let names: Vec<&str> = status.members.iter().map(|member| member.name.as_str()).collect();
        if !names.contains(&node) {
            eprintln!(
                "cards: warning: cluster {} has no member {node}; its members are {}",
                status.cluster,
                names.join(", ")
            );
        }
    }
}

fn life(text: &str) -> Result<Duration, String> {
    let life = duration::parse(text).map_err(|error| error.to_string())?;
    if (Duration::from_secs(1)..=LIFE_MAX).contains(&life) {
        return Ok(life);
    }
    Err("a token is good for 1s to 720h".into())
}

/// The fingerprint of the authority that is kept in this directory.
fn authority(dir: &Path) -> Result<Fingerprint, Error> {
    let (certificate, key) = (dir.join("authority.pem"), dir.join("authority.key"));
    let is_there = |file: &Path| {
        file.try_exists().map_err(|error| Error::Usage {
            problem: format!("{}: {error}; run this as root or as the daemon's user (sudo)", file.display()),
        })
    };
    if !is_there(&certificate)? || !is_there(&key)? {
        return Err(Error::Usage {
            problem: format!(
                "{} has no authority; run this on the machine where `cards cluster init` has run, or name its --state-dir",
                dir.display()
            ),
        });
    }
    Ok(Fingerprint::read(&certificate)?)
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn list(all: &[Granted], now: u64) -> String {
    if all.is_empty() {
        return "No tokens: `cards cluster token` makes one.\n".into();
    }
    let columns =
        [("token", Align::Left), ("uses left", Align::Right), ("ends", Align::Left), ("for", Align::Left)];
    let mut table = Table::new(&columns);
    for Granted { id, uses, expires, rejoin } in all {
        let ends = match expires.checked_sub(now) {
            None | Some(0) => "has expired".into(),
            Some(left) => format!("in {}", about(left)),
        };
        let whom = rejoin.clone().unwrap_or_else(|| "any machine".into());
        table.row([id.to_string(), uses.to_string(), ends, whom]);
    }
    table.to_string()
}

/// So many seconds, for people.
fn about(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn cards(line: &str, dir: &Path) -> Result<(), String> {
        let dir = dir.display().to_string();
        let line = line.split(' ').chain(["--state-dir", &dir]);
        Cli::try_parse_from(line).unwrap().run().map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn tokens_are_made_listed_and_revoked_where_the_authority_is() {
        let dir = tempfile::tempdir().unwrap();
        for line in ["cards cluster token", "cards cluster token --list"] {
            let refused = cards(line, dir.path()).unwrap_err();
            assert!(refused.contains("has no authority") && refused.contains("cluster init"), "{refused}");
        }
        cards("cards cluster init lab --node n1", dir.path()).unwrap();
        cards("cards cluster token --uses 2 --ttl 10m", dir.path()).unwrap();
        cards("cards cluster token --rejoin n2 --json", dir.path()).unwrap();
        cards("cards cluster token --list", dir.path()).unwrap();
        let tokens = Tokens::within(&dir.path().join("authority"));
        let all = tokens.list().unwrap();
        assert_eq!(all.len(), 2);
        let left = all[0].expires - now();
        assert!(all[0].uses == 2 && (590..=600).contains(&left), "{left} s");
        cards(&format!("cards cluster token --revoke {}", all[0].id), dir.path()).unwrap();
        assert_eq!(tokens.list().unwrap(), all[1..]);
        let refused = cards(&format!("cards cluster token --revoke {}", all[0].id), dir.path()).unwrap_err();
        assert!(refused.contains("--list"), "{refused}");
    }

    #[test]
    fn a_list_says_what_is_left() {
        let granted = |uses, expires, rejoin: Option<&str>| Granted {
            id: "0000abcd".parse().unwrap(),
            uses,
            expires,
            rejoin: rejoin.map(String::from),
        };
        let text = list(&[granted(1, 4600, None), granted(0, 900, Some("n2"))], 1000);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["0000abcd", "1", "in", "60", "min", "any", "machine"]);
        assert_eq!(lines[2], ["0000abcd", "0", "has", "expired", "n2"]);
        assert!(list(&[], 0).contains("cards cluster token"));
    }
}
