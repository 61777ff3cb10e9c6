//! A workstation and its user.

use std::collections::VecDeque;

use super::Census;
use super::pools::{Class, File, Pools};
use crate::generate::moment::Moment;
use crate::generate::random::Random;
use crate::{Op, Request};

/// Table 1, per open: unlinks (every new file is deleted some day), closes, and the bytes of long files that
/// the mean request sizes leave room for.
const NEW_FILES: f64 = 47.0 / 407.0;
const CLOSES: f64 = 400.0 / 407.0;
const LONG_READ: f64 = 2080.0;
const LONG_WRITTEN: f64 = 3150.0;

/// Shares of the opens: to read and write; and of those only to read, of medium files and of pieces.
const UPDATES: f64 = 0.01;
const MEDIUM: f64 = 0.16;
const PARTIAL: f64 = 0.22;
const RANDOM: f64 = 0.04;
/// Reads of a file that the client wrote a moment ago.
const OWN_NEW: f64 = 0.05;

/// Files that somebody looks at stay open for longer than a program takes.
const SLOW: f64 = 0.2;
const SLOW_TIME: f64 = 2.0 * SECOND;

const TRANSFER: u64 = 32 << 10;
const PIECE: u64 = 1024;
const NEW_PIECE: u64 = 2048;

const SECOND: f64 = 1e9;
const SESSION: f64 = 20.0 * 60.0 * SECOND;
const PAUSE: f64 = 80.0 * 60.0 * SECOND;
/// How long new files live: most of them seconds, the others minutes.
const SHORT_LIFE: f64 = 6.0 * SECOND;
const LONG_LIFE: f64 = 900.0 * SECOND;
/// New files that a client keeps at most; well below the places in its rings.
const KEPT_MAX: usize = 64;

const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// What a client does with an open file.
#[derive(Clone, Copy, Debug)]
struct Visit {
    file: File,
    /// Where it goes on.
    at: u64,
    piece: u64,
    reads: u64,
    writes: u64,
    /// Each piece anywhere in the file.
    scattered: bool,
    new: bool,
}

/// A file that will be deleted.
#[derive(Clone, Copy, Debug)]
struct Doomed {
    time: u64,
    file: File,
}

/// A request, and how long it takes until the next one.
pub(super) struct Act {
    pub(super) request: Request,
    pub(super) idle: u64,
    pub(super) compute: u64,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    /// Factor on the pauses between sessions: some machines are hardly used.
    leisure: f64,
    session_end: u64,
    visit: Option<Visit>,
    new_files: u64,
    doomed: VecDeque<Doomed>,
}

impl Client {
    pub(super) fn new(random: &mut Random) -> Self {
        let leisure = random.lognormal(1.0, 0.7);
        Self { leisure, session_end: 0, visit: None, new_files: 0, doomed: VecDeque::new() }
    }

    /// When its user first comes, in ns.
    pub(super) fn first_session(&self, random: &mut Random) -> u64 {
        random.exponential(PAUSE * self.leisure) as u64
    }

    /// The next request.
    pub(super) fn act(
        &mut self,
        moment: Moment,
        pools: &Pools,
        census: &mut Census,
        random: &mut Random,
    ) -> Act {
        let request = |op, offset, bytes: u64| moment.request(op, 0, offset, bytes as u32);
        let Some(mut visit) = self.visit else {
            // Between two files.
            if let Some(file) = self.take_doomed(moment.time) {
                return Act {
                    request: request(Op::Trim, file.offset, file.bytes),
                    idle: 0,
                    compute: moment_of_work(random),
                };
            }
            let visit = self.open(moment.node, pools, census, random);
            self.visit = Some(visit);
            let request = request(Op::Open, visit.file.offset, visit.file.bytes);
            let idle = if random.chance(SLOW) { random.exponential(SLOW_TIME) as u64 } else { 0 };
            return Act { request, idle, compute: moment_of_work(random) };
        };
        if visit.reads + visit.writes == 0 {
            self.visit = None;
            self.doom(&visit, moment.time, random);
            let request = request(Op::Close, visit.file.offset, visit.file.bytes);
            return Act { request, idle: self.idle(moment.time, random), compute: moment_of_work(random) };
        }
        let op = if visit.reads > 0 { Op::Read } else { Op::Write };
        let (offset, bytes) = visit.step(random);
        self.visit = Some(visit);
        let mut act = Act { request: request(op, offset, bytes), idle: 0, compute: moment_of_work(random) };
        // A few files are never closed.
        if visit.reads + visit.writes == 0 && !random.chance(CLOSES) {
            self.visit = None;
            self.doom(&visit, moment.time, random);
            act.idle = self.idle(moment.time, random);
        }
        act
    }

