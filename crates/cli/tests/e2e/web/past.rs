//! What the page shows of the past, and its pages of one node and one volume.

use super::{CHROMIUM, SIZE, cluster, is_well, open, visit};
use crate::harness::scratch;
use crate::harness::tools::need;

#[test]
fn what_a_dead_node_did_stays_in_the_charts_and_why_it_is_away_is_said_in_full() {
    need!(CHROMIUM);
    let (_dir, mut nodes, pages, mut page) = visit(3);
    let mut client = nodes.export(3, "disk").open();
    // It goes on until others have kept some of it.
    let mut offset = 0;
    let kept = "fetch('/v1/history?node=n3').then((answer) => answer.json()).then(({ fields, samples }) => \
        samples.filter((sample) => sample[1 + fields.indexOf('reads')] > 0).length >= 3)";
    crate::harness::eventually("three steps are kept", crate::harness::LONG, || {
        client.read(offset, 1 << 20).expect("a read");
        offset = (offset + (1 << 20)) % SIZE;
        std::thread::sleep(std::time::Duration::from_millis(100));
        (page.js(kept) == true).then_some(())
    });
    page.js("location.hash = '#/volume/disk'");
    page.until(
        "the volume's page has what was asked of it before",
        "cards.model.looked.sum('bytes_read', 0) >= 3 << 20",
    );
    drop(client);
    nodes.node(3).kill();

    // Who opens a page now has seen nothing of it.
    let mut late = open(pages[1]);
    late.until("all have read what it has read", "cards.model.ring.sum('reads', 0) > 0");
    late.until(
        "its death is marked in all charts",
        "[...document.querySelectorAll('.chart')].every((one) => one.querySelector('.mark.bad'))",
    );
    late.until(
        "it is in words",
        "document.getElementById('events').textContent.includes('cannot be reached')",
    );
    let reason = "cards.model.nodes.find(({ name }) => name === 'n3').error";
    late.until(
        "why, below the row of the table",
        &format!("document.querySelector('#nodes .below').textContent === {reason}"),
    );
    late.until(
        "and in the picture",
        &format!("[...document.querySelectorAll('#picture .node.away .fact')].map((line) => line.textContent).join(' ') === {reason}"),
    );
    let inside = "(() => { const box = document.querySelector('#picture .node.away .frame').getBoundingClientRect(); \
        return [...document.querySelectorAll('#picture .node.away .fact')].every((line) => { const at = line.getBoundingClientRect(); \
        return at.right <= box.right && at.bottom <= box.bottom; }); })()";
    assert_eq!(late.js(inside), true);

    late.js("document.querySelector('#nodes a[href=\"#/node/n3\"]').click()");
    late.until("its own page has its past", "cards.model.looked.sum('reads', 0) > 0");
    late.until("and how it is", "document.getElementById('condition').textContent.startsWith('down: ')");
    is_well(&mut late, &format!("http://{}/", pages[1]));
}

#[test]
fn a_node_and_a_volume_have_addresses_of_their_own() {
    need!(CHROMIUM);
    let dir = scratch();
    let (_nodes, pages) = cluster(dir.path(), 2);
    let shown = "[...document.querySelectorAll('main section')].filter((one) => one.checkVisibility()).map((one) => \
        one.querySelector('h2')?.firstChild.textContent ?? one.ariaLabel).join()";
    let mut page = open(pages[0]);
    page.open(&format!("http://{}/#/node/n2", pages[0]));
    page.until("the node", "document.getElementById('subject').textContent === 'Node n2'");
    let node = "Health,Blocks read by clients,Throughput,Latency,Locks,Policy,Volumes,Disks,Other nodes, as it sees them,Events,\
        Slow requests";
    assert_eq!(page.text(shown), node);
    assert!(page.text("document.title").contains("n2"));

    page.js("document.querySelector('#volumes a').click()");
    page.until("the volume", "document.getElementById('subject').textContent === 'Volume disk'");
    let volume =
        "Health,Who caches what,Blocks read by clients,Throughput,Latency,Nodes,Events,Slow requests";
    assert_eq!(page.text(shown), volume);
    page.until("its map", "document.querySelectorAll('#map canvas').length === 2");
    assert_eq!(page.text("location.hash"), "#/volume/disk");

    page.js("history.back()");
    page.until("the node again", "document.getElementById('subject').textContent === 'Node n2'");
    page.js("document.querySelector('#way a').click()");
    page.until("all", "document.querySelector('#picture').checkVisibility()");
    page.js("location.hash = '#/node/' + encodeURIComponent('<b>no/ne')");
    page.until("no such node", "document.getElementById('condition').textContent.includes('no member')");
    assert_eq!(page.text("document.getElementById('subject').textContent"), "Node <b>no/ne");
    page.js("location.hash = '#main'");
    assert_eq!(
        page.text("document.getElementById('subject').textContent"),
        "Node <b>no/ne",
        "it is a place on the page"
    );
}
