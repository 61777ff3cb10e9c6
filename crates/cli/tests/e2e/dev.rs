//! The captive cluster: `cards dev --run CMD` gives CMD a cluster and ends with it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::harness::cluster::CARDS;
use crate::harness::dev::{Counters, dev};
use crate::harness::process::{Process, run};
use crate::harness::tools::need;
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

#[test]
fn the_exit_status_is_the_commands() {
    assert_eq!(dev("--nodes 1 --size 16M", "exit 7").status.code(), Some(7));
    assert_eq!(dev("--nodes 1 --size 16M", "exit 0").status.code(), Some(0));
}

/// Two nodes cannot have a volume each for itself: no daemon is started.
#[test]
fn a_volume_for_one_node_is_not_for_several() {
    let refused = dev("--nodes 3 --size 16M --mode exclusive", "touch started").fails();
    assert_eq!(refused.status.code(), Some(2), "{refused}");
    for word in ["--mode exclusive", "3 nodes", "--nodes 1"] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    dev("--nodes 1 --size 16M --cache 16M --mode exclusive", "true").ok();
}

#[test]
fn the_command_gets_uris_and_a_directory() {
    let script = "test \"$uri\" = \"$uri1\" && test -n \"$uri3\" && test -z \"${uri4-}\" && \
                  for n in 1 2 3; do test -S $CARDS_DIR/node$n/admin.sock && test -f $CARDS_DIR/node$n.toml && \
                  test -f $CARDS_DIR/node$n.log && kill -0 $(cat $CARDS_DIR/node$n.pid) || exit 5; done";
    dev("--nodes 3 --size 16M --cache 16M", script).ok();
}

#[test]
fn the_daemons_end_with_the_command() {
    let dir = scratch();
    let pids = dir.path().join("pids");
    let script = format!("cat $CARDS_DIR/node*.pid > {0}; echo $CARDS_DIR >> {0}", pids.display());
    dev("--nodes 3 --size 16M --cache 16M", &script).ok();
    let text = fs::read_to_string(pids).unwrap();
    let (directory, pids): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('/'));
    assert_eq!(pids.len(), 3, "{text}");
    for pid in pids {
        let gone = || (!fs::exists(format!("/proc/{pid}")).unwrap()).then_some(());
        eventually(&format!("the end of daemon {pid}"), SHORT, gone);
    }
    assert!(!fs::exists(directory[0]).unwrap(), "{} was left behind", directory[0]);
}

#[test]
fn a_given_disk_is_served_and_stays() {
    need!("nbdcopy");
    let dir = scratch();
    let (image, out) = (dir.path().join("disk.img"), dir.path().join("out.img"));
    content::image(&image, 16 * MIB, 4);
    let script = format!("nbdcopy $uri2 {}", out.display());
    dev(&format!("--nodes 2 --cache 16M --read-only --disk {}", image.display()), &script).ok();
    let (kept, copied) = (fs::read(&image).unwrap(), fs::read(&out).unwrap());
    content::check(&kept, 0, 4);
    content::check(&copied, 0, 4);
    assert_eq!(copied.len() as u64, 16 * MIB);
}

#[test]
fn a_read_only_volume_refuses_writes() {
    need!("nbdinfo", "qemu-io");
    let script = "nbdinfo --is read-only $uri && ! qemu-io -f raw -c 'write 0 4k' $uri2";
    dev("--nodes 2 --size 16M --cache 16M --read-only", script).ok();
}

#[test]
fn the_counters_add_up() {
    need!("nbdcopy");
    let flags = "--nodes 3 --size 32M --cache 64M --block 64K --read-only --policy hscc";
    let counters = Counters::of(flags, "nbdcopy --no-extents $uri2 null:");
    for number in 1..=3 {
        let of = |name| counters.node(number, name);
        let found = of("local_hits") + of("remote_hits") + of("disk_reads");
        assert_eq!(of("reads"), found, "n{number}: {}", counters.text());
        for name in ["writes", "evictions", "forwarded", "stored_for_others", "served", "messages_sent"] {
            of(name);
        }
    }
    assert!(counters.node(2, "reads") >= 512, "{}", counters.text());
    assert_eq!(counters.disk("reads"), 512, "{}", counters.text());
    assert_eq!(counters.disk("bytes_read"), 32 * MIB, "{}", counters.text());
    assert_eq!(counters.disk("writes"), 0, "{}", counters.text());
}

