//! Clusters of daemons in this process, on loopback, over temporary files, and a small NBD client.

mod activity;
mod admin;
mod allocations;
mod client;
mod cluster;
mod coherence;
mod copies;
mod damage;
mod devices;
mod disks;
mod expressions;
mod failures;
mod http;
mod inquiry;
mod membership;
mod metrics;
mod past;
mod peers;
mod port;
mod reads;
mod sampling;
mod spans;
mod turns;
mod visitors;
mod warm;
mod writes;
