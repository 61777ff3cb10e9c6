//! What comes to the door of the page that is no browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::cluster;
use crate::harness::{SHORT, scratch};

/// Connections that say nothing.
const IDLE: usize = 400;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the door is open");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// What is answered to these bytes, behind which nothing follows, if anything.
fn answer(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    // It may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    rest(stream)
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = connect(address);
    // One that is half closed may be closed before it is answered.
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
        .expect("a request");
    rest(stream)
}

#[test]
fn garbage_at_the_door_is_refused_by_name_and_harms_nobody() {
    let dir = scratch();
    let (mut nodes, pages) = cluster(dir.path(), 2);
    let page = pages[0];
    for (method, path, status, words) in [
        ("GET", "/v1/nothing", "404", "there is no GET /v1/nothing"),
        ("GET", "/assets/../../../etc/passwd", "404", "there is no GET"),
        ("GET", "/assets/app.js/", "404", "there is no GET"),
        ("GET", "/v1/map", "400", "volume=V"),
        ("GET", "/v1/map?volume=disk&cells=99999999", "400", "volume=V"),
        ("GET", "/v1/map?volume=%00%ff", "404", "no node of the cluster has a volume"),
        ("GET", "/v1/map?volume=none", "404", "no node of the cluster has a volume \\\"none\\\""),
        ("POST", "/", "405", "one can only look"),
        ("DELETE", "/v1/locks/sessions/1.1", "405", "one can only look"),
        ("PUT", "/v1/map?volume=disk", "405", "one can only look"),
        ("BREW", "/", "405", "one can only look"),
    ] {
        let answer = ask(page, method, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
        assert!(answer.contains(words), "{method} {path}: {answer}");
        assert!(answer.contains("\"error\""), "{method} {path}: {answer}");
    }
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET \0\0 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"NBDMAGICIHAVEOPT",
        &[b'A'; 200_000],
        &[&b"GET / HTTP/1.1\r\nhost: localhost\r\nx: "[..], &[b'x'; 200_000]].concat(),
    ] {
        let answer = answer(page, bytes);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(answer.is_empty() || status.starts_with('4'), "{answer}");
    }
    let whole = ask(page, "GET", "/");
    assert!(whole.contains("<!doctype html>"), "{whole}");
    let head = ask(page, "HEAD", "/");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(nodes.node(1).status()["healthy"], true);
}

#[test]
fn idle_connections_give_way_and_busy_ones_do_not() {
    let dir = scratch();
    let (mut nodes, pages) = cluster(dir.path(), 1);
    let (page, admin) = (pages[0], nodes.node(1).admin_socket());
    let mut recorder = UnixStream::connect(&admin).expect("the admin socket");
    recorder.set_read_timeout(Some(SHORT)).unwrap();
    assert!(tell(&mut recorder, "record").contains("recording"));

    // More than either socket has places, and than wait at it.
    let visitors: Vec<TcpStream> = (0..IDLE).map(|_| connect(page)).collect();
    let operators: Vec<UnixStream> =
        (0..IDLE).map(|_| UnixStream::connect(&admin).expect("there is room")).collect();
    let whole = ask(page, "GET", "/");
    assert!(whole.contains("<!doctype html>"), "{whole}");
    assert_eq!(nodes.node(1).status()["healthy"], true);
    assert!(rest(visitors.into_iter().next().expect("the first")).is_empty(), "it has had to go");
    drop(operators);
    // The only one that had something to lose.
    assert!(tell(&mut recorder, "take_recorded").contains("recorded"));
}

/// The line that answers a request without parameters on the admin socket.
fn tell(stream: &mut UnixStream, request: &str) -> String {
    writeln!(stream, "{{\"request\":\"{request}\"}}").expect("a request");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a reply");
    line
}

#[test]
fn the_page_comes_with_rules_that_keep_it_to_itself() {
    let dir = scratch();
    let (_nodes, pages) = cluster(dir.path(), 1);
    for path in ["/", "/assets/app.js", "/assets/style.css", "/assets/cards.svg"] {
        let answer = ask(pages[0], "GET", path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        for rule in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "nosniff"] {
            assert!(answer.contains(rule), "{path}: {answer}");
        }
        assert!(!answer.contains("unsafe"), "{path}: {answer}");
    }
}
