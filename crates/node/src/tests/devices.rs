//! Local devices, spoken for by the test: whose pages a write waits for, and for how long.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cards_admin::{Claim, Device, Notice, Refusal, RefusalKind, Reply, Request, Watching, Word};
use cards_config::{Attach, Mode, device_dirs};

use super::cluster::{BLOCK, Cluster};

/// A device that keeps pages of the disk, and does nothing by itself.
struct Keeper {
    reader: BufReader<UnixStream>,
    watching: Watching,
}

impl Keeper {
    fn ask(cluster: &Cluster, node: usize) -> Result<Self, String> {
        Self::claim(cluster, node, None).map_err(|refusal| refusal.message)
    }

    fn claim(cluster: &Cluster, node: usize, claim: Option<Claim>) -> Result<Self, Refusal> {
        let mut stream = UnixStream::connect(cluster.config(node).admin_socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&cards_admin::to_line(&Request::Watch { volume: "disk".into(), claim })).unwrap();
        let mut reader = BufReader::new(stream);
        match next(&mut reader) {
            Reply::Watching(watching) => Ok(Self { reader, watching }),
            Reply::Error(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn new(cluster: &Cluster, node: usize) -> Self {
        let mut keeper = Self::ask(cluster, node).unwrap();
        keeper.say(&Word::Keeps { pages: true });
        keeper.until(|notice| *notice == Notice::Keeping { pages: true });
        keeper
    }

    fn say(&mut self, word: &Word) {
        self.reader.get_mut().write_all(&cards_admin::to_line(word)).unwrap();
    }

    /// The first notice that is so.
    fn until(&mut self, wanted: impl Fn(&Notice) -> bool) -> Notice {
        // Leases are told of several times a second.
        for _ in 0..200 {
            let notice = next(&mut self.reader);
            if wanted(&notice) {
                return notice;
            }
        }
        panic!("it was told of leases only");
    }

    fn withdrawal(&mut self) -> (u64, Vec<(u64, u64)>) {
        match self.until(|notice| matches!(notice, Notice::Withdraw { .. })) {
            Notice::Withdraw { id, ranges } => (id, ranges),
            _ => unreachable!("it was looked for"),
        }
    }
}

fn next<T: serde::de::DeserializeOwned>(reader: &mut BufReader<UnixStream>) -> T {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// GAP-7, at the disk node and elsewhere, with writers at the same node and elsewhere.
#[test]
fn a_write_waits_until_pages_are_gone() {
    // A device that is slow for as long as a lease is given up; this one is, on a slow machine, and shall not be.
    let cluster = Cluster::with(3, 64 * BLOCK, |config| {
        config.lease = Duration::from_secs(30);
        config.disk_wait = config.lease * 2;
    });
    for (keeps, writes) in [(2, 1), (2, 3), (2, 2), (1, 3), (1, 1), (2, 1)] {
        let mut keeper = Keeper::new(&cluster, keeps);
        // A card that has given its lock up there has no pages there and is not asked.
        cluster.client(keeps).read(5 * BLOCK as u64, BLOCK).unwrap();
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cluster.client(writes).write(5 * BLOCK as u64 + 7, b"new").unwrap();
                written.store(true, Ordering::SeqCst);
            });
            let (id, ranges) = keeper.withdrawal();
            let block = 5 * BLOCK as u64;
            assert!(ranges.iter().any(|&(at, size)| at <= block && block < at + size), "{ranges:?}");
            std::thread::sleep(Duration::from_millis(50));
            assert!(!written.load(Ordering::SeqCst), "pages at {keeps}, written at {writes}");
            keeper.say(&Word::Withdrawn { id });
        });
    }
    cluster.wait("nothing to wait for", || cluster.client(3).write(0, b"x").is_ok());
}