/// The command kills the node that orders the writes, brings it back, and kills the other one that has a copy.
#[test]
fn a_mirrored_volume_outlives_each_of_its_nodes() {
    need!("nbdcopy");
    let dir = scratch();
    let (image, one, two) =
        (dir.path().join("in.img"), dir.path().join("one.img"), dir.path().join("two.img"));
    content::image(&image, 16 * MIB, 6);
    let script = format!(
        "set -e
        show() {{ {CARDS} volume show disk --socket $CARDS_DIR/node3/admin.sock; }}
        show | grep -q 'raid1:2, 2 of 2 copies in sync' && show | grep -q 'primary      n1'
        nbdcopy {image} $uri3
        kill -9 $pid1
        nbdcopy $uri2 {one}
        nbdcopy {image} $uri3
        {CARDS} serve --config $CARDS_DIR/node1.toml >>$CARDS_DIR/node1.log 2>&1 &
        until show | grep -q '2 of 2 copies in sync'; do sleep 0.1; done
        kill -9 $pid2
        nbdcopy $uri3 {two}
        show | grep -q 'primary      n1'",
        image = image.display(),
        one = one.display(),
        two = two.display()
    );
    let counters = Counters::of("--nodes 3 --layout raid1 --size 16M --cache 8M", &script);
    for path in [one, two] {
        content::check(&fs::read(path).unwrap(), 0, 6);
    }
    assert!(counters.node(3, "writes") > 0, "{}", counters.text());
}

#[test]
fn a_volume_over_all_disks_outlives_any_of_its_nodes() {
    need!("nbdcopy");
    let dir = scratch();
    let (image, out) = (dir.path().join("in.img"), dir.path().join("out.img"));
    content::image(&image, 16 * MIB, 6);
    let script = format!(
        "set -e
        {CARDS} volume show disk --socket $CARDS_DIR/node3/admin.sock | grep -q 'raid10:2, 6 of 6 parts have all copies in sync'
        nbdcopy {} $uri3
        kill -9 $pid1
        nbdcopy $uri2 {}",
        image.display(),
        out.display()
    );
    dev("--nodes 3 --layout raid10 --size 16M --cache 8M", &script).ok();
    content::check(&fs::read(out).unwrap(), 0, 6);
}

/// Leases of cards are so long that the command would not end if the first write waited for them.
#[test]
fn a_new_mirrored_volume_is_written_at_once() {
    need!("nbdcopy");
    let dir = scratch();
    let image = dir.path().join("in.img");
    content::image(&image, 16 * MIB, 6);
    let script = format!("nbdcopy {} $uri3", image.display());
    dev("--nodes 3 --layout raid1 --size 16M --cache 8M --lease 120s --disk-wait 300s", &script).ok();
}

#[test]
fn a_mirrored_volume_that_cannot_be_is_refused_with_the_remedy() {
    for (flags, remedy) in [
        ("--nodes 2 --layout raid1:3", "add --nodes 3, or use raid1:2"),
        ("--nodes 1 --layout raid1", "add --nodes 2, or leave --layout out"),
        ("--layout raid1 --read-only", "--read-only: only a plain disk has that"),
        ("--layout raid1 --size 5000", "use a multiple of 4K"),
        ("--layout raid1 --block 96K", "use a power of two from 4K to 1M"),
        ("--layout raid5", "use raid1:N or raid10:N for N copies"),
        ("--nodes 1 --layout raid10", "add --nodes 2, or leave --layout out"),
        ("--layout raid1 --disk disk.img", "cannot be used with"),
    ] {
        let refused = dev(flags, "touch started").fails();
        assert_eq!(refused.status.code(), Some(2), "{flags}: {refused}");
        assert!(refused.stderr.contains(remedy), "{flags}: {refused}");
    }
}

#[test]
fn one_node_has_a_volume_of_several_parts_for_itself() {
    need!("nbdinfo");
    let script = "test $(nbdinfo --size $uri1) = 16777216";
    dev("--nodes 1 --layout raid0 --mode exclusive --size 16M --cache 8M", script).ok();
}

#[test]
fn tcp_gives_uris_for_other_machines() {
    need!("nbdinfo");
    let script = "case $tcp2 in nbd://*) test $(nbdinfo --size $tcp2) = 16777216;; *) exit 5;; esac";
    dev("--nodes 2 --size 16M --cache 16M --tcp", script).ok();
}

