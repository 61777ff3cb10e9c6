//! What this node says of itself.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cards_admin::{
    self, Activity, Cache, Counters, Disk, DiskCounters, DiskEngine, DiskEngineKind, Member, MemberState,
    SlowRequests, Status, Volume, VolumeState,
};
use cards_config::{Coordinator, PolicySpec};
use cards_coordinator::MemberState as Standing;
use cards_core::{CardStatus, NodeId, PgId, VolumeSpec};

use crate::attach::{explain, losses, unknown_volume};
use crate::failures::Failures;
use crate::identity::seconds;
use crate::node::card::{Card, CardState};
use crate::node::groups::FailedCopy;
use crate::node::link::Link;
use crate::node::{Local, Node};
use crate::problems;
use crate::traffic::Traffic;

/// So many slow requests are told with everything else.
const SLOW_MAX: usize = 8;

/// Everything about this node.
pub(crate) fn status(node: &Node) -> Status {
    let (members, volumes) = (members(node), volumes(node));
    let problems = problems::of(node, &members, &volumes);
    Status {
        cluster: node.config.cluster.clone(),
        node: node.config.node.clone(),
        coordinator: node.config.coordinator.as_ref().map(Coordinator::describe),
        registry: node.membership.kept(),
        epoch: node.members().epoch(),
        version: env!("CARGO_PKG_VERSION").into(),
        secure: node.identity.is_some(),
        in_clear: in_clear(node),
        certificate_ends_s: node.identity.as_ref().and_then(|own| own.ends()).map(seconds),
        uptime_s: node.now().0 / 1_000_000_000,
        time_ms: node.clock.now_and_utc_us().1 / 1_000,
        web: node.web.get().map(ToString::to_string),
        nbd: node.nbd_socket(),
        limit: node.limiter.limit(),
        starting: None,
        healthy: problems.is_empty(),
        failing: problems.iter().filter_map(|problem| problem.failing.clone()).collect(),
        problems: problems.into_iter().map(|problem| problem.text).collect(),
        members,
        volumes,
        cache: cache(node),
        disk_engine: engine(node),
        counters: counters(node),
        slow: slow(node, SLOW_MAX),
        losses: losses(node),
        disks: disks(node),
    }
}

/// Requests that took long, at most so many of each kind.
pub(crate) fn slow(node: &Node, most: usize) -> SlowRequests {
    node.probe.slow_requests(node, node.clock.now_and_utc_us(), most)
}

/// Where other machines may connect without TLS.
fn in_clear(node: &Node) -> Vec<String> {
    let listeners = node.config.listeners();
    listeners.iter().filter(|listener| listener.is_in_clear()).map(|listener| listener.key.into()).collect()
}

/// After a restart nobody writes the disks of this node before those that may have cards of its last life are heard.
fn writes_wait(node: &Node, spec: &VolumeSpec) -> Option<String> {
    let begun = node.writes_begun.load(Ordering::SeqCst);
    if begun || spec.read_only || node.primary(spec.id) != Some(node.me) {
        return None;
    }
    let left = (node.config.lease * 3 / 2).saturating_sub(Duration::from_nanos(node.now().0));
    let left = left.as_secs_f64();
    Some(format!("writes begin in {left:.1} s at most, or when all members have been heard"))
}

/// Whether anything is under way, as a data thread sees it.
pub(crate) fn activity(local: &Rc<Local>) -> Activity {
    let mut activity = Activity {
        busy: local.in_flight.get() > 0 || local.clients.borrow().iter().any(|client| client.is_throttled()),
        working: local.jobs.borrow().iter().next().is_some(),
        demands: local.demands.get(),
        held: local.node.links.iter().map(Link::held).collect(),
        ..Activity::default()
    };
    for cell in &local.node.shards {
        let state = cell.lock();
        activity.busy |= !state.shard.is_quiet() || state.lent > 0;
        activity.working |= state.lent > 0;
        activity.messages_sent += state.shard.stats().messages_sent;
        activity.messages_received += state.shard.stats().messages_received;
    }
    activity
}

