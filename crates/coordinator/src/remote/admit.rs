//! A machine that wants to be a node, asking the keeper to sign.

use std::time::Duration;

use cards_tls::{Fingerprint, Name, PublicKey};
use hyper::StatusCode;
use tokio::time::{Instant, sleep, timeout};

use crate::admission::{Admission, NotAdmitted, Token, base64};
use crate::wire::{Problem, SIGN, Sign};

use super::connection::{Ask, Connection, Failed, Known, Peer, Shows};
use super::{PAUSE, RemoteError, printable};

/// How long a keeper is called that does not answer: nothing has been said to it yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take to begin.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the signature may take.
const ANSWER: Duration = Duration::from_secs(20);

/// Why a machine has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The keeper refuses.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// The keeper could not be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// It was asked, and has not answered.
    #[error(
        "{0}. The token may have one use less by it: `cards cluster token --list` on the keeper's machine says"
    )]
    Unanswered(RemoteError),
}

/// Has the keeper at `address` sign that the owner of a key is `node`, on a machine of these `hosts`. The token is told to nobody else than a node of
/// that name whose certificate the token's authority has signed.
///
/// # Errors
/// The keeper refuses, is another, or does not answer.
pub async fn admit(
    address: &str,
    keeper: &Name,
    token: &Token,
    node: &str,
    hosts: &[String],
    key: &PublicKey,
) -> Result<Admission, AdmitError> {
    let peer = Peer::of(address, &keeper.cluster, Shows::Joins(token.authority, keeper.clone()))?;
    let sign = Sign {
        token: token.id,
        secret: token.secret.sent(),
        node: node.into(),
        hosts: hosts.to_vec(),
        key: base64(key.bytes()),
    };
    let body = serde_json::to_vec(&sign).expect("it has only strings");
    let ask = Ask { path: SIGN.to_owned(), body: Some(body.into()) };
    let mut connection = connect(&peer).await?;
    let answer =
        timeout(ANSWER, connection.exchange(&peer, &ask, Known::default())).await.unwrap_or_else(|_| {
            Err(Failed::Sent(RemoteError::Slow { address: address.into(), timeout_ms: ANSWER.as_millis() }))
        });
    let answer = answer.map_err(|failed| match failed {
        Failed::Final(error) | Failed::Unsent(error) => AdmitError::Remote(error),
        Failed::Sent(error) => AdmitError::Unanswered(error),
    })?;
    let odd = |problem: &str| AdmitError::Remote(peer.odd(problem.to_owned()));
    match answer.status {
        StatusCode::OK => {
            let admission: Admission =
                serde_json::from_slice(&answer.body).map_err(|_| odd("what it says is no certificate"))?;
            match Fingerprint::in_pem(&admission.authority) {
                Some(fingerprint) if fingerprint == token.authority => Ok(admission),
                _ => Err(odd("it gives another authority than the token's")),
            }
        }
        StatusCode::CONFLICT => match serde_json::from_slice::<NotAdmitted>(&answer.body) {
            Ok(why) => Err(why.into()),
            Err(_) => Err(odd("it refuses, for a reason that this release does not know")),
        },
        status => {
            let said = serde_json::from_slice::<Problem>(&answer.body);
            let message =
                said.map_or_else(|_| format!("HTTP status {status}"), |said| printable(&said.error));
            Err(RemoteError::File { address: address.into(), message }.into())
        }
    }
}

/// Calls until somebody answers or the patience ends.
async fn connect(peer: &Peer) -> Result<Connection, RemoteError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match peer.connect(CONNECT).await {
            Ok(connection) => return Ok(connection),
            Err(Failed::Unsent(_)) if Instant::now() + PAUSE < end => sleep(PAUSE).await,
            Err(Failed::Final(error) | Failed::Unsent(error) | Failed::Sent(error)) => return Err(error),
        }
    }
}
