//! What goes over the connection, asked without the client: as the reference says, or what is wrong with it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use cards_coordinator::WallClock;

use crate::remote::served;

/// What the server says to these bytes before it closes the connection.
async fn answer_to(address: SocketAddr, request: impl Into<Vec<u8>>) -> String {
    let request = request.into();
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&request).unwrap();
        let mut answer = Vec::new();
        // A server that closes with bytes of ours unread resets the connection after its answer.
        drop(stream.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn requests_and_answers_are_as_the_reference_says() {
    let served = served(3000).await;
    let ask = async |line: &str, body: &str| {
        let (length, head) = (body.len(), "connection: close\r\nhost: x\r\ncards-cluster: lab");
        let request = format!("{line} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer = answer_to(served.address, request).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("cards-cluster: lab\r\n") && head.contains("cards-lease-ms: 3000\r\n"),
            "{head}"
        );
        (head[9..12].to_owned(), body.to_owned())
    };
    let clock = WallClock::now().0;
    let join = format!(
        r#"{{"change":"join","cluster":"lab","seat":{{"name":"a","incarnation":9}},"address":"10.0.0.1:7700","clock":{clock},"seen":0,"succeeds":null}}"#
    );
    let submit = "POST /v1/coordinator/submit";
    for (line, body, status, answer) in [
        (submit, join.as_str(), "200", r#"{"changed":true,"epoch":1,"revision":1,"id":0,"dead":[]}"#),
        (
            submit,
            r#"{"change":"attach","seat":{"name":"a","incarnation":9},"volume":"v","mode":"rw"}"#,
            "409",
            r#"{"refusal":"unknown-volume","volume":"v"}"#,
        ),
        (
            "GET /v1/coordinator/view",
            "",
            "200",
            r#"{"cluster":"lab","epoch":1,"revision":1,"lease_ms":3000,"members":{"a":{"name":"a","id":0,"address":"10.0.0.1:7700","incarnation":9,"state":"joined","since":1}},"disks":{},"volumes":{},"attachments":[]}"#,
        ),
        (
            "GET /v1/coordinator/changed",
            "",
            "400",
            r#"{"error":"the query is not after=N, where N is the last revision seen"}"#,
        ),
    ] {
        assert_eq!(ask(line, body).await, (status.to_owned(), answer.to_owned()), "{line} {body}");
    }
    let (status, body) = ask("GET /v1/coordinator/changed?after=0", "").await;
    assert_eq!((status.as_str(), &body[..28]), ("200", r#"{"cluster":"lab","epoch":1,""#));
}

#[tokio::test]
async fn what_is_no_request_of_a_node_is_answered_with_what_is_wrong() {
    let served = served(3_600_000).await;
    let head = "connection: close\r\nhost: x\r\ncards-cluster: lab\r\n";
    let post = |body: &str| {
        let length = body.len();
        format!("POST /v1/coordinator/submit HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}")
    };
    let chunk = "x".repeat((64 << 10) + 1);
    for (request, status, words) in [
        (post("hello"), 400, "is no change"),
        (post(""), 400, "is no change"),
        (post(r#"{"change":"renew"}"#), 400, "is no change"),
        (post(&"[".repeat(60_000)), 400, "is no change"),
        (post(&r#"{"change":"#.repeat(6000)), 400, "is no change"),
        (
            format!("POST /v1/coordinator/submit HTTP/1.1\r\n{head}content-length: 65537\r\n\r\n"),
            413,
            "longer than 65536 bytes",
        ),
        (
            format!(
                "POST /v1/coordinator/submit HTTP/1.1\r\n{head}transfer-encoding: chunked\r\n\r\n10001\r\n{chunk}"
            ),
            413,
            "longer than 65536 bytes",
        ),
        (format!("GET /v1/coordinator/submit HTTP/1.1\r\n{head}\r\n"), 405, "takes POST only"),
        (format!("PUT /v1/coordinator/view HTTP/1.1\r\n{head}\r\n"), 405, "takes GET only"),
        (format!("GET /v1/coordinator/changed HTTP/1.1\r\n{head}\r\n"), 400, "after=N"),
        (format!("GET /v1/coordinator/changed?after=-1 HTTP/1.1\r\n{head}\r\n"), 400, "after=N"),
        (format!("GET /v1/coordinator/changed?after=x&after=1 HTTP/1.1\r\n{head}\r\n"), 400, "after=N"),
        (format!("GET / HTTP/1.1\r\n{head}\r\n"), 404, "POST /v1/coordinator/submit"),
        (
            "GET /v1/coordinator/view HTTP/1.1\r\nconnection: close\r\n\r\n".into(),
            400,
            "`cards-cluster` is missing",
        ),
        (
            "GET /v1/coordinator/view HTTP/1.1\r\nconnection: close\r\ncards-cluster: prod\r\n\r\n".into(),
            421,
            "of cluster `lab`",
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), 400, ""),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)), 431, ""),
        (format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(20_000)), 431, ""),
    ] {
        let answer = answer_to(served.address, request.clone()).await;
        let start = request.chars().take(60).collect::<String>();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{start}: {answer}");
        assert!(answer.contains(words), "{start}: {answer}");
    }
    let noise: Vec<u8> = (0..=255).cycle().take(3000).collect();
    drop(answer_to(served.address, noise).await);
    served.client().await.view().await.unwrap();
}

#[tokio::test]
async fn what_a_caller_has_seen_of_a_registry_that_it_does_not_name_ends_no_leader() {
    let served = served(3000).await;
    let ask = async |headers: &str| {
        let head = "connection: close\r\nhost: x\r\ncards-cluster: lab";
        let view = format!("GET /v1/coordinator/view HTTP/1.1\r\n{head}\r\n{headers}\r\n");
        answer_to(served.address, view).await[9..12].to_owned()
    };
    for headers in ["cards-seen: 500 900\r\n", "cards-seen: 500 900\r\ncards-registry: nothing\r\n", ""] {
        assert_eq!(ask(headers).await, "200", "{headers}");
    }
}
