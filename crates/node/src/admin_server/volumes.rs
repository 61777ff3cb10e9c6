//! Volumes over managed disks of several nodes, changed on request.

use cards_admin::{NewVolume, Refusal, Reply, Volume};

use crate::membership::coordinate;
use crate::mirrors;
use crate::node::Node;
use crate::node::membership::Order;

/// The volume of a name, as this node knows it.
pub(super) fn show(node: &Node, volume: &str) -> Result<Volume, Refusal> {
    let found = mirrors::volumes(node).into_iter().find(|known| known.name == volume);
    found.ok_or_else(|| Refusal::no_such_volume(volume))
}

pub(super) async fn create(node: &Node, new: NewVolume) -> Result<Reply, Refusal> {
    let (new, on) = mirrors::new(node, new)?;
    coordinate(node, |done| Order::CreateVolume { new: Box::new(new), on, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn remove(node: &Node, volume: String) -> Result<Reply, Refusal> {
    mirrors::check_detached(node, &volume)?;
    coordinate(node, |done| Order::RemoveVolume { volume, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn resize(node: &Node, volume: String, bytes: u64) -> Result<Reply, Refusal> {
    coordinate(node, |done| Order::GrowVolume { volume, bytes, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn cancel_resize(node: &Node, volume: String) -> Result<Reply, Refusal> {
    coordinate(node, |done| Order::CancelGrowth { volume, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn replace(
    node: &Node,
    volume: String,
    from: String,
    to: Option<String>,
) -> Result<Reply, Refusal> {
    coordinate(node, |done| Order::ReplaceCopy { volume, from, to, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn force(node: &Node, volume: String, of: String, epoch: u64) -> Result<Reply, Refusal> {
    coordinate(node, |done| Order::ForceVolume { volume, node: of, epoch, done }).await?;
    Ok(Reply::Done {})
}
