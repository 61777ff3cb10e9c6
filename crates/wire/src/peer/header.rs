//! The 104-byte header: fields at fixed places, and what they mean for each block message.

use cards_core::{
    Ahead, Body, Bounds, CommandKind, Generation, Grant, Message, Note, Numbered, Persistence, PgId,
    RequestId, Source, Stamp, StoreOutcome,
};

use super::body::{error_code, group, node, result};
use super::credit::Credit;
use super::group::{Announced, GroupHeader};
use super::inquiry::InquiryHeader;
use super::run::Run;
use super::sums::{SUM_SIZE, check_header, is_intact, seal_header, sum, sums_size};
use super::versions::SUMS;
use super::{
    FrameError, GROUPS, HEADER_SIZE, Hello, MAGIC, MAX_BLOCK, MAX_BODY, MAX_WRITE, OLDEST, RUNS, VERSION,
    control, header_size_of, hello, locks,
};
use crate::bytes::Cursor;

const KIND_HELLO: u8 = 0;
pub(super) const KIND_CONTROL: u8 = 1;
pub(super) const KIND_LOCKS: u8 = 2;
pub(super) const KIND_QUESTION: u8 = 3;
pub(super) const KIND_ANSWER: u8 = 4;
const KIND_CREDIT: u8 = 5;
pub(super) const KIND_GROUP: u8 = 6;
const KIND_READ: u8 = 16;
const KIND_DATA: u8 = 17;
const KIND_NACK: u8 = 18;
const KIND_STORE: u8 = 19;
const KIND_STORE_ACK: u8 = 20;
const KIND_NOTE: u8 = 21;
const KIND_INVALIDATE: u8 = 22;
const KIND_INVALIDATE_ACK: u8 = 23;
const KIND_COMMAND: u8 = 26;
const KIND_COMMAND_DONE: u8 = 27;
const KIND_ACQUIRE: u8 = 28;
const KIND_GRANTED: u8 = 29;
const KIND_PROBE: u8 = 30;
const KIND_VOID: u8 = 31;

const FLAG_LEAVE_COPY: u8 = 1 << 0;
const FLAG_READ_AHEAD: u8 = 1 << 1;
const FLAG_FUA: u8 = 1 << 2;
const FLAG_NO_HOLE: u8 = 1 << 3;
const FLAG_FROM_DISK: u8 = 1 << 4;
const FLAG_AGAIN: u8 = 1 << 5;
/// Where a header says its version.
const AT_VERSION: usize = 4;
/// The command whose argument is no offset.
const DETAIL_FLUSH: u8 = 3;
/// Where the class of a copy starts in the argument of a Store, behind the previous node.
const CLASS_SHIFT: u32 = 16;

/// What a header announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// A block message; `payload` bytes follow if it [has a payload](Body::has_payload), else none.
    Message {
        /// The message, complete.
        message: Message,
        /// Bytes that follow.
        payload: u32,
    },
    /// A Read or a Data of several blocks; `payload` bytes follow for each.
    Run {
        /// The messages, complete.
        run: Run,
        /// Bytes that follow for each.
        payload: u32,
    },
    /// A body follows: collect [`BodyHeader::length`] bytes, then [`BodyHeader::decode`] them.
    Body(BodyHeader),
    /// Nothing follows.
    Credit(Credit),
    /// A message of a group of copies, whole but for its payload; `payload` bytes follow if it [has
    /// one](cards_array::group::Message::payload), else none.
    Group {
        /// The group.
        group: PgId,
        /// The message.
        message: cards_array::group::Message<()>,
        /// Bytes that follow.
        payload: u32,
    },
}

/// The header of a frame with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyHeader {
    version: u8,
    kind: BodyKind,
    length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    Control,
    Locks,
    Inquiry(InquiryHeader),
    Group(GroupHeader),
}

