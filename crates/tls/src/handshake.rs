//! A connection that begins: both ends show their certificates before anything else is said.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{Acceptor, ParsedCertificate, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, ExtractedSecrets};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::certificate::Says;
use crate::client::names;
use crate::identity::is_for;
use crate::record::{self, HEADER, RecordError};
use crate::session::{Keys, Secrets};
use crate::settings::{Purpose, client, client_to_join, server, server_to_join};
use crate::wire::Wire;
use crate::{Door, Error, Fingerprint, Identity, Name, PublicKey, check_host};

/// Bytes that an end may send before it has proven itself: some certificates, no more.
const UNPROVEN_MAX: usize = 64 << 10;
/// Bytes that are read at a time.
const READ: usize = 4 << 10;

/// A connection whose other end has proven who it is; only one that is to join has nothing to prove it with.
pub struct Proven {
    /// What it is for.
    pub purpose: Purpose,
    /// Its bytes.
    pub wire: Wire,
    /// Who the other end is.
    pub shown: Shown,
}

/// A certificate whose owner has proven to be that. Who wants to join has shown none, and is no node.
pub struct Shown(Option<CertificateDer<'static>>);

impl Shown {
    pub(crate) fn first_of(chain: Vec<CertificateDer<'static>>) -> Self {
        Self(chain.into_iter().next())
    }

    /// The first certificate of a text (PEM), if it has one. That says nothing of who owns the key.
    #[must_use]
    pub fn in_pem(text: &str) -> Option<Self> {
        CertificateDer::from_pem_slice(text.as_bytes()).ok().map(|shown| Self(Some(shown)))
    }

    fn says(&self) -> Option<Says> {
        Says::of(self.0.as_ref()?)
    }

    /// SHA-256 of its public key.
    #[must_use]
    pub fn key(&self) -> Option<Fingerprint> {
        Some(self.says()?.key)
    }

    /// The key itself, if it is of a kind that the cluster's authority signs for.
    #[must_use]
    pub fn public_key(&self) -> Option<PublicKey> {
        self.says()?.public
    }

    /// When it ends.
    #[must_use]
    pub fn ends(&self) -> Option<SystemTime> {
        Some(self.says()?.ends)
    }

    /// Its first DNS name, in lower case.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        names(self.0.as_ref()?).into_iter().next()
    }

    /// The hosts for which it was signed beside the node's own name.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let hosts = self.says().map(|says| says.hosts).unwrap_or_default();
        hosts.into_iter().filter(|host| check_host(host).is_ok()).collect()
    }

    /// It was signed for this host: a name, in whatever case, or an address.
    #[must_use]
    pub fn is_for_host(&self, host: &str) -> bool {
        let wanted = host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |address| address.to_string());
        self.says().is_some_and(|says| says.hosts.iter().any(|known| known.eq_ignore_ascii_case(&wanted)))
    }

    /// It is this node's.
    #[must_use]
    pub fn is(&self, name: &Name) -> bool {
        let (Some(shown), Ok(dns)) = (&self.0, name.dns()) else { return false };
        ParsedCertificate::try_from(shown).is_ok_and(|shown| is_for(&shown, &dns))
    }
}

impl fmt::Display for Shown {
    /// By its first name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().as_deref().unwrap_or("nobody"))
    }
}

/// Why a connection did not begin.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other end shows nothing that is believed, or believes nothing that is shown to it.
    #[error("{}", explain(.0))]
    Tls(#[from] rustls::Error),
    /// Its certificate was revoked.
    #[error("the certificate of {who} was revoked: {why}")]
    Revoked {
        /// Whose it is.
        who: String,
        /// What has done that.
        why: &'static str,
    },
    /// A caller does not know the cluster.
    #[error(
        "the caller does not name this cluster's authority: it is no member, or it has the identity of another cluster"
    )]
    Door,
    /// A caller wants what is not spoken here.
    #[error("the caller speaks none of the protocols of this port; run one release on all nodes")]
    Purpose,
    /// What came is no TLS, or too much of it.
    #[error("what the other end says is no TLS 1.3 ({0}); has it an identity?")]
    Noise(String),
    /// This node's own identity does not work.
    #[error("{0}")]
    Own(#[from] Error),
}

