//! A lane to a peer while it lasts: one task that receives, lets the core work, and sends all that
//! came of it with one vectored write.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use cards_core::NodeId;
use cards_tls::Wire;
use tokio::time::{Instant, Sleep, sleep_until};

use super::broken::{Broken, SILENCE};
use super::incoming::Incoming;
use crate::locks::Mail;
use crate::node::link::credit::Connection;
use crate::node::link::outbox::Way;
use crate::node::link::outgoing::{Frame, PARTS_MAX, Sending};
use crate::node::{Local, Place};
use crate::traffic::Traffic;

/// Receives per turn, and bytes, before what they led to is sent and others run.
const RECEIVES: u32 = 32;
const RECEIVED: usize = 1 << 20;
/// Turns before others run.
const TURNS: u32 = 4;

/// Serves a lane, in a version of the protocol, until it breaks.
pub(super) fn run(
    local: &Rc<Local>,
    connection: Connection,
    (lane, version): (u16, u8),
    wire: Wire,
) -> impl Future<Output = Broken> {
    let peer = connection.peer;
    Exchange {
        incoming: Incoming::new(local, connection, (lane, version)),
        local: Rc::clone(local),
        peer,
        lane,
        wire,
        sending: Sending::new(version),
        locks: (lane == 0).then(|| local.node.locks.mail(peer)),
        heard: Instant::now(),
        alarm: None,
        frames: Vec::new(),
        unpin: Vec::new(),
    }
}

struct Exchange {
    incoming: Incoming,
    local: Rc<Local>,
    peer: NodeId,
    lane: u16,
    wire: Wire,
    sending: Sending,
    /// What the lock service sends: by the first lane.
    locks: Option<Mail>,
    /// When something was received last.
    heard: Instant,
    /// When the rest of a frame is looked for.
    alarm: Option<Pin<Box<Sleep>>>,
    frames: Vec<Frame>,
    unpin: Vec<Place>,
}

impl Exchange {
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        for _ in 0..TURNS {
            let (mut blocked, mut received, mut heard) = (false, 0, false);
            for _ in 0..RECEIVES {
                let polled = self.incoming.poll(cx, &mut self.wire);
                heard |= matches!(polled, Poll::Ready(Ok(_)));
                match polled {
                    Poll::Ready(Ok(bytes)) if received + bytes < RECEIVED => received += bytes,
                    Poll::Ready(Ok(_)) => break,
                    Poll::Ready(Err(broken)) => return Poll::Ready(broken),
                    Poll::Pending => {
                        blocked = true;
                        break;
                    }
                }
            }
            if heard {
                self.heard = Instant::now();
                self.local.node.links[usize::from(self.peer.0)].hears(self.local.node.now());
            }
            self.local.route();
            if let Poll::Ready(Err(error)) = self.send(cx) {
                return Poll::Ready(error.into());
            }
            if blocked {
                return if self.stalls(cx) { Poll::Ready(Broken::Stalled) } else { Poll::Pending };
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether a frame has come in part, and then nothing for long. Nobody else is asked for the blocks that it brings, so a
    /// peer that stands still must not keep them: its kernel would keep the connection.
    fn stalls(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.incoming.is_amid() {
            return false;
        }
        let due = self.heard + SILENCE;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // It is set anew when it has rung, not with each frame.
        while alarm.as_mut().poll(cx).is_ready() {
            if due <= Instant::now() {
                return true;
            }
            alarm.as_mut().reset(due);
        }
        false
    }

    /// Sends until there is nothing more, or the socket takes no more.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let node = &self.local.node;
        let link = &node.links[usize::from(self.peer.0)];
        loop {
            if self.sending.is_empty() {
                let locks = self.locks.as_mut().map(|mail| mail.take(cx.waker()));
                locks.into_iter().flatten().for_each(|frame| self.sending.push_whole(frame));
                link.take(self.lane, &mut self.frames, cx.waker());
                if self.frames.is_empty() && self.sending.is_empty() {
                    return self.wire.poll_flush(cx);
                }
                self.sending.push_all(self.frames.drain(..), &node.arena);
            }
            let sent = {
                let mut parts = [IoSlice::new(&[]); PARTS_MAX];
                let count = self.sending.parts(&node.arena, &mut parts);
                ready!(self.wire.poll_write_vectored(cx, &parts[..count]))?
            };
            Traffic::add(&node.traffic.bytes_sent, sent);
            Traffic::add(&link.traffic.sent, sent);
            self.sending.sent(sent, &node.arena, &mut self.unpin);
            if !self.unpin.is_empty() {
                self.local.unpin(self.unpin.drain(..), false);
                self.local.route();
            }
        }
    }
}

impl Future for Exchange {
    type Output = Broken;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Broken> {
        // What comes of what has arrived by this lane leaves by this lane.
        self.local.way_back.set(Some(Way::back(self.lane)));
        let result = self.turn(cx);
        self.local.way_back.set(None);
        result
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.local.unpin(self.sending.clear(), false);
        self.incoming.abort();
        self.local.route();
    }
}
