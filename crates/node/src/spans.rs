//! The spans of this node, and of all.

use std::sync::Arc;

use cards_admin::{Refusal, RefusalKind, Silent, Span, Spans};
use cards_probe::{KEPT_MAX, Trace, is_name};

use crate::inquiry::{self, Question};
use crate::node::Node;

/// Spans of one node that fit into an answer, however long the names are.
const TOLD_MAX: usize = KEPT_MAX / 2;
/// Spans of all nodes together, but for a few of each.
const ALL_MAX: usize = 16 * TOLD_MAX;
/// Spans that each node may tell, however many nodes there are.
const EACH_MIN: usize = 64;

/// Says whether this is the name of a trace.
///
/// # Errors
/// It is none.
fn parse(name: &str) -> Result<(), Refusal> {
    let shown = &name[..name.floor_char_boundary(100)];
    is_name(name).then_some(()).ok_or_else(|| Refusal {
        kind: RefusalKind::BadRequest,
        message: format!(
            "{shown:?} is no name of a trace: use it as `cards spans` shows it, such as n2:3.1a2b3c"
        ),
    })
}

/// The last spans that this node has kept, of one trace or of all, at most `most`.
///
/// # Errors
/// There is no trace of that name.
pub(crate) fn tell(node: &Node, trace: Option<&str>, most: usize) -> Result<Vec<Span>, Refusal> {
    let of = match trace {
        None => None,
        Some(name) => {
            parse(name)?;
            let Some(trace) = Trace::find(node, name) else { return Ok(Vec::new()) };
            Some(trace)
        }
    };
    Ok(node.probe.spans.last(of, most.min(TOLD_MAX), node, node.clock.now_and_utc_us()))
}

/// The same of all nodes. What a node does not tell is left out, with the reason. Must be called in a runtime.
///
/// # Errors
/// There is no trace of that name.
pub(crate) async fn tell_all(node: &Arc<Node>, trace: Option<&str>) -> Result<Spans, Refusal> {
    trace.map_or(Ok(()), parse)?;
    let members = node.members().live().count();
    let most = (ALL_MAX / members.max(1)).clamp(EACH_MIN, TOLD_MAX);
    let question = Question::Spans { trace: trace.map(Into::into), most };
    let mut all = Spans { one_in: node.config.trace_sample, ..Spans::default() };
    for (peer, answer) in inquiry::ask_members::<Vec<Span>>(node, &question).await {
        match answer {
            Ok(spans) => all.spans.extend(spans.into_iter().take(most)),
            Err(error) => all.silent.push(Silent { node: node.name(peer), reason: error.to_string() }),
        }
    }
    all.spans.sort_by(|a, b| (a.start_us, &a.trace, a.name).cmp(&(b.start_us, &b.trace, b.name)));
    Ok(all)
}
