//! `cards status`: is it healthy, and is the cache worth it?

use cards_node::admin::{self, MemberState, VolumeState};
use cards_node::config::size;
use clap::Args;

use crate::cli::Daemon;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table, count, percent};

/// Show whether a node is well, and what its cache is worth
#[derive(Debug, Args)]
#[command(after_help = "\
The first line says whether all is well, or what to do. -v adds every counter.

Examples:
  cards status
  cards status --socket /run/cards/admin.sock --json | jq .counters")]
pub(crate) struct Status {
    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, verbose: u8) -> Result<(), Error> {
        let status = self.daemon.connect()?.status()?;
        if self.json {
            return output::print_json(&status);
        }
        output::print(&render(&status, verbose > 0))
    }
}

/// The status for people.
fn render(status: &admin::Status, all_counters: bool) -> String {
    let sections = [
        heading(status),
        members(status).to_string(),
        volume_table(status.volumes.iter().map(without_said)).to_string(),
        cache(status),
        if all_counters { counters(status) } else { String::new() },
    ];
    sections.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn heading(status: &admin::Status) -> String {
    let up = status.members.iter().filter(|m| matches!(m.state, MemberState::Here | MemberState::Up)).count();
    let facts = format!(
        "{} of {} nodes up, {} attached, version {}, up {}",
        up,
        status.members.len(),
        plural(status.volumes.iter().filter(|volume| is_attached(volume)).count(), "volume"),
        status.version,
        uptime(status.uptime_s)
    );
    let who = format!("{} of cluster {}", status.node, status.cluster);
    if status.healthy {
        return format!("{who}: all is well ({facts})\n");
    }
    let mut problems = status.problems.iter().map(String::as_str);
    let first = problems.next().unwrap_or("see the daemon's log");
    let mut text = format!("{who}: {first}\n");
    problems.for_each(|problem| text += &format!("  {problem}\n"));
    text + &format!("  ({facts})\n")
}

fn members(status: &admin::Status) -> Table {
    let mut table = Table::new(&[("node", Align::Left), ("address", Align::Left), ("state", Align::Left)]);
    for member in &status.members {
        let state = match member.state {
            MemberState::Here => "here",
            MemberState::Up => "up",
            MemberState::Connecting => "connecting",
            MemberState::Down => "down",
            MemberState::Refused => "refused",
        };
        // The reason is in the heading.
        table.row([member.name.clone(), member.address.clone(), state.to_owned()]);
    }
    table
}

/// Volumes for people; `cards volume list` prints the same.
pub(crate) fn volumes(volumes: &[admin::Volume]) -> Table {
    volume_table(volumes.iter().map(|volume| (volume, volume.reason.as_deref())))
}

/// A volume without the reason that the heading has given.
fn without_said(volume: &admin::Volume) -> (&admin::Volume, Option<&str>) {
    (volume, volume.reason.as_deref().filter(|_| volume.attached.is_none()))
}

/// There is a card, and the disk node has not refused it.
fn is_attached(volume: &admin::Volume) -> bool {
    volume.attached.is_some() && volume.state != VolumeState::Refused
}

fn volume_table<'a>(volumes: impl Iterator<Item = (&'a admin::Volume, Option<&'a str>)>) -> Table {
    let mut table = Table::new(&[
        ("volume", Align::Left),
        ("size", Align::Right),
        ("block", Align::Right),
        ("policy", Align::Left),
        ("disk at", Align::Left),
        ("attached", Align::Left),
        ("cached here", Align::Right),
        ("state", Align::Left),
    ]);
    for (volume, reason) in volumes {
        let dash = || "-".to_owned();
        let known = |bytes: u64| if bytes == 0 { dash() } else { size::human(bytes) };
        let card = volume.attached.as_ref().filter(|_| is_attached(volume));
        let attached = card.map_or_else(dash, |card| card.mode.name().to_owned());
        let block = u64::from(volume.block);
        table.row([
            volume.name.clone(),
            known(volume.size),
            known(block),
            volume.policy.as_ref().map_or_else(dash, ToString::to_string),
            volume.disk_node.clone().unwrap_or_else(dash),
            if volume.read_only && card.is_some() { "ro".into() } else { attached },
            size::human(volume.cached_blocks.saturating_mul(block)),
            with_reason(state_name(volume.state), reason),
        ]);
    }
    table
}

/// The state's name, for people.
pub(crate) const fn state_name(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Ready => "ready",
        VolumeState::Waiting => "waiting for its disk node",
        VolumeState::Offline => "offline",
        VolumeState::Refused => "refused",
    }
}

