//! Lock groups: `cards lock`, the API below it, and programs that write one volume under it, at real daemons
//! with a coordinator.

mod append;
mod door;
mod hold;

use std::path::Path;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{MIB, SHORT, eventually};

/// Three nodes with a coordinator, and disks of these names at node 1.
fn plan(dir: &Path, disks: &[&str]) -> Plan {
    let mut plan = Plan::new(dir, 3);
    for name in disks {
        let image = dir.join(format!("{name}.img"));
        std::fs::File::create(&image).and_then(|file| file.set_len(16 * MIB)).expect("an image");
        let disk = Disk { name: (*name).into(), ..Disk::file(&image) };
        plan = plan.disk(disk);
    }
    plan.coordinator = Coordinator::embedded();
    plan
}

/// Where the API of node `n{number}` is.
fn api(cluster: &mut Cluster, number: usize) -> String {
    cluster.node(number).admin_socket().replace("admin.sock", "api.sock")
}

/// `cards lock` with these arguments, at node `n{number}`.
fn lock(cluster: &mut Cluster, number: usize, verb: &str, arguments: &[&str]) -> Finished {
    let socket = api(cluster, number);
    run(&[&[CARDS, "lock", verb, "--socket", &socket], arguments].concat(), SHORT)
}

/// Waits until every node grants locks: a new cluster first waits for sessions that it might not know of.
fn wait_for_locks(cluster: &mut Cluster, volumes: &[&str]) {
    for volume in volumes {
        let arguments = [*volume, "0..16M", "--wait", "10s", "--", "true"];
        eventually("locks are granted", SHORT, || {
            lock(cluster, 1, "acquire", &arguments).status.success().then_some(())
        });
    }
}

/// What a node lists.
fn list(cluster: &mut Cluster, number: usize) -> Value {
    let listed = lock(cluster, number, "list", &["--json"]).ok().stdout;
    serde_json::from_str(&listed).unwrap_or_else(|error| panic!("{error} in\n{listed}"))
}
