//! Clusters of daemons in this process, on loopback, over temporary files, and a small NBD client.

mod activity;
mod allocations;
mod client;
mod cluster;
mod copies;
mod disks;
mod failures;
mod peers;
mod reads;
mod writes;
