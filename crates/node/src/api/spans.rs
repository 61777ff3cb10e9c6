//! `GET /v1/spans[?trace=ID][&format=otlp]`: what happened to a sample of the requests.

use std::sync::Arc;

use cards_client::body::ErrorKind;
use hyper::StatusCode;

use super::answer::{Answer, Failure, json};
use super::ids::clip;
use crate::node::Node;
use crate::spans;

/// The spans of all nodes.
pub(super) async fn spans(node: &Arc<Node>, query: &str) -> Result<Answer, Failure> {
    let Query { trace, otlp } = parse(query)?;
    let all = spans::tell_all(node, trace).await?;
    Ok(if otlp { json(StatusCode::OK, &cards_probe::otlp(&all)) } else { json(StatusCode::OK, &all) })
}

#[derive(Debug, Default, PartialEq)]
struct Query<'a> {
    trace: Option<&'a str>,
    otlp: bool,
}

fn parse(query: &str) -> Result<Query<'_>, Failure> {
    let mut parsed = Query::default();
    for field in query.split('&').filter(|_| !query.is_empty()) {
        match field.split_once('=') {
            Some(("trace", name)) if parsed.trace.is_none() => parsed.trace = Some(name),
            Some(("format", "otlp")) if !parsed.otlp => parsed.otlp = true,
            _ => {
                let message =
                    format!("?{} is not understood: ask for trace=ID, format=otlp, or both", clip(query));
                return Err(bad(message));
            }
        }
    }
    Ok(parsed)
}

fn bad(message: String) -> Failure {
    Failure::new(ErrorKind::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_a_trace_and_a_form() {
        assert_eq!(parse("").unwrap(), Query::default());
        assert_eq!(parse("trace=n2:0.1").unwrap(), Query { trace: Some("n2:0.1"), otlp: false });
        assert_eq!(parse("format=otlp&trace=n2:0.1").unwrap(), Query { trace: Some("n2:0.1"), otlp: true });
        for wrong in ["&", "x", "trace", "format=xml", "format=otlp&format=otlp", "trace=a&trace=b", "a=b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