/// The policy that a volume has: chosen, or the one that it was made with.
fn policy(node: &Node, volume: &str, made_with: &str) -> Option<PolicySpec> {
    let auto = node.policies.auto(volume, made_with).map(|auto| auto.in_force);
    match auto.or_else(|| node.policies.modules.chosen(volume)) {
        Some(chosen) => node.policies.table().shown(&chosen).parse().ok(),
        None => made_with.parse().ok(),
    }
}

/// All volumes that are known, and those that are only wanted.
pub(crate) fn volumes(node: &Node) -> Vec<Volume> {
    let (specs, statuses) = {
        let control = node.control();
        (control.volumes().cloned().collect::<Vec<_>>(), control.cards().collect::<Vec<_>>())
    };
    let cards = node.cards.all();
    let mut volumes: Vec<Volume> = Vec::new();
    for spec in &specs {
        let is = |card: &&Arc<Card>| match card.volume() {
            Some(volume) => volume == spec.id,
            None => card.attach.volume == spec.name,
        };
        // A part is told of with its volume.
        if node.groups.get(spec.id).is_some_and(|known| known.record.part.is_some()) {
            continue;
        }
        let card = cards.iter().find(is);
        if node.is_gone(spec.id) && card.is_none() {
            continue;
        }
        let (state, reason) = standing(node, spec, card, &statuses);
        volumes.push(Volume {
            disk_node: Some(node.name(node.primary(spec.id).unwrap_or(node.me))),
            size: node.told(spec.clone()).size_bytes,
            block: spec.block_bytes,
            policy: policy(node, &spec.name, &spec.policy),
            auto: node.policies.auto(&spec.name, &spec.policy),
            coherence: Some(spec.coherence.into()),
            read_only: Some(spec.read_only),
            state,
            reason,
            attached: card.map(|card| self::card(node, card)),
            cached_blocks: node.cached(spec.id),
            io: node.probe.io_of(spec.id).unwrap_or_default(),
            mirror: None,
            striped: None,
            scrub: None,
            name: spec.name.clone(),
        });
    }
    for striped in node.groups.all_striped() {
        let Some(whole) = node.volume(&striped.name) else { continue };
        let card = cards.iter().find(|card| card.attach.volume == striped.name);
        let parts = striped.groups.iter().filter_map(|number| specs.iter().find(|spec| spec.id.0 == *number));
        let standings = (0..).zip(parts.clone()).map(|(part, spec)| {
            let (state, reason) = standing(node, spec, card, &statuses);
            // Who has the volume has all of it.
            let whole = state == VolumeState::Refused;
            (state, reason.map(|reason| if whole { reason } else { format!("part {part}: {reason}") }))
        });
        // The volume is as its worst part is.
        let order = [VolumeState::Ready, VolumeState::Waiting, VolumeState::Offline, VolumeState::Refused];
        let rank = |state: VolumeState| order.iter().position(|other| *other == state);
        let worst = standings.max_by_key(|(state, reason)| (rank(*state), std::cmp::Reverse(reason.clone())));
        let (state, reason) = worst.unwrap_or((VolumeState::Waiting, None));
        volumes.push(Volume {
            disk_node: None,
            size: whole.size_bytes,
            block: whole.block_bytes,
            policy: policy(node, &whole.name, &whole.policy),
            auto: node.policies.auto(&whole.name, &whole.policy),
            coherence: Some(whole.coherence.into()),
            read_only: Some(whole.read_only),
            state,
            reason,
            attached: card.map(|card| self::card(node, card)),
            cached_blocks: parts.map(|spec| node.cached(spec.id)).sum(),
            io: node.probe.io_of(whole.id).unwrap_or_default(),
            mirror: None,
            striped: None,
            scrub: None,
            name: whole.name,
        });
    }
    for card in cards {
        if volumes.iter().all(|volume| volume.name != card.attach.volume) {
            volumes.push(Volume {
                name: card.attach.volume.clone(),
                disk_node: None,
                size: 0,
                block: 0,
                policy: None::<PolicySpec>,
                auto: None,
                coherence: None,
                read_only: None,
                state: VolumeState::Waiting,
                reason: Some(unknown_volume(node, &card.attach.volume)),
                attached: Some(self::card(node, &card)),
                cached_blocks: 0,
                io: cards_admin::Io::default(),
                mirror: None,
                striped: None,
                scrub: None,
            });
        }
    }
    volumes
}

