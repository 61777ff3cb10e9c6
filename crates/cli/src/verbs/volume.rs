//! `cards volume`: the volumes of the cluster and their attachments here.

mod create;
mod error;
mod members;
mod mirrored;
mod on_disk;
mod remove;
mod resize;

use std::process::ExitCode;
use std::time::Duration;

use cards_admin::{ClientError, PinOrder, RefusalKind, ScrubState};
use cards_config::{Attach, Coherence, Limit, Mode, PolicySpec, duration, size};
use cards_coordinator::WallClock;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::card_args::CardArgs;
use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::verbs::status;
use crate::{output, scrub};

/// Bytes a second that a scrub of a volume with copies at several nodes reads of each: clients are served meanwhile.
const MIRROR_RATE: u64 = 100 << 20;

/// List, show, make, attach, limit, detach, resize, replace, force, scrub and remove volumes
#[derive(Debug, Args)]
pub(crate) struct Volume {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the volumes of the cluster, as this node knows them
    #[command(after_help = "Examples:\n  cards volume list\n  cards volume list --json | jq -r '.[].name'")]
    List {
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show one volume
    #[command(after_help = "Examples:\n  cards volume show disk\n  cards volume show data --map")]
    Show {
        /// Name of the volume
        #[arg(add = complete::volumes())]
        volume: String,
        /// Also what its nodes have agreed on, if it has copies at several
        #[arg(long)]
        map: bool,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Attach a volume at this node, until the daemon ends
    #[command(after_help = "\
To attach it at every start, add [[attach]] to node.toml.

Examples:
  cards volume attach disk
  cards volume attach disk --mode ro --read-ahead 1M
  cards volume attach disk --mode exclusive --takeover")]
    Attach {
        /// Name of the volume
        #[arg(add = complete::volumes())]
        volume: String,
        #[command(flatten)]
        daemon: Daemon,
        #[command(flatten)]
        card: CardArgs,
        /// The policy it is expected to have; another one is refused [default: any]
        #[arg(long, value_name = "POLICY", add = complete::policies())]
        policy: Option<PolicySpec>,
        /// With --mode exclusive: cards of other nodes are given up for it, once they can write no more
        #[arg(long)]
        takeover: bool,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a volume, all zero: over managed disks of several nodes, or on one managed disk
    #[command(after_help = "\
With --layout and without --disk the daemons run: each copy is made by the node that has its disk, and any node can attach the
volume then. With --disk PATH the volume is on that one disk, which must not be open in a daemon: stop that first, and start it
again afterwards. Both keep a checksum of each 4 KiB.

Examples:
  cards volume create data --size 10G --layout raid1
  cards volume create data --size 10G --layout raid1:3 --policy hdc
  cards volume create big --size 100G --layout raid10
  cards volume create scratch --size 200G --layout raid0 --on n1:fast,n2:fast,n3:fast
  cards volume create data --size 10G --layout raid1 --on n1:fast,n3:fast --json
  cards volume create scratch --size 512M --disk disk.img --json | jq -r .uuid")]
    Create(create::Create),
    /// Remove a volume from its managed disks, or from the one that --disk names; what is on it is lost
    #[command(after_help = "\
A volume with copies at several nodes is removed while the daemons run; it must not be attached, and a node that is down
removes its copy when it is back. A volume on one disk is removed from that disk, which must not be open in a daemon.

Examples:
  cards volume remove data --force=data
  cards volume remove scratch --disk /dev/sdb --force=scratch")]
    Remove(remove::Remove),
    /// Make a volume over managed disks of several nodes larger, while it serves
    #[command(after_help = "\
Each node gives its copies the space on the disks that they are on, all zero, and what was there stays. The volume has its old
size until all of it can be used, then the new one; a node that is down or killed meanwhile is waited for, and the rest goes
on by itself. The disks must have room, all copies must be in sync, and their nodes up. It does not become smaller: create
another volume for that, and copy. --cancel ends a growth that waits, for a node that does not come back, say.

Clients that are connected go on with the size that they know. NBD clients see the new one when they connect anew (nbd-client:
-d, then again), local devices after `cards detach` and `cards attach`; then grow what is on it (resize2fs, xfs_growfs).

Examples:
  cards volume resize data 20G
  cards volume resize data --cancel
  cards volume resize big 1T --json | jq .size")]
    Resize(resize::Resize),
    /// Replace a copy of a volume by one on another managed disk, while the volume serves
    #[command(after_help = "\
The new copy is made, then filled while clients read and write, and when it is in sync the old one leaves the volume; its
node removes it from its disk, when it is back if it is away. Until then there are as many copies in sync as before. It
goes on by itself, whoever is killed meanwhile: see `cards volume show NAME`. Without --to the new copy goes to the disk
with the most free space, in a failure domain without another copy.

Examples:
  cards volume replace data --from n2
  cards volume replace data --from n2:fast --to n4:fast
  cards volume replace data --from n2 --json | jq -r .to")]
    Replace(members::Replace),
    /// Choose a copy as the truth, because all copies in sync are gone for good, or earlier images; what it lacks is lost
    #[command(after_help = "\
Only for a volume whose copies in sync will never come back: wait for them, if they may. It is refused while the node of one
is there, unless its disk was put back to an earlier image: such an image may be chosen, too. A node with a copy in sync
that is only cut off must be stopped first: it might go on serving its clients. If it comes
back later, its copy is filled from the chosen one, and what only it had is lost: two histories are never merged. Without
--force the command says what the copy has, and what to type.

Examples:
  cards volume force data --from n2
  cards volume force data --from n2 --force=data@12 --json | jq .generation")]
    Force(members::Force),
    /// Read a volume from its managed disks and compare it with its checksums, while it is served
    #[command(after_help = "\
Ask the daemon that has the disk, or of a volume with copies at several nodes that of its primary (`cards volume show`).
Of a volume with copies, all that are in sync are read at their nodes, and what does not fit its checksum at one is written
anew from another one. Of any other volume nothing is repaired. What is damaged then is listed, to be written anew from a backup.
`cards disk scrub` does the same to all volumes of a disk that no daemon has, and repairs nothing.
Ctrl-C ends it after the part that is being read, with what was found by then. Volumes are scrubbed by themselves, too,
every two weeks (`scrub_every` in node.toml); `cards volume show` says when.
Exit status: 0 nothing is damaged (any more), 1 something is, 130 it was interrupted.

Examples:
  cards volume scrub data --rate 100M
  cards volume scrub data --json | jq '.places[]'")]
    Scrub {
        /// Its name
        #[arg(add = complete::volumes())]
        volume: String,
        #[command(flatten)]
        daemon: Daemon,
        /// Most bytes a second, 0 for as many as go [default: 100M of a volume with copies at several nodes, else 0]
        #[arg(long, value_name = "SIZE", value_parser = size::parse)]
        rate: Option<u64>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Limit what clients of this node may have of a volume, until it is detached
    #[command(after_help = "\
What is not named is not limited. To have it at every start, write `limit` into node.toml; see
docs/operating/limits.md.

Examples:
  cards volume limit disk --iops 5000 --bytes 200M
  cards volume limit disk --bytes 200M --burst 250ms
  cards volume limit disk --clear
  cards volume limit --node --bytes 1G")]
    Limit {
        /// Its name
        #[arg(required_unless_present = "node")]
        volume: Option<String>,
        /// Limit what they may have of all volumes together, in place of one
        #[arg(long, conflicts_with = "volume")]
        node: bool,
        #[command(flatten)]
        limit: LimitArgs,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Detach a volume that no client uses from this node
    #[command(after_help = "\
What is pinned of it here (`cards pin`) is pinned no longer.

Examples:
  cards volume detach disk")]
    Detach {
        /// Name of the volume
        #[arg(add = complete::volumes())]
        volume: String,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What `--json` prints of a volume that was attached or detached.
#[derive(Serialize)]
struct Changed<'a> {
    volume: &'a str,
    /// It is now.
    attached: bool,
}

/// What clients may have.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true, id = "limits", args = ["iops", "bytes", "clear"])]
struct LimitArgs {
    /// Requests per second
    #[arg(long, value_name = "N", value_parser = iops)]
    iops: Option<u64>,
    /// Bytes per second that are read and written, such as 200M
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    bytes: Option<u64>,
    /// After a pause, as much is served at once as the rates allow in this time
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    burst: Duration,
    /// Any amount again
    #[arg(long, conflicts_with_all = ["iops", "bytes", "burst"])]
    clear: bool,
}

fn iops(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("1 to 10000000 requests per second; for any number leave it out, or use --clear".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("give requests per second as a whole number, such as 5000".into()),
    }
}

impl LimitArgs {
    /// None: any amount.
    fn limit(&self) -> Result<Option<Limit>, Error> {
        let Self { iops, bytes, burst, clear } = *self;
        if clear {
            return Ok(None);
        }
        if iops.is_none() && bytes.is_none() {
            let problem = format!(
                "--burst {}: it goes with a rate, and alone limits nothing; add --iops, --bytes or both, or use --clear for any amount",
                duration::exact(burst)
            );
            return Err(Error::Usage { problem });
        }
        Ok(Some(Limit { iops, bytes, burst }))
    }
}

/// What `--json` prints of a limit that was set.
#[derive(Serialize)]
struct Limited<'a> {
    /// None: the node.
    volume: Option<&'a str>,
    /// None: any amount.
    limit: Option<Limit>,
}

/// Says what was done.
fn changed(volume: &str, attached: bool, json: bool) -> Result<(), Error> {
    match json {
        true => output::print_json(&Changed { volume, attached }),
        false => {
            let what = if attached { "attached" } else { "detached" };
            output::print(&format!("volume {volume} is {what}\n"))
        }
    }
}

impl Volume {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let done = match self.verb {
            Verb::Scrub { volume, daemon, rate, json } => {
                let mut client = daemon.connect()?;
                let found = client.volume(&volume)?;
                let (size, rate) =
                    (found.size, rate.unwrap_or(if found.is_over_nodes() { MIRROR_RATE } else { 0 }));
                return scrub::run(&[(volume, size)], rate, json, |volume, offset, length| {
                    Ok(client.scrub(volume, offset, length)?)
                });
            }
            Verb::List { daemon, json } => {
                let volumes = daemon.connect()?.volumes()?;
                output::print_either(json, &volumes, || list(&volumes))
            }
            Verb::Show { volume, map, daemon, json } => {
                let mut client = daemon.connect()?;
                let volume = client.volume(&volume)?;
                if json {
                    return output::print_json(&volume).map(|()| ExitCode::SUCCESS);
                }
                let mirror = volume.mirror.as_ref().map(|mirror| mirrored::show(mirror, map));
                let striped = volume.striped.as_ref().map(|striped| mirrored::show_parts(striped, map));
                let mirror = mirror.or(striped).unwrap_or_default();
                output::print(&(show(&volume) + &mirror + &status::loss_of(&client.status()?, &volume.name)))
            }
            Verb::Attach { volume, daemon, card, policy, takeover, json } => {
                let CardArgs { mode, read_ahead } = card;
                if takeover && mode != Mode::Exclusive {
                    return Err(Error::Usage {
                        problem: "--takeover: only --mode exclusive takes a volume from others".into(),
                    });
                }
                let attached = None;
                let name = volume.clone();
                let attach =
                    Attach { volume, mode, read_ahead, policy, attached, limit: None, takeover, claim: None };
                daemon.connect()?.attach(attach)?;
                changed(&name, true, json)
            }
            Verb::Create(verb) => verb.run(),
            Verb::Remove(verb) => verb.run(),
            Verb::Resize(verb) => verb.run(),
            Verb::Replace(verb) => verb.run(),
            Verb::Force(verb) => verb.run(),
            Verb::Limit { volume, node: _, limit, daemon, json } => {
                let (volume, limit) = (volume.as_deref(), limit.limit()?);
                daemon.connect()?.limit(volume, limit)?;
                if json {
                    return output::print_json(&Limited { volume, limit }).map(|()| ExitCode::SUCCESS);
                }
                let whom = volume.map_or_else(|| "this node".to_owned(), |volume| format!("volume {volume}"));
                let limit =
                    limit.map_or_else(|| "not limited".to_owned(), |limit| format!("limited to {limit}"));
                output::print(&format!("clients of {whom} are {limit}\n"))
            }
            Verb::Detach { volume, daemon, json } => {
                let mut client = daemon.connect()?;
                client.detach(&volume)?;
                // Nothing else would give its share of `pin_max` back. The end of a device, as at a reboot, does not come here.
                match client.pins(None, PinOrder::Unpin { volume: volume.clone(), ranges: Vec::new() }) {
                    // The card waited for a volume that nobody has.
                    Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NotAttached => {}
                    done => drop(done?),
                }
                changed(&volume, false, json)
            }
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

fn list(volumes: &[cards_admin::Volume]) -> String {
    if volumes.is_empty() {
        return "No volumes: no node of the cluster that is up contributes a disk, and none was created over several nodes' disks.\n".into();
    }
    let lines = volumes.iter().filter_map(|volume| {
        let (layout, health) = match (&volume.mirror, &volume.striped) {
            (Some(mirror), _) => (&mirror.layout, mirror.health()),
            (None, Some(striped)) => (&striped.layout, striped.health()),
            (None, None) => return None,
        };
        Some(format!("  {}: {layout}, {health}\n", volume.name))
    });
    status::volumes(volumes) + &lines.collect::<String>()
}

fn disk_node(volume: &cards_admin::Volume) -> String {
    volume.disk_node.clone().unwrap_or_else(|| "not announced yet".into())
}

fn show(volume: &cards_admin::Volume) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    line("volume", volume.name.clone());
    line("state", status::state_name(volume.state).into());
    if let Some(reason) = &volume.reason {
        line("reason", reason.clone());
    }
    if volume.mirror.is_none() && volume.striped.is_none() {
        line("disk node", disk_node(volume));
    }
    let known = |bytes: u64, text: String| if bytes == 0 { "unknown".into() } else { text };
    line("size", known(volume.size, format!("{} ({} bytes)", size::human(volume.size), volume.size)));
    line("block", known(volume.block.into(), size::human(volume.block.into())));
    line("policy", volume.policy.as_ref().map_or_else(|| "unknown".into(), ToString::to_string));
    line(
        "coherence",
        match volume.coherence.map(Coherence::name) {
            None => "unknown".into(),
            Some(name) if volume.may_be_stale() => format!("{name}, {}", status::MAY_BE_STALE),
            Some(name) => name.into(),
        },
    );
    let read_only = volume.read_only.map_or("unknown", |read_only| if read_only { "yes" } else { "no" });
    line("read only", read_only.into());
    line(
        "attached",
        match &volume.attached {
            None => "no".into(),
            Some(card) => {
                format!("{}, read-ahead {}, clients {}", card.mode.name(), card.read_ahead, card.clients)
            }
        },
    );
    if let Some(limit) = volume.attached.as_ref().and_then(|card| card.limit) {
        line("limit", limit.to_string());
    }
    if let Some(scrub) = &volume.scrub {
        line("scrubbed", scrubbed(scrub));
    }
    line("cached here", size::human(volume.cached_blocks.saturating_mul(volume.block.into())));
    text
}

/// When a volume was scrubbed, and will be.
fn scrubbed(scrub: &ScrubState) -> String {
    let time = |seconds: u64| WallClock(seconds.saturating_mul(1000)).to_string();
    let last = scrub.last_s.map_or_else(|| "not yet".to_owned(), time);
    match (scrub.every_s, scrub.percent, scrub.next_s) {
        (None, ..) => format!("{last}; never by itself (`scrub_every`)"),
        (_, Some(percent), _) => format!("{last}; {percent} % of the next time are done"),
        (_, None, Some(next)) => format!("{last}; next {}", time(next)),
        (_, None, None) => format!("{last}; when the next one begins is not heard yet"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::ScrubState;
    use crate::cli::Cli;

    #[test]
    fn it_is_said_when_a_volume_is_scrubbed() {
        let state = |every_s, last_s, percent, next_s| ScrubState { every_s, last_s, next_s, percent };
        let day = 86_400;
        for (state, text) in [
            (state(None, None, None, None), "not yet; never by itself (`scrub_every`)"),
            (state(Some(day), None, None, Some(2 * day)), "not yet; next Sat, 03 Jan 1970 00:00:00 GMT"),
            (
                state(Some(day), Some(day), Some(40), None),
                "Fri, 02 Jan 1970 00:00:00 GMT; 40 % of the next time are done",
            ),
        ] {
            assert_eq!(super::scrubbed(&state), text);
        }
    }

    #[test]
    fn a_burst_alone_is_no_limit() {
        for whom in ["d", "--node"] {
            let line = format!("cards volume limit {whom} --burst 250ms");
            let error = Cli::try_parse_from(line.split(' ')).unwrap().run().unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            let told = error.to_string();
            assert!(told.starts_with("--burst 250ms: ") && told.contains("add --iops, --bytes"), "{told}");
        }
    }

    #[test]
    fn only_the_exclusive_mode_takes_a_volume_over() {
        for line in ["cards volume attach d --takeover", "cards volume attach d --takeover --mode ro"] {
            let error = Cli::try_parse_from(line.split(' ')).unwrap().run().unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains("--mode exclusive"), "{error}");
        }
    }
}