/// Starts a captive cluster on an image with data in one place and reads it all at node 2; the counters. The policy is one whose disk node
/// keeps what it has read, so that a repeated request reads nothing again.
fn read_at_node_2(flags: &str, seed: u64) -> Counters {
    let dir = scratch();
    let (image, out) = (dir.path().join("disk.img"), dir.path().join("out.img"));
    content::image(&image, 16 * MIB, seed);
    let flags = format!("--nodes 2 --cache 32M --policy hscc --read-only --disk {} {flags}", image.display());
    let counters =
        Counters::of(&flags, &format!("nbdcopy --no-extents --connections=1 $uri2 {}", out.display()));
    content::check(&fs::read(&out).unwrap(), 0, seed);
    counters
}

#[test]
fn every_delivery_gives_the_same_bytes() {
    need!("nbdcopy");
    for (seed, delivery) in (10..).zip(["event", "thread", "sync"]) {
        let counters = read_at_node_2(&format!("--delivery {delivery}"), seed);
        assert_eq!(counters.disk("reads"), 256, "{delivery}: {}", counters.text());
        assert_eq!(counters.node(1, "served_from_disk"), 256, "{delivery}: {}", counters.text());
    }
}

#[test]
fn a_network_attached_disk_is_read_once_by_each_reader_of_rd() {
    need!("nbdcopy");
    // Nobody keeps copies for others, so the second reader goes to the disk again.
    for (attached, reads) in [("computer", 256), ("network", 512)] {
        let flags = format!(
            "--nodes 3 --cache 32M --size 16M --read-only --policy rd --read-ahead off --attached {attached}"
        );
        let copy = "nbdcopy --no-extents --connections=1 --requests=4";
        let counters = Counters::of(&flags, &format!("{copy} $uri2 null: && {copy} $uri3 null:"));
        assert_eq!(counters.disk("reads"), reads, "{attached}: {}", counters.text());
    }
}

#[test]
fn a_slow_disk_is_as_slow_as_told() {
    need!("nbdcopy");
    let start = Instant::now();
    let counters = read_at_node_2("--disk-rate 8M", 20);
    let took = start.elapsed();
    assert_eq!(counters.disk("bytes_read"), 16 * MIB, "{}", counters.text());
    assert!(took >= Duration::from_millis(1800), "16 MiB at 8 MiB/s in {took:?}");
}

#[test]
fn writes_to_the_disk_are_counted_in_blocks() {
    need!("qemu-io");
    let counters = Counters::of("--nodes 2 --size 16M --cache 16M", "qemu-io -f raw -c 'write 0 3M' $uri2");
    assert_eq!(counters.disk("writes"), 48, "{}", counters.text());
    assert_eq!(counters.disk("bytes_written"), 3 * MIB, "{}", counters.text());
    assert_eq!(counters.node(2, "writes"), 48, "{}", counters.text());
    for name in ["bytes_copied", "messages_dropped"] {
        counters.node(2, name);
    }
}

#[test]
fn holes_are_holes_at_every_node() {
    need!("nbdinfo");
    let dir = scratch();
    let image = dir.path().join("disk.img");
    let file = fs::File::create(&image).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(&[7; MIB as usize], 4 * MIB).unwrap();
    let map = |node| {
        let flags = format!("--nodes 2 --cache 16M --disk {} --json", image.display());
        let done = dev(&flags, &format!("nbdinfo --map $uri{node}")).ok();
        let extent = |line: &str| -> Option<Vec<u64>> {
            line.split_whitespace().take(3).map(|word| word.parse().ok()).collect()
        };
        done.stderr.lines().filter_map(extent).collect::<Vec<_>>()
    };
    let expected = [[0, 4 * MIB, 3], [4 * MIB, MIB, 0], [5 * MIB, 11 * MIB, 3]];
    assert_eq!(map(1), expected);
    assert_eq!(map(2), expected, "the disk node says it to the others");
}

#[test]
fn nothing_is_left_behind_when_the_command_fails() {
    let done = dev("--nodes 2 --size 16M --cache 16M", "echo $CARDS_DIR; exit 3");
    assert_eq!(done.status.code(), Some(3), "{done}");
    let dir = done.stdout.lines().next().unwrap();
    assert!(dir.starts_with('/') && !fs::exists(dir).unwrap(), "{dir} was left behind");
}

