//! Messages of a group of copies: the header says all but a map, a report or a list, which is a body, and the bytes of a write or
//! a copy, which follow like a block.
//!
//! | field of the header | what |
//! |---|---|
//! | detail | which message it is |
//! | block, stamp | generation and epoch of the term; of a `Here` the generation of the disk and the epoch that it was in sync |
//! | request | number of the request, the write or the beacon |
//! | through | the floor |
//! | argument | where the bytes are; of a `Beacon`, `PutDone` or `Here` the marks |
//! | base | of a `Get`, `Verify` or `Damaged` how many bytes |
//! | node, generation | node and incarnation of the member, or of the client of an origin |
//! | shard, turn, held, life | of an origin: the client's shard, request, oldest, first epoch |
//! | base, held | of a `Here` the disk |
//! | flags | 1 missed, 2 has an origin, 4 admits, 8 doubtful, 16 the disk hangs |

use cards_array::group::{
    CLIENTS_MAX, Client, EXTENTS_MAX, Extent, Extents, MAP_BYTES_MAX, Map, Marks, Member, Memory, Message,
    ORIGINS_MAX, Origin, Origins, Report, Term,
};
use cards_core::PgId;
use cards_layout::format::Uuid;

use super::body::{Reader, Writer, group, node};
use super::header::{Fields, KIND_GROUP};
use super::{FrameError, GROUPS, HEADER_SIZE, MAX_BLOCK, MAX_WRITE, seal};

/// The longest body of a message of a group in bytes: a report of all that a column can tell. Memory grows with what arrives, not
/// with what is announced.
pub const MAX_GROUP_BODY: u32 = REPORT as u32;

const EXTENTS: usize = 2 + EXTENTS_MAX * 16;
const ORIGINS: usize = 8 + 8 + 2 + CLIENTS_MAX * (2 + 8 + 2 + 8 + 2) + ORIGINS_MAX * 8;
/// Commands of a client: its count has 2 bytes.
const APPLIED_MAX: usize = u16::MAX as usize;
const REPORT: usize = 1 + 12 + 8 + 2 * EXTENTS + ORIGINS;

const BEACON: u8 = 0;
const BEACON_ACK: u8 = 1;
const SEAL: u8 = 2;
const WAITING: u8 = 3;
const SEALED: u8 = 4;
const GET: u8 = 5;
const GOT: u8 = 6;
const PUT: u8 = 7;
const PUT_DONE: u8 = 8;
const OPEN: u8 = 9;
const OPENED: u8 = 10;
const HARDEN: u8 = 11;
const HARDENED: u8 = 12;
const CAUGHT_UP: u8 = 13;
const HERE: u8 = 14;
const REFUSED: u8 = 15;
const RESTARTED: u8 = 16;
const FAILED: u8 = 17;
const HAND_OVER: u8 = 18;
const RESIGNED: u8 = 19;
const VERIFY: u8 = 20;
const VERIFIED: u8 = 21;
const DAMAGED: u8 = 22;
const OUTDATED: u8 = 23;

const FLAG_MISSED: u8 = 1 << 0;
const FLAG_ORIGIN: u8 = 1 << 1;
const FLAG_ADMITS: u8 = 1 << 2;
const FLAG_DOUBTFUL: u8 = 1 << 3;
const FLAG_HANGS: u8 = 1 << 4;

/// The header and body of a frame. Behind one whose message has a payload the caller sends `payload` bytes and their
/// [checksums](super::sums); of other messages `payload` is 0.
///
/// # Errors
/// [`FrameError::TooLong`]: a list or the payload is over its limit. [`FrameError::Field`]: the extent of a message is empty, or not as
/// long as its payload, or the group is a plain disk. [`FrameError::Version`]: the peer's release has no groups.
pub fn encode_group<P>(
    of: PgId,
    message: &Message<P>,
    payload: u32,
    version: u8,
) -> Result<Vec<u8>, FrameError> {
    if version < GROUPS {
        return Err(FrameError::Version { theirs: version, who: None });
    }
    let body = body_of(message)?;
    let mut fields = Fields::of_group(of, message);
    fields.payload = if message.payload().is_some() { payload } else { body.len() as u32 };
    check(&fields, message)?;
    let mut frame = Vec::with_capacity(HEADER_SIZE + body.len());
    frame.extend_from_slice(&fields.to_bytes());
    frame.extend_from_slice(&body);
    seal(&mut frame, version);
    Ok(frame)
}

