//! A node's key.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData, SignatureAlgorithm};

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::authority::{read_secret, write_over};
use crate::{Error, Fingerprint};

/// The private key of a node. It stays on the machine that made it.
///
/// A new one is of ECDSA P-256, in PKCS #8 version 1: every browser and TLS library has the one and reads the other. Clusters of
/// earlier releases have keys of Ed25519, in version 2, which work on.
pub struct NodeKey(KeyPair);

/// The public half of a node's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// ECDSA with P-256: an uncompressed point, which begins with 4.
    P256([u8; 65]),
    /// Ed25519, as nodes of earlier releases have.
    Ed25519([u8; 32]),
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self {
            Self::P256(_) => &PKCS_ECDSA_P256_SHA256,
            Self::Ed25519(_) => &PKCS_ED25519,
        }
    }
}

impl PublicKey {
    /// The key with these bytes, of which the length says what it is; none if no key has them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let p256 = || Some(Self::P256(bytes.try_into().ok().filter(|point: &[u8; 65]| point[0] == 4)?));
        p256().or_else(|| bytes.try_into().ok().map(Self::Ed25519))
    }

    /// The bytes that [`Self::from_bytes`] takes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::P256(point) => point,
            Self::Ed25519(bytes) => bytes,
        }
    }

    /// The key of a SubjectPublicKeyInfo (DER); none if it is of another kind.
    pub(crate) fn of_info(info: &[u8]) -> Option<Self> {
        // The bytes of the key are the last.
        let p256 = || Some(Self::P256(*info.last_chunk()?));
        let ed25519 = || Some(Self::Ed25519(*info.last_chunk()?));
        [p256(), ed25519()].into_iter().flatten().find(|key| key.subject_public_key_info() == info)
    }

    /// SHA-256 of its SubjectPublicKeyInfo, as of the same key in a certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_bytes(&self.subject_public_key_info())
    }
}

impl NodeKey {
    /// The one in this file; a new one, durable there, if there is none. A machine that asks for a certificate again asks with
    /// the same key.
    ///
    /// # Errors
    /// The file cannot be read or written, others may read it, or it holds something else.
    pub fn kept(file: &Path) -> Result<Self, Error> {
        match read_secret(file) {
            Ok(text) => {
                let no_key = |error: rcgen::Error| Error::Content {
                    path: file.into(),
                    problem: format!("this is no key of a node ({error}); remove it"),
                };
                let pair = KeyPair::from_pem(&text).map_err(no_key)?;
                match PublicKey::of_info(&pair.subject_public_key_info()) {
                    Some(_) => Ok(Self(pair)),
                    None => Err(no_key(rcgen::Error::UnsupportedSignatureAlgorithm)),
                }
            }
            Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let failed = |source| Error::File { path: file.into(), source };
                let directory = file.parent().unwrap_or(Path::new("."));
                fs::create_dir_all(directory).map_err(failed)?;
                let key = Self::generate()?;
                write_over(file, &key.pem(), 0o600)?;
                Ok(key)
            }
            Err(error) => Err(error),
        }
    }

    /// A new one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, Error> {
        Ok(Self(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?))
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::from_bytes(self.0.der_bytes()).expect("a node's key is of one of the two kinds")
    }

    pub(crate) fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}
