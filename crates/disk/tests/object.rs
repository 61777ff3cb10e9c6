//! An object of a web server as the disk: a scripted server does what must go wrong.

mod server;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use cards_disk::{
    Altered, Disk, DiskError, DiskOptions, Engine, Job, JobError, ObjectError, ObjectSource, Op, Outcome,
};
use cards_wire::object::{Place, Url};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use self::server::{Act, Request, Server};
use crate::harness::*;

const SIZE: usize = (3 << 20) + 777;
/// Requests that open a disk: HEAD, and one byte.
const OPENING: usize = 2;

fn content() -> Vec<u8> {
    let mut random = Random(7);
    (0..SIZE).map(|_| random.next() as u8).collect()
}

fn source(url: &str) -> ObjectSource {
    ObjectSource::new(url.parse().unwrap())
}

/// Nothing is waited for longer than this; tests whose reads succeed never get there.
fn options(url: &str) -> DiskOptions {
    DiskOptions { reconnect_wait: Duration::from_secs(20), ..DiskOptions::object(source(url)) }
}

/// For errors that come when the wait is over.
fn impatient(url: &str) -> DiskOptions {
    DiskOptions { reconnect_wait: Duration::from_secs(1), ..options(url) }
}

/// A server that does `act` with each request after those that open the disk, and what becomes of a read of 4 KiB at 8192 with
/// these options.
fn answer(
    options: fn(&str) -> DiskOptions,
    act: impl Fn(&Request) -> Act + Send + Sync + 'static,
) -> (Result<Vec<u8>, JobError>, Server) {
    let server = Server::start(&content(), move |request| match request.number {
        ..OPENING => Act::Honest,
        _ => act(request),
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    let result = data_thread(async { read(&Engine::new(&disk), 8192, 4096).await });
    (result, server)
}

fn with(name: &'static str, value: &str) -> Act {
    Act::With(vec![(name, value.to_owned())])
}

fn raw(text: &str) -> Act {
    Act::Raw(text.as_bytes().to_vec())
}

#[test]
fn many_reads_at_a_time_are_right_and_share_requests_and_connections() {
    let content = content();
    let server = Server::start(&content, |_| Act::Honest);
    let disk = Disk::open(&options(&server.url())).unwrap();
    assert_eq!((disk.size(), disk.read_only(), disk.is_remote()), (SIZE as u64, true, true));
    assert_eq!(disk.version(), Some(server::TAG));
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(engine.kind().name(), "object");
        let mut random = Random(3);
        let mut buffers: Vec<(usize, Vec<u8>)> = (0..400)
            .map(|_| {
                let len = [1, 4096, 65_536, 1 << 20][random.below(4) as usize];
                (random.below((SIZE - len + 1) as u64) as usize, vec![0; len])
            })
            .collect();
        for (tag, (offset, buf)) in buffers.iter_mut().enumerate() {
            engine.submit(Job { tag: tag as u64, op: Op::Read { offset: *offset as u64, buf: lend(buf) } });
        }
        let done = collect(&engine, buffers.len()).await;
        assert!(done.iter().all(|completion| completion.result == Ok(Outcome::Done)));
        for (offset, buf) in &buffers {
            assert!(buf[..] == content[*offset..*offset + buf.len()], "{} bytes at {offset}", buf.len());
        }
        assert!(server.connections() <= 32, "{}", server.connections());
    });
    let read: u64 = disk.stats().snapshot().bytes_read;
    assert_eq!(disk.bytes_copied(), read);
}

#[test]
fn neighbours_become_one_request() {
    let content = content();
    let held = Arc::new(AtomicBool::new(true));
    let release = Arc::clone(&held);
    // The first reads take all connections until the rest has arrived.
    let server = Server::start(&content, move |request| {
        while request.number >= OPENING && held.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Act::Honest
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut buffers = vec![vec![0; 4096]; 64 + 256];
        for (tag, buf) in buffers.iter_mut().enumerate() {
            // Those with gaps between them first.
            let offset = if tag < 64 { tag * 8192 } else { (1 << 20) + (tag - 64) * 4096 };
            engine.submit(Job { tag: tag as u64, op: Op::Read { offset: offset as u64, buf: lend(buf) } });
        }
        let mut out = Vec::new();
        let all = engine.completions(&mut out);
        tokio::select! {
            () = all => panic!("nothing is answered yet"),
            () = tokio::time::sleep(Duration::from_millis(50)) => release.store(false, SeqCst),
        }
        collect(&engine, buffers.len()).await;
        assert!(buffers[64..].concat() == content[1 << 20..2 << 20]);
    });
    assert_eq!(server.requests().len(), OPENING + 64 + 1);
    assert!(server.requests().iter().any(|request| request.range == Some(1 << 20..2 << 20)));
}

