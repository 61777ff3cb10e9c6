//! Who listens on the wire.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::network::enter;

/// Bytes in a row that give content away.
const GIVES_AWAY: usize = 64;

/// Everything that passes over the interfaces of a network namespace, while it lasts.
pub(crate) struct Wiretap {
    ends: Arc<AtomicBool>,
    heard: JoinHandle<Vec<Vec<u8>>>,
}

impl Wiretap {
    /// In the namespace of a process.
    pub(crate) fn begin(pid: u32) -> Wiretap {
        let ends = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ends);
        let (ready, listens) = std::sync::mpsc::channel();
        let heard = std::thread::spawn(move || {
            enter(pid);
            let socket = listen();
            ready.send(()).expect("somebody waits");
            let (mut heard, mut packet) = (Vec::new(), vec![0; 1 << 17]);
            loop {
                // SAFETY: the kernel writes at most the length of the buffer.
                let count =
                    unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
                match usize::try_from(count) {
                    Ok(count) => heard.push(packet[..count].to_vec()),
                    Err(_) if stop.load(Ordering::SeqCst) => return heard,
                    Err(_) => {}
                }
            }
        });
        listens.recv().expect("the tap listens");
        Wiretap { ends, heard }
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.packets().concat()
    }

    /// The same by packet, from its IP header on. Within a machine each is heard as it leaves and as it arrives.
    pub(crate) fn packets(self) -> Vec<Vec<u8>> {
        self.ends.store(true, Ordering::SeqCst);
        self.heard.join().expect("the listener")
    }
}

/// A socket that receives every packet of this thread's namespace.
fn listen() -> OwnedFd {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: takes numbers and gives a descriptor, or -1.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, i32::from(all)) };
    assert!(socket >= 0, "a packet socket: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let (room, wait) = (256 << 20, libc::timeval { tv_sec: 0, tv_usec: 100_000 });
    set(&socket, libc::SO_RCVBUFFORCE, &(room as libc::c_int));
    set(&socket, libc::SO_RCVTIMEO, &wait);
    socket
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) {
    // SAFETY: the value lives as long as the call, and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// How many pieces of the content that was written are in what was heard.
pub(crate) fn given_away(heard: &[u8], content: &[u8]) -> usize {
    let pieces: std::collections::HashSet<&[u8]> = content.chunks_exact(GIVES_AWAY).collect();
    heard.windows(GIVES_AWAY).filter(|window| pieces.contains(window)).count()
}
