//! The same bytes under TLS 1.3, as rustls does it: with the cipher suite that nodes prefer, and nothing of `cards-tls`.

use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite::TLS13_AES_128_GCM_SHA256, default_provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::caller::Caller;

/// By which name the far end is called.
const NAME: &str = "pong";
/// Bytes received by one `read`.
const RECEIVE_BYTES: usize = 256 << 10;

/// What the far end shows: a certificate that it has signed itself, and the key.
#[derive(Debug)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Identity {
    /// Makes one.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn generate() -> io::Result<Identity> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        Ok(Identity { certificate: made.cert.der().to_vec(), key: made.signing_key.serialize_der() })
    }

    /// Writes it to a directory that is there.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        std::fs::write(dir.join("certificate.der"), &self.certificate)?;
        std::fs::write(dir.join("key.der"), &self.key)
    }

    /// Reads it from the directory it was written to.
    ///
    /// # Errors
    /// It is not there.
    pub fn read(dir: &Path) -> io::Result<Identity> {
        let read = |name| std::fs::read(dir.join(name));
        Ok(Identity { certificate: read("certificate.der")?, key: read("key.der")? })
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from(self.certificate.clone())
    }

    /// Answers whoever calls.
    pub(super) fn accept(&self, stream: TcpStream) -> io::Result<impl Read + Write> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone()).into();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()], key)
            .map_err(io::Error::other)?;
        config.send_tls13_tickets = 0;
        let session = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        Ok(Far(StreamOwned::new(session, stream)))
    }

    /// Calls the owner of this identity.
    pub(super) fn call(&self, mut stream: TcpStream) -> io::Result<Near> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()).map_err(io::Error::other)?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Near { session, stream, received: vec![0; RECEIVE_BYTES] })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: vec![TLS13_AES_128_GCM_SHA256], ..default_provider() })
}

/// The far end. What it writes at a time is sealed together, in as few records as hold it.
struct Far(StreamOwned<ServerConnection, TcpStream>);

impl Read for Far {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Far {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let StreamOwned { conn: session, sock: stream } = &mut self.0;
        let taken = session.writer().write_vectored(slices)?;
        while session.wants_write() {
            session.write_tls(stream)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The near end.
pub(super) struct Near {
    session: ClientConnection,
    stream: TcpStream,
    received: Vec<u8>,
}

impl Caller for Near {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.session.writer().write_all(requests)?;
        while self.session.wants_write() {
            self.session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<usize> {
        // The session itself asks the socket for no more than 4 KiB at a time.
        let count = self.stream.read(&mut self.received)?;
        let (mut rest, mut opened) = (&self.received[..count], 0);
        while !rest.is_empty() {
            self.session.read_tls(&mut rest)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            let mut reader = self.session.reader();
            let mut left = state.plaintext_bytes_to_read();
            opened += left;
            while left > 0 {
                let chunk = reader.fill_buf()?.len();
                reader.consume(chunk);
                left -= chunk;
            }
        }
        if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(opened) }
    }
}
