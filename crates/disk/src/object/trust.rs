//! The authorities that may sign the certificate of an object's server.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::failure::{ObjectError, ObjectFailure};

/// Where distributions keep the authorities of the machine: Debian, Fedora, SUSE, Alpine.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How connections begin. `file`: the authorities (PEM) in place of the machine's.
pub(super) fn client_config(file: Option<&Path>) -> Result<Arc<ClientConfig>, ObjectFailure> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => system()?,
    };
    let failed = |reason: &dyn std::fmt::Display| {
        ObjectFailure::new(ObjectError::Authorities, format!("{}: {reason}", file.display()))
    };
    let read = CertificateDer::pem_file_iter(&file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    // A bundle of the machine may hold one that is too odd to be used.
    let (usable, _) = roots.add_parsable_certificates(read.map_err(|error| failed(&error))?);
    if usable == 0 {
        return Err(failed(&"there is no usable certificate in it"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The authorities of the machine; `SSL_CERT_FILE` names others, as for OpenSSL.
fn system() -> Result<PathBuf, ObjectFailure> {
    if let Some(file) = env::var_os("SSL_CERT_FILE") {
        return Ok(file.into());
    }
    let found = SYSTEM.iter().map(Path::new).find(|path| path.exists());
    found.map(Path::to_owned).ok_or_else(|| {
        ObjectFailure::new(ObjectError::Authorities, format!("none of {} is there", SYSTEM.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failure = client_config(Some(file.path())).unwrap_err();
        assert_eq!(failure.error, ObjectError::Authorities);
        assert!(failure.to_string().contains("no usable certificate"), "{failure}");
        let failure = client_config(Some(Path::new("/nonexistent/ca.pem"))).unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/ca.pem"), "{failure}");
    }
}
