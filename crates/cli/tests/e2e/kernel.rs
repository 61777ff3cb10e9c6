//! The kernel's own NBD client, in User-mode Linux: attach at one node, make a file system, write, drop the
//! caches, read, detach; attach at another node, check the file system and read it all again.

use std::net::SocketAddr;

use crate::harness::cluster::Cluster;
use crate::harness::guest::{HOST, Namespace, missing_guest};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{MIB, SHORT, content, scratch};

const SIZE: u64 = 96 * MIB;

fn tcp(port: u16) -> SocketAddr {
    SocketAddr::from((HOST, port))
}

fn works(namespace: &Namespace, dir: &std::path::Path, write: u16, read: u16) {
    let variables =
        [("WRITE_PORT", write.to_string()), ("READ_PORT", read.to_string()), ("EXPORT", "disk".to_string())];
    let done = namespace.boot(dir, &variables);
    for line in
        [&format!("guest: attached {SIZE} bytes"), "guest: reread", "guest: read elsewhere", "guest: exit 0"]
    {
        assert!(done.stdout.contains(line), "no {line:?}: {done}");
    }
}

#[test]
fn the_kernel_attaches_writes_and_reads_elsewhere() {
    skip_if!(missing_guest());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, 1);
    let namespace = Namespace::new(dir.path());
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image));
    plan.namespace = Some(namespace.pid());
    plan.nodes[0].tcp = Some(tcp(10809));
    plan.nodes[2].tcp = Some(tcp(10811));
    // The kernel speaks no TLS.
    plan.nodes.iter_mut().for_each(|node| node.nbd = "tls = \"off\"\n".into());
    let _cluster = Cluster::start(plan);
    works(&namespace, dir.path(), 10809, 10811);
}

#[test]
#[ignore = "tests the test"]
fn reference_kernel_attaches() {
    skip_if!(missing_guest());
    need!("nbdkit");
    let dir = scratch();
    let namespace = Namespace::new(dir.path());
    let script = format!("exec nbdkit --foreground --ipaddr 10.77.0.1 --port 10809 memory {SIZE}");
    let pid = namespace.pid().to_string();
    let argv = ["nsenter", "--target", &pid, "--net", "--", "sh", "-c", &script].map(String::from);
    let mut server = Process::spawn(&argv, &dir.path().join("nbdkit.log"));
    server.until("nbdkit listens", || {
        let probe = format!("nsenter --target {pid} --net -- ss -tln | grep -q 10.77.0.1:10809");
        sh(&probe, SHORT).status.success().then_some(())
    });
    works(&namespace, dir.path(), 10809, 10809);
}
