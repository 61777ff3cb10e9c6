//! How a machine becomes a node of a cluster whose nodes have certificates.
//!
//! Whoever keeps the cluster's authority has a [`Token`] made, and gives it to whoever sits at the new machine. That makes a
//! key, finds the keeper by the fingerprint in the token, and has its [`Office`] sign.
//!
//! | file | noun |
//! |---|---|
//! | `token` | what is given to a new machine |
//! | `tokens` | those that were made, as the keeper knows them |
//! | `office` | who signs |
//! | `refusal` | why it does not |
//!
//! The other end is `remote/admit.rs`.

mod office;
mod refusal;
mod token;
mod tokens;

pub use office::{Admission, Office, Unsigned};
pub use refusal::{KEY_FILE, NotAdmitted};
pub use token::{Token, TokenError, TokenId};
pub use tokens::{Grant, Granted, Tokens, TokensError};

pub(crate) use token::base64;