impl BodyHeader {
    fn new(version: u8, fields: &Fields) -> Result<Self, FrameError> {
        let Fields { kind, detail, payload: length, request, .. } = *fields;
        let (body, limit, detail, request) = match kind {
            KIND_CONTROL => (BodyKind::Control, MAX_BODY, 0, 0),
            KIND_LOCKS => (BodyKind::Locks, locks::MAX_LOCKS_BODY, 0, 0),
            _ => {
                let header = InquiryHeader::new(kind, detail, request, length)?;
                (BodyKind::Inquiry(header), length, detail, request)
            }
        };
        if length > limit {
            return Err(FrameError::TooLong { what: "body", length: length.into(), limit: limit.into() });
        }
        if *fields != (Fields { kind, detail, payload: length, request, ..Fields::default() }) {
            return Err(unused(kind));
        }
        Ok(Self { version, kind: body, length })
    }

    /// Bytes of the body, within the limit of its kind, and of its checksums.
    pub fn length(&self) -> usize {
        self.length as usize + sums_size(self.version, self.length as usize)
    }

    /// Decodes the body, [`Self::length`] bytes.
    ///
    /// # Errors
    /// The body is not what the header announced, or has other checksums.
    pub fn decode(&self, mut body: Vec<u8>) -> Result<super::Body, FrameError> {
        let sums = body.split_off(body.len().min(self.length as usize));
        if !is_intact(self.version, &body, &sums) {
            return Err(FrameError::Checksum("body"));
        }
        Ok(match self.kind {
            BodyKind::Control => super::Body::Control(control::decode(self.version, &body)?),
            BodyKind::Locks => super::Body::Locks(locks::decode(&body)?),
            BodyKind::Inquiry(header) => super::Body::Inquiry(header.with(body)),
            BodyKind::Group(header) => {
                let (group, message) = header.with(&body)?;
                super::Body::Group { group, message }
            }
        })
    }
}

/// The header of the first frame: collect [`HelloHeader::length`] bytes, then [`HelloHeader::decode`] them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloHeader {
    bytes: [u8; HEADER_SIZE],
    version: u8,
    length: u32,
}

impl HelloHeader {
    /// Bytes of the body, at most [`MAX_BODY`].
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// The body is not what the header announced, or not as it was sent, or comes from a node that speaks no version that this
    /// one does, in which case the error has the node's name.
    pub fn decode(&self, body: &[u8]) -> Result<Hello, FrameError> {
        if self.version < SUMS {
            return Hello::decode(self.version, body);
        }
        match body.split_last_chunk() {
            Some((fields, theirs)) if *theirs == sum(&[&self.bytes[..], fields].concat()) => {
                Hello::decode(self.version, fields)
            }
            _ => Err(FrameError::Checksum("introduction")),
        }
    }
}

/// Decodes the header of a Hello, of whatever version.
///
/// # Errors
/// The bytes are not such a header: end the connection.
pub fn decode_hello(bytes: &[u8; HEADER_SIZE]) -> Result<HelloHeader, FrameError> {
    let [m0, m1, m2, m3, version, ..] = *bytes;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(FrameError::Magic([m0, m1, m2, m3]));
    }
    if version < 7 {
        // Its headers are shorter: the frame's body, a Hello that begins with the sender's name, has begun.
        let who = bytes.get(header_size_of(version)..).and_then(hello::name_of_any_version);
        return Err(FrameError::Version { theirs: version, who });
    }
    let fields = Fields::from_bytes(bytes).ok_or(FrameError::Short("header"))?;
    let length = fields.payload;
    let is_hello = fields.kind == KIND_HELLO && length <= MAX_BODY;
    // A Hello starts with the sender's name in every version, so that a refusal can say whom it refuses.
    match (OLDEST..=VERSION).contains(&version) {
        false if !is_hello => Err(FrameError::Version { theirs: version, who: None }),
        true if fields != (Fields { payload: length.min(MAX_BODY), ..Fields::default() }) => {
            Err(FrameError::Field {
                what: "kind of a first frame, or one of its fields,",
                value: fields.kind.into(),
            })
        }
        _ => Ok(HelloHeader { bytes: *bytes, version, length }),
    }
}

