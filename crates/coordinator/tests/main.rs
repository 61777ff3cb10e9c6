//! Tests of the registry in both homes, and over the network.

mod admission;
mod arbiter;
mod battery;
mod certificates;
mod common;
mod etcd;
mod group_register;
mod groups;
mod growth;
mod import;
mod kill;
mod led;
mod local;
mod model;
mod proxy;
mod refusals;
mod remote;
mod remote_faults;
mod remote_http;
mod remote_kill;
mod striped;
mod together;
mod unreachable;
