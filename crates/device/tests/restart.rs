//! The daemon goes and comes back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fake::Fake;
use crate::{end, skipped, start};

#[test]
fn writes_and_reads_go_on_over_broken_connections() {
    if skipped() {
        return;
    }
    let fake = Fake::start();
    let device = start(&fake);
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
    if skipped() {
        return;
    }
    let fake = Fake::start();
    let device = start(&fake);
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
