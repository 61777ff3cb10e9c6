//! Sockets that a daemon of another user has left behind.

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::tools::{is_root, skip};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

#[test]
fn sockets_that_root_has_left_are_named_with_what_to_do() {
    if !is_root() {
        return skip("only root can be two users");
    }
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, 1);
    // Another user gets this far.
    crate::harness::process::run(&["chmod", "-R", "a+rwX", &dir.path().display().to_string()], SHORT).ok();
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)).insecure());
    let socket = cluster.node(1).admin_socket();
    cluster.node(1).kill();
    assert!(std::path::Path::new(&socket).exists(), "a daemon that is killed leaves its sockets");
    cluster.node(1).run_as(65534);
    cluster.node(1).spawn();
    eventually("it ends", SHORT, || (!cluster.node(1).is_alive()).then_some(()));
    cluster.node(1).says(&[&socket, "belongs to user 0", "user 65534", &format!("rm {socket}"), "chown"]);
}