/// Whether clients can be served from a volume, or a part of one, and why not.
fn standing(
    node: &Node,
    spec: &VolumeSpec,
    card: Option<&Arc<Card>>,
    statuses: &[CardStatus],
) -> (VolumeState, Option<String>) {
    let status = statuses.iter().find(|status| status.volume == spec.id);
    // Of a group that the registry does not have, nothing is awaited.
    let disk_node = node.primary(spec.id).unwrap_or(node.me);
    let link = &node.links[usize::from(disk_node.0)];
    let up = disk_node == node.me || link.is_up();
    let silent_s = silent_s(node, link).filter(|_| up && disk_node != node.me);
    let still = node.groups.get(spec.id).and_then(|known| node.stands_still(&known));
    match card.map(|card| card.state()) {
        _ if node.is_gone(spec.id) => (VolumeState::Offline, Some(gone(node, spec))),
        Some(CardState::Refused(_, reason)) => (VolumeState::Refused, Some(reason)),
        _ if node.lost_lead(spec.id).is_some() => {
            let lost = node.lost_lead(spec.id);
            (VolumeState::Offline, lost.map(|failed| lost_copy(node, &failed)))
        }
        _ if still.is_some() => (VolumeState::Offline, still.map(|still| still.reason())),
        _ if !up => (VolumeState::Offline, Some(away(node, spec.id, disk_node))),
        _ if silent_s.is_some() => {
            let reason = format!(
                "its disk node {} has not answered for {} s{}; what needs it waits, then EIO after disk_wait ({:?})",
                node.name(disk_node),
                silent_s.unwrap_or_default(),
                node.lone_place(spec.id)
                    .map(|place| format!(", and the only copy is on {place}"))
                    .unwrap_or_default(),
                node.config.disk_wait
            );
            (VolumeState::Offline, Some(reason))
        }
        Some(CardState::Waiting) => {
            (VolumeState::Waiting, Some("being attached; this takes a moment".into()))
        }
        Some(CardState::Attached) if !status.is_some_and(|status| status.attached) => {
            match (card, status.and_then(|status| status.refused.as_ref())) {
                (Some(card), Some(refusal)) => (VolumeState::Refused, Some(explain(node, card, refusal))),
                _ => {
                    let gone = node.in_sync_and_gone(spec.id).filter(|_| disk_node != node.me);
                    let reason = match gone {
                        Some(copies) => format!(
                            "not served yet: {copies} counts as in sync, and its node is away; `cards status` at node {} says whether that is \
                             waited for",
                            node.name(disk_node)
                        ),
                        None => "its disk node has given the card up; being attached again".to_owned(),
                    };
                    (VolumeState::Waiting, Some(reason))
                }
            }
        }
        Some(CardState::Attached) | None => (VolumeState::Ready, writes_wait(node, spec)),
    }
}

/// Why a volume, or a part of one, is offline whose disk node cannot be reached.
fn away(node: &Node, of: PgId, disk_node: NodeId) -> String {
    let name = node.name(disk_node);
    match node.lone_place(of) {
        Some(place) => format!(
            "its disk node {name} does not answer, and the only copy is on {place}: what needs it waits, then EIO after disk_wait; it is served \
             again when that node is back with that disk; see node {name} in `cards status`"
        ),
        None => format!("its disk node {name} does not answer; see node {name} in `cards status`"),
    }
}

