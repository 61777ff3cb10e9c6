//! Who knocks at the API without knowing it, or without the token.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::{api, lock, plan, wait_for_locks};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::free_port;
use crate::harness::process::run;
use crate::harness::{SHORT, scratch};

#[test]
fn garbage_is_refused_and_the_next_client_is_served() {
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &["disk"]));
    wait_for_locks(&mut cluster, &["disk"]);
    let socket = api(&mut cluster, 1);
    for seed in 0..200_u8 {
        let mut stream = UnixStream::connect(&socket).expect("the API listens");
        stream.set_read_timeout(Some(SHORT)).unwrap();
        let junk: Vec<u8> = (0..=u8::MAX).map(|i| i.wrapping_mul(seed).rotate_left(3) ^ seed).collect();
        let bytes = match seed % 3 {
            0 => junk,
            1 => [b"POST /v1/locks/sessions HTTP/1.1\r\ncontent-length: 256\r\n\r\n", &junk[..]].concat(),
            _ => [b"GET /v1/locks?", &junk[..]].concat(),
        };
        // It may close the connection before it has read everything.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    lock(&mut cluster, 1, "acquire", &["disk", "0+1M", "--wait", "5s", "--", "true"]).ok();
    assert!(cluster.node(1).is_alive());
}

#[test]
fn over_tcp_the_token_is_needed() {
    let dir = scratch();
    let mut plan = plan(dir.path(), &["disk"]);
    let (address, token) = (free_port(), dir.path().join("token"));
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    plan.nodes[0].nbd = format!("[api]\nlisten = \"{address}\"\ntoken_file = \"{}\"", token.display());
    let _cluster = Cluster::start(plan);
    let wrong = dir.path().join("wrong");
    std::fs::write(&wrong, "ffffffffffffffffffffffffffffffff\n").unwrap();
    let list = |token: &std::path::Path| {
        let (tcp, token) = (address.to_string(), token.display().to_string());
        run(&[CARDS, "lock", "list", "--tcp", &tcp, "--token-file", &token], SHORT)
    };
    let refused = list(&wrong).fails();
    assert!(refused.stderr.contains("the token is missing or wrong"), "{refused}");
    list(&token).ok();
}
