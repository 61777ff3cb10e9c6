//! Who does what: dealing the requests of a trace to the nodes of a cluster.
//!
//! Few public traces come from clusters. To make a load for many nodes of a single stream is a choice that
//! decides how much they share: it must be named with every result.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::merge::{Merge, Shift, Together};
use crate::processes::Processes;
use crate::{Progress, Request, Skipped, Source, TraceError};

/// A rule that says which node does a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// The node that the trace names. What is shared is what was shared.
    #[default]
    AsIs,
    /// Process (client, rank) i of the trace runs on node i modulo n. Sharing between processes becomes
    /// sharing between nodes.
    Client,
    /// Request i is done by node i modulo n. The most sharing and the least locality: a lower bound for local
    /// caches.
    RoundRobin,
    /// Each region of a volume belongs to one node, by a hash. Keeps locality; nothing is shared but where
    /// requests cross the border of a region (a request goes by its first byte).
    Hash {
        /// Bytes of a region.
        region_bytes: u64,
    },
    /// The stream is cut where nothing happens for `gap`; session i is done by node i modulo n. Keeps the
    /// locality within a session, shares what sessions share. Needs times.
    Sessions {
        /// The idle time that ends a session.
        gap: Duration,
    },
    /// Every node does the whole trace, on the same volumes, each later than the one before by a shift. All
    /// is shared: virtual machines that boot from one image, jobs that read one data set. The trace is opened
    /// once per node.
    Replicas {
        /// How much later.
        shift: Shift,
    },
}

/// What becomes of requests of nodes that the cluster does not have ([`Spread::AsIs`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Beyond {
    /// They are an error.
    #[default]
    Refuse,
    /// Node i becomes node i modulo n; counted.
    Fold,
}

/// The most replicas: each keeps the file open, with a buffer and the window of its compression.
const REPLICAS_MAX: u32 = 1_024;

const FOLDED: &str = "of a node beyond the cluster (folded)";

impl Spread {
    /// The requests of a trace, dealt to `nodes` nodes. `open` opens the trace: once, or once per node for
    /// [`Spread::Replicas`].
    ///
    /// # Errors
    /// The trace cannot be opened, or has no times and needs them.
    pub fn apply(
        self,
        nodes: u32,
        beyond: Beyond,
        mut open: impl FnMut() -> Result<Box<dyn Source>, TraceError>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let refuse = |problem| Err(TraceError::setting("spread", self, problem));
        if nodes == 0 {
            return refuse("a cluster has at least one node");
        }
        match self {
            Self::Hash { region_bytes: 0 } => refuse("a region has at least one byte"),
            Self::Replicas { .. } if nodes > REPLICAS_MAX => {
                refuse("at most 1024 nodes can do the same trace")
            }
            Self::Replicas { shift } => {
                let sources = (0..nodes).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
                Ok(Box::new(Merge::shifted(sources, Together::SharedVolumes, shift)?))
            }
            Self::Sessions { .. } | Self::AsIs | Self::Client | Self::RoundRobin | Self::Hash { .. } => {
                let source = open()?;
                if matches!(self, Self::Sessions { .. }) && !source.has_times() {
                    return refuse(
                        "the trace has no times, so it has no gaps: use hash, round-robin or replicas",
                    );
                }
                Ok(Box::new(Dealt {
                    source,
                    spread: self,
                    nodes,
                    beyond,
                    count: 0,
                    last: Duration::ZERO,
                    processes: Processes::default(),
                    skipped: Skipped::default(),
                    seen: Skipped::default(),
                    ended: false,
                }))
            }
        }
    }
}

struct Dealt {
    source: Box<dyn Source>,
    spread: Spread,
    nodes: u32,
    beyond: Beyond,
    /// Requests, or sessions, so far.
    count: u64,
    last: Duration,
    processes: Processes,
    skipped: Skipped,
    seen: Skipped,
    ended: bool,
}