/// A Hello that says `newest`, with this body.
pub(super) fn hello_frame(newest: u8, mut body: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    if newest >= SUMS {
        body.extend_from_slice(&[0; SUM_SIZE]);
    }
    let mut frame = frame(KIND_HELLO, body)?;
    frame[AT_VERSION] = newest;
    if newest >= SUMS {
        let end = frame.len() - SUM_SIZE;
        let sum = sum(&frame[..end]);
        frame[end..].copy_from_slice(&sum);
    }
    Ok(frame)
}

/// Decodes a header that has come on a connection of that version, on which the nodes have introduced themselves.
///
/// # Errors
/// The bytes are not a header, or not as they were sent: end the connection.
pub fn decode_header(bytes: &[u8; HEADER_SIZE], version: u8) -> Result<Header, FrameError> {
    check_header(bytes, version)?;
    let fields = Fields::from_bytes(bytes).ok_or(FrameError::Short("header"))?;
    if matches!(fields.kind, KIND_CONTROL | KIND_LOCKS | KIND_QUESTION | KIND_ANSWER) {
        return BodyHeader::new(version, &fields).map(Header::Body);
    }
    if fields.kind == KIND_CREDIT {
        let credit = fields.credit();
        return if Fields::of_credit(&credit) == fields {
            Ok(Header::Credit(credit))
        } else {
            Err(unused(fields.kind))
        };
    }
    if fields.kind == KIND_GROUP && version >= GROUPS {
        return Ok(match super::group::decode(&fields)? {
            Announced::Message { group, message, payload } => Header::Group { group, message, payload },
            Announced::Body(header) => {
                Header::Body(BodyHeader { version, kind: BodyKind::Group(header), length: fields.payload })
            }
        });
    }
    let message = fields.message()?;
    let Fields { payload, others, .. } = fields;
    if (Fields { others, ..Fields::new(&message, payload) }) != fields || others != 0 && version < RUNS {
        return Err(unused(fields.kind));
    }
    check_payload(&message.body, payload)?;
    if others == 0 {
        return Ok(Header::Message { message, payload });
    }
    let run = Run::of(message, others).ok_or_else(|| unused(fields.kind))?;
    if payload % run.count() != 0 {
        return Err(FrameError::Field { what: "payload of several blocks", value: payload.into() });
    }
    Ok(Header::Run { payload: payload / run.count(), run })
}

/// The header of `message`, whose payload of `payload` bytes the caller sends behind it, and then its
/// [checksums](super::sums).
///
/// `payload` is 0 for a message [without one](Body::has_payload), the length of a write for a write, and at
/// most [`MAX_BLOCK`] for the others; the peer refuses anything else (checked in debug builds).
pub fn encode_message(message: &Message, payload: u32, version: u8) -> [u8; HEADER_SIZE] {
    debug_assert_eq!(check_payload(&message.body, payload), Ok(()), "{message:?}");
    Fields::new(message, payload).sealed(version)
}

/// The header of a run, behind which the caller sends `payload` bytes for each of its blocks, then the
/// [checksums](super::sums) of all: as [`encode_message`], and together at most [`MAX_BLOCK`].
pub fn encode_run(run: &Run, payload: u32, version: u8) -> [u8; HEADER_SIZE] {
    let payload = payload * run.count();
    debug_assert_eq!(check_payload(&run.first().body, payload), Ok(()), "{run:?}");
    Fields { others: run.others(), ..Fields::new(run.first(), payload) }.sealed(version)
}

/// The whole frame.
pub fn encode_credit(credit: &Credit, version: u8) -> [u8; HEADER_SIZE] {
    Fields::of_credit(credit).sealed(version)
}

