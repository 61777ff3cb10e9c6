//! What both ends of the connection to an embedded coordinator agree on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::admission::TokenId;

/// Path of the request that makes a change.
pub(crate) const SUBMIT: &str = "/v1/coordinator/submit";
/// Path of the request for the registry as it is.
pub(crate) const VIEW: &str = "/v1/coordinator/view";
/// Path of the request that waits for another revision than the one its query names.
pub(crate) const CHANGED: &str = "/v1/coordinator/changed";
/// Path of the request for a certificate, the only one of a machine that is no node yet.
pub(crate) const SIGN: &str = "/v1/coordinator/sign";
/// Path of the request of a node for a certificate that follows its present one.
pub(crate) const RENEW: &str = "/v1/coordinator/renew";
/// Path of the request that brings an arbiter a frame of the register.
pub(crate) const REGISTER: &str = "/v1/coordinator/register";
/// Path of the request for who keeps the registry, as far as the node knows that is asked.
pub(crate) const KEPT_BY: &str = "/v1/coordinator/kept";
/// What a frame of the register is called in HTTP.
pub(crate) const FRAME: &str = "application/octet-stream";
/// Header of requests and answers: which registry it is, in hexadecimal digits.
pub(crate) const HISTORY: &str = "cards-registry";
/// Header of requests: the latest epoch and revision that the caller has heard of.
pub(crate) const SEEN: &str = "cards-seen";
/// Header of requests and answers: who keeps the registry, as JSON.
pub(crate) const KEPT: &str = "cards-kept";
/// Header of every request and every answer: the name of the cluster.
pub(crate) const CLUSTER: &str = "cards-cluster";
/// Header of every answer: the length of a lease, in milliseconds.
pub(crate) const LEASE: &str = "cards-lease-ms";
/// Longest body of a request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest body of a request for a certificate, in bytes.
pub(crate) const SIGN_BYTES_MAX: usize = 4 << 10;
/// Longest body of an answer that is read, in bytes. A view at all limits of the registry, every character of its
/// policies escaped, has some 40 MiB.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long the server waits for a change before it answers that there was none.
pub(crate) const POLL: Duration = Duration::from_secs(20);

/// Body of an answer that is neither what was asked for nor a refusal.
#[derive(Serialize, Deserialize)]
pub(crate) struct Problem {
    /// One sentence for an operator.
    pub(crate) error: String,
}

/// Body of a request for a certificate.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sign {
    /// Which token.
    pub(crate) token: TokenId,
    /// Its secret, in base64.
    pub(crate) secret: String,
    /// The name that the machine wants.
    pub(crate) node: String,
    /// Names and addresses of the machine, by which clients that are no nodes will know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
    /// The public half of its key, in base64.
    pub(crate) key: String,
}

/// Body of a node's request for a certificate: of the key and for the hosts of that which it has shown.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renewal {
    /// The name of the node.
    pub(crate) node: String,
}
