//! Request/response without a protocol: 64 bytes name an offset, one block comes back.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

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

/// Answers requests for blocks of `block` bytes on `host` until the process is ended.
pub fn serve(host: &str, block: usize) -> Result<(), Error> {
    let listener = TcpListener::bind(host).map_err(Error::io(format!("listening on {host}")))?;
    let mut memory = Vec::with_capacity(MEMORY_BYTES as usize);
    content::append(&mut memory, 0, MEMORY_BYTES as usize);
    loop {
        if let Ok((stream, _)) = listener.accept() {
            // A client that leaves, also in the middle of a request, is the normal end.
            let _ = answer(stream, &memory, block);
        }
    }
}

fn answer(mut stream: TcpStream, memory: &[u8], block: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
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

/// Keeps `depth` requests in flight for `duration`. With `pids`, processor time is theirs and that of this thread.
pub fn run(host: &str, block: u32, depth: usize, duration: Duration, pids: &[i32]) -> Result<Outcome, Error> {
    let failed = || Error::io(format!("ping-pong with {host}"));
    let mut stream = TcpStream::connect(host).map_err(failed())?;
    stream.set_nodelay(true).map_err(failed())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed())?;
    let mut rng = Rng::new(1);
    let mut latencies = Latencies::new();
    let mut in_flight = VecDeque::with_capacity(depth);
    let mut received = vec![0; 1 << 20];
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
        stream.write_all(&requests).map_err(failed())?;
        if in_flight.is_empty() {
            break;
        }
        let len = match stream.read(&mut received) {
            Ok(0) => return Err(failed()(ErrorKind::UnexpectedEof.into())),
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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let memory = vec![7; 1 << 20];
            while let Ok((stream, _)) = listener.accept() {
                let _ = answer(stream, &memory, 4096);
            }
        });
        for depth in [1, 32] {
            let outcome = run(&host, 4096, depth, Duration::from_millis(5), &[]).unwrap();
            assert!(outcome.requests >= depth as u64);
            assert_eq!(outcome.server_cpu_us, None);
        }
    }
}
