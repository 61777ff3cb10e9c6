//! Reads that already wait for a node when it wakes up: the first it does, before it has heard of anything.

use cards_check::history::{Op, Step};

use super::history::{BLOCK, BLOCKS, Clock, Event, name_of};
use crate::harness::client::{CMD_READ, Client};
use crate::harness::export::Export;

/// Reads that were sent and not answered yet.
pub(super) struct Probe {
    connection: Client,
    clock: Clock,
    /// When each was sent; cookies count from 1.
    asked: Vec<(u64, Step)>,
}

impl Probe {
    /// Connects while the node is awake.
    pub(super) fn new(export: &Export, clock: Clock) -> Probe {
        Probe { connection: export.open(), clock, asked: Vec::new() }
    }

    /// Asks for all blocks.
    pub(super) fn ask(&mut self) {
        for block in 0..BLOCKS {
            let invoked = self.clock.now();
            let sent = self.connection.send(CMD_READ, block * BLOCK as u64, BLOCK as u32, &[]);
            let cookie = sent.expect("room in a socket");
            assert_eq!(cookie, self.asked.len() as u64 + 1);
            self.asked.push((block, invoked));
        }
    }

    /// Waits for all answers. Errors are answers, too, but tell nothing.
    pub(super) fn answers(mut self, client: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..self.asked.len() {
            let (error, cookie) = self.connection.reply().expect("an answer from a node that is awake");
            let returned = self.clock.now();
            let (block, invoked) = self.asked[cookie as usize - 1];
            if error == 0 {
                let mut data = [0; BLOCK];
                std::io::Read::read_exact(&mut self.connection.socket, &mut data).expect("the block");
                let tag = name_of(&data, block).unwrap_or_else(|story| panic!("after a pause: {story}"));
                let op = Op { invoked, returned, write: false, tag };
                events.push(Event { block, client, op, failed: None });
            }
        }
        self.connection.close();
        events
    }
}
