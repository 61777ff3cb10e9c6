//! A small blocking client of the admin socket.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{Attach, Limit};
use serde::Deserialize as _;

use super::{
    Activity, Cluster, Forgotten, ManagedDisk, NewVolume, PinOrder, Pins, Policies, PolicyOrder,
    REPLY_BYTES_MAX, Recorded, Recording, Refusal, Reply, Request, Samples, Scrubbed, Spans, Status, Volume,
    Warmed, Why, to_line,
};

/// How long a request may take, if not said otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the admin socket of a daemon.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

/// A request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or the socket cannot be reached.
    #[error("{}: {source}; {}", path.display(), remedy(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The connection broke, or the daemon did not answer in time.
    #[error("{}: {}", path.display(), io_error(source))]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The answer is none.
    #[error("{}: the answer is not understood ({reason}); are daemon and client of the same version?", path.display())]
    BadReply {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What has happened to a connection, and what to do.
fn io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut => {
            "the daemon takes connections and does not answer: it stands still, or has too much to \
                                         do; see its log, and whether it was stopped (SIGSTOP, a debugger)"
                .into()
        }
        _ => format!("{error}; see the daemon's log"),
    }
}

/// What to do about a socket that cannot be reached.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "only the daemon's user and root may use it: run this as one of them (sudo)"
        }
        _ => {
            "is the daemon running? (`systemctl start cards`, or `cards serve --config /etc/cards/node.toml`; --socket names another one)"
        }
    }
}

