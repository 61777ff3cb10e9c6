//! Requests to the web listener, by hand.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cards_config::{Config, Web};

use super::cluster::Cluster;

/// Gives a node a web listener, on a port that is free.
pub(super) fn web(config: &mut Config) {
    config.web = Some(Web { listen: "127.0.0.1:0".into(), tls: None, hosts: vec!["dash.lab".into()] });
}

/// Where a node's listener is.
pub(super) fn address(cluster: &Cluster, node: usize) -> SocketAddr {
    *cluster.node(node).web.get().expect("the configuration says so")
}

/// Sends bytes and gives what comes back until the connection is closed.
pub(super) fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // It may be closed before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The head and the body of the answer to a request without a body.
pub(super) fn ask(address: SocketAddr, method: &str, path: &str, host: &str) -> (String, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let answer = raw(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.to_owned(), body.to_owned())
}

/// The body of what is there.
pub(super) fn get(cluster: &Cluster, node: usize, path: &str) -> String {
    let (head, body) = ask(address(cluster, node), "GET", path, "localhost");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
    body
}