impl From<RecordError> for HandshakeError {
    fn from(error: RecordError) -> Self {
        Self::Noise(error.to_string())
    }
}

/// What an operator can do about what the library says.
fn explain(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
    if let Error::InvalidCertificate(Certificate::NotValidForNameContext { expected, presented }) = error
        && let Some(told) = other_cluster(&expected.to_str(), presented)
    {
        return told;
    }
    let remedy = match error {
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired, or the clock of this machine is ahead: set the clocks of both by NTP, and have the \
             certificate signed anew if it has ended"
        }
        Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "its certificate is not valid yet: set the clock of this machine by NTP, or that of the machine that has signed it"
        }
        Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature) => {
            "its certificate is not signed by this cluster's authority"
        }
        Error::InvalidCertificate(Certificate::NotValidForNameContext { expected, presented })
            if Name::of(&expected.to_str()).is_none() =>
        {
            return not_named(&expected.to_str(), presented);
        }
        Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => "its certificate is another node's; check the addresses and the `node` key of both",
        Error::InvalidCertificate(
            Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. },
        ) => "its certificate is for something else: a client's is not a node's, nor a node's a client's",
        Error::NoCertificatesPresented => "it shows no certificate: give it an identity of this cluster",
        Error::AlertReceived(Alert::CertificateExpired) => {
            "it says that this node's certificate has expired or is not valid yet: it is the other end's clock, or this node's \
             certificate; set the clocks of both by NTP, and look at the end of the certificate in `cards status`"
        }
        Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::CertificateUnknown) => {
            "it does not believe this node's certificate; do both have the same authority?"
        }
        _ => return error.to_string(),
    };
    format!("{remedy} ({error})")
}

/// That a certificate does not have the host by which a program has called, and what it has.
fn not_named(host: &str, presented: &[String]) -> String {
    let names: Vec<String> = presented.iter().map(|name| bare(name)).collect();
    format!(
        "its certificate does not name {host}, only {}: call it by one of these; a node's certificate gets the host of its \
         `address` when the daemon starts",
        names.join(", ")
    )
}

/// A name of a certificate, which the library writes as `DnsName("n1")` or `IpAddress(10.0.0.1)`.
fn bare(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    let inner = inner.trim_matches('"');
    // Not all addresses are in their usual form there.
    inner.parse::<IpAddr>().map_or_else(|_| inner.to_owned(), |address| address.to_string())
}

/// What to say of a node of another cluster; none if it is of the one that was expected.
fn other_cluster(expected: &str, presented: &[String]) -> Option<String> {
    let expected = Name::of(expected)?;
    let found = presented.iter().find_map(|name| Name::of(&bare(name)))?;
    (found.cluster != expected.cluster).then(|| {
        format!(
            "it is {found}, and {expected} was expected: correct the address, or the name of the cluster (`cluster` in node.toml)"
        )
    })
}

/// Calls a node.
///
/// # Errors
/// It does not answer, is another, or does not believe this one.
pub async fn connect(
    mut stream: TcpStream,
    identity: &Identity,
    purpose: Purpose,
    whom: &Name,
) -> Result<Proven, HandshakeError> {
    let now = identity.now();
    let config = Arc::new(client(&now, purpose, whom)?);
    let end = UnbufferedClientConnection::new(config, named(&now.believed[0].door))?;
    let (chain, keys) = drive(&mut stream, end, &mut Vec::new()).await?;
    let shown = proof(identity, Shown::first_of(chain))?;
    Ok(Proven { purpose, wire: wire(stream, keys, purpose)?, shown })
}

