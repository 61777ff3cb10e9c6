//! `cards spans`: what happened to a sample of the requests, at every node that saw them.

mod show;

use cards_admin::Spans as Told;
use clap::Args;

use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// Show how requests went from node to node, and what took how long
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes trace one request in so many as `trace_sample` in their configurations says; by default they trace none.
Each node keeps the last 4096 steps. The times of one node are exact; two nodes' differ as their clocks do.

Examples:
  cards spans
  cards spans --slowest 5
  cards spans --trace n2:3.1a2b3c --json")]
pub(crate) struct Spans {
    /// Only this trace
    #[arg(long, value_name = "ID")]
    trace: Option<String>,

    /// Only so many traces, the slowest first [default: the last 10]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    slowest: Option<usize>,

    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Traces that are shown if nobody says how many.
const LAST: usize = 10;

impl Spans {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let told = self.daemon.connect()?.spans(self.trace.as_deref())?;
        if self.json {
            let traces = match self.slowest {
                Some(most) => show::slowest(&told, most),
                None => return output::print_json(&told),
            };
            let is_shown = |trace: &String| traces.iter().any(|shown| shown.id == *trace);
            let spans = told.spans.iter().filter(|span| is_shown(&span.trace)).cloned().collect();
            return output::print_json(&Told { spans, ..told.clone() });
        }
        let traces = match self.slowest {
            Some(most) => show::slowest(&told, most),
            None => show::last(&told, LAST),
        };
        output::print(&show::render(&told, &traces))
    }
}
