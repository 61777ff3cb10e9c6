//! The kernel's pages.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use cards_admin::Notice;

use crate::fake::Fake;
use crate::{end, options, served, skipped};

fn byte(file: &File, offset: u64) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    byte[0]
}

#[test]
fn pages_are_kept_until_they_are_withdrawn() {
    let Some((mut fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    assert_eq!(byte(&file, 5000), 0);
    let reads = fake.reads();
    assert_eq!(byte(&file, 5001), 0);
    assert_eq!(fake.reads(), reads, "the kernel has the page");
    // What nobody is told of is not seen: the page is really kept.
    fake.write_unasked(5000, &[1]);
    assert_eq!(byte(&file, 5000), 0);
    fake.write(5000, &[2]);
    assert_eq!(byte(&file, 5000), 2);
    drop(file);
    end(device);
}

#[test]
fn a_read_under_way_neither_blocks_a_withdrawal_nor_brings_old_bytes() {
    let Some((mut fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    for round in 1..=20 {
        fake.be_silent(true);
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| byte(&file, 9000));
            std::thread::sleep(Duration::from_millis(round % 5));
            // Pages on both sides of the read, and its own, which is locked.
            fake.withdraw(0, 64 << 10);
            fake.write_unasked(9000, &[round as u8]);
            fake.be_silent(false);
            reader.join().unwrap()
        });
        assert_eq!(read, round as u8);
        fake.withdraw(0, 64 << 10);
    }
    drop(file);
    end(device);
}

/// Writers elsewhere never pause: each answer is overtaken by a withdrawal.
#[test]
fn a_read_beside_writers_is_answered_and_brings_no_old_bytes() {
    let Some((fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    fake.race(Some(4096));
    for _ in 0..10 {
        let complete = fake.number(4096);
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = [0; 8];
                file.read_exact_at(&mut bytes, 4096).unwrap();
                u64::from_le_bytes(bytes)
            });
            let end = Instant::now() + Duration::from_secs(10);
            while !reader.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            if !reader.is_finished() {
                fake.race(None);
                panic!("{} answers were thrown away", fake.reads());
            }
            reader.join().unwrap()
        });
        assert!(read >= complete, "{read} is read after {complete} was written");
    }
    fake.race(None);
    assert!(fake.reads() < 300, "{} answers for ten reads", fake.reads());
    drop(file);
    end(device);
}

/// A file can leave the page cache after it was opened. Its READs lock no page then, so a withdrawal must not take the
/// pages of one for pages that nobody can use.
#[test]
fn a_read_past_the_page_cache_saves_no_page_from_a_withdrawal() {
    let Some((mut fake, device)) = served() else { return };
    let (file, direct) = (File::open(fake.path()).unwrap(), File::open(fake.path()).unwrap());
    // SAFETY: the descriptor is open, and both commands take and give plain numbers.
    let set = unsafe {
        let flags = libc::fcntl(direct.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(direct.as_raw_fd(), libc::F_SETFL, flags | libc::O_DIRECT)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(byte(&file, 5000), 0);
    fake.be_silent(true);
    let before = fake.asked();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| direct.read_exact_at(&mut [0; 4096], 4096).unwrap());
        fake.wait_asked(before + 1);
        fake.write(5000, &[1]);
        fake.be_silent(false);
        reader.join().unwrap();
    });
    assert_eq!(byte(&file, 5000), 1, "the page of before is still there");
    drop((file, direct));
    end(device);
}

#[test]
fn pages_without_time_left_are_not_used() {
    let Some((fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    assert_eq!(byte(&file, 0), 0);
    fake.notice(&Notice::Valid { for_ms: Some(0) });
    std::thread::sleep(Duration::from_millis(300));
    fake.write_unasked(0, &[7]);
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| byte(&file, 0));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!reader.is_finished(), "it waits until pages may be used again");
        fake.notice(&Notice::Valid { for_ms: None });
        reader.join().unwrap()
    });
    assert_eq!(read, 7);
    drop(file);
    end(device);
}

#[test]
fn a_direct_device_keeps_no_pages() {
    if skipped() {
        return;
    }
    let fake = Fake::start();
    let device =
        cards_device::Device::start(cards_device::Options { direct: true, ..options(&fake) }).unwrap();
    let file = File::open(fake.path()).unwrap();
    assert_eq!(byte(&file, 0), 0);
    fake.write_unasked(0, &[7]);
    assert_eq!(byte(&file, 0), 7);
    drop(file);
    end(device);
}
