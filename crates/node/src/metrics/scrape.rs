//! Which metrics there are. `docs/reference/metrics.md` explains them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cards_admin::{Io, Op, OpIo, bucket_of};

use super::exposition::Exposition;
use super::process;
use crate::identity::seconds;
use crate::node::Node;
use crate::node::card::CardState;
use crate::node::group_damage::GroupDamage;
use crate::node::groups::Known;
use crate::node::link::Link;
use crate::report;
use crate::traffic::Traffic;

/// Buckets of durations are told apart at these powers of two of a microsecond: 4 µs to 34 s.
const POWERS: std::ops::RangeInclusive<u32> = 2..=25;
/// Kinds of requests that are there even if there were none yet.
const USUAL: [Op; 3] = [Op::Read, Op::Write, Op::Flush];

/// All metrics of this node as text.
pub(crate) fn scrape(node: &Node) -> String {
    let mut text = Exposition::default();
    about_node(&mut text, node);
    let io = node.probe.io();
    requests(&mut text, &io);
    limits(&mut text, &io);
    blocks(&mut text, &io);
    volumes(&mut text, node);
    counters(&mut text, node);
    peers(&mut text, node);
    disks(&mut text, node);
    about_process(&mut text, node);
    text.end()
}

fn about_node(text: &mut Exposition, node: &Node) {
    let config = &node.config;
    let labels: [(&str, &str); 3] =
        [("cluster", &config.cluster), ("node", &config.node), ("version", env!("CARGO_PKG_VERSION"))];
    text.info("cards_node", "Who this node is.").sample(&labels, 1);
    let help = "The version of the list of members that this node knows; zero if the node is alone.";
    text.gauge("cards_epoch", help).sample(&[], node.members().epoch());
    let cache = report::cache(node);
    text.gauge("cards_cache_size_bytes", "Memory for cached data.").sample(&[], cache.bytes);
    text.gauge("cards_cache_used_bytes", "Cached data.").sample(&[], cache.used);
    text.gauge("cards_cache_pinned_bytes", "Of the cached data, what stays.").sample(&[], cache.pinned);
    if let Some(own) = &node.identity {
        if let Some(ends) = own.ends() {
            let help = "When this node's certificate ends, since 1970; not there if nobody would believe it.";
            text.gauge("cards_certificate_end_time_seconds", help).sample(&[], seconds(ends));
        }
        if let Some(ends) = own.authority_ends() {
            let help = "When the cluster's authority ends, since 1970.";
            text.gauge("cards_authority_end_time_seconds", help).sample(&[], seconds(ends));
        }
        let help = "Certificates of this node that took the place of another one.";
        text.counter("cards_certificate_renewals", help).sample(&[], own.renewals.load(Ordering::Relaxed));
        let help = "Attempts to renew this node's certificate that failed.";
        let failures = own.renewal_failures.load(Ordering::Relaxed);
        text.counter("cards_certificate_renewal_failures", help).sample(&[], failures);
    }
    let help = "Requests of clients that took at least the time that `slow` in the configuration says.";
    text.counter("cards_slow_requests", help).sample(&[], node.probe.slow_count());
}

/// The kinds of requests to show: the usual ones, and those that there were.
fn shown(io: &Io) -> impl Iterator<Item = OpIo> + '_ {
    Op::ALL.into_iter().map(|op| io.op(op)).filter(|io| USUAL.contains(&io.op) || io.latency.count() > 0)
}