    /// Chooses a file and what to do with it.
    fn open(&mut self, node: u32, pools: &Pools, census: &mut Census, random: &mut Random) -> Visit {
        // Evenly spread lots: any thousand opens in a row have the right mix.
        let lot = (census.phase + census.opens as f64 * GOLDEN).fract();
        census.opens += 1;
        if lot < NEW_FILES {
            let long = (census.written as f64) < LONG_WRITTEN * census.opens as f64;
            let file = pools.new_file(long, node, self.new_files, random);
            self.new_files += 1;
            census.written += if long { file.bytes } else { 0 };
            let visit = Visit::whole(file, if long { TRANSFER } else { NEW_PIECE });
            return Visit { reads: 0, writes: visit.reads, new: true, ..visit };
        }
        let lot = (lot - NEW_FILES) / (1.0 - NEW_FILES);
        if lot < UPDATES {
            let file = pools.existing(Class::Medium, node, random);
            return Visit { reads: 2, writes: 2, piece: PIECE, scattered: true, ..Visit::whole(file, PIECE) };
        }
        if (census.read as f64) < LONG_READ * census.opens as f64 {
            let file = pools.existing(Class::Long, node, random);
            census.read += file.bytes;
            return Visit::whole(file, TRANSFER);
        }
        let lot = (lot - UPDATES) / (1.0 - UPDATES);
        if lot < MEDIUM {
            return Visit::whole(pools.existing(Class::Medium, node, random), TRANSFER);
        }
        let lot = (lot - MEDIUM) / (1.0 - MEDIUM);
        if lot < PARTIAL {
            let file = pools.existing(Class::Medium, node, random);
            let scattered = lot < RANDOM;
            let visit = Visit { reads: 3, piece: PIECE, scattered, ..Visit::whole(file, PIECE) };
            return visit.somewhere(random);
        }
        let recent = self.doomed.back().map(|doomed| doomed.file);
        match recent.filter(|file| file.bytes <= Class::Short.slot()) {
            Some(file) if random.chance(OWN_NEW) => Visit::whole(file, TRANSFER),
            _ => Visit::whole(pools.existing(Class::Short, node, random), TRANSFER),
        }
    }

    /// A new file's days are numbered.
    fn doom(&mut self, visit: &Visit, now: u64, random: &mut Random) {
        if visit.new {
            let life = if random.chance(0.85) { SHORT_LIFE } else { LONG_LIFE };
            let time = now.saturating_add(random.exponential(life) as u64);
            self.doomed.push_back(Doomed { time, file: visit.file });
        }
    }

    fn take_doomed(&mut self, now: u64) -> Option<File> {
        let full = self.doomed.len() >= KEPT_MAX;
        let index = self.doomed.iter().position(|doomed| full || doomed.time <= now)?;
        self.doomed.remove(index).map(|doomed| doomed.file)
    }

    /// The time to the next file: moments, mostly; between sessions much longer.
    fn idle(&mut self, now: u64, random: &mut Random) -> u64 {
        let mean = if random.chance(0.7) { 0.2 * SECOND } else { 13.0 * SECOND };
        let gap = random.exponential(mean) as u64;
        if now.saturating_add(gap) < self.session_end {
            return gap;
        }
        let pause = random.exponential(PAUSE * self.leisure) as u64;
        self.session_end = now.saturating_add(pause).saturating_add(random.exponential(SESSION) as u64);
        pause
    }
}

impl Visit {
    /// Reads all of a file.
    fn whole(file: File, piece: u64) -> Self {
        let reads = file.bytes.div_ceil(piece);
        Self { file, at: file.offset, piece, reads, writes: 0, scattered: false, new: false }
    }

    /// Starts at any piece from which all its reads fit into the file.
    fn somewhere(mut self, random: &mut Random) -> Self {
        let pieces = (self.file.bytes / self.piece).saturating_sub(self.reads);
        self.at += random.below(pieces + 1) * self.piece;
        self
    }

    /// The next range.
    fn step(&mut self, random: &mut Random) -> (u64, u64) {
        if self.scattered {
            self.at = self.file.offset + random.below(self.file.bytes / self.piece) * self.piece;
        }
        let offset = self.at;
        let bytes = self.piece.min(self.file.offset + self.file.bytes - offset);
        self.at += bytes;
        if self.reads > 0 {
            self.reads -= 1;
        } else {
            self.writes -= 1;
        }
        (offset, bytes)
    }
}

/// What a program computes between two requests.
fn moment_of_work(random: &mut Random) -> u64 {
    random.exponential(0.02 * SECOND) as u64
}
