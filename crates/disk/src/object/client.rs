//! Requests for an object, and their answers.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::RETRY_AFTER;
use hyper::http::response::Parts;
use hyper::{Method, Response};
use tokio::time::timeout;

use super::answer::{Opened, single};
use super::connection::{Connection, Idle};
use super::failure::{ObjectError, ObjectFailure};
use super::patience::Patience;
use super::target::Target;
use super::version::Version;

/// Most bytes of an answer that tells of an error, and how long they may take.
const EXPLANATION_BYTES_MAX: usize = 8 << 10;
const EXPLANATION_WAIT: Duration = Duration::from_secs(1);

/// What asks for the bytes of an object.
#[derive(Debug)]
pub(super) struct Client {
    target: Target,
    idle: Idle,
}

impl Client {
    pub(super) fn new(target: Target) -> Self {
        Self { target, idle: Idle::default() }
    }

    /// Asks how long the object is and which version of it there is, and whether ranges of it can be had.
    pub(super) async fn open(&self, wait: Duration) -> Result<Opened, ObjectFailure> {
        let mut patience = Patience::new(wait, tokio::time::Instant::now());
        let (response, connection) = self.send(&Method::HEAD, None, &patience).await?;
        let (head, _) = response.into_parts();
        let opened = Opened::of(&head)?;
        self.idle.put(connection);
        self.fetch(&opened, &(0..1), &mut patience, |_| {}).await?;
        Ok(opened)
    }

    /// Asks once for some bytes of the object, and gives them to `take` as they come. What was taken before an error is right.
    pub(super) async fn fetch(
        &self,
        opened: &Opened,
        asked: &Range<u64>,
        patience: &mut Patience,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), ObjectFailure> {
        let (response, connection) =
            self.send(&Method::GET, Some((asked, &opened.version)), patience).await?;
        let (head, mut body) = response.into_parts();
        if let Err(failure) = opened.check(&head, asked) {
            return Err(explain(failure, &head, body).await);
        }
        let mut left = asked.end - asked.start;
        while let Some(frame) = patience.within(body.frame()).await? {
            let frame = frame.map_err(|error| ObjectFailure::of_http(&error))?;
            let Ok(bytes) = frame.into_data() else { continue };
            left = left.checked_sub(bytes.len() as u64).ok_or(ObjectError::WrongLength)?;
            take(&bytes);
            patience.progress();
        }
        if left > 0 {
            return Err(ObjectError::WrongLength.into());
        }
        self.idle.put(connection);
        Ok(())
    }

    /// The head of an answer, on a connection that was kept or on a new one. Credentials that were replaced meanwhile are used.
    async fn send(
        &self,
        method: &Method,
        bytes: Option<(&Range<u64>, &Version)>,
        patience: &Patience,
    ) -> Result<(Response<Incoming>, Connection), ObjectFailure> {
        loop {
            let mut connection = match self.idle.take() {
                Some(connection) => connection,
                None => patience.within(Connection::open(&self.target)).await??,
            };
            let ask = self.target.ask(method.clone(), bytes, SystemTime::now())?;
            let sent = patience.within(connection.send(ask)).await;
            if sent.is_err() && connection.is_used {
                // What is on the way to the server may have forgotten all that were idle.
                self.idle.clear();
            }
            match sent? {
                Ok(response) if is_denial(response.status().as_u16()) && self.target.renew() => {}
                Ok(response) => return Ok((response, connection)),
                // The server has closed it while it was idle, or at this moment: that is no fault.
                Err(error) if connection.is_used && !error.is_parse() => {}
                Err(error) => return Err(ObjectFailure::of_http(&error)),
            }
        }
    }
}

/// Statuses of requests with credentials that have ended, too.
fn is_denial(status: u16) -> bool {
    matches!(status, 400 | 401 | 403)
}

/// Adds to the failure what else the answer says: S3's code of the error, and when to come back.
async fn explain(mut failure: ObjectFailure, head: &Parts, body: Incoming) -> ObjectFailure {
    let ObjectError::Status(_) = failure.error else { return failure };
    failure.retry_after = single(&head.headers, &RETRY_AFTER).ok().flatten().and_then(retry_after);
    if body.size_hint().upper() == Some(0) {
        return failure;
    }
    let read = timeout(EXPLANATION_WAIT, Limited::new(body, EXPLANATION_BYTES_MAX).collect()).await;
    if let Ok(Ok(text)) = read
        && let Some(code) = code(&text.to_bytes())
    {
        failure.detail = code;
    }
    failure
}

/// The code in the XML of an error.
fn code(body: &[u8]) -> Option<String> {
    let text = str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code =
        !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then(|| code.to_owned())
}

/// Seconds; the other form, a date, is not used by object stores.
fn retry_after(text: &str) -> Option<Duration> {
    text.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_is_found() {
        let body =
            b"<?xml version=\"1.0\"?><Error><Code>RequestTimeTooSkewed</Code><Message>m</Message></Error>";
        assert_eq!(code(body).as_deref(), Some("RequestTimeTooSkewed"));
        for body in [&b""[..], b"\xff<Code>A</Code>", b"<Code></Code>", b"<Code>a b</Code>", b"<Code>A"] {
            assert_eq!(code(body), None);
        }
    }
}
