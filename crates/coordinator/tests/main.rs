//! Tests of the registry in both homes.

mod common;
mod damage;
mod embedded;
mod etcd;
mod kill;
mod model;
mod refusals;
mod unreachable;
