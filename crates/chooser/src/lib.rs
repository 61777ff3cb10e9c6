//! `auto`: the policy of a volume chosen by what its candidates would do with what is asked for.
//!
//! A [`Chooser`] is told the references to the blocks of a hash sample, of all nodes, in order. It runs a [`Shadow`] for each
//! candidate: a small cluster of the core's own shards with that policy, caches scaled down to the sample, and no bytes. Each
//! counts the messages and the disk reads that its reads waited for; the costs that nodes measure ([`Costs`]) make times of that. When
//! the policy in force has taken longer than a candidate by as much as a change costs, the candidate is chosen: so what is lost by
//! learning is of the order of what the changes cost, whatever is asked for.
//!
//! The simulator and the daemon use the same chooser. No clock, no I/O, no randomness: the same references and costs give the same
//! choices.
//!
//! | file | noun |
//! |---|---|
//! | `shadow` | one candidate's cluster |
//! | `path` | what a read had to wait for |
//! | `steps` | the steps of a window of reads, summed |
//! | `costs` | what each step of a path takes |
//! | `times` | how long blocks of a class take |
//! | `candidates` | the policies that are tried |
//! | `chooser` | the choice |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod candidates;
mod chooser;
mod costs;
mod path;
mod shadow;
mod steps;
#[cfg(test)]
mod tests;
mod times;

pub use candidates::{CANDIDATES, rate, takes};
pub use chooser::{Chooser, Standing, Switch};
pub use costs::{Classes, Costs};
pub use path::Path;
pub use shadow::{Cluster, Shadow};
