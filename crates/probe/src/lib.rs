//! What is seen of requests: counters, latencies, slow requests, samples, recordings, spans.
//!
//! The daemon has one [`Probe`]. A client's connection tells it by its [`Tap`], one call for each step of a request; of a
//! request between nodes, and of the disk, it hears as a `Step`, a value of fixed size. Each step goes at once to those
//! who want it, on the thread that saw it: counters to a cell of the thread's own, samples and recordings to a ring of the
//! thread's own, which a reader empties and which counts what it loses, steps of traced requests to [`Spans`]. So counters
//! are exact. On the way of a request that is answered at once, nothing allocates or waits for another thread, and while
//! there is no recording and nothing is traced, each of these costs one branch.
//!
//! All that is known of a request rides with its reply as a [`Ticket`]: replies that leave together are counted together,
//! with one look at the clock. A ring of events between would be written and read in addition.
//!
//! | file | noun |
//! |---|---|
//! | `probe` | all of it, for one daemon |
//! | `tap` | what a client's connection tells |
//! | `ticket` | what goes with a request from its arrival to its reply |
//! | `waits` | what a request had to wait for |
//! | `step` | a step of a request between nodes, or of a disk |
//! | `counts`, `cell` | what was counted: of a volume; by one thread |
//! | `slow` | requests that took long |
//! | `recorder` | what clients ask for, all of it |
//! | `samples` | the same of some blocks |
//! | `ring` | what a thread leaves for a reader |
//! | `spans` | what happened to traced requests |
//! | `times` | how long reads take, by where their blocks come from |
//! | `names` | what nodes and volumes are called |

mod cell;
mod counts;
mod names;
mod probe;
mod recorder;
mod ring;
mod samples;
mod slow;
mod spans;
mod step;
mod tap;
mod ticket;
mod times;
mod waits;

pub use names::Names;
pub use probe::{Options, Probe};
pub use recorder::{Recorder, Session};
pub use spans::{KEPT_MAX, Spans, Trace, is_name, otlp};
pub use tap::{Leaving, Tap};
pub use ticket::{Mark, Ticket};
pub use times::ReadTimes;
pub use waits::WaitReasons;
