//! A peer's bytes: headers and bodies.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_peer_frame(bytes));
