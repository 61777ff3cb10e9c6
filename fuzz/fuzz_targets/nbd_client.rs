//! A server's bytes against the client: handshake, then replies.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/wire/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_nbd_client(bytes));
