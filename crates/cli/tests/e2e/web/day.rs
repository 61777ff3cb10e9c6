//! A page that stays open.

use super::{CHROMIUM, visit};
use crate::harness::tools::need;

/// Looks of a day, one every two seconds.
const LOOKS: u64 = 43_200;

#[test]
fn a_page_that_is_open_for_a_day_takes_no_more_memory() {
    need!(CHROMIUM);
    let (_dir, _nodes, _, mut page) = visit(2);
    page.until("two samples", "cards.model.memory.samples >= 2");
    page.js("document.getElementById('pause').click()");
    // From now on the answers are made up: the last one, later and with more of everything. The page is drawn now and
    // then, as a browser draws it when it has time.
    let go = |looks: u64| {
        format!(
            "(() => {{ const last = structuredClone(cards.model.cluster); \
             for (let look = 1; look <= {looks}; look += 1) {{ \
               for (const {{ status }} of last.nodes) {{ \
                 status.time_ms += 2000; status.uptime_s += 2; \
                 for (const name in status.counters) status.counters[name] += (look * 7919) % 1000; \
                 for (const member of status.members) member.bytes_sent += (look * 104729) % 1000000; }} \
               cards.model.hear(structuredClone(last)); \
               if (look % 400 === 0) cards.show(); }} \
             return cards.model.memory; }})()"
        )
    };
    let full = page.js(&go(3_000));
    assert_eq!(full["samples"], full["capacity"], "the hour is full");
    let before = held(&mut page);
    assert_eq!(page.js(&go(LOOKS)), full);
    let after = held(&mut page);
    assert!(after.0 < before.0 + 2.0e6, "{} bytes were {}", after.0, before.0);
    assert!(after.1 < before.1 + 200.0, "{} elements were {}", after.1, before.1);
    assert!(after.2 <= before.2 + 5.0, "{} listeners were {}", after.2, before.2);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// Bytes of the script's heap, elements, and listeners, after what nobody uses is gone.
fn held(page: &mut super::Browser) -> (f64, f64, f64) {
    for _ in 0..3 {
        page.call("HeapProfiler.collectGarbage", serde_json::json!({}));
    }
    let heap = page.call("Runtime.getHeapUsage", serde_json::json!({}));
    let dom = page.call("Memory.getDOMCounters", serde_json::json!({}));
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_default();
    (number(&heap["usedSize"]), number(&dom["nodes"]), number(&dom["jsEventListeners"]))
}