/// The other end of a [`Client`]'s requests, see [`Client::hang_up`].
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl HangUp {
    /// Ends the connection.
    pub fn now(&self) {
        // It fails if the daemon has hung up before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Client {
    /// Connects to the socket at `path`. Requests may take 10 s.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        Self::connect_within(path, TIMEOUT)
    }

    /// Connects to the socket at `path`; each request may take `timeout`, which is not zero.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect_within(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let connect = |source| ClientError::Connect { path: path.into(), source };
        let stream = UnixStream::connect(path).map_err(connect)?;
        stream.set_read_timeout(Some(timeout)).map_err(connect)?;
        stream.set_write_timeout(Some(timeout)).map_err(connect)?;
        Ok(Self { path: path.into(), stream: BufReader::new(stream) })
    }

    /// What ends a request of this client from another thread: it fails then.
    ///
    /// # Errors
    /// There is no descriptor for it.
    pub fn hang_up(&self) -> Result<HangUp, ClientError> {
        let stream = self.stream.get_ref().try_clone();
        stream.map(HangUp).map_err(|source| ClientError::Io { path: self.path.clone(), source })
    }

    /// Everything about the node.
    ///
    /// # Errors
    /// [`ClientError`]; of a daemon that does not serve yet a refusal.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let status = self.status_of_start()?;
        status.refusal().map_or(Ok(status), |refusal| Err(refusal.into()))
    }

    /// Everything about the node, also if the daemon does not serve yet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status_of_start(&mut self) -> Result<Status, ClientError> {
        match self.call(&Request::Status {})? {
            Reply::Status(status) => Ok(*status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The status of every node of the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cluster(&mut self) -> Result<Cluster, ClientError> {
        match self.call(&Request::Cluster {})? {
            Reply::Cluster(cluster) => Ok(*cluster),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Which way a read at `offset` bytes of a volume would take.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn why(&mut self, volume: &str, offset: u64) -> Result<Why, ClientError> {
        match self.call(&Request::Why { volume: volume.into(), offset })? {
            Reply::Why(why) => Ok(*why),
            other => Err(self.unexpected(&other)),
        }
    }

    /// All volumes the node knows.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn volumes(&mut self) -> Result<Vec<Volume>, ClientError> {
        match self.call(&Request::VolumeList {})? {
            Reply::Volumes(volumes) => Ok(volumes),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The volume `name`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn volume(&mut self, name: &str) -> Result<Volume, ClientError> {
        match self.call(&Request::VolumeShow { volume: name.into() })? {
            Reply::Volume(volume) => Ok(*volume),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The managed disks of the cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn managed_disks(&mut self) -> Result<Vec<ManagedDisk>, ClientError> {
        match self.call(&Request::ManagedDisks {})? {
            Reply::ManagedDisks(disks) => Ok(disks),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Creates a volume over managed disks of several nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create_volume(&mut self, new: NewVolume) -> Result<(), ClientError> {
        self.done(&Request::CreateVolume(new))
    }

    /// Removes a volume over managed disks of several nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn remove_volume(&mut self, name: &str) -> Result<(), ClientError> {
        self.done(&Request::RemoveVolume { volume: name.into() })
    }

    /// Has a volume over managed disks become larger.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn resize_volume(&mut self, name: &str, size: u64) -> Result<(), ClientError> {
        self.done(&Request::ResizeVolume { volume: name.into(), size })
    }

    /// Has a volume that becomes larger keep the size that it has.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cancel_resize(&mut self, name: &str) -> Result<(), ClientError> {
        self.done(&Request::CancelResize { volume: name.into() })
    }

    /// Has a copy of a volume replaced by one on another managed disk.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn replace_copy(&mut self, name: &str, from: &str, to: Option<&str>) -> Result<(), ClientError> {
        self.done(&Request::ReplaceCopy { volume: name.into(), from: from.into(), to: to.map(Into::into) })
    }

    /// Gives up all histories of a volume but the one of a node's copy.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn force_volume(&mut self, name: &str, node: &str, epoch: u64) -> Result<(), ClientError> {
        self.done(&Request::ForceVolume { volume: name.into(), node: node.into(), epoch })
    }

    /// Attaches a volume.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn attach(&mut self, card: Attach) -> Result<(), ClientError> {
        self.done(&Request::attach(card))
    }

    /// Detaches the volume `name`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn detach(&mut self, name: &str) -> Result<(), ClientError> {
        self.done(&Request::Detach { volume: name.into() })
    }

    /// Limits what clients may have of the volume of this name here, or of the node; without a limit, any amount.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn limit(&mut self, volume: Option<&str>, limit: Option<Limit>) -> Result<(), ClientError> {
        self.done(&Request::Limit { volume: volume.map(Into::into), limit })
    }

    /// Empties the node's cache.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn drop_caches(&mut self) -> Result<(), ClientError> {
        self.done(&Request::DropCaches {})
    }

    /// Asks the daemon to drain and exit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn shutdown(&mut self) -> Result<(), ClientError> {
        self.done(&Request::Shutdown {})
    }

    /// Asks the node to leave the cluster and its daemon to exit; by `force` also if somebody needs it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn leave(&mut self, force: bool) -> Result<(), ClientError> {
        self.done(&Request::Leave { force })
    }

    /// Has the record of a member dropped that is dead or has left; with its disks only if that is wished.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn forget(&mut self, node: &str, with_disks: bool) -> Result<Forgotten, ClientError> {
        match self.call(&Request::Forget { node: node.into(), with_disks })? {
            Reply::Forgotten(forgotten) => Ok(forgotten),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Has the node's certificate renewed now; says when the new one ends, in seconds since 1970 (UTC).
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn renew_certificate(&mut self) -> Result<u64, ClientError> {
        match self.call(&Request::RenewCertificate {})? {
            Reply::Renewed { certificate_ends_s } => Ok(certificate_ends_s),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Has a certificate (PEM) good for nothing from now on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn revoke_certificate(&mut self, certificate: String) -> Result<(), ClientError> {
        self.done(&Request::RevokeCertificate { certificate })
    }

    /// Begins to record what clients ask the node for. The recording lasts as long as this connection.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn record(&mut self) -> Result<Recording, ClientError> {
        match self.call(&Request::Record {})? {
            Reply::Recording(recording) => Ok(recording),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What has been recorded since the last call.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn take_recorded(&mut self) -> Result<Recorded, ClientError> {
        match self.call(&Request::TakeRecorded {})? {
            Reply::Recorded(recorded) => Ok(recorded),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Samples of what clients of all nodes ask of the volume `name`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn samples(&mut self, name: &str) -> Result<Samples, ClientError> {
        match self.call(&Request::Sample { volume: name.into() })? {
            Reply::Samples(samples) => Ok(*samples),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What happened to a sample of the requests, or to the one called `trace`, at all nodes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn spans(&mut self, trace: Option<&str>) -> Result<Spans, ClientError> {
        match self.call(&Request::Spans { trace: trace.map(Into::into) })? {
            Reply::Spans(spans) => Ok(*spans),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Fetches ranges of the volume `name`, offsets and lengths in bytes, into the node's cache.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn warm(&mut self, name: &str, ranges: &[(u64, u64)]) -> Result<Warmed, ClientError> {
        self.warmed(Request::Warm { volume: name.into(), ranges: ranges.into(), node: None })
    }

    /// The same, into the cache of the member `node`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn warm_at(&mut self, node: &str, name: &str, ranges: &[(u64, u64)]) -> Result<Warmed, ClientError> {
        self.warmed(Request::Warm { volume: name.into(), ranges: ranges.into(), node: Some(node.into()) })
    }

    fn warmed(&mut self, request: Request) -> Result<Warmed, ClientError> {
        match self.call(&request)? {
            Reply::Warmed(warmed) => Ok(warmed),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Has the node read a part of a volume from its managed disk, and compare it with its checksums.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn scrub(&mut self, volume: &str, offset: u64, length: u64) -> Result<Scrubbed, ClientError> {
        match self.call(&Request::Scrub { volume: volume.into(), offset, length })? {
            Reply::Scrubbed(scrubbed) => Ok(scrubbed),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Does what `order` says about the blocks that stay in the cache of the member `node`, or of the node itself; what stays then.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pins(&mut self, node: Option<&str>, order: PinOrder) -> Result<Pins, ClientError> {
        match self.call(&Request::Pins { order, node: node.map(Into::into) })? {
            Reply::Pins(pins) => Ok(pins),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Does what `order` says about policies of users and of volumes; what there is then.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn policies(&mut self, order: PolicyOrder) -> Result<Policies, ClientError> {
        match self.call(&Request::Policies { order })? {
            Reply::Policies(policies) => Ok(*policies),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Holds all messages about blocks that the node has for its peers, as long as this connection lasts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn hold(&mut self) -> Result<(), ClientError> {
        self.done(&Request::Hold {})
    }

    /// Sets what policies take for the time while this connection holds the messages, in ms.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn policy_clock(&mut self, ms: u64) -> Result<(), ClientError> {
        self.done(&Request::PolicyClock { ms })
    }

    /// Lets the next held message to a member leave.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn release(&mut self, to: u16) -> Result<(), ClientError> {
        self.done(&Request::Release { to })
    }

    /// Asks what is under way; [`Self::activity`] reads the answer. So several nodes are asked at the same time.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn ask_activity(&mut self) -> Result<(), ClientError> {
        self.send(&Request::Activity {})
    }

    /// The answer to [`Self::ask_activity`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn activity(&mut self) -> Result<Activity, ClientError> {
        match self.receive()? {
            Reply::Activity(activity) => Ok(activity),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends `request` and reads its reply; a [`Reply::Error`] becomes [`ClientError::Refused`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn call(&mut self, request: &Request) -> Result<Reply, ClientError> {
        self.send(request)?;
        self.receive()
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let sent = self.stream.get_mut().write_all(&to_line(request));
        sent.map_err(|source| ClientError::Io { path: self.path.clone(), source })
    }

    fn receive(&mut self) -> Result<Reply, ClientError> {
        let io = |path: &Path, source| ClientError::Io { path: path.into(), source };
        let mut line = Vec::new();
        let mut bounded = self.stream.by_ref().take(REPLY_BYTES_MAX as u64);
        bounded.read_until(b'\n', &mut line).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => io(&self.path, std::io::ErrorKind::TimedOut.into()),
            _ => io(&self.path, e),
        })?;
        if line.last() != Some(&b'\n') {
            let reason = if line.len() == REPLY_BYTES_MAX { "longer than 64 MiB" } else { "it ends early" };
            return Err(self.bad_reply(reason));
        }
        let mut json = serde_json::Deserializer::from_slice(&line);
        match Reply::deserialize(&mut json).and_then(|reply| json.end().map(|()| reply)) {
            Ok(Reply::Error(refusal)) => Err(refusal.into()),
            Ok(reply) => Ok(reply),
            Err(e) => Err(self.bad_reply(&e.to_string())),
        }
    }

    fn done(&mut self, request: &Request) -> Result<(), ClientError> {
        match self.call(request)? {
            Reply::Done {} => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn unexpected(&self, reply: &Reply) -> ClientError {
        let kind = match reply {
            Reply::Status(_) => "status",
            Reply::Cluster(_) => "cluster",
            Reply::Why(_) => "why",
            Reply::Volumes(_) => "volumes",
            Reply::ManagedDisks(_) => "managed_disks",
            Reply::Volume(_) => "volume",
            Reply::Activity(_) => "activity",
            Reply::Recording(_) => "recording",
            Reply::Recorded(_) => "recorded",
            Reply::Watching(_) => "watching",
            Reply::Samples(_) => "samples",
            Reply::Spans(_) => "spans",
            Reply::Scrubbed(_) => "scrubbed",
            Reply::Warmed(_) => "warmed",
            Reply::Pins(_) => "pins",
            Reply::Policies(_) => "policies",
            Reply::Forgotten(_) => "forgotten",
            Reply::Renewed { .. } => "renewed",
            Reply::Done {} => "done",
            Reply::Error(_) => "error",
        };
        self.bad_reply(&format!("{kind:?} answers another request"))
    }

    fn bad_reply(&self, reason: &str) -> ClientError {
        ClientError::BadReply { path: self.path.clone(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::RefusalKind;

    /// A daemon that reads one request and answers with `reply`, then hangs up.
    fn answer(reply: &[u8]) -> Result<Vec<Volume>, ClientError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(reply).unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        client.volumes()
    }

    #[test]
    fn replies_are_understood() {
        assert_eq!(answer(b"{\"volumes\":[]}\n").unwrap(), []);
    }

    #[test]
    fn a_refusal_is_an_error_with_its_kind() {
        let error = answer(b"{\"error\":{\"kind\":\"busy\",\"message\":\"n2 writes it\"}}\n").unwrap_err();
        assert!(matches!(&error, ClientError::Refused(refusal) if refusal.kind == RefusalKind::Busy));
        assert_eq!(error.to_string(), "n2 writes it");
    }

    #[test]
    fn nonsense_is_an_error() {
        for reply in
            [&b"{}\n"[..], b"", b"{\"volumes\":[]}", b"{\"done\":{}}\n", b"{\"done\":{}} x\n", b"\xff\n"]
        {
            assert!(matches!(answer(reply), Err(ClientError::BadReply { .. })), "{reply:?}");
        }
    }

    #[test]
    fn silence_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect_within(&path, Duration::from_millis(20)).unwrap();
        assert!(matches!(client.status(), Err(ClientError::Io { .. })));
    }

    #[test]
    fn a_missing_daemon_is_named() {
        let error = Client::connect(Path::new("/nonexistent/admin.sock")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/admin.sock") && error.contains("cards serve"), "{error}");
    }
}
