use std::time::{Duration, Instant};

use serde::Serialize;

use super::connection::Connection;
use super::{Access, Mode, Options, Pattern};
use crate::nbd::ProtocolError;
use crate::proc::cpu::Meter;
use crate::stats::{Latencies, LatencySummary};
use crate::{Error, Uri, interrupt};

/// A server that stays silent for this long is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Where the load goes and whose CPU time it costs.
#[derive(Debug, Clone)]
pub struct Target {
    /// The export.
    pub uri: Uri,
    /// The server's processes; empty when they are not known, as on another machine.
    pub pids: Vec<i32>,
}

/// What one load achieved.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Outcome {
    /// Requests answered.
    pub requests: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes of data per second.
    pub bytes_per_s: f64,
    /// Latency per request.
    pub latency: LatencySummary,
    /// CPU time of the server per request in microseconds.
    pub server_cpu_us: Option<f64>,
    /// How long it took, with the draining of outstanding requests.
    pub seconds: f64,
}

impl Outcome {
    pub(crate) fn new(
        requests: u64,
        block: u32,
        elapsed: Duration,
        latency: LatencySummary,
        cpu_ns: Option<u64>,
    ) -> Outcome {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let iops = requests as f64 / seconds;
        Outcome {
            requests,
            iops,
            bytes_per_s: iops * f64::from(block),
            latency,
            server_cpu_us: cpu_ns.filter(|_| requests > 0).map(|ns| ns as f64 / 1e3 / requests as f64),
            seconds,
        }
    }
}

/// Runs one load to its end.
///
/// # Errors
/// Any failed request, any reply that does not belong to one, and with `verify` any wrong byte.
pub fn run(target: &Target, options: &Options) -> Result<Outcome, Error> {
    options.validate()?;
    let protocol = |source| Error::Protocol { uri: target.uri.to_string(), source };
    let mut connections = Vec::with_capacity(options.connections);
    for index in 0..options.connections {
        let connection = Connection::open(&target.uri, options).map_err(protocol)?;
        let range = options.range.start..options.range.end.min(connection.export.size);
        let access = options.access;
        let pattern = Pattern::new(access, range, options.block, index, options.connections, options.seed);
        connections.push((connection, pattern));
    }
    if connections.iter().all(|(_, pattern)| pattern.is_empty()) {
        let value = crate::size::format_size(options.block.into());
        let remedy = format!("no such block fits in the chosen part of {}", target.uri);
        return Err(Error::Option { option: "block", value, remedy });
    }

    let mut meter = (!target.pids.is_empty()).then(|| Meter::start(&target.pids));
    let start = Instant::now();
    drive(&mut connections, options, &target.uri, start + options.duration)?;
    let elapsed = start.elapsed();
    // Before the disconnect: server threads and processes of these connections still exist.
    let cpu_ns = meter.as_mut().map(|meter| {
        meter.sample();
        meter.used_ns()
    });

    let (mut requests, mut latencies) = (0, Latencies::new());
    for (mut connection, _) in connections {
        connection.disconnect();
        let (completed, times) = connection.results();
        requests += completed;
        latencies.add(&times);
    }
    Ok(Outcome::new(requests, options.block, elapsed, latencies.summary(), cpu_ns))
}

fn drive(
    connections: &mut [(Connection, Pattern)],
    options: &Options,
    uri: &Uri,
    deadline: Instant,
) -> Result<(), Error> {
    let protocol = |source: ProtocolError| Error::Protocol { uri: uri.to_string(), source };
    let mut polled: Vec<libc::pollfd> = connections
        .iter()
        .map(|(connection, _)| libc::pollfd { fd: connection.fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    for (connection, pattern) in connections.iter_mut() {
        connection.send(pattern).map_err(protocol)?;
    }
    let mut last_reply = Instant::now();
    while !connections.iter().all(|(connection, _)| connection.is_finished()) {
        for (entry, (connection, _)) in polled.iter_mut().zip(connections.iter()) {
            entry.events = if connection.wants_write() { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
            // poll ignores negative descriptors: a finished connection needs no attention.
            entry.fd = if connection.is_finished() { -1 } else { connection.fd() };
        }
        let ready = wait(&mut polled, options.spin)?;
        let now = Instant::now();
        if now >= deadline {
            connections.iter_mut().for_each(|(connection, _)| connection.stop());
        }
        if ready == 0 {
            interrupt::check()?;
            if now.duration_since(last_reply) > SILENCE_LIMIT {
                let outstanding = connections.iter().map(|(connection, _)| connection.outstanding()).sum();
                return Err(Error::Silent { uri: uri.to_string(), waited: SILENCE_LIMIT, outstanding });
            }
            continue;
        }
        last_reply = now;
        for (entry, (connection, pattern)) in polled.iter().zip(connections.iter_mut()) {
            if entry.revents & !libc::POLLOUT != 0 {
                connection.receive().map_err(protocol)?;
            }
            if entry.revents != 0 {
                connection.send(pattern).map_err(protocol)?;
            }
        }
    }
    Ok(())
}

/// Waits for the next readiness, at most a tenth of a second so that the deadline is noticed.
fn wait(polled: &mut [libc::pollfd], spin: bool) -> Result<usize, Error> {
    let timeout_ms = if spin { 0 } else { 100 };
    // SAFETY: the pointer and length describe a live, exclusively borrowed slice.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    if ready >= 0 {
        return Ok(ready as usize);
    }
    let error = Error::last_os("waiting for replies");
    interrupt::check()?;
    match &error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

/// Whether a server answers a handshake at `uri`.
pub fn probe(uri: &Uri, options: &Options) -> Result<(), Error> {
    let protocol = |source| Error::Protocol { uri: uri.to_string(), source };
    let mut connection = Connection::open(uri, options).map_err(protocol)?;
    connection.disconnect();
    Ok(())
}

/// Writes the content of the test disk to all of an export.
pub fn fill(target: &Target) -> Result<Outcome, Error> {
    let options = Options { mode: Mode::Write, ..scan() };
    run(target, &options)
}

/// Reads all of an export once, checking every byte: warms its cache and proves its content.
pub fn read_all(target: &Target) -> Result<Outcome, Error> {
    run(target, &Options { verify: true, ..scan() })
}

fn scan() -> Options {
    Options {
        access: Access::Scan,
        block: 256 << 10,
        depth: 8,
        duration: Duration::from_secs(600),
        ..Options::default()
    }
}
