//! `GET /v1/history[?node=N|?volume=V]`: the last hour of the cluster, of one node, or of one volume.

use std::sync::Arc;

use cards_admin::Refusal;
use cards_client::body::ErrorKind;
use hyper::StatusCode;

use super::answer::{Answer, Failure, json};
use super::ids::clip;
use crate::history;
use crate::node::Node;

/// The history that the query asks for.
pub(super) async fn past(node: &Arc<Node>, query: &str) -> Result<Answer, Failure> {
    match query.split_once('=') {
        None if query.is_empty() => Ok(json(StatusCode::OK, &*history::cluster(node).await)),
        Some(("node", name)) if !name.contains(['=', '&']) => {
            Ok(json(StatusCode::OK, &history::of_node(node, name).await?))
        }
        Some(("volume", name)) if !name.contains(['=', '&']) => {
            node.volume(name).ok_or_else(|| Refusal::no_such_volume(name))?;
            Ok(json(StatusCode::OK, &history::of_volume(node, name).await))
        }
        _ => {
            let message = format!("?{} is not understood: ask for node=N, volume=V, or nothing", clip(query));
            Err(Failure::new(ErrorKind::BadRequest, message))
        }
    }
}