#[test]
fn writes_are_refused_and_a_flush_has_nothing_to_do() {
    let server = Server::start(&content(), |_| Act::Honest);
    let disk = Disk::open(&options(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(write(&engine, 0, b"x", false).await, Err(JobError::ReadOnly));
        let zero = Op::Zero { offset: 0, len: 1, no_hole: false, fast: false };
        assert_eq!(one(&engine, zero).await, Err(JobError::ReadOnly));
        assert_eq!(one(&engine, Op::Trim { offset: 0, len: 1 }).await, Err(JobError::ReadOnly));
        assert_eq!(one(&engine, Op::Flush).await, Ok(Outcome::Done));
        let map = one(&engine, Op::Extents { offset: 5, len: 9 }).await;
        assert_eq!(map, Ok(Outcome::Extents(vec![data(9)])));
        assert_eq!(read(&engine, 5, 0).await, Ok(Vec::new()));
        let beyond = JobError::OutOfRange { offset: SIZE as u64, len: 1, size: SIZE as u64 };
        assert_eq!(read(&engine, SIZE as u64, 1).await, Err(beyond));
    });
    assert_eq!(server.requests().len(), OPENING);
}

#[test]
fn each_lie_is_an_error_of_its_own_and_not_asked_for_again() {
    let ok = "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\n";
    let size = SIZE;
    let lies: Vec<(&str, Act, ObjectError)> = vec![
        (
            "the whole object",
            Act::Raw(
                [
                    format!("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: {size}\r\n\r\n").into_bytes(),
                    content(),
                ]
                .concat(),
            ),
            ObjectError::NoRanges,
        ),
        ("another range", with("Content-Range", &format!("bytes 0-4095/{size}")), ObjectError::WrongRange),
        ("no range", with("Content-Range", ""), ObjectError::WrongRange),
        ("another length", with("Content-Length", "4095"), ObjectError::WrongLength),
        (
            "no length",
            raw(&format!("{ok}Content-Range: bytes 8192-12287/{size}\r\nConnection: close\r\n\r\nx")),
            ObjectError::NoLength,
        ),
        (
            "chunks",
            raw(&format!(
                "{ok}Content-Range: bytes 8192-12287/{size}\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n"
            )),
            ObjectError::Chunked,
        ),
        (
            "two lengths",
            raw(&format!(
                "{ok}Content-Range: bytes 8192-12287/{size}\r\nContent-Length: 4096\r\nContent-Length: 4097\r\n\r\n"
            )),
            ObjectError::Protocol,
        ),
        (
            "another size",
            with("Content-Range", &format!("bytes 8192-12287/{}", size + 1)),
            ObjectError::Changed,
        ),
        ("another tag", with("ETag", "\"v2\""), ObjectError::Changed),
        ("a weak tag", with("ETag", "W/\"v1\""), ObjectError::Changed),
        ("no tag", with("ETag", ""), ObjectError::Unversioned),
        ("compressed", with("Content-Encoding", "gzip"), ObjectError::Encoded),
        (
            "a redirect",
            raw("HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n"),
            ObjectError::Redirect,
        ),
        ("gone", raw("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), ObjectError::Missing),
        ("forbidden", raw("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), ObjectError::Status(403)),
        (
            "another one",
            raw("HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n"),
            ObjectError::Changed,
        ),
        ("not HTTP", Act::RawAndHang(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()), ObjectError::Protocol),
        (
            "endless lines",
            Act::Endless("HTTP/1.1 206 Partial Content\r\n", "X-A: b\r\n"),
            ObjectError::LongHead,
        ),
        (
            "an endless line",
            Act::Endless("HTTP/1.1 206 Partial Content\r\nX-A: ", "bbbbbbbbbbbbbbbb"),
            ObjectError::LongHead,
        ),
    ];
    for (name, act, expected) in lies {
        let (result, server) = answer(options, move |_| act.clone());
        assert_eq!(result, Err(JobError::Object(expected)), "{name}");
        assert_eq!(server.requests().len(), OPENING + 1, "{name}");
    }
}

#[test]
fn what_passes_is_tried_again() {
    let busy =
        |status: &str| raw(&format!("HTTP/1.1 {status}\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"));
    let transient = [
        busy("503 Slow Down"),
        busy("500 Internal Server Error"),
        busy("429 Too Many Requests"),
        Act::RawAndHang(Vec::new()),
        Act::RawAndHang(b"HTTP/1.1 206 Par".to_vec()),
        Act::Silence,
    ];
    for act in transient {
        let four = |url: &str| DiskOptions { reconnect_wait: Duration::from_secs(4), ..options(url) };
        let (result, _) = answer(four, move |request| match request.number {
            OPENING => act.clone(),
            _ => Act::Honest,
        });
        assert!(result.unwrap() == content()[8192..12_288]);
    }
}

#[test]
fn a_read_that_was_cut_off_goes_on_where_it_was() {
    let (result, server) = answer(options, |request| match request.number - OPENING {
        0 => Act::Cut(1000),
        1 => Act::Cut(0),
        2 => Act::Cut(96),
        _ => Act::Honest,
    });
    assert!(result.unwrap() == content()[8192..12_288]);
    let asked: Vec<_> =
        server.requests().iter().skip(OPENING).map(|request| request.range.clone().unwrap()).collect();
    assert_eq!(asked, [8192..12_288, 9192..12_288, 9192..12_288, 9288..12_288]);
}

#[test]
fn what_does_not_pass_in_time_is_an_error_with_its_cause() {
    let status = || raw("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n");
    let (result, server) = answer(impatient, move |_| status());
    assert_eq!(result, Err(JobError::Object(ObjectError::Status(503))));
    assert!(server.requests().len() > OPENING + 1);
    let (result, _) = answer(impatient, |_| Act::Silence);
    assert_eq!(result, Err(JobError::Object(ObjectError::Silent)));
    let (result, _) = answer(impatient, |_| Act::Cut(0));
    assert_eq!(result, Err(JobError::Object(ObjectError::Lost)));
    let message = JobError::Object(ObjectError::Status(503)).to_string();
    assert_eq!(message, "the object's server answered with status 503");
    assert_eq!(JobError::Object(ObjectError::Lost).errno(), libc::EIO);
}

#[test]
fn reads_behind_silent_ones_fail_with_them() {
    let server = Server::start(&content(), |request| match request.number {
        ..OPENING => Act::Honest,
        _ => Act::Silence,
    });
    let disk = Disk::open(&impatient(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut buffers = vec![vec![0; 512]; 200];
        let begun = Instant::now();
        for (tag, buf) in buffers.iter_mut().enumerate() {
            engine
                .submit(Job { tag: tag as u64, op: Op::Read { offset: tag as u64 * 4096, buf: lend(buf) } });
        }
        let done = collect(&engine, 200).await;
        let silent = Err(JobError::Object(ObjectError::Silent));
        assert!(done.iter().all(|completion| completion.result == silent), "{done:?}");
        // Those that waited for their turn at the disk, too: more than have one at a time.
        let (took, wait) = (begun.elapsed(), impatient(&server.url()).reconnect_wait);
        assert!(took < 2 * wait, "{took:?}");
    });
}

#[test]
fn a_slow_server_is_waited_for_as_long_as_bytes_come() {
    // In all much longer than the wait.
    let (result, _) = answer(impatient, |_| Act::Dribble(128, Duration::from_millis(60)));
    assert!(result.unwrap() == content()[8192..12_288]);
}

#[test]
fn a_server_that_closes_kept_connections_costs_nothing() {
    let content = content();
    let server = Server::start(&content, |request| match request.number % 3 {
        0 => Act::Honest,
        1 => Act::HonestAndHang,
        _ => Act::With(vec![("Connection", "close".to_owned())]),
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        for block in 0..60 {
            let bytes = read(&engine, block * 4096, 4096).await.unwrap();
            assert!(bytes == content[block as usize * 4096..][..4096]);
        }
    });
}

/// As when a firewall between has forgotten them: only the first read after that waits for an answer that never comes.
#[test]
fn kept_connections_that_are_dead_are_given_up_together() {
    let dead = Arc::new(AtomicBool::new(false));
    let (is_dead, held) = (Arc::clone(&dead), Arc::new(AtomicBool::new(true)));
    let is_held = Arc::clone(&held);
    let server = Server::start(&content(), move |request| {
        // So that each of the first reads has a connection of its own.
        while request.number >= OPENING && is_held.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_dead.load(SeqCst) && request.connection <= 8 { Act::Silence } else { Act::Honest }
    });
    let disk = Disk::open(&DiskOptions { reconnect_wait: Duration::from_secs(4), ..options(&server.url()) })
        .unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut buffers = vec![vec![0; 512]; 8];
        for (tag, buf) in buffers.iter_mut().enumerate() {
            engine
                .submit(Job { tag: tag as u64, op: Op::Read { offset: tag as u64 * 4096, buf: lend(buf) } });
        }
        let mut out = Vec::new();
        tokio::select! {
            () = engine.completions(&mut out) => panic!("nothing is answered yet"),
            () = async {
                while server.requests().len() < OPENING + 8 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            } => held.store(false, SeqCst),
        }
        collect(&engine, 8).await;
        assert_eq!(server.connections(), 8);
        dead.store(true, SeqCst);
        assert!(read(&engine, 8192, 4096).await.unwrap() == content()[8192..12_288]);
    });
    assert_eq!(server.requests().len(), OPENING + 8 + 2);
}

#[test]
fn bytes_after_an_answer_are_not_taken_for_the_next_one() {
    let content = content();
    let longer = content.clone();
    let server = Server::start(&content, move |request| match (request.number, request.range.clone()) {
        (OPENING.., Some(range)) => {
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{SIZE}\r\n\r\n",
                range.len(),
                range.start,
                range.end - 1
            );
            Act::Raw([head.as_bytes(), &longer[range.start..range.end + 100]].concat())
        }
        _ => Act::Honest,
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        for block in 0..20 {
            let bytes = read(&engine, block * 4096, 4096).await.unwrap();
            assert!(bytes == content[block as usize * 4096..][..4096]);
        }
    });
}

#[test]
fn a_changed_object_is_said_to_be_one_until_it_is_back() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = Arc::clone(&changed);
    let server = Server::start(&content(), move |_| match is_changed.load(SeqCst) {
        true => with("ETag", "\"v2\""),
        false => Act::Honest,
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        read(&engine, 0, 512).await.unwrap();
        assert_eq!(disk.altered(), None);
        changed.store(true, SeqCst);
        assert_eq!(read(&engine, 0, 512).await, Err(JobError::Object(ObjectError::Changed)));
        let altered = disk.altered().unwrap();
        assert!(matches!(altered, Altered::Object { .. }));
        let text = altered.to_string();
        assert!(text.contains(&server.url()) && text.contains("etag was \"v1\" and is \"v2\""), "{text}");
        changed.store(false, SeqCst);
        read(&engine, 0, 512).await.unwrap();
        assert_eq!(disk.altered(), None);
    });
}

