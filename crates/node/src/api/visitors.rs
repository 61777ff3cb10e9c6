//! Visitors of the web listener: they show no token, so they may look and change nothing.
//!
//! A page from elsewhere that runs in a browser on this machine may send requests here, and read the answers if its
//! own name resolves to this machine (DNS rebinding). Such a request says that name in its `Host` header, and only
//! names that are ours are answered. A request that says more than one, or what is no name, has passed somebody that
//! understood it otherwise than we would, and is not answered either.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use cards_client::body::ErrorKind;
use cards_config::{Config, host_of};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, StatusCode};

use super::answer::{self, Answer, Failure, refuse, with_status};
use super::{ids, read, route};
use crate::node::Node;
use crate::starting::Starting;

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

    /// Whether a host is one of ours. An address cannot be made to resolve to something else.
    fn has(&self, host: &str) -> bool {
        host == "localhost" || host.parse::<IpAddr>().is_ok() || self.0.contains(host)
    }
}

/// The host that a `Host` header names, in lower case: that of `name`, `name:port`, `1.2.3.4`, `[::1]:port` and the like,
/// none if it is anything else.
fn host_named(header: &str) -> Option<String> {
    let (host, port) = match header.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port)
        }
        None => {
            let (name, port) = header.split_at(header.find(':').unwrap_or(header.len()));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if !name.bytes().all(is_plain) {
                return None;
            }
            (name.strip_suffix('.').unwrap_or(name), port)
        }
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    (is_port && !host.is_empty()).then(|| host.to_ascii_lowercase())
}

/// The host that a request calls this node by; none if that is not one host and nothing else.
fn host_of_request(request: &Request<Incoming>) -> Option<String> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = headers.next().map(|header| host_named(header.to_str().ok()?));
    let authority = request.uri().authority().map(|authority| host_named(authority.as_str()));
    match (headers.next(), authority, header) {
        // The address that a proxy is given comes before the header, which has to make sense all the same.
        (None, Some(host), None | Some(Some(_))) | (None, None, Some(host)) => host,
        _ => None,
    }
}

/// Whether a host is one of this node's certificate: an authority that the node believes has signed that it is ours.
fn is_certified(node: &Node, host: &str) -> bool {
    node.identity.as_ref().is_some_and(|own| own.shown().is_for_host(host))
}

/// Answers a visitor's request.
pub(super) async fn answer(node: &Arc<Node>, hosts: &Hosts, request: &Request<Incoming>) -> Answer {
    guarded(look(node, hosts, request).await.unwrap_or_else(|refused| refused))
}

/// Answers a visitor's request of a daemon that starts.
pub(super) fn answer_early(starting: &Starting, hosts: &Hosts, request: &Request<Incoming>) -> Answer {
    let refusal = stranger(hosts, |_| false, request);
    guarded(refusal.unwrap_or_else(|| answer::starting(starting.headline())))
}

/// With what a browser has to know of an answer.
fn guarded(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // What a page may do, that page says itself.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// The refusal of a request that calls this node by no name of its own.
fn stranger(
    hosts: &Hosts,
    is_certified: impl Fn(&str) -> bool,
    request: &Request<Incoming>,
) -> Option<Answer> {
    let bad = ErrorKind::BadRequest;
    let Some(host) = host_of_request(request) else {
        let message = "a request needs one Host header with one host, such as `n1:7480`, `127.0.0.1:7480` or `[::1]:7480`";
        return Some(closed(with_status(StatusCode::BAD_REQUEST, &Failure::new(bad, message))));
    };
    if !hosts.has(&host) && !is_certified(&host) {
        let message = format!(
            "{:?} is no name of this node; use its address, or add the name to web.hosts in its configuration",
            ids::clip(&host)
        );
        return Some(closed(with_status(StatusCode::MISDIRECTED_REQUEST, &Failure::new(bad, message))));
    }
    None
}

async fn look(node: &Arc<Node>, hosts: &Hosts, request: &Request<Incoming>) -> Result<Answer, Answer> {
    let (uri, bad) = (request.uri(), ErrorKind::BadRequest);
    if let Some(refusal) = stranger(hosts, |host| is_certified(node, host), request) {
        return Err(refusal);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let message = format!(
            "{} changes something, and here one can only look; use api.sock, or [api] listen with its token",
            ids::clip(request.method().as_str())
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
            assert!(host_named(ours).is_some_and(|host| hosts.has(&host)), "{ours}");
        }
        for other in
            ["evil.example", "evil.example:7480", "store2.lab", "127.0.0.1.evil.example", "n1.evil:80"]
        {
            let host = host_named(other).unwrap();
            assert!(!hosts.has(&host), "{other}");
        }
    }

    #[test]
    fn what_is_more_or_less_than_a_host_is_none() {
        for strange in [
            "",
            ":7480",
            ".",
            "[n1",
            "[::1].evil",
            "[::1]evil:80",
            "[::1]:80x",
            "[127.0.0.1]",
            "[]",
            "::1",
            "127.0.0.1:7480, evil",
            "127.0.0.1, evil",
            "127.0.0.1 evil",
            "127.0.0.1:7480:80",
            "n1:http",
            "n1:-1",
            "evil@n1",
            "n1/",
            "n1\u{e4}",
            "n1%00",
        ] {
            assert_eq!(host_named(strange), None, "{strange}");
        }
        assert_eq!(host_named("[FE80::1]:80").as_deref(), Some("fe80::1"));
        assert_eq!(host_named("N1.Lab.:").as_deref(), Some("n1.lab"));
    }
}
