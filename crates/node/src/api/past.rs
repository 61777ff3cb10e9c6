//! `GET /v1/history[?node=N]`: the last hour of the cluster, or of one node.

use std::sync::Arc;

use cards_client::body::ErrorKind;
use hyper::StatusCode;

use super::answer::{Answer, Failure, json};
use super::route::clip;
use crate::history;
use crate::node::Node;

/// The history that the query asks for.
pub(super) async fn past(node: &Arc<Node>, query: &str) -> Result<Answer, Failure> {
    match query.split_once('=') {
        None if query.is_empty() => Ok(json(StatusCode::OK, &*history::cluster(node).await)),
        Some(("node", name)) if !name.contains(['=', '&']) => {
            Ok(json(StatusCode::OK, &history::of_node(node, name).await?))
        }
        _ => {
            let message = format!("?{} is not understood: ask for node=N, or for nothing", clip(query));
            Err(Failure::new(ErrorKind::BadRequest, message))
        }
    }
}
