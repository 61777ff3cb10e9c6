//! The policies of caches without replication, as the registry knows them. They need cache servers that own
//! partitions of all nodes' memory and write back, which nodes do not have yet.

use super::{Build, Entry, Parameter};

const LACKS: &str = "cache servers, write-back or copies between the memories of two other nodes";

const TIP: Parameter = Parameter {
    name: "tip",
    default: "5",
    meaning: "queue tip of PG-LRU: percent of a partition among which a buffer on the client's node is preferred, 0 (plain LRU) to 100",
};

const SYNCER: Parameter = Parameter {
    name: "syncer",
    default: "30",
    meaning: "seconds between two rounds of the syncer, which writes all dirty blocks, 1 to 3600",
};

const LEVEL: Parameter = Parameter {
    name: "level",
    default: "A",
    meaning: "fault tolerance: A (none), B (dirty blocks cached on another node than their writer) or C (all dirty blocks)",
};

const LINE: Parameter = Parameter {
    name: "line",
    default: "all",
    meaning: "nodes that a parity line spans at levels B and C, 2 to 1023, or all: one buffer of each line holds parity",
};

const CLEAN: Parameter = Parameter {
    name: "clean",
    default: "sent",
    meaning: "a dirty block counts as written when its disk server has it (sent, as in the paper's equation 5) or its disk (written)",
};

pub(super) const PAFS: Entry = Entry {
    name: "pafs",
    title: "PAFS: one copy of each block, partitions that follow the load",
    paper: "Cortes, Girona and Labarta, Design Issues of a Cooperative Cache with no Coherence Problems, IOPADS 1997",
    parameters: &[
        Parameter {
            name: "servers",
            default: "16",
            meaning: "cache servers, spread evenly over the nodes: 1 to the number of nodes, or all (one on each node); 16 means all where there are fewer nodes (the paper gives no number)",
        },
        Parameter {
            name: "extent",
            default: "1",
            meaning: "MiB of a volume that belong to one cache server, 1 to 65536 (the paper hashes files, which are small)",
        },
        Parameter {
            name: "repartition",
            default: "lazy-limited",
            meaning: "how buffers follow the load: fixed, not-limited, limited or lazy-limited",
        },
        Parameter {
            name: "interval",
            default: "60",
            meaning: "seconds between two repartitions, 1 to 3600 (the paper gives no value)",
        },
        Parameter {
            name: "lose",
            default: "10",
            meaning: "percent of its partition a server loses at most per repartition, 1 to 100",
        },
        TIP,
        SYNCER,
        LEVEL,
        LINE,
        CLEAN,
    ],
    when_not: "copying from another node's memory is slow, or most reads repeat on one node: nothing stays local",
    build: Build::Simulator { lacks: LACKS },
};

pub(super) const PACA: Entry = Entry {
    name: "paca",
    title: "PACA: one copy of each block, one server for all",
    paper: "Cortes, Girona and Labarta, PACA: A Cooperative File System Cache for Parallel Machines, Euro-Par 1996",
    parameters: &[TIP, SYNCER, LEVEL, LINE, CLEAN],
    when_not: "as pafs; and one server's CPU is not enough for all nodes",
    build: Build::Simulator { lacks: LACKS },
};
