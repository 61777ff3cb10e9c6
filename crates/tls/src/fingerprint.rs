//! By what an authority, or a key, is known to those who do not have it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ring::digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::Error;
use crate::authority::authority_in;

/// SHA-256 of a certificate or of a public key (DER). Whoever has it knows the certificate or key when it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self::of_bytes(certificate)
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, bytes);
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

/// Text that is no [`Fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 64 hexadecimal digits in lower case")]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let mut bytes = [0; 32];
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        if text.len() != 64 {
            return Err(NoFingerprint);
        }
        for (byte, two) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let (high, low) = (digit(two[0]).ok_or(NoFingerprint)?, digit(two[1]).ok_or(NoFingerprint)?);
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_back_in_one_form_only() {
        let text = Fingerprint([0xa5; 32]).to_string();
        assert_eq!(text.parse(), Ok(Fingerprint([0xa5; 32])));
        for bad in [&text[1..], &text.to_uppercase(), &text.replace('a', "g"), &text.replace("a5", "é")] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(NoFingerprint), "{bad}");
        }
    }
}
