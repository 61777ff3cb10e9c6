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

use cards_wire::register::{FRAME_BYTES_MAX, decode_request, encode_reply};

use crate::admission::{Admission, Office, Unsigned};
use crate::change::{Applied, Change};
use crate::ids::{Epoch, History, Revision};
use crate::kept::Kept;
use crate::local::{Local, NotHere, Published};
use crate::record::Certificate;
use crate::refusal::Refusal;
use crate::registry::NAME_BYTES_MAX;
use crate::remote::Seen;
use crate::wire::{
    CHANGED, CLUSTER, FRAME, HISTORY, KEPT, KEPT_BY, LEASE, Problem, REGISTER, RENEW, REQUEST_BYTES_MAX,
    Renewal, SEEN, SIGN, SIGN_BYTES_MAX, SUBMIT, Sign, VIEW,
};

use super::Bounds;
use super::documents::{self, Latest};

/// Requests that use the registry at a time. It takes one after the other anyway, and each that waits for it holds a
/// thread that the rest of the process may need.
const TURNS: usize = 4;
/// Long frames of the register that are received at a time: one may have the whole registry.
const FRAMES: usize = 4;
/// How long a caller waits for this node to lead, if no other one does. Less than callers wait.
const ELECTION: Duration = Duration::from_millis(600);
/// Pause before it is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// How often the log hears of requests that are not for their callers.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Where requests are answered.
#[derive(Debug)]
pub(super) struct Desk {
    registry: Local,
    /// Which certificates are good.
    identity: Option<Identity>,
    office: Option<Office>,
    /// The node that has the cluster's authority.
    authority: Option<Name>,
    turns: Semaphore,
    frames: Semaphore,
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
    /// What an arbiter replies.
    Frame(Bytes),
    /// This node does not lead the registry: in words.
    Elsewhere(String),
    /// Nothing has changed.
    Same,
    /// A refusal.
    Refused(Bytes),
    /// Something else, in words.
    Problem(StatusCode, String),
}

