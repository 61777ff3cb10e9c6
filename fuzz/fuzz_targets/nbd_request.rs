//! A client's bytes in the transmission phase.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_nbd_request(bytes));
