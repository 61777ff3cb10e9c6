//! From a request to its answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cards_tls::{Identity, Name, Shown};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::admission::{Admission, Office, Unsigned};
use crate::change::Change;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::ids::Revision;
use crate::record::Certificate;
use crate::refusal::Refusal;
use crate::registry::NAME_BYTES_MAX;
use crate::wire::{
    CHANGED, CLUSTER, LEASE, Problem, RENEW, REQUEST_BYTES_MAX, Renewal, SIGN, SIGN_BYTES_MAX, SUBMIT, Sign,
    VIEW,
};

use super::Bounds;
use super::documents::{self, Latest};

/// Requests that use the registry at a time. It takes one after the other anyway, and each that waits for it holds a
/// thread that the rest of the process may need.
const TURNS: usize = 4;

/// How often the log hears of requests that are not for their callers.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Where requests are answered.
#[derive(Debug)]
pub(super) struct Desk {
    registry: Embedded,
    /// Which certificates are good.
    identity: Option<Identity>,
    office: Option<Office>,
    turns: Semaphore,
    /// One certificate at a time: that whoever uses the tokens stands still keeps nobody from the registry.
    signing: Arc<Semaphore>,
    /// When the log has last heard of a request that was not for its caller.
    said: Mutex<Option<Instant>>,
    bounds: Bounds,
    documents: watch::Receiver<Latest>,
    halted: watch::Receiver<bool>,
}

/// Who asks.
pub(super) enum Caller {
    /// Nobody proves anything here.
    Anybody,
    /// A node that has shown this.
    Node(Shown),
    /// A machine that wants to be a node, and has shown nothing.
    Machine,
}

/// What a request comes to.
enum Reply {
    /// What was asked for.
    Json(Bytes),
    /// Nothing has changed.
    Same,
    /// A refusal.
    Refused(Bytes),
    /// Something else, in words.
    Problem(StatusCode, String),
}

impl Desk {
    pub(super) fn new(
        registry: Embedded,
        identity: Option<Identity>,
        office: Option<Office>,
        bounds: Bounds,
        documents: watch::Receiver<Latest>,
        halted: watch::Receiver<bool>,
    ) -> Self {
        Self {
            registry,
            identity,
            office,
            turns: Semaphore::const_new(TURNS),
            signing: Arc::new(Semaphore::const_new(1)),
            said: Mutex::new(None),
            bounds,
            documents,
            halted,
        }
    }

    /// The certificate of a caller is good for nothing.
    pub(super) fn has_revoked(&self, caller: &Caller) -> bool {
        match (caller, &self.identity) {
            (Caller::Node(shown), Some(identity)) => shown.key().is_none_or(|key| identity.has_revoked(&key)),
            _ => false,
        }
    }

    /// Waits until it is.
    pub(super) async fn revoked(&self, caller: &Caller) {
        match (caller, &self.identity) {
            (Caller::Node(shown), Some(identity)) if let Some(key) = shown.key() => {
                identity.revoked(&key).await
            }
            _ => std::future::pending().await,
        }
    }