/// Why nobody serves a volume that this node leads.
fn lost_copy(node: &Node, failed: &FailedCopy) -> String {
    let copy = failed.described(&node.name(node.me));
    format!(
        "its {copy}, and no other one has taken its place: requests wait, then EIO after disk_wait; {}",
        node.remedy(failed)
    )
}

/// Why a volume is offline for good that a card wants.
fn gone(node: &Node, spec: &VolumeSpec) -> String {
    let (disk_node, volume) = (node.primary_name(spec.id), &spec.name);
    if !spec.id.is_plain() {
        return format!("it is being removed, or was; run `cards volume detach {volume}`");
    }
    match node.has_left(spec.id.disk_node()) {
        true => format!(
            "its disk node {disk_node} has left the cluster; run `cards volume detach {volume}`, or have it join again"
        ),
        false => format!(
            "node {disk_node} does not have the volume any more that was attached here (taken out, or made anew); put it back \
             into that node's file and restart it, or run `cards volume detach {volume}` and attach the one that is there now"
        ),
    }
}

fn members(node: &Node) -> Vec<Member> {
    let members = node.members();
    let describe = |(peer, member): (NodeId, &crate::node::members::Member)| {
        let (state, reason) = match member.state {
            Standing::Dead => (MemberState::Dead, Some(declared_dead(member))),
            Standing::Left => (MemberState::Left, None),
            Standing::Joined | Standing::Leaving if peer == node.me => (MemberState::Here, None),
            Standing::Joined | Standing::Leaving => {
                let link = &node.links[usize::from(peer.0)];
                let status = link.status();
                match silent_s(node, link).filter(|_| status.state == MemberState::Up) {
                    Some(seconds) => (MemberState::Down, Some(silent(seconds))),
                    None => (status.state, status.reason),
                }
            }
        };
        let link = &node.links[usize::from(peer.0)];
        let traffic = &link.traffic;
        let is_connected = matches!(state, MemberState::Up | MemberState::Down);
        let quiet = link.quiet_since().filter(|_| is_connected);
        Member {
            name: member.name.clone(),
            address: member.address.clone(),
            state,
            reason,
            silent_ms: quiet.map(|since| node.now().since(since).as_millis() as u64),
            encryption: link.status().encryption,
            bytes_sent: Traffic::get(&traffic.sent),
            bytes_received: Traffic::get(&traffic.received),
            checksum_errors: link.damaged.total(),
        }
    };
    members.all().map(describe).collect()
}

/// For how many seconds a peer has said nothing although it should.
fn silent_s(node: &Node, link: &Link) -> Option<u64> {
    Some(node.now().since(link.silent_since()?).as_secs())
}

fn silent(seconds: u64) -> String {
    format!("silent for {seconds} s although it is connected: it stands still or is overloaded")
}

fn declared_dead(member: &crate::node::members::Member) -> String {
    format!(
        "it was declared dead in epoch {}: if it runs, it stands still or is cut off from the coordinator; else start it again, \
         or run `cards forget {}` if it does not come back",
        member.since, member.name
    )
}

fn card(node: &Node, card: &Card) -> cards_admin::Card {
    cards_admin::Card {
        mode: node.mode(card),
        read_ahead: card.attach.read_ahead,
        clients: card.clients(),
        limit: card.limiter().limit(),
        device: card.volume().and_then(|volume| node.devices.device(volume)),
    }
}

/// This node's cache.
pub(crate) fn cache(node: &Node) -> Cache {
    let block = node.arena.block() as u64;
    let (mut index, mut resident, mut retained) = (0u64, 0u64, 0u64);
    for cell in &node.shards {
        let state = cell.lock();
        index += state.shard.index_bytes() as u64;
        resident += u64::from(state.shard.resident());
        retained += u64::from(state.shard.retained());
    }
    Cache {
        bytes: node.config.cache,
        blocks: node.config.cache / block,
        used: resident * block,
        pinned: retained * block,
        index_bytes: index,
        replacement: node.config.replacement,
    }
}

