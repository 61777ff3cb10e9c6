//! A disk node that stands still is suspected, then called down, and its ages are true.

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

fn headline(cluster: &mut Cluster, node: usize) -> String {
    let socket = cluster.node(node).admin_socket();
    let done = run(&[CARDS, "status", "--socket", &socket], SHORT).ok();
    done.stdout.lines().next().unwrap_or_default().to_owned()
}

/// State and silence of node 1, as node 2 sees it.
fn seen(cluster: &mut Cluster) -> (String, Option<u64>, Value) {
    let status = cluster.node(2).status();
    let member = &status["members"][0];
    (member["state"].as_str().unwrap_or_default().into(), member["silent_ms"].as_u64(), status)
}

#[test]
fn a_disk_node_that_stands_still_is_suspected_before_it_is_down_and_ages_are_true() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, 1);
    // Long enough between the suspicion and the certainty for a busy machine to see both.
    // Of two nodes the first keeps the registry alone, so that it is not declared dead meanwhile.
    let plan = Plan { lease: "6s", disk_wait: "60s", ..Plan::new(dir.path(), 2).disk(Disk::file(&image)) };
    let mut cluster = Cluster::start(plan);
    eventually("all is well", SHORT, || {
        headline(&mut cluster, 2).contains("all is well (2 of 2").then_some(())
    });
    let paused = std::time::Instant::now();
    cluster.node(1).pause();
    let silent = eventually("it is suspected", SHORT, || {
        let (state, silent, _) = seen(&mut cluster);
        assert_eq!(state, "up", "certain before it was suspected");
        silent
    });
    assert!((2_400..6_000).contains(&silent), "{silent} ms");
    eventually("it is certain", SHORT, || (seen(&mut cluster).0 == "down").then_some(()));
    let line = headline(&mut cluster, 2);
    assert!(line.contains("node n1") && line.contains(" s although it is connected"), "{line}");
    let mut last = 0;
    for _ in 0..10 {
        let (state, silent, status) = seen(&mut cluster);
        let silent = silent.unwrap_or_else(|| panic!("{status}"));
        let most = paused.elapsed().as_millis() as u64 + 2_000;
        assert!(state == "down" && (6_000..most).contains(&silent) && silent >= last, "{silent}: {status}");
        last = silent;
        let ages: Vec<&str> =
            status["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(ages.iter().all(|said| !said.contains(" for 0 s")), "{ages:?}");
    }
    cluster.node(1).resume();
    eventually("all is well again", SHORT, || {
        headline(&mut cluster, 2).contains("all is well (2 of 2 nodes up").then_some(())
    });
}
