//! The kernel's pages at one node, and writers at another: GAP-7.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;

use super::{Device, cluster, missing_fuse};
use crate::harness::process::sh;
use crate::harness::tools::skip_if;
use crate::harness::{KIB, LONG, MIB, content, scratch};

/// Size of the volume; read as a whole each round.
const SIZE: u64 = 4 * MIB;
/// Bytes of one write.
const CHUNK: u64 = 64 * KIB;
const ROUNDS: u64 = 60;

/// A file mapped into memory, shared and for reading.
struct Mapped(*const u8, usize);

impl Mapped {
    fn new(file: &File, length: usize) -> Mapped {
        // SAFETY: a new mapping of an open file; it is unmapped when the value is dropped.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Mapped(at.cast(), length)
    }

    /// A copy of what is there now.
    fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.1);
        let mut copy = vec![0; length];
        // SAFETY: inside of the mapping; the bytes are only copied, whatever they are at that moment.
        unsafe { ptr::copy_nonoverlapping(self.0.add(offset), copy.as_mut_ptr(), length) };
        copy
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, with this length.
        unsafe { libc::munmap(self.0.cast_mut().cast(), self.1) };
    }
}

/// The whole volume, through the page cache.
fn read_whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Opens the file for writing past the page cache.
fn writer(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_buffered_and_a_mapped_reader_see_what_another_node_has_written() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, SIZE);
    let mut writing = Device::start(&mut cluster, 1, &[]);
    let mut reading = Device::start(&mut cluster, 2, &[]);
    let out = writer(&writing.path);
    let buffered = File::open(&reading.path).unwrap();
    let mapped = Mapped::new(&buffered, SIZE as usize);
    let mut random = content::Random(1);
    let mut seeds = vec![0; (SIZE / CHUNK) as usize];
    for offset in (0..SIZE).step_by(CHUNK as usize) {
        out.write_all_at(&content::bytes(offset, CHUNK as usize, 0), offset).unwrap();
    }
    for round in 1..=ROUNDS {
        read_whole(&buffered);
        let chunk = random.below(SIZE / CHUNK);
        seeds[chunk as usize] = round;
        out.write_all_at(&content::bytes(chunk * CHUNK, CHUNK as usize, round), chunk * CHUNK).unwrap();
        out.sync_data().unwrap();
        let all = read_whole(&buffered);
        for (index, seed) in seeds.iter().enumerate() {
            let (start, length) = (index * CHUNK as usize, CHUNK as usize);
            content::check(&all[start..start + length], start as u64, *seed);
            content::check(&mapped.read(start, length), start as u64, *seed);
        }
    }
    let sum = |path: &Path| sh(&format!("sha256sum < {}", path.display()), LONG).ok().stdout;
    let through_pages = sum(&reading.path);
    drop(mapped);
    drop((buffered, out));
    reading.stop();
    writing.stop();
    // The pages may lie to each other; a fresh device at the other node cannot.
    let mut again = Device::start(&mut cluster, 1, &["--direct"]);
    assert_eq!(sum(&again.path), through_pages);
    again.stop();
}

#[test]
fn a_reader_is_not_left_with_old_pages_when_its_daemon_dies() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, SIZE);
    let mut reading = Device::start(&mut cluster, 2, &[]);
    let mut writing = Device::start(&mut cluster, 1, &[]);
    let (out, buffered) = (writer(&writing.path), File::open(&reading.path).unwrap());
    for seed in 1..=3 {
        read_whole(&buffered);
        cluster.node(2).kill();
        out.write_all_at(&content::bytes(0, CHUNK as usize, seed), 0).unwrap();
        cluster.node(2).restart();
        content::check(&read_whole(&buffered)[..CHUNK as usize], 0, seed);
    }
    drop((buffered, out));
    reading.stop();
    writing.stop();
}

#[test]
fn a_reader_and_a_writer_at_one_node_agree() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, SIZE);
    let mut device = Device::start(&mut cluster, 1, &[]);
    let (out, buffered) = (writer(&device.path), File::open(&device.path).unwrap());
    for seed in 1..=20 {
        out.write_all_at(&content::bytes(0, CHUNK as usize, seed), 0).unwrap();
        content::check(&read_whole(&buffered)[..CHUNK as usize], 0, seed);
    }
    drop((buffered, out));
    device.stop();
}
