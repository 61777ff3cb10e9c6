//! Bodies of control messages: a number for the message, then its fields in order.

use std::sync::Arc;

use cards_core::{Access, Allowed, ControlMessage, Extent, Generation, IoError, NodeId, PgId, Refusal};

use super::body::{Reader, Writer, error_code, result};
use super::versions::{ALLOWED, RANKS};
use super::{FrameError, MAX_POLICY};

const SEEN: u8 = 0;
const ATTACH: u8 = 1;
const ATTACHED: u8 = 2;
const REFUSED: u8 = 3;
const RENEW: u8 = 4;
const RENEWED: u8 = 5;
const EXPIRED: u8 = 6;
const DETACH: u8 = 7;
const EXTENTS: u8 = 8;
const EXTENTS_DONE: u8 = 9;

/// The bytes of a body.
pub(super) fn encode(message: &ControlMessage, version: u8) -> Result<Vec<u8>, FrameError> {
    let mut out = Writer::default();
    match message {
        ControlMessage::Seen { terms } => {
            out.byte(SEEN);
            out.length("list of terms", terms.len(), ControlMessage::MAX_CARDS)?;
            for (volume, epoch) in terms {
                out.volume(*volume);
                out.u64(*epoch);
            }
        }
        ControlMessage::Attach { request, volume, policy, access, takeover, succeeds, rank } => {
            out.byte(ATTACH);
            out.u64(request.0);
            out.volume(*volume);
            out.string("policy", policy, MAX_POLICY)?;
            out.byte(access_code(*access));
            out.flag(*takeover);
            out.flag(succeeds.is_some());
            if let Some(card) = succeeds {
                out.u64(card.0);
            }
            if version >= RANKS {
                out.u64(rank.0);
            }
        }
        ControlMessage::Attached {
            request,
            volume,
            generation,
            lease_us,
            repeat_from,
            alone_since,
            allowed,
            revision,
        } => {
            out.byte(ATTACHED);
            out.u64(request.0);
            out.volume(*volume);
            out.u64(generation.0);
            out.u32(*lease_us);
            out.u64(repeat_from.0);
            out.u64(alone_since.0);
            if version >= ALLOWED {
                out.u64(*revision);
                encode_allowed(&mut out, allowed)?;
            }
        }
        ControlMessage::Refused { request, volume, refusal } => {
            out.byte(REFUSED);
            out.u64(request.0);
            out.volume(*volume);
            encode_refusal(&mut out, refusal)?;
        }
        ControlMessage::Renew { request, cards } => {
            out.byte(RENEW);
            out.u64(request.0);
            encode_cards(&mut out, cards)?;
        }
        ControlMessage::Renewed { request, expired } => {
            out.byte(RENEWED);
            out.u64(request.0);
            encode_cards(&mut out, expired)?;
        }
        ControlMessage::Expired { volume, generation } => {
            out.byte(EXPIRED);
            out.volume(*volume);
            out.u64(generation.0);
        }
        ControlMessage::Detach { volume, generation } => {
            out.byte(DETACH);
            out.volume(*volume);
            out.u64(generation.0);
        }
        ControlMessage::Extents { request, volume, offset, length } => {
            out.byte(EXTENTS);
            out.u64(request.0);
            out.volume(*volume);
            out.u64(*offset);
            out.u32(*length);
        }
        ControlMessage::ExtentsDone { request, result } => {
            out.byte(EXTENTS_DONE);
            out.u64(request.0);
            encode_extents(&mut out, result)?;
        }
    }
    Ok(out.bytes)
}

/// The message in a body.
pub(super) fn decode(version: u8, body: &[u8]) -> Result<ControlMessage, FrameError> {
    let mut reader = Reader::new(body);
    let message = match reader.byte("kind of control message")? {
        SEEN => {
            let count = reader.length("list of terms", ControlMessage::MAX_CARDS)?;
            let terms = (0..count).map(|_| Ok((reader.volume()?, reader.u64("epoch")?)));
            ControlMessage::Seen { terms: terms.collect::<Result<_, FrameError>>()? }
        }
        ATTACH => ControlMessage::Attach {
            request: reader.request()?,
            volume: reader.volume()?,
            policy: reader.string("policy", MAX_POLICY)?,
            access: decode_access(&mut reader)?,
            takeover: reader.flag("takeover")?,
            succeeds: match reader.flag("succeeds")? {
                true => Some(reader.generation()?),
                false => None,
            },
            rank: if version >= RANKS { reader.generation()? } else { Generation::default() },
        },
        ATTACHED => ControlMessage::Attached {
            request: reader.request()?,
            volume: reader.volume()?,
            generation: reader.generation()?,
            lease_us: reader.u32("lease")?,
            repeat_from: reader.generation()?,
            alone_since: reader.generation()?,
            revision: if version >= ALLOWED { reader.u64("revision of a list")? } else { 0 },
            allowed: if version >= ALLOWED { decode_allowed(&mut reader)? } else { Allowed::All },
        },
        REFUSED => ControlMessage::Refused {
            request: reader.request()?,
            volume: reader.volume()?,
            refusal: decode_refusal(&mut reader)?,
        },
        RENEW => ControlMessage::Renew { request: reader.request()?, cards: decode_cards(&mut reader)? },
        RENEWED => {
            ControlMessage::Renewed { request: reader.request()?, expired: decode_cards(&mut reader)? }
        }
        EXPIRED => ControlMessage::Expired { volume: reader.volume()?, generation: reader.generation()? },
        DETACH => ControlMessage::Detach { volume: reader.volume()?, generation: reader.generation()? },
        EXTENTS => ControlMessage::Extents {
            request: reader.request()?,
            volume: reader.volume()?,
            offset: reader.u64("offset")?,
            length: reader.u32("length")?,
        },
        EXTENTS_DONE => {
            ControlMessage::ExtentsDone { request: reader.request()?, result: decode_extents(&mut reader)? }
        }
        kind => return Err(FrameError::Kind { what: "control message", kind }),
    };
    reader.end()?;
    Ok(message)
}

