//! A daemon that serves a volume from memory, and withdraws pages when told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Claim, Notice, Refusal, RefusalKind, Reply, Request, Watching, Word, to_line};
use cards_wire::nbd::consts::*;
use cards_wire::nbd::server::{Handshake, Question, Step};
use cards_wire::nbd::{Command, ExportInfo, Request as Asked, reply};

pub(crate) const SIZE: usize = 1 << 20;

/// What all threads share.
#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Connections, to be cut.
    open: Vec<UnixStream>,
    watch: Option<UnixStream>,
    reads: usize,
    /// READs that have arrived.
    asked: usize,
    /// READs wait while this is set.
    silent: bool,
    /// Where other nodes write between the question and the answer of each READ, if they do.
    raced: Option<usize>,
    /// The volume is the device's alone.
    claim: Option<Claim>,
    /// What the last device has claimed that came.
    claimed: Option<Claim>,
    /// Whoever claims anything is told that another node has had the volume.
    overtaken: bool,
    /// The last withdrawal for them, and the last one that was confirmed and after which they have written.
    races: (u64, u64),
}

/// Names of withdrawals are greater if they are for such a write.
const RACE: u64 = 1 << 32;
/// How long an answer takes that such a withdrawal overtakes.
const OVERTAKEN: Duration = Duration::from_millis(3);

pub(crate) struct Fake {
    dir: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    /// Names of withdrawals that were confirmed.
    withdrawn: Receiver<u64>,
    last: u64,
}

impl Fake {
    /// A daemon with a volume of [`SIZE`] bytes.
    pub(crate) fn start() -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(Mutex::new(State { bytes: vec![0; SIZE], ..State::default() }));
        let (say, withdrawn) = mpsc::channel();
        let runtime = dir.path().join("run");
        std::fs::create_dir(&runtime).unwrap();
        let nbd = runtime.join("nbd.sock");
        let (admin, shared, path) = (listen(runtime.join("admin.sock")), state.clone(), nbd.clone());
        thread::spawn(move || {
            for stream in admin.incoming().flatten() {
                let (shared, say, path) = (shared.clone(), say.clone(), path.clone());
                thread::spawn(move || watch(stream, &shared, &say, path));
            }
        });
        let (listener, shared) = (listen(nbd), state.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.lock().unwrap().open.push(stream.try_clone().unwrap());
                let shared = shared.clone();
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Fake { dir, state, withdrawn, last: 0 }
    }

    /// Its runtime directory, in one of its own.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime().join("admin.sock")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.runtime().join("dev/disk")
    }

    /// READs that were served.
    pub(crate) fn reads(&self) -> usize {
        self.state.lock().unwrap().reads
    }

    /// Waits until `count` READs have arrived, answered or not.
    pub(crate) fn wait_asked(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.state.lock().unwrap().asked < count {
            assert!(Instant::now() < end, "no READ arrives");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// READs that have arrived.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    /// Another node writes, in the order that makes it right: pages first.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.withdraw(offset, bytes.len());
        self.write_unasked(offset, bytes);
    }

    /// Another node writes, as if nobody had pages.
    pub(crate) fn write_unasked(&self, offset: usize, bytes: &[u8]) {
        self.state.lock().unwrap().bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn withdraw(&mut self, offset: usize, length: usize) {
        self.last += 1;
        self.notice(&Notice::Withdraw { id: self.last, ranges: vec![(offset as u64, length as u64)] });
        assert_eq!(self.withdrawn.recv_timeout(Duration::from_secs(10)), Ok(self.last));
    }

    pub(crate) fn notice(&self, notice: &Notice) {
        let state = self.state.lock().unwrap();
        state.watch.as_ref().unwrap().write_all(&to_line(notice)).unwrap();
    }

    /// READs are not answered until this is taken back.
    pub(crate) fn be_silent(&self, silent: bool) {
        self.state.lock().unwrap().silent = silent;
    }

    /// From now on another node counts the number at `offset` up between the question and the answer of each READ, as
    /// soon as the pages are gone; none: no more.
    pub(crate) fn race(&self, offset: Option<usize>) {
        self.state.lock().unwrap().raced = offset;
    }

    /// The number at `offset`.
    pub(crate) fn number(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.state.lock().unwrap().bytes[offset..offset + 8].try_into().unwrap())
    }

    /// Devices have the volume for themselves from now on.
    pub(crate) fn claim(&self, claim: Claim) {
        self.state.lock().unwrap().claim = Some(claim);
    }

    /// What the last device has claimed that came.
    pub(crate) fn claimed(&self) -> Option<Claim> {
        self.state.lock().unwrap().claimed
    }

    /// Whoever claims anything is told that another node has had the volume, or is served again.
    pub(crate) fn overtake(&self, overtaken: bool) {
        self.state.lock().unwrap().overtaken = overtaken;
    }

    /// Every connection breaks.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn listen(path: PathBuf) -> UnixListener {
    UnixListener::bind(path).unwrap()
}

