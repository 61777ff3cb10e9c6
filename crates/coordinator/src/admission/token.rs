//! What is given to a new machine.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cards_tls::Fingerprint;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What a token begins with: its version.
const PREFIX: &str = "cards1-";
/// Bytes of an ID.
const ID: usize = 4;
/// Bytes of a secret.
const SECRET: usize = 16;
/// Bytes of a fingerprint.
const FINGERPRINT: usize = 32;

/// By what one machine proves that it may become a node, and knows the cluster by. Whoever has it may, too.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Which one it is.
    pub id: TokenId,
    pub(crate) secret: Secret,
    /// The authority that signs.
    pub authority: Fingerprint,
}

/// Which token. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId([u8; ID]);

/// What only the keeper's answer and the new machine have, and the keeper a hash of.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u8; SECRET]);

/// Text that is no token, or no ID of one. What it says is not repeated: it may be most of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It begins with something else.
    #[error(
        "this is no token: one begins with `{PREFIX}`; copy what `cards cluster token` has printed on the keeper's machine"
    )]
    Prefix,
    /// It is cut, or has characters that no token has.
    #[error(
        "the token is damaged: behind `{PREFIX}` it has 70 letters, digits, `-` and `_`; copy all of what `cards cluster \
         token` has printed"
    )]
    Damaged,
    /// It is no ID.
    #[error(
        "this is no ID of a token: one has 8 hexadecimal digits; `cards cluster token --list` shows them"
    )]
    Id,
}

impl Token {
    /// A new one.
    pub(crate) fn generate(authority: Fingerprint) -> Self {
        let random = |bytes: &mut [u8]| {
            SystemRandom::new().fill(bytes).expect("the system has random numbers");
        };
        let (mut id, mut secret) = ([0; ID], [0; SECRET]);
        random(&mut id);
        random(&mut secret);
        Self { id: TokenId(id), secret: Secret(secret), authority }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.id.0[..], &self.secret.0, &self.authority.0].concat();
        write!(f, "{PREFIX}{}", base64(&bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim().strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        let bytes: [u8; ID + SECRET + FINGERPRINT] = from_base64(text).ok_or(TokenError::Damaged)?;
        let (id, rest) = bytes.split_first_chunk().expect("it has so many");
        let (secret, authority) = rest.split_first_chunk().expect("it has so many");
        let authority = authority.try_into().expect("it has so many");
        Ok(Self { id: TokenId(*id), secret: Secret(*secret), authority: Fingerprint(authority) })
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl FromStr for TokenId {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let digits = text.len() == 2 * ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| digits).ok_or(TokenError::Id)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl Serialize for TokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Secret {
    /// As it is sent.
    pub(crate) fn sent(&self) -> String {
        base64(&self.0)
    }

    /// What was sent.
    pub(crate) fn received(text: &str) -> Option<Self> {
        from_base64(text).map(Self)
    }

    /// As the keeper has it.
    pub(crate) fn hashed(&self) -> [u8; 32] {
        let digest = digest::digest(&digest::SHA256, &self.0);
        digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// So many bytes, if that is what the text says.
pub(crate) fn from_base64<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    // Decoded text is shorter: what is much longer is not looked at.
    let fits = text.len() <= 2 * BYTES + 4;
    fits.then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        for _ in 0..100 {
            let token = Token::generate(Fingerprint([7; 32]));
            let text = token.to_string();
            assert_eq!(text.len(), 77);
            assert_eq!(text.parse(), Ok(token.clone()));
            assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()), "as it is pasted");
            assert_eq!(token.id.to_string().parse(), Ok(token.id));
            assert!(!format!("{token:?}").contains(&text[10..]), "a secret is not logged");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_repeated() {
        let whole = Token::generate(Fingerprint([7; 32])).to_string();
        for text in ["", "cards1", "cards2-AAAA", "Cards1-", &whole[1..], "ca\u{e9}"] {
            assert_eq!(text.parse::<Token>(), Err(TokenError::Prefix), "{text}");
        }
        for length in PREFIX.len()..whole.len() {
            assert_eq!(whole[..length].parse::<Token>(), Err(TokenError::Damaged), "{length}");
        }
        let tail = |tail: &str| format!("{}{tail}", &whole[..whole.len() - tail.len()]);
        let long = format!("{PREFIX}{}", "A".repeat(1 << 20));
        for text in [whole.clone() + "A", whole.clone() + "==", tail("+"), tail("\u{e9}"), tail(" "), long] {
            let error = text.parse::<Token>().unwrap_err();
            // A character that is cut off at the end is no damage, and not seen as one.
            assert_eq!(error, TokenError::Damaged, "{text:.90}");
            assert!(!error.to_string().contains(&whole[10..30]));
        }
        for id in ["", "1", "0123456", "012345678", "+1234567", "0123456g", "\u{e9}\u{e9}\u{e9}\u{e9}"] {
            assert_eq!(id.parse::<TokenId>(), Err(TokenError::Id), "{id}");
        }
    }
}