fn engine(node: &Node) -> DiskEngine {
    match node.engine.get() {
        // Their copies of mirrors have no volume here by which there would be a disk.
        None if !node.managed.is_empty() => {
            let count = node.managed.len();
            let reason =
                format!("{count} managed disk{}, a pool for each", if count == 1 { "" } else { "s" });
            DiskEngine { kind: DiskEngineKind::Threads, reason }
        }
        None => DiskEngine { kind: DiskEngineKind::None, reason: "this node contributes no disk".into() },
        Some(kind) => DiskEngine {
            kind: match kind {
                cards_disk::EngineKind::IoUring => DiskEngineKind::IoUring,
                cards_disk::EngineKind::Threads { .. }
                | cards_disk::EngineKind::Nbd
                | cards_disk::EngineKind::Object => DiskEngineKind::Threads,
            },
            reason: kind.to_string(),
        },
    }
}

/// What this node counted.
pub(crate) fn counters(node: &Node) -> Counters {
    let traffic = &node.traffic;
    Counters {
        bytes_sent: Traffic::get(&traffic.bytes_sent),
        bytes_received: Traffic::get(&traffic.bytes_received),
        bytes_read: Traffic::get(&traffic.bytes_read),
        bytes_written: Traffic::get(&traffic.bytes_written),
        bytes_copied: Traffic::get(&traffic.bytes_copied)
            + node.disks.iter().map(|disk| disk.bytes_copied()).sum::<u64>(),
        messages_dropped: Traffic::get(&traffic.messages_dropped),
        ..Counters::from(&node.stats())
    }
}

/// This node's disks: one for each volume that is on them, or has a copy there.
pub(crate) fn disks(node: &Node) -> Vec<Disk> {
    let describe =
        |((disk, spec), errors): ((&Arc<cards_disk::Disk>, &cards_core::VolumeSpec), &Failures)| {
            let stats = disk.stats().snapshot();
            let counters = DiskCounters {
                reads: stats.reads,
                writes: stats.writes,
                bytes_read: stats.bytes_read,
                bytes_written: stats.bytes_written,
            };
            Disk {
                name: spec.name.clone(),
                origin: disk.name().to_owned(),
                managed: disk.managed().map(|managed| managed.disk_name().to_string()),
                errors: errors.total(),
                counters,
                damaged: 0,
                room: None,
            }
        };
    let disks = node.disks.iter().zip(&node.own).zip(&node.disk_errors).map(describe);
    let seen = node.disks_seen.iter().zip(&node.damage);
    disks
        .zip(seen)
        .map(|(disk, (seen, damage))| Disk { room: seen.room().map(room), damaged: damage.bytes(), ..disk })
        .chain(copies(node))
        .collect()
}

/// The copies of volumes here: those of the parts of a volume on one disk together.
fn copies(node: &Node) -> Vec<Disk> {
    let mut copies: Vec<Disk> = Vec::new();
    for copy in node.copies.list() {
        let is_it = |disk: &&mut Disk| disk.name == copy.name && disk.origin == copy.path;
        match copies.iter_mut().find(is_it) {
            Some(disk) => disk.counters = disk.counters.plus(copy.disk()),
            None => {
                let mut managed = node.managed.iter().zip(&node.managed_seen);
                let on = managed.find(|(managed, _)| managed.path() == copy.path);
                copies.push(Disk {
                    name: copy.name.clone(),
                    origin: copy.path.clone(),
                    managed: on.map(|(managed, _)| managed.disk_name().to_string()),
                    errors: 0,
                    counters: copy.disk(),
                    damaged: 0,
                    room: on.and_then(|(_, seen)| seen.room()).map(room),
                });
            }
        }
    }
    copies
}

fn room(room: cards_disk::Room) -> cards_admin::Room {
    cards_admin::Room { unwritten: room.unwritten, free: room.free }
}
