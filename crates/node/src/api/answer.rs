//! How a request is answered: JSON with a status.

use cards_admin::RefusalKind;
use cards_client::body::{ErrorKind, Refused, RefusedError};
use cards_locks::LockError;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::locks::Refusal;

/// An answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// Why a request is not carried out.
#[derive(Debug)]
pub(super) struct Failure {
    kind: ErrorKind,
    message: String,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    fn status(&self) -> StatusCode {
        match self.kind {
            ErrorKind::BadRequest => StatusCode::BAD_REQUEST,
            ErrorKind::Unauthorized => StatusCode::UNAUTHORIZED,
            ErrorKind::NoRoute | ErrorKind::NoSession | ErrorKind::NoGroup | ErrorKind::NoVolume => {
                StatusCode::NOT_FOUND
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::LeaseEnded => StatusCode::CONFLICT,
            ErrorKind::TooMuch => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::NoCoordinator | ErrorKind::Starting => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
            ErrorKind::Other => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match &refusal {
            Refusal::NoCoordinator => ErrorKind::NoCoordinator,
            Refusal::NoSession(_) => ErrorKind::NoSession,
            Refusal::NoGroup(_) => ErrorKind::NoGroup,
            Refusal::TooManySessions | Refusal::TooManyParts { .. } => ErrorKind::TooMuch,
            Refusal::Locks(error) => match error {
                LockError::NoRanges | LockError::Overlapping { .. } | LockError::OutsideRegion { .. } => {
                    ErrorKind::BadRequest
                }
                LockError::TooManyRanges { .. }
                | LockError::TableFull { .. }
                | LockError::TooManySessions { .. }
                | LockError::TooManyGroups { .. } => ErrorKind::TooMuch,
                LockError::WouldBlock => ErrorKind::WouldBlock,
                LockError::TimedOut => ErrorKind::TimedOut,
                LockError::LeaseEnded => ErrorKind::LeaseEnded,
                // The service gives each group a number of its own.
                LockError::Exists => ErrorKind::Other,
            },
        };
        Self { kind, message: refusal.to_string() }
    }
}

/// Of the questions that are asked over HTTP as over the admin socket: what does not exist, or was asked wrongly.
impl From<cards_admin::Refusal> for Failure {
    fn from(refusal: cards_admin::Refusal) -> Self {
        let kind = match refusal.kind {
            RefusalKind::NoSuchVolume => ErrorKind::NoVolume,
            _ => ErrorKind::BadRequest,
        };
        Self { kind, message: refusal.message }
    }
}

/// A body with a status.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).expect("bodies have only string keys");
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// A body that is text.
pub(super) fn text(media_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// The answer that takes the place of another.
pub(super) fn refuse(failure: &Failure) -> Answer {
    with_status(failure.status(), failure)
}

/// The same, with a status that says more to HTTP than the kind.
pub(super) fn with_status(status: StatusCode, failure: &Failure) -> Answer {
    let error = RefusedError { kind: failure.kind, message: failure.message.clone() };
    json(status, &Refused { error })
}

/// The answer of a daemon that starts: what it waits for.
pub(super) fn starting(headline: String) -> Answer {
    let mut answer = refuse(&Failure::new(ErrorKind::Starting, headline));
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The answer to a request without the token; the connection ends.
pub(super) fn unauthorized() -> Answer {
    let message = "the token is missing or wrong; send `Authorization: Bearer TOKEN` with the token of the daemon's \
                   api.token_file";
    let mut answer = refuse(&Failure::new(ErrorKind::Unauthorized, message));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
