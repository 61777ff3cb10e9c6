//! Visitors of the web listener: they show no token, so they may look and change nothing.
//!
//! A page from elsewhere that runs in a browser on this machine may send requests here, and read the answers if its
//! own name resolves to this machine (DNS rebinding). Such a request says that name in its `Host` header, and only
//! names that are ours are answered.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use cards_client::body::ErrorKind;
use cards_config::{Config, host_of};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, StatusCode};

use super::answer::{Answer, Failure, refuse, with_status};
use super::{read, route};
use crate::node::Node;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The names that requests may call this node by, in lower case, besides addresses and `localhost`.
pub(super) struct Hosts(BTreeSet<String>);

impl Hosts {
    /// The names that the configuration has for this node.
    pub(super) fn of(config: &Config) -> Self {
        let addresses = config.web.iter().map(|web| &web.listen).chain(&config.address);
        let names = config.web.iter().flat_map(|web| &web.hosts).chain([&config.node]).map(String::as_str);
        Self(addresses.filter_map(|address| host_of(address)).chain(names).map(str::to_lowercase).collect())
    }

    /// Whether a `Host` header is one of ours: `name`, `name:port`, or an address. An address cannot be made to
    /// resolve to something else.
    fn has(&self, header: &str) -> bool {
        let host = without_port(header);
        host == "localhost" || host.parse::<IpAddr>().is_ok() || self.0.contains(&host)
    }
}

/// The host in a `Host` header, in lower case.
fn without_port(header: &str) -> String {
    let host = match header.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(host, _)| host),
        None => header.rsplit_once(':').map_or(header, |(host, _)| host),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a `Host` header is a name of this node's certificate: an authority that the node believes has signed that it is ours.
fn is_certified(node: &Node, header: &str) -> bool {
    node.identity.as_ref().is_some_and(|own| own.shown().is_for_host(&without_port(header)))
}

/// Answers a visitor's request.
pub(super) async fn answer(node: &Arc<Node>, hosts: &Hosts, request: &Request<Incoming>) -> Answer {
    let mut answer = look(node, hosts, request).await.unwrap_or_else(|refused| refused);
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // What a page may do, that page says itself.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

async fn look(node: &Arc<Node>, hosts: &Hosts, request: &Request<Incoming>) -> Result<Answer, Answer> {
    let (uri, bad) = (request.uri(), ErrorKind::BadRequest);
    let host = uri.authority().map(hyper::http::uri::Authority::as_str).or_else(|| {
        let header = request.headers().get(HOST)?;
        header.to_str().ok()
    });
    if !host.is_some_and(|host| hosts.has(host) || is_certified(node, host)) {
        let message = format!(
            "{:?} is no name of this node; use its address, or add the name to web.hosts in its configuration",
            route::clip(host.unwrap_or_default())
        );
        return Err(closed(with_status(StatusCode::FORBIDDEN, &Failure::new(bad, message))));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let message = format!(
            "{} changes something, and here one can only look; use api.sock, or [api] listen with its token",
            route::clip(request.method().as_str())
        );
        let mut answer = closed(with_status(StatusCode::METHOD_NOT_ALLOWED, &Failure::new(bad, message)));
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Err(answer);
    }
    let path: Vec<&str> = uri.path().split('/').skip(1).collect();
    let found = read::answer(node, &path, uri.query().unwrap_or_default()).await;
    match found.map_err(|failure| refuse(&failure))? {
        Some(answer) => Ok(answer),
        None => Err(refuse(&route::no_route(request.method(), uri.path()))),
    }
}

/// The connection ends with this answer: its request may have a body that nobody reads.
fn closed(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use cards_config::Web;

    #[test]
    fn a_node_answers_to_its_own_names_only() {
        let mut config = Config::new("test", "n1");
        config.address = Some("store1.lab:7400".into());
        config.web = Some(Web { listen: "cards.lab:7480".into(), tls: None, hosts: vec!["Dash.Lab".into()] });
        let hosts = Hosts::of(&config);
        for ours in [
            "127.0.0.1",
            "127.0.0.1:7480",
            "10.1.2.3:80",
            "[::1]:7480",
            "[::1]",
            "localhost:7480",
            "LOCALHOST",
            "n1",
            "N1:7480",
            "store1.lab:7480",
            "cards.lab",
            "cards.lab.",
            "dash.lab:1",
        ] {
            assert!(hosts.has(ours), "{ours}");
        }
        for other in [
            "",
            ":7480",
            "evil.example",
            "evil.example:7480",
            "store2.lab",
            "127.0.0.1.evil.example",
            "[n1",
            "n1.evil:80",
        ] {
            assert!(!hosts.has(other), "{other}");
        }
    }
}