#[test]
fn an_engine_that_is_dropped_waits_for_no_server() {
    let server = Server::start(&content(), |request| match request.number {
        ..OPENING => Act::Honest,
        _ => Act::Silence,
    });
    let disk = Disk::open(&options(&server.url())).unwrap();
    let mut buffers = vec![vec![0; 4096]; 100];
    data_thread(async {
        let engine = Engine::new(&disk);
        for (tag, buf) in buffers.iter_mut().enumerate() {
            engine
                .submit(Job { tag: tag as u64, op: Op::Read { offset: tag as u64 * 8192, buf: lend(buf) } });
        }
        let mut out = Vec::new();
        tokio::select! {
            () = engine.completions(&mut out) => panic!("nothing is answered"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    });
    assert_eq!(disk.stats().snapshot().in_flight, 0);
}

#[test]
fn what_cannot_be_a_disk_is_refused_with_a_remedy() {
    let refused = |act: Act| {
        let server = Server::start(&content(), move |_| act.clone());
        let error = Disk::open(&impatient(&server.url())).unwrap_err();
        let (text, transient) = (error.to_string(), error.is_transient());
        let DiskError::Object { failure, .. } = error else { panic!("{text}") };
        assert!(text.contains(&server.url()) && text.contains("; "), "{text}");
        (failure.error, transient)
    };
    let empty = |status: &str| raw(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(refused(with("ETag", "W/\"v1\"")), (ObjectError::NoVersion, false));
    assert_eq!(refused(with("ETag", "")), (ObjectError::NoVersion, false));
    assert_eq!(refused(with("Content-Length", "0")), (ObjectError::Empty, false));
    assert_eq!(refused(with("Content-Length", "")), (ObjectError::NoLength, false));
    assert_eq!(refused(with("Accept-Ranges", "none")), (ObjectError::NoRanges, false));
    assert_eq!(refused(empty("404 Not Found")), (ObjectError::Missing, false));
    assert_eq!(refused(empty("403 Forbidden")), (ObjectError::Status(403), false));
    assert_eq!(refused(empty("503 Slow Down")), (ObjectError::Status(503), true));
    assert_eq!(refused(Act::Silence), (ObjectError::Silent, true));
    assert_eq!(refused(Act::RawAndHang(Vec::new())), (ObjectError::Lost, true));
    // Ranges are tried before anybody reads.
    let whole = Server::start(b"abc", |request| match request.range {
        None => Act::Honest,
        Some(_) => raw("HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 3\r\n\r\nabc"),
    });
    let error = Disk::open(&impatient(&whole.url())).unwrap_err().to_string();
    assert!(error.contains("ignores ranges") && error.contains("use another server"), "{error}");
}

#[test]
fn nobody_there_is_waited_for() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/x?sig=hush");
    let error = Disk::open(&impatient(&url)).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains(&format!("127.0.0.1:{port}/x?…")), "{error}");
    assert!(!format!("{error:?} {error}").contains("hush"));
}

#[test]
fn the_time_is_the_version_where_there_is_no_tag() {
    let lines = |modified: &str| {
        let date = "Sun, 06 Nov 1994 09:00:00 GMT".to_owned();
        Act::With(vec![("ETag", String::new()), ("Date", date), ("Last-Modified", modified.to_owned())])
    };
    let (old, new) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
    let server = Server::start(&content(), move |request| lines(if request.number < 3 { old } else { new }));
    let disk = Disk::open(&options(&server.url())).unwrap();
    assert_eq!(disk.version(), None, "not over a restart");
    data_thread(async {
        let engine = Engine::new(&disk);
        read(&engine, 0, 512).await.unwrap();
        assert_eq!(read(&engine, 0, 512).await, Err(JobError::Object(ObjectError::Changed)));
    });
    assert_eq!(server.requests()[2].header("if-unmodified-since"), Some(old));
    let fresh = Server::start(&content(), move |_| lines("Sun, 06 Nov 1994 09:00:00 GMT"));
    let error = Disk::open(&options(&fresh.url())).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("changed only now"), "{error}");
}