fn access_code(access: Access) -> u8 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Exclusive => 2,
    }
}

fn decode_access(reader: &mut Reader<'_>) -> Result<Access, FrameError> {
    match reader.byte("access")? {
        0 => Ok(Access::Read),
        1 => Ok(Access::Write),
        2 => Ok(Access::Exclusive),
        value => Err(FrameError::Field { what: "access", value: value.into() }),
    }
}

fn encode_allowed(out: &mut Writer, allowed: &Allowed) -> Result<(), FrameError> {
    let Allowed::Only(nodes) = allowed else {
        out.flag(false);
        return Ok(());
    };
    out.flag(true);
    out.length("list of nodes", nodes.len(), NodeId::MAX_NODES)?;
    nodes.iter().for_each(|node| out.u16(node.0));
    Ok(())
}

fn decode_allowed(reader: &mut Reader<'_>) -> Result<Allowed, FrameError> {
    if !reader.flag("limit to some nodes")? {
        return Ok(Allowed::All);
    }
    let count = reader.length("list of nodes", NodeId::MAX_NODES)?;
    let nodes: Vec<NodeId> = (0..count).map(|_| reader.node()).collect::<Result<_, _>>()?;
    // In order, each once: every message has one encoding.
    match nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(FrameError::Field { what: "node in a list", value: pair[1].0.into() }),
        None => Ok(Allowed::Only(Arc::new(nodes.into_iter().collect()))),
    }
}

fn encode_refusal(out: &mut Writer, refusal: &Refusal) -> Result<(), FrameError> {
    match refusal {
        Refusal::NoSuchVolume => out.byte(0),
        Refusal::PolicyIs(policy) => {
            out.byte(1);
            out.string("policy", policy, MAX_POLICY)?;
        }
        Refusal::ReadOnly => out.byte(2),
        Refusal::Exclusive(node) => {
            out.byte(3);
            out.u16(node.0);
        }
        Refusal::NoAnswer => out.byte(4),
        Refusal::InUse(node) => {
            out.byte(5);
            out.u16(node.0);
        }
        Refusal::Overtaken(Some(node)) => {
            out.byte(7);
            out.u16(node.0);
        }
        Refusal::Overtaken(None) => out.byte(8),
        Refusal::NotAllowed(None) => out.byte(9),
        Refusal::NotAllowed(Some(access)) => {
            out.byte(10);
            out.byte(access_code(*access));
        }
        Refusal::Attached(access) => {
            out.byte(6);
            out.byte(access_code(*access));
        }
    }
    Ok(())
}

fn decode_refusal(reader: &mut Reader<'_>) -> Result<Refusal, FrameError> {
    match reader.byte("refusal")? {
        0 => Ok(Refusal::NoSuchVolume),
        1 => reader.string("policy", MAX_POLICY).map(Refusal::PolicyIs),
        2 => Ok(Refusal::ReadOnly),
        3 => reader.node().map(Refusal::Exclusive),
        4 => Ok(Refusal::NoAnswer),
        5 => reader.node().map(Refusal::InUse),
        6 => decode_access(reader).map(Refusal::Attached),
        7 => reader.node().map(|node| Refusal::Overtaken(Some(node))),
        8 => Ok(Refusal::Overtaken(None)),
        9 => Ok(Refusal::NotAllowed(None)),
        10 => decode_access(reader).map(|access| Refusal::NotAllowed(Some(access))),
        value => Err(FrameError::Field { what: "refusal", value: value.into() }),
    }
}

fn encode_cards(out: &mut Writer, cards: &[(PgId, Generation)]) -> Result<(), FrameError> {
    out.length("list of cards", cards.len(), ControlMessage::MAX_CARDS)?;
    for (volume, generation) in cards {
        out.volume(*volume);
        out.u64(generation.0);
    }
    Ok(())
}

fn decode_cards(reader: &mut Reader<'_>) -> Result<Vec<(PgId, Generation)>, FrameError> {
    let count = reader.length("list of cards", ControlMessage::MAX_CARDS)?;
    (0..count).map(|_| Ok((reader.volume()?, reader.generation()?))).collect()
}

fn encode_extents(out: &mut Writer, extents: &Result<Vec<Extent>, IoError>) -> Result<(), FrameError> {
    match extents {
        Err(error) => out.byte(error_code(*error)),
        Ok(extents) => {
            out.byte(0);
            out.length("list of extents", extents.len(), ControlMessage::MAX_EXTENTS)?;
            for extent in extents {
                out.u32(extent.length);
                out.flag(extent.hole);
            }
        }
    }
    Ok(())
}

fn decode_extents(reader: &mut Reader<'_>) -> Result<Result<Vec<Extent>, IoError>, FrameError> {
    if let Err(error) = result(reader.byte("result")?)? {
        return Ok(Err(error));
    }
    let count = reader.length("list of extents", ControlMessage::MAX_EXTENTS)?;
    let extent = |_| Ok(Extent { length: reader.u32("extent")?, hole: reader.flag("hole")? });
    (0..count).map(extent).collect::<Result<_, _>>().map(Ok)
}
