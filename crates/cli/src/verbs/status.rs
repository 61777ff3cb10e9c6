//! `cards status`: is it healthy, and is the cache worth it?

mod cluster;
mod io;
mod watch;

use std::time::Duration;

use cards_admin::{Encryption, MemberState, VolumeState};
use cards_config::size;
use clap::Args;

use crate::auto;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::table::{Align, Table, count, percent};

/// Show whether a node is well, and what its cache is worth
#[derive(Debug, Args)]
#[command(after_help = "\
The first line says whether all is well, or what to do. -v adds every counter. With --watch it is said
again and again, until a signal or until nobody reads it; a daemon that is away is waited for.
--cluster asks every node and has one line for each. The exit status is 0 if the daemon has answered;
`cards status --json | jq -e .healthy` says whether all is well.

Examples:
  cards status
  cards status --socket /run/cards/admin.sock --json | jq .counters
  cards status --cluster
  cards status --watch --json | jq --unbuffered .counters.disk_reads")]
pub(crate) struct Status {
    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object; with --watch one in each line
    #[arg(long)]
    json: bool,

    /// Every node of the cluster, one line each
    #[arg(long, conflicts_with = "watch")]
    cluster: bool,

    /// Repeat it
    #[arg(long)]
    watch: bool,

    /// How often
    #[arg(long, default_value = "2s", value_name = "TIME", requires = "watch", value_parser = crate::verbs::top::interval)]
    interval: Duration,
}

impl Status {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        if self.watch {
            return watch::watch(&self.daemon, self.interval, |status, before| match self.json {
                true => watch::json_line(status),
                false => render(status, before, cx.verbose > 0) + "\n",
            });
        }
        if self.cluster {
            let cluster = self.daemon.connect()?.cluster()?;
            return match self.json {
                true => output::print_json(&cluster),
                false => output::print(&cluster::render(&cluster)),
            };
        }
        let status = self.daemon.connect()?.status_of_start()?;
        if self.json {
            return output::print_json(&status);
        }
        output::print(&render(&status, None, cx.verbose > 0))
    }
}

/// The status for people; what clients ask for is that since `before`, if there is an earlier one.
fn render(status: &cards_admin::Status, before: Option<&cards_admin::Status>, all_counters: bool) -> String {
    if status.starting.is_some() {
        return status.headline() + "\n";
    }
    let sections = [
        heading(status),
        members(status).to_string() + &registry(status) + &encryption(&status.members),
        volume_table(status.volumes.iter().map(without_said)).to_string()
            + &weaker(&status.volumes)
            + &limits(status)
            + &losses(status)
            + &choices(status),
        io::render(status, before),
        cache(status),
        if all_counters { counters(status) } else { String::new() },
    ];
    sections.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn heading(status: &cards_admin::Status) -> String {
    let mut text = status.headline() + "\n";
    if !status.healthy {
        status.other_problems().for_each(|problem| text += &format!("  {problem}\n"));
        text += &format!("  ({})\n", status.facts());
    }
    text
}

fn members(status: &cards_admin::Status) -> Table {
    let mut table = Table::new(&[("node", Align::Left), ("address", Align::Left), ("state", Align::Left)]);
    for member in &status.members {
        // The reason is in the heading.
        let silent = match member.silent_ms {
            Some(ms) => format!(", silent for {:.1} s", ms as f64 / 1e3),
            None => String::new(),
        };
        let state = member_state(member.state).to_owned() + &silent;
        table.row([member.name.clone(), member.address.clone(), state]);
    }
    table
}

/// Who keeps the list of members, and what that means.
fn registry(status: &cards_admin::Status) -> String {
    let is_up = |name: &str| {
        let mut members = status.members.iter().filter(|member| member.name == name);
        members.any(|member| {
            matches!(member.state, MemberState::Here | MemberState::Up | MemberState::Connecting)
        })
    };
    let up = status.members.iter().filter(|member| is_up(&member.name)).count();
    status
        .registry
        .as_ref()
        .map(|registry| format!("  {}\n", registry.describe(up, is_up)))
        .unwrap_or_default()
}

/// How what is said to the members is kept from others: a line for each way, if it is.
fn encryption(members: &[cards_admin::Member]) -> String {
    let line = |way, text| {
        let whom = members.iter().filter(|member| member.encryption == Some(way));
        let whom: Vec<&str> = whom.map(|member| member.name.as_str()).collect();
        if whom.is_empty() { String::new() } else { format!("  {}: {text}\n", whom.join(", ")) }
    };
    line(Encryption::Kernel, "TLS 1.3 in the kernel")
        + &line(
            Encryption::Daemon,
            "TLS 1.3 in the daemon (the kernel had no TLS when they connected: modprobe tls)",
        )
}

/// The state's name, for people.
const fn member_state(state: MemberState) -> &'static str {
    match state {
        MemberState::Here => "here",
        MemberState::Up => "up",
        MemberState::Connecting => "connecting",
        MemberState::Down => "down",
        MemberState::Refused => "refused",
        MemberState::Dead => "dead",
        MemberState::Left => "left",
    }
}

