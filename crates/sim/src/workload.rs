//! A trace by its name, and whose requests they are.

use cards_trace::{Beyond, Info, Options, Progress, Request, Skipped, Source, Spread, TraceError, open};

use crate::run::Interrupt;

/// A trace to be simulated, perhaps many times.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A file, or `gen:NAME:...`.
    pub name: String,
    /// How a file is to be read.
    pub options: Options,
    /// Which node does a request.
    pub spread: Spread,
    /// What becomes of requests of nodes that the cluster does not have.
    pub beyond: Beyond,
}

/// What is in a trace, before it is dealt to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Requests of any kind.
    pub requests: u64,
    /// The highest number of a node, plus one.
    pub nodes: u32,
    /// Bytes of all blocks that are touched, if that was asked for.
    pub footprint_bytes: Option<u64>,
}

impl Workload {
    /// The requests, dealt to so many nodes.
    ///
    /// # Errors
    /// The trace cannot be opened, or cannot be dealt this way.
    pub fn open(&self, nodes: u16) -> Result<Box<dyn Source>, TraceError> {
        self.spread.apply(nodes.into(), self.beyond, || open(&self.name, &self.options))
    }

    /// Reads the trace once, and counts its footprint in blocks of a size if one is given. `pace` is told
    /// of the requests so far and how much of the trace that is; none if it was interrupted.
    ///
    /// # Errors
    /// What the trace reports.
    pub fn survey(
        &self,
        block_bytes: Option<u32>,
        pace: &mut (dyn FnMut(u64, Progress) -> Interrupt + Send),
    ) -> Result<Option<Survey>, TraceError> {
        let source = open(&self.name, &self.options)?;
        let mut watched = Watched { source, pace, requests: 0, nodes: 0, stopped: false };
        let footprint_bytes = match block_bytes {
            Some(block_bytes) => Some(Info::read(&mut watched, block_bytes)?.footprint_bytes()),
            None => {
                while watched.next()?.is_some() {}
                None
            }
        };
        let Watched { requests, nodes, stopped, .. } = watched;
        Ok((!stopped).then_some(Survey { requests, nodes, footprint_bytes }))
    }

    /// The nodes that the cluster must have, if the trace says so.
    #[must_use]
    pub const fn names_nodes(&self) -> bool {
        matches!((self.spread, self.beyond), (Spread::AsIs, Beyond::Refuse))
    }
}

/// Counts what passes.
struct Watched<'a> {
    source: Box<dyn Source>,
    pace: &'a mut (dyn FnMut(u64, Progress) -> Interrupt + Send),
    requests: u64,
    nodes: u32,
    stopped: bool,
}

/// Requests between two words to the pace.
const PACE: u64 = 1 << 13;

impl Source for Watched<'_> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.stopped {
            return Ok(None);
        }
        let Some(request) = self.source.next()? else { return Ok(None) };
        self.requests += 1;
        self.nodes = self.nodes.max(request.node.saturating_add(1));
        if self.requests.is_multiple_of(PACE) {
            self.stopped = (self.pace)(self.requests, self.source.progress()) == Interrupt::Stop;
        }
        Ok(Some(request))
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn skipped(&self) -> &Skipped {
        self.source.skipped()
    }

    fn has_times(&self) -> bool {
        self.source.has_times()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, spread: Spread) -> Workload {
        Workload { name: name.into(), options: Options::default(), spread, beyond: Beyond::Refuse }
    }

    #[test]
    fn a_survey_counts_requests_nodes_and_bytes() {
        let oltp = workload("gen:oltp:nodes=3,bytes=4MiB,requests=3000", Spread::AsIs);
        let survey = oltp.survey(Some(4096), &mut |_, _| Interrupt::Continue).unwrap().unwrap();
        let footprint = survey.footprint_bytes.unwrap();
        assert!(survey.requests == 3000 && survey.nodes == 3, "{survey:?}");
        assert!((1 << 20..8 << 20).contains(&footprint) && footprint.is_multiple_of(4096), "{footprint}");
        let quick = oltp.survey(None, &mut |_, _| Interrupt::Continue).unwrap().unwrap();
        assert_eq!(quick, Survey { footprint_bytes: None, ..survey });
    }

    #[test]
    fn a_survey_can_be_stopped() {
        let long = workload("gen:oltp:requests=all", Spread::AsIs);
        assert_eq!(long.survey(None, &mut |_, _| Interrupt::Stop).unwrap(), None);
    }

    #[test]
    fn an_unknown_trace_is_an_error() {
        assert!(workload("gen:olpt", Spread::AsIs).open(3).is_err());
        assert!(workload("/no/such/file", Spread::Client).open(3).is_err());
    }
}
