//! A node's key.

use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SignatureAlgorithm};

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::authority::{read_secret, write_over};
use crate::{Error, Fingerprint};

/// A key of Ed25519. It stays where it was made.
pub struct NodeKey(KeyPair);

/// The public half of a node's key: Ed25519.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl PublicKey {
    /// By what it is known: as that of the same key in a certificate.
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
                match pair.is_compatible(&PKCS_ED25519) {
                    true => Ok(Self(pair)),
                    false => Err(no_key(rcgen::Error::UnsupportedSignatureAlgorithm)),
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
        Ok(Self(KeyPair::generate_for(&PKCS_ED25519)?))
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.der_bytes().try_into().expect("a key of Ed25519 has 32 bytes"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}
