//! Strangers at the port where peers come and members ask the registry: a crowd that says nothing, and one that says again
//! what a member has said.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{SEED, image};
use crate::abuse::memory::{forget_peak, peak, resident};
use crate::harness::cluster::Cluster;
use crate::harness::network::{Network, enter, missing_network};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::tools::skip_if;
use crate::harness::wiretap::Wiretap;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

/// What the daemon may have open for them, its own descriptors included.
const DESCRIPTORS: usize = 400;
/// Machines that they come from.
const MACHINES: usize = 100;

#[test]
fn members_come_and_go_while_two_thousand_strangers_hold_the_door() {
    hold_the_door(2_000);
}

#[test]
#[ignore = "takes 20 seconds of both ends' processors"]
fn members_come_and_go_while_ten_thousand_strangers_hold_the_door() {
    hold_the_door(10_000);
}

/// So many connections that go no further than half a handshake, all open at a time.
fn hold_the_door(count: usize) {
    allow_descriptors(count as u64 + 1_000);
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.coordinator = Coordinator::embedded();
    let mut cluster = Cluster::start(plan);
    let (address, pid) = (cluster.plan.nodes[0].address, cluster.export(1, "disk").pid);
    let before = resident(pid);
    forget_peak(pid);

    let (ends, come) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let crowd: Vec<_> = (0..4)
        .map(|part| {
            let (ends, come) = (Arc::clone(&ends), Arc::clone(&come));
            std::thread::spawn(move || {
                let mut held = Vec::new();
                for number in (part..count).step_by(4) {
                    if ends.load(Ordering::SeqCst) {
                        break;
                    }
                    held.extend(stranger(address, number));
                    come.fetch_add(1, Ordering::SeqCst);
                }
                while !ends.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                held.len()
            })
        })
        .collect();
    let mut most = 0;
    let mut rounds = 0;
    // Until all have come, and twice at least.
    while rounds < 2 || come.load(Ordering::SeqCst) < count {
        cluster.node(3).kill();
        cluster.node(3).restart();
        cluster.export(3, "disk").check_all(SEED);
        assert_eq!(cluster.node(2).status()["node"], "n2");
        most = most.max(descriptors(pid));
        rounds += 1;
    }
    ends.store(true, Ordering::SeqCst);
    let held: usize = crowd.into_iter().map(|part| part.join().unwrap()).sum();
    assert!(held > count * 9 / 10, "only {held} connections were made");
    assert!(most <= DESCRIPTORS, "{most} descriptors");
    let grown = peak(pid).saturating_sub(before);
    // The volume fits the cache.
    assert!(grown < super::SIZE + 32 * MIB, "grown by {} MiB", grown / MIB);
    eventually("the crowd is gone", SHORT, || (descriptors(pid) < 200).then_some(()));
}

/// One of the crowd: silent, or with half of a ClientHello.
fn stranger(address: SocketAddr, number: usize) -> io::Result<TcpStream> {
    let from = Ipv4Addr::new(127, 1, (number % MACHINES) as u8, 1);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.connect_timeout(&address.into(), Duration::from_secs(5))?;
    let mut stream = TcpStream::from(socket);
    if number.is_multiple_of(2) {
        let mut half = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
        half.resize(200, 7);
        // It may have been sent away.
        let _ = stream.write_all(&half);
    }
    Ok(stream)
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count()
}

/// Lets this process have so many open.
fn allow_descriptors(count: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit where the pointer says, which lives until then.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_cur.max(count);
    limit.rlim_max = limit.rlim_max.max(count);
    // SAFETY: the kernel reads it from there.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(done, 0, "{count} descriptors: {}", io::Error::last_os_error());
}