/// What a header says.
pub(super) enum Announced {
    /// A message, whole but for its payload of so many bytes.
    Message { group: PgId, message: Message<()>, payload: u32 },
    /// Its body follows.
    Body(GroupHeader),
}

/// The header of a message with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    group: PgId,
    detail: u8,
    term: Term,
    number: u64,
}

/// The message of a header.
pub(super) fn decode(fields: &Fields) -> Result<Announced, FrameError> {
    let of = group(fields.group)?;
    let Fields { detail, payload, .. } = *fields;
    let term = Term { generation: fields.block, epoch: fields.stamp };
    let limit = match detail {
        SEAL | HAND_OVER => MAP_BYTES_MAX,
        SEALED => REPORT,
        OPEN => ORIGINS + EXTENTS,
        CAUGHT_UP => EXTENTS,
        _ => {
            let message = fields.group_message()?;
            check(fields, &message)?;
            let again = Fields { payload, ..Fields::of_group(of, &message) };
            return match again == *fields {
                true => Ok(Announced::Message { group: of, message, payload }),
                false => Err(unused(detail)),
            };
        }
    };
    if payload as usize > limit {
        let (length, limit) = (payload.into(), limit as u64);
        return Err(FrameError::TooLong { what: "body of a message of a group", length, limit });
    }
    check_group(of)?;
    let again = Fields { kind: KIND_GROUP, detail, payload, group: fields.group, ..Fields::default() };
    let has_term = !matches!(detail, SEAL | HAND_OVER);
    let again = if has_term { again.with_term(term) } else { again };
    let number = if detail == CAUGHT_UP { fields.request } else { 0 };
    let again = Fields { request: number, ..again };
    match again == *fields {
        true => Ok(Announced::Body(GroupHeader { group: of, detail, term, number })),
        false => Err(unused(detail)),
    }
}

fn unused(detail: u8) -> FrameError {
    FrameError::Field {
        what: "a field or flag that messages of a group of this kind do not use",
        value: detail.into(),
    }
}

fn check_group(of: PgId) -> Result<(), FrameError> {
    match of.is_plain() {
        true => Err(FrameError::Field { what: "number of a group of copies", value: of.to_wire() }),
        false => Ok(()),
    }
}

/// Refuses a payload and an extent that cannot be.
fn check<P>(fields: &Fields, message: &Message<P>) -> Result<(), FrameError> {
    check_group(group(fields.group)?)?;
    let payload = u64::from(fields.payload);
    let (length, limit) = match message {
        Message::Put { extent, .. } if extent.length != payload => {
            return Err(FrameError::Field { what: "payload of a write to a column", value: payload });
        }
        Message::Put { .. } => (payload, MAX_WRITE),
        Message::Got { .. } => (payload, MAX_BLOCK),
        Message::Get { extent, .. } | Message::Verify { extent, .. } | Message::Damaged { extent, .. } => {
            (extent.length, MAX_BLOCK)
        }
        Message::Seal(_)
        | Message::HandOver(_)
        | Message::Sealed { .. }
        | Message::Open { .. }
        | Message::CaughtUp { .. } => return Ok(()),
        _ if payload > 0 => return Err(FrameError::TooLong { what: "payload", length: payload, limit: 0 }),
        _ => return Ok(()),
    };
    if length == 0 {
        return Err(FrameError::Field { what: "bytes of a read or write of a column", value: 0 });
    }
    if length > limit.into() {
        return Err(FrameError::TooLong { what: "payload", length, limit: limit.into() });
    }
    if !matches!(message, Message::Put { .. } | Message::Got { .. }) && payload > 0 {
        return Err(FrameError::TooLong { what: "payload", length: payload, limit: 0 });
    }
    if let Message::Put { extent, .. }
    | Message::Get { extent, .. }
    | Message::Verify { extent, .. }
    | Message::Damaged { extent, .. } = message
        && extent.offset.checked_add(extent.length).is_none()
    {
        return Err(FrameError::Field { what: "offset in a column", value: extent.offset });
    }
    Ok(())
}

