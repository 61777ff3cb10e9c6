//! What other policies are compared with, as the registry knows it: a rival that needs more than a node has,
//! and two caches that cannot be built.

use super::{Build, Entry, Parameter};

pub(super) const XFS: Entry = Entry {
    name: "xfs",
    title: "xFS: N-Chance forwarding with write-back and a token per block",
    paper: "Anderson et al., Serverless Network File Systems, SOSP 1995; as modelled in Cortes et al., IOPADS 1997, section 4",
    parameters: &[
        Parameter {
            name: "n",
            default: "2",
            meaning: "how often the only copy of a block is forwarded without having been used, 0 to 8",
        },
        Parameter {
            name: "syncer",
            default: "30",
            meaning: "seconds between two rounds of the syncer, which writes all dirty blocks, 1 to 3600",
        },
        Parameter {
            name: "level",
            default: "B",
            meaning: "fault tolerance: A (none) or B (another node gets a dirty block only after a disk server has it)",
        },
        Parameter {
            name: "clean",
            default: "sent",
            meaning: "a dirty block counts as written when its disk server has it (sent, as in equation 5 of Cortes et al.) or its disk (written)",
        },
    ],
    when_not: "writes are shared (every change of the writer asks the block's manager), or caches are small: replicas fill them",
    build: Build::Simulator { lacks: "write-back or tokens" },
};

pub(super) const GLRU: Entry = Entry {
    name: "glru",
    title: "one LRU over the memory of all nodes (no policy, a yardstick)",
    paper: "the global algorithm in Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994",
    parameters: &[],
    when_not: "always: it cannot be built, it has no nodes",
    build: Build::Simulator { lacks: "knowledge of all other nodes at every moment" },
};

pub(super) const WLRU: Entry = Entry {
    name: "wlru",
    title: "weighted LRU: what is worth least leaves, by age and by what it costs to have it again (no policy, a yardstick)",
    paper: "the weighted LRU in Dahlin, Wang, Anderson and Patterson, Cooperative Caching, OSDI 1994",
    parameters: &[],
    when_not: "always: each node knows what all others have, and when that was used",
    build: Build::Simulator { lacks: "knowledge of all other nodes at every moment" },
};

pub(super) const OPT: Entry = Entry {
    name: "opt",
    title: "one clairvoyant cache over the memory of all nodes (no policy, a bound)",
    paper: "Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, IBM Systems Journal 1966",
    parameters: &[Parameter {
        name: "count",
        default: "reads",
        meaning: "what it keeps blocks for: reads (no policy has a better hit ratio) or references (reads and writes alike)",
    }],
    when_not: "always: it knows the future",
    build: Build::Simulator { lacks: "knowledge of the future" },
};