/// A frame of a kind with a body, to be [sealed](super::seal).
pub(super) fn frame(kind: u8, body: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    let payload = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if payload > MAX_BODY {
        return Err(FrameError::TooLong { what: "body", length: body.len() as u64, limit: MAX_BODY.into() });
    }
    Ok(frame_of(kind, &body))
}

/// A frame whose body is within the limit of its kind, to be [sealed](super::seal).
pub(super) fn frame_of(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_SIZE + body.len());
    out.extend_from_slice(&Fields { kind, payload: body.len() as u32, ..Fields::default() }.to_bytes());
    out.extend_from_slice(body);
    out
}

/// The header of a question or an answer.
pub(super) fn inquiry(kind: u8, detail: u8, request: u64, payload: u32) -> [u8; HEADER_SIZE] {
    Fields { kind, detail, payload, request, ..Fields::default() }.to_bytes()
}

fn unused(kind: u8) -> FrameError {
    FrameError::Field { what: "a field or flag that frames of this kind do not use", value: kind.into() }
}

/// A payload must be there exactly when its kind has one, and be no longer than its kind allows.
fn check_payload(body: &Body, payload: u32) -> Result<(), FrameError> {
    let limit = match body {
        Body::Command { kind: CommandKind::Write, length, .. } if *length != payload => {
            return Err(FrameError::Field { what: "payload of a write", value: payload.into() });
        }
        Body::Command { kind: CommandKind::Write, .. } => MAX_WRITE,
        body if body.has_payload() => MAX_BLOCK,
        _ => 0,
    };
    if payload > limit {
        return Err(FrameError::TooLong { what: "payload", length: payload.into(), limit: limit.into() });
    }
    if payload == 0 && body.has_payload() {
        return Err(FrameError::Field { what: "payload", value: 0 });
    }
    Ok(())
}

/// The header's fields, see the table in [`super`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) detail: u8,
    pub(super) payload: u32,
    pub(super) shard: u16,
    pub(super) free: u16,
    pub(super) through: u64,
    pub(super) group: u64,
    pub(super) request: u64,
    pub(super) stamp: u64,
    pub(super) generation: u64,
    pub(super) argument: u64,
    pub(super) base: u64,
    pub(super) held: u64,
    pub(super) turn: u64,
    pub(super) life: u64,
    pub(super) node: u16,
    pub(super) others: u16,
    pub(super) block: u32,
}

impl Fields {
    fn from_bytes(bytes: &[u8; HEADER_SIZE]) -> Option<Self> {
        let mut cursor = Cursor::new(&bytes[5..]);
        Some(Self {
            kind: cursor.byte()?,
            flags: cursor.byte()?,
            detail: cursor.byte()?,
            payload: cursor.le32()?,
            shard: cursor.le16()?,
            free: cursor.le16()?,
            through: cursor.le64()?,
            group: cursor.le64()?,
            request: cursor.le64()?,
            stamp: cursor.le64()?,
            generation: cursor.le64()?,
            argument: cursor.le64()?,
            base: cursor.le64()?,
            held: cursor.le64()?,
            turn: cursor.le64()?,
            life: cursor.le64()?,
            node: cursor.le16()?,
            others: cursor.le16()?,
            block: cursor.le32()?,
        })
    }