impl Fields {
    const fn with_term(self, term: Term) -> Self {
        Self { block: term.generation, stamp: term.epoch, ..self }
    }

    const fn with_member(self, member: Member) -> Self {
        Self { node: member.node.0, generation: member.incarnation, ..self }
    }

    fn of_group<P>(of: PgId, message: &Message<P>) -> Self {
        let flag = |hangs| if hangs { FLAG_HANGS } else { 0 };
        let with = |detail| Self { kind: KIND_GROUP, detail, group: of.to_wire(), ..Self::default() };
        match *message {
            Message::Beacon { term, member, sequence, floor, marks } => Self {
                request: sequence,
                through: floor,
                argument: marks.0,
                ..with(BEACON).with_term(term).with_member(member)
            },
            Message::BeaconAck { member, sequence, hangs } => {
                Self { flags: flag(hangs), request: sequence, ..with(BEACON_ACK).with_member(member) }
            }
            Message::Seal(_) => with(SEAL),
            Message::Waiting { term, hangs } => Self { flags: flag(hangs), ..with(WAITING).with_term(term) },
            Message::Sealed { term, .. } => with(SEALED).with_term(term),
            Message::Get { term, number, extent: Extent { offset, length } } => {
                Self { request: number, argument: offset, base: length, ..with(GET).with_term(term) }
            }
            Message::Verify { term, number, extent: Extent { offset, length } } => {
                Self { request: number, argument: offset, base: length, ..with(VERIFY).with_term(term) }
            }
            Message::Verified { term, number } => Self { request: number, ..with(VERIFIED).with_term(term) },
            Message::Damaged { term, number, extent: Extent { offset, length } } => {
                Self { request: number, argument: offset, base: length, ..with(DAMAGED).with_term(term) }
            }
            Message::Got { term, number, .. } => Self { request: number, ..with(GOT).with_term(term) },
            Message::Put { term, number, floor, extent, missed, doubtful, origin, .. } => {
                let put = Self {
                    flags: if missed { FLAG_MISSED } else { 0 } | if doubtful { FLAG_DOUBTFUL } else { 0 },
                    request: number,
                    through: floor,
                    argument: extent.offset,
                    ..with(PUT).with_term(term)
                };
                let Some(Origin { client, request, oldest, first_epoch }) = origin else { return put };
                Self {
                    flags: put.flags | FLAG_ORIGIN,
                    shard: client.shard,
                    turn: request,
                    held: oldest,
                    life: first_epoch,
                    ..put.with_member(client.member)
                }
            }
            Message::PutDone { term, number, marks } => {
                Self { request: number, argument: marks.0, ..with(PUT_DONE).with_term(term) }
            }
            Message::Open { term, .. } => with(OPEN).with_term(term),
            Message::Opened { term } => with(OPENED).with_term(term),
            Message::Harden { term, number, floor, admits } => Self {
                flags: if admits { FLAG_ADMITS } else { 0 },
                request: number,
                through: floor,
                ..with(HARDEN).with_term(term)
            },
            Message::Hardened { term, number } => Self { request: number, ..with(HARDENED).with_term(term) },
            Message::CaughtUp { term, number, .. } => {
                Self { request: number, ..with(CAUGHT_UP).with_term(term) }
            }
            Message::Here { disk, generation, in_sync_epoch, marks } => {
                let [base, held] = halves(disk);
                Self { block: generation, stamp: in_sync_epoch, argument: marks.0, base, held, ..with(HERE) }
            }
            Message::Refused { term } => with(REFUSED).with_term(term),
            Message::Restarted { term } => with(RESTARTED).with_term(term),
            Message::Failed { term } => with(FAILED).with_term(term),
            Message::Outdated { term } => with(OUTDATED).with_term(term),
            Message::HandOver(_) => with(HAND_OVER),
            Message::Resigned { member, term } => with(RESIGNED).with_term(term).with_member(member),
        }
    }