/// Who has recorded all that a member said to another says it again: beside the member, and when that is gone.
#[test]
fn what_a_member_has_said_is_worth_nothing_a_second_time() {
    skip_if!(missing_network());
    let dir = scratch();
    let network = Network::new(dir.path(), 1);
    let disk = image(dir.path(), "disk.img");
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&disk));
    plan.namespace = Some(network.pid(1));
    plan.coordinator = Coordinator::embedded();
    let address = plan.nodes[0].address;
    let tap = Wiretap::begin(network.pid(1));
    let mut cluster = Cluster::start(plan);
    let mut writer = cluster.export(2, "disk").open();
    writer.write(0, &content::bytes(0, MIB as usize, 77)).unwrap();
    writer.flush().unwrap();
    let said = said_to(address.port(), &tap.packets());
    // The link, its lanes, and what is asked of the registry.
    let longest = said.iter().map(Vec::len).max().unwrap_or(0);
    assert!(said.len() >= 2 && longest as u64 > MIB, "{} connections, {longest} bytes", said.len());

    // What the recording would do: undone by whoever has written since.
    writer.write(0, &content::bytes(0, MIB as usize, 78)).unwrap();
    writer.flush().unwrap();
    let before = (fs::read(&disk).unwrap(), connections(&cluster));
    say_again(network.pid(1), address, &said);
    cluster.node(1).says(&["refused", "cannot decrypt"]);
    assert_eq!(writer.read(0, MIB as usize).unwrap(), content::bytes(0, MIB as usize, 78));
    assert!(before == (fs::read(&disk).unwrap(), connections(&cluster)), "beside the member");
    drop(writer);

    assert!(cluster.node(2).terminate().success());
    say_again(network.pid(1), address, &said);
    let status = cluster.node(1).status();
    assert!(fs::read(&disk).unwrap() == before.0, "after the member");
    let is_up = |member: &serde_json::Value| member["name"] == "n2" && member["state"] == "up";
    assert!(!status["members"].as_array().unwrap().iter().any(is_up), "{status:#}");
}

/// How often nodes have said that they are connected to one another, or no more.
fn connections(cluster: &Cluster) -> usize {
    let logs =
        ["n1", "n2"].map(|node| fs::read_to_string(cluster.plan.dir.join(format!("{node}.log"))).unwrap());
    logs.iter().flat_map(|log| log.lines()).filter(|line| line.contains("net::link")).count()
}

/// Says all of it, each connection's on a connection. Each is ended, and nothing but a handshake is heard.
fn say_again(namespace: u32, address: SocketAddr, said: &[Vec<u8>]) {
    std::thread::scope(|scope| {
        let again = scope.spawn(|| {
            enter(namespace);
            for bytes in said {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(SHORT)).unwrap();
                let mut says = stream.try_clone().unwrap();
                let mut heard = Vec::new();
                let end = std::thread::scope(|scope| {
                    // The node may hang up before it has heard all.
                    scope.spawn(move || says.write_all(bytes).and_then(|()| says.shutdown(Shutdown::Write)));
                    stream.read_to_end(&mut heard)
                });
                let is_over = end
                    .as_ref()
                    .map_or_else(|error| error.kind() == io::ErrorKind::ConnectionReset, |_| true);
                assert!(is_over, "{end:?}");
                assert!(heard.len() < 16 << 10, "{} bytes heard", heard.len());
            }
        });
        again.join().unwrap();
    });
}

/// What was said to a port, by connection.
fn said_to(port: u16, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    // By the sender's port: its first number, and the bytes by their place behind that.
    let mut flows: BTreeMap<u16, (u32, BTreeMap<u32, &[u8]>)> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.len() >= 40 && packet[0] >> 4 == 4 && packet[9] == 6)
    {
        let tcp = &packet[usize::from(packet[0] & 15) * 4..];
        let [from, to] = [0, 2].map(|at| u16::from_be_bytes([tcp[at], tcp[at + 1]]));
        if to != port {
            continue;
        }
        let number = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let is_first = tcp[13] & 2 != 0;
        if is_first {
            flows.entry(from).or_insert((number.wrapping_add(1), BTreeMap::new()));
        } else if let Some((first, parts)) = flows.get_mut(&from) {
            let bytes = &tcp[usize::from(tcp[12] >> 4) * 4..];
            let part = parts.entry(number.wrapping_sub(*first)).or_default();
            if bytes.len() > part.len() {
                *part = bytes;
            }
        }
    }
    let assemble = |parts: BTreeMap<u32, &[u8]>| {
        let mut bytes = Vec::new();
        for (at, part) in parts {
            let Some(skip) = bytes.len().checked_sub(at as usize) else { break };
            bytes.extend(part.get(skip..).unwrap_or_default());
        }
        bytes
    };
    let said = flows.into_values().map(|(_, parts)| assemble(parts));
    said.filter(|bytes| !bytes.is_empty()).collect()
}
