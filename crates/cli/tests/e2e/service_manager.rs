//! The daemon under a service manager that wants to hear of it (`Type=notify`, `WatchdogSec=`).

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::{MIB, SHORT, content, scratch};

#[test]
fn the_manager_hears_that_the_daemon_serves_lives_and_ends() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, 1);
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(SHORT)).unwrap();
    let mut cluster = Cluster::down(Plan::new(dir.path(), 1).disk(Disk::file(&image)));
    let node = cluster.node(1);
    node.with(&format!("NOTIFY_SOCKET={}", path.display()));
    node.with("WATCHDOG_USEC=400000");
    node.restart();
    let hear = || {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).expect("the daemon says something");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    while hear() != "READY=1\nSTATUS=serving" {}
    (0..5).for_each(|_| assert_eq!(hear(), "WATCHDOG=1"));

    // A process that stands still says nothing.
    cluster.node(1).pause();
    manager.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    while manager.recv(&mut [0; 256]).is_ok() {}
    std::thread::sleep(Duration::from_millis(500));
    assert!(manager.recv(&mut [0; 256]).is_err());
    cluster.node(1).resume();
    manager.set_nonblocking(false).unwrap();
    assert_eq!(hear(), "WATCHDOG=1");

    assert!(cluster.node(1).terminate().success());
    while hear() != "STOPPING=1\nSTATUS=draining" {}
}