    /// A message without a body.
    fn group_message(&self) -> Result<Message<()>, FrameError> {
        let term = Term { generation: self.block, epoch: self.stamp };
        let (number, floor, marks) = (self.request, self.through, Marks(self.argument));
        let hangs = self.flags & FLAG_HANGS != 0;
        let member = || Ok::<_, FrameError>(Member { node: node(self.node)?, incarnation: self.generation });
        Ok(match self.detail {
            BEACON => Message::Beacon { term, member: member()?, sequence: number, floor, marks },
            BEACON_ACK => Message::BeaconAck { member: member()?, sequence: number, hangs },
            WAITING => Message::Waiting { term, hangs },
            GET | VERIFY | DAMAGED => {
                let extent = Extent { offset: self.argument, length: self.base };
                match self.detail {
                    GET => Message::Get { term, number, extent },
                    VERIFY => Message::Verify { term, number, extent },
                    _ => Message::Damaged { term, number, extent },
                }
            }
            VERIFIED => Message::Verified { term, number },
            GOT => Message::Got { term, number, payload: () },
            PUT => {
                let extent = Extent { offset: self.argument, length: self.payload.into() };
                let origin = match self.flags & FLAG_ORIGIN {
                    0 => None,
                    _ => Some(Origin {
                        client: Client { member: member()?, shard: self.shard },
                        request: self.turn,
                        oldest: self.held,
                        first_epoch: self.life,
                    }),
                };
                let (missed, doubtful) = (self.flags & FLAG_MISSED != 0, self.flags & FLAG_DOUBTFUL != 0);
                Message::Put { term, number, floor, extent, payload: (), missed, doubtful, origin }
            }
            PUT_DONE => Message::PutDone { term, number, marks },
            OPENED => Message::Opened { term },
            HARDEN => Message::Harden { term, number, floor, admits: self.flags & FLAG_ADMITS != 0 },
            HARDENED => Message::Hardened { term, number },
            HERE => {
                let (disk, generation, in_sync_epoch) = (whole(self.base, self.held), self.block, self.stamp);
                Message::Here { disk, generation, in_sync_epoch, marks }
            }
            REFUSED => Message::Refused { term },
            RESTARTED => Message::Restarted { term },
            FAILED => Message::Failed { term },
            OUTDATED => Message::Outdated { term },
            RESIGNED => Message::Resigned { member: member()?, term },
            kind => return Err(FrameError::Kind { what: "message of a group", kind }),
        })
    }
}

fn halves(disk: Uuid) -> [u64; 2] {
    let both = u128::from_le_bytes(disk.0);
    [both as u64, (both >> 64) as u64]
}