fn requests(text: &mut Exposition, volumes: &BTreeMap<String, Io>) {
    let help = "Requests of clients that have been answered, with errors or without.";
    let mut family = text.counter("cards_requests", help);
    for (volume, io) in volumes {
        shown(io).for_each(|io| family.sample(&labels(volume, &io), io.latency.count()));
    }
    let mut family = text.counter("cards_request_errors", "Requests of clients that failed or were refused.");
    for (volume, io) in volumes {
        shown(io).for_each(|io| family.sample(&labels(volume, &io), io.errors));
    }
    let help = "From when a request had arrived until its reply had left to the client's socket.";
    let mut family = text.histogram("cards_request_duration_seconds", help);
    for (volume, io) in volumes {
        for io in shown(io) {
            let buckets = POWERS.map(|power| {
                let us = 1_u64 << power;
                (us as f64 / 1e6, io.latency.below(bucket_of(us * 1_000)))
            });
            family.buckets(&labels(volume, &io), buckets, io.latency.count(), io.total_us as f64 / 1e6);
        }
    }
    for (name, op, help) in [
        ("cards_read_bytes", Op::Read, "Bytes that clients read."),
        ("cards_written_bytes", Op::Write, "Bytes that clients wrote."),
        ("cards_zeroed_bytes", Op::Zero, "Bytes that clients had zeroed."),
        ("cards_trimmed_bytes", Op::Trim, "Bytes that clients trimmed."),
    ] {
        let mut family = text.counter(name, help);
        volumes.iter().for_each(|(volume, io)| family.sample(&[("volume", volume)], io.op(op).bytes));
    }
}

fn labels<'a>(volume: &'a str, io: &OpIo) -> [(&'static str, &'a str); 2] {
    [("volume", volume), ("op", io.op.name())]
}

fn blocks(text: &mut Exposition, volumes: &BTreeMap<String, Io>) {
    let help = "Blocks of reads of the volume by where they came from.";
    let mut family = text.counter("cards_volume_block_reads", help);
    for (volume, io) in volumes {
        for (source, count) in [("local", io.local_hits), ("remote", io.remote_hits), ("disk", io.disk_reads)]
        {
            family.sample(&[("volume", volume), ("source", source)], count);
        }
    }
    let help = "Reads that first had to wait for this node's lock on the range.";
    let mut family = text.counter("cards_volume_lock_waits", help);
    volumes.iter().for_each(|(volume, io)| family.sample(&[("volume", volume)], io.lock_waits));
}

fn volumes(text: &mut Exposition, node: &Node) {
    let cards = node.cards.all();
    let card = |i: usize| (cards[i].attach.volume.as_str(), &cards[i]);
    let known: Vec<usize> = (0..cards.len()).filter(|i| cards[*i].volume().is_some()).collect();
    let mut family = text.gauge("cards_volume_attached", "Whether clients of this node can use the volume.");
    for (name, card) in (0..cards.len()).map(card) {
        let attached = card.state() == CardState::Attached;
        family.sample(&[("volume", name)], u8::from(attached));
    }
    let mut family = text.gauge("cards_volume_clients", "Clients of this node that use the volume.");
    (0..cards.len()).map(card).for_each(|(name, card)| family.sample(&[("volume", name)], card.clients()));
    let block = node.arena.block() as u64;
    let mut family = text.gauge("cards_volume_cached_bytes", "Data of the volume in this node's cache.");
    for i in &known {
        let (name, card) = card(*i);
        let blocks: u64 = card.ids().map(|part| node.cached(part)).sum();
        family.sample(&[("volume", name)], blocks.saturating_mul(block));
    }
    let mut family = text.gauge("cards_volume_size_bytes", "The size of the volume.");
    for i in &known {
        let (name, card) = card(*i);
        if let Some(bytes) = node.size_of(card) {
            family.sample(&[("volume", name)], bytes);
        }
    }
}

fn limits(text: &mut Exposition, volumes: &BTreeMap<String, Io>) {
    let help = "Requests of clients that a limit of the volume's card or of the node has had wait.";
    let mut family = text.counter("cards_throttled_requests", help);
    volumes.iter().for_each(|(volume, io)| family.sample(&[("volume", volume)], io.throttled));
    let mut family = text.counter("cards_throttled_seconds", "How long these waited for it, together.");
    let seconds = |io: &Io| io.throttled_us as f64 / 1e6;
    volumes.iter().for_each(|(volume, io)| family.sample(&[("volume", volume)], seconds(io)));
}