    pub(super) const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Answers a caller what that may ask for, and nothing else.
    pub(super) async fn answer(&self, request: Request<Incoming>, caller: &Caller) -> Response<Full<Bytes>> {
        let allowed = match (caller, request.uri().path()) {
            (Caller::Machine, SIGN) => Some("POST"),
            (Caller::Machine, _) => None,
            (Caller::Anybody | Caller::Node(_), SUBMIT) => Some("POST"),
            (Caller::Anybody | Caller::Node(_), VIEW | CHANGED) => Some("GET"),
            (Caller::Node(_), RENEW) => Some("POST"),
            _ => None,
        };
        let reply = self.reply(request, allowed, caller).await;
        let (status, body) = match reply {
            Reply::Json(body) => (StatusCode::OK, body),
            Reply::Same => (StatusCode::NO_CONTENT, Bytes::new()),
            Reply::Refused(body) => (StatusCode::CONFLICT, body),
            Reply::Problem(status, error) => (status, json(&Problem { error })),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let lease_ms = u64::try_from(self.registry.lease().as_millis()).unwrap_or(u64::MAX);
        headers.insert(LEASE, lease_ms.into());
        // The name of a cluster has only characters that a header can have.
        if let Ok(cluster) = HeaderValue::from_str(self.registry.cluster()) {
            headers.insert(CLUSTER, cluster);
        }
        if let (StatusCode::METHOD_NOT_ALLOWED, Some(method)) = (status, allowed) {
            headers.insert(ALLOW, HeaderValue::from_static(method));
        }
        // The rest of such a body is not waited for.
        if matches!(status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn reply(
        &self,
        request: Request<Incoming>,
        allowed: Option<&'static str>,
        caller: &Caller,
    ) -> Reply {
        let Some(allowed) = allowed else {
            let error = match caller {
                Caller::Machine => format!("who is no node yet can use POST {SIGN} only"),
                Caller::Anybody | Caller::Node(_) => {
                    format!("there is no such path; use POST {SUBMIT}, GET {VIEW} or GET {CHANGED}?after=N")
                }
            };
            return Reply::Problem(StatusCode::NOT_FOUND, error);
        };
        if request.method().as_str() != allowed {
            let error = format!("this path takes {allowed} only");
            return Reply::Problem(StatusCode::METHOD_NOT_ALLOWED, error);
        }
        let cluster = self.registry.cluster();
        match request.headers().get(CLUSTER) {
            Some(wanted) if wanted == cluster => {}
            Some(_) => {
                let error = format!(
                    "this is the coordinator of cluster `{cluster}`; correct the address or the cluster's name"
                );
                return Reply::Problem(StatusCode::MISDIRECTED_REQUEST, error);
            }
            None => return bad(format!("the header `{CLUSTER}` is missing; it names the cluster")),
        }
        if let Caller::Node(shown) = caller
            && self.has_revoked(caller)
        {
            return Reply::Refused(json(&Refusal::Revoked { name: shown.to_string() }));
        }
        match (request.uri().path(), caller) {
            (SIGN, _) => self.sign(request).await,
            (RENEW, Caller::Node(shown)) => self.renew(request, shown).await,
            (SUBMIT, _) => self.submit(request, caller).await,
            (VIEW, _) => self.view().await,
            _ => self.changed(request.uri().query()).await,
        }
    }

    /// The body of a request, if it is as long as that at most.
    async fn body(
        &self,
        request: Request<Incoming>,
        bytes_max: usize,
        what: &'static str,
    ) -> Result<Bytes, Reply> {
        let too_long = || {
            let error = format!("the body is longer than {bytes_max} bytes; no {what} is");
            Reply::Problem(StatusCode::PAYLOAD_TOO_LARGE, error)
        };
        let body = request.into_body();
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_long());
        }
        match timeout(self.bounds.request, Limited::new(body, bytes_max).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_long()),
            Ok(Err(e)) => Err(bad(format!("the body cannot be read: {e}"))),
            Err(_) => {
                let error = format!("the body did not come within {} ms", self.bounds.request.as_millis());
                Err(Reply::Problem(StatusCode::REQUEST_TIMEOUT, error))
            }
        }
    }

    async fn sign(&self, request: Request<Incoming>) -> Reply {
        let body = match self.body(request, SIGN_BYTES_MAX, "request for a certificate").await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        // What does not parse may have a secret: it is not repeated.
        let Ok(asked) = serde_json::from_slice::<Sign>(&body) else {
            return bad("the body is no request for a certificate; run one release on all nodes".to_owned());
        };
        let Some(office) = &self.office else {
            return failed("there is no authority here".to_owned());
        };
        let turn = Arc::clone(&self.signing).acquire_owned().await;
        let (office, registry) = (office.clone(), self.registry.clone());
        // Once begun it comes to its end, also if the connection has to make way meanwhile: a token is not used for nothing.
        // The machine asks again, and is given what was signed for its key.
        let signing = tokio::spawn(async move {
            let _turn = turn;
            let result = office.sign(&registry, &asked).await;
            let Sign { token, node, .. } = asked;
            if result.is_ok() {
                tracing::info!(target: "audit", %token, node, "signed for a machine that joins");
            }
            (result, token, node)
        });
        let (result, token, node) = match signing.await {
            Ok(signed) => signed,
            Err(error) => return failed(error.to_string()),
        };
        if let Err(why) = &result
            && self.may_say()
        {
            let node: String = node.chars().take(64).collect();
            tracing::warn!(target: "audit", %token, node, "not signed for a machine: {why}");
        }
        signed(result)
    }