#[test]
fn a_store_gets_signed_requests_and_new_keys_when_the_old_ones_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let keys = |id: &str| format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = hush\n");
    fs::write(&file, keys("OLD")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let new = keys("NEW");
    let server = Server::start(&content(), move |request| {
        let is_old = request.header("authorization").is_none_or(|text| text.contains("=OLD/"));
        if request.number >= OPENING && is_old {
            fs::write(&path, &new).unwrap();
            return raw(
                "HTTP/1.1 400 Bad Request\r\nContent-Length: 46\r\n\r\n<Error><Code>ExpiredToken</Code></Error>      ",
            );
        }
        Act::Honest
    });
    let endpoint = format!("http://{}", server.address);
    let Place::Web(endpoint) = endpoint.parse::<Url>().unwrap().place else { panic!("a web server") };
    let mut options = options("s3://models/big model.bin");
    options.source = cards_disk::Source::Object(ObjectSource {
        endpoint: Some(endpoint),
        credentials: Some(file.path().to_owned()),
        ..source("s3://models/big model.bin")
    });
    let disk = Disk::open(&options).unwrap();
    assert_eq!(disk.name(), "s3://models/big model.bin");
    data_thread(async { read(&Engine::new(&disk), 0, 512).await.unwrap() });
    let requests = server.requests();
    assert_eq!(requests.len(), OPENING + 2);
    assert!(
        requests[0].head.starts_with("HEAD /models/big%20model.bin HTTP/1.1\r\n"),
        "{}",
        requests[0].head
    );
    assert!(requests[3].header("authorization").unwrap().contains("Credential=NEW/"));
    assert!(!format!("{disk:?}").contains("hush"));
}