#[test]
fn a_device_hears_how_long_pages_are_good() {
    let cluster = Cluster::start(2, 64 * BLOCK);
    let mut keeper = Keeper::new(&cluster, 2);
    assert_eq!(keeper.watching.size, 64 * BLOCK as u64);
    assert_eq!(
        (keeper.watching.block, keeper.watching.read_only, keeper.watching.coherent),
        (BLOCK as u32, false, true)
    );
    assert_eq!(keeper.watching.nbd, Some(cluster.socket(2)));
    for _ in 0..3 {
        let valid = keeper.until(|notice| matches!(notice, Notice::Valid { .. }));
        assert!(matches!(valid, Notice::Valid { for_ms: Some(1..=500) }), "{valid:?}");
    }
    let mut at_disk = Keeper::ask(&cluster, 1).unwrap();
    let valid = at_disk.until(|notice| matches!(notice, Notice::Valid { .. }));
    assert_eq!(valid, Notice::Valid { for_ms: None });
}

#[test]
fn a_volume_is_one_device_at_a_node() {
    let cluster = Cluster::start(2, 64 * BLOCK);
    let mut keeper = Keeper::ask(&cluster, 2).unwrap();
    // What a later release may say.
    keeper.reader.get_mut().write_all(b"{\"to_come\":{}}\n").unwrap();
    let device =
        Device { kind: "fuse".into(), path: "/run/cards/dev/disk".into(), major: 0, minor: 52, pid: 4711 };
    keeper.say(&Word::Here(device.clone()));
    cluster.wait("the status shows it", || {
        let card = cluster.status(2).volumes[0].attached.clone().unwrap();
        card.device == Some(device.clone())
    });
    let refused = Keeper::ask(&cluster, 2).err().unwrap();
    assert!(refused.contains("/run/cards/dev/disk (process 4711)"), "{refused}");
    Keeper::ask(&cluster, 1).unwrap();
    drop(keeper);
    cluster.wait("its place is free again", || Keeper::ask(&cluster, 2).is_ok());
}

/// It has died, or says nothing for a lease: nobody waits for it for ever.
#[test]
fn a_device_that_dies_or_hangs_is_given_up() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    for hangs in [false, true] {
        let mut keeper = Keeper::new(&cluster, 2);
        cluster.client(2).read(0, 512).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| cluster.client(3).write(0, b"new").unwrap());
            keeper.withdrawal();
            if hangs {
                let mut rest = String::new();
                while keeper.reader.read_line(&mut rest).unwrap() > 0 {}
            } else {
                drop(keeper);
            }
            writer.join().unwrap();
        });
        assert_eq!(cluster.client(2).read(0, 3).unwrap(), b"new");
    }
}

/// A device that does not keep pages costs nobody anything.
#[test]
fn without_pages_nobody_waits() {
    let cluster = Cluster::start(2, 64 * BLOCK);
    let mut keeper = Keeper::new(&cluster, 2);
    keeper.say(&Word::Keeps { pages: false });
    keeper.until(|notice| *notice == Notice::Keeping { pages: false });
    cluster.client(1).write(0, b"new").unwrap();
    assert_eq!(cluster.counters(2).withdrawals, 0);
}

#[test]
fn what_is_no_word_ends_the_connection() {
    let cluster = Cluster::start(1, 64 * BLOCK);
    let mut keeper = Keeper::new(&cluster, 1);
    keeper.reader.get_mut().write_all(b"{\"withdrawn\":{}}\n").unwrap();
    let mut rest = String::new();
    while keeper.reader.read_line(&mut rest).unwrap() > 0 {}
    cluster.client(1).write(0, b"new").unwrap();
}

#[test]
fn what_is_not_attached_has_no_device() {
    let cluster = Cluster::with(1, 64 * BLOCK, |config| config.attach.clear());
    let refused = Keeper::ask(&cluster, 1).err().unwrap();
    assert!(refused.contains("not attached here; run `cards attach disk`"), "{refused}");
}

