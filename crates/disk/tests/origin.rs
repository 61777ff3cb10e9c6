//! Another NBD server as the disk: nbdkit where it is installed, and a scripted server for what must go
//! wrong.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cards_disk::{Disk, DiskError, DiskOptions, Engine, Job, JobError, Op, Outcome};
use cards_wire::nbd::consts::*;
use cards_wire::nbd::{self, Errno, Request, reply};

use crate::files::against_oracle;
use crate::harness::*;

const SIZE: usize = 256 << 10;

/// nbdkit on a unix socket; ends with the value.
struct Nbdkit {
    child: Child,
    dir: tempfile::TempDir,
}

impl Nbdkit {
    /// `None`, after saying why, where there is no nbdkit.
    fn start(arguments: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("nbdkit");
        command
            .arg("--foreground")
            .arg("--exit-with-parent")
            .arg("--unix")
            .arg(dir.path().join("s"))
            .args(arguments);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: nbdkit: {error}");
                return None;
            }
        };
        Some(Self { child, dir })
    }

    /// Opens the export as soon as the server listens.
    fn open(&self, read_only: bool) -> Result<Arc<Disk>, DiskError> {
        let mut options = options(&self.dir.path().join("s"));
        options.read_only = read_only;
        for _ in 0..500 {
            match Disk::open(&options) {
                Err(DiskError::Unreachable { .. }) => std::thread::sleep(Duration::from_millis(10)),
                result => return result,
            }
        }
        panic!("nbdkit does not listen");
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn options(socket: &Path) -> DiskOptions {
    DiskOptions::uri(format!("nbd+unix:///?socket={}", socket.display()))
}

#[test]
fn nbdkit_agrees_with_a_vector() {
    let Some(kit) = Nbdkit::start(&["memory", "300001"]) else { return };
    let disk = kit.open(false).unwrap();
    assert_eq!((disk.size(), disk.read_only()), (300_001, false));
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(engine.kind().name(), "nbd");
        against_oracle(&engine, 300_001, 60, 3).await;
    });
}

#[test]
fn nbdkit_maps_holes_and_splits_long_jobs() {
    const LONG: usize = 70 << 20;
    let Some(kit) = Nbdkit::start(&["memory", "256M"]) else { return };
    let disk = kit.open(false).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        let content: Vec<u8> = (0..LONG).map(|i| (i >> 12) as u8 | 1).collect();
        write(&engine, 64 << 20, &content, true).await.unwrap();
        assert!(read(&engine, 64 << 20, LONG).await.unwrap() == content);
        let map = one(&engine, Op::Extents { offset: 0, len: 256 << 20 }).await.unwrap();
        let tail = (256 << 20) - (64 << 20) - LONG as u64;
        assert_eq!(map, Outcome::Extents(vec![hole(64 << 20), data(LONG as u64), hole(tail)]));
        one(&engine, Op::Trim { offset: 64 << 20, len: LONG as u64 }).await.unwrap();
        let map = one(&engine, Op::Extents { offset: 0, len: 256 << 20 }).await.unwrap();
        assert_eq!(map, Outcome::Extents(vec![hole(256 << 20)]));
    });
}

#[test]
fn nbdkit_errors_and_read_only() {
    let Some(kit) =
        Nbdkit::start(&["-r", "--filter=error", "memory", "1M", "error-pread=EIO", "error-pread-rate=1"])
    else {
        return;
    };
    assert!(matches!(kit.open(false), Err(DiskError::Export { reason, .. }) if reason.contains("read-only")));
    let disk = kit.open(true).unwrap();
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(read(&engine, 0, 512).await, Err(JobError::Os { errno: libc::EIO }));
        assert_eq!(write(&engine, 0, b"x", false).await, Err(JobError::ReadOnly));
    });
}

#[test]
fn nobody_there() {
    let error = Disk::open(&options(Path::new("/nonexistent/socket"))).unwrap_err();
    assert!(
        matches!(error, DiskError::Unreachable { .. }) && error.to_string().contains("/nonexistent/socket")
    );
}

/// What the scripted server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Answer,
    /// Closes the connection instead.
    Hang,
    /// Goes on without an answer.
    Forget,
    /// Puts it aside.
    Hold,
    /// Does what it has put aside, then this.
    Release,
    /// Does what it has put aside and closes the connection.
    ReleaseAndHang,
    /// Does and says nothing until [`Scripted::resume`], then this.
    Stall,
    /// Closes the connection, and takes no other until [`Scripted::resume`].
    Away,
    /// Answers EIO.
    Fail,
    /// Answers ESHUTDOWN, and keeps the connection.
    Leave,
    /// Waits as [`Self::Stall`], then answers EIO.
    StallAndFail,
}

