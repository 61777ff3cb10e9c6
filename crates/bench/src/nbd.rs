//! As much of the NBD protocol as a load generator needs: the fixed newstyle handshake, requests, and
//! simple and structured replies. No sockets beyond `Read + Write`; the reply parser is sans-IO.
//!
//! Addresses, constants and requests are `cards_wire`'s. The rest is apart from it on purpose: `cards_wire`'s
//! client always takes structured replies where it can get them, while a comparison must choose; and a
//! reply decoder that knows only slots is cheaper, and catches what a shared one would overlook.

use std::io::{self, Read, Write};

use cards_wire::nbd::consts::*;
use cards_wire::nbd::{Command, Request};

/// Option replies are short; anything longer is not an NBD server.
const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;

/// What the server did wrong.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The connection failed or ended.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// A fixed value was something else.
    #[error("{what} is {got:#x}, which is not NBD")]
    Magic {
        /// Which field.
        what: &'static str,
        /// Its value.
        got: u64,
    },
    /// The server speaks, but not what is needed.
    #[error("the server refused option {option} with code {code:#x}; check the export name")]
    Refused {
        /// NBD_OPT_*.
        option: u32,
        /// NBD_REP_ERR_*.
        code: u32,
    },
    /// The server acknowledged an export without telling its size.
    #[error("the server did not send NBD_INFO_EXPORT")]
    NoExport,
    /// A reply to a request that is not outstanding, or more data than was asked for.
    #[error("unexpected reply: {what} (cookie {cookie:#x})")]
    Unexpected {
        /// What does not fit.
        what: &'static str,
        /// The request it claims to answer.
        cookie: u64,
    },
    /// The server failed a request.
    #[error("the server answered error {error} to {len} bytes at offset {offset}")]
    Failed {
        /// NBD errno.
        error: u32,
        /// Offset of the request.
        offset: u64,
        /// Length of the request in bytes.
        len: u32,
    },
    /// A read returned bytes that do not belong there.
    #[error("wrong content in {len} bytes at offset {offset}")]
    Content {
        /// Where the wrong bytes start.
        offset: u64,
        /// How many bytes were compared at once.
        len: usize,
    },
}

/// What the server said about the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Size in bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    /// Whether reads are answered by chunks.
    pub structured: bool,
}

/// Runs the fixed newstyle handshake up to the transmission phase.
///
/// `structured` asks for structured replies; a server without them answers simply.
pub fn handshake(
    stream: &mut (impl Read + Write),
    export: &str,
    structured: bool,
) -> Result<Export, ProtocolError> {
    expect(u64::from_be_bytes(read_array(stream)?), INIT_PASSWD, "the greeting")?;
    expect(u64::from_be_bytes(read_array(stream)?), OPTS_MAGIC, "the option magic")?;
    let server_flags = u16::from_be_bytes(read_array(stream)?);
    // Fixed newstyle and no zeroes, as far as the server offers them.
    stream.write_all(&u32::from(server_flags & 3).to_be_bytes())?;
    let structured = structured && {
        send_option(stream, NBD_OPT_STRUCTURED_REPLY, &[])?;
        read_option_reply(stream, NBD_OPT_STRUCTURED_REPLY)?.0 == NBD_REP_ACK
    };
    let mut go = Vec::with_capacity(export.len() + 6);
    go.extend_from_slice(&(export.len() as u32).to_be_bytes());
    go.extend_from_slice(export.as_bytes());
    go.extend_from_slice(&0u16.to_be_bytes());
    send_option(stream, NBD_OPT_GO, &go)?;
    let mut found = None;
    loop {
        match read_option_reply(stream, NBD_OPT_GO)? {
            (NBD_REP_ACK, _) => return found.ok_or(ProtocolError::NoExport),
            (NBD_REP_INFO, info) if info.len() >= 12 && info[..2] == NBD_INFO_EXPORT.to_be_bytes() => {
                let size = u64::from_be_bytes(info[2..10].try_into().expect("8 bytes"));
                let flags = u16::from_be_bytes([info[10], info[11]]);
                found = Some(Export { size, flags, structured });
            }
            (code, _) if code & NBD_REP_FLAG_ERROR != 0 => {
                return Err(ProtocolError::Refused { option: NBD_OPT_GO, code });
            }
            _ => {}
        }
    }
}

fn expect(got: u64, expected: u64, what: &'static str) -> Result<(), ProtocolError> {
    if got == expected { Ok(()) } else { Err(ProtocolError::Magic { what, got }) }
}

fn read_array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn send_option(stream: &mut impl Write, option: u32, payload: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(16 + payload.len());
    message.extend_from_slice(&OPTS_MAGIC.to_be_bytes());
    message.extend_from_slice(&option.to_be_bytes());
    message.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    message.extend_from_slice(payload);
    stream.write_all(&message)
}

