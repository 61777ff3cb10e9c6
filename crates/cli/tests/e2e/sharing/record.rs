//! One operation on one block, and how it is written down.

use std::io;

use cards_check::history::{Op, Step};

use super::history::{BLOCK, Clock, Event, block_of, name_of};
use crate::harness::client::Client;

/// Who works where, by which clock.
pub(super) struct Recorder {
    pub(super) client: u64,
    pub(super) clock: Clock,
}

impl Recorder {
    /// Writes the content named `tag`. It is in the history whatever comes of it.
    pub(super) fn write(&self, at: &mut Client, block: u64, tag: u64) -> (Event, io::Result<()>) {
        let data = block_of(tag, block);
        let invoked = self.clock.now();
        let done = at.write(block * BLOCK as u64, &data);
        let now = self.clock.now();
        let (returned, failed) = if done.is_ok() { (now, None) } else { (Step::MAX, Some(now)) };
        let op = Op { invoked, returned, write: true, tag };
        (Event { block, client: self.client, op, failed }, done)
    }

    /// Reads; an error tells nothing about the block.
    ///
    /// # Panics
    /// If the block is torn.
    pub(super) fn read(&self, at: &mut Client, block: u64) -> io::Result<Event> {
        let invoked = self.clock.now();
        let data = at.read(block * BLOCK as u64, BLOCK)?;
        let returned = self.clock.now();
        let tag = name_of(&data, block).unwrap_or_else(|story| panic!("client {}: {story}", self.client));
        let op = Op { invoked, returned, write: false, tag };
        Ok(Event { block, client: self.client, op, failed: None })
    }
}
