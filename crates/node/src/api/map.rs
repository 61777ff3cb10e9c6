//! `GET /v1/map?volume=V`: what is cached of a volume, by node.

use std::sync::Arc;

use cards_client::body::ErrorKind;

use super::answer::Failure;
use super::ids::clip;
use crate::answers;
use crate::node::Node;
use crate::node::inquiries::maps::Maps;

/// The maps of the volume that the query names.
pub(super) async fn map(node: &Arc<Node>, query: &str) -> Result<Arc<Maps>, Failure> {
    match query.split_once('=') {
        Some(("volume", name)) if !name.contains(['=', '&']) => Ok(answers::maps(node, name).await?),
        _ => {
            let message = format!("?{} is not understood: ask for volume=V", clip(query));
            Err(Failure::new(ErrorKind::BadRequest, message))
        }
    }
}