fn read_option_reply(stream: &mut impl Read, option: u32) -> Result<(u32, Vec<u8>), ProtocolError> {
    expect(u64::from_be_bytes(read_array(stream)?), REP_MAGIC, "the option reply magic")?;
    let answered = u32::from_be_bytes(read_array(stream)?);
    expect(u64::from(answered), u64::from(option), "the answered option")?;
    let code = u32::from_be_bytes(read_array(stream)?);
    let len = u32::from_be_bytes(read_array(stream)?);
    if len > OPTION_REPLY_BYTES_MAX {
        return Err(ProtocolError::Magic { what: "the length of an option reply", got: u64::from(len) });
    }
    let mut payload = vec![0; len as usize];
    stream.read_exact(&mut payload)?;
    Ok((code, payload))
}

/// Appends one request header.
pub fn append_request(out: &mut Vec<u8>, command: Command, cookie: u64, offset: u64, length: u32) {
    out.extend_from_slice(&Request { flags: 0, command, cookie, offset, length }.encode());
}

/// What the parser found in the bytes of replies.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes of a read, in pieces as they arrive: `at` is their distance from the start of the reply's
    /// data when `absolute` is not set, and the offset on the disk when it is.
    Data {
        /// The request.
        cookie: u64,
        /// Where the bytes belong.
        at: u64,
        /// Whether `at` counts from the start of the disk.
        absolute: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A run of zeroes in a structured reply.
    Hole {
        /// The request.
        cookie: u64,
        /// Offset on the disk.
        at: u64,
        /// Length in bytes.
        len: u32,
    },
    /// The request is answered; `error` is 0 or the first errno of its chunks.
    Done {
        /// The request.
        cookie: u64,
        /// NBD errno.
        error: u32,
    },
}

/// Whoever knows the outstanding requests.
pub trait Replies {
    /// The length of the data that follows a successful simple reply: 0 for a write.
    fn data_len(&self, cookie: u64) -> Result<u32, ProtocolError>;
    /// Takes one piece.
    fn event(&mut self, event: Event<'_>) -> Result<(), ProtocolError>;
}

/// Splits a byte stream into replies; holds back only incomplete headers, never data.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// A data run that has not fully arrived.
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    cookie: u64,
    at: u64,
    absolute: bool,
    left: u32,
    done: bool,
}

