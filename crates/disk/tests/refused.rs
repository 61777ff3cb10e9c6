//! io_uring refused by a system call filter, as container runtimes do; before and after the ring was made.

use std::io;

use cards_disk::{Engine, EngineKind, Op};

use crate::harness::*;

/// Makes system call `number` fail with EPERM in this thread, for ever.
fn refuse(number: libc::c_long) {
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 }; // A = seccomp_data.nr
    let same = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number as u32 };
    let give = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let mut filter =
        [load, same, give(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32), give(libc::SECCOMP_RET_ALLOW)];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: prctl reads the program, which lives until it returns.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    assert!(!failed, "{}", io::Error::last_os_error());
}

/// In a thread of its own: the filter stays.
fn filtered(test: impl FnOnce() + Send + 'static) {
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn a_refused_ring_becomes_threads() {
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        filtered(move || {
            refuse(call);
            let file = file(&[1; 4096]);
            let disk = open(file.path(), |_| {});
            data_thread(async {
                let engine = Engine::new(&disk);
                let EngineKind::Threads { reason } = engine.kind() else { panic!("{}", engine.kind()) };
                assert!(reason.contains("Operation not permitted"), "{reason}");
                assert_eq!(read(&engine, 0, 4096).await.unwrap(), [1; 4096]);
            });
        });
    }
}

#[test]
fn a_ring_that_stops_working_goes_on_with_threads() {
    filtered(|| {
        let file = file(&[1; 4096]);
        let disk = open(file.path(), |_| {});
        data_thread(async {
            let engine = Engine::new(&disk);
            assert_eq!(read(&engine, 0, 4096).await.unwrap(), [1; 4096]);
            refuse(libc::SYS_io_uring_enter);
            for _ in 0..3 {
                assert_eq!(read(&engine, 0, 4096).await.unwrap(), [1; 4096]);
                write(&engine, 0, &[1; 4096], true).await.unwrap();
                one(&engine, Op::Flush).await.unwrap();
            }
        });
    });
}
