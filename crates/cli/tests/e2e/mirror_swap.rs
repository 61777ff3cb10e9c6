//! A kernel that swaps to a mirrored volume.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::harness::guest::{HOST, Namespace, missing_guest};
use crate::harness::plan::Plan;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, SHORT, eventually, scratch};
use crate::mirror::{at, cluster_by, number_of, volume};

const PORT: u16 = 10_809;

/// The nodes that order the writes die, one after the other, while pages move in and out: none comes back as another one.
#[test]
#[ignore = "long"]
fn a_swap_area_survives_the_death_of_each_primary() {
    skip_if!(missing_guest());
    need!("mkswap", "swapon");
    let dir = scratch();
    let namespace = Namespace::new(dir.path());
    let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3) };
    plan.namespace = Some(namespace.pid());
    plan.nodes[2].tcp = Some(SocketAddr::from((HOST, PORT)));
    // The kernel speaks no TLS.
    plan.nodes[2].nbd = "tls = \"off\"\n".into();
    let mut cluster = cluster_by(plan, None);
    let create =
        ["volume", "create", "data", "--size", "72M", "--layout", "raid1:2", "--on", "n1:fast1,n2:fast2"];
    at(&mut cluster, 1, &create).ok();
    eventually("n3 attaches the volume", SHORT, || {
        at(&mut cluster, 3, &["volume", "attach", "data"]).status.success().then_some(())
    });
    let variables = [("PORT", PORT.to_string()), ("EXPORT", "data".to_owned())];
    let guest = namespace.start(dir.path(), 0, "guest", "swap.sh", Path::new("/dev/null"), &variables);
    let log = dir.path().join("guest.log");
    let said = |what: &str| {
        eventually(&format!("{what:?} of the guest: {}", guest.log()), 2 * LONG, || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(!log.contains("guest: exit") || log.contains(what), "{log}");
            log.contains(what).then_some(())
        });
    };
    said("guest: swapped");
    for round in ["guest: round 2", "guest: round 4"] {
        let primary = number_of(&volume(&mut cluster, 3)["mirror"]["map"]["primary"]).expect("a primary");
        cluster.node(primary).kill();
        said(round);
        cluster.node(primary).restart();
        eventually("both copies are in sync", LONG, || {
            let told = volume(&mut cluster, 3);
            let copies = told["mirror"]["copies"].as_array()?;
            copies.iter().all(|copy| copy["state"] == "in_sync").then_some(())
        });
    }
    said("guest: exit 0");
    let log = guest.log();
    let swapped =
        log.lines().find_map(|line| line.strip_prefix("guest: swapped ")?.split(' ').next()?.parse().ok());
    assert!(swapped.is_some_and(|kib: u64| kib > 16 << 10), "{log}");
}
