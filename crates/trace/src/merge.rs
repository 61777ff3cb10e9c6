//! Several sources as one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use crate::processes::Processes;
use crate::{Progress, Request, Skipped, Source, TraceError};

/// What the merged sources have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    /// Source i is what node i does, on volumes of its own: nothing is shared.
    Apart,
    /// Source i is what node i does; volume 0 of all is the same volume, and so on.
    SharedVolumes,
    /// They are recordings of one cluster: nodes, volumes and processes are what they say. Those that say
    /// when they were started are aligned by it.
    OneCluster,
}

/// Several sources, merged by time. Sources without times take turns, one request each. Equal times come in
/// the order of the sources.
pub struct Merge {
    parts: Vec<Part>,
    /// The next request of each part that has one, by its place in the order.
    heap: BinaryHeap<Reverse<(Duration, usize)>>,
    together: Together,
    has_times: bool,
    started: bool,
    ended: bool,
    processes: Processes,
    volumes: BTreeMap<(usize, u16), u16>,
    skipped: Skipped,
    started_us: Option<u64>,
}

/// A source with what is added to its times; without times, to the count of its requests in nanoseconds.
struct Part {
    source: Box<dyn Source>,
    shift: Duration,
    count: u64,
    head: Option<Request>,
    seen: Skipped,
}

/// By how much the start of each source is later than that of the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    /// By time; the sources must have times.
    Time(Duration),
    /// By requests of the first source. The sources then take turns: their times do not count.
    Requests(u64),
}

impl Merge {
    /// Merges sources that start together.
    ///
    /// # Errors
    /// There is none, or some have times and some have not.
    pub fn new(sources: Vec<Box<dyn Source>>, together: Together) -> Result<Self, TraceError> {
        let shift = match sources.iter().all(Source::has_times) {
            true => Shift::Time(Duration::ZERO),
            false => Shift::Requests(0),
        };
        Self::shifted(sources, together, shift)
    }

    /// Merges sources that start one after the other.
    ///
    /// # Errors
    /// There is none; some have times and some have not; or none has and the shift is one of time.
    pub fn shifted(
        sources: Vec<Box<dyn Source>>,
        together: Together,
        shift: Shift,
    ) -> Result<Self, TraceError> {
        let timed = sources.iter().filter(|source| source.has_times()).count();
        let refuse = |problem| Err(TraceError::setting("traces to merge", sources.len(), problem));
        if sources.is_empty() {
            return refuse("there is nothing to merge: name at least one trace");
        }
        if timed != 0 && timed != sources.len() {
            return refuse("some of the traces have times and some have not: they have no common order");
        }
        let has_times = match shift {
            Shift::Time(_) if timed == 0 => {
                return refuse("the traces have no times: shift by a number of requests");
            }
            Shift::Time(_) => true,
            Shift::Requests(_) => false,
        };
        let starts: Option<Vec<u64>> = match together {
            Together::OneCluster => sources.iter().map(Source::started_us).collect(),
            Together::Apart | Together::SharedVolumes => None,
        };
        let started_us = starts.iter().flatten().min().copied();
        let mut parts = Vec::new();
        for (i, source) in sources.into_iter().enumerate() {
            let late_us = starts.as_ref().map_or(0, |starts| starts[i] - started_us.unwrap_or(0));
            let by = match shift {
                Shift::Time(by) => by.saturating_mul(u32::try_from(i).unwrap_or(u32::MAX)),
                Shift::Requests(by) => Duration::from_nanos(by.saturating_mul(i as u64)),
            };
            let shift = if has_times { by.saturating_add(Duration::from_micros(late_us)) } else { by };
            parts.push(Part { source, shift, count: 0, head: None, seen: Skipped::default() });
        }
        Ok(Self {
            parts,
            heap: BinaryHeap::new(),
            together,
            has_times,
            started: false,
            ended: false,
            processes: Processes::default(),
            volumes: BTreeMap::new(),
            skipped: Skipped::default(),
            started_us,
        })
    }

    /// Fetches the next request of a part and puts it into the order.
    fn fetch(&mut self, i: usize) -> Result<(), TraceError> {
        let part = &mut self.parts[i];
        let next = part.source.next()?;
        self.skipped.follow(part.source.skipped(), &mut part.seen);
        part.head = next.map(|request| {
            let key = match self.has_times {
                true => request.time.saturating_add(part.shift),
                false => part.shift.saturating_add(Duration::from_nanos(part.count)),
            };
            part.count += 1;
            self.heap.push(Reverse((key, i)));
            Request { time: if self.has_times { key } else { Duration::ZERO }, ..request }
        });
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Request>, TraceError> {
        if !self.started {
            self.started = true;
            for i in 0..self.parts.len() {
                self.fetch(i)?;
            }
        }
        let Some(Reverse((_, i))) = self.heap.pop() else { return Ok(None) };
        let Some(mut request) = self.parts[i].head.take() else { return Ok(None) };
        self.fetch(i)?;
        if self.together != Together::OneCluster {
            // Memory ends long before 2^32 sources.
            request.node = i as u32;
            request.process = self.processes.number(request.node, request.process)?;
        }
        if self.together == Together::Apart {
            request.volume = self.volume(i, request.volume)?;
        }
        Ok(Some(request))
    }

    fn volume(&mut self, part: usize, volume: u16) -> Result<u16, TraceError> {
        let next = self.volumes.len();
        match self.volumes.get(&(part, volume)) {
            Some(&number) => Ok(number),
            None => match u16::try_from(next) {
                Ok(number) => Ok(*self.volumes.entry((part, volume)).or_insert(number)),
                Err(_) => Err(TraceError::setting(
                    "merge",
                    next,
                    "the traces have more than 65536 volumes together",
                )),
            },
        }
    }
}

impl Source for Merge {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let next = self.advance();
        self.ended = !matches!(next, Ok(Some(_)));
        next
    }

    fn progress(&self) -> Progress {
        self.parts.iter().map(|part| part.source.progress()).fold(
            Progress { done: 0, total: Some(0) },
            |sum, one| Progress {
                done: sum.done.saturating_add(one.done),
                total: sum.total.zip(one.total).map(|(a, b)| a.saturating_add(b)),
            },
        )
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.has_times
    }

    fn started_us(&self) -> Option<u64> {
        self.started_us
    }
}
