//! What is counted, as Prometheus wants it.
//!
//! | file | noun |
//! |---|---|
//! | `exposition` | the text format |
//! | `process` | what the daemon costs the machine |
//! | `scrape` | which metrics there are |

mod exposition;
mod process;
mod scrape;
#[cfg(test)]
pub(crate) mod strict;

pub(crate) use exposition::MEDIA_TYPE;
pub(crate) use scrape::scrape;
