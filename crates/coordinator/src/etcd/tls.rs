//! Certificates for connections to etcd.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::config::TlsFiles;
use super::error::EtcdError;

/// Reads the files once, before anything connects.
pub(super) fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, EtcdError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.authorities)? {
        roots.add(certificate).map_err(|e| unusable(&files.authorities, &e))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&files.authorities, &e))?
        .with_root_certificates(roots);
    let config = match &files.client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(key, &e))?;
            builder.with_client_auth_cert(certificates(chain)?, private).map_err(|e| unusable(chain, &e))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|e| unusable(file, &e))?;
    if found.is_empty() {
        return Err(unusable(file, &"no certificate in it"));
    }
    Ok(found)
}

fn unusable(file: &Path, problem: &dyn std::fmt::Display) -> EtcdError {
    EtcdError::Certificate { file: file.to_owned(), problem: format!("cannot be used: {problem}") }
}