/// A server of one growing list of connections; each runs its script.
struct Scripted {
    socket: PathBuf,
    resume: mpsc::Sender<()>,
    _dir: tempfile::TempDir,
}

type Script = fn(nth: usize, request: &Request) -> Act;

impl Scripted {
    /// `scripts[i]` judges the requests of connection `i`.
    fn start(scripts: Vec<Script>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let (resume, resumed) = mpsc::channel();
        std::thread::spawn(move || {
            let mut content = vec![0; SIZE];
            for script in scripts {
                let (stream, _) = listener.accept().unwrap();
                // Either end may close at any point.
                let _ = Self::connection(stream, script, &mut content, &resumed);
            }
        });
        Self { socket, resume, _dir: dir }
    }

    fn connection(
        mut stream: UnixStream,
        script: Script,
        content: &mut [u8],
        resumed: &mpsc::Receiver<()>,
    ) -> std::io::Result<()> {
        // Newstyle, not fixed: the client has to fall back to NBD_OPT_EXPORT_NAME and simple replies.
        let mut hello = [INIT_PASSWD.to_be_bytes(), OPTS_MAGIC.to_be_bytes()].concat();
        hello.extend(NBD_FLAG_NO_ZEROES.to_be_bytes());
        stream.write_all(&hello)?;
        let mut option = [0; 4 + 16];
        stream.read_exact(&mut option)?;
        let flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH;
        stream.write_all(&[&(SIZE as u64).to_be_bytes()[..], &flags.to_be_bytes()].concat())?;
        let mut held = Vec::new();
        for nth in 1.. {
            let mut header = [0; Request::SIZE];
            stream.read_exact(&mut header)?;
            let request = Request::take(&mut &header[..]).unwrap().unwrap();
            let mut payload = vec![0; request.payload() as usize];
            stream.read_exact(&mut payload)?;
            let mut errno = Ok(());
            match script(nth, &request) {
                Act::Answer => {}
                Act::Hang => return Ok(()),
                Act::Forget => continue,
                Act::Hold => {
                    held.push((request, payload));
                    continue;
                }
                act @ (Act::Release | Act::ReleaseAndHang) => {
                    for (request, payload) in held.drain(..) {
                        Self::answer(&mut stream, &request, &payload, content, Ok(()))?;
                    }
                    if act == Act::ReleaseAndHang {
                        return Ok(());
                    }
                }
                Act::Stall => resumed.recv().unwrap(),
                Act::Away => {
                    drop(stream);
                    resumed.recv().unwrap();
                    return Ok(());
                }
                Act::Fail => errno = Err(Errno::Io),
                Act::Leave => errno = Err(Errno::Shutdown),
                Act::StallAndFail => {
                    resumed.recv().unwrap();
                    errno = Err(Errno::Io);
                }
            }
            if request.command == nbd::Command::Disc {
                return Ok(());
            }
            Self::answer(&mut stream, &request, &payload, content, errno)?;
        }
        Ok(())
    }

    /// Does a request and says so.
    fn answer(
        stream: &mut UnixStream,
        request: &Request,
        payload: &[u8],
        content: &mut [u8],
        result: Result<(), Errno>,
    ) -> std::io::Result<()> {
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        let reply = reply::simple(request.cookie, result);
        match request.command {
            _ if result.is_err() => stream.write_all(&reply),
            nbd::Command::Read => stream.write_all(&[&reply[..], &content[range]].concat()),
            nbd::Command::Write => {
                content[range].copy_from_slice(payload);
                stream.write_all(&reply)
            }
            nbd::Command::Flush => stream.write_all(&reply),
            _ => stream.write_all(&reply::simple(request.cookie, Err(Errno::Inval))),
        }
    }

    /// Ends a [`Act::Stall`].
    fn resume(&self) {
        self.resume.send(()).unwrap();
    }

    fn open(&self, wait: Duration) -> Arc<Disk> {
        let mut options = options(&self.socket);
        options.reconnect_wait = wait;
        Disk::open(&options).unwrap()
    }
}

/// Runs `test` with a server that does what `scripts` say, its disk, and an engine on that.
fn served(scripts: Vec<Script>, wait: Duration, test: impl AsyncFnOnce(&Scripted, &Arc<Disk>, Engine)) {
    let server = Scripted::start(scripts);
    let disk = server.open(wait);
    data_thread(async { test(&server, &disk, Engine::new(&disk)).await });
}

const LONG_WAIT: Duration = Duration::from_secs(60);

