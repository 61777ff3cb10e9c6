//! Where the API of a daemon is, and what needs no session.

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{GroupListing, GroupState, Listing, OpenSession, SessionState};
use crate::http::Address;
use crate::{Error, Session};

/// How long a request may take that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(30);

/// The API of one daemon. Cheap to clone; connects for each request.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
}

impl Client {
    /// The API on a unix socket: `api.sock` in the daemon's `runtime_dir`.
    #[must_use]
    pub fn unix(path: impl AsRef<Path>) -> Self {
        Self { address: Address::Unix(path.as_ref().into()) }
    }

    /// The API at `host:port`, with the token of its `token_file`, in the clear: whoever is in between has the token.
    #[must_use]
    pub fn tcp(address: &str, token: &str) -> Self {
        Self { address: Address::Tcp { address: address.into(), token: token.into(), trust: None } }
    }

    /// The same over TLS, at a node whose certificate is for this host and signed by one of the authorities in a file:
    /// `identity/authority.pem` of any node.
    ///
    /// # Errors
    /// The file cannot be read or holds something else.
    pub fn tls(address: &str, token: &str, authorities: impl AsRef<Path>) -> Result<Self, Error> {
        let file = authorities.as_ref();
        let trust =
            cards_tls::Trust::read(file).map_err(|error| Error::Trust { reason: error.to_string() })?;
        Ok(Self {
            address: Address::Tcp { address: address.into(), token: token.into(), trust: Some(trust) },
        })
    }

    /// Opens a session that is closed when it was silent for `ttl`, 1 s to 1 h: what it holds is free then. It keeps
    /// itself alive by a task of the runtime this is called on.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn session(&self, name: &str, ttl: Duration) -> Result<Session, Error> {
        let ttl_ms = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let sent = crate::clock::Moment::now();
        let open = OpenSession { name: name.into(), ttl_ms };
        let state: SessionState = self.post("/v1/locks/sessions", &open).await?;
        Ok(Session::start(self.clone(), &state, sent))
    }

    /// All that the node knows.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn list(&self) -> Result<Listing, Error> {
        self.get("/v1/locks").await
    }

    /// What the node knows of a session.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn list_session(&self, session: &str) -> Result<Listing, Error> {
        self.get(&format!("/v1/locks?session={session}")).await
    }

    /// What the node knows of a volume, or of a range of it: offset and length.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn list_volume(&self, volume: &str, range: Option<(u64, u64)>) -> Result<Listing, Error> {
        let range =
            range.map_or_else(String::new, |(offset, length)| format!("&offset={offset}&length={length}"));
        self.get(&format!("/v1/locks?volume={volume}{range}")).await
    }

    /// What the node knows of a group.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn show(&self, group: &str) -> Result<GroupListing, Error> {
        self.get(&format!("/v1/locks/groups/{group}")).await
    }

    /// Only reads from now on what a group of any session of the node writes. For whoever holds it: another holder
    /// would go on writing.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses, for instance because the group is not held any more.
    pub async fn downgrade(&self, session: &str, group: &str) -> Result<GroupState, Error> {
        self.post(&format!("/v1/locks/sessions/{session}/groups/{group}/downgrade"), &()).await
    }

    /// Releases a group of any session of the node.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn release(&self, session: &str, group: &str) -> Result<(), Error> {
        let path = format!("/v1/locks/sessions/{session}/groups/{group}");
        let _: Nothing = self.call(Method::DELETE, &path, &(), Some(PATIENCE)).await?;
        Ok(())
    }

    /// Closes a session of the node; its groups are released.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses.
    pub async fn close(&self, session: &str) -> Result<(), Error> {
        let path = format!("/v1/locks/sessions/{session}");
        let _: Nothing = self.call(Method::DELETE, &path, &(), Some(PATIENCE)).await?;
        Ok(())
    }

    async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, Error> {
        self.call(Method::GET, path, &(), Some(PATIENCE)).await
    }

    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, Error> {
        self.call(Method::POST, path, body, Some(PATIENCE)).await
    }

    pub(crate) async fn call<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<A, Error> {
        self.address.call(method, path, body, limit).await
    }
}

/// An answer that says nothing more.
#[derive(serde::Deserialize)]
pub(crate) struct Nothing {}
