//! Why an object cannot be read.

use std::fmt;
use std::time::Duration;

/// What is wrong with an object, its server or the way to it. Small and `Copy`: it travels in completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The name has no address, or nothing takes connections there.
    #[error("there is no connection to the server of the object")]
    NoConnection,
    /// TLS ended with a certificate that no known authority has signed, or that is of another host.
    #[error("the certificate of the object's server is not believed")]
    Certificate,
    /// The connection ended, or broke, before the answer was complete.
    #[error("the connection to the object's server ended before its answer did")]
    Lost,
    /// Nothing came for too long.
    #[error("the object's server was silent for too long")]
    Silent,
    /// A status that says neither that the object has changed nor that it is gone.
    #[error("the object's server answered with status {0}")]
    Status(u16),
    /// Status 404 or 410.
    #[error("the object is not there")]
    Missing,
    /// Another version than the one that was opened.
    #[error("the object has changed since it was opened")]
    Changed,
    /// A status that sends to another URL.
    #[error("the object's server redirects to another URL")]
    Redirect,
    /// The whole object in place of a range.
    #[error("the object's server ignores ranges")]
    NoRanges,
    /// A `Content-Range` that is missing, malformed or of another range than the one that was asked for.
    #[error("the object's server answered with another range than it was asked for")]
    WrongRange,
    /// Another number of bytes than the range has.
    #[error("the object's server answered with another number of bytes than it was asked for")]
    WrongLength,
    /// `Transfer-Encoding`: the end of the answer cannot be told from a loss.
    #[error("the object's server answered in chunks, without a length")]
    Chunked,
    /// `Content-Encoding`: the bytes are not those of the object.
    #[error("the object's server answered with encoded (compressed) contents")]
    Encoded,
    /// A head of more than 64 KiB or 100 lines.
    #[error("the head of the object's server's answer is too long")]
    LongHead,
    /// Not HTTP/1.1, or a header that means two things.
    #[error("the object's server answered with something that is not HTTP/1.1")]
    Protocol,
    /// An answer that does not say which version it is of.
    #[error("the object's server answered without the version of the object")]
    Unversioned,
    /// At open: no `Content-Length`.
    #[error("the object's server does not say how long the object is")]
    NoLength,
    /// At open: 0 bytes.
    #[error("the object is empty (0 bytes)")]
    Empty,
    /// At open: more bytes than a disk can have.
    #[error("the object is larger than a disk can be")]
    TooLarge,
    /// At open: neither a strong `ETag` nor `Last-Modified`.
    #[error("the object's server gives it no version: neither a strong ETag nor Last-Modified")]
    NoVersion,
    /// At open: without an `ETag`, and changed in the second in which it was asked for: another change in that second would not
    /// show.
    #[error("the object has no ETag and was changed only now")]
    Unsettled,
    /// The file of credentials cannot be used.
    #[error("the credentials cannot be used")]
    Credentials,
    /// The certificates of authorities cannot be used.
    #[error("the certificates of authorities cannot be used")]
    Authorities,
}

impl ObjectError {
    /// Whether the same request may succeed a little later.
    pub fn is_transient(self) -> bool {
        match self {
            Self::NoConnection | Self::Lost | Self::Silent | Self::Unsettled => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }

    /// What to do about it.
    fn remedy(self) -> &'static str {
        match self {
            Self::NoConnection | Self::Lost | Self::Silent | Self::Protocol => {
                "check that the server runs and the URL is right"
            }
            Self::Certificate => "name the certificates of its authority with `ca`, or correct the URL",
            Self::Status(401 | 403) => {
                "check the credentials, the rights on the object, the region and the clock of this machine"
            }
            Self::Status(_) => "see the log of the server, or correct the URL",
            Self::Missing | Self::Empty | Self::TooLarge => "correct the URL, or name another object",
            Self::Changed | Self::Unversioned => "start again when nobody writes the object",
            Self::Unsettled => "it settles in a second",
            Self::Redirect => "write the URL that it redirects to, or correct `region`",
            Self::NoRanges | Self::WrongRange | Self::WrongLength | Self::Chunked | Self::LongHead => {
                "use another server, or no proxy on the way to it"
            }
            Self::Encoded => "have the server send the object as it is",
            Self::NoLength | Self::NoVersion => "have the server send Content-Length and ETag",
            Self::Credentials => "correct `credentials`, or give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::Authorities => "correct `ca`, or install the package ca-certificates",
        }
    }
}

/// An [`ObjectError`] and what is known beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFailure {
    /// What is wrong.
    pub error: ObjectError,
    /// In whose words, with which values; may be empty. Never a secret.
    pub detail: String,
    /// How long the server wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl ObjectFailure {
    pub(super) fn new(error: ObjectError, detail: impl fmt::Display) -> Self {
        Self { error, detail: detail.to_string(), retry_after: None }
    }

    /// What hyper says of a connection.
    pub(super) fn of_http(source: &hyper::Error) -> Self {
        let error = match source {
            _ if source.is_parse_too_large() => ObjectError::LongHead,
            _ if source.is_parse() => ObjectError::Protocol,
            _ if source.is_timeout() => ObjectError::Silent,
            _ => ObjectError::Lost,
        };
        Self::new(error, causes(source))
    }

    /// It, and what to do about it.
    pub(crate) fn with_remedy(&self) -> String {
        format!("{self}; {}", self.error.remedy())
    }
}

impl From<ObjectError> for ObjectFailure {
    fn from(error: ObjectError) -> Self {
        Self { error, detail: String::new(), retry_after: None }
    }
}

impl fmt::Display for ObjectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => self.error.fmt(f),
            detail => write!(f, "{} ({detail})", self.error),
        }
    }
}

impl std::error::Error for ObjectFailure {}

/// An error and what it comes from, in one line.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
