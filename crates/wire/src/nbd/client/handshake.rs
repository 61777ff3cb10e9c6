//! The handshake as a state machine: bytes in, bytes out.

use std::mem;

use super::{HandshakeError, MAX_OPTION_REPLIES, MAX_OPTION_REPLY, OptionError, Ready, Step};
use crate::bytes::{Cursor, clip, fill};
use crate::nbd::consts::*;
use crate::nbd::{MAX_PAYLOAD, MAX_STRING, Session};

/// Bytes of an option reply before its payload.
const REPLY_HEADER: usize = 20;
/// Bytes a server of before `NBD_FLAG_NO_ZEROES` appends to its answer to `NBD_OPT_EXPORT_NAME`.
const EXPORT_NAME_ZEROES: usize = 124;
const BASE_ALLOCATION: &[u8] = b"base:allocation";

/// One handshake with one server, for one export.
///
/// Drive it like the [server's](crate::nbd::server): send what [`output`](Self::output) has, give
/// [`advance`](Self::advance) what was received, until [`Step::Ready`]. Deadlines are the caller's.
#[derive(Debug)]
pub struct Handshake {
    export: String,
    state: State,
    partial: Vec<u8>,
    out: Vec<u8>,
    no_zeroes: bool,
    replies: u32,
    structured_replies: bool,
    base_allocation: Option<u32>,
    size_and_flags: Option<(u64, u16)>,
    /// Minimum, preferred, maximum.
    blocks: (u32, u32, u32),
}

/// What the server sends next.
#[derive(Clone, Copy, Debug)]
enum State {
    Greeting,
    ReplyHeader { option: u32 },
    ReplyPayload { option: u32, kind: u32, length: usize },
    ExportName,
    Ready(Ready),
}

impl Handshake {
    /// A handshake for `export`; the empty name is the server's default export.
    ///
    /// # Errors
    /// The name is longer than 4096 bytes or contains NUL.
    pub fn new(export: &str) -> Result<Self, HandshakeError> {
        if export.len() > MAX_STRING || export.contains('\0') {
            let export = clip(export, 64).to_owned();
            let message = "an export name has at most 4096 bytes and no NUL".to_owned();
            return Err(HandshakeError::Refused {
                export,
                reason: OptionError(NBD_REP_ERR_INVALID),
                message,
            });
        }
        Ok(Self {
            export: export.to_owned(),
            state: State::Greeting,
            partial: Vec::new(),
            out: Vec::new(),
            no_zeroes: false,
            replies: 0,
            structured_replies: false,
            base_allocation: None,
            size_and_flags: None,
            blocks: (1, 4096, MAX_PAYLOAD),
        })
    }

