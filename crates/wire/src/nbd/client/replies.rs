//! The reply stream of many requests in flight.

use std::collections::BTreeMap;

use super::coverage::Coverage;
use super::{ReplyError, SendError};
use crate::bytes::{Cursor, clip, fill};
use crate::nbd::consts::*;
use crate::nbd::reply::{CHUNK_SIZE, EXTENT_SIZE, SIMPLE_SIZE};
use crate::nbd::{Command, Errno, MAX_STRING, Request, Session};

/// The longest error chunk in bytes: its fields, the longest message, an offset, and room for fields to come.
const MAX_ERROR_CHUNK: u32 = MAX_STRING as u32 + 64;

/// What the reply stream says.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Data of a READ for `offset` of the export. A chunk may come in several events.
    Data {
        /// The request.
        cookie: u64,
        /// Where in the export the bytes belong.
        offset: u64,
        /// Never empty.
        bytes: &'a [u8],
    },
    /// The range reads as zeroes.
    Hole {
        /// The request.
        cookie: u64,
        /// First byte of the hole.
        offset: u64,
        /// Its length in bytes.
        length: u32,
    },
    /// The next extent of a BLOCK_STATUS, in order from the request's offset.
    Extent {
        /// The request.
        cookie: u64,
        /// Its length in bytes, cut at the end of the request.
        length: u32,
        /// `NBD_STATE_*`.
        flags: u32,
    },
    /// The request is over and its cookie free. A READ that succeeded has had every byte delivered, once.
    Done {
        /// The request.
        cookie: u64,
        /// How it went.
        result: Result<(), Failure>,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error.
    pub errno: Errno,
    /// The server's words, at most 4096 bytes; may be empty.
    pub message: String,
}

/// Follows the replies to the requests in flight on one connection.
///
/// [`sent`](Self::sent) tells it of each request. [`advance`](Self::advance) turns received bytes into
/// [`Event`]s. When a large payload is under way, [`payload`](Self::payload) says where its rest belongs, so
/// that it can be received straight into its place and reported with [`received`](Self::received).
/// Memory: a fixed amount for each request in flight, and at most 1024 runs of bytes for a read that a
/// server scatters.
#[derive(Debug)]
pub struct Replies {
    structured: bool,
    base_allocation: Option<u32>,
    in_flight_max: usize,
    in_flight: BTreeMap<u64, InFlight>,
    state: State,
    partial: Vec<u8>,
}

#[derive(Debug)]
struct InFlight {
    command: Command,
    offset: u64,
    length: u32,
    arrived: Coverage,
    /// Bytes of the request that extents have described.
    described: u32,
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    /// The numbers at the start of a chunk's payload, or all of an error chunk.
    Fields(Chunk),
    Data {
        cookie: u64,
        offset: u64,
        left: u32,
        last: bool,
    },
    Extents {
        cookie: u64,
        left: u32,
        last: bool,
        ours: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    cookie: u64,
    kind: u16,
    last: bool,
    length: u32,
}

impl Chunk {
    fn bad(&self, what: &'static str) -> ReplyError {
        ReplyError::Chunk { cookie: self.cookie, what }
    }
}

impl Replies {
    /// Replies in `session`, to at most `in_flight_max` requests at a time.
    pub fn new(session: &Session, in_flight_max: usize) -> Self {
        Self {
            structured: session.structured_replies,
            base_allocation: session.base_allocation,
            in_flight_max,
            in_flight: BTreeMap::new(),
            state: State::Header,
            partial: Vec::new(),
        }
    }

