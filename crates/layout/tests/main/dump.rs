//! The hex dump in the documentation is what the code writes.

use std::fmt::Write as _;
use std::path::Path;

use cards_layout::format::{Sizes, Slot, Superblock, Uuid};

/// Lines of 16 bytes, without those that are zero.
fn dump(page: &[u8]) -> String {
    let mut text = String::new();
    for (i, line) in page.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
        write!(text, "{:08x} ", i * 16).unwrap();
        for (i, byte) in line.iter().enumerate() {
            write!(text, "{}{byte:02x}", if i % 8 == 0 { "  " } else { " " }).unwrap();
        }
        let shown =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        writeln!(text, "  |{}|", line.iter().map(shown).collect::<String>()).unwrap();
    }
    text
}

#[test]
fn the_page_shows_what_is_written() {
    let superblock = Superblock::formatted(
        Uuid::random(*b"a disk of cards!"),
        Sizes::choose(64 << 20).unwrap(),
        Some("rack3/n1".parse().unwrap()),
        "fast1".parse().unwrap(),
    );
    let page = superblock.encode();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/disk-format.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let dumped = dump(&page);
    let (_, shown) = text.split_once("```\n00000000").expect("the page has a dump");
    let (shown, _) = shown.split_once("```").expect("the dump ends");
    let shown = format!("00000000{shown}");
    assert_eq!(shown, dumped, "{} has to say:\n{dumped}", path.display());

    // The other way: the bytes of the dump are read as the superblock.
    let mut bytes = [0; 4096];
    for line in shown.lines() {
        let at = usize::from_str_radix(&line[..8], 16).unwrap();
        let hex = line[8..line.find('|').unwrap()].split_whitespace();
        for (i, byte) in hex.enumerate() {
            bytes[at + i] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
    assert_eq!(Superblock::decode(&bytes, Slot::A), Ok(superblock));
}
