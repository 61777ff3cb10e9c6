//! The web listener: who comes by it may look, and nothing else.

use super::cluster::{BLOCK, Cluster};
use super::http::{address, ask, raw, web};

#[test]
fn visitors_may_look_and_change_nothing() {
    let cluster = Cluster::with(1, 4 * BLOCK, web);
    let address = address(&cluster, 1);
    assert_eq!(cluster.status(1).web, Some(address.to_string()));
    for path in ["/metrics", "/v1/status", "/v1/slow", "/v1/locks", "/v1/locks/sessions"] {
        let (head, body) = ask(address, "GET", path, "127.0.0.1");
        assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{path}: {head}");
        for header in ["x-content-type-options: nosniff", "content-security-policy: ", "cache-control: "] {
            assert!(head.contains(header), "{path}: {head}");
        }
        let (again, nothing) = ask(address, "HEAD", path, "127.0.0.1");
        assert!(again.starts_with("HTTP/1.1 200") && nothing.is_empty(), "{path}: {again}");
    }
    let (head, _) = ask(address, "GET", "/metrics", "localhost");
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        for path in ["/v1/locks/sessions", "/metrics", "/"] {
            let (head, body) = ask(address, method, path, "localhost");
            assert!(head.starts_with("HTTP/1.1 405") && head.contains("allow: GET, HEAD"), "{head}");
            assert!(body.contains("api.sock"), "{body}");
        }
    }
    let post = "POST /v1/locks/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    assert!(raw(address, post.as_bytes()).starts_with("HTTP/1.1 405"));
    assert_eq!(ask(address, "GET", "/v1/locks/sessions", "localhost").1, "[]", "nothing was opened");
}

#[test]
fn every_route_of_the_page_for_operators_is_there() {
    let cluster = Cluster::with(1, 4 * BLOCK, web);
    let page = include_str!("../../../../docs/operating/monitoring.md");
    let cells =
        page.lines().filter(|line| line.starts_with("| `/")).filter_map(|line| line.split('|').nth(1));
    let routes: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(routes.len() > 8, "{routes:?}");
    for route in routes {
        let path = route.replace("=V", "=disk").replace("=O", "=0");
        let (head, body) = ask(address(&cluster, 1), "GET", &path, "localhost");
        // A group that is asked for by a name that none has.
        let status = if route.ends_with("/G") { "404" } else { "200" };
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}")) && !body.contains("no_route"),
            "{path}: {head}"
        );
    }
}

#[test]
fn a_page_that_has_its_own_name_resolve_to_this_machine_is_told_nothing() {
    let cluster = Cluster::with(1, 4 * BLOCK, web);
    let address = address(&cluster, 1);
    for host in ["evil.example", "evil.example:7480", "127.0.0.1.evil.example", "n2"] {
        let (head, body) = ask(address, "GET", "/v1/status", host);
        assert!(head.starts_with("HTTP/1.1 421"), "{host}: {head}");
        assert!(body.contains("web.hosts") && !body.contains("members"), "{host}: {body}");
    }
    for strange in
        ["", "[::1].evil", "127.0.0.1:7480, evil", "127.0.0.1 evil", "n1\r\nhost: evil", "n1\r\nhost: n1"]
    {
        let (head, body) = ask(address, "GET", "/v1/status", strange);
        assert!(head.starts_with("HTTP/1.1 400"), "{strange}: {head}");
        assert!(body.contains("one Host header") && !body.contains("members"), "{strange}: {body}");
    }
    for host in ["n1", "localhost:7480", "[::1]:7480", "10.0.0.9", "DASH.lab:80"] {
        let (head, _) = ask(address, "GET", "/v1/status", host);
        assert!(head.starts_with("HTTP/1.1 200"), "{host}: {head}");
    }
    let nameless = raw(address, b"GET /v1/status HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(nameless.starts_with("HTTP/1.1 40"), "{nameless}");
    let elsewhere = b"GET http://evil.example/v1/status HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n";
    assert!(raw(address, elsewhere).starts_with("HTTP/1.1 421"));
    for strange in ["evil, n1", "[::1].evil"] {
        let both =
            format!("GET http://n1/v1/status HTTP/1.1\r\nhost: {strange}\r\nconnection: close\r\n\r\n");
        assert!(raw(address, both.as_bytes()).starts_with("HTTP/1.1 400"), "{strange}");
    }
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let cluster = Cluster::with(1, 4 * BLOCK, web);
    let address = address(&cluster, 1);
    for garbage in [
        &b"\x00\xff\x16\x03\x01 rubbish\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n",
        b"GET /v1/locks/groups/%f0%9f HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n",
        b"GET /v1/locks?volume=nothing HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n",
        b"GET /v1 HTTP/1.1\r\nhost: n1\r\nhost: evil\r\nconnection: close\r\n\r\n",
    ] {
        let answer = raw(address, garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
    let huge = [b"GET /".to_vec(), vec![b'a'; 1 << 20], b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    let answer = raw(address, &huge);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert!(ask(address, "GET", "/metrics", "n1").0.starts_with("HTTP/1.1 200"));
}
