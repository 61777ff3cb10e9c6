//! What other threads tell the one that serves, and how they wake it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use crate::job::Job;
use crate::session::{Connected, SessionError};

/// What another thread says.
#[derive(Debug)]
pub(crate) enum Input {
    /// The kernel has dropped pages; the thread can be used again.
    Notified { token: u64, thread: Sender<Job> },
    /// The daemon is there again.
    Connected(Box<Connected>),
    /// It is not, for this reason; it is tried again.
    NotConnected(SessionError),
    /// Where else the volume is now.
    Here(cards_admin::Device),
}

/// The writing end; any number of them.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: Sender<Input>,
    wake: Arc<File>,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Inbox {
    receiver: Receiver<Input>,
    wake: Arc<File>,
}

/// A mailbox and its inbox.
///
/// # Errors
/// The system has no event counter left.
pub(crate) fn inbox() -> io::Result<(Mailbox, Inbox)> {
    // SAFETY: takes plain numbers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let wake = Arc::new(File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    let (sender, receiver) = mpsc::channel();
    Ok((Mailbox { sender, wake: wake.clone() }, Inbox { receiver, wake }))
}

impl Mailbox {
    /// Says something; false if nobody listens any more.
    pub(crate) fn send(&self, input: Input) -> bool {
        let listens = self.sender.send(input).is_ok();
        // It can only fail when the counter is full, and then the reader is awake.
        let _ = (&*self.wake).write(&1u64.to_ne_bytes());
        listens
    }
}

impl Inbox {
    /// The next thing said.
    pub(crate) fn next(&self) -> Option<Input> {
        self.receiver.try_recv().ok()
    }

    /// Lets the descriptor be silent until something new is said. Call it before [`Self::next`].
    pub(crate) fn clear(&self) {
        // It can only fail when there is nothing to clear.
        let _ = (&*self.wake).read(&mut [0; 8]);
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