/// Volumes for people; `cards volume list` prints the same.
pub(crate) fn volumes(volumes: &[cards_admin::Volume]) -> String {
    volume_table(volumes.iter().map(|volume| (volume, volume.reason.as_deref()))).to_string()
        + &weaker(volumes)
}

/// What is promised of a volume whose readers may get old contents.
pub(crate) const MAY_BE_STALE: &str =
    "the weaker promise: a reader may get what was there before a write that is complete";

/// A line about each volume that is not coherent.
fn weaker(volumes: &[cards_admin::Volume]) -> String {
    let stale = volumes.iter().filter(|volume| volume.may_be_stale());
    stale.map(|volume| format!("  {}: coherence = \"policy\", {MAY_BE_STALE}\n", volume.name)).collect()
}

/// A line about each limit on what clients may have.
fn limits(status: &cards_admin::Status) -> String {
    let of_cards = status.volumes.iter().filter_map(|volume| {
        let limit = volume.attached.as_ref()?.limit?;
        Some(format!("  {}: clients here are limited to {limit}\n", volume.name))
    });
    let of_node = status.limit.iter();
    let of_node =
        of_node.map(|limit| format!("  all volumes: clients here are limited to {limit} together\n"));
    of_cards.chain(of_node).collect()
}

/// A line about the volume if a flush of it has failed because writes were lost.
pub(crate) fn loss_of(status: &cards_admin::Status, volume: &str) -> String {
    let of_volume = status.losses.iter().filter(|lost| lost.volume == volume).cloned().collect();
    losses(&cards_admin::Status { losses: of_volume, ..status.clone() })
}

/// A line about each volume whose policy `auto` chooses.
fn choices(status: &cards_admin::Status) -> String {
    let line = |volume: &cards_admin::Volume| {
        Some(format!("  {}: auto has {}\n", volume.name, auto::in_force(volume.auto.as_ref()?)))
    };
    status.volumes.iter().filter_map(line).collect()
}

/// A line about each volume of which a flush has failed because writes were lost.
fn losses(status: &cards_admin::Status) -> String {
    let line = |lost: &cards_admin::Lost| {
        let cards_admin::Lost { volume, disk_node, time_ms, reason } = lost;
        let ago = status.time_ms.saturating_sub(*time_ms) / 1_000;
        format!(
            "  {volume}: {ago} s ago a flush failed: at its disk node {disk_node}, {reason}; what was written here before \
             it may be lost\n"
        )
    };
    status.losses.iter().map(line).collect()
}

/// A volume's policy, and whether that is all that keeps copies coherent.
fn policy(volume: &cards_admin::Volume) -> String {
    let name = volume.policy.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let name = if volume.auto.is_some() { format!("auto: {name}") } else { name };
    if volume.may_be_stale() { name + " (weaker coherence)" } else { name }
}

/// A volume without the reason that the heading has given.
fn without_said(volume: &cards_admin::Volume) -> (&cards_admin::Volume, Option<&str>) {
    let said = volume.attached.is_some() && volume.state != VolumeState::Ready;
    (volume, volume.reason.as_deref().filter(|_| !said))
}

