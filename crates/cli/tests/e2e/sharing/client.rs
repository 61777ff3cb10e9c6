//! A client of one node: one operation after the other, each written down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::crowd::{Counts, Shared};
use super::history::{BLOCKS, Event};
use super::record::Recorder;
use crate::harness::client::Client;
use crate::harness::content::Random;
use crate::harness::export::Export;

/// Between two attempts to reach a node that is down.
const PATIENCE: Duration = Duration::from_millis(10);
/// A quarter of all operations meet on these blocks.
const HOT: u64 = 4;

/// Works until the crowd is told to go home.
pub(super) struct Worker {
    /// Clients count from 1; a write is named after its client and its number.
    recorder: Recorder,
    export: Export,
    shared: Arc<Shared>,
    random: Random,
    connection: Option<Client>,
    writes: u64,
    events: Vec<Event>,
}

impl Worker {
    pub(super) fn new(number: u64, export: Export, shared: Arc<Shared>, seed: u64) -> Worker {
        let random = Random(seed << 32 | number);
        let recorder = Recorder { client: number, clock: shared.clock };
        Worker { recorder, export, shared, random, connection: None, writes: 0, events: Vec::new() }
    }

    /// Everything it did.
    ///
    /// # Panics
    /// If a block was torn, or if an answer did not come: a client may be told of an error, but it must be told.
    pub(super) fn work(mut self, place: usize) -> Vec<Event> {
        let shared = Arc::clone(&self.shared);
        while !shared.is_over() {
            let done = self.step(&shared.counts[place].is_writing);
            let Counts { successes, failures, errors, .. } = &shared.counts[place];
            match done {
                Ok(()) => successes.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    let silent = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    assert!(
                        !silent,
                        "client {} at {} got no answer",
                        self.recorder.client,
                        self.export.uri()
                    );
                    errors.lock().expect("no panic inside").insert(error.to_string());
                    failures.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        self.events
    }

    fn step(&mut self, is_writing: &AtomicBool) -> io::Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Client::open(&self.export).inspect_err(|_| thread::sleep(PATIENCE))?,
        };
        let block =
            if self.random.below(4) == 0 { self.random.below(HOT) } else { self.random.below(BLOCKS) };
        let done = if self.random.below(5) < 2 {
            is_writing.store(true, Ordering::Relaxed);
            let done = self.write(&mut connection, block);
            is_writing.store(false, Ordering::Relaxed);
            done
        } else {
            self.read(&mut connection, block)
        };
        // An error of the disk leaves the connection as it was; after any other nothing is known of it.
        if done.as_ref().err().is_none_or(|error| error.raw_os_error() == Some(libc::EIO)) {
            self.connection = Some(connection);
        }
        done
    }

    fn write(&mut self, connection: &mut Client, block: u64) -> io::Result<()> {
        self.writes += 1;
        let tag = self.recorder.client << 32 | self.writes;
        let (event, done) = self.recorder.write(connection, block, tag);
        self.events.push(event);
        done
    }

    fn read(&mut self, connection: &mut Client, block: u64) -> io::Result<()> {
        self.events.push(self.recorder.read(connection, block)?);
        Ok(())
    }
}