    /// Whether the log may have another line about a refused caller: requests that repeat must not fill it.
    fn may_say(&self) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let may = said.is_none_or(|said| said.elapsed() > SAY_EVERY);
        if may {
            *said = Some(Instant::now());
        }
        may
    }

    /// Signs anew for a node, in the name that its certificate proves and no other.
    async fn renew(&self, request: Request<Incoming>, shown: &Shown) -> Reply {
        let body = match self.body(request, SIGN_BYTES_MAX, "request for a certificate").await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let Ok(Renewal { node }) = serde_json::from_slice(&body) else {
            return bad("the body is no request for a certificate; run one release on all nodes".to_owned());
        };
        let name = Name::new(self.registry.cluster(), &node);
        if !shown.is(&name) {
            let node: String = node.chars().take(NAME_BYTES_MAX).collect();
            if self.may_say() {
                tracing::warn!("{shown} asks for a certificate in the name of node {node:?}, and gets none");
            }
            let error = format!("the caller's certificate is not one of node {node:?}");
            return Reply::Problem(StatusCode::FORBIDDEN, error);
        }
        let Some(office) = &self.office else {
            return failed("there is no authority here that could sign".to_owned());
        };
        let address = match self.registry.view().await {
            Ok(view) => view.members.get(&node).map(|member| member.address.clone()),
            Err(error) => return failed(error.to_string()),
        };
        let _turn = self.signing.acquire().await;
        signed(office.renew(&self.registry, shown, &name, address.as_deref()).await)
    }

    async fn submit(&self, request: Request<Incoming>, caller: &Caller) -> Reply {
        let body = match self.body(request, REQUEST_BYTES_MAX, "change").await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let change: Change = match serde_json::from_slice(&body) {
            Ok(change) => change,
            Err(e) => return bad(format!("the body is no change: {e}")),
        };
        if matches!(change, Change::Certify { .. }) {
            let error = "the coordinator knows of certificates from those who show them".to_owned();
            return Reply::Problem(StatusCode::FORBIDDEN, error);
        }
        let mut certificate = None;
        if let (Caller::Node(shown), Some(seat)) = (caller, change.seat()) {
            certificate = Certificate::of(shown, &Name::new(self.registry.cluster(), &seat.name));
            if certificate.is_none() {
                let error = format!("the caller's certificate is not one of node `{}`", seat.name);
                return Reply::Problem(StatusCode::FORBIDDEN, error);
            }
        }
        let _turn = self.turns.acquire().await;
        let submitted = match certificate {
            Some(certificate) => self.registry.submit_as(certificate, change).await,
            None => self.registry.submit(change).await,
        };
        match submitted {
            Ok(applied) => Reply::Json(json(&applied)),
            Err(Error::Refused(refusal)) => Reply::Refused(json(&refusal)),
            Err(error) => failed(error.to_string()),
        }
    }

    async fn revision(&self) -> Result<Revision, Reply> {
        let _turn = self.turns.acquire().await;
        self.registry.revision().await.map_err(|error| failed(error.to_string()))
    }

    async fn view(&self) -> Reply {
        let now = match self.revision().await {
            Ok(now) => now,
            Err(reply) => return reply,
        };
        match documents::wait(self.documents.clone(), |revision| revision >= now).await {
            Ok(document) => Reply::Json(document.json),
            Err(error) => failed(error),
        }
    }

    async fn changed(&self, query: Option<&str>) -> Reply {
        let after = query.and_then(|query| query.strip_prefix("after=")).and_then(|after| after.parse().ok());
        let Some(after) = after.map(Revision) else {
            return bad("the query is not after=N, where N is the last revision seen".to_owned());
        };
        let now = match self.revision().await {
            Ok(now) => now,
            Err(reply) => return reply,
        };
        let mut halted = self.halted.clone();
        // A document is made after its change has been answered: one from before would take the client back.
        let changed =
            documents::wait(self.documents.clone(), |revision| revision != after && revision >= now);
        tokio::select! {
            found = timeout(self.bounds.poll, changed) => match found {
                Ok(Ok(document)) => Reply::Json(document.json),
                Ok(Err(error)) => failed(error),
                Err(_) => Reply::Same,
            },
            // Who asks again finds out that nobody is here any more.
            _ = halted.wait_for(|halted| *halted) => Reply::Same,
        }
    }
}

fn signed(signed: Result<Admission, Unsigned>) -> Reply {
    match signed {
        Ok(admission) => Reply::Json(json(&admission)),
        Err(Unsigned::NotAdmitted(why)) => Reply::Refused(json(&why)),
        Err(Unsigned::Malformed(error)) => bad(error),
        Err(Unsigned::Failed(error)) => failed(error),
    }
}

fn bad(error: String) -> Reply {
    Reply::Problem(StatusCode::BAD_REQUEST, error)
}

fn failed(error: String) -> Reply {
    Reply::Problem(StatusCode::INTERNAL_SERVER_ERROR, error)
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("answers have only strings, numbers and lists").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Join, Seat};
    use crate::ids::{Epoch, Incarnation, WallClock};
    use crate::registry::Terms;
    use crate::serve::documents::Document;

    #[tokio::test]
    async fn nobody_is_told_of_a_revision_before_the_one_that_a_change_was_answered_with() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Embedded::create(&directory.path().join("registry"), &Terms::new("lab")).unwrap();
        let document = |revision| Some(Ok(Document { revision: Revision(revision), json: Bytes::new() }));
        let (publish, documents) = watch::channel(document(0));
        let (_halt, halted) = watch::channel(false);
        let bounds = Bounds { poll: std::time::Duration::from_millis(20), ..Bounds::default() };
        let desk = Desk::new(registry.clone(), None, None, bounds, documents, halted);
        let join = Change::Join(Join {
            cluster: "lab".into(),
            seat: Seat { name: "a".into(), incarnation: Incarnation(1) },
            address: "a:1".into(),
            clock: WallClock::now(),
            seen: Epoch(0),
            succeeds: None,
        });
        assert_eq!(registry.submit(join).await.unwrap().revision, Revision(1));
        for after in ["after=1", "after=0", "after=77"] {
            assert!(matches!(desk.changed(Some(after)).await, Reply::Same), "{after}");
        }
        publish.send_replace(document(1));
        assert!(matches!(desk.view().await, Reply::Json(_)));
        assert!(matches!(desk.changed(Some("after=1")).await, Reply::Same));
        for after in ["after=0", "after=77"] {
            assert!(matches!(desk.changed(Some(after)).await, Reply::Json(_)), "{after}");
        }
    }
}
