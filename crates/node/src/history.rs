//! What a node did in the last hour and what befell it, in a memory of fixed size: what a page shows of the time before it was
//! opened.
//!
//! What a node did ends with its process. So two others keep it as well: the two live members that follow it in the order of
//! their numbers ask it for its last step at the end of every step, and tell it when it cannot.
//!
//! | file | noun |
//! |---|---|
//! | `view` | what a node sees, and what has happened between two looks |
//! | `wards` | the nodes whose past this one keeps |
//! | `sum` | the histories of all nodes together |

mod sum;
mod view;
mod wards;

use std::sync::Arc;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::node::Node;
use crate::node::history::STEP_MS;
use crate::node::history::event::Event;
use crate::node::history::sample::Totals;
use crate::report;

use view::View;

pub(crate) use sum::{cluster, of_node, of_volume};

/// A step that is noted later after its end than this is not: it would have what was counted in the next.
const LATE_MS: u64 = STEP_MS / 5;

/// Milliseconds since 1970 (UTC), and the step that they are in.
fn now(node: &Node) -> (u64, u64) {
    let since_ms = node.clock.now_and_utc_us().1 / 1_000;
    (since_ms, since_ms / STEP_MS)
}

/// Samples a node at the end of every step; never ends.
pub(crate) async fn keep(node: &Arc<Node>) {
    let mut seen = View::of(&report::status(node));
    node.history.happened(vec![Event::started(&node.config.node, now(node).0)]);
    let alarm = Alarm::new();
    loop {
        let (since_ms, step) = now(node);
        let end_ms = (step + 1) * STEP_MS;
        alarm.sleep(Duration::from_millis(end_ms - since_ms)).await;
        let status = report::status(node);
        if status.time_ms <= end_ms + LATE_MS {
            node.history.note(step, Totals::of(&status));
            node.history.volumes().note(step, &status.volumes);
        }
        let (view, events) = seen.then(View::of(&status), &status.node, status.time_ms);
        seen = view;
        node.history.happened(events);
        wards::gather(node).await;
    }
}
