//! What this node answers.

use std::sync::Arc;

use cards_admin::{Refusal, RefusalKind, Status};
use cards_core::policy::Asker;
use cards_core::{BlockId, NodeId, PgId};
use serde::Serialize;

use super::{block, events};
use crate::auto;
use crate::inquiry::Question;
use crate::node::Node;
use crate::pins;
use crate::policies;
use crate::report;
use crate::sampling;
use crate::scrub;
use crate::spans;
use crate::warm;
use crate::web::map;

/// Volumes in the status that others get.
const VOLUMES_MAX: usize = 128;
/// Problems in it.
const PROBLEMS_MAX: usize = 16;
/// Members in it: those that most was sent to, without their addresses.
const MEMBERS_MAX: usize = 24;

/// Answers the JSON of a question with JSON. This node itself waits for as long as it takes.
///
/// # Errors
/// It is no question, there is no answer, or the answer takes longer than the node that asks waits.
pub(super) async fn answer_bytes(
    node: &Arc<Node>,
    from: NodeId,
    question: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let question: Question = serde_json::from_slice(question).map_err(|error| {
        let message = format!("it does not know this question: {error}; run one release on all nodes");
        Refusal { kind: RefusalKind::BadRequest, message }
    })?;
    if from == node.me {
        return answer(node, question).await;
    }
    let late = |_| Refusal { kind: RefusalKind::Failed, message: "the answer took too long".into() };
    tokio::time::timeout(question.patience(), answer(node, question)).await.map_err(late)?
}

/// Answers a question with JSON.
///
/// # Errors
/// There is no answer.
async fn answer(node: &Arc<Node>, question: Question) -> Result<Vec<u8>, Refusal> {
    match question {
        Question::Status {} => json(&short(report::status(node))),
        Question::ManagedDisks {} => {
            let uuids = node.managed.iter().map(|managed| managed.uuid().to_string());
            json(&uuids.collect::<Vec<_>>())
        }
        Question::Block { volume, block } => json(&block::here(node, BlockId::new(PgId(volume), block))?),
        Question::Request { volume, block, requester, via, hops, from_disk } => {
            let (requester, via) = (NodeId(requester), NodeId(via));
            let asker = Asker { requester, via, hops, failed: from_disk };
            json(&block::asked(node, BlockId::new(PgId(volume), block), asker)?)
        }
        Question::Map { volume } => json(&map::of(node, &volume)?),
        Question::History { after } => json(&node.history.tell(&node.config.node, after)),
        Question::VolumeHistory { volume } => json(&node.history.tell_of(&volume, &node.config.node)),
        Question::Past { node: name } => json(&node.history.past(&name)),
        Question::Events {} => json(&events::here(node)),
        Question::Spans { trace, most } => json(&spans::tell(node, trace.as_deref(), most)?),
        Question::Sample { volume, most } => json(&sampling::tell(node, &volume, most)?),
        Question::References { volume, since_us, rate, most } => {
            json(&auto::tell(node, &volume, since_us, rate, most)?)
        }
        Question::Chooser { volume } => json(&policies::chooser(node, &volume)),
        Question::Scrub { group, offset, length } => {
            json(&scrub::group(node, PgId(group), offset, length).await?)
        }
        Question::Scrubs { table } => json(&scrub::schedule::hear(node, table)),
        Question::Pins { order } => json(&pins::carry_out(node, order).await?),
        Question::Policies { table } => json(&policies::hear(node, *table).await?),
        Question::Module { digest } => json(&policies::content(node, &digest)?),
        Question::Warm { volume, ranges } => json(&warm::here(node, &volume, &ranges).await?),
    }
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(answer)
        .map_err(|error| Refusal { kind: RefusalKind::Failed, message: error.to_string() })
}

/// A status as others need it: a thousand of them have to fit into one answer, so what every node says alike is
/// left out: the members but for those that it sends much to, and the volumes that it neither has nor uses.
fn short(status: Status) -> Status {
    let Status { mut volumes, mut problems, mut members, .. } = status;
    volumes.retain(|volume| {
        volume.attached.is_some()
            || volume.cached_blocks > 0
            || volume.disk_node.as_ref() == Some(&status.node)
    });
    volumes.truncate(VOLUMES_MAX);
    problems.truncate(PROBLEMS_MAX);
    members.retain(|member| member.bytes_sent > 0);
    members.sort_by_key(|member| std::cmp::Reverse(member.bytes_sent));
    members.truncate(MEMBERS_MAX);
    for member in &mut members {
        (member.address, member.reason) = (String::new(), None);
    }
    Status { members, volumes, problems, ..status }
}
