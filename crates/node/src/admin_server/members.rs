//! The membership of this node and of others, changed on request.

use cards_admin::{Refusal, RefusalKind, Reply};
use cards_coordinator::Certificate;
use cards_tls::Shown;

use crate::identity;
use crate::membership::coordinate;
use crate::node::Node;
use crate::node::membership::Order;

pub(super) async fn leave(node: &Node, force: bool) -> Result<Reply, Refusal> {
    coordinate(node, |done| Order::Leave { force, done }).await?;
    Ok(Reply::Done {})
}

pub(super) async fn forget(node: &Node, name: String, with_disks: bool) -> Result<Reply, Refusal> {
    Ok(Reply::Forgotten(coordinate(node, |done| Order::Forget { name, with_disks, done }).await?))
}

/// Has this node's certificate renewed.
pub(super) async fn renew(node: &Node) -> Result<Reply, Refusal> {
    let ends = coordinate(node, |done| Order::RenewCertificate { done }).await?;
    Ok(Reply::Renewed { certificate_ends_s: identity::seconds(ends) })
}

/// Has a certificate revoked, which comes as PEM.
pub(super) async fn revoke(node: &Node, certificate: &str) -> Result<Reply, Refusal> {
    let certificate = Shown::in_pem(certificate).and_then(|shown| Certificate::named(&shown));
    let certificate = certificate.ok_or_else(|| Refusal {
        kind: RefusalKind::BadRequest,
        message: "this is no certificate with a name; send one as PEM".into(),
    })?;
    coordinate(node, |done| Order::Revoke { certificate, done }).await?;
    Ok(Reply::Done {})
}
