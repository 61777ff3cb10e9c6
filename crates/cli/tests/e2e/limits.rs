//! Limits, with clients that take what they can get: no more than the rate, nobody else waits, and nothing is left of them. And
//! turns at a disk, which nodes take without any limit.

use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::client::CMD_READ;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, Process, run, sh};
use crate::harness::tools::need;
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 11;
const SIZE: u64 = 32 * MIB;
/// The limit of volume `slow`, in bytes per second, with a burst of a second.
const RATE: u64 = 8 * MIB;

/// One node with volumes `disk`, without a limit, and `slow`, with one.
fn one_node(dir: &Path) -> Cluster {
    let mut plan = Plan::new(dir, 1).cache("128M");
    for name in ["disk", "slow"] {
        let image = dir.join(format!("{name}.img"));
        content::image(&image, SIZE, SEED);
        plan = plan.disk(Disk { name: name.into(), ..Disk::file(&image) });
    }
    // It is attached with a limit.
    plan.nodes[0].attach.retain(|attach| attach.volume != "slow");
    let limit = format!("limit = {{ bytes = {RATE} }}");
    plan.nodes[0].tables = format!("[[attach]]\nvolume = \"slow\"\nread_ahead = \"off\"\n{limit}\n");
    let mut cluster = Cluster::start(plan);
    let export = cluster.export(1, "slow");
    eventually("volume slow is served", SHORT, || export.read(0, 512).ok());
    // A request is counted a moment after its answer.
    eventually("that is counted", SHORT, || (served(&mut cluster, "slow").0 > 0).then_some(()));
    cluster
}

/// Runs a `cards volume` of the node.
fn volume(cluster: &mut Cluster, verb: &[&str]) -> Finished {
    let socket = cluster.node(1).admin_socket();
    run(&[&[CARDS, "volume"], verb, &["--socket", &socket]].concat(), SHORT)
}

fn of(cluster: &mut Cluster, volume: &str) -> Value {
    let status = cluster.node(1).status();
    let volumes = status["volumes"].as_array().expect("volumes");
    volumes.iter().find(|known| known["name"] == volume).expect("a volume").clone()
}

/// Bytes that clients have read of a volume, and how many requests a limit has had wait.
fn served(cluster: &mut Cluster, volume: &str) -> (u64, u64) {
    let io = &of(cluster, volume)["io"];
    let ops = io["ops"].as_array().expect("kinds of requests");
    let bytes = ops.iter().filter(|op| op["op"] == "read").filter_map(|op| op["bytes"].as_u64()).sum();
    (bytes, io["throttled"].as_u64().expect("a count"))
}

#[test]
fn a_limited_card_has_its_rate_and_the_other_does_not_wait() {
    need!("nbdcopy", "fio");
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    let (slow, free) = (cluster.export(1, "slow").uri(), cluster.export(1, "disk").uri());
    let (before, _) = served(&mut cluster, "slow");
    let began = Instant::now();
    let copying = thread::spawn(move || {
        sh(&format!("nbdcopy --no-extents --connections=2 '{slow}' null:"), LONG).ok();
        began.elapsed().as_secs_f64()
    });
    let taking = thread::spawn(move || {
        let fio = "fio --name=free --ioengine=nbd --rw=randread --bs=4k --iodepth=32 --size=16M --loops=2";
        sh(&format!("{fio} --uri='{free}'"), LONG).ok();
    });
    while !copying.is_finished() {
        let (bytes, _) = served(&mut cluster, "slow");
        let most = RATE as f64 * (began.elapsed().as_secs_f64() + 1.0);
        assert!((bytes - before) as f64 <= most, "{} bytes of {most} that the limit allows", bytes - before);
        thread::sleep(Duration::from_millis(50));
    }
    let (elapsed, ()) = (copying.join().expect("a copy"), taking.join().expect("reads"));
    let (bytes, throttled) = served(&mut cluster, "slow");
    assert_eq!(bytes - before, SIZE);
    let least = (SIZE - RATE) as f64 / RATE as f64;
    println!("{SIZE} bytes in {elapsed:.3} s, {:.1} % more than the least", 100.0 * (elapsed / least - 1.0));
    assert!(elapsed >= least, "{elapsed} s, and {least} s is the least");
    assert!(throttled > 0);
    let (bytes, throttled) = served(&mut cluster, "disk");
    assert!(bytes >= 32 * MIB && throttled == 0, "{throttled} requests of the other volume have waited");
}

#[test]
fn a_limit_changes_while_clients_are_served() {
    need!("nbdcopy");
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    // A copy at this would take eight minutes.
    let said =
        volume(&mut cluster, &["limit", "slow", "--bytes", "64K", "--iops", "100", "--burst", "50ms"]).ok();
    let words = "limited to 100 requests/s, 64 KiB/s, burst 50ms";
    assert!(said.stdout.contains(words), "{said}");
    let shown = volume(&mut cluster, &["show", "slow"]).ok();
    assert!(shown.stdout.contains("100 requests/s, 64 KiB/s, burst 50ms"), "{shown}");
    let uri = cluster.export(1, "slow").uri();
    let copying = thread::spawn(move || sh(&format!("nbdcopy --no-extents '{uri}' null:"), LONG).ok());
    let before = served(&mut cluster, "slow").0;
    eventually("it has begun", SHORT, || (served(&mut cluster, "slow").0 > before).then_some(()));
    assert!(!copying.is_finished());
    let said = volume(&mut cluster, &["limit", "slow", "--clear", "--json"]).ok();
    assert_eq!(serde_json::from_str::<Value>(&said.stdout).expect("JSON")["limit"], Value::Null, "{said}");
    copying.join().expect("a copy");
    // The node's, for all its volumes.
    volume(&mut cluster, &["limit", "--node", "--iops", "1000000"]).ok();
    assert_eq!(cluster.node(1).status()["limit"]["iops"], 1_000_000);
    cluster.export(1, "disk").check_all(SEED);
    volume(&mut cluster, &["limit", "--node", "--clear"]).ok();
    assert_eq!(cluster.node(1).status()["limit"], Value::Null);
}

