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
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};

use crate::client::names;
use crate::identity::Credentials;
use crate::service::Believed;
use crate::{Error, Fingerprint, Name};

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

/// Believes callers with a certificate of one of these authorities.
pub(crate) fn callers(authorities: &Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), Arc::new(provider()))
        // Which authorities are believed is no stranger's business.
        .clear_root_hint_subjects()
        .build()
        .map_err(|error| Error::Settings(rustls::Error::General(error.to_string())))
}

/// Who answers: it shows its certificate, and believes callers with those of some.
fn server_of(
    identity: &Credentials,
    callers: Arc<dyn ClientCertVerifier>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?
        .with_client_cert_verifier(callers)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key))));
    settle_server(&mut config, protocols);
    Ok(config)
}

/// Who answers nodes.
pub(crate) fn server(identity: &Credentials, cluster: &str, purpose: Purpose) -> Result<ServerConfig, Error> {
    let nodes = OnlyNodes {
        inner: callers(&identity.authorities)?,
        authorities: Arc::clone(&identity.authorities),
        cluster: cluster.into(),
    };
    server_of(identity, Arc::new(nodes), &[purpose.protocol()])
}

/// Who answers clients.
pub(crate) fn server_of_clients(
    identity: &Credentials,
    believed: Arc<Believed>,
) -> Result<ServerConfig, Error> {
    server_of(identity, Arc::new(OnlyClients(believed)), &[])
}

/// Who answers whoever comes.
pub(crate) fn server_of_strangers(identity: &Credentials, protocol: &[u8]) -> Result<ServerConfig, Error> {
    server_of(identity, Arc::new(NoClientAuth), &[protocol])
}

/// Who answers a machine that has nothing to show yet: beside its certificate it shows the authority by which that is
/// believed.
pub(crate) fn server_to_join(
    identity: &Credentials,
    authority: &CertificateDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut shown = CertifiedKey::clone(&identity.key);
    shown.cert.push(authority.clone());
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    settle_server(&mut config, &[Purpose::Join.protocol()]);
    Ok(config)
}

fn settle_server(config: &mut ServerConfig, protocols: &[&[u8]]) {
    // Every connection proves who it is: a ticket would outlive the certificate it was given for.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.enable_secret_extraction = true;
}

/// Who calls: it shows its certificate, and wants that of one node.
pub(crate) fn client(identity: &Credentials, purpose: Purpose, whom: &Name) -> Result<ClientConfig, Error> {
    let believed = Signers::These(Arc::clone(&identity.authorities));
    let shown = Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key)));
    let config = client_of(believed, whom)?.with_client_cert_resolver(shown);
    Ok(settled_client(config, purpose.protocol()))
}

/// Who calls with nothing to show, and wants whom one of these authorities vouches for.
pub(crate) fn client_of_nothing(roots: RootCertStore, protocol: &[u8]) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Settings)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(settled_client(config, protocol))
}

/// Who calls to become a node: it has nothing to show, and wants one node of the authority that it knows by its
/// fingerprint.
pub(crate) fn client_to_join(authority: &Fingerprint, whom: &Name) -> Result<ClientConfig, Error> {
    let config = client_of(Signers::Shown(*authority), whom)?.with_no_client_auth();
    Ok(settled_client(config, Purpose::Join.protocol()))
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

fn settled_client(mut config: ClientConfig, protocol: &[u8]) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![protocol.to_vec()];
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

/// Believes the certificates of the cluster's nodes. Those of clients are of the same authority, but only to call with, and under
/// other names; and an authority that somebody has brought may sign for anybody.
#[derive(Debug)]
struct OnlyNodes {
    inner: Arc<dyn ClientCertVerifier>,
    authorities: Arc<RootCertStore>,
    cluster: String,
}

impl ClientCertVerifier for OnlyNodes {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        let node = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&node, &self.authorities, intermediates, now, algorithms)?;
        let is_ours = |dns: &String| Name::of(dns).is_some_and(|node| node.cluster == self.cluster);
        match names(end_entity).iter().any(is_ours) {
            true => Ok(verified),
            false => Err(CertificateError::InvalidPurpose.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Believes the certificates of clients, the cluster's and others'.
#[derive(Debug)]
struct OnlyClients(Arc<Believed>);

impl ClientCertVerifier for OnlyClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.who(end_entity, intermediates, now).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.rules().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.rules().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.rules().supported_verify_schemes()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Believes whoever answers.
    #[derive(Debug)]
    pub(crate) struct Anybody;

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            provider().signature_verification_algorithms.supported_schemes()
        }
    }
}
