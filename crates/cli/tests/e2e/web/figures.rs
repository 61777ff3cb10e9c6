//! What the page makes of the numbers that it hears.

use super::browser::Browser;
use super::{CHROMIUM, is_well, visit};
use crate::harness::tools::need;

/// A page at rest, and in it `model()`, which has heard nothing, and `look(seconds, counters)`, what a cluster of one node
/// says `seconds` after the begin of a step.
fn at_rest(page: &mut Browser) {
    page.js("document.getElementById('pause').click()");
    page.js("import('/assets/model.js').then(({ Model }) => { globalThis.model = () => new Model(); \
         const now = structuredClone(cards.model.cluster); \
         globalThis.look = (seconds, counters) => { \
           const cluster = structuredClone(now); \
           const { status } = cluster.nodes[0]; \
           status.time_ms = Math.floor(status.time_ms / 5000) * 5000 + seconds * 1000; \
           status.uptime_s += seconds; \
           Object.assign(status.counters, counters); \
           return cluster; }; })");
}

#[test]
fn a_burst_is_a_part_of_its_interval_and_no_spike_at_the_edge() {
    need!(CHROMIUM);
    let (_dir, _nodes, pages, mut page) = visit(1);
    at_rest(&mut page);
    // A hundred a second, then a hundred in half a second, when somebody has come back to the page.
    let rates = "(() => { const heard = model(); \
        for (const [seconds, invalidations] of [[0, 0], [2, 200], [4, 400], [6, 600], [6.5, 700], [8, 850], [10, 1000]]) \
          heard.hear(look(seconds, { invalidations })); \
        return [...Array(heard.ring.length).keys()].map((at) => heard.ring.rate(at, 'invalidations')).join(); })()";
    assert_eq!(page.text(rates), "100,100");
    let seconds = "(() => { const heard = model(); [4, 5, 7, 9, 10].forEach((at) => heard.hear(look(at, {}))); \
        return [...Array(heard.ring.length).keys()].map((at) => heard.ring.get(at, 'seconds')).join(); })()";
    assert_eq!(
        page.text(seconds),
        "5",
        "one that begins a second before the end of a step goes on into the next"
    );
    is_well(&mut page, &format!("http://{}/", pages[0]));
}

#[test]
fn rates_that_take_two_looks_are_not_nothing_before() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(2);
    at_rest(&mut page);
    let words = "import('/assets/picture.js').then(({ draw }) => { const heard = model(); const box = document.createElement('div'); \
        Object.defineProperty(box, 'clientWidth', { value: 800 }); \
        const words = [0, 2].map((seconds) => { const cluster = look(seconds, {}); \
          heard.hear(cluster); draw(box, heard); return box.querySelector('.nothing')?.textContent; }); \
        return words.join(); })";
    assert_eq!(page.text(words), "being measured …,nothing flows between nodes");
}

#[test]
fn microseconds_and_seconds_are_told_apart_on_one_axis() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(1);
    let axis = "import('/assets/axis.js').then(({ logarithmic }) => { const { at, ticks } = logarithmic([8e-6, 0.05, 0, 2]); \
        return `${ticks.map((tick) => tick.toPrecision(1))} ${[8e-6, 80e-6, 2].map((value) => at(value).toFixed(2))}`; })";
    assert_eq!(page.text(axis), "0.000001,0.0001,0.01,1 0.13,0.27,0.90");
    let few = "import('/assets/axis.js').then(({ logarithmic }) => [[], [1e-4], [2e-4, 3e-4]].map((all) => \
        logarithmic(all).ticks.map((tick) => tick.toPrecision(1)).join(' ')).join())";
    assert_eq!(page.text(few), "0.00001 0.0001 0.001 0.01,0.0001 0.001,0.0001 0.001");
    page.until(
        "the latency of what was read",
        "[...document.querySelectorAll('.chart')].find((one) => one.ariaLabel === 'Latency').querySelectorAll('.axis').length > 3",
    );
}

#[test]
fn slow_requests_of_all_nodes_are_told_the_latest_first() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(2);
    page.js("document.getElementById('pause').click()");
    let rows = "(() => { const one = (time_ms, volume) => ({ time_ms, volume, op: 'read', offset: 0, length: 1, took_us: 1, \
          failed: false, waited_for: 'disk' }); \
        const { cluster } = cards.model; \
        cluster.nodes[0].status.slow.last = [one(3, 'disk'), one(1, 'disk')]; \
        cluster.nodes[1].status.slow.last = [one(4, 'other'), one(2, 'disk')]; \
        cards.model.hear(cluster); cards.show(); \
        return [...document.querySelectorAll('#slow tbody tr')].map((row) => `${row.cells[1].textContent} ${row.cells[2].textContent}`).join(); })()";
    assert_eq!(page.text(rows), "n2 other,n1 disk,n2 disk,n1 disk");
    page.js("location.hash = '#/volume/disk'");
    page.until("those of one volume", "document.querySelectorAll('#slow tbody tr').length === 3");
    page.js("location.hash = '#/node/n2'");
    page.until("those of one node", "document.querySelectorAll('#slow tbody tr').length === 2");
}