impl Desk {
    pub(super) fn new(
        registry: Local,
        identity: Option<Identity>,
        (office, authority): (Option<Office>, Option<Name>),
        bounds: Bounds,
        documents: watch::Receiver<Latest>,
        halted: watch::Receiver<bool>,
    ) -> Self {
        Self {
            registry,
            identity,
            office,
            authority,
            turns: Semaphore::const_new(TURNS),
            frames: Semaphore::const_new(FRAMES),
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
            (Caller::Anybody | Caller::Node(_), SUBMIT | REGISTER) => Some("POST"),
            (Caller::Anybody | Caller::Node(_), VIEW | CHANGED | KEPT_BY) => Some("GET"),
            (Caller::Node(_), RENEW) => Some("POST"),
            _ => None,
        };
        let reply = self.reply(request, allowed, caller).await;
        let content = if matches!(reply, Reply::Frame(_)) { FRAME } else { "application/json" };
        let (status, body) = match reply {
            Reply::Json(body) | Reply::Frame(body) => (StatusCode::OK, body),
            Reply::Elsewhere(error) => (StatusCode::SERVICE_UNAVAILABLE, json(&Problem { error })),
            Reply::Same => (StatusCode::NO_CONTENT, Bytes::new()),
            Reply::Refused(body) => (StatusCode::CONFLICT, body),
            Reply::Problem(status, error) => (status, json(&Problem { error })),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
        let lease_ms = u64::try_from(self.registry.lease().as_millis()).unwrap_or(u64::MAX);
        headers.insert(LEASE, lease_ms.into());
        // The name of a cluster has only characters that a header can have.
        if let Ok(cluster) = HeaderValue::from_str(self.registry.cluster()) {
            headers.insert(CLUSTER, cluster);
        }
        // Machines that are no nodes yet learn nothing of the cluster.
        if !matches!(caller, Caller::Machine) {
            let kept = self.kept();
            // Names and addresses of members have only such characters.
            if let Ok(kept) = HeaderValue::from_bytes(&json(&kept)) {
                headers.insert(KEPT, kept);
            }
            if let Some(history) =
                kept.history.and_then(|history| HeaderValue::from_str(&history.to_string()).ok())
            {
                headers.insert(HISTORY, history);
            }
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
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let follows = header(HISTORY).and_then(|history| history.parse::<History>().ok());
        if let (Some(follows), Some(own)) = (follows, self.registry.history())
            && follows != own
        {
            let theirs = header(KEPT).and_then(|kept| serde_json::from_str::<Kept>(kept).ok());
            if let Some(kept) = theirs.filter(|kept| kept.history == Some(follows))
                && kept.has_succeeded(Some(own))
            {
                self.registry.is_succeeded(kept);
                return Reply::Elsewhere(
                    "another registry has succeeded the one that this node has kept; ask again".into(),
                );
            }
            if !self.kept().has_succeeded(Some(follows)) {
                self.registry.met_stranger();
            }
            let error = format!(
                "the caller follows registry {follows}, and this node registry {own} of a cluster of the same name"
            );
            return Reply::Problem(StatusCode::GONE, error);
        }
        // A store that was found to be an old copy is put aside by what the caller knows of those that keep a later one.
        if let Some(kept) = header(KEPT).and_then(|kept| serde_json::from_str::<Kept>(kept).ok()) {
            self.registry.hear_of(kept);
        }
        // What was seen of a registry without a name says nothing of this one.
        let seen = header(SEEN).filter(|_| follows.is_some()).map(seen).unwrap_or_default();
        match (request.uri().path(), caller) {
            (SIGN, _) => self.sign(request).await,
            (RENEW, Caller::Node(shown)) => self.renew(request, shown).await,
            (SUBMIT, _) => self.submit(request, caller, seen).await,
            (REGISTER, _) => self.decide(request).await,
            (KEPT_BY, _) => Reply::Json(json(&self.kept())),
            (VIEW, _) => self.view(seen).await,
            _ => self.changed(request.uri().query(), seen).await,
        }
    }

    /// Who keeps the registry, as far as this node knows.
    fn kept(&self) -> Kept {
        Kept { history: self.registry.history(), ..self.registry.kept() }
    }

    /// The arbiter's part.
    async fn decide(&self, request: Request<Incoming>) -> Reply {
        // Short ones wait for nobody: who leads has a term to be confirmed in, and four bodies that do not come must not end it.
        let bytes = request.body().size_hint().upper();
        let is_short = bytes.is_some_and(|bytes| bytes <= REQUEST_BYTES_MAX as u64);
        let _turn = if is_short { None } else { Some(self.frames.acquire().await) };
        let body = match self.body(request, FRAME_BYTES_MAX, "frame of a register").await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let request = match decode_request(&body) {
            Ok(request) => request,
            Err(error) => return bad(format!("the body is no request to an arbiter: {error}")),
        };
        match self.registry.decide(request).await.map(|reply| encode_reply(&reply)) {
            Some(Ok(reply)) => Reply::Frame(reply.into()),
            Some(Err(error)) => failed(error.to_string()),
            None => Reply::Same,
        }
    }

    /// What this node does while it leads. If nobody is known to lead, it may in a moment.
    async fn here(&self, shown: Option<Certificate>, change: Change, seen: Seen) -> Result<Applied, Reply> {
        let began = Instant::now();
        loop {
            let not = match self.registry.submit_here(shown.clone(), change.clone(), seen).await {
                Ok(applied) => return Ok(applied),
                Err(NotHere::Refused(refusal)) => return Err(Reply::Refused(json(&refusal))),
                Err(not) => not,
            };
            let leader = self.registry.kept().leader;
            let other = leader.filter(|leader| Some(&leader.address) != self.registry.own_address());
            let waits = not == NotHere::NotLeader && other.is_none() && began.elapsed() < ELECTION;
            if !waits {
                return Err(Reply::Elsewhere(match (not, other) {
                    (NotHere::Failed, _) => {
                        let problems = self.registry.problems();
                        problems
                            .first()
                            .cloned()
                            .unwrap_or_else(|| "this node keeps no part of the registry".into())
                    }
                    (NotHere::Unknown, _) => {
                        "the registry has another leader now; ask again, which is safe".into()
                    }
                    (NotHere::Busy, _) => "too many changes wait; ask again".into(),
                    (_, Some(other)) => format!("{other} leads the registry, as far as this node knows"),
                    (_, None) => "this node does not lead the registry, and knows nobody who does".into(),
                }));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for a document, or until this node does not lead any more.
    async fn document(&self, wanted: impl Fn(Revision) -> bool) -> Reply {
        let mut published = self.registry.published();
        tokio::select! {
            found = documents::wait(self.documents.clone(), wanted) => match found {
                Some(document) => Reply::Json(document.json),
                None => Reply::Elsewhere("the coordinator is stopping; ask again".to_owned()),
            },
            _ = published.wait_for(|Published { view, .. }| view.is_none()) => {
                Reply::Elsewhere("this node does not lead the registry any more".to_owned())
            }
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
            let error = format!(
                "the caller's certificate is not one of node {node:?}: correct `node` and `cluster` in node.toml there, or have the node join again with a \
                 token (`cards cluster token --rejoin {node}` on the keeper's machine)"
            );
            return Reply::Problem(StatusCode::FORBIDDEN, error);
        }
        let Some(office) = &self.office else {
            return failed(
                "this node has no authority that could sign: name the node that has made the cluster (`cards cluster init`) as `node` and `address` \
                 in [coordinator.embedded], or bring its `authority` directory back"
                    .to_owned(),
            );
        };
        let address = match self.registry.view().await {
            Ok(view) => view.members.get(&node).map(|member| member.address.clone()),
            Err(error) => return failed(error.to_string()),
        };
        let _turn = self.signing.acquire().await;
        signed(office.renew(&self.registry, shown, &name, address.as_deref()).await)
    }

    async fn submit(&self, request: Request<Incoming>, caller: &Caller, seen: Seen) -> Reply {
        let body = match self.body(request, REQUEST_BYTES_MAX, "change").await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let change: Change = match serde_json::from_slice(&body) {
            Ok(change) => change,
            Err(e) => return bad(format!("the body is no change: {e}")),
        };
        let is_authority =
            |shown: &Shown| self.authority.as_ref().is_some_and(|authority| shown.is(authority));
        let may_certify = matches!(caller, Caller::Node(shown) if is_authority(shown));
        if matches!(change, Change::Certify { .. }) && !may_certify {
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
        // Renewals wait behind nothing: there are not more of them than members, and they cost no vote.
        let _turn = match change {
            Change::Renew { .. } => None,
            _ => Some(self.turns.acquire().await),
        };
        match self.here(certificate, change, seen).await {
            Ok(applied) => Reply::Json(json(&applied)),
            Err(reply) => reply,
        }
    }

    /// The revision as it is now, after declaring dead who is.
    async fn revision(&self, seen: Seen) -> Result<Revision, Reply> {
        let _turn = self.turns.acquire().await;
        self.here(None, Change::Expire, seen).await.map(|applied| applied.revision)
    }

    async fn view(&self, seen: Seen) -> Reply {
        match self.revision(seen).await {
            Ok(now) => self.document(|revision| revision >= now).await,
            Err(reply) => reply,
        }
    }

    async fn changed(&self, query: Option<&str>, seen: Seen) -> Reply {
        let after = query.and_then(|query| query.strip_prefix("after=")).and_then(|after| after.parse().ok());
        let Some(after) = after.map(Revision) else {
            return bad("the query is not after=N, where N is the last revision seen".to_owned());
        };
        let now = match self.revision(seen).await {
            Ok(now) => now,
            Err(reply) => return reply,
        };
        let mut halted = self.halted.clone();
        // A document is made after its change has been answered: one from before would take the client back.
        let changed = self.document(|revision| revision != after && revision >= now);
        tokio::select! {
            found = timeout(self.bounds.poll, changed) => found.unwrap_or(Reply::Same),
            // Who asks again finds out that nobody is here any more.
            _ = halted.wait_for(|halted| *halted) => Reply::Same,
        }
    }
}

/// An epoch and a revision. What is none says nothing.
fn seen(text: &str) -> Seen {
    let numbers = text
        .split_once(' ')
        .and_then(|(epoch, revision)| Some((epoch.parse().ok()?, revision.parse().ok()?)));
    numbers
        .map(|(epoch, revision)| Seen { epoch: Epoch(epoch), revision: Revision(revision) })
        .unwrap_or_default()
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
    use crate::change::Join;
    use crate::ids::{Epoch, Incarnation, WallClock};
    use crate::local::LocalConfig;
    use crate::registry::Terms;
    use crate::remote::RemoteConfig;
    use crate::seat::Seat;
    use crate::serve::documents::Document;

    #[tokio::test]
    async fn nobody_is_told_of_a_revision_before_the_one_that_a_change_was_answered_with() {
        let directory = tempfile::tempdir().unwrap();
        let own = "127.0.0.1:1".to_owned();
        let remote = RemoteConfig { own: Some(own.clone()), ..RemoteConfig::new(&own, "lab") };
        let alone = LocalConfig::new(&directory.path().join("register"), "keeper", remote);
        let registry = Local::found(alone, &Terms::new("lab")).unwrap();
        let document = |revision| Some(Document { revision: Revision(revision), json: Bytes::new() });
        let (publish, documents) = watch::channel(document(0));
        let (_halt, halted) = watch::channel(false);
        let bounds = Bounds { poll: std::time::Duration::from_millis(20), ..Bounds::default() };
        let desk = Desk::new(registry.clone(), None, (None, None), bounds, documents, halted);
        let join = Change::Join(Join {
            cluster: "lab".into(),
            seat: Seat { name: "a".into(), incarnation: Incarnation(1) },
            address: "a:1".into(),
            clock: WallClock::now(),
            seen: Epoch(0),
            succeeds: None,
        });
        assert_eq!(registry.submit(join).await.unwrap().revision, Revision(1));
        let seen = Seen::default();
        for after in ["after=1", "after=0", "after=77"] {
            assert!(matches!(desk.changed(Some(after), seen).await, Reply::Same), "{after}");
        }
        publish.send_replace(document(1));
        assert!(matches!(desk.view(seen).await, Reply::Json(_)));
        assert!(matches!(desk.changed(Some("after=1"), seen).await, Reply::Same));
        for after in ["after=0", "after=77"] {
            assert!(matches!(desk.changed(Some(after), seen).await, Reply::Json(_)), "{after}");
        }
    }
}
