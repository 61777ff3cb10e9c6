//! The register's messages, and the state of an arbiter's store.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_register(bytes));
