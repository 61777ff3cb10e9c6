//! Request/response without a protocol: 64 bytes name an offset, one block comes back.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::caller::Caller;
use super::tls::Identity;
use super::write_all_vectored;
use crate::load::Outcome;
use crate::proc::cpu::{Meter, thread_ns};
use crate::rng::Rng;
use crate::stats::Latencies;
use crate::{Error, content};

/// The size of a request.
const REQUEST_BYTES: usize = 64;
/// What the server answers from: enough not to fit in the processor's caches.
const MEMORY_BYTES: u64 = 256 << 20;

/// Answers requests for blocks of `block` bytes on `host` until the process is ended; with an identity, under TLS.
pub fn serve(host: &str, block: usize, identity: Option<&Identity>) -> Result<(), Error> {
    let listener = TcpListener::bind(host).map_err(Error::io(format!("listening on {host}")))?;
    let mut memory = Vec::with_capacity(MEMORY_BYTES as usize);
    content::append(&mut memory, 0, MEMORY_BYTES as usize);
    loop {
        if let Ok((stream, _)) = listener.accept() {
            // A client that leaves, also in the middle of a request, is the normal end.
            let _ = answer(stream, &memory, block, identity);
        }
    }
}

fn answer(stream: TcpStream, memory: &[u8], block: usize, identity: Option<&Identity>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match identity {
        None => answer_all(stream, memory, block),
        Some(identity) => answer_all(identity.accept(stream)?, memory, block),
    }
}

fn answer_all(mut stream: impl Read + Write, memory: &[u8], block: usize) -> io::Result<()> {
    let mut received = vec![0; 64 << 10];
    let mut held = 0;
    loop {
        let len = stream.read(&mut received[held..])?;
        if len == 0 {
            return Ok(());
        }
        let end = held + len;
        let whole = end - end % REQUEST_BYTES;
        let mut slices: Vec<IoSlice<'_>> = received[..whole]
            .chunks_exact(REQUEST_BYTES)
            .map(|request| {
                let number = u64::from_le_bytes(request[..8].try_into().expect("8 bytes"));
                let at = (number % (memory.len() / block) as u64) as usize * block;
                IoSlice::new(&memory[at..at + block])
            })
            .collect();
        write_all_vectored(&mut stream, &mut slices)?;
        received.copy_within(whole..end, 0);
        held = end - whole;
    }
}

/// The near end in the clear.
struct Plain {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Caller for Plain {
    fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.stream.write_all(requests)
    }

    fn receive(&mut self) -> io::Result<usize> {
        match self.stream.read(&mut self.received)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

/// Keeps `depth` requests in flight for `duration`; with the far end's identity, under TLS. With `pids`, processor time is
/// theirs and that of this thread.
pub fn run(
    host: &str,
    block: u32,
    depth: usize,
    duration: Duration,
    pids: &[i32],
    identity: Option<&Identity>,
) -> Result<Outcome, Error> {
    let call = || {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(match identity {
            None => Box::new(Plain { stream, received: vec![0; 1 << 20] }) as Box<dyn Caller>,
            Some(identity) => Box::new(identity.call(stream)?),
        })
    };
    let failed = || Error::io(format!("ping-pong with {host}"));
    let mut caller = call().map_err(failed())?;
    let mut rng = Rng::new(1);
    let mut latencies = Latencies::new();
    let mut in_flight = VecDeque::with_capacity(depth);
    let (mut completed, mut partial) = (0, 0);
    let mut meter = Meter::start(pids);
    let own_before = thread_ns();
    let start = Instant::now();
    let mut wanted = depth;
    loop {
        let now = Instant::now();
        let mut requests = vec![0; wanted * REQUEST_BYTES];
        for request in requests.chunks_exact_mut(REQUEST_BYTES) {
            request[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            in_flight.push_back(now);
        }
        if !requests.is_empty() {
            caller.send(&requests).map_err(failed())?;
        }
        if in_flight.is_empty() {
            break;
        }
        let len = match caller.receive() {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                crate::interrupt::check()?;
                0
            }
            Err(error) => return Err(failed()(error)),
        };
        let now = Instant::now();
        partial += len;
        let answered = partial / block as usize;
        partial %= block as usize;
        for sent_at in in_flight.drain(..answered.min(depth)) {
            latencies.record(now.duration_since(sent_at).as_nanos() as u64);
        }
        completed += answered as u64;
        wanted = if now.duration_since(start) < duration { answered } else { 0 };
    }
    let elapsed = start.elapsed();
    meter.sample();
    let cpu_ns = (!pids.is_empty()).then(|| meter.used_ns() + thread_ns() - own_before);
    Ok(Outcome::new(completed, block, elapsed, latencies.summary(), cpu_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_by_a_block() {
        const BLOCK: u32 = 64 << 10;
        const DEPTHS: [usize; 2] = [1, 32];
        for identity in [None, Some(Identity::generate().unwrap())] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let host = listener.local_addr().unwrap().to_string();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let memory = vec![7; 1 << 20];
                    for _ in DEPTHS {
                        let (stream, _) = listener.accept().unwrap();
                        let _ = answer(stream, &memory, BLOCK as usize, identity.as_ref());
                    }
                });
                for depth in DEPTHS {
                    let limit = Duration::from_millis(5);
                    let outcome = run(&host, BLOCK, depth, limit, &[], identity.as_ref()).unwrap();
                    assert!(outcome.requests >= depth as u64);
                    assert_eq!(outcome.server_cpu_us, None);
                }
            });
        }
    }

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::generate().unwrap();
        identity.write(dir.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let read = Identity::read(dir.path()).unwrap();
                let _ = answer(listener.accept().unwrap().0, &[1; 4096], 4096, Some(&read));
            });
            assert!(run(&host, 4096, 1, Duration::ZERO, &[], Some(&identity)).is_ok());
        });
    }
}