#[test]
fn nothing_is_left_behind_after_a_signal() {
    for (signal, script) in [
        (libc::SIGTERM, Some("echo $CARDS_DIR; exec sleep 60")),
        (libc::SIGTERM, None),
        (libc::SIGINT, None),
        (libc::SIGHUP, None),
    ] {
        let dir = scratch();
        let mut argv: Vec<String> =
            [CARDS, "dev", "--nodes", "2", "--size", "16M", "--cache", "16M"].map(String::from).into();
        argv.extend(script.into_iter().flat_map(|script| ["--run".into(), script.into()]));
        let mut process = Process::spawn(&argv, &dir.path().join("dev.log"));
        let directory = eventually("the cluster's directory is named", SHORT, || {
            let log = process.log();
            let at = log.find("/tmp/cards-").or_else(|| log.find("/cards-"))?;
            let rest = &log[at..];
            // A whole line, or the sentence that goes on.
            rest.contains('\n').then(|| {
                rest.split([' ', '.', '\n', '/']).nth(2).map(|name| std::env::temp_dir().join(name)).unwrap()
            })
        });
        assert!(directory.exists(), "{}: {}", directory.display(), process.log());
        process.signal(signal);
        let status = process.wait(SHORT);
        let code = if script.is_some() { 128 + signal } else { 0 };
        assert_eq!(status.code(), Some(code), "signal {signal}: {}", process.log());
        assert!(!directory.exists(), "signal {signal}: {} was left behind", directory.display());
    }
}

#[test]
fn the_demonstration_runs_to_its_table() {
    let dir = scratch();
    let place = dir.path().display().to_string();
    for _ in 0..2 {
        let done = run(
            &[
                CARDS,
                "demo",
                "--act",
                "1",
                "--once",
                "--size",
                "32M",
                "--disk-delay",
                "0ms",
                "--disk-rate",
                "0",
                "--dir",
                &place,
            ],
            LONG,
        )
        .ok();
        for part in
            ["n2 reads it all, cold", "n3 reads it after n2", "512", "Every byte was compared", &place]
        {
            assert!(done.stdout.contains(part), "no {part:?}: {done}");
        }
    }
    let images = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(images, 1, "the image is made once");
}

#[test]
fn the_second_act_kills_a_node_without_an_error() {
    let done = run(&[CARDS, "demo", "--act", "2", "--once"], LONG).ok();
    let row = |name: &str| -> Vec<String> {
        let line = done.stdout.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name:?}: {done}"));
        line.split("is killed")
            .nth(1)
            .unwrap()
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(String::from)
            .collect()
    };
    for name in ["n2 reads", "n2 writes"] {
        let [blocks, errors, pause] = &row(name)[..] else { panic!("{done}") };
        assert!(blocks.replace(' ', "").parse::<u64>().unwrap() > 0, "{done}");
        assert_eq!(errors, "0", "{done}");
        assert!(pause.ends_with(" s"), "{done}");
    }
    for part in ["was killed with -9", "and in the end each of the 512 once more, at n1", "were copied"] {
        assert!(done.stdout.contains(part), "no {part:?}: {done}");
    }
}

/// What is counted is the same on a busy machine. A ratio of times is printed only where the disk made the difference.
#[test]
fn the_demonstration_of_a_busy_machine_says_what_it_counts_and_why_times_say_nothing() {
    let dir = scratch();
    let place = dir.path().display().to_string();
    let busy = ["1", "2"].map(|name| {
        Process::spawn(&["sh", "-c", "exec yes >/dev/null"].map(String::from), &dir.path().join(name))
    });
    let done = run(&[CARDS, "demo", "--act", "1", "--once", "--size", "32M", "--dir", &place], LONG).ok();
    drop(busy);
    // Some are in its own memory before it has read anything: it is their home.
    for counted in
        ["Of the 512 blocks that node 3 read, ", " came out of the memory of other nodes, 0 from the disk."]
    {
        assert!(done.stdout.contains(counted), "{done}");
    }
    match done
        .stdout
        .split(" times as fast as node 2")
        .next()
        .and_then(|text| text.rsplit(' ').next()?.parse::<f64>().ok())
    {
        Some(ratio) => assert!(ratio >= 2.0, "{done}"),
        None => {
            assert!(done.stdout.contains("The times do not compare the disk with the caches: "), "{done}")
        }
    }
}

#[test]
fn a_failing_cluster_is_no_success() {
    let done = dev("--nodes 2 --cache 16M --disk /nonexistent/disk.img", "exit 0").fails();
    assert!(done.stderr.contains("/nonexistent/disk.img"), "{done}");
    let done = dev("--nodes 2 --size 16M --policy lucky", "exit 0").fails();
    assert!(done.stderr.contains("lucky") && done.stderr.contains("hscc"), "{done}");
}