/// What the core and the driver count for the whole node.
fn counters(text: &mut Exposition, node: &Node) {
    let counters = report::counters(node);
    let help = "Blocks that clients of this node read, by where they came from.";
    let mut family = text.counter("cards_block_reads", help);
    for (source, count) in [
        ("local", counters.local_hits),
        ("remote", counters.remote_hits),
        ("disk", counters.disk_reads),
        ("failed", counters.failed),
    ] {
        family.sample(&[("source", source)], count);
    }
    for (name, help, value) in counters.iter() {
        let renamed = match name {
            // Shown by their source, by volume, or by peer.
            "reads" | "local_hits" | "remote_hits" | "disk_reads" | "failed" => continue,
            "bytes_read" | "bytes_written" | "bytes_sent" | "bytes_received" => continue,
            "writes" => "cards_block_writes".to_owned(),
            "bytes_copied" => "cards_copied_bytes".to_owned(),
            "lock_wait_us" => {
                let help = "How long reads waited, together, for a lock that this node had given up.";
                text.counter("cards_lock_wait_seconds", help).sample(&[], value as f64 / 1e6);
                continue;
            }
            name => format!("cards_{name}"),
        };
        text.counter(&renamed, help.trim()).sample(&[], value);
    }
}

fn peers(text: &mut Exposition, node: &Node) {
    let members = node.members();
    let peers: Vec<(&str, &Link)> = members
        .live()
        .filter(|(peer, _)| *peer != node.me)
        .map(|(peer, member)| (member.name.as_str(), &node.links[usize::from(peer.0)]))
        .collect();
    let mut family = text.gauge("cards_peer_up", "Whether this node can talk to the peer.");
    for (peer, link) in &peers {
        family.sample(&[("peer", peer)], u8::from(link.answers()));
    }
    let mut family = text.counter("cards_peer_sent_bytes", "Bytes sent to the peer, headers and data.");
    for (peer, link) in &peers {
        family.sample(&[("peer", peer)], Traffic::get(&link.traffic.sent));
    }
    let mut family =
        text.counter("cards_peer_received_bytes", "Bytes received from the peer, headers and data.");
    for (peer, link) in &peers {
        family.sample(&[("peer", peer)], Traffic::get(&link.traffic.received));
    }
    let help = "Blocks and frames from the peer that were not as it had sent them.";
    let mut family = text.counter("cards_peer_checksum_errors", help);
    for (peer, link) in &peers {
        family.sample(&[("peer", peer)], link.damaged.total());
    }
    let help = "Messages of mirrored volumes from peers that were dropped; they are sent again.";
    let mut family = text.counter("cards_group_messages_dropped", help);
    for (reason, count) in node.group_mail.dropped() {
        family.sample(&[("reason", reason)], count);
    }
    let help = "Bytes of writes to disks of the peer that wait for its memory, or for the connection.";
    let mut family = text.gauge("cards_peer_writes_waiting_bytes", help);
    for (peer, link) in &peers {
        family.sample(&[("peer", peer)], link.writes_waiting() as u64);
    }
}

/// Copies of the whole cluster that the maps have in sync, and whose disks were put back to earlier images.
fn copies_put_back(node: &Node) -> u64 {
    let old = |known: Arc<Known>| {
        let map = known.ready()?;
        let old = map.in_sync().filter(|number| node.put_back(&known.record, map, *number).is_some());
        Some(old.count() as u64)
    };
    node.groups.all().into_iter().filter_map(old).sum()
}

