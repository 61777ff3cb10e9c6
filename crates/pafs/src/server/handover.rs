//! Buffers from and to other servers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::super::{Action, Frame};
use super::{CacheServer, Purpose};

/// Buffers that a server may ask of others (PAFS-14): one ahead of its needs.
#[derive(Debug, Default)]
pub(super) struct Gains {
    /// Of whom, and how many still.
    list: VecDeque<(u16, u32)>,
    /// Who has been asked and has not answered.
    asked: Option<u16>,
    /// The buffer that has been gained and not used yet.
    ahead: Option<u32>,
}

impl Gains {
    /// A buffer gets a use: whether it was the one ahead.
    pub(super) fn is_used(&mut self, at: u32) -> bool {
        self.ahead.take_if(|ahead| *ahead == at).is_some()
    }
}

impl CacheServer {
    /// Gives buffers away: the least recently used ones, whose contents are lost; dirty blocks are written to their disks before
    /// (PAFS-10). Fewer than asked for, if the others are in use; and one buffer stays.
    pub fn give(&mut self, to: u16, count: u32, out: &mut Vec<Action>) {
        for _ in 0..count {
            let spare = self.partition.len() - self.leaving > 1;
            match self.partition.oldest().filter(|_| spare) {
                Some(at) => self.take_out(at, Purpose::Hand(to), out),
                None => return,
            }
        }
    }

    /// Another server asks for one buffer (PAFS-14): as [`Self::give`], but it is told if there is none.
    pub fn give_one(&mut self, to: u16, out: &mut Vec<Action>) {
        let before = (self.leaving, self.stats.given);
        self.give(to, 1, out);
        if before == (self.leaving, self.stats.given) {
            out.push(Action::Refuse { to });
        }
    }

    /// The buffers that may be asked of others in this interval: of whom, how many. The first one is asked at once,
    /// unless there is an unused one still.
    pub fn set_gains(&mut self, gains: impl IntoIterator<Item = (u16, u32)>, out: &mut Vec<Action>) {
        self.gains.list = gains.into_iter().collect();
        self.ask(out);
    }

    pub(super) fn ask(&mut self, out: &mut Vec<Action>) {
        let gains = &mut self.gains;
        if gains.asked.is_some() || gains.ahead.is_some() {
            return;
        }
        while let Some((donor, left)) = gains.list.front_mut() {
            if *left > 0 {
                *left -= 1;
                gains.asked = Some(*donor);
                out.push(Action::Ask { donor: *donor });
                return;
            }
            gains.list.pop_front();
        }
    }

    /// A frame is this server's from now on: the next one to be used.
    pub fn gain(&mut self, frame: Frame, out: &mut Vec<Action>) {
        let at = self.partition.add(frame);
        if self.gains.asked.take().is_some() {
            self.gains.ahead = Some(at);
        }
        self.feed(out);
    }

    /// The donor that was asked has no buffer to give: it is not asked again in this interval.
    pub fn refused(&mut self, out: &mut Vec<Action>) {
        if let Some(donor) = self.gains.asked.take() {
            self.gains.list.retain(|(other, _)| *other != donor);
        }
        self.ask(out);
    }
}
