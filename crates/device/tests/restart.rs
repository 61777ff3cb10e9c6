//! The daemon goes and comes back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cards_admin::Claim;

use crate::fake::Fake;
use crate::{end, served, skipped, start};

#[test]
fn writes_and_reads_go_on_over_broken_connections() {
    let Some((fake, device)) = served() else { return };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let (done, path) = (&done, fake.path());
            scope.spawn(move || {
                let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
                let mut value = 0u32;
                while !done.load(Ordering::Relaxed) {
                    value += 1;
                    let bytes = value.to_ne_bytes().repeat(10_000);
                    file.write_all_at(&bytes, number * 100_000).unwrap();
                    let mut back = vec![0; bytes.len()];
                    file.read_exact_at(&mut back, number * 100_000).unwrap();
                    assert!(back == bytes);
                }
            });
        }
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(30));
            fake.cut();
        }
        done.store(true, Ordering::Relaxed);
    });
    end(device);
}

#[test]
fn pages_of_the_last_life_are_gone() {
    let Some((fake, device)) = served() else { return };
    let file = File::open(fake.path()).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    fake.write_unasked(0, &[9]);
    // A daemon that starts waits for the lock before it answers anybody. One that answers is soon given pages again.
    let away = fake.socket().with_extension("away");
    std::fs::rename(fake.socket(), &away).unwrap();
    fake.cut();
    let lock = File::open(fake.path().with_file_name(".pages.lock")).unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    std::fs::rename(away, fake.socket()).unwrap();
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [9]);
    drop(file);
    end(device);
}

/// What the kernel remembers of a volume that it had for itself is void once another node has had it: nothing of it must
/// get there, however long the daemon is there again.
#[test]
fn who_was_overtaken_gets_errors_for_good() {
    if skipped() {
        return;
    }
    let fake = Fake::start();
    let claim = Claim { volume: 3, card: 1 << 20 };
    fake.claim(claim);
    let device = start(&fake);
    assert_eq!((fake.claimed(), device.description().claim), (None, Some(claim)));
    let file = OpenOptions::new().read(true).write(true).open(fake.path()).unwrap();
    file.write_all_at(b"mine", 0).unwrap();
    // The next life has the same card, and then another one, which goes on for it.
    let next = Claim { card: 2 << 20, ..claim };
    for (says, hears) in [(claim, claim), (next, claim), (next, next)] {
        fake.claim(says);
        fake.cut();
        file.write_all_at(b"more", 0).unwrap();
        assert_eq!(fake.claimed(), Some(hears));
    }
    fake.overtake(true);
    fake.cut();
    let error = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    assert_eq!(error(file.write_all_at(b"void", 0)), Some(libc::EIO));
    fake.overtake(false);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(error(file.write_all_at(b"void", 0)), Some(libc::EIO));
    assert_eq!(error(file.read_exact_at(&mut [0; 4], 0)), Some(libc::EIO));
    assert_eq!(fake.number(0).to_le_bytes()[..4], *b"more");
    drop(file);
    end(device);
}
