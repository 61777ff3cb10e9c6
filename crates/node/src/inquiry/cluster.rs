//! The status of all members, for many who want it at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_core::NodeId;
use tokio::sync::Mutex;

use super::{Question, ask_members};
use crate::admin::{Cluster, MemberState, NodeStatus, Status};
use crate::node::Node;
use crate::report;

/// How old an answer may be, so that many pages and scrapes cost the cluster one round.
const FRESH: Duration = Duration::from_millis(500);

/// The last round. Whoever finds it old holds the lock while it asks anew; the others wait for the result.
#[derive(Default)]
pub(super) struct Cache(Mutex<Option<(Instant, Arc<Cluster>)>>);

/// How all members are, at most [`FRESH`] ago. Must be called in a runtime.
pub(crate) async fn cluster(node: &Arc<Node>) -> Arc<Cluster> {
    let mut last = node.inquiries.cluster.0.lock().await;
    if let Some((at, cluster)) = &*last
        && at.elapsed() < FRESH
    {
        return Arc::clone(cluster);
    }
    let cluster = Arc::new(ask(node).await);
    *last = Some((Instant::now(), Arc::clone(&cluster)));
    cluster
}

async fn ask(node: &Arc<Node>) -> Cluster {
    let mut answers: BTreeMap<NodeId, _> =
        ask_members::<Box<Status>>(node, &Question::Status {}).await.into_iter().collect();
    let own = report::status(node);
    let members = node.members();
    let nodes = own.members.iter().filter(|member| member.state != MemberState::Left).map(|member| {
        let number = members.find(&member.name).map(|(number, _)| number);
        let (status, error) = match number.and_then(|number| answers.remove(&number)) {
            _ if member.state == MemberState::Here => (Some(Box::new(own.clone())), None),
            Some(Ok(status)) => (Some(status), None),
            Some(Err(error)) => (None, Some(member.reason.clone().unwrap_or_else(|| error.to_string()))),
            None => (None, Some(member.reason.clone().unwrap_or_else(|| "it does not take part".into()))),
        };
        NodeStatus { name: member.name.clone(), state: member.state, status, error }
    });
    Cluster { nodes: nodes.collect(), headline: own.headline(), node: own.node.clone() }
}
