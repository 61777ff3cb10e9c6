//! A node's key.

use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SignatureAlgorithm};

use crate::Error;

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

impl NodeKey {
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
