//! What the library of TLS is told.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    Resumption, WantsClientCert, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::{Error, Fingerprint, Identity, Name};

/// What a connection is for. One port serves all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Two nodes that share volumes.
    Peer,
    /// A node that asks the registry.
    Registry,
    /// A machine that wants to be a node, and has nothing to show yet.
    Join,
}

impl Purpose {
    /// What a caller says that it wants (ALPN).
    pub(crate) const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Peer => b"cards",
            Self::Registry => b"cards-registry",
            Self::Join => b"cards-join",
        }
    }
}

/// The cipher suites of TLS 1.3, that first which costs least where a processor knows AES.
pub(crate) fn provider() -> CryptoProvider {
    let cipher_suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, ..rustls::crypto::ring::default_provider() }
}

/// Who answers: it shows its certificate, and wants one of an authority that it believes.
pub(crate) fn server(identity: &Identity, purpose: Purpose) -> Result<ServerConfig, Error> {
    let provider = Arc::new(provider());
    let callers =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&identity.authorities), Arc::clone(&provider))
            // Which authorities are believed is no stranger's business.
            .clear_root_hint_subjects()
            .build()
            .map_err(|error| Error::Settings(rustls::Error::General(error.to_string())))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?
        .with_client_cert_verifier(callers)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key))));
    settle_server(&mut config, purpose);
    Ok(config)
}

/// Who answers a machine that has nothing to show yet: beside its certificate it shows the authority by which that is
/// believed.
pub(crate) fn server_to_join(
    identity: &Identity,
    authority: &CertificateDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut shown = CertifiedKey::clone(&identity.key);
    shown.cert.push(authority.clone());
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    settle_server(&mut config, Purpose::Join);
    Ok(config)
}

fn settle_server(config: &mut ServerConfig, purpose: Purpose) {
    // Every connection proves who it is: a ticket would outlive the certificate it was given for.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![purpose.protocol().to_vec()];
    config.enable_secret_extraction = true;
}

/// Who calls: it shows its certificate, and wants that of one node.
pub(crate) fn client(identity: &Identity, purpose: Purpose, whom: &Name) -> Result<ClientConfig, Error> {
    let believed = Signers::These(Arc::clone(&identity.authorities));
    let shown = Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key)));
    let config = client_of(believed, whom)?.with_client_cert_resolver(shown);
    Ok(settled_client(config, purpose))
}

/// Who calls to become a node: it has nothing to show, and wants one node of the authority that it knows by its
/// fingerprint.
pub(crate) fn client_to_join(authority: &Fingerprint, whom: &Name) -> Result<ClientConfig, Error> {
    let config = client_of(Signers::Shown(*authority), whom)?.with_no_client_auth();
    Ok(settled_client(config, Purpose::Join))
}

fn client_of(believed: Signers, whom: &Name) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let provider = Arc::new(provider());
    let verifier = OneNode {
        believed,
        wanted: server_name(whom)?,
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))
}

fn settled_client(mut config: ClientConfig, purpose: Purpose) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![purpose.protocol().to_vec()];
    config.enable_secret_extraction = true;
    config
}

fn server_name(whom: &Name) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(whom.dns()?).map_err(|_| Error::Name { name: whom.to_string(), label_max: 63 })
}

/// Whose signature a caller believes.
#[derive(Debug)]
enum Signers {
    /// That of these authorities.
    These(Arc<RootCertStore>),
    /// That of the authority with this fingerprint, which is shown along with the certificate.
    Shown(Fingerprint),
}

/// Believes the certificate of one node. What the caller names in clear is the door, not the node.
#[derive(Debug)]
struct OneNode {
    believed: Signers,
    wanted: ServerName<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneNode {
    fn roots(&self, shown: &[CertificateDer<'_>]) -> Result<Arc<RootCertStore>, rustls::Error> {
        let authority = match &self.believed {
            Signers::These(roots) => return Ok(Arc::clone(roots)),
            Signers::Shown(authority) => authority,
        };
        let shown = shown.iter().find(|certificate| Fingerprint::of(certificate) == *authority);
        let mut roots = RootCertStore::empty();
        roots.add(shown.ok_or(CertificateError::UnknownIssuer)?.clone().into_owned())?;
        Ok(Arc::new(roots))
    }
}

impl ServerCertVerifier for OneNode {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _door: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let roots = self.roots(intermediates)?;
        let node = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&node, &roots, intermediates, now, self.algorithms.all)?;
        verify_server_name(&node, &self.wanted)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
