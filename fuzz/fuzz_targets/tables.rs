//! The pages of the tables of a managed disk.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/layout/tests/main/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::fuzz_tables(bytes));
