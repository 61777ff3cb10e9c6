//! NBD endpoints: accept, count, and hand to the data threads in turn.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::error::ServeError;
use crate::lobby::Lobby;
use crate::node::client::Accepted;
use crate::node::{Event, Local, Node};
use cards_disk::Seldom;

/// How long to wait when a connection cannot be accepted (no descriptor, no memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound NBD endpoint.
pub(crate) enum Endpoint {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Binds a TCP address.
///
/// # Errors
/// Why not, with what to do.
pub(crate) fn bind_tcp(key: &'static str, address: &str) -> Result<std::net::TcpListener, ServeError> {
    let failed = |source: io::Error| ServeError::bind(key, address, source);
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Binds a unix socket with the permissions `mode`. What a dead daemon left behind is
/// removed; the socket of one that lives is not.
///
/// # Errors
/// Why not, with what to do.
pub(crate) fn bind_unix(
    key: &'static str,
    path: &Path,
    mode: u32,
) -> Result<std::os::unix::net::UnixListener, ServeError> {
    use std::os::unix::net::UnixStream;
    let failed = |source: io::Error| ServeError::bind(key, &path.display().to_string(), source);
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            return Err(ServeError::NotASocket { key, path: path.into() });
        }
        let denied = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                left_behind(key, path, meta.uid()).unwrap_or_else(|| failed(source))
            }
            _ => failed(source),
        };
        match UnixStream::connect(path) {
            Ok(_) => return Err(failed(io::ErrorKind::AddrInUse.into())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(denied)?;
            }
            Err(error) => return Err(denied(error)),
        }
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
    // Before it listens nobody can connect, so nobody does with other permissions.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket.into())
}

/// That a daemon of another user has left a socket; none if it is this user's.
fn left_behind(key: &'static str, path: &Path, owner: u32) -> Option<ServeError> {
    // SAFETY: takes nothing and gives a number.
    let uid = unsafe { libc::geteuid() };
    (owner != uid).then(|| ServeError::LeftBehind { key, path: path.into(), owner, uid })
}

/// Binds the endpoints of the configuration; the paths of unix sockets go to `sockets`.
///
/// # Errors
/// The first that cannot be bound.
pub(crate) fn bind(nbd: &cards_config::Nbd, sockets: &mut Vec<PathBuf>) -> Result<Vec<Endpoint>, ServeError> {
    let mut endpoints = Vec::new();
    if let Some(path) = &nbd.unix {
        endpoints.push(Endpoint::Unix(bind_unix("nbd.unix", path, 0o660)?));
        sockets.push(path.clone());
    }
    if let Some(address) = &nbd.tcp {
        endpoints.push(Endpoint::Tcp(bind_tcp("nbd.tcp", address)?));
    }
    Ok(endpoints)
}

/// Starts the tasks that accept clients.
///
/// # Errors
/// An endpoint cannot be registered with the runtime.
pub(crate) fn serve(local: &Rc<Local>, endpoints: Vec<Endpoint>) -> io::Result<()> {
    let lobby = Lobby::new(local.node.config.nbd.connections);
    for endpoint in endpoints {
        let acceptor = match endpoint {
            Endpoint::Tcp(listener) => Acceptor::Tcp(TcpListener::from_std(listener)?),
            Endpoint::Unix(listener) => Acceptor::Unix(UnixListener::from_std(listener)?),
        };
        tokio::task::spawn_local(accept(Arc::clone(&local.node), acceptor, Arc::clone(&lobby)));
    }
    Ok(())
}

enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(listener) => Accepted::Tcp(listener.accept().await?.0.into_std()?),
            Self::Unix(listener) => Accepted::Unix(listener.accept().await?.0.into_std()?),
        })
    }
}

async fn accept(node: Arc<Node>, acceptor: Acceptor, lobby: Arc<Lobby>) {
    let mut thread = 0;
    let seldom = Seldom::default();
    loop {
        let accepted = match acceptor.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        if node.draining() {
            return;
        }
        let Some(permit) = lobby.admit(accepted.address()) else {
            if seldom.may() {
                tracing::warn!(
                    "a client was turned away: {} connections are open, which is `nbd.connections`, and all are of clients that are served: end \
                     those that are not needed (`cards status` counts them for each volume), or raise it",
                    node.config.nbd.connections
                );
            }
            continue;
        };
        node.threads[thread].post(Event::Client(accepted, permit));
        thread = (thread + 1) % node.threads.len();
    }
}
