//! End-to-end tests of the `cards` binary: real daemons, real clients, real kernels. One behaviour per file.
//!
//! A test whose foreign tool is missing prints `SKIP name: reason` and passes. Tests called `reference_…` run the
//! same body against a server everybody trusts (or, for the liar, must not trust): they test the tests. They are
//! left out by default; `cargo test -p cards --test e2e -- --ignored` runs them.

mod harness;

mod abuse;
mod admin;
mod advise;
mod auto;
mod check;
mod chosen_policies;
mod cluster;
mod completions;
mod config;
mod conformance;
mod dev;
mod device;
mod disk;
mod docs;
mod doctor;
mod ext4;
mod failing;
mod image;
mod interop;
mod kept;
mod kernel;
mod ktls;
mod layout;
mod liar;
mod limits;
mod locks;
mod managed;
mod membership;
mod metrics;
mod mirror;
mod mirror_full;
mod mirror_members;
mod mirror_power;
mod mirror_put_back;
mod mirror_rot;
mod mirror_scrubs;
mod mirror_swap;
mod mirror_verbs;
mod misplaced;
mod mount;
mod ocfs2;
mod package;
mod paper;
mod pin;
mod policy;
mod replay;
mod resize;
mod restart;
mod service_manager;
mod sharing;
mod silence;
mod sim;
mod starting;
mod striped;
mod suites;
mod tls;
mod top;
mod ublk;
mod upgrade;
mod warm;
mod web;
mod why;
