//! What the page shows of a cluster, and of what befalls it.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::{CHROMIUM, SEED, SIZE, is_well, visit};
use crate::harness::tools::need;
use crate::harness::{SHORT, eventually};

/// Whether the words are in an element.
fn has(id: &str, words: &str) -> String {
    format!("document.getElementById({id:?}).textContent.includes({words:?})")
}

/// The state that the table of nodes has for a node.
fn state(node: &str) -> String {
    format!(
        "[...document.querySelectorAll('#nodes tbody tr')].find((row) => row.cells[0].textContent === {node:?})\
         ?.cells[1].textContent"
    )
}

#[test]
fn a_node_that_is_killed_is_down_in_words_and_comes_back() {
    need!(CHROMIUM);
    let (_dir, mut nodes, pages, mut page) = visit(3);
    page.until(
        "all is well",
        &has("headline", "n1 of cluster lab: all is well (3 of 3 nodes up in epoch 3, 1 volume attached"),
    );
    for (number, node) in ["n1", "n2", "n3"].into_iter().enumerate() {
        assert_eq!(page.text(&state(node)), "up");
        let name = format!("document.querySelectorAll('#picture .node .name')[{number}].textContent");
        assert_eq!(page.text(&name), node);
    }
    assert!(page.text("document.querySelector('#picture svg').ariaLabel").starts_with("3 of 3 nodes up."));
    is_well(&mut page, &format!("http://{}/", pages[0]));

    nodes.node(3).kill();
    page.until("it is down", &format!("{} === 'down'", state("n3")));
    page.until(
        "the picture says so",
        "document.querySelector('#picture .node.away .word').textContent === '✕ down'",
    );
    page.until("what to do", &has("headline", "start `cards serve` there"));
    assert!(page.text("document.getElementById('headline').textContent").contains("n3"));
    assert_eq!(page.text("document.getElementById('health').className"), "health bad");
    // In the words of `cards status`.
    let told = nodes.node(1).status()["problems"][0].as_str().unwrap_or_default().to_owned();
    page.until("the same words", &has("headline", told.split(": ").next().unwrap_or_default()));
    nodes.node(3).restart();
    page.until("it is back", &format!("{} === 'up'", state("n3")));
    page.until("all is well again", &has("headline", "all is well"));
    is_well(&mut page, &format!("http://{}/", pages[0]));
}

#[test]
fn the_map_shows_what_was_read_and_where() {
    need!(CHROMIUM);
    let (_dir, nodes, pages, mut page) = visit(3);
    let mut client = nodes.export(2, "disk").open();
    for offset in (0..SIZE / 4).step_by(1 << 20) {
        crate::harness::content::check(&client.read(offset, 1 << 20).expect("a read"), offset, SEED);
    }
    // Marks of a quarter of the volume in the row of a node that are drawn.
    let drawn = |node: u32, quarter: u32| {
        format!(
            "(() => {{ const pen = document.querySelectorAll('#map canvas')[{}].getContext('2d'); \
             const width = pen.canvas.width; \
             const data = pen.getImageData({quarter} * width / 4, 9, width / 4, 1).data; \
             return [...data].filter((value, at) => at % 4 === 3 && value > 0).length / (width / 4); }})()",
            node - 1,
        )
    };
    page.until("node 2 has the first quarter", &format!("{} === 1", drawn(2, 0)));
    assert_eq!(page.js(&drawn(2, 3)), 0);
    // It has had no more than the look of whether it is ready.
    assert_eq!(page.js(&drawn(3, 1)), 0);
    // The place at the left end of the slider, in words.
    page.until("it is said", "document.querySelector('#map .place').textContent.includes('n2 100 %')");
    // The reads are in the figures, and what flowed from the node with the disk in the table of flows.
    page.until("the reads are counted", "cards.model.sum(({ counters }) => counters.bytes_read) >= 4 << 20");
    page.js("document.getElementById('flows').open = true");
    let mut again = 0;
    let flows = || {
        // Something must flow while it is watched.
        let offset = SIZE / 2 + (again % 128) * (64 << 10);
        again += 1;
        client.read(offset, 64 << 10).expect("a read");
        thread::sleep(Duration::from_millis(50));
        let table = page.text("document.getElementById('flows').textContent");
        table.contains("n1n2").then_some(())
    };
    eventually("a flow from n1 to n2", SHORT, flows);
    is_well(&mut page, &format!("http://{}/", pages[0]));
}

#[test]
fn a_daemon_that_is_away_is_said_asked_less_often_and_found_again() {
    need!(CHROMIUM);
    let (_dir, mut nodes, _, mut page) = visit(1);
    nodes.node(1).kill();
    page.until("it is said", &has("headline", "does not answer"));
    page.until("and asked less often", &has("live", "again in 8 s"));
    nodes.node(1).restart();
    page.until("it is found", &has("headline", "all is well (1 of 1 nodes up"));
    page.until("and asked as before", &has("live", "live, every 2 s"));
}

#[test]
fn a_page_that_nobody_sees_does_not_ask() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(1);
    let show = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ get: () => {hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    page.js(&show(true));
    // What is under way ends.
    thread::sleep(Duration::from_secs(1));
    let asked = page.asked().len();
    thread::sleep(Duration::from_secs(5));
    assert_eq!(page.asked().len(), asked);
    page.js(&show(false));
    eventually("it asks again", SHORT, || (page.asked().len() > asked).then_some(()));
}

#[test]
fn the_page_cannot_ask_anybody_else() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(1);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", elsewhere.local_addr().unwrap());
    assert_eq!(page.text(&format!("fetch({url:?}).then(() => 'asked', () => 'refused')")), "refused");
    let image = format!(
        "new Promise((done) => {{ const image = new Image(); image.onload = image.onerror = () => done('over'); \
         image.src = {url:?}; }})"
    );
    assert_eq!(page.text(&image), "over");
    assert!(elsewhere.accept().is_err(), "somebody came");
}