fn disks(text: &mut Exposition, node: &Node) {
    let mut disks: Vec<cards_admin::Disk> = Vec::new();
    for disk in report::disks(node) {
        // A volume over several groups may be on several disks of a node.
        match disks.iter_mut().find(|known| known.name == disk.name) {
            Some(known) => known.counters = known.counters.plus(disk.counters),
            None => disks.push(disk),
        }
    }
    type Of = fn(&cards_admin::DiskCounters) -> u64;
    let families: [(&str, &str, Of); 4] = [
        ("cards_disk_blocks_read", "Blocks read from the physical disk.", |disk| disk.reads),
        ("cards_disk_blocks_written", "Blocks written to it, in whole or in part.", |disk| disk.writes),
        ("cards_disk_read_bytes", "Bytes read from the physical disk.", |disk| disk.bytes_read),
        ("cards_disk_written_bytes", "Bytes written to the physical disk.", |disk| disk.bytes_written),
    ];
    for (name, help, of) in families {
        let mut family = text.counter(name, help);
        disks.iter().for_each(|disk| family.sample(&[("disk", &disk.name)], of(&disk.counters)));
    }
    let help = "Bytes that this node has copied to other copies of mirrored volumes, which had missed them.";
    let copied: u64 = node.copies.list().iter().map(|copy| copy.copied()).sum();
    text.counter("cards_mirror_copied_bytes", help).sample(&[], copied);
    let help = "Copies of mirrored volumes that were put back to earlier images while they counted as in sync, in the whole cluster: the same at each node.";
    text.gauge("cards_copies_put_back", help).sample(&[], copies_put_back(node));
    type Room = fn(&cards_admin::Room) -> u64;
    let families: [(&str, &str, Room); 2] = [
        ("cards_disk_unwritten_bytes", "Bytes of a disk's file that have no place yet.", |room| {
            room.unwritten
        }),
        ("cards_disk_room_bytes", "Bytes that are left on the file system of a disk's file.", |room| {
            room.free
        }),
    ];
    for (name, help, of) in families {
        let mut family = text.gauge(name, help);
        let rooms = disks.iter().filter_map(|disk| Some((&disk.name, disk.room?)));
        rooms.for_each(|(disk, room)| family.sample(&[("disk", disk)], of(&room)));
    }
    disk_errors(text, node);
}

fn disk_errors(text: &mut Exposition, node: &Node) {
    let mut family = text.counter("cards_disk_errors", "Operations that a disk of this node has failed.");
    for (spec, errors) in node.own.iter().zip(&node.disk_errors) {
        family.sample(&[("disk", &spec.name)], errors.total());
    }
    let help = "Reads of a volume on a managed disk whose data did not fit their checksums, and 4 KiB of it that scrubs found so.";
    let mut family = text.counter("cards_disk_checksum_errors", help);
    for ((spec, disk), damage) in node.own.iter().zip(&node.disks).zip(&node.damage) {
        family.sample(&[("disk", &spec.name)], disk.stats().snapshot().damaged + damage.scrubbed());
    }
    let help = "4 KiB of copies of a mirrored volume that did not fit their checksums, as this node has found as its primary.";
    let damages: Vec<_> =
        node.groups.all().iter().map(|known| node.groups.damage(known.record.pg())).collect();
    let sum = |of: fn(&GroupDamage) -> &AtomicU64| {
        damages.iter().map(|damage| of(damage).load(Ordering::Relaxed)).sum::<u64>()
    };
    let mut family = text.counter("cards_copy_checksum_errors", help);
    family.sample(&[("outcome", "repaired")], sum(|damage| &damage.repaired));
    family.sample(&[("outcome", "unrepaired")], sum(|damage| &damage.unrepaired));
}

fn about_process(text: &mut Exposition, node: &Node) {
    let started_us = *node.started_us.get_or_init(|| {
        let (now, utc_us) = node.clock.now_and_utc_us();
        utc_us.saturating_sub(now.0 / 1_000)
    });
    let help = "When the daemon was started, since 1970.";
    text.gauge("process_start_time_seconds", help).sample(&[], started_us as f64 / 1e6);
    if let Some(seconds) = process::cpu_seconds() {
        text.counter("process_cpu_seconds", "Processor time of the daemon.").sample(&[], seconds);
    }
    if let Some(bytes) = process::resident_bytes() {
        text.gauge("process_resident_memory_bytes", "Memory that the daemon has.").sample(&[], bytes);
    }
    if let Some(files) = process::open_files() {
        text.gauge("process_open_fds", "Files and sockets that are open.").sample(&[], files);
    }
}

#[test]
fn the_borders_that_are_shown_are_borders_of_buckets() {
    use cards_admin::bucket_begin_us;
    for power in POWERS {
        assert_eq!(bucket_begin_us(bucket_of((1 << power) * 1_000)), 1 << power);
    }
}
