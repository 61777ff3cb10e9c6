//! Bodies of messages of the lock service: the sender's epoch, a number for the message, then its fields in
//! order.

mod fields;

use cards_locks::{Evidence, LockBody, LockMessage};

pub use fields::{MAX_PARTS, MAX_RANGES};

use super::FrameError;
use super::body::{Reader, Writer};

/// The longest body of a message of the lock service in bytes. What a node knows of another one's locks is
/// one message; memory grows with what arrives, not with what is announced.
pub const MAX_LOCKS_BODY: u32 = 16 << 20;

/// Homes and epochs of which a node tells in one message.
const MAX_EVIDENCE: usize = u16::MAX as usize;

const ACQUIRE: u8 = 0;
const RELEASE: u8 = 1;
const RENEW: u8 = 2;
const GRANTED: u8 = 3;
const REFUSED: u8 = 4;
const RELEASED: u8 = 5;
const RENEWED: u8 = 6;
const TAKEOVER: u8 = 7;
const COLLECTED: u8 = 8;
const REPLICATE: u8 = 9;
const REPLICATED: u8 = 10;

/// The bytes of a body.
pub(super) fn encode(message: &LockMessage) -> Result<Vec<u8>, FrameError> {
    let mut out = Writer::default();
    out.u64(message.epoch);
    match &message.body {
        LockBody::Acquire { region, key, ranges, try_only, beat } => {
            out.byte(ACQUIRE);
            out.region(*region);
            out.key(*key);
            out.ranges(ranges)?;
            out.flag(*try_only);
            out.beat(*beat);
        }
        LockBody::Release { region, key, beat } => {
            out.byte(RELEASE);
            out.region(*region);
            out.key(*key);
            out.beat(*beat);
        }
        LockBody::Renew { session, beat, held, wanted } => {
            out.byte(RENEW);
            out.session(*session);
            out.beat(*beat);
            out.parts(held)?;
            out.names(wanted)?;
        }
        LockBody::Granted { region, key, token, beat, lease } => {
            out.byte(GRANTED);
            out.region(*region);
            out.key(*key);
            out.token(*token);
            out.beat(*beat);
            out.duration(*lease)?;
        }
        LockBody::Refused { region, key, error } => {
            out.byte(REFUSED);
            out.region(*region);
            out.key(*key);
            out.error(error);
        }
        LockBody::Released { region, key } => {
            out.byte(RELEASED);
            out.region(*region);
            out.key(*key);
        }
        LockBody::Renewed { session, beat, lease, confirmed, lost } => {
            out.byte(RENEWED);
            out.session(*session);
            out.beat(*beat);
            out.duration(*lease)?;
            out.names(confirmed)?;
            out.names(lost)?;
        }
        LockBody::Takeover => out.byte(TAKEOVER),
        LockBody::Collected { evidence, copied } => {
            out.byte(COLLECTED);
            out.flag(*copied);
            out.length("list of evidence", evidence.len(), MAX_EVIDENCE)?;
            for Evidence { home, epoch, complete, parts } in evidence {
                out.u16(home.0);
                out.u64(*epoch);
                out.flag(*complete);
                out.parts(parts)?;
            }
        }
        LockBody::Replicate { first, changes } => {
            out.byte(REPLICATE);
            out.u64(*first);
            out.changes(changes)?;
        }
        LockBody::Replicated { through } => {
            out.byte(REPLICATED);
            out.u64(*through);
        }
    }
    match out.bytes.len() {
        length if length > MAX_LOCKS_BODY as usize => Err(FrameError::TooLong {
            what: "body of a lock message",
            length: length as u64,
            limit: MAX_LOCKS_BODY.into(),
        }),
        _ => Ok(out.bytes),
    }
}

/// The message in a body.
pub(super) fn decode(body: &[u8]) -> Result<LockMessage, FrameError> {
    let mut reader = Reader::new(body);
    let epoch = reader.u64("epoch")?;
    let body = match reader.byte("kind of lock message")? {
        ACQUIRE => LockBody::Acquire {
            region: reader.region()?,
            key: reader.key()?,
            ranges: reader.ranges()?,
            try_only: reader.flag("try-only flag")?,
            beat: reader.beat()?,
        },
        RELEASE => LockBody::Release { region: reader.region()?, key: reader.key()?, beat: reader.beat()? },
        RENEW => LockBody::Renew {
            session: reader.session()?,
            beat: reader.beat()?,
            held: reader.parts()?,
            wanted: reader.names()?,
        },
        GRANTED => LockBody::Granted {
            region: reader.region()?,
            key: reader.key()?,
            token: reader.token()?,
            beat: reader.beat()?,
            lease: reader.duration()?,
        },
        REFUSED => LockBody::Refused { region: reader.region()?, key: reader.key()?, error: reader.error()? },
        RELEASED => LockBody::Released { region: reader.region()?, key: reader.key()? },
        RENEWED => LockBody::Renewed {
            session: reader.session()?,
            beat: reader.beat()?,
            lease: reader.duration()?,
            confirmed: reader.names()?,
            lost: reader.names()?,
        },
        TAKEOVER => LockBody::Takeover,
        COLLECTED => {
            let copied = reader.flag("copied flag")?;
            let count = reader.length("list of evidence", MAX_EVIDENCE)?;
            let one = |_| {
                Ok(Evidence {
                    home: reader.node()?,
                    epoch: reader.u64("epoch of evidence")?,
                    complete: reader.flag("complete flag")?,
                    parts: reader.parts()?,
                })
            };
            LockBody::Collected { evidence: (0..count).map(one).collect::<Result<_, _>>()?, copied }
        }
        REPLICATE => {
            LockBody::Replicate { first: reader.u64("number of a change")?, changes: reader.changes()? }
        }
        REPLICATED => LockBody::Replicated { through: reader.u64("number of a change")? },
        kind => return Err(FrameError::Kind { what: "lock message", kind }),
    };
    reader.end()?;
    Ok(LockMessage { epoch, body })
}