fn answer_all(_: usize, _: &Request) -> Act {
    Act::Answer
}

fn hang_at_second(nth: usize, _: &Request) -> Act {
    if nth == 2 { Act::Hang } else { Act::Answer }
}

fn hang_at_read(_: usize, request: &Request) -> Act {
    if request.command == nbd::Command::Read { Act::Hang } else { Act::Answer }
}

#[test]
fn an_old_server_agrees_with_a_vector() {
    let disk = Scripted::start(vec![answer_all]).open(LONG_WAIT);
    data_thread(async { against_oracle(&Engine::new(&disk), SIZE, 40, 5).await });
}

#[test]
fn reads_survive_lost_connections() {
    served(
        vec![hang_at_second, hang_at_second, hang_at_second, answer_all],
        LONG_WAIT,
        async |_, _, engine| {
            let mut arena = vec![1; SIZE];
            for (i, slot) in arena.chunks_mut(SIZE / 8).enumerate() {
                let offset = (i * SIZE / 8) as u64;
                engine.submit(Job { tag: i as u64, op: Op::Read { offset, buf: lend(slot) } });
            }
            assert!(collect(&engine, 8).await.iter().all(|completion| completion.result.is_ok()));
            assert!(arena.iter().all(|&byte| byte == 0));
            one(&engine, Op::Flush).await.unwrap();
        },
    );
}

#[test]
fn a_write_in_flight_fails_and_is_not_sent_again() {
    served(vec![hang_at_second, answer_all], LONG_WAIT, async |_, _, engine| {
        assert!(read(&engine, 0, 1).await.is_ok());
        assert_eq!(write(&engine, 0, b"a", false).await, Err(JobError::Disconnected));
        assert_eq!(JobError::Disconnected.errno(), libc::EIO);
        assert_eq!(read(&engine, 0, 1).await.unwrap(), [0]);
        // It was reported as failed, so a flush has nothing to answer for.
        one(&engine, Op::Flush).await.unwrap();
    });
}

#[test]
fn answered_writes_that_may_be_lost_fail_the_flush() {
    served(vec![hang_at_read, answer_all], LONG_WAIT, async |_, _, engine| {
        write(&engine, 0, b"a", true).await.unwrap();
        write(&engine, 0, b"b", false).await.unwrap();
        assert_eq!(read(&engine, 0, 1).await.unwrap(), b"b");
        assert_eq!(one(&engine, Op::Flush).await, Err(JobError::WritesLost));
        assert_eq!(JobError::WritesLost.errno(), libc::EIO);
        assert_eq!(one(&engine, Op::Flush).await, Err(JobError::SyncFailed));
    });
}

#[test]
fn a_flush_answers_for_no_write_that_came_after_it() {
    // W1 F1 W2 F2, of two data threads: F1 is answered, and the server dies with W2.
    let script: Script = |nth, _| [Act::Answer, Act::Hold, Act::Answer, Act::ReleaseAndHang][nth - 1];
    let server = Scripted::start(vec![script, answer_all]);
    let disk = server.open(LONG_WAIT);
    data_thread(async {
        let (first, second) = (Engine::new(&disk), Engine::new(&disk));
        write(&first, 0, b"a", false).await.unwrap();
        let flushes = async {
            write(&second, 1, b"b", false).await.unwrap();
            one(&second, Op::Flush).await
        };
        let (one, two) = tokio::join!(one(&first, Op::Flush), flushes);
        assert_eq!((one, two), (Ok(Outcome::Done), Err(JobError::WritesLost)));
    });
}

#[test]
fn a_late_flush_answers_for_what_came_before_it() {
    // The second flush, which covers both writes, is answered; the first never is.
    let script: Script = |nth, request| match (nth, request.command) {
        (2, _) => Act::Forget,
        (_, nbd::Command::Read) => Act::Hang,
        _ => Act::Answer,
    };
    let server = Scripted::start(vec![script, answer_all]);
    let disk = server.open(LONG_WAIT);
    data_thread(async {
        let (first, second) = (Engine::new(&disk), Engine::new(&disk));
        write(&first, 0, b"a", false).await.unwrap();
        let flushes = async {
            write(&second, 1, b"b", true).await.unwrap();
            read(&second, 0, 1).await.unwrap();
        };
        let (flushed, ()) = tokio::join!(one(&first, Op::Flush), flushes);
        assert_eq!(flushed, Ok(Outcome::Done), "sent again, with nothing to cover");
    });
}