#[test]
fn a_daemon_that_ends_answers_requests_that_wait() {
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    volume(&mut cluster, &["limit", "slow", "--bytes", "64K", "--burst", "10ms"]).ok();
    let mut client = cluster.export(1, "slow").open();
    for i in 0..12 {
        client.send(CMD_READ, i * MIB, MIB as u32, &[]).expect("a request");
    }
    let take = |client: &mut crate::harness::client::Client, i: u64| {
        let mut data = vec![0; MIB as usize];
        assert_eq!(client.reply().expect("an answer"), (0, i + 1));
        client.socket.read_exact(&mut data).expect("data");
        content::check(&data, i * MIB, SEED);
    };
    // The others are due in 16 s and later.
    take(&mut client, 0);
    let rest = thread::spawn(move || (1..12).for_each(|i| take(&mut client, i)));
    assert!(cluster.node(1).terminate().success());
    rest.join().expect("all answers");
}

#[test]
fn a_client_that_is_killed_leaves_nothing() {
    need!("nbdcopy");
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    volume(&mut cluster, &["limit", "slow", "--bytes", "64K", "--burst", "10ms"]).ok();
    let uri = cluster.export(1, "slow").uri();
    let before = served(&mut cluster, "slow").0;
    let argv = ["nbdcopy", "--no-extents", "--connections=4", &uri, "null:"].map(String::from);
    let mut copying = Process::spawn(&argv, &dir.path().join("nbdcopy.log"));
    copying.until("it is served", || (served(&mut cluster, "slow").0 > before).then_some(()));
    let clients = |cluster: &mut Cluster| of(cluster, "slow")["attached"]["clients"].as_u64();
    assert!(clients(&mut cluster) > Some(0));
    copying.kill();
    eventually("its places are free", SHORT, || (clients(&mut cluster) == Some(0)).then_some(()));
    volume(&mut cluster, &["detach", "slow"]).ok();
}

#[test]
fn limits_that_cannot_work_are_refused_by_name() {
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    for (arguments, words) in [
        (&["slow", "--iops", "0"][..], &["--iops", "'0'", "1 to 10000000"][..]),
        (&["slow", "--bytes", "1K"], &["limit.bytes", "\"1K\"", "64K to 64G"]),
        (&["slow", "--iops", "5", "--burst", "1ms"], &["limit.burst", "\"1ms\"", "10ms to 1h"]),
        (&["slow", "--bytes", "much"], &["--bytes", "\"much\"", "64K is 65536"]),
        (&["slow", "--iops", "5", "--clear"], &["--iops", "--clear"]),
        (&["slow"], &["--iops", "--bytes", "--clear"]),
        (&["slow", "--node", "--clear"], &["--node", "VOLUME"]),
        (&["--clear"], &["VOLUME"]),
        (&["slov", "--clear"], &["\"slov\""]),
    ] {
        let refused = volume(&mut cluster, &[&["limit"], arguments].concat()).fails();
        for word in words {
            assert!(refused.stderr.contains(word), "{word:?} is not in: {refused}");
        }
    }
    assert_eq!(of(&mut cluster, "slow")["attached"]["limit"]["bytes"], "8M", "it has what it had");
}

/// A client at node 2 asks a slow disk for hundreds of blocks at once. One at node 1 reads a few, each without waiting for those.
#[test]
fn nodes_take_turns_at_a_disk() {
    const FLOOD: u64 = 256;
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, SEED);
    let mut disk = Disk::file(&image);
    // A block takes ten milliseconds, one after the other.
    disk.origin += "\nrate = \"6400K\"\ndepth = 4";
    let mut plan = Plan::new(dir.path(), 2).disk(disk);
    plan.read_ahead = "off";
    let mut cluster = Cluster::start(plan);
    let (mut flood, mut single) = (cluster.export(2, "disk").open(), cluster.export(1, "disk").open());
    let block = 64 * KIB;
    let read = |cluster: &mut Cluster| {
        cluster.node(1).status()["disks"][0]["reads"].as_u64().expect("blocks that the disk has read")
    };
    let before = read(&mut cluster);
    for i in 1..=FLOOD {
        flood.send(CMD_READ, i * block, block as u32, &[]).expect("a request");
    }
    eventually("the flood has begun", SHORT, || (read(&mut cluster) > before).then_some(()));
    for i in 1..=2 {
        let before = read(&mut cluster);
        let offset = (FLOOD + i) * block;
        content::check(&single.read(offset, block as usize).expect("a read"), offset, SEED);
        let meanwhile = read(&mut cluster) - before;
        println!("read {i}: {meanwhile} of {FLOOD} blocks meanwhile");
        // The looks themselves take time.
        assert!(
            meanwhile < FLOOD / 2,
            "{meanwhile} of {FLOOD} blocks were read before read {i} was answered"
        );
    }
}
