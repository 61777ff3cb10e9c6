//! A failed sync is final; syncs are shared.

use cards_disk::{Engine, Job, JobError, Op, Outcome};

use crate::harness::*;

#[test]
fn after_a_failed_sync_nothing_is_durable_until_reopened() {
    for backend in BACKENDS {
        let file = file(&[0; 8192]);
        let disk = open(file.path(), |o| (o.backend, o.fault) = (backend, Some("sync-eio=2".into())));
        data_thread(async {
            let engine = Engine::new(&disk);
            write(&engine, 0, b"a", true).await.unwrap();
            assert!(!disk.sync_failed());
            assert_eq!(one(&engine, Op::Flush).await, Err(JobError::Os { errno: libc::EIO }));
            assert!(disk.sync_failed());
            for _ in 0..3 {
                assert_eq!(one(&engine, Op::Flush).await, Err(JobError::SyncFailed));
                assert_eq!(write(&engine, 0, b"b", true).await, Err(JobError::SyncFailed));
            }
            let other = Engine::new(&disk);
            assert_eq!(one(&other, Op::Flush).await, Err(JobError::SyncFailed), "all engines of the disk");
            assert_eq!(JobError::SyncFailed.errno(), libc::EIO);
            write(&engine, 0, b"c", false).await.unwrap();
            assert_eq!(read(&engine, 0, 1).await.unwrap(), b"c");
        });
        assert_eq!(disk.stats().snapshot().flushes, 1);
        drop(disk);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async { one(&Engine::new(&disk), Op::Flush).await.unwrap() });
    }
}

#[test]
fn a_failed_sync_fails_all_who_waited_for_it() {
    let file = file(&[0; 8192]);
    let disk = open(file.path(), |o| o.fault = Some("sync-eio=1".into()));
    data_thread(async {
        let engine = Engine::new(&disk);
        for tag in 0..5 {
            engine.submit(Job { tag, op: Op::Flush });
        }
        assert!(collect(&engine, 5).await.iter().all(|completion| completion.result.is_err()));
    });
}

#[test]
fn flushes_of_one_moment_share_a_sync() {
    for backend in BACKENDS {
        let file = file(&[0; 64 << 10]);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let engine = Engine::new(&disk);
            for tag in 0..100 {
                engine.submit(Job { tag, op: Op::Flush });
            }
            let done = collect(&engine, 100).await;
            assert!(done.iter().all(|completion| completion.result == Ok(Outcome::Done)));
        });
        assert_eq!(disk.stats().snapshot().flushes, 1);
    }
}
