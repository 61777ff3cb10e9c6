//! The page without a mouse.

use super::{CHROMIUM, visit};
use crate::harness::tools::need;

/// What has the focus, and whether that can be seen.
const FOCUS: &str = "(() => { const at = document.activeElement; const seen = at.type === 'radio' \
    ? at.nextElementSibling : at; \
    const name = at.id || at.name || at.getAttribute('aria-label') || at.textContent; \
    return `${getComputedStyle(seen).outlineStyle} ${at.className === 'skip' ? 'skip' : name.split(':')[0]}`; })()";

#[test]
fn every_control_is_reached_in_the_order_of_the_page_and_seen() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(2);
    page.until("the map is there", "document.querySelectorAll('#map canvas').length === 2");
    let mut order = Vec::new();
    for _ in 0..20 {
        page.key("Tab");
        let focus = page.text(FOCUS);
        let (outline, name) = focus.split_once(' ').expect("both");
        assert_eq!(outline, "solid", "{name} has the focus, and nobody sees it");
        order.push(name.to_owned());
    }
    let wanted = [
        "skip",
        "range",
        "pause",
        "theme",
        "Flows between nodes as a table",
        "volume",
        "Place in the volume",
        "Blocks read by clients now",
        "Throughput now",
        "Latency now",
        "Locks now",
        "Policy now",
    ];
    assert_eq!(order[..wanted.len()], wanted);
    let tables = &order[wanted.len()..];
    assert!(tables[0].starts_with("Nodes"), "{order:?}");
    assert_eq!(tables[1..3], ["n1", "n2"], "the ways to their pages");
    assert!(tables[3].starts_with("Volumes"), "{order:?}");
    assert_eq!(tables[4..6], ["disk", "n1"]);
    assert!(tables[6].starts_with("The last "), "{order:?}");
}

#[test]
fn keys_do_what_the_mouse_does() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(1);
    page.until("two samples", "cards.model.memory.samples >= 2");

    page.js("document.querySelector('.chart svg').focus()");
    page.key("ArrowLeft");
    page.until(
        "a time in the past",
        "/^at \\d\\d:\\d\\d/.test(document.querySelector('.chart .when').textContent)",
    );

    page.js("document.getElementById('pause').focus()");
    page.key("Enter");
    assert_eq!(page.text("document.getElementById('live').textContent"), "paused");
    assert_eq!(page.text("document.getElementById('pause').ariaPressed"), "true");
    page.key("Enter");
    page.until("it goes on", "document.getElementById('live').textContent.startsWith('live')");

    page.js("document.querySelector('input[name=range]:checked').focus()");
    page.key("ArrowRight");
    assert_eq!(page.text("document.querySelector('input[name=range]:checked').value"), "900");

    page.until("the map is there", "document.querySelectorAll('#map canvas').length === 1");
    page.js("document.querySelector('#map input').focus()");
    page.key("ArrowRight");
    assert_eq!(page.text("document.querySelector('#map input').value"), "1");
}