#[test]
fn flushed_writes_survive_a_lost_connection() {
    served(vec![hang_at_read, answer_all], LONG_WAIT, async |_, _, engine| {
        write(&engine, 0, b"a", true).await.unwrap();
        assert_eq!(read(&engine, 0, 1).await.unwrap(), b"a");
        write(&engine, 0, b"b", true).await.unwrap();
    });
}

#[test]
fn a_server_that_shuts_down_is_asked_again_on_a_new_connection() {
    let leave: Script = |nth, _| if nth > 2 { Act::Leave } else { Act::Answer };
    served(vec![leave, |_, _| Act::Leave, answer_all], LONG_WAIT, async |_, _, engine| {
        write(&engine, 0, b"a", true).await.unwrap();
        write(&engine, 1, b"b", false).await.unwrap();
        assert_eq!(read(&engine, 0, 2).await.unwrap(), b"ab");
        assert_eq!(one(&engine, Op::Flush).await, Ok(Outcome::Done));
    });
}

#[test]
fn a_server_that_stays_away_is_an_error_in_bounded_time() {
    served(vec![hang_at_read], Duration::from_millis(300), async |_, _, engine| {
        for _ in 0..2 {
            assert_eq!(read(&engine, 0, 1).await, Err(JobError::Disconnected));
        }
        // Dropped with a job that waits for the server.
        let mut byte = [0];
        engine.submit(Job { tag: 0, op: Op::Read { offset: 0, buf: lend(&mut byte) } });
        drop(engine);
    });
}

#[test]
fn a_silent_server_is_a_lost_connection() {
    let forget: Script = |_, _| Act::Forget;
    served(vec![forget, answer_all], 2 * WAIT, async |_, _, engine| {
        assert_eq!(read(&engine, 0, 1).await.unwrap(), [0]);
    });
}

/// How long jobs wait where that is the point.
const WAIT: Duration = Duration::from_secs(2);

/// Runs `job`, which must fail once the server was silent for [`WAIT`], and not twice as long.
async fn fails_in_time<T: std::fmt::Debug + PartialEq>(job: impl Future<Output = Result<T, JobError>>) {
    let start = Instant::now();
    assert_eq!(job.await, Err(JobError::Disconnected));
    let time = start.elapsed();
    assert!(time >= WAIT && time < WAIT * 2, "{time:?}");
}

#[test]
fn a_stalled_server_is_an_error_after_one_wait() {
    let forget: Script = |_, _| Act::Forget;
    // One that lets nobody in any more, and one that lets all in and answers nobody.
    for connections in [1, 10] {
        let server = Scripted::start(vec![forget; connections]);
        let disk = server.open(WAIT);
        data_thread(async {
            let engine = Engine::new(&disk);
            fails_in_time(read(&engine, 0, 1)).await;
            fails_in_time(write(&engine, 0, b"a", false)).await;
        });
    }
}

/// Those beyond the disk's depth have waited as long as those before them.
#[test]
fn a_stalled_server_costs_many_jobs_one_wait_together() {
    const JOBS: usize = 5 * DiskOptions::DEPTH;
    let forget: Script = |_, _| Act::Forget;
    for connections in [1, 10] {
        let disk = Scripted::start(vec![forget; connections]).open(WAIT);
        data_thread(async {
            let engine = Engine::new(&disk);
            let mut bytes = vec![0; JOBS];
            for (tag, byte) in bytes.chunks_mut(1).enumerate() {
                engine.submit(Job { tag: tag as u64, op: Op::Read { offset: 0, buf: lend(byte) } });
            }
            fails_in_time(async {
                let done = collect(&engine, JOBS).await;
                let results: Vec<_> = done.into_iter().map(|done| done.result).collect();
                assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
                results[0].clone()
            })
            .await;
        });
    }
}