    /// The bytes of a header of that version.
    fn sealed(self, version: u8) -> [u8; HEADER_SIZE] {
        let mut out = self.to_bytes();
        seal_header(&mut out, version);
        out
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let mut out = [0; HEADER_SIZE];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&[VERSION, self.kind, self.flags, self.detail]);
        out[8..12].copy_from_slice(&self.payload.to_le_bytes());
        out[12..14].copy_from_slice(&self.shard.to_le_bytes());
        out[14..16].copy_from_slice(&self.free.to_le_bytes());
        out[16..24].copy_from_slice(&self.through.to_le_bytes());
        out[24..32].copy_from_slice(&self.group.to_le_bytes());
        out[32..40].copy_from_slice(&self.request.to_le_bytes());
        out[40..48].copy_from_slice(&self.stamp.to_le_bytes());
        out[48..56].copy_from_slice(&self.generation.to_le_bytes());
        out[56..64].copy_from_slice(&self.argument.to_le_bytes());
        out[64..72].copy_from_slice(&self.base.to_le_bytes());
        out[72..80].copy_from_slice(&self.held.to_le_bytes());
        out[80..88].copy_from_slice(&self.turn.to_le_bytes());
        out[88..96].copy_from_slice(&self.life.to_le_bytes());
        out[96..98].copy_from_slice(&self.node.to_le_bytes());
        out[98..100].copy_from_slice(&self.others.to_le_bytes());
        out[100..104].copy_from_slice(&self.block.to_le_bytes());
        out
    }

    fn new(message: &Message, payload: u32) -> Self {
        let Message { volume, shard, through, free, body } = message;
        let common = Self {
            payload,
            group: volume.to_wire(),
            shard: *shard,
            through: through.0,
            free: *free,
            ..Self::default()
        };
        match *body {
            Body::Read { request, block, requester, hops, leave_copy, read_ahead, from_disk } => Self {
                kind: KIND_READ,
                flags: flag(leave_copy, FLAG_LEAVE_COPY)
                    | flag(read_ahead, FLAG_READ_AHEAD)
                    | flag(from_disk, FLAG_FROM_DISK),
                detail: hops,
                node: requester.0,
                request: request.0,
                block,
                ..common
            },
            Body::Data { request, block, source, as_of, oldest_ms } => Self {
                argument: oldest_ms.into(),
                kind: KIND_DATA,
                detail: source_code(source),
                request: request.0,
                block,
                stamp: as_of.0,
                ..common
            },
            Body::Nack { request, block, error } => {
                Self { kind: KIND_NACK, detail: error_code(error), request: request.0, block, ..common }
            }
            Body::Store { block, class, depth, evictor, previous, as_of, age_ms, oldest_ms } => Self {
                kind: KIND_STORE,
                detail: depth,
                node: evictor.0,
                block,
                argument: u64::from(class) << CLASS_SHIFT | u64::from(previous.0),
                stamp: as_of.0,
                generation: u64::from(age_ms) << 32 | u64::from(oldest_ms),
                ..common
            },
            Body::StoreAck { block, outcome } => {
                Self { kind: KIND_STORE_ACK, detail: outcome_code(outcome), block, ..common }
            }
            Body::Note { block, note } => {
                Self { kind: KIND_NOTE, detail: note.kind, block, argument: note.value, ..common }
            }
            Body::Invalidate { generation, stamp, block, count } => Self {
                kind: KIND_INVALIDATE,
                block,
                stamp: stamp.0,
                generation: generation.0,
                argument: count.into(),
                ..common
            },
            Body::InvalidateAck { generation, stamp, block, released, turn } => Self {
                kind: KIND_INVALIDATE_ACK,
                block,
                stamp: stamp.0,
                generation: generation.0,
                held: released,
                turn,
                ..common
            },
            Body::Acquire { generation, block, turn, ahead } => {
                Self { kind: KIND_ACQUIRE, detail: ahead, block, generation: generation.0, turn, ..common }
            }
            Body::Granted { generation, block, grant, ahead } => {
                let (detail, life) = (ahead.regions, ahead.bound.0);
                Self { kind: KIND_GRANTED, detail, block, generation: generation.0, life, ..common }
                    .with_grant(grant)
            }
            Body::Command {
                generation,
                request,
                slot,
                kind,
                offset,
                length,
                fua,
                again,
                turn,
                ref origin,
            } => {
                // Numbers begin with 1.
                let Numbered { number, oldest, first_epoch } =
                    origin.as_deref().copied().unwrap_or(Numbered { number: 0, oldest: 0, first_epoch: 0 });
                let (detail, no_hole) = command_fields(kind);
                let argument = match kind {
                    CommandKind::Flush { since } => since.0,
                    _ => offset,
                };
                Self {
                    kind: KIND_COMMAND,
                    flags: flag(fua, FLAG_FUA) | flag(again, FLAG_AGAIN) | no_hole,
                    detail,
                    node: slot,
                    block: length,
                    request: request.0,
                    generation: generation.0,
                    argument,
                    turn,
                    stamp: number,
                    base: oldest,
                    held: first_epoch,
                    ..common
                }
            }
            Body::Probe { generation, request, slot, block, turn } => Self {
                kind: KIND_PROBE,
                node: slot,
                block,
                request: request.0,
                generation: generation.0,
                turn,
                ..common
            },
            Body::Void { generation, request, slot } => {
                Self { kind: KIND_VOID, node: slot, request: request.0, generation: generation.0, ..common }
            }
            Body::CommandDone { generation, request, stamp, persistence, result, turn, bounds } => Self {
                kind: KIND_COMMAND_DONE,
                detail: result.map_or_else(error_code, |()| 0),
                request: request.0,
                generation: generation.0,
                life: persistence.0,
                ..common
            }
            .with_grant(Grant { turn, held: stamp.0, bounds }),
        }
    }

    fn of_credit(&Credit { granted, wanted, returned }: &Credit) -> Self {
        Self { kind: KIND_CREDIT, stamp: granted, generation: wanted, argument: returned, ..Self::default() }
    }

    fn credit(&self) -> Credit {
        Credit { granted: self.stamp, wanted: self.generation, returned: self.argument }
    }

    fn with_grant(self, Grant { turn, held, bounds }: Grant) -> Self {
        let Bounds { base, written, version } = bounds;
        Self { turn, held, base: base.0, argument: written, stamp: version.0, ..self }
    }

    fn grant(&self) -> Grant {
        let (base, written, version) = (Stamp(self.base), self.argument, Stamp(self.stamp));
        Grant { turn: self.turn, held: self.held, bounds: Bounds { base, written, version } }
    }

    fn message(&self) -> Result<Message, FrameError> {
        let request = RequestId(self.request);
        let generation = Generation(self.generation);
        let stamp = Stamp(self.stamp);
        let block = self.block;
        let body = match self.kind {
            KIND_READ => Body::Read {
                request,
                block,
                requester: node(self.node)?,
                hops: self.detail,
                leave_copy: self.flags & FLAG_LEAVE_COPY != 0,
                read_ahead: self.flags & FLAG_READ_AHEAD != 0,
                from_disk: self.flags & FLAG_FROM_DISK != 0,
            },
            KIND_DATA => Body::Data {
                request,
                block,
                source: self.source()?,
                as_of: stamp,
                oldest_ms: u32::try_from(self.argument)
                    .map_err(|_| FrameError::Field { what: "age", value: self.argument })?,
            },
            KIND_NACK => match result(self.detail)? {
                Err(error) => Body::Nack { request, block, error },
                Ok(()) => return Err(self.bad_detail("error of a Nack")),
            },
            KIND_STORE => Body::Store {
                block,
                class: self.class()?,
                depth: self.detail,
                evictor: node(self.node)?,
                previous: node(self.argument as u16)?,
                as_of: stamp,
                age_ms: (self.generation >> 32) as u32,
                oldest_ms: self.generation as u32,
            },
            KIND_STORE_ACK => Body::StoreAck { block, outcome: self.outcome()? },
            KIND_NOTE => Body::Note { block, note: Note { kind: self.detail, value: self.argument } },
            KIND_INVALIDATE => {
                Body::Invalidate { generation, stamp, block, count: self.small_argument("count of blocks")? }
            }
            KIND_INVALIDATE_ACK => {
                Body::InvalidateAck { generation, stamp, block, released: self.held, turn: self.turn }
            }
            KIND_ACQUIRE => Body::Acquire { generation, block, turn: self.turn, ahead: self.detail },
            KIND_GRANTED => {
                let ahead = Ahead { regions: self.detail, bound: Stamp(self.life) };
                Body::Granted { generation, block, grant: self.grant(), ahead }
            }
            KIND_COMMAND => Body::Command {
                generation,
                request,
                slot: self.node,
                kind: self.command()?,
                offset: if self.is_flush() { 0 } else { self.argument },
                length: self.block,
                fua: self.flags & FLAG_FUA != 0,
                again: self.flags & FLAG_AGAIN != 0,
                turn: self.turn,
                origin: (self.stamp != 0).then(|| {
                    Box::new(Numbered { number: self.stamp, oldest: self.base, first_epoch: self.held })
                }),
            },
            KIND_PROBE => Body::Probe { generation, request, slot: self.node, block, turn: self.turn },
            KIND_VOID => Body::Void { generation, request, slot: self.node },
            KIND_COMMAND_DONE => {
                let Grant { turn, held, bounds } = self.grant();
                let (stamp, persistence) = (Stamp(held), Persistence(self.life));
                let result = result(self.detail)?;
                Body::CommandDone { generation, request, stamp, persistence, result, turn, bounds }
            }
            kind => return Err(FrameError::Kind { what: "frame", kind }),
        };
        let through = Stamp(self.through);
        let volume = group(self.group)?;
        Ok(Message { volume, shard: self.shard, through, free: self.free, body })
    }

    fn source(&self) -> Result<Source, FrameError> {
        match self.detail {
            0 => Ok(Source::Cache),
            1 => Ok(Source::Disk),
            _ => Err(self.bad_detail("source")),
        }
    }

    fn class(&self) -> Result<u8, FrameError> {
        let value = self.argument >> CLASS_SHIFT;
        u8::try_from(value).map_err(|_| FrameError::Field { what: "class of a copy", value })
    }

    fn outcome(&self) -> Result<StoreOutcome, FrameError> {
        match self.detail {
            0 => Ok(StoreOutcome::Stored),
            1 => Ok(StoreOutcome::Present),
            2 => Ok(StoreOutcome::PassedOn),
            3 => Ok(StoreOutcome::Dropped),
            _ => Err(self.bad_detail("outcome of a Store")),
        }
    }

    /// Of a Command: its argument is the life of unflushed writes.
    fn is_flush(&self) -> bool {
        self.detail == DETAIL_FLUSH
    }

    fn command(&self) -> Result<CommandKind, FrameError> {
        match self.detail {
            0 => Ok(CommandKind::Write),
            1 => Ok(CommandKind::Zero { no_hole: self.flags & FLAG_NO_HOLE != 0 }),
            2 => Ok(CommandKind::Trim),
            DETAIL_FLUSH => Ok(CommandKind::Flush { since: Persistence(self.argument) }),
            _ => Err(self.bad_detail("command")),
        }
    }

    fn small_argument(&self, what: &'static str) -> Result<u16, FrameError> {
        u16::try_from(self.argument).map_err(|_| FrameError::Field { what, value: self.argument })
    }

    fn bad_detail(&self, what: &'static str) -> FrameError {
        FrameError::Field { what, value: self.detail.into() }
    }
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

fn source_code(source: Source) -> u8 {
    match source {
        Source::Cache => 0,
        Source::Disk => 1,
    }
}

fn outcome_code(outcome: StoreOutcome) -> u8 {
    match outcome {
        StoreOutcome::Stored => 0,
        StoreOutcome::Present => 1,
        StoreOutcome::PassedOn => 2,
        StoreOutcome::Dropped => 3,
    }
}

fn command_fields(kind: CommandKind) -> (u8, u8) {
    match kind {
        CommandKind::Write => (0, 0),
        CommandKind::Zero { no_hole } => (1, flag(no_hole, FLAG_NO_HOLE)),
        CommandKind::Trim => (2, 0),
        CommandKind::Flush { .. } => (DETAIL_FLUSH, 0),
    }
}
