//! The files of the dashboard.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};

use super::answer::Answer;
use crate::web::asset;

/// A file of the page.
pub(super) fn asset(path: &[&str]) -> Option<Answer> {
    let asset = asset::find(path)?;
    let mut answer = Response::new(Full::new(Bytes::from_static(asset.text.as_bytes())));
    for (name, value) in [
        (CONTENT_TYPE, asset.content_type),
        (CONTENT_SECURITY_POLICY, asset::CONTENT_SECURITY_POLICY),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the daemon has another page.
        (CACHE_CONTROL, "no-cache"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(answer)
}
