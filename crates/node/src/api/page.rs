//! The dashboard: its files, and what only it asks for.

use std::sync::Arc;

use cards_client::body::ErrorKind;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use serde::Serialize;
use tokio::task::JoinSet;

use super::answer::{Answer, Failure};
use super::route::clip;
use crate::admin::NodeStatus;
use crate::inquiry::{self, Question, ask};
use crate::node::Node;
use crate::web::asset;
use crate::web::map::Map;

/// Nodes whose map is told.
const NODES_MAX: usize = 64;

/// A file of the page.
pub(super) fn asset(path: &[&str]) -> Option<Answer> {
    let asset = asset::find(path)?;
    let mut answer = Response::new(Full::new(Bytes::from_static(asset.text.as_bytes())));
    for (name, value) in [
        (CONTENT_TYPE, asset.content_type),
        (CONTENT_SECURITY_POLICY, asset::CONTENT_SECURITY_POLICY),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the daemon has another page.
        (CACHE_CONTROL, "no-cache"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(answer)
}

/// What is cached of a volume, by node.
#[derive(Debug, Serialize)]
pub(super) struct Maps {
    volume: String,
    /// Bytes of the volume.
    size: u64,
    /// Bytes of a block.
    block: u32,
    /// In the order of the members; of many, those that cache most of it.
    nodes: Vec<MapOf>,
    /// So many are left out.
    more: usize,
}

/// What is cached of it at one node.
#[derive(Debug, Serialize)]
struct MapOf {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<Map>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// `GET /v1/map?volume=V`.
pub(super) async fn map(node: &Arc<Node>, query: &str) -> Result<Maps, Failure> {
    let name = match query.split_once('=') {
        Some(("volume", name)) if !name.contains(['=', '&']) => name,
        _ => {
            let message = format!("?{} is not understood: ask for volume=V", clip(query));
            return Err(Failure::new(ErrorKind::BadRequest, message));
        }
    };
    let volume = node.volume(name).ok_or_else(|| {
        let message = format!("no node of the cluster has a disk {:?}; see `cards volume list`", clip(name));
        Failure::new(ErrorKind::NoVolume, message)
    })?;
    let (mut nodes, more) = holders(node, name).await;
    let mut asking = JoinSet::new();
    for (at, of) in nodes.iter().enumerate() {
        // One that has not told its status now does not tell this either.
        if of.error.is_none()
            && let Some((peer, _)) = node.members().find(&of.name)
        {
            let (node, question) = (Arc::clone(node), Question::Map { volume: name.into() });
            asking.spawn(async move { (at, ask::<Map>(&node, peer, &question).await) });
        }
    }
    while let Some(Ok((at, answer))) = asking.join_next().await {
        match answer {
            Ok(map) => nodes[at].map = Some(map),
            Err(error) => nodes[at].error = Some(error.to_string()),
        }
    }
    Ok(Maps { size: volume.size_bytes, block: volume.block_bytes, volume: volume.name, nodes, more })
}

/// The members to ask about a volume, and how many others there are.
async fn holders(node: &Arc<Node>, volume: &str) -> (Vec<MapOf>, usize) {
    let cluster = inquiry::cluster(node).await;
    let cached = |member: &NodeStatus| {
        let volumes = member.status.iter().flat_map(|status| &status.volumes);
        volumes.filter(|known| known.name == volume).map(|known| known.cached_blocks).max()
    };
    let mut members: Vec<(usize, &NodeStatus)> = cluster.nodes.iter().enumerate().collect();
    if members.len() > NODES_MAX {
        members.sort_by_key(|(_, member)| std::cmp::Reverse(cached(member)));
        members.truncate(NODES_MAX);
        members.sort_by_key(|(at, _)| *at);
    }
    let more = cluster.nodes.len() - members.len();
    let unknown = |(_, NodeStatus { name, error, .. }): (usize, &NodeStatus)| MapOf {
        name: name.clone(),
        map: None,
        error: error.clone(),
    };
    (members.into_iter().map(unknown).collect(), more)
}