/// Calls a node to become one, with nothing to show: what is known of the cluster is its authority's fingerprint. Nothing
/// but that it is known is said before the other end has proven to be the node.
///
/// # Errors
/// It does not answer, does not keep that authority, or is another.
pub async fn connect_to_join(
    mut stream: TcpStream,
    authority: &Fingerprint,
    whom: &Name,
) -> Result<Wire, HandshakeError> {
    let config = Arc::new(client_to_join(authority, whom)?);
    let end = UnbufferedClientConnection::new(config, named(&Door::of(authority)))?;
    let (chain, keys) = drive(&mut stream, end, &mut Vec::new()).await?;
    Shown::first_of(chain).key().ok_or(rustls::Error::NoCertificatesPresented)?;
    wire(stream, keys, Purpose::Join)
}

/// A connection with the keys that were agreed on. Volumes go from node to node: there the kernel spares copies. Little
/// is said to the registry.
fn wire(stream: TcpStream, keys: Keys, purpose: Purpose) -> Result<Wire, HandshakeError> {
    match purpose {
        Purpose::Peer => Wire::sealed_by_kernel(stream, keys),
        Purpose::Registry | Purpose::Join => Ok(Wire::sealed(stream, keys)?),
    }
}

/// A door in the place of a server's name.
fn named(door: &Door) -> ServerName<'static> {
    ServerName::try_from(door.as_str().to_owned()).expect("digits are a name")
}

/// What the other end has shown, which it must have.
fn proof(identity: &Identity, shown: Shown) -> Result<Shown, HandshakeError> {
    let key = shown.key().ok_or(rustls::Error::NoCertificatesPresented)?;
    match identity.has_revoked(&key) {
        false => Ok(shown),
        true => Err(HandshakeError::Revoked {
            who: shown.to_string(),
            why: "its node was forgotten (`cards forget`), or another machine has its name now",
        }),
    }
}

/// Answers a caller that wants one of these.
///
/// # Errors
/// It does not know the cluster, shows nothing that is believed, or goes. One that wants the registry and whose certificate
/// was revoked has its connection: it is told so there, and nothing else.
pub async fn accept(
    mut stream: TcpStream,
    identity: &Identity,
    purposes: &[Purpose],
) -> Result<Proven, HandshakeError> {
    let now = identity.now();
    let mut bytes = Vec::new();
    let (purpose, believed) = loop {
        receive(&stream, &mut bytes, READ).await?;
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut &bytes[..])?;
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let mut known = now.believed.iter();
                let believed = known.find(|believed| hello.server_name() == Some(believed.door.as_str()));
                let believed = believed.ok_or(HandshakeError::Door)?;
                let wanted: Vec<&[u8]> = hello.alpn().into_iter().flatten().collect();
                let purpose = purposes.iter().find(|purpose| wanted.contains(&purpose.protocol()));
                break (*purpose.ok_or(HandshakeError::Purpose)?, believed);
            }
            Err((error, _)) => return Err(HandshakeError::Noise(error.to_string())),
        }
    };
    let config = match purpose {
        Purpose::Join => server_to_join(&now, &believed.certificate)?,
        Purpose::Peer | Purpose::Registry => server(&now, &identity.name().cluster, purpose)?,
    };
    let end = UnbufferedServerConnection::new(Arc::new(config))?;
    let (chain, keys) = drive(&mut stream, end, &mut bytes).await?;
    let shown = Shown::first_of(chain);
    let shown = match (purpose, shown.key()) {
        (Purpose::Peer, _) => proof(identity, shown)?,
        (Purpose::Registry, None) => return Err(rustls::Error::NoCertificatesPresented.into()),
        (Purpose::Registry, Some(_)) | (Purpose::Join, _) => shown,
    };
    Ok(Proven { purpose, wire: wire(stream, keys, purpose)?, shown })
}

/// The two ends of a handshake, of which the library has one type each.
pub(crate) trait End: Sized {
    type Data: Send + 'static;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn common(&self) -> &CommonState;
    fn finish(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), rustls::Error>;
}

