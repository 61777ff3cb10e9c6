//! Clusters of daemons in this process, on loopback, over temporary files, and a small NBD client.

mod client;
mod cluster;
mod failures;
mod reads;
mod writes;