#[test]
fn a_request_that_is_never_answered_fails_while_others_are_answered() {
    let script: Script = |nth, _| if nth == 1 { Act::Forget } else { Act::Answer };
    let disk = Scripted::start(vec![script]).open(WAIT);
    data_thread(async {
        let (stuck, other) = (Engine::new(&disk), Engine::new(&disk));
        let stuck = async {
            fails_in_time(write(&stuck, 0, b"a", false)).await;
        };
        let others = async {
            for _ in 0..WAIT.as_millis() / 100 {
                assert_eq!(read(&other, 4096, 1).await.unwrap(), [0]);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::join!(stuck, others);
    });
}

#[test]
fn a_flush_that_is_answered_late_costs_one_error() {
    let script: Script = |nth, _| if nth == 2 { Act::Stall } else { Act::Answer };
    served(vec![script], WAIT, async |server, disk, engine| {
        write(&engine, 0, b"a", false).await.unwrap();
        fails_in_time(one(&engine, Op::Flush)).await;
        server.resume();
        one(&engine, Op::Flush).await.unwrap();
        write(&engine, 0, b"b", true).await.unwrap();
        assert!(!disk.sync_failed());
    });
}

#[test]
fn a_flush_while_the_server_is_away_costs_one_error() {
    let script: Script = |nth, _| if nth == 3 { Act::Away } else { Act::Answer };
    served(vec![script, answer_all], WAIT, async |server, _, engine| {
        write(&engine, 0, b"a", true).await.unwrap();
        fails_in_time(one(&engine, Op::Flush)).await;
        server.resume();
        one(&engine, Op::Flush).await.unwrap();
    });
}

#[test]
fn a_write_of_unknown_outcome_does_not_fail_flushes_for_ever() {
    for act in [Act::Stall, Act::Away] {
        let script: Script = match act {
            Act::Stall => |nth, _| if nth == 1 { Act::Stall } else { Act::Answer },
            _ => |nth, _| if nth == 1 { Act::Away } else { Act::Answer },
        };
        served(vec![script, answer_all], WAIT, async |server, _, engine| {
            assert_eq!(write(&engine, 0, b"a", false).await, Err(JobError::Disconnected));
            server.resume();
            one(&engine, Op::Flush).await.unwrap();
        });
    }
}

#[test]
fn a_late_error_of_a_flush_is_not_forgotten() {
    // As with a local disk, the server's next sync would succeed over what this one lost.
    let script: Script = |nth, _| if nth == 2 { Act::StallAndFail } else { Act::Answer };
    served(vec![script], WAIT, async |server, disk, engine| {
        write(&engine, 0, b"a", false).await.unwrap();
        fails_in_time(one(&engine, Op::Flush)).await;
        server.resume();
        assert_eq!(read(&engine, 0, 1).await.unwrap(), b"a");
        assert_eq!(one(&engine, Op::Flush).await, Err(JobError::WritesLost));
        assert!(disk.sync_failed());
    });
}

#[test]
fn a_write_that_was_given_up_does_not_land_after_a_later_one() {
    // The server does the first write when it is asked to read elsewhere.
    let script: Script = |nth, request| match (nth, request.offset) {
        (1, _) => Act::Hold,
        (_, 4096) => Act::Release,
        _ => Act::Answer,
    };
    let disk = Scripted::start(vec![script]).open(WAIT);
    data_thread(async {
        let (engine, other) = (Engine::new(&disk), Engine::new(&disk));
        assert_eq!(write(&engine, 0, b"a", false).await, Err(JobError::Disconnected));
        let read_elsewhere = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            read(&other, 4096, 1).await.unwrap();
        };
        let (written, ()) = tokio::join!(write(&engine, 0, b"b", false), read_elsewhere);
        written.unwrap();
        assert_eq!(read(&engine, 0, 1).await.unwrap(), b"b");
    });
}

#[test]
fn a_server_that_fails_a_flush_fails_all_later_ones() {
    let script: Script = |nth, _| if nth == 2 { Act::Fail } else { Act::Answer };
    served(vec![script], LONG_WAIT, async |_, _, engine| {
        write(&engine, 0, b"a", false).await.unwrap();
        assert_eq!(one(&engine, Op::Flush).await, Err(JobError::Os { errno: libc::EIO }));
        assert_eq!(one(&engine, Op::Flush).await, Err(JobError::SyncFailed));
    });
}

#[test]
fn an_engine_dropped_while_it_sends_leaves_the_connection_whole() {
    let server = Scripted::start(vec![answer_all]); // a second connection would not be accepted
    let disk = server.open(LONG_WAIT);
    data_thread(async {
        for round in 0..20_u8 {
            let engine = Engine::new(&disk);
            let (mut source, mut target) = (vec![round; SIZE / 2], vec![0; SIZE / 2]);
            engine.submit(Job { tag: 0, op: Op::Write { offset: 0, buf: lend(&mut source), fua: false } });
            engine.submit(Job { tag: 1, op: Op::Read { offset: SIZE as u64 / 2, buf: lend(&mut target) } });
            // At any point of the transfer.
            tokio::time::sleep(Duration::from_micros(u64::from(round) * 20)).await;
            drop(engine);
        }
        let engine = Engine::new(&disk);
        assert_eq!(read(&engine, SIZE as u64 / 2, 1).await.unwrap(), [0]);
        write(&engine, 0, b"z", true).await.unwrap();
        assert_eq!(read(&engine, 0, 1).await.unwrap(), b"z");
    });
}
