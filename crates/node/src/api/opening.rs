//! How a connection over TCP begins: with TLS, or in the clear where that is allowed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cards_config::Tls;
use cards_tls::{HandshakeError, Service, Wire};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::lobby::{Lobby, Permit};

/// Connections of one socket that have not begun. When there are more, the oldest of the address that has most has to go.
const BEGINNING_MAX: u32 = 128;
/// How long a connection may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that will not begin may take to hear why.
const FAREWELL: Duration = Duration::from_secs(1);
/// The first byte of TLS, and of no request of HTTP: the type of a record of a handshake.
const HANDSHAKE: u8 = 22;
/// To whoever speaks HTTP where TLS is required: what else it has said is not answered, and may have been overheard.
const SPEAK_TLS: &str = "This port speaks HTTPS only: begin the address with https://, and believe the cluster's authority \
    (curl --cacert authority.pem). A token that was sent in the clear may have been read: change it.\n";

/// What a socket demands of those who connect.
pub(super) struct Opening {
    tls: Tls,
    service: Option<Service>,
    lobby: Arc<Lobby>,
}

impl Opening {
    pub(super) fn new(tls: Tls, service: Option<Service>) -> Self {
        // Half of a lobby is for those that have not begun; here the others do not count.
        Self { tls, service, lobby: Lobby::new(BEGINNING_MAX * 2) }
    }

    /// A place for a connection that begins.
    pub(super) fn admit(&self, stream: &TcpStream) -> Option<Permit> {
        self.lobby.admit(stream.peer_addr().ok().map(|address| address.ip()))
    }

    /// Leads a connection to where requests follow; none if it does not get there.
    pub(super) async fn begin(&self, stream: TcpStream, place: Permit) -> Option<Wire> {
        let Some(service) = self.service.as_ref().filter(|_| self.tls != Tls::Off) else {
            return Some(Wire::plain(stream));
        };
        let begun = tokio::select! {
            begun = timeout(PATIENCE, self.open(service, stream)) => begun.unwrap_or(Ok(None)),
            () = place.evicted() => Ok(None),
        };
        begun.unwrap_or_else(|error| {
            tracing::debug!(%error, "a connection to the API did not begin");
            None
        })
    }

    async fn open(&self, service: &Service, stream: TcpStream) -> Result<Option<Wire>, HandshakeError> {
        let mut first = [0];
        match stream.peek(&mut first).await? {
            0 => Ok(None),
            _ if first[0] == HANDSHAKE => Ok(Some(service.accept(stream).await?.0)),
            _ if self.tls == Tls::Offered => Ok(Some(Wire::plain(stream))),
            _ => {
                let _ = timeout(FAREWELL, say_no(stream)).await;
                Ok(None)
            }
        }
    }
}

/// Answers in the clear. What the client sends is read past, so that its end of the connection does not break before it has
/// read why.
async fn say_no(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{SPEAK_TLS}",
        SPEAK_TLS.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut rest) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}