impl ReplyParser {
    /// Takes what it can from `bytes` and returns how many it used; call again with the rest in front
    /// of what arrives next.
    pub fn feed(&mut self, bytes: &[u8], replies: &mut impl Replies) -> Result<usize, ProtocolError> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            if let Some(run) = &mut self.run {
                let len = rest.len().min(run.left as usize);
                if len > 0 {
                    let (cookie, at, absolute) = (run.cookie, run.at, run.absolute);
                    replies.event(Event::Data { cookie, at, absolute, bytes: &rest[..len] })?;
                    used += len;
                    run.at += len as u64;
                    run.left -= len as u32;
                }
                if run.left > 0 {
                    return Ok(used);
                }
                let (cookie, done) = (run.cookie, run.done);
                self.run = None;
                if done {
                    replies.event(Event::Done { cookie, error: 0 })?;
                }
                continue;
            }
            let Some(header) = rest.first_chunk::<4>() else { return Ok(used) };
            let taken = match u32::from_be_bytes(*header) {
                NBD_SIMPLE_REPLY_MAGIC => self.simple(rest, replies)?,
                NBD_STRUCTURED_REPLY_MAGIC => self.chunk(rest, replies)?,
                got => return Err(ProtocolError::Magic { what: "the reply magic", got: u64::from(got) }),
            };
            if taken == 0 {
                return Ok(used);
            }
            used += taken;
        }
    }

    fn simple(&mut self, bytes: &[u8], replies: &mut impl Replies) -> Result<usize, ProtocolError> {
        let Some(header) = bytes.first_chunk::<16>() else { return Ok(0) };
        let error = be32(&header[4..8]);
        let cookie = be64(&header[8..16]);
        let left = replies.data_len(cookie)?;
        if error != 0 || left == 0 {
            replies.event(Event::Done { cookie, error })?;
        } else {
            self.run = Some(Run { cookie, at: 0, absolute: false, left, done: true });
        }
        Ok(16)
    }

    fn chunk(&mut self, bytes: &[u8], replies: &mut impl Replies) -> Result<usize, ProtocolError> {
        const HEADER: usize = 20;
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(0) };
        let flags = u16::from_be_bytes([header[4], header[5]]);
        let kind = u16::from_be_bytes([header[6], header[7]]);
        let cookie = be64(&header[8..16]);
        let len = be32(&header[16..20]) as usize;
        let done = flags & NBD_REPLY_FLAG_DONE != 0;
        let payload = &bytes[HEADER..];
        match kind {
            NBD_REPLY_TYPE_NONE if len == 0 => {
                if done {
                    replies.event(Event::Done { cookie, error: 0 })?;
                }
                Ok(HEADER)
            }
            NBD_REPLY_TYPE_OFFSET_DATA if len > 8 && len <= 8 + replies.data_len(cookie)? as usize => {
                let Some(at) = payload.first_chunk::<8>() else { return Ok(0) };
                let at = u64::from_be_bytes(*at);
                self.run = Some(Run { cookie, at, absolute: true, left: len as u32 - 8, done });
                Ok(HEADER + 8)
            }
            NBD_REPLY_TYPE_OFFSET_HOLE if len == 12 => {
                let Some(hole) = payload.first_chunk::<12>() else { return Ok(0) };
                replies.event(Event::Hole { cookie, at: be64(&hole[..8]), len: be32(&hole[8..]) })?;
                if done {
                    replies.event(Event::Done { cookie, error: 0 })?;
                }
                Ok(HEADER + 12)
            }
            kind if kind & NBD_REPLY_TYPE_FLAG_ERROR != 0
                && (6..=OPTION_REPLY_BYTES_MAX as usize).contains(&len) =>
            {
                if payload.len() < len {
                    return Ok(0);
                }
                replies.event(Event::Done { cookie, error: be32(&payload[..4]).max(1) })?;
                Ok(HEADER + len)
            }
            _ => Err(ProtocolError::Unexpected { what: "a chunk of unknown type or wrong length", cookie }),
        }
    }
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("callers pass 4 bytes"))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("callers pass 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log {
        data: Vec<u8>,
        done: Vec<(u64, u32)>,
        holes: Vec<(u64, u32)>,
    }

    impl Replies for Log {
        fn data_len(&self, cookie: u64) -> Result<u32, ProtocolError> {
            match cookie {
                1 => Ok(6),
                2 => Ok(0),
                cookie => Err(ProtocolError::Unexpected { what: "cookie", cookie }),
            }
        }

        fn event(&mut self, event: Event<'_>) -> Result<(), ProtocolError> {
            match event {
                Event::Data { bytes, .. } => self.data.extend_from_slice(bytes),
                Event::Hole { at, len, .. } => self.holes.push((at, len)),
                Event::Done { cookie, error } => self.done.push((cookie, error)),
            }
            Ok(())
        }
    }

    fn simple(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = NBD_SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&error.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Feeds `stream` in pieces of `piece` bytes, keeping the unused rest as a connection does.
    fn parse(stream: &[u8], piece: usize) -> Result<Log, ProtocolError> {
        let (mut parser, mut log, mut held) = (ReplyParser::default(), Log::default(), Vec::new());
        for bytes in stream.chunks(piece) {
            held.extend_from_slice(bytes);
            let used = parser.feed(&held, &mut log)?;
            held.drain(..used);
        }
        assert!(held.is_empty(), "{} bytes not parsed", held.len());
        Ok(log)
    }

    #[test]
    fn replies_in_pieces_of_any_size() {
        let mut stream = simple(1, 0, b"abcdef");
        stream.extend(simple(2, 0, b""));
        stream.extend(simple(1, 5, b""));
        stream.extend(chunk(0, NBD_REPLY_TYPE_OFFSET_DATA, 1, b"\0\0\0\0\0\0\x10\0xyz"));
        stream.extend(chunk(0, NBD_REPLY_TYPE_OFFSET_HOLE, 1, b"\0\0\0\0\0\0\x20\0\0\0\0\x07"));
        stream.extend(chunk(1, NBD_REPLY_TYPE_NONE, 1, b""));
        stream.extend(chunk(1, NBD_REPLY_TYPE_FLAG_ERROR | 1, 2, b"\0\0\0\x1c\0\0"));
        stream.extend(chunk(1, NBD_REPLY_TYPE_OFFSET_DATA, 1, b"\0\0\0\0\0\0\0\0!"));
        for piece in 1..stream.len() {
            let log = parse(&stream, piece).unwrap();
            assert_eq!(log.data, b"abcdefxyz!");
            assert_eq!(log.holes, [(0x2000, 7)]);
            assert_eq!(log.done, [(1, 0), (2, 0), (1, 5), (1, 0), (2, 0x1c), (1, 0)]);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let long = chunk(1, NBD_REPLY_TYPE_OFFSET_DATA, 1, b"\0\0\0\0\0\0\0\0sevenby");
        let cases = [
            b"HTTP/1.1".to_vec(),
            simple(9, 0, b""),
            long,
            chunk(1, 77, 1, b""),
            chunk(1, NBD_REPLY_TYPE_OFFSET_HOLE, 1, b"x"),
        ];
        for stream in cases {
            assert!(parse(&stream, stream.len()).is_err(), "{stream:?}");
        }
    }
}
