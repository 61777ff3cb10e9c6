//! What a request asks for.

use std::sync::Arc;
use std::time::Duration;

use cards_client::body::ErrorKind;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Answer, Failure, json, refuse};
use super::ids::{clip, group_of, session};
use super::{locks, read};
use crate::node::Node;

/// Bytes of the body of a request.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long the body of a request may take.
const BODY: Duration = Duration::from_secs(30);

/// Answers a request.
pub(super) async fn answer(node: &Arc<Node>, request: Request<Incoming>) -> Answer {
    answer_or_fail(node, request).await.unwrap_or_else(|failure| refuse(&failure))
}

async fn answer_or_fail(node: &Arc<Node>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let (head, body) = request.into_parts();
    let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let query = head.uri.query().unwrap_or_default();
    let body = receive(body).await?;
    if matches!(head.method, Method::GET | Method::HEAD)
        && let Some(answer) = read::answer(node, &path, query).await?
    {
        return Ok(answer);
    }
    let (post, delete) = (head.method == Method::POST, head.method == Method::DELETE);
    match path[..] {
        ["v1", "locks", "sessions"] if post => {
            Ok(json(StatusCode::CREATED, &locks::open(node, parse(&body)?)?))
        }
        ["v1", "locks", "sessions", id] if delete => ok(&locks::close(node, session(id)?)?),
        ["v1", "locks", "sessions", id, "keep-alive"] if post => ok(&locks::keep_alive(node, session(id)?)?),
        ["v1", "locks", "sessions", id, "groups"] if post => {
            let group = locks::acquire(node, session(id)?, parse(&body)?).await?;
            Ok(json(StatusCode::CREATED, &group))
        }
        ["v1", "locks", "sessions", id, "groups", name, "downgrade"] if post => {
            ok(&locks::downgrade(node, group_of(id, name)?).await?)
        }
        ["v1", "locks", "sessions", id, "groups", name] if delete => {
            ok(&locks::release(node, group_of(id, name)?).await?)
        }
        _ => Err(no_route(&head.method, head.uri.path())),
    }
}

/// The answer to a request for something that is not there.
pub(super) fn no_route(method: &Method, path: &str) -> Failure {
    let message = format!(
        "there is no {} {}; docs/reference/locks.md, docs/operating/monitoring.md and docs/operating/dashboard.md have all routes",
        clip(method.as_str()),
        clip(path)
    );
    Failure::new(ErrorKind::NoRoute, message)
}

fn ok(body: &impl Serialize) -> Result<Answer, Failure> {
    Ok(json(StatusCode::OK, body))
}

async fn receive(body: Incoming) -> Result<Bytes, Failure> {
    let bad = |message: String| Failure::new(ErrorKind::BadRequest, message);
    let late = |_| bad(format!("the body has not arrived within {} s: send it at once", BODY.as_secs()));
    match tokio::time::timeout(BODY, Limited::new(body, BODY_BYTES_MAX).collect()).await.map_err(late)? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body is longer than {BODY_BYTES_MAX} bytes: ask for less at a time");
            Err(Failure::new(ErrorKind::TooMuch, message))
        }
        Err(error) => Err(bad(format!("the body cannot be read: {error}"))),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the body is not understood: {error}; docs/reference/locks.md has examples");
        Failure::new(ErrorKind::BadRequest, message)
    })
}