fn volume_table<'a>(volumes: impl Iterator<Item = (&'a cards_admin::Volume, Option<&'a str>)>) -> Table {
    let mut table = Table::new(&[
        ("volume", Align::Left),
        ("size", Align::Right),
        ("block", Align::Right),
        ("policy", Align::Left),
        ("disk at", Align::Left),
        ("attached", Align::Left),
        ("device", Align::Left),
        ("cached here", Align::Right),
        ("state", Align::Left),
    ]);
    for (volume, reason) in volumes {
        let dash = || "-".to_owned();
        let known = |bytes: u64| if bytes == 0 { dash() } else { size::human(bytes) };
        let card = volume.attached.as_ref().filter(|_| volume.is_attached());
        let attached = card.map_or_else(dash, |card| card.mode.name().to_owned());
        let block = u64::from(volume.block);
        table.row([
            volume.name.clone(),
            known(volume.size),
            known(block),
            policy(volume),
            volume.disk_node.clone().unwrap_or_else(dash),
            attached,
            card.and_then(|card| card.device.as_ref()).map_or_else(dash, device),
            size::human(volume.cached_blocks.saturating_mul(block)),
            with_reason(state_name(volume.state), reason),
        ]);
    }
    table
}

/// The local device of a card, with its (major, minor) (CARD-11): `loop3 (7,3)`.
fn device(device: &cards_admin::Device) -> String {
    let name = match device.path.file_name() {
        Some(name) if device.kind != "fuse" => name.to_string_lossy(),
        _ => "file".into(),
    };
    format!("{name} ({},{})", device.major, device.minor)
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

fn cache(status: &cards_admin::Status) -> String {
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
    let pinned = match status.cache.pinned {
        0 => String::new(),
        pinned => format!(", {} of it pinned", size::human(pinned)),
    };
    text += &format!(
        "  cache: {} of {} used{pinned}, {}; index and locks: {} more\n",
        size::human(status.cache.used),
        size::human(status.cache.bytes),
        status.cache.replacement,
        size::human(status.cache.index_bytes)
    );
    if !status.disks.is_empty() {
        let cards_admin::DiskEngine { kind, reason } = &status.disk_engine;
        let why = if reason == kind.name() { String::new() } else { format!(" ({reason})") };
        text += &format!("  disks: by {}{why}\n", kind.name());
    }
    for disk in &status.disks {
        let c = &disk.counters;
        let origin = if disk.origin.is_empty() { String::new() } else { format!(" ({})", disk.origin) };
        text += &format!(
            "  disk {}{origin}: {} blocks ({}) read, {} blocks ({}) written\n",
            match &disk.managed {
                Some(managed) => format!("{managed}, volume {}", disk.name),
                None => disk.name.clone(),
            },
            count(c.reads),
            size::human(c.bytes_read),
            count(c.writes),
            size::human(c.bytes_written)
        );
        if let Some(room) = disk.room.filter(|room| room.unwritten > 0) {
            text += &format!(
                "    room: {} left on its file system for the {} that were never written\n",
                size::human(room.free),
                size::human(room.unwritten)
            );
        }
    }
    text
}

/// Every counter, by the name it has in JSON.
fn counters(status: &cards_admin::Status) -> String {
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

#[cfg(test)]
mod tests {
    use cards_admin::{
        Cache, Card, Counters, Disk, DiskCounters, DiskEngine, DiskEngineKind, Member, Volume,
    };
    use cards_config::{Coherence, Limit, Mode, ReadAhead};
    use cards_policies::Replacement;

    use super::*;

    pub(super) fn sample() -> cards_admin::Status {
        let member = |name: &str, state| Member {
            name: name.into(),
            address: format!("{name}:7400"),
            state,
            reason: (state == MemberState::Down).then(|| "no answer for 500ms".into()),
            silent_ms: None,
            encryption: (state == MemberState::Up).then_some(Encryption::Kernel),
            bytes_sent: 0,
            bytes_received: 0,
            checksum_errors: 0,
        };
        cards_admin::Status {
            cluster: "lab".into(),
            node: "n1".into(),
            coordinator: None,
            registry: None,
            epoch: 0,
            version: "0.1.0".into(),
            secure: true,
            in_clear: Vec::new(),
            certificate_ends_s: None,
            uptime_s: 125,
            time_ms: 0,
            web: None,
            nbd: None,
            limit: None,
            starting: None,
            healthy: true,
            problems: vec![],
            failing: vec![],
            members: vec![member("n1", MemberState::Here), member("n2", MemberState::Up)],
            volumes: vec![Volume {
                auto: None,
                mirror: None,
                striped: None,
                scrub: None,
                name: "disk".into(),
                disk_node: Some("n1".into()),
                size: 1 << 30,
                block: 65536,
                policy: Some("hscc".parse().unwrap()),
                coherence: Some(Coherence::Confirmed),
                read_only: Some(false),
                state: VolumeState::Ready,
                reason: None,
                attached: Some(Card {
                    mode: Mode::Rw,
                    read_ahead: ReadAhead::Auto,
                    clients: 1,
                    limit: None,
                    device: None,
                }),
                cached_blocks: 16,
                io: cards_admin::Io::default(),
            }],
            cache: Cache {
                bytes: 1 << 28,
                blocks: 4096,
                used: 1 << 20,
                pinned: 0,
                index_bytes: 3 << 20,
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
            slow: cards_admin::SlowRequests::default(),
            losses: vec![],
            disks: vec![Disk {
                name: "disk".into(),
                origin: "/dev/sdb".into(),
                managed: None,
                errors: 0,
                damaged: 0,
                room: None,
                counters: DiskCounters::default(),
            }],
        }
    }

    #[test]
    fn the_first_line_says_that_all_is_well() {
        let text = render(&sample(), None, false);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "n1 of cluster lab: all is well (2 of 2 nodes up, 1 volume attached, version 0.1.0, up 2 min)"
        );
        for part in [
            "1 MiB",
            "ready",
            "spared the disk 3 of 4 block reads (75 %)",
            "io_uring (probed)",
            "locks: 3 MiB more",
        ] {
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
        let text = render(&status, None, false);
        assert!(
            text.starts_with("n1 of cluster lab: n2 is down; start it\n  volume x waits for n2\n  (1 of 2"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.trim().starts_with("n2") && line.ends_with("down")), "{text}");
    }

    #[test]
    fn what_fails_comes_first_and_each_problem_is_said_once_with_what_to_do() {
        let mut status = sample();
        let problem = |what: &str| format!("{what}; do this about it");
        let (dead, (one, two)) =
            ("node n4: declared dead".to_owned(), ("volume a: 1 write failed", "volume b: 1 read failed"));
        (status.healthy, status.failing) = (false, vec![one.into()]);
        status.problems = vec![dead.clone(), problem(one)];
        let text = render(&status, None, false);
        assert!(text.starts_with(&format!("n1 of cluster lab: {}\n  {dead}\n  (", problem(one))), "{text}");
        status.failing.push(two.into());
        status.problems = vec![problem(one), problem(two), dead.clone()];
        let text = render(&status, None, false);
        assert!(
            text.starts_with(&format!(
                "n1 of cluster lab: {one}; {two}\n  {}\n  {}\n  {dead}\n  (",
                problem(one),
                problem(two)
            )),
            "{text}"
        );
    }

    #[test]
    fn of_a_daemon_that_does_not_serve_yet_one_line_says_why() {
        let mut status = sample();
        let starting = cards_admin::Starting { waits_for: Some("a disk".into()), ..Default::default() };
        (status.healthy, status.problems) = (false, vec![starting.to_string()]);
        status.starting = Some(starting);
        assert_eq!(render(&status, None, false), "n1 of cluster lab: starting: waits for a disk for 0 s\n");
    }

    #[test]
    fn a_node_that_may_stand_still_is_named_before_that_is_certain() {
        let mut status = sample();
        status.members[1].silent_ms = Some(1_400);
        let first = render(&status, None, false).lines().next().unwrap().to_owned();
        assert_eq!(
            first,
            "n1 of cluster lab: n2 is silent for 1.4 s; all else is well (1 of 2 nodes up, 1 volume attached, \
             version 0.1.0, up 2 min)"
        );
    }

    #[test]
    fn an_attached_volume_that_is_offline_is_not_counted_as_if_it_were_well() {
        let mut status = sample();
        (status.healthy, status.problems) = (false, vec!["node n2 is down".into()]);
        status.volumes[0].state = VolumeState::Offline;
        let text = render(&status, None, false);
        assert!(text.contains("1 volume attached (1 offline), version"), "{text}");
    }

    #[test]
    fn it_says_who_encrypts_what_nodes_say() {
        let mut status = sample();
        let mut shown = |encryption| {
            status.members[1].encryption = encryption;
            render(&status, None, false)
        };
        assert!(shown(Some(Encryption::Kernel)).contains("\n  n2: TLS 1.3 in the kernel\n"));
        assert!(shown(Some(Encryption::Daemon)).contains("\n  n2: TLS 1.3 in the daemon (the kernel had"));
        assert!(!shown(Some(Encryption::None)).contains("TLS") && !shown(None).contains("TLS"));
    }

    #[test]
    fn a_card_has_its_local_device_beside_it() {
        let mut status = sample();
        let here = |kind: &str, path: &str, (major, minor)| cards_admin::Device {
            kind: kind.into(),
            path: path.into(),
            major,
            minor,
            pid: 4711,
        };
        let mut shown = |device| {
            if let Some(card) = &mut status.volumes[0].attached {
                card.device = Some(device);
            }
            render(&status, None, false)
        };
        assert!(shown(here("loop", "/dev/loop3", (7, 3))).contains("rw        loop3 (7,3)"));
        assert!(shown(here("fuse", "/run/cards/dev/disk", (0, 35))).contains("file (0,35)"));
    }

    #[test]
    fn a_refused_volume_is_not_attached() {
        let mut status = sample();
        (status.healthy, status.problems) =
            (false, vec!["volume \"disk\" has policy \"rd\"; leave it out".into()]);
        (status.volumes[0].state, status.volumes[0].reason) =
            (VolumeState::Refused, Some("has policy".into()));
        let text = render(&status, None, false);
        assert!(text.contains("0 of 1 volume attached") && text.contains(" - "), "{text}");
        assert_eq!(text.matches("has policy").count(), 1, "{text}");
        assert!(volumes(&status.volumes).contains("refused: has policy"));
    }

    #[test]
    fn limits_are_shown() {
        let mut status = sample();
        assert!(!render(&status, None, false).contains("limited"));
        let limit = Limit { iops: Some(500), ..Limit::default() };
        status.volumes[0].attached.as_mut().unwrap().limit = Some(limit);
        status.limit = Some(Limit { bytes: Some(1 << 30), ..limit });
        let text = render(&status, None, false);
        for line in [
            "  disk: clients here are limited to 500 requests/s, burst 1s\n",
            "  all volumes: clients here are limited to 500 requests/s, 1 GiB/s, burst 1s together\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn the_weaker_promise_is_named() {
        let mut status = sample();
        let shown = |status: &cards_admin::Status| [render(status, None, false), volumes(&status.volumes)];
        assert!(shown(&status).iter().all(|text| !text.contains("coheren")));
        status.volumes[0].coherence = Some(Coherence::Policy);
        for text in shown(&status) {
            assert!(text.contains("hscc (weaker coherence)"), "{text}");
            assert!(text.contains("  disk: coherence = \"policy\", the weaker promise: "), "{text}");
        }
        status.volumes[0].read_only = Some(true);
        assert!(shown(&status).iter().all(|text| !text.contains("coheren")), "nobody writes it");
    }

    #[test]
    fn verbose_has_every_counter() {
        let text = render(&sample(), None, true);
        for name in ["served", "bytes_received", "stale_hints"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn the_status_survives_json() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<cards_admin::Status>(&json).unwrap(), sample());
    }
}
