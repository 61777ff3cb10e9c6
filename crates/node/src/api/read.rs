//! The routes that only read. They are the same for programs and for visitors.

use std::sync::Arc;

use hyper::StatusCode;

use super::answer::{Answer, Failure, json, text};
use super::{ids, locks, map, page, past, spans, why};
use crate::answers;
use crate::metrics;
use crate::node::Node;
use crate::report;

/// Answers a request that reads; nothing if there is no such route.
pub(super) async fn answer(node: &Arc<Node>, path: &[&str], query: &str) -> Result<Option<Answer>, Failure> {
    let ok = StatusCode::OK;
    Ok(Some(match *path {
        ["metrics"] => text(metrics::MEDIA_TYPE, metrics::scrape(node)),
        ["v1", "slow"] => json(ok, &report::slow(node, usize::MAX)),
        ["v1", "status"] => json(ok, &report::status(node)),
        ["v1", "cluster"] => json(ok, &*answers::cluster(node).await),
        ["v1", "why"] => json(ok, &why::why(node, query).await?),
        ["v1", "spans"] => spans::spans(node, query).await?,
        ["v1", "locks"] => json(ok, &locks::list(node, query)?),
        ["v1", "locks", "sessions"] => json(ok, &locks::list(node, "")?.sessions),
        ["v1", "locks", "groups", name] => json(ok, &locks::show(node, ids::group(name)?)?),
        ["v1", "history"] => past::past(node, query).await?,
        ["v1", "events"] => json(ok, &*answers::events(node).await),
        ["v1", "map"] => json(ok, &*map::map(node, query).await?),
        [""] | ["assets", ..] => return Ok(page::asset(path)),
        _ => return Ok(None),
    }))
}
