//! The dashboard in a real browser.

mod browser;
mod day;
mod door;
mod figures;
mod https;
mod keys;
mod looks;
mod past;
mod shows;

use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::{MIB, content, scratch};

use browser::{Browser, CHROMIUM};

const SEED: u64 = 31;
/// Bytes of the disk of [`cluster`].
const SIZE: u64 = 16 * MIB;

/// A cluster of `count` nodes whose first one has the disk, and the address of the page at each.
fn cluster(dir: &Path, count: usize) -> (Cluster, Vec<SocketAddr>) {
    let image = dir.join("disk.img");
    content::image(&image, SIZE, SEED);
    let mut plan = Plan::new(dir, count).disk(Disk::file(&image));
    if count > 1 {
        // Who is killed is down for as long as a page is looked at, and not dead yet.
        plan.coordinator = Coordinator::Embedded { keeper: 1, apart: None, lease: "30s" };
        (plan.lease, plan.disk_wait) = ("30s", "60s");
    }
    let pages: Vec<SocketAddr> = plan.nodes.iter().map(|_| free_port()).collect();
    for (node, page) in plan.nodes.iter_mut().zip(&pages) {
        // It is the last table of the file.
        node.nbd += &format!("[web]\nlisten = \"{page}\"\n");
    }
    (Cluster::start(plan), pages)
}

/// A browser that shows the page at `address`.
fn open(address: SocketAddr) -> Browser {
    let mut browser = Browser::start();
    browser.open(&format!("http://{address}/"));
    browser
}

/// [`cluster`] and what it needs, with a browser that shows the page of its first node.
fn visit(count: usize) -> (TempDir, Cluster, Vec<SocketAddr>, Browser) {
    let dir = scratch();
    let (nodes, pages) = cluster(dir.path(), count);
    let page = open(pages[0]);
    (dir, nodes, pages, page)
}

/// Insists on a page that has said nothing in its console and asked nobody but its own node, whose address begins so.
#[track_caller]
fn is_well(browser: &mut Browser, own: &str) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let others: Vec<String> =
        browser.asked().into_iter().filter(|url| !url.starts_with(own) && url != "about:blank").collect();
    assert_eq!(others, Vec::<String>::new());
}
