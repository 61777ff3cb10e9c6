//! The status of all members.

use std::collections::BTreeMap;
use std::sync::Arc;

use cards_admin::{Cluster, MemberState, NodeStatus, Status};
use cards_core::NodeId;

use crate::inquiry::{Question, ask_members};
use crate::node::Node;
use crate::node::inquiries::FRESH;
use crate::report;

/// How all members are, at most [`FRESH`] ago. Must be called in a runtime.
pub(crate) async fn cluster(node: &Arc<Node>) -> Arc<Cluster> {
    node.inquiries.cluster.get(FRESH, ask(node)).await
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