    /// The bytes to send now.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Reports that the first `bytes` of [`output`](Self::output) were sent.
    ///
    /// # Panics
    /// If that is more than there was.
    pub fn sent(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    /// Goes on as far as possible with what has been received, taking from the front of `input` what it
    /// uses; after [`Step::Ready`] the rest belongs to the replies.
    ///
    /// # Errors
    /// The server cannot be used: close the connection.
    pub fn advance(&mut self, input: &mut &[u8]) -> Result<Step, HandshakeError> {
        loop {
            if !self.out.is_empty() {
                return Ok(Step::Send);
            }
            let want = match self.state {
                State::Greeting => 18,
                State::ReplyHeader { .. } => REPLY_HEADER,
                State::ReplyPayload { length, .. } => length,
                State::ExportName if self.no_zeroes => 10,
                State::ExportName => 10 + EXPORT_NAME_ZEROES,
                State::Ready(ready) => return Ok(Step::Ready(ready)),
            };
            if !fill(&mut self.partial, want, input) {
                return Ok(Step::Receive);
            }
            let element = mem::take(&mut self.partial);
            let mut cursor = Cursor::new(&element);
            let next = match self.state {
                State::Greeting => self.greeting(&mut cursor)?,
                State::ReplyHeader { option } => self.reply_header(option, &mut cursor)?,
                State::ReplyPayload { option, kind, .. } => self.reply(option, kind, &element)?,
                State::ExportName => {
                    self.size_and_flags = cursor.be64().zip(cursor.be16());
                    Some(self.ready()?)
                }
                State::Ready(_) => None,
            };
            self.state = next.ok_or(HandshakeError::Protocol("a message is shorter than its fields"))?;
        }
    }

    fn greeting(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<State>, HandshakeError> {
        let (Some(password), Some(magic), Some(flags)) = (cursor.be64(), cursor.be64(), cursor.be16()) else {
            return Ok(None);
        };
        if password != INIT_PASSWD {
            return Err(HandshakeError::NotNbd(password));
        }
        if magic == CLISERV_MAGIC {
            return Err(HandshakeError::Oldstyle);
        }
        if magic != OPTS_MAGIC {
            return Err(HandshakeError::NotNbd(magic));
        }
        self.no_zeroes = flags & NBD_FLAG_NO_ZEROES != 0;
        let fixed = flags & NBD_FLAG_FIXED_NEWSTYLE != 0;
        let client_flags = if fixed { NBD_FLAG_C_FIXED_NEWSTYLE } else { 0 }
            | if self.no_zeroes { NBD_FLAG_C_NO_ZEROES } else { 0 };
        self.out.extend_from_slice(&client_flags.to_be_bytes());
        Ok(Some(if fixed { self.ask(NBD_OPT_STRUCTURED_REPLY) } else { self.ask(NBD_OPT_EXPORT_NAME) }))
    }

    /// Sends `option`, with the payload that this handshake always gives it.
    fn ask(&mut self, option: u32) -> State {
        let mut payload = Vec::new();
        let mut string = |text: &[u8]| {
            payload.extend_from_slice(&(text.len() as u32).to_be_bytes());
            payload.extend_from_slice(text);
        };
        match option {
            NBD_OPT_SET_META_CONTEXT => {
                string(self.export.as_bytes());
                payload.extend_from_slice(&1u32.to_be_bytes());
                payload.extend_from_slice(&(BASE_ALLOCATION.len() as u32).to_be_bytes());
                payload.extend_from_slice(BASE_ALLOCATION);
            }
            NBD_OPT_GO => {
                string(self.export.as_bytes());
                payload.extend_from_slice(&1u16.to_be_bytes());
                payload.extend_from_slice(&NBD_INFO_BLOCK_SIZE.to_be_bytes());
            }
            NBD_OPT_EXPORT_NAME => payload.extend_from_slice(self.export.as_bytes()),
            _ => {}
        }
        self.out.extend_from_slice(&OPTS_MAGIC.to_be_bytes());
        self.out.extend_from_slice(&option.to_be_bytes());
        self.out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        self.out.extend_from_slice(&payload);
        if option == NBD_OPT_EXPORT_NAME { State::ExportName } else { State::ReplyHeader { option } }
    }

    fn reply_header(
        &mut self,
        option: u32,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<State>, HandshakeError> {
        let (Some(magic), Some(echo), Some(kind), Some(length)) =
            (cursor.be64(), cursor.be32(), cursor.be32(), cursor.be32())
        else {
            return Ok(None);
        };
        if magic != REP_MAGIC {
            return Err(HandshakeError::Protocol("an option reply has the wrong magic"));
        }
        if echo != option {
            return Err(HandshakeError::Protocol("an option reply is for another option"));
        }
        if length > MAX_OPTION_REPLY {
            return Err(HandshakeError::Protocol("an option reply is too long"));
        }
        self.replies += 1;
        if self.replies > MAX_OPTION_REPLIES {
            return Err(HandshakeError::Protocol("too many option replies"));
        }
        Ok(Some(State::ReplyPayload { option, kind, length: length as usize }))
    }

    fn reply(&mut self, option: u32, kind: u32, payload: &[u8]) -> Result<Option<State>, HandshakeError> {
        let more = State::ReplyHeader { option };
        let error = kind & NBD_REP_FLAG_ERROR != 0;
        Ok(match (option, kind) {
            (NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK) => {
                self.structured_replies = true;
                Some(self.ask(NBD_OPT_SET_META_CONTEXT))
            }
            (NBD_OPT_STRUCTURED_REPLY, _) if error => Some(self.ask(NBD_OPT_GO)),
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT) => {
                let mut cursor = Cursor::new(payload);
                let id = cursor.be32();
                if cursor.rest() == BASE_ALLOCATION {
                    self.base_allocation = id;
                }
                id.map(|_| more)
            }
            (NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK) => Some(self.ask(NBD_OPT_GO)),
            (NBD_OPT_SET_META_CONTEXT, _) if error => {
                self.base_allocation = None;
                Some(self.ask(NBD_OPT_GO))
            }
            (NBD_OPT_GO, NBD_REP_INFO) => self.info(payload)?.map(|()| more),
            (NBD_OPT_GO, NBD_REP_ACK) => Some(self.ready()?),
            (NBD_OPT_GO, NBD_REP_ERR_UNSUP) => Some(self.ask(NBD_OPT_EXPORT_NAME)),
            (NBD_OPT_GO, _) if error => {
                let message = String::from_utf8_lossy(payload).into_owned();
                return Err(HandshakeError::Refused {
                    export: self.export.clone(),
                    reason: OptionError(kind),
                    message,
                });
            }
            _ => return Err(HandshakeError::Protocol("an option reply has an unexpected type")),
        })
    }

    /// Takes one piece of information; unknown kinds are ignored, as the protocol demands.
    fn info(&mut self, payload: &[u8]) -> Result<Option<()>, HandshakeError> {
        let mut cursor = Cursor::new(payload);
        let Some(kind) = cursor.be16() else { return Ok(None) };
        match kind {
            NBD_INFO_EXPORT => {
                self.size_and_flags = cursor.be64().zip(cursor.be16());
                Ok(self.size_and_flags.map(|_| ()))
            }
            NBD_INFO_BLOCK_SIZE => {
                let (Some(minimum), Some(preferred), Some(maximum)) =
                    (cursor.be32(), cursor.be32(), cursor.be32())
                else {
                    return Ok(None);
                };
                let sane = minimum.is_power_of_two() && minimum <= 65536 && preferred >= minimum;
                if !sane || maximum < minimum {
                    return Err(HandshakeError::Protocol("the announced block sizes contradict each other"));
                }
                // Requests stay multiples of the minimum up to the limit.
                let maximum = maximum.min(MAX_PAYLOAD) / minimum * minimum;
                self.blocks = (minimum, preferred.min(maximum), maximum);
                Ok(Some(()))
            }
            _ => Ok(Some(())),
        }
    }

    fn ready(&self) -> Result<State, HandshakeError> {
        let Some((size, flags)) = self.size_and_flags else {
            return Err(HandshakeError::Protocol("the server opened the export without its size"));
        };
        let (minimum_block, preferred_block, maximum_block) = self.blocks;
        let session = Session {
            size,
            flags,
            structured_replies: self.structured_replies,
            base_allocation: self.base_allocation,
        };
        Ok(State::Ready(Ready { session, minimum_block, preferred_block, maximum_block }))
    }
}
