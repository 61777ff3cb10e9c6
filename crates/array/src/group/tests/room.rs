//! How many commands of a client a group takes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cards_core::{Instant, NodeId};
use cards_layout::format::Uuid;

use crate::group::mistakes::Made;
use crate::group::{
    Answer, Client, Command, Disk, Extent, Extents, Group, GroupTiming, Map, Marks, Member, Op, Origin,
    Output, Record, Size, Token, Work,
};

const BYTES: u64 = 1 << 20;
const NOW: Instant = Instant(1 << 40);

/// A group of one column that serves and remembers two commands of a client; writes of the column end when a test says so.
struct Alone {
    group: Group<u64>,
    map: Map,
    /// By the command's number.
    writes: BTreeMap<u64, Op>,
    done: Vec<u64>,
}

impl Alone {
    fn new() -> Self {
        let me = Member { node: NodeId(0), incarnation: 1 };
        let disk = Uuid([1; 16]);
        let map = Map::first(Uuid([9; 16]), 0, me, &[(disk, me.node)]).unwrap();
        let (dirty, missed) = (Extents::default(), Extents::default());
        let found = Disk { disk, record: Record::default(), dirty, missed, marks: Marks(0) };
        let size = Size { bytes: BYTES, copy_bytes: 4096, unit_bytes: 4096 };
        let mut made = Made::default();
        made.has_little_room = true;
        let group = Group::making(me, found, size, GroupTiming::default(), Instant(0), made);
        let mut alone = Self { group, map, writes: BTreeMap::new(), done: Vec::new() };
        alone.group.timeout(NOW);
        alone.settle();
        alone.group.cards_void(NOW);
        alone.group.timeout(NOW);
        alone.settle();
        assert!(alone.group.serves(NOW));
        alone
    }

    fn settle(&mut self) {
        while let Some(output) = self.group.poll() {
            match output {
                Output::ReadMap => self.group.register(NOW, Answer::Read(self.map.clone())),
                Output::Work { op, work: Work::Write { payload, .. } } => _ = self.writes.insert(payload, op),
                Output::Work { op, .. } => self.group.done(NOW, op, Ok(None)),
                Output::Done { token, result } => {
                    assert_eq!(result, Ok(None));
                    self.done.push(token.0);
                }
                _ => {}
            }
            self.group.timeout(NOW);
        }
    }

    /// A client sends a command.
    fn send(&mut self, request: u64, oldest: u64) {
        let client = Client { member: Member { node: NodeId(5), incarnation: 1 }, shard: 0 };
        let origin = Some(Origin { client, request, oldest, first_epoch: 1 });
        self.write(request, 1, origin);
    }

    /// A write of so many bytes.
    fn write(&mut self, number: u64, length: u64, origin: Option<Origin>) {
        let extent = Extent { offset: number * 4096, length };
        self.group.command(NOW, Token(number), Command::Write { extent, payload: number, origin });
        self.settle();
    }

    /// The column has written.
    fn wrote(&mut self, request: u64) {
        let op = self.writes.remove(&request).unwrap();
        self.group.done(NOW, op, Ok(None));
        self.settle();
    }

    /// The writes that are open at the column.
    fn open(&self) -> Vec<u64> {
        self.writes.keys().copied().collect()
    }
}

#[test]
fn commands_of_a_client_wait_while_columns_would_have_to_know_too_many() {
    let mut alone = Alone::new();
    for request in 1..=4 {
        alone.send(request, 1);
    }
    assert_eq!(alone.open(), [1, 2]);
    alone.wrote(2);
    assert_eq!((alone.open(), &alone.done[..]), ([1].to_vec(), &[2][..]), "1 may be repeated, and so may 2");
    // What was applied is answered without room.
    alone.send(2, 1);
    assert_eq!(alone.done, [2, 2]);
    // One that is alone is never held up, and says more when it is sent again.
    alone.wrote(1);
    assert_eq!((alone.open(), &alone.done[..]), ([3].to_vec(), &[2, 2, 1][..]));
    alone.send(5, 3);
    assert_eq!(alone.open(), [3, 5]);
    alone.wrote(3);
    alone.wrote(5);
    assert_eq!(alone.open(), [4]);
    alone.wrote(4);
    assert_eq!(alone.done, [2, 2, 1, 3, 5, 4]);
}

#[test]
fn what_another_client_has_open_holds_up_none() {
    let mut alone = Alone::new();
    for request in 1..=3 {
        alone.send(request, 1);
    }
    let client = Client { member: Member { node: NodeId(6), incarnation: 1 }, shard: 0 };
    let origin = Some(Origin { client, request: 1, oldest: 1, first_epoch: 1 });
    alone.wrote(1);
    assert_eq!(alone.open(), [2]);
    alone.write(9, 1, origin);
    assert_eq!(alone.open(), [2, 9]);
}

#[test]
fn writes_wait_while_too_many_bytes_are_open_and_in_order() {
    let mut alone = Alone::new();
    // Two bytes may be open; a longer write is alone.
    for (number, length) in [(1, 1), (2, 3), (3, 1), (4, 1)] {
        alone.write(number, length, None);
    }
    assert_eq!(alone.open(), [1]);
    alone.wrote(1);
    assert_eq!(alone.open(), [2]);
    alone.wrote(2);
    assert_eq!(alone.open(), [3, 4]);
}
