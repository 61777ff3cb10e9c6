//! What cannot be opened, and what fails in use: the message names the disk and the remedy.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cards_disk::{Altered, Disk, DiskError, DiskOptions, Engine, JobError, Op};

use crate::harness::*;

fn refusal(options: &DiskOptions) -> DiskError {
    Disk::open(options).expect_err("it must not open")
}

fn refused(path: &Path) -> DiskError {
    refusal(&DiskOptions::path(path))
}

#[test]
fn disks_that_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let error = refused(&at("nowhere"));
    assert!(matches!(error, DiskError::Missing { .. }));
    assert!(error.to_string().contains("nowhere: no such file") && error.to_string().contains("truncate -s"));
    assert!(matches!(refused(dir.path()), DiskError::Directory { .. }));
    std::fs::write(at("empty"), "").unwrap();
    assert!(matches!(refused(&at("empty")), DiskError::Empty { .. }));
    assert!(matches!(refused(Path::new("/dev/null")), DiskError::Kind { what: "a character device", .. }));
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(matches!(refused(&at("socket")), DiskError::Kind { what: "a pipe or a socket", .. }));
    assert!(matches!(refused(&at("empty").join("below")), DiskError::Missing { .. }));
}

#[test]
fn what_is_done_to_a_file_that_is_served_is_seen() {
    const SIZE: u64 = 8192;
    let dir = tempfile::tempdir().unwrap();
    let [path, elsewhere] = ["disk.img", "elsewhere"].map(|name| dir.path().join(name));
    std::fs::write(&path, [7; SIZE as usize]).unwrap();
    let disk = Disk::open(&DiskOptions::path(&path)).unwrap();
    let said = || disk.altered().map(|altered| (altered.to_string(), altered));
    let set_size = |size| std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap();
    assert_eq!(said(), None);
    set_size(SIZE + 512);
    assert_eq!(said(), None, "what is longer has all that is served");
    set_size(512);
    let (words, altered) = said().unwrap();
    assert_eq!(altered, Altered::Cut { path: path.clone(), size: 512, served: SIZE });
    assert!(words.contains(&format!("truncate -s 8192 {}", path.display())), "{words}");
    set_size(SIZE);
    assert_eq!(said(), None);
    std::fs::rename(&path, &elsewhere).unwrap();
    assert_eq!(said().unwrap().1, Altered::Moved { path: path.clone() });
    std::fs::write(&path, "another").unwrap();
    assert!(matches!(said().unwrap().1, Altered::Replaced { .. }));
    std::fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(said(), None);
    std::fs::remove_file(&path).unwrap();
    let Some((words, Altered::Removed { open, .. })) = said() else { panic!("{:?}", said()) };
    assert!(words.contains(&format!("(cp {} {})", open.display(), path.display())), "{words}");
    assert_eq!(std::fs::metadata(open).unwrap().len(), SIZE, "what is named is what was served");
}

#[test]
fn permissions() {
    let file = file(&[0; 512]);
    let mode = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
    mode(0o444);
    let not_writable = unprivileged(|| refused(file.path()));
    assert!(matches!(not_writable, DiskError::NotWritable { .. }), "{not_writable}");
    let mut options = DiskOptions::path(file.path());
    options.read_only = true;
    assert!(Disk::open(&options).unwrap().read_only());
    mode(0o000);
    assert!(matches!(unprivileged(|| refused(file.path())), DiskError::NotPermitted { .. }));
}

/// Runs `test` in a thread that is not root, whatever the process is.
fn unprivileged<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the bare system call changes this thread only, which ends with the test. It fails for a
            // user who is not root, who needs no change.
            unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            test()
        });
        thread.join().unwrap()
    })
}

#[test]
fn one_writer_or_many_readers() {
    let file = file(&[0; 512]);
    let mut reader = DiskOptions::path(file.path());
    reader.read_only = true;
    let writer = Disk::open(&DiskOptions::path(file.path())).unwrap();
    let error = refused(file.path());
    assert!(
        matches!(error, DiskError::Busy { .. }) && error.to_string().contains("in use by another daemon")
    );
    assert!(matches!(refusal(&reader), DiskError::Busy { .. }));
    drop(writer);
    let readers = [Disk::open(&reader).unwrap(), Disk::open(&reader).unwrap()];
    assert!(matches!(refused(file.path()), DiskError::Busy { .. }));
    drop(readers);
    Disk::open(&DiskOptions::path(file.path())).unwrap();
}

#[test]
fn nonsense_uris() {
    for uri in ["http://x/", "nbd://h:99999/", "nbd+unix:///e", "nbds://h/e"] {
        let error = refusal(&DiskOptions::uri(uri));
        assert!(matches!(error, DiskError::Uri { .. }) && error.to_string().contains(uri), "{error}");
    }
}

#[test]
fn jobs_that_fail() {
    for backend in BACKENDS {
        let file = file(&[1; 8192]);
        let disk = open(file.path(), |o| o.backend = backend);
        data_thread(async {
            let engine = Engine::new(&disk);
            let past = JobError::OutOfRange { offset: 8000, len: 500, size: 8192 };
            assert_eq!(read(&engine, 8000, 500).await, Err(past));
            assert_eq!(past.errno(), libc::EINVAL);
            assert!(read(&engine, u64::MAX, 2).await.is_err(), "the end wraps");
            assert!(one(&engine, Op::Trim { offset: 0, len: u64::MAX }).await.is_err());
            assert_eq!(read(&engine, 8192, 0).await, Ok(vec![]));
            file.as_file().set_len(6000).unwrap();
            let shrank = read(&engine, 4096, 4096).await.unwrap_err();
            assert_eq!((shrank, shrank.errno()), (JobError::Shrank { offset: 6000 }, libc::EIO));
            assert!(shrank.to_string().contains("disk shrank"));
            let map = one(&engine, Op::Extents { offset: 0, len: 8192 }).await;
            assert_eq!(map, Err(JobError::Shrank { offset: 6000 }));
            assert_eq!(read(&engine, 0, 6000).await, Ok(vec![1; 6000]));
        });
        assert_eq!(disk.stats().snapshot().errors, 5);
    }
}

#[test]
fn a_read_only_disk_takes_no_writes() {
    let file = file(&[1; 8192]);
    let disk = open(file.path(), |o| o.read_only = true);
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(write(&engine, 0, b"x", false).await, Err(JobError::ReadOnly));
        assert_eq!(one(&engine, Op::Trim { offset: 0, len: 1 }).await, Err(JobError::ReadOnly));
        one(&engine, Op::Flush).await.unwrap();
        assert_eq!(read(&engine, 0, 1).await, Ok(vec![1]));
    });
}

#[test]
fn injected_errors_strike_where_told() {
    let file = file(&[1; 8192]);
    let disk = open(file.path(), |o| o.fault = Some("read-eio=2,write-eio=1+2".into()));
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut reads = Vec::new();
        let mut writes = Vec::new();
        for _ in 0..4 {
            reads.push(read(&engine, 0, 1).await.is_ok());
            writes.push(write(&engine, 0, b"x", false).await.is_ok());
        }
        assert_eq!(reads, [true, false, true, true]);
        assert_eq!(writes, [false, true, false, true]);
    });
    let mut options = DiskOptions::path(file.path());
    options.fault = Some("melt=1".into());
    drop(disk);
    assert!(matches!(refusal(&options), DiskError::Fault { .. }));
}
