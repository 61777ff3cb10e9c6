//! Etcd that is not there, does not answer, or is something else. Needs no etcd.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use cards_coordinator::{Error, Etcd, EtcdConfig, EtcdError, TlsFiles};

fn config(endpoints: &[String]) -> EtcdConfig {
    EtcdConfig {
        connect_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_millis(300),
        patience: Duration::from_millis(700),
        ..EtcdConfig::new(endpoints.to_vec())
    }
}

async fn error(config: &EtcdConfig) -> EtcdError {
    match Etcd::open(config, "lab").await {
        Err(Error::Etcd(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A port on which nobody listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A member that answers every request with these bytes, forever; with none, not at all.
fn says(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if answer.is_empty() {
                silent.push(stream);
                continue;
            }
            let mut request = [0; 4096];
            // The first read has the whole of these short requests.
            if stream.read(&mut request).is_ok() {
                drop(stream.write_all(answer));
            }
        }
    });
    url
}

#[tokio::test]
async fn nobody_listens() {
    let error = error(&config(&[closed(), closed()])).await;
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("start etcd or correct the endpoints"), "{error}");
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_slow_also_among_others_that_are_away() {
    let error = error(&config(&[closed(), says(b""), closed()])).await;
    assert!(matches!(error, EtcdError::Slow { .. }), "{error}");
    assert!(error.to_string().contains("did not answer within 300 ms"), "{error}");
}

#[tokio::test]
async fn what_is_no_etcd_is_called_so() {
    for (answer, problem) in [
        (&b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno"[..], "HTTP status 404"),
        (
            b"HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\ncontent-length: 2\r\n\r\nno",
            "does not parse",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "has no `Date`"),
        (
            b"HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\ncontent-length: 45\r\n\r\n\
              {\"header\":{},\"kvs\":[{\"key\":\"*\",\"value\":\"*\"}]}",
            "does not parse",
        ),
    ] {
        let error = error(&config(&[says(answer)])).await;
        assert!(matches!(error, EtcdError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    let error = error(&config(&[says(b"SSH-2.0-OpenSSH_9.2\r\n")])).await;
    assert!(matches!(error, EtcdError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn what_etcd_says_instead_of_an_answer_has_an_error_each() {
    let refusal = |status: &str, code: u8, message: &str| -> &'static [u8] {
        let body = format!(r#"{{"error":"{message}","message":"{message}","code":{code}}}"#);
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes().leak()
    };
    let said = async |status: &str, code, message: &str| {
        error(&config(&[says(refusal(status, code, message))])).await
    };
    let full = said("429 Too Many", 8, "etcdserver: mvcc: database space exceeded").await;
    assert!(matches!(full, EtcdError::Full { .. }), "{full}");
    let busy = said("429 Too Many", 8, "etcdserver: too many requests").await;
    assert!(matches!(busy, EtcdError::NoQuorum { .. }), "{busy}");
    let alone = said("503 Unavailable", 14, "etcdserver: no leader").await;
    assert!(matches!(alone, EtcdError::NoQuorum { .. }), "{alone}");
    let denied = said("403 Forbidden", 7, "etcdserver: permission denied").await;
    assert!(matches!(denied, EtcdError::Denied { .. }), "{denied}");
    let nobody = said("400 Bad Request", 3, "etcdserver: user name is empty").await;
    assert!(matches!(nobody, EtcdError::Login { .. }), "{nobody}");
    assert!(nobody.to_string().contains("does not let a client without user in"), "{nobody}");
    let stale = said("401 Unauthorized", 16, "etcdserver: invalid auth token").await;
    assert!(matches!(stale, EtcdError::Login { .. }), "{stale}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_before_anything_connects() {
    let none = error(&config(&[])).await;
    assert!(matches!(none, EtcdError::Endpoint { .. }), "{none}");
    let https = config(&["https://127.0.0.1:1".into()]);
    let error_text = error(&https).await.to_string();
    assert!(error_text.contains("needs certificates of authorities"), "{error_text}");
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.pem");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    let with = |authorities: &Path| EtcdConfig {
        tls: Some(TlsFiles { authorities: authorities.to_owned(), client: None }),
        ..https.clone()
    };
    for file in [missing, empty] {
        let error = error(&with(&file)).await;
        assert!(matches!(error, EtcdError::Certificate { .. }), "{error}");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
}
