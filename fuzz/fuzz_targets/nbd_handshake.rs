//! A client's bytes against the server's handshake.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_nbd_handshake(bytes));
