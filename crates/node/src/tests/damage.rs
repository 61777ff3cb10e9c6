//! Bits that change on their way between two nodes: what is read and written is right, and the nodes say so.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cards_admin::{NewVolume, VolumeState};
use cards_config::{Attach, Config, Disk, Origin};
use cards_core::{Body, NodeId, mix};
use cards_layout::format::{Sizes, Superblock, Uuid};
use cards_wire::peer::{HEADER_SIZE, Header, OLDEST, Versions, encode_hello};

use super::client::Client;
use super::cluster::{BLOCK, Cluster};
use super::group_mail;
use super::peers::{read_hello, whole_frame};
use crate::node::members::Member;

/// What is done to a frame that passes.
type Tamper = Box<dyn FnMut(&Header, &mut [u8]) + Send>;

/// The way to node 1: whoever connects comes to it through threads that look at each frame.
#[derive(Default)]
struct Way {
    tamper: Mutex<Option<Tamper>>,
    connections: AtomicUsize,
    /// Of the next frame with blocks only a half passes, and nothing more by its connection that way.
    stalls: AtomicBool,
}

/// The way itself, and the address where it begins.
type Opened = (Arc<Way>, String);

impl Way {
    fn open(to: String) -> Opened {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (way, address) = (Arc::<Self>::default(), listener.local_addr().unwrap().to_string());
        let opened = Arc::clone(&way);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (Ok(server), way) = (TcpStream::connect(&to), Arc::clone(&opened)) else { continue };
                way.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || way.connect(client, server));
            }
        });
        (way, address)
    }

    fn connect(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) -> std::io::Result<()> {
        server.write_all(&encode_hello(&read_hello(&mut client)?).unwrap())?;
        client.write_all(&encode_hello(&read_hello(&mut server)?).unwrap())?;
        // Nothing may be said for long.
        client.set_read_timeout(None)?;
        server.set_read_timeout(None)?;
        let back = (server.try_clone()?, client.try_clone()?, Arc::clone(&self));
        std::thread::spawn(move || back.2.pass(back.0, back.1));
        self.pass(client, server);
        Ok(())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        while let Ok((header, mut frame)) = whole_frame(&mut from) {
            if let Some(tamper) = &mut *self.tamper.lock().unwrap() {
                tamper(&header, &mut frame);
            }
            if is_data(&header) && self.stalls.swap(false, Ordering::SeqCst) {
                let _ = to.write_all(&frame[..frame.len() / 2]);
                // What is sent is received and kept. The other direction ends the connection, when an end does.
                let _ = std::io::copy(&mut from, &mut std::io::sink());
                return;
            }
            if to.write_all(&frame).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn tamper(&self, tamper: impl FnMut(&Header, &mut [u8]) + Send + 'static) {
        *self.tamper.lock().unwrap() = Some(Box::new(tamper));
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A cluster whose nodes come to node 1 by that way.
fn cluster(nodes: usize, blocks: usize, cache: u64) -> (Cluster, Arc<Way>) {
    cluster_with(nodes, blocks, |config| config.cache = cache)
}

fn cluster_with(nodes: usize, blocks: usize, change: impl Fn(&mut Config)) -> (Cluster, Arc<Way>) {
    let cluster = Cluster::with(nodes, blocks * BLOCK, |config| {
        config.disk_wait = Duration::from_secs(10);
        change(config);
    });
    cluster.wait("all know all", || (1..=nodes).all(|at| cluster.status(at).members.len() == nodes));
    let (way, address) = Way::open(cluster.config(1).address.clone().unwrap());
    for at in 2..=nodes {
        let node = cluster.node(at);
        let (first, members) = (NodeId(0), node.members());
        let way = Member { address: address.clone(), ..members.get(first).unwrap().clone() };
        // The link ends with the membership, and the next one is dialled at the new address.
        let publish = |member| node.membership.members.send_replace(Arc::new(members.with(first, member)));
        publish(Member { membership: None, ..way.clone() });
        cluster.wait("the link has ended", || !cluster.is_up(at, 1));
        publish(way);
    }
    for at in 1..=nodes {
        cluster.wait("all are connected", || (1..=nodes).all(|peer| peer == at || cluster.is_up(at, peer)));
        cluster.wait_ready(at);
    }
    (cluster, way)
}

/// Changes one bit of those that begin with byte `from`.
fn flip(frame: &mut [u8], from: usize, random: u64) {
    let bit = random as usize % ((frame.len() - from) * 8);
    frame[from + bit / 8] ^= 1 << (bit % 8);
}

/// Whether blocks follow this header.
fn is_data(header: &Header) -> bool {
    match header {
        Header::Message { message, .. } => matches!(message.body, Body::Data { .. }),
        Header::Run { payload, .. } => *payload > 0,
        Header::Body(_) | Header::Credit(_) | Header::Group { .. } => false,
    }
}

fn is_write(header: &Header) -> bool {
    matches!(header, Header::Message { message, payload } if *payload > 0 && matches!(message.body, Body::Command { .. }))
}

/// Blocks and frames of node `of` that node `at` found wrong; that they are a problem which names it.
#[track_caller]
fn found(cluster: &Cluster, at: usize, of: usize) -> u64 {
    let status = cluster.status(at);
    let said = format!("node n{of} ({}): of what it sends, ", status.members[of - 1].address);
    let is_said =
        status.problems.iter().any(|problem| problem.starts_with(&said) && problem.contains("ethtool"));
    let found = status.members[of - 1].checksum_errors;
    assert_eq!(is_said, found > 0, "{:?}", status.problems);
    found
}

#[test]
fn a_block_that_changes_on_its_way_is_asked_for_again() {
    let (cluster, way) = cluster(2, 64, 64 << 20);
    let connections = way.connections();
    let flipped = Arc::new(AtomicUsize::new(0));
    let (mut seen, count) = (0, Arc::clone(&flipped));
    // In the payload, or in its checksums.
    way.tamper(move |header, frame| {
        seen += u64::from(is_data(header));
        if is_data(header) && seen % 5 == 0 {
            count.fetch_add(1, Ordering::Relaxed);
            flip(frame, if seen % 2 == 0 { HEADER_SIZE } else { frame.len() - 64 }, mix(seen));
        }
    });
    let mut client = cluster.client(2);
    for block in 0..64 {
        let at = block * BLOCK;
        assert!(client.read(at as u64, BLOCK).unwrap() == cluster.content[at..at + BLOCK], "block {block}");
    }
    // What nobody waits for any more is not looked at.
    let (found, flipped) = (found(&cluster, 2, 1), flipped.load(Ordering::Relaxed) as u64);
    assert!(flipped >= 12 && (flipped / 2..=flipped).contains(&found), "{found} of {flipped}");
    assert_eq!(way.connections(), connections, "the connections go on");
    assert!(client.read(0, 64 * BLOCK).unwrap() == cluster.content);
}

#[test]
fn a_write_to_a_column_that_changes_on_its_way_is_dropped_and_the_connection_goes_on() {
    let (cluster, way) = cluster(2, 1, 64 << 20);
    let connections = way.connections();
    let mut seen = 0;
    way.tamper(move |header, frame| {
        if matches!(header, Header::Group { payload: 1.., .. }) {
            seen += 1;
            if seen % 2 == 0 {
                // In the payload, or in its checksums.
                flip(frame, if seen % 4 == 0 { HEADER_SIZE } else { frame.len() - 8 }, mix(seen));
            }
        }
    });
    let mail = group_mail::listen(cluster.node(1), |_| true);
    for number in 1..=9 {
        group_mail::put(&cluster, 2, 1, number, 5000).unwrap();
    }
    for number in [1, 3, 5, 7, 9] {
        assert_eq!(mail.put(number).len(), 5000);
    }
    assert!(mail.is_empty());
    let node = cluster.node(1);
    assert_eq!(node.group_mail.damaged.load(Ordering::Relaxed), 4);
    assert_eq!(found(&cluster, 1, 2), 4);
    assert_eq!(way.connections(), connections, "the connections go on");
}

/// An empty managed disk of 64 MiB in a file.
fn format(path: &Path, name: &str) {
    let bytes = 64 << 20;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    let uuid = Uuid::random(std::array::from_fn(|at| name.as_bytes().get(at).copied().unwrap_or_default()));
    let superblock = Superblock::formatted(uuid, Sizes::choose(bytes).unwrap(), None, name.parse().unwrap());
    for (at, page) in superblock.fresh_tables().chain(superblock.fresh()) {
        file.write_all_at(&page, at).unwrap();
    }
}

#[test]
fn both_copies_of_a_mirrored_volume_are_right_whatever_changes_on_their_way() {
    const BLOCKS: usize = 48;
    let dir = tempfile::tempdir().unwrap();
    let image = |node: &str| dir.path().join(node);
    let (cluster, way) = cluster_with(2, 1, |config| {
        format(&image(&config.node), &format!("fast-{}", config.node));
        let origin = Origin::Managed(image(&config.node));
        config.disks.push(Disk::new(&format!("fast-{}", config.node), origin));
    });
    let volume = NewVolume {
        layout: None,
        name: "data".into(),
        size: (BLOCKS * BLOCK) as u64,
        copies: 2,
        on: Vec::new(),
        block: None,
        policy: None,
    };
    cluster.wait("the disks are known", || cluster.admin(1).create_volume(volume.clone()).is_ok());
    for node in [1, 2] {
        let is_ready =
            || cluster.admin(node).volume("data").is_ok_and(|volume| volume.state == VolumeState::Ready);
        cluster.wait("the volume is made", is_ready);
        cluster.admin(node).attach(Attach::new("data")).unwrap();
    }
    let connections = way.connections();
    let flipped = Arc::new(AtomicUsize::new(0));
    let (mut seen, count) = (0, Arc::clone(&flipped));
    way.tamper(move |header, frame| {
        if matches!(header, Header::Group { payload: 1.., .. }) {
            seen += 1;
            if seen % 3 == 0 {
                count.fetch_add(1, Ordering::Relaxed);
                flip(frame, HEADER_SIZE, mix(seen));
            }
        }
    });
    let mut clients = [1, 2].map(|node| Client::open(&cluster.socket(node), "data").unwrap());
    let content: Vec<u8> = (0..BLOCKS * BLOCK / 8).flat_map(|at| mix(!at as u64).to_le_bytes()).collect();
    for (at, block) in content.chunks(BLOCK).enumerate() {
        clients[at % 2].write_fua((at * BLOCK) as u64, block).unwrap();
    }
    for client in &mut clients {
        assert!(client.read(0, content.len()).unwrap() == content);
    }
    let damaged: u64 =
        [1, 2].into_iter().map(|node| cluster.node(node).group_mail.damaged.load(Ordering::Relaxed)).sum();
    assert_eq!(damaged, flipped.load(Ordering::Relaxed) as u64);
    assert!(damaged >= BLOCKS as u64 / 3, "{damaged}");
    assert_eq!(way.connections(), connections, "the connections go on");
    for node in ["n1", "n2"] {
        let disk = std::fs::read(image(node)).unwrap();
        let units: HashSet<&[u8]> = disk.chunks(4096).collect();
        assert!(content.chunks(4096).all(|unit| units.contains(unit)), "{node}");
    }
}

#[test]
fn a_header_that_changes_ends_the_connection_and_the_next_one_serves() {
    let (cluster, way) = cluster(2, 64, 64 << 20);
    let connections = way.connections();
    let mut seen = 0;
    way.tamper(move |header, frame| {
        seen += u64::from(is_data(header));
        if is_data(header) && seen % 16 == 0 && seen <= 48 {
            flip(&mut frame[..HEADER_SIZE], 0, mix(seen));
        }
    });
    let mut client = cluster.client(2);
    for block in 0..64 {
        let at = block * BLOCK;
        assert!(client.read(at as u64, BLOCK).unwrap() == cluster.content[at..at + BLOCK], "block {block}");
    }
    assert!((1..=3).contains(&found(&cluster, 2, 1)));
    assert!(way.connections() > connections);
}

/// The kernel of a node that stands still keeps its connections, whatever it has sent a half of.
#[test]
fn a_block_of_which_a_half_has_come_is_asked_for_again_by_another_connection() {
    let (cluster, way) = cluster(2, 4, 64 << 20);
    let connections = way.connections();
    way.stalls.store(true, Ordering::SeqCst);
    assert!(cluster.client(2).read(0, 4 * BLOCK).unwrap() == cluster.content);
    assert!(!way.stalls.load(Ordering::SeqCst) && way.connections() > connections);
}

#[test]
fn a_write_that_changes_on_its_way_arrives_right_and_once() {
    let (cluster, way) = cluster(2, 16, 64 << 20);
    let mut expected = cluster.content.clone();
    let mut client = cluster.client(2);
    for round in 0..4u8 {
        let mut is_first = true;
        way.tamper(move |header, frame| {
            if is_write(header) && std::mem::take(&mut is_first) {
                flip(frame, HEADER_SIZE, mix(round.into()));
            }
        });
        let (at, data) = (usize::from(round) * 2 * BLOCK + 100, vec![round; BLOCK]);
        let before = cluster.status(1).disks[0].counters.writes;
        client.write_fua(at as u64, &data).unwrap();
        expected[at..at + BLOCK].copy_from_slice(&data);
        assert!(cluster.disk_bytes() == expected, "round {round}");
        let blocks = cluster.status(1).disks[0].counters.writes - before;
        assert_eq!((blocks, found(&cluster, 1, 2)), (2, u64::from(round) + 1), "written once");
    }
    assert!(client.read(0, expected.len()).unwrap() == expected);
}

/// Anywhere, in both directions, while blocks are written and go from cache to cache.
#[test]
fn no_wrong_byte_is_read_whatever_changes() {
    let (cluster, way) = cluster(3, 256, 8 << 20);
    let mut seen = 0;
    way.tamper(move |header, frame| {
        seen += 1;
        if mix(seen).is_multiple_of(100) {
            flip(frame, 0, mix(mix(seen)));
        } else if mix(seen).is_multiple_of(10) && is_data(header) {
            flip(frame, HEADER_SIZE, mix(mix(seen)));
        }
    });
    let mut expected = cluster.content.clone();
    let mut clients = [2, 3].map(|node| cluster.client(node));
    for step in 0..600u64 {
        let at = (mix(step) % 256) as usize * BLOCK;
        let client = &mut clients[(mix(step) >> 32) as usize % 2];
        if step % 8 == 0 {
            let data = vec![step as u8; 5000];
            client.write(at as u64, &data).unwrap();
            expected[at..at + 5000].copy_from_slice(&data);
        }
        assert!(client.read(at as u64, BLOCK).unwrap() == expected[at..at + BLOCK], "step {step}");
    }
    *way.tamper.lock().unwrap() = None;
    assert!(found(&cluster, 2, 1) + found(&cluster, 3, 1) > 0);
    for client in &mut clients {
        client.command(cards_wire::nbd::Command::Flush, 0, 0).unwrap();
        assert!(client.read(0, expected.len()).unwrap() == expected);
    }
    assert!(cluster.disk_bytes() == expected);
}

#[test]
fn a_peer_of_the_version_before_has_no_checksums_and_goes_on() {
    let cluster = Cluster::with(3, 32 * BLOCK, |config| {
        if config.node == "n2" {
            config.versions = Versions::only(OLDEST);
        }
    });
    let mut expected = cluster.content.clone();
    for node in [2, 3, 1] {
        let mut client = cluster.client(node);
        assert!(client.read(0, 32 * BLOCK).unwrap() == expected);
        let data = vec![node as u8; 3 * BLOCK];
        client.write(BLOCK as u64 / 2, &data).unwrap();
        expected[BLOCK / 2..][..data.len()].copy_from_slice(&data);
    }
    for node in [1, 2, 3] {
        assert!(cluster.client(node).read(0, 32 * BLOCK).unwrap() == expected);
        assert!(cluster.status(node).members.iter().all(|member| member.checksum_errors == 0));
    }
}
