//! The name of a module.

use core::fmt;
use core::str::FromStr;

/// The SHA-256 of a module's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let mut name = [0; 32];
        name.copy_from_slice(digest.as_ref());
        Self(name)
    }

    /// The first twelve digits: enough to tell the modules of a cluster apart.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not a digest.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not the digest of a module: want 64 hexadecimal digits, as `cards policy list` shows")]
pub struct DigestError {
    text: String,
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError { text: text.to_owned() };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.bytes().all(is_digit) {
            return Err(error());
        }
        let mut name = [0; 32];
        for (place, byte) in name.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| error())?;
        }
        Ok(Self(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_sha_256_in_hexadecimal() {
        let name = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), name);
        assert_eq!(name.parse::<Digest>().unwrap(), Digest::of(b""));
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc");
        for text in ["", "e3b0", &name.to_uppercase(), &name.replace('e', "é")] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
