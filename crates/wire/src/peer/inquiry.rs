//! Questions between nodes and their answers: a number that pairs them, then bytes that this protocol does not look
//! into (JSON objects of the control plane).

use super::header;
use super::{FrameError, HEADER_SIZE};

/// The longest question in bytes.
pub const MAX_QUESTION: u32 = 64 << 10;

/// The longest answer in bytes, no longer than a block: blocks wait behind it no longer than behind one of theirs.
pub const MAX_ANSWER: u32 = 1 << 20;

/// Details of an answer.
const ANSWERED: u8 = 0;
const REFUSED: u8 = 1;

/// A question or an answer. Its number is chosen by the one who asks and means nothing to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// The sender wants to know something.
    Question {
        /// Which question it is.
        id: u64,
        /// The question, at most [`MAX_QUESTION`] bytes.
        body: Vec<u8>,
    },
    /// The sender has been asked.
    Answer {
        /// Which question it answers.
        id: u64,
        /// The answer, or why there is none; at most [`MAX_ANSWER`] bytes.
        body: Result<Vec<u8>, Vec<u8>>,
    },
}

/// The header of a question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InquiryHeader {
    part: Part,
    id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Question,
    Answer,
    Refusal,
}

impl InquiryHeader {
    /// Refuses what is no inquiry, and a length that is over the limit.
    pub(super) fn new(kind: u8, detail: u8, id: u64, length: u32) -> Result<Self, FrameError> {
        let (part, what, limit) = match (kind, detail) {
            (header::KIND_QUESTION, 0) => (Part::Question, "question", MAX_QUESTION),
            (header::KIND_ANSWER, ANSWERED) => (Part::Answer, "answer", MAX_ANSWER),
            (header::KIND_ANSWER, REFUSED) => (Part::Refusal, "answer", MAX_ANSWER),
            _ => return Err(FrameError::Field { what: "detail of an inquiry", value: detail.into() }),
        };
        match length > limit {
            true => Err(FrameError::TooLong { what, length: length.into(), limit: limit.into() }),
            false => Ok(Self { part, id }),
        }
    }

    /// The message with this body, which is not looked into.
    pub(super) fn with(&self, body: Vec<u8>) -> Inquiry {
        let id = self.id;
        match self.part {
            Part::Question => Inquiry::Question { id, body },
            Part::Answer => Inquiry::Answer { id, body: Ok(body) },
            Part::Refusal => Inquiry::Answer { id, body: Err(body) },
        }
    }
}

/// The bytes of a frame, header and body, to be [sealed](super::seal).
///
/// # Errors
/// [`FrameError::TooLong`]: the body is over its limit.
pub fn encode_inquiry(inquiry: &Inquiry) -> Result<Vec<u8>, FrameError> {
    let (kind, detail, id, body) = match inquiry {
        Inquiry::Question { id, body } => (header::KIND_QUESTION, 0, *id, body),
        Inquiry::Answer { id, body: Ok(body) } => (header::KIND_ANSWER, ANSWERED, *id, body),
        Inquiry::Answer { id, body: Err(body) } => (header::KIND_ANSWER, REFUSED, *id, body),
    };
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    InquiryHeader::new(kind, detail, id, length)?;
    let mut frame = Vec::with_capacity(HEADER_SIZE + body.len());
    frame.extend_from_slice(&header::inquiry(kind, detail, id, length));
    frame.extend_from_slice(body);
    Ok(frame)
}