/// A device outlives daemons: that of its own node, that of the disk, and both.
#[test]
fn a_device_that_had_the_volume_for_itself_goes_on_if_nobody_else_could_write() {
    let mut cluster = Cluster::with(3, 64 * BLOCK, |config| {
        if config.node != "n1" {
            config.attach.clear();
        }
    });
    cluster.admin(1).detach("disk").unwrap();
    let attach = |claim| Attach { mode: Mode::Exclusive, claim, ..Attach::new("disk") };
    cluster.admin(2).attach(attach(None)).unwrap();
    let device = Keeper::ask(&cluster, 2).unwrap();
    let refused = cluster.admin(2).detach("disk").unwrap_err().to_string();
    assert!(refused.contains("becomes a device here just now"), "{refused}");
    let first = device.watching.claim.expect("it is alone");
    let mut last = first;
    for nodes in [&[2][..], &[1], &[1, 2]] {
        for &node in nodes {
            cluster.kill(node);
        }
        for &node in nodes {
            cluster.change(node, |config| config.attach.clear());
            cluster.restart(node);
        }
        // As the device does; the disk's node may not have been heard of yet.
        cluster.wait("the device is served again", || {
            let _ = cluster.admin(2).attach(attach(Some(last)));
            match Keeper::claim(&cluster, 2, Some(last)) {
                Ok(device) => last = device.watching.claim.expect("it is alone"),
                Err(refusal) => {
                    assert_ne!(refusal.kind, RefusalKind::Overtaken, "{nodes:?}: {}", refusal.message);
                    return false;
                }
            }
            Keeper::claim(&cluster, 2, Some(first)).is_ok()
        });
    }
    // Now another node has it while the daemon is away.
    cluster.kill(2);
    cluster.wait("its lease is over", || cluster.admin(3).attach(attach(None)).is_ok());
    cluster.admin(3).detach("disk").unwrap();
    cluster.restart(2);
    let overtaken = |refusal: Refusal| {
        let Refusal { kind, message } = refusal;
        assert!(kind == RefusalKind::Overtaken && message.contains("attach it anew"), "{kind:?}: {message}");
    };
    cluster.wait("the primary is heard of", || {
        let refused = cluster.admin(2).attach(attach(Some(last))).unwrap_err().to_string();
        refused.contains("taken over by node n3")
    });
    overtaken(Keeper::claim(&cluster, 2, Some(last)).err().unwrap());
    let problems = cluster.status(2).problems;
    assert!(problems.iter().any(|problem| problem.contains("taken over by node n3")), "{problems:?}");
    // Whoever attaches it anew does not help the device that was there before.
    cluster.admin(2).detach("disk").unwrap();
    cluster.admin(2).attach(attach(None)).unwrap();
    overtaken(Keeper::claim(&cluster, 2, Some(last)).err().unwrap());
    assert!(Keeper::ask(&cluster, 2).unwrap().watching.claim.is_some_and(|anew| anew.card > last.card));
}

/// `[[attach]]` would have a card beside which others write.
#[test]
fn what_a_living_device_has_for_itself_is_attached_so_at_the_start() {
    let mut cluster = Cluster::with(2, 64 * BLOCK, |config| {
        if config.node == "n1" {
            config.attach.clear();
        } else {
            config.attach[0].mode = Mode::Exclusive;
        }
    });
    let claim = Keeper::ask(&cluster, 2).unwrap().watching.claim.unwrap();
    cluster.kill(2);
    cluster.change(2, |config| config.attach[0].mode = Mode::Rw);
    let [dir, _] = device_dirs(&cluster.config(2).runtime_dir);
    std::fs::create_dir_all(&dir).unwrap();
    let (pid, description) = (std::process::id(), dir.join("disk.json"));
    let claimed = serde_json::to_string(&claim).unwrap();
    std::fs::write(&description, format!(r#"{{"volume":"disk","pid":{pid},"claim":{claimed}}}"#)).unwrap();
    cluster.restart(2);
    cluster.wait_ready(2);
    cluster.admin(1).attach(Attach::new("disk")).unwrap_err();
    let claim = Keeper::claim(&cluster, 2, Some(claim)).ok().unwrap().watching.claim.unwrap();
    // Without a device it is as configured, and a device that nobody has heard of is not served beside others.
    cluster.kill(2);
    std::fs::remove_file(&description).unwrap();
    cluster.restart(2);
    cluster.wait_ready(2);
    let refused = Keeper::claim(&cluster, 2, Some(claim)).err().unwrap();
    assert_eq!(refused.kind, RefusalKind::Overtaken);
    assert!(refused.message.contains("was attached here as rw"), "{}", refused.message);
    cluster.admin(1).attach(Attach::new("disk")).unwrap();
}