/// What the library calls alike at both.
macro_rules! end {
    ($end:ty, $data:ty) => {
        impl End for $end {
            type Data = $data;

            fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(bytes)
            }

            fn common(&self) -> &CommonState {
                self
            }

            fn finish(self) -> Result<(ExtractedSecrets, KernelConnection<$data>), rustls::Error> {
                self.dangerous_into_kernel_connection()
            }
        }
    };
}

end!(UnbufferedClientConnection, ClientConnectionData);
end!(UnbufferedServerConnection, ServerConnectionData);

/// Leads a handshake to its end, and gives what the other end has shown. What has arrived before is in `bytes`. What follows
/// the handshake is left in the socket, where the kernel finds it.
pub(crate) async fn drive<E>(
    stream: &mut TcpStream,
    mut end: E,
    bytes: &mut Vec<u8>,
) -> Result<(Vec<CertificateDer<'static>>, Keys), HandshakeError>
where
    E: End,
    KernelConnection<E::Data>: Secrets,
{
    let mut outgoing = Vec::new();
    // Records are handed over one by one: what follows the last of the handshake is not for the library.
    let mut given = 0;
    loop {
        let UnbufferedStatus { discard, state } = end.process(&mut bytes[..given]);
        let mut wants_more = false;
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut outgoing, |room| data.encode(room))?,
            Ok(ConnectionState::TransmitTlsData(data)) => {
                stream.write_all(&std::mem::take(&mut outgoing)).await?;
                data.done();
            }
            Ok(ConnectionState::BlockedHandshake) => wants_more = true,
            Ok(ConnectionState::WriteTraffic(_)) => {
                bytes.drain(..discard);
                break;
            }
            Ok(_) => return Err(HandshakeError::Noise("it ends, or sends data, before it has begun".into())),
            Err(error) => {
                refuse(stream, end, outgoing);
                return Err(error.into());
            }
        }
        given -= discard;
        bytes.drain(..discard);
        if wants_more {
            given += loop {
                let here = bytes.len() - given;
                match record::length(&bytes[given..])? {
                    Some(length) if here >= length => break length,
                    Some(length) => receive(stream, bytes, length - here).await?,
                    None => receive(stream, bytes, HEADER - here).await?,
                }
            };
        }
    }
    if !bytes.is_empty() {
        return Err(HandshakeError::Noise("it sends data before it has an answer".into()));
    }
    let chain = end.common().peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|shown| shown.clone().into_owned()).collect();
    let (ExtractedSecrets { tx, rx }, secrets) = end.finish()?;
    Ok((chain, Keys { to_send: tx, to_receive: rx, next: Box::new(secrets) }))
}

/// Appends what the library encodes.
fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), HandshakeError> {
    let begin = out.len();
    let mut room = READ;
    loop {
        out.resize(begin + room, 0);
        match encode(&mut out[begin..]) {
            Ok(length) => {
                out.truncate(begin + length);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                room = required_size
            }
            Err(error) => return Err(HandshakeError::Noise(error.to_string())),
        }
    }
}

/// Tells the other end why, if it takes that at once.
fn refuse<E: End>(stream: &TcpStream, mut end: E, mut outgoing: Vec<u8>) {
    // No further than that: what was received is not looked at again, which would fail again.
    while end.common().wants_write() {
        let Ok(ConnectionState::EncodeTlsData(mut data)) = end.process(&mut []).state else { break };
        if encode(&mut outgoing, |room| data.encode(room)).is_err() {
            return;
        }
    }
    // It is a courtesy: whoever does not take it goes without.
    let _ = stream.try_write(&outgoing);
}

/// Receives more, at most so many bytes.
async fn receive(stream: &TcpStream, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), HandshakeError> {
    if bytes.len() >= UNPROVEN_MAX {
        return Err(HandshakeError::Noise("it does not end".into()));
    }
    let mut room = [0; READ];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut room[..wanted.min(READ)]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => {
                bytes.extend_from_slice(&room[..count]);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