fn whole(low: u64, high: u64) -> Uuid {
    Uuid((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

/// The body of a message; empty if it has none.
fn body_of<P>(message: &Message<P>) -> Result<Vec<u8>, FrameError> {
    let mut out = Writer::default();
    match message {
        Message::Seal(map) | Message::HandOver(map) => out.bytes = map.encode(),
        Message::Sealed { report, .. } => {
            out.byte(match report.memory {
                Memory::Lossy => 0,
                Memory::Restarted => 1,
                Memory::Intact => 2,
            });
            out.u32(report.sealed_before.generation);
            out.u64(report.sealed_before.epoch);
            out.u64(report.in_sync_epoch);
            out.extents(&report.unstable)?;
            out.extents(&report.missed)?;
            out.origins(&report.origins)?;
        }
        Message::Open { origins, missed, .. } => {
            out.origins(origins)?;
            out.extents(missed)?;
        }
        Message::CaughtUp { extents, .. } => out.extents(extents)?,
        _ => {}
    }
    Ok(out.bytes)
}

impl GroupHeader {
    /// The message with this body.
    pub(super) fn with(self, body: &[u8]) -> Result<(PgId, Message<()>), FrameError> {
        let Self { group, detail, term, number } = self;
        let mut reader = Reader::new(body);
        let message = match detail {
            SEAL | HAND_OVER => {
                let map = Box::new(Map::decode(body).map_err(FrameError::Map)?);
                let message = if detail == SEAL { Message::Seal(map) } else { Message::HandOver(map) };
                return Ok((group, message));
            }
            SEALED => {
                let report = Report {
                    memory: match reader.byte("memory of a column")? {
                        0 => Memory::Lossy,
                        1 => Memory::Restarted,
                        2 => Memory::Intact,
                        value => {
                            return Err(FrameError::Field {
                                what: "memory of a column",
                                value: value.into(),
                            });
                        }
                    },
                    sealed_before: Term {
                        generation: reader.u32("generation")?,
                        epoch: reader.u64("epoch")?,
                    },
                    in_sync_epoch: reader.u64("epoch in sync")?,
                    unstable: reader.extents()?,
                    missed: reader.extents()?,
                    origins: reader.origins()?,
                };
                Message::Sealed { term, report: Box::new(report) }
            }
            OPEN => {
                let (origins, missed) = (Box::new(reader.origins()?), Box::new(reader.extents()?));
                Message::Open { term, origins, missed }
            }
            CAUGHT_UP => Message::CaughtUp { term, number, extents: Box::new(reader.extents()?) },
            kind => return Err(FrameError::Kind { what: "message of a group", kind }),
        };
        reader.end()?;
        Ok((group, message))
    }
}

impl Writer {
    fn extents(&mut self, extents: &Extents) -> Result<(), FrameError> {
        self.length("list of ranges of a group", extents.len(), EXTENTS_MAX)?;
        for Extent { offset, length } in extents.iter() {
            self.u64(offset);
            self.u64(length);
        }
        Ok(())
    }

    fn origins(&mut self, origins: &Origins) -> Result<(), FrameError> {
        self.u64(origins.since());
        self.u64(origins.life());
        self.length("list of clients", origins.clients().len(), CLIENTS_MAX)?;
        let mut all = 0;
        for (Client { member, shard }, oldest, applied) in origins.clients() {
            self.u16(member.node.0);
            self.u64(member.incarnation);
            self.u16(shard);
            self.u64(oldest);
            self.length("list of commands", applied.len(), APPLIED_MAX)?;
            all = sum(all, applied.len())?;
            applied.iter().for_each(|request| self.u64(*request));
        }
        Ok(())
    }
}

/// Commands of all clients so far.
fn sum(all: usize, more: usize) -> Result<usize, FrameError> {
    match all + more {
        sum if sum <= ORIGINS_MAX => Ok(sum),
        sum => Err(FrameError::TooLong {
            what: "list of commands of all clients",
            length: sum as u64,
            limit: ORIGINS_MAX as u64,
        }),
    }
}

impl Reader<'_> {
    /// Ranges that ascend and do not touch.
    fn extents(&mut self) -> Result<Extents, FrameError> {
        let count = self.length("list of ranges of a group", EXTENTS_MAX)?;
        let mut extents = Extents::default();
        let mut after = 0;
        for number in 0..count {
            let extent =
                Extent { offset: self.u64("offset of a range")?, length: self.u64("length of a range")? };
            if number > 0 && extent.offset <= after {
                return Err(FrameError::Field { what: "offset of a range", value: extent.offset });
            }
            after = match extent.offset.checked_add(extent.length) {
                Some(end) if extent.length > 0 => end,
                _ => return Err(FrameError::Field { what: "length of a range", value: extent.length }),
            };
            extents.insert(extent);
        }
        Ok(extents)
    }

    /// Clients, and the commands of each, that ascend.
    fn origins(&mut self) -> Result<Origins, FrameError> {
        let since = self.u64("epoch since which commands are known")?;
        let mut origins = Origins::beginning(since).with_life(self.u64("persistence life")?);
        let (mut last, mut all) = (None, 0);
        for _ in 0..self.length("list of clients", CLIENTS_MAX)? {
            let member = Member { node: self.node()?, incarnation: self.u64("incarnation")? };
            let client = Client { member, shard: self.u16("shard")? };
            if last.is_some_and(|last| last >= client) {
                return Err(FrameError::Field { what: "client", value: member.node.0.into() });
            }
            last = Some(client);
            let oldest = self.u64("oldest command")?;
            let (mut least, mut applied) = (Some(oldest), Vec::new());
            let count = self.length("list of commands", APPLIED_MAX)?;
            all = sum(all, count)?;
            for _ in 0..count {
                let request = self.u64("command")?;
                if least.is_none_or(|least| request < least) {
                    return Err(FrameError::Field { what: "command", value: request });
                }
                least = request.checked_add(1);
                applied.push(request);
            }
            origins = origins.with_client(client, oldest, applied);
        }
        Ok(origins)
    }
}