impl Dealt {
    fn deal(&mut self, mut request: Request) -> Result<Request, TraceError> {
        let nodes = u64::from(self.nodes);
        let node = match self.spread {
            Spread::AsIs => {
                if request.node >= self.nodes {
                    match self.beyond {
                        Beyond::Refuse => {
                            return Err(TraceError::NodeBeyond { node: request.node, nodes: self.nodes });
                        }
                        Beyond::Fold => self.skipped.count(FOLDED),
                    }
                }
                request.node %= self.nodes;
                return Ok(request);
            }
            // Replicas are merged, not dealt; each process stays whole, so its number can stay too.
            Spread::Client | Spread::Replicas { .. } => {
                request.node = request.process % self.nodes;
                return Ok(request);
            }
            Spread::RoundRobin => {
                let node = self.count % nodes;
                self.count += 1;
                node
            }
            Spread::Hash { region_bytes } => {
                let region = request.offset / region_bytes;
                mix(region ^ u64::from(request.volume).rotate_right(16)) % nodes
            }
            Spread::Sessions { gap } => {
                if request.time.saturating_sub(self.last) >= gap && !gap.is_zero() {
                    self.count += 1;
                }
                self.last = request.time;
                self.count % nodes
            }
        };
        // Less than `nodes`, which has 32 bits.
        request.node = node as u32;
        request.process = self.processes.number(request.node, request.process)?;
        Ok(request)
    }
}

impl Source for Dealt {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ended {
            return Ok(None);
        }
        let next = self.source.next().and_then(|next| next.map(|request| self.deal(request)).transpose());
        self.skipped.follow(self.source.skipped(), &mut self.seen);
        self.ended = !matches!(next, Ok(Some(_)));
        next
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        self.source.has_times()
    }

    fn started_us(&self) -> Option<u64> {
        self.source.started_us()
    }
}

/// A bijection of 64 bits whose every output bit depends on all input bits (the finalizer of splitmix64).
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// As it is given on a command line: `as-is`, `client`, `round-robin`, `hash:BYTES`, `sessions:SECONDS`,
/// `replicas:SECONDS` or `replicas:NUMBERr` (requests).
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsIs => f.write_str("as-is"),
            Self::Client => f.write_str("client"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::Hash { region_bytes } => write!(f, "hash:{region_bytes}"),
            Self::Sessions { gap } => write!(f, "sessions:{}", gap.as_secs_f64()),
            Self::Replicas { shift: Shift::Time(by) } => write!(f, "replicas:{}", by.as_secs_f64()),
            Self::Replicas { shift: Shift::Requests(by) } => write!(f, "replicas:{by}r"),
        }
    }
}

/// The inverse of [`Display`](Spread#impl-Display-for-Spread); bytes may end in K, M or G (powers of 1024).
impl FromStr for Spread {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let (rule, value) = text.split_once(':').map_or((text, None), |(rule, value)| (rule, Some(value)));
        let seconds = |value: &str| value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let spread = match (rule, value) {
            ("as-is", None) => Some(Self::AsIs),
            ("client", None) => Some(Self::Client),
            ("round-robin", None) => Some(Self::RoundRobin),
            ("hash", Some(value)) => bytes(value).map(|region_bytes| Self::Hash { region_bytes }),
            ("sessions", Some(value)) => seconds(value).map(|gap| Self::Sessions { gap }),
            ("replicas", Some(value)) => match value.strip_suffix('r') {
                Some(count) => count.parse().ok().map(Shift::Requests),
                None => seconds(value).map(Shift::Time),
            }
            .map(|shift| Self::Replicas { shift }),
            _ => None,
        };
        spread.ok_or_else(|| {
            let rules = "as-is, client, round-robin, hash:64M, sessions:0.1 (seconds), replicas:10 (seconds), replicas:1000r (requests)";
            TraceError::setting("spread", text, format!("not a rule; the rules are {rules}"))
        })
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_shown() {
        for text in
            ["as-is", "client", "round-robin", "hash:67108864", "sessions:0.25", "replicas:10", "replicas:7r"]
        {
            assert_eq!(text.parse::<Spread>().unwrap().to_string(), text);
        }
        assert_eq!("hash:64M".parse::<Spread>().unwrap(), Spread::Hash { region_bytes: 64 << 20 });
        for text in ["", "hash", "hash:x", "sessions:-1", "replicas:1e99", "client:3"] {
            assert!(text.parse::<Spread>().unwrap_err().to_string().contains("round-robin"), "{text}");
        }
    }
}