fn cache(status: &admin::Status) -> String {
    let counters = &status.counters;
    let mut table = Table::new(&[("reads", Align::Left), ("blocks", Align::Right), ("share", Align::Right)]);
    for (name, blocks) in [
        ("from this node's cache", counters.local_hits),
        ("from a peer's cache", counters.remote_hits),
        ("from the disk", counters.disk_reads),
    ] {
        table.row([name.into(), count(blocks), percent(blocks, counters.reads)]);
    }
    let spared = counters.local_hits + counters.remote_hits;
    let mut text = format!(
        "{table}  The caches spared the disk {} of {} block reads ({}).\n\n",
        count(spared),
        count(counters.reads),
        percent(spared, counters.reads)
    );
    text += &format!(
        "  cache: {} of {} used, {}, index {:.1} bytes per block\n",
        size::human(status.cache.used),
        size::human(status.cache.bytes),
        status.cache.replacement,
        status.cache.index_bytes_per_block
    );
    if !status.disks.is_empty() {
        let admin::DiskEngine { kind, reason } = &status.disk_engine;
        let why = if reason == kind.name() { String::new() } else { format!(" ({reason})") };
        text += &format!("  disks: by {}{why}\n", kind.name());
    }
    for disk in &status.disks {
        let c = &disk.counters;
        text += &format!(
            "  disk {}: {} blocks ({}) read, {} blocks ({}) written\n",
            disk.name,
            count(c.reads),
            size::human(c.bytes_read),
            count(c.writes),
            size::human(c.bytes_written)
        );
    }
    text
}

/// Every counter, by the name it has in JSON.
fn counters(status: &admin::Status) -> String {
    let mut table = Table::new(&[("counter", Align::Left), ("value", Align::Right)]);
    if let Ok(serde_json::Value::Object(counters)) = serde_json::to_value(status.counters) {
        for (name, value) in counters {
            table.row([name, count(value.as_u64().unwrap_or(0))]);
        }
    }
    table.to_string()
}

fn with_reason(state: &str, reason: Option<&str>) -> String {
    reason.map_or_else(|| state.to_owned(), |reason| format!("{state}: {reason}"))
}

fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn uptime(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use cards_core::Replacement;
    use cards_node::admin::{
        Cache, Card, Counters, Disk, DiskCounters, DiskEngine, DiskEngineKind, Member, Volume,
    };
    use cards_node::config::{Mode, PolicySpec, ReadAhead};

    use super::*;

    fn sample() -> admin::Status {
        let member = |name: &str, state| Member {
            name: name.into(),
            address: format!("{name}:7400"),
            state,
            reason: (state == MemberState::Down).then(|| "no answer for 500ms".into()),
        };
        admin::Status {
            cluster: "lab".into(),
            node: "n1".into(),
            version: "0.1.0".into(),
            uptime_s: 125,
            healthy: true,
            problems: vec![],
            members: vec![member("n1", MemberState::Here), member("n2", MemberState::Up)],
            volumes: vec![Volume {
                name: "disk".into(),
                disk_node: Some("n1".into()),
                size: 1 << 30,
                block: 65536,
                policy: Some(PolicySpec::default()),
                read_only: false,
                state: VolumeState::Ready,
                reason: None,
                attached: Some(Card { mode: Mode::Rw, read_ahead: ReadAhead::Auto, clients: 1 }),
                cached_blocks: 16,
            }],
            cache: Cache {
                bytes: 1 << 28,
                blocks: 4096,
                used: 1 << 20,
                index_bytes_per_block: 28.5,
                replacement: Replacement::S3Fifo,
            },
            disk_engine: DiskEngine { kind: DiskEngineKind::IoUring, reason: "probed".into() },
            counters: Counters {
                reads: 4,
                local_hits: 1,
                remote_hits: 2,
                disk_reads: 1,
                ..Counters::default()
            },
            disks: vec![Disk { name: "disk".into(), counters: DiskCounters::default() }],
        }
    }

    #[test]
    fn the_first_line_says_that_all_is_well() {
        let text = render(&sample(), false);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "n1 of cluster lab: all is well (2 of 2 nodes up, 1 volume attached, version 0.1.0, up 2 min)"
        );
        for part in
            ["1 MiB", "ready", "spared the disk 3 of 4 block reads (75 %)", "io_uring (probed)", "28.5"]
        {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }

    #[test]
    fn the_first_line_says_what_to_do() {
        let mut status = sample();
        status.healthy = false;
        status.problems = vec!["n2 is down; start it".into(), "volume x waits for n2".into()];
        status.members[1].state = MemberState::Down;
        status.members[1].reason = Some("no answer for 500ms".into());
        let text = render(&status, false);
        assert!(
            text.starts_with("n1 of cluster lab: n2 is down; start it\n  volume x waits for n2\n  (1 of 2"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.trim().starts_with("n2") && line.ends_with("down")), "{text}");
    }

    #[test]
    fn a_refused_volume_is_not_attached() {
        let mut status = sample();
        (status.healthy, status.problems) =
            (false, vec!["volume \"disk\" has policy \"rd\"; leave it out".into()]);
        (status.volumes[0].state, status.volumes[0].reason) =
            (VolumeState::Refused, Some("has policy".into()));
        let text = render(&status, false);
        assert!(text.contains("0 volumes attached") && text.contains(" - "), "{text}");
        assert_eq!(text.matches("has policy").count(), 1, "{text}");
        assert!(volumes(&status.volumes).to_string().contains("refused: has policy"));
    }

    #[test]
    fn verbose_has_every_counter() {
        let text = render(&sample(), true);
        for name in ["served", "bytes_received", "stale_hints"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_status_survives_json() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<admin::Status>(&json).unwrap(), sample());
    }
}
