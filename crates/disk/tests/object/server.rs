//! A web server with one object, which does what its script says.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What the object is called at first.
pub(crate) const TAG: &str = "\"v1\"";

/// A request that has arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// How many came before.
    pub(crate) number: usize,
    /// Number of its connection, from 1.
    pub(crate) connection: usize,
    pub(crate) head: String,
    /// Of a GET.
    pub(crate) range: Option<Range<usize>>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// What the server does.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answers as it should.
    Honest,
    /// The same, and closes the connection without a word.
    HonestAndHang,
    /// The same, with these lines in place of those of the same names.
    With(Vec<(&'static str, String)>),
    /// Sends these bytes.
    Raw(Vec<u8>),
    /// Sends these bytes and closes the connection.
    RawAndHang(Vec<u8>),
    /// Sends the head and so many bytes of the body, then closes the connection.
    Cut(usize),
    /// Sends the body in pieces of this size, with this pause before each.
    Dribble(usize, Duration),
    /// Sends this again and again, until the other end is gone.
    Endless(&'static str, &'static str),
    /// Says nothing, until the other end is gone.
    Silence,
}

type Script = dyn Fn(&Request) -> Act + Send + Sync;

/// Ends with the test's process; a thread for each connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    content: Vec<u8>,
    script: Box<Script>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    tls: Option<Arc<ServerConfig>>,
}

impl Server {
    pub(crate) fn start(content: &[u8], script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Self {
        Self::with(content, None, script)
    }

    pub(crate) fn with(
        content: &[u8],
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            content: content.to_vec(),
            script: Box::new(script),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            tls,
        });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&of_thread);
                let number = shared.connections.fetch_add(1, SeqCst) + 1;
                thread::spawn(move || match shared.tls.clone() {
                    None => _ = shared.serve(stream, number),
                    Some(config) => {
                        let end = ServerConnection::new(config).unwrap();
                        let _ = shared.serve(StreamOwned::new(end, stream), number);
                    }
                });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}/disk.img", self.address.port())
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }
}

impl Shared {
    fn serve(&self, mut stream: impl Stream, connection: usize) -> io::Result<()> {
        while let Some(head) = read_head(&mut stream)? {
            let request = {
                let mut requests = self.requests.lock().unwrap();
                let mut request = Request { number: requests.len(), connection, head, range: None };
                request.range = request.header("range").map(|text| {
                    let (first, last) = text.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                    first.parse().unwrap()..last.parse::<usize>().unwrap() + 1
                });
                requests.push(request.clone());
                request
            };
            let (head, body) = self.honest(&request, &[]);
            match (self.script)(&request) {
                Act::Honest => stream.write_all(&[head.as_bytes(), &body].concat())?,
                Act::HonestAndHang => return stream.write_all(&[head.as_bytes(), &body].concat()),
                Act::With(lines) => {
                    let (head, body) = self.honest(&request, &lines);
                    stream.write_all(&[head.as_bytes(), &body].concat())?;
                }
                Act::Raw(bytes) => stream.write_all(&bytes)?,
                Act::RawAndHang(bytes) => return stream.write_all(&bytes),
                Act::Cut(bytes) => return stream.write_all(&[head.as_bytes(), &body[..bytes]].concat()),
                Act::Dribble(size, pause) => {
                    stream.write_all(head.as_bytes())?;
                    for piece in body.chunks(size) {
                        thread::sleep(pause);
                        stream.write_all(piece)?;
                    }
                }
                Act::Endless(start, again) => {
                    stream.write_all(start.as_bytes())?;
                    loop {
                        stream.write_all(again.as_bytes())?;
                    }
                }
                Act::Silence => _ = read_head(&mut stream)?,
            }
            stream.flush()?;
        }
        Ok(())
    }

    /// The answer, with other lines.
    fn honest(&self, request: &Request, other: &[(&'static str, String)]) -> (String, Vec<u8>) {
        let size = self.content.len();
        let mut lines = vec![("ETag", TAG.to_owned())];
        let (status, body) = match request.range.clone() {
            None => {
                lines.push(("Content-Length", size.to_string()));
                ("200 OK", Vec::new())
            }
            Some(range) => {
                lines.push(("Content-Length", range.len().to_string()));
                lines.push(("Content-Range", format!("bytes {}-{}/{size}", range.start, range.end - 1)));
                ("206 Partial Content", self.content[range].to_vec())
            }
        };
        lines.retain(|(name, _)| !other.iter().any(|(replaced, _)| replaced == name));
        let added = other.iter().filter(|(_, value)| !value.is_empty());
        lines.extend(added.map(|(name, value)| (*name, value.clone())));
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        (format!("HTTP/1.1 {status}\r\n{lines}\r\n"), body)
    }
}

/// Either kind of connection.
trait Stream: Read + Write {}

impl Stream for TcpStream {}
impl Stream for StreamOwned<ServerConnection, TcpStream> {}

/// Up to the empty line; none at the end of the connection.
fn read_head(stream: &mut impl Read) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(String::from_utf8(head).unwrap()))
}