    /// Puts `request` in flight.
    ///
    /// # Errors
    /// It must not be sent now, or has no reply (DISC).
    pub fn sent(&mut self, request: &Request) -> Result<(), SendError> {
        if request.command == Command::Disc {
            return Err(SendError::NoReply);
        }
        if self.in_flight.contains_key(&request.cookie) {
            return Err(SendError::CookieInUse(request.cookie));
        }
        if self.in_flight.len() >= self.in_flight_max {
            return Err(SendError::TooMany(self.in_flight_max));
        }
        let Request { command, cookie, offset, length, .. } = *request;
        let entry =
            InFlight { command, offset, length, arrived: Coverage::default(), described: 0, failure: None };
        self.in_flight.insert(cookie, entry);
        Ok(())
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The cookies in flight, e.g. to fail them when the connection ends.
    pub fn cookies(&self) -> impl Iterator<Item = u64> {
        self.in_flight.keys().copied()
    }

    /// The data that comes next in the stream: its cookie, its offset in the export, and the bytes left.
    pub fn payload(&self) -> Option<(u64, u64, u32)> {
        match self.state {
            State::Data { cookie, offset, left, .. } if left > 0 => Some((cookie, offset, left)),
            _ => None,
        }
    }

    /// Reports that the next `bytes` of [`payload`](Self::payload) were received straight into their place.
    ///
    /// # Panics
    /// If more was received than is left.
    pub fn received(&mut self, bytes: u32) {
        match &mut self.state {
            State::Data { offset, left, .. } if bytes <= *left => {
                *left -= bytes;
                *offset += u64::from(bytes);
            }
            state => panic!("{bytes} bytes of data received in state {state:?}"),
        }
    }

    /// The next event in `input`, whose used front is taken; `None` if more bytes are needed.
    ///
    /// # Errors
    /// The stream cannot be followed: close the connection and fail what is in flight.
    pub fn advance<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, ReplyError> {
        loop {
            match self.state {
                State::Header => {
                    if !self.header_arrived(input) {
                        // A wrong start needs no whole header to be recognised.
                        return self.magic().map(|_| None);
                    }
                    if let Some(done) = self.header()? {
                        return Ok(Some(done));
                    }
                }
                State::Fields(chunk) => {
                    if !fill(&mut self.partial, fields_length(&chunk), input) {
                        return Ok(None);
                    }
                    if let Some(event) = self.fields(chunk)? {
                        return Ok(Some(event));
                    }
                }
                State::Data { cookie, left: 0, last, .. } => {
                    self.state = State::Header;
                    if last {
                        return self.finish(cookie).map(Some);
                    }
                }
                State::Data { cookie, offset, left, .. } => {
                    let (bytes, rest) = input.split_at(input.len().min(left as usize));
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    *input = rest;
                    self.received(bytes.len() as u32);
                    return Ok(Some(Event::Data { cookie, offset, bytes }));
                }
                State::Extents { cookie, left: 0, last, .. } => {
                    self.state = State::Header;
                    if last {
                        return self.finish(cookie).map(Some);
                    }
                }
                State::Extents { cookie, left, last, ours } => {
                    if !fill(&mut self.partial, EXTENT_SIZE, input) {
                        return Ok(None);
                    }
                    self.state = State::Extents { cookie, left: left - EXTENT_SIZE as u32, last, ours };
                    if let Some(event) = self.extent(cookie, ours)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    fn header_arrived(&mut self, input: &mut &[u8]) -> bool {
        fill(&mut self.partial, SIMPLE_SIZE, input)
            && (self.magic() != Ok(Some(NBD_STRUCTURED_REPLY_MAGIC))
                || fill(&mut self.partial, CHUNK_SIZE, input))
    }

    /// The magic of the reply that starts in `partial`, once it is there.
    fn magic(&self) -> Result<Option<u32>, ReplyError> {
        match Cursor::new(&self.partial).be32() {
            Some(magic) if magic == NBD_SIMPLE_REPLY_MAGIC => Ok(Some(magic)),
            Some(magic) if magic == NBD_STRUCTURED_REPLY_MAGIC && self.structured => Ok(Some(magic)),
            Some(magic) => Err(ReplyError::Magic(magic)),
            None => Ok(None),
        }
    }

    fn header<'a>(&mut self) -> Result<Option<Event<'a>>, ReplyError> {
        let magic = self.magic()?;
        let header = std::mem::take(&mut self.partial);
        let mut cursor = Cursor::new(&header);
        cursor.be32();
        if magic == Some(NBD_SIMPLE_REPLY_MAGIC) {
            let (Some(error), Some(cookie)) = (cursor.be32(), cursor.be64()) else { return Ok(None) };
            return self.simple(cookie, error);
        }
        let (Some(flags), Some(kind), Some(cookie), Some(length)) =
            (cursor.be16(), cursor.be16(), cursor.be64(), cursor.be32())
        else {
            return Ok(None);
        };
        let last = flags & NBD_REPLY_FLAG_DONE != 0;
        self.chunk(Chunk { cookie, kind, last, length })
    }

    fn simple<'a>(&mut self, cookie: u64, error: u32) -> Result<Option<Event<'a>>, ReplyError> {
        let structured = self.structured;
        let entry = self.entry(cookie)?;
        if structured && matches!(entry.command, Command::Read | Command::BlockStatus) {
            let what = "a simple reply where structured replies were negotiated";
            return Err(ReplyError::Chunk { cookie, what });
        }
        if error != 0 {
            entry.failure = Some(Failure { errno: Errno::from_code(error), message: String::new() });
        } else if entry.command == Command::Read && entry.length > 0 {
            let (offset, left) = (entry.offset, entry.length);
            // The request was checked when it was made; a range that wraps cannot be described by a reply.
            let end = offset.checked_add(u64::from(left));
            let end = end.ok_or(ReplyError::Chunk { cookie, what: "data for a range that wraps" })?;
            entry.arrived.add(offset, end).map_err(|what| ReplyError::Chunk { cookie, what })?;
            self.state = State::Data { cookie, offset, left, last: true };
            return Ok(None);
        }
        self.finish(cookie).map(Some)
    }

    /// Judges a chunk by its header, before any of its payload is taken.
    fn chunk<'a>(&mut self, chunk: Chunk) -> Result<Option<Event<'a>>, ReplyError> {
        let command = self.entry(chunk.cookie)?.command;
        let fits = match chunk.kind {
            NBD_REPLY_TYPE_NONE => {
                if chunk.length != 0 || !chunk.last {
                    return Err(chunk.bad("an empty chunk that is not empty or not the last"));
                }
                return self.finish(chunk.cookie).map(Some);
            }
            NBD_REPLY_TYPE_OFFSET_DATA => command == Command::Read && chunk.length > 8,
            NBD_REPLY_TYPE_OFFSET_HOLE => command == Command::Read && chunk.length == 12,
            NBD_REPLY_TYPE_BLOCK_STATUS => {
                command == Command::BlockStatus && chunk.length >= 12 && (chunk.length - 4).is_multiple_of(8)
            }
            kind if kind & NBD_REPLY_TYPE_FLAG_ERROR != 0 => (6..=MAX_ERROR_CHUNK).contains(&chunk.length),
            _ => return Err(chunk.bad("unknown chunk type")),
        };
        if !fits {
            return Err(chunk.bad("the chunk's type or length does not fit the request"));
        }
        self.state = State::Fields(chunk);
        Ok(None)
    }

    fn fields<'a>(&mut self, chunk: Chunk) -> Result<Option<Event<'a>>, ReplyError> {
        let fields = std::mem::take(&mut self.partial);
        let mut cursor = Cursor::new(&fields);
        let short = || chunk.bad("the chunk is shorter than its fields");
        let Chunk { cookie, kind, last, length } = chunk;
        self.state = State::Header;
        match kind {
            NBD_REPLY_TYPE_OFFSET_DATA => {
                let offset = cursor.be64().ok_or_else(short)?;
                let left = length - 8;
                self.arrive(&chunk, offset, left)?;
                self.state = State::Data { cookie, offset, left, last };
                Ok(None)
            }
            NBD_REPLY_TYPE_OFFSET_HOLE => {
                let (offset, length) = cursor.be64().zip(cursor.be32()).ok_or_else(short)?;
                self.arrive(&chunk, offset, length)?;
                // With nothing left to arrive, the state only remembers whether the reply ends here.
                self.state = State::Data { cookie, offset, left: 0, last };
                Ok(Some(Event::Hole { cookie, offset, length }))
            }
            NBD_REPLY_TYPE_BLOCK_STATUS => {
                let ours = cursor.be32() == self.base_allocation;
                self.state = State::Extents { cookie, left: length - 4, last, ours };
                Ok(None)
            }
            _ => {
                let (code, words) = cursor.be32().zip(cursor.be16()).ok_or_else(short)?;
                let words = cursor.take(usize::from(words));
                let words = words.ok_or_else(|| chunk.bad("the message is longer than its chunk"))?;
                if code == 0 {
                    return Err(chunk.bad("an error chunk without an error"));
                }
                let message = String::from_utf8_lossy(words);
                let failure =
                    Failure { errno: Errno::from_code(code), message: clip(&message, MAX_STRING).to_owned() };
                self.entry(cookie)?.failure.get_or_insert(failure);
                if last { self.finish(cookie).map(Some) } else { Ok(None) }
            }
        }
    }

    fn extent<'a>(&mut self, cookie: u64, ours: bool) -> Result<Option<Event<'a>>, ReplyError> {
        let bytes = std::mem::take(&mut self.partial);
        let mut cursor = Cursor::new(&bytes);
        let entry = self.entry(cookie)?;
        let Some((length, flags)) = cursor.be32().zip(cursor.be32()) else { return Ok(None) };
        if length == 0 {
            return Err(ReplyError::Chunk { cookie, what: "an extent without length" });
        }
        // The last extent may reach past the request; what lies behind the request says nothing.
        let length = length.min(entry.length - entry.described);
        if !ours || length == 0 {
            return Ok(None);
        }
        entry.described += length;
        Ok(Some(Event::Extent { cookie, length, flags }))
    }

    /// Checks that a content chunk lies within its request and repeats nothing.
    fn arrive(&mut self, chunk: &Chunk, offset: u64, length: u32) -> Result<(), ReplyError> {
        let entry = self.entry(chunk.cookie)?;
        let end = offset.checked_add(u64::from(length)).ok_or_else(|| chunk.bad("a range that wraps"))?;
        let request_end = entry.offset.saturating_add(u64::from(entry.length));
        if length == 0 || offset < entry.offset || end > request_end {
            return Err(chunk.bad("content outside of the request"));
        }
        entry.arrived.add(offset, end).map_err(|what| chunk.bad(what))
    }

    fn finish<'a>(&mut self, cookie: u64) -> Result<Event<'a>, ReplyError> {
        let entry = self.in_flight.remove(&cookie).ok_or(ReplyError::UnknownCookie(cookie))?;
        let end = entry.offset.saturating_add(u64::from(entry.length));
        let result = match entry.failure {
            Some(failure) => Err(failure),
            None if entry.command == Command::Read && !entry.arrived.is(entry.offset, end) => {
                return Err(ReplyError::Chunk { cookie, what: "success without all of the data" });
            }
            None if entry.command == Command::BlockStatus && entry.described == 0 => {
                return Err(ReplyError::Chunk { cookie, what: "success without an extent" });
            }
            None => Ok(()),
        };
        Ok(Event::Done { cookie, result })
    }

    fn entry(&mut self, cookie: u64) -> Result<&mut InFlight, ReplyError> {
        self.in_flight.get_mut(&cookie).ok_or(ReplyError::UnknownCookie(cookie))
    }
}

/// Bytes of a chunk's payload to collect before it can be understood; its header was judged before.
fn fields_length(chunk: &Chunk) -> usize {
    match chunk.kind {
        NBD_REPLY_TYPE_OFFSET_DATA => 8,
        NBD_REPLY_TYPE_OFFSET_HOLE => 12,
        NBD_REPLY_TYPE_BLOCK_STATUS => 4,
        _ => chunk.length as usize,
    }
}