#[test]
fn a_denial_says_the_code_of_the_store() {
    let body = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
    let denial = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let server = Server::start(&content(), move |request| match request.number {
        0 => Act::Honest,
        _ => raw(&denial),
    });
    let error = Disk::open(&options(&server.url())).unwrap_err().to_string();
    assert!(error.contains("status 403 (RequestTimeTooSkewed); check the credentials"), "{error}");
}

/// A server's certificate for `localhost`, its own authority, and the file with it.
fn certificate() -> (Arc<ServerConfig>, tempfile::NamedTempFile) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), file(made.cert.pem().as_bytes()))
}

#[test]
fn https_needs_an_authority_that_is_known() {
    let content = content();
    let (config, ca) = certificate();
    let server = Server::with(&content, Some(config), |_| Act::Honest);
    let with_ca = |ca: &tempfile::NamedTempFile| {
        let source = ObjectSource { ca: Some(ca.path().to_owned()), ..source(&server.url()) };
        DiskOptions { reconnect_wait: Duration::from_secs(20), ..DiskOptions::object(source) }
    };
    let disk = Disk::open(&with_ca(&ca)).unwrap();
    data_thread(async {
        assert!(read(&Engine::new(&disk), 4096, 1 << 20).await.unwrap() == content[4096..4096 + (1 << 20)]);
    });
    let (_, other) = certificate();
    let error = Disk::open(&with_ca(&other)).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("with `ca`"), "{error}");
}
