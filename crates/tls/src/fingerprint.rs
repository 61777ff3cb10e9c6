//! By what an authority is known to those who do not have its certificate.

use std::fmt;
use std::path::Path;

use ring::digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::Error;
use crate::authority::authority_in;

/// SHA-256 of a certificate (DER). Whoever has it knows the certificate when it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = digest::digest(&digest::SHA256, certificate);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// That of the certificate in a file (PEM).
    ///
    /// # Errors
    /// The file cannot be read or has none.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Ok(Self::of(&authority_in(path)?.0))
    }

    /// That of a certificate (PEM), if it is one.
    #[must_use]
    pub fn in_pem(certificate: &str) -> Option<Self> {
        CertificateDer::from_pem_slice(certificate.as_bytes()).ok().map(|certificate| Self::of(&certificate))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