fn watch(stream: UnixStream, shared: &Mutex<State>, say: &Sender<u64>, nbd: PathBuf) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let Request::Watch { claim: claimed, .. } = request else { panic!("{request:?}") };
    let (claim, overtaken) = {
        let mut state = shared.lock().unwrap();
        state.claimed = claimed;
        (state.claim, state.overtaken && claimed.is_some())
    };
    if overtaken {
        let refusal = Refusal { kind: RefusalKind::Overtaken, message: "taken over by node n3".into() };
        let _ = (&stream).write_all(&to_line(&Reply::Error(refusal)));
        return;
    }
    let (size, nbd) = (SIZE as u64, Some(nbd));
    let watching = Watching { size, block: 4096, read_only: false, coherent: true, nbd, claim };
    (&stream).write_all(&to_line(&Reply::Watching(watching))).unwrap();
    {
        let mut state = shared.lock().unwrap();
        state.open.push(stream.try_clone().unwrap());
        state.watch = Some(stream.try_clone().unwrap());
    }
    while let Some(Ok(line)) = lines.next() {
        match serde_json::from_str(&line).unwrap() {
            Word::Keeps { pages } => {
                let mut answer = to_line(&Notice::Keeping { pages });
                answer.extend(to_line(&Notice::Valid { for_ms: Some(600_000) }));
                let _ = (&stream).write_all(&answer);
            }
            Word::Withdrawn { id } if id > RACE => {
                let mut state = shared.lock().unwrap();
                state.races.1 = id;
                if let Some(offset) = state.raced {
                    let number: &mut [u8; 8] = (&mut state.bytes[offset..offset + 8]).try_into().unwrap();
                    *number = (u64::from_le_bytes(*number) + 1).to_le_bytes();
                }
            }
            Word::Withdrawn { id } => say.send(id).unwrap(),
            Word::Here(_) => {}
        }
    }
}

fn serve(mut stream: UnixStream, shared: &Mutex<State>) {
    let Some(mut received) = open(&mut stream) else { return };
    let mut buffer = vec![0; 1 << 20];
    loop {
        let mut input = received.as_slice();
        let Ok(Some(request)) = Asked::take(&mut input) else {
            let Ok(n @ 1..) = stream.read(&mut buffer) else { return };
            received.extend_from_slice(&buffer[..n]);
            continue;
        };
        let used = received.len() - input.len();
        received.drain(..used);
        let (start, length) = (request.offset as usize, request.length as usize);
        let mut answer = Vec::new();
        match request.command {
            Command::Read => {
                shared.lock().unwrap().asked += 1;
                while shared.lock().unwrap().silent {
                    thread::sleep(Duration::from_millis(1));
                }
                // Nobody reads what waits to be written.
                let is_free = |state: &State| state.raced.is_none() || state.races.0 == state.races.1;
                let mut state = shared.lock().unwrap();
                while !is_free(&state) {
                    drop(state);
                    thread::sleep(Duration::from_micros(100));
                    state = shared.lock().unwrap();
                }
                state.reads += 1;
                answer.extend(reply::offset_data(request.cookie, request.offset, request.length, true));
                answer.extend_from_slice(&state.bytes[start..start + length]);
                if let Some(offset) = state.raced {
                    state.races.0 = state.races.0.max(RACE) + 1;
                    let notice = Notice::Withdraw { id: state.races.0, ranges: vec![(offset as u64, 8)] };
                    state.watch.as_ref().unwrap().write_all(&to_line(&notice)).unwrap();
                    drop(state);
                    thread::sleep(OVERTAKEN);
                }
            }
            Command::Write => {
                while received.len() < length {
                    let Ok(n @ 1..) = stream.read(&mut buffer) else { return };
                    received.extend_from_slice(&buffer[..n]);
                }
                let mut state = shared.lock().unwrap();
                state.bytes[start..start + length].copy_from_slice(&received[..length]);
                received.drain(..length);
                answer.extend(reply::simple(request.cookie, Ok(())));
            }
            Command::WriteZeroes => {
                shared.lock().unwrap().bytes[start..start + length].fill(0);
                answer.extend(reply::simple(request.cookie, Ok(())));
            }
            _ => answer.extend(reply::simple(request.cookie, Ok(()))),
        }
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The handshake; what was received after it.
fn open(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut handshake = Handshake::new();
    let mut received = Vec::new();
    loop {
        let mut input = received.as_slice();
        let step = handshake.advance(&mut input);
        received = input.to_vec();
        match step {
            Step::Send => {
                let output = handshake.output().to_vec();
                stream.write_all(&output).ok()?;
                handshake.sent(output.len());
            }
            Step::Receive => {
                let mut buffer = [0; 4096];
                let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
                received.extend_from_slice(&buffer[..n]);
            }
            Step::Ask(Question::List) => handshake.answer_list([("disk", "")]),
            Step::Ask(Question::Describe(name) | Question::Open(name)) => {
                let flags = NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN;
                let (size, preferred_block) = (SIZE as u64, 4096);
                let description = String::new();
                handshake.answer_export(Ok(ExportInfo { name, description, size, flags, preferred_block }));
            }
            Step::Ready(_) => return Some(received),
            Step::StartTls | Step::Closed(_) => return None,
        }
    }
}
