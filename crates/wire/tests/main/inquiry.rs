//! Questions and answers: each survives the wire, and no bytes do harm.

use cards_wire::peer::{
    FrameError, HEADER_SIZE, Header, Inquiry, MAX_ANSWER, MAX_QUESTION, VERSION, decode_header,
    encode_inquiry,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive;

fn inquiries() -> impl Strategy<Value = Inquiry> {
    let body = || vec(any::<u8>(), 0..300);
    prop_oneof![
        (any::<u64>(), body()).prop_map(|(id, body)| Inquiry::Question { id, body }),
        (any::<u64>(), body()).prop_map(|(id, body)| Inquiry::Answer { id, body: Ok(body) }),
        (any::<u64>(), body()).prop_map(|(id, body)| Inquiry::Answer { id, body: Err(body) }),
    ]
}

fn decode(frame: &[u8]) -> Result<Inquiry, FrameError> {
    let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
    match decode_header(header)? {
        Header::Inquiry(header) => {
            assert_eq!(header.length(), body.len());
            Ok(header.with(body.to_vec()))
        }
        other => panic!("{other:?}"),
    }
}

/// What a header of this kind and length is worth.
fn judge(kind: u8, detail: u8, length: u32) -> Result<Header, FrameError> {
    let mut header = [0; HEADER_SIZE];
    header[..8].copy_from_slice(&[b'C', b'A', b'R', b'D', VERSION, kind, 0, detail]);
    header[8..12].copy_from_slice(&length.to_le_bytes());
    decode_header(&header)
}

proptest! {
    #[test]
    fn every_inquiry_survives_and_has_one_encoding(inquiry in inquiries(), noise: [(u8, u8); 2]) {
        let mut frame = encode_inquiry(&inquiry).unwrap();
        prop_assert_eq!(decode(&frame), Ok(inquiry));
        for (at, byte) in noise {
            frame[usize::from(at) % HEADER_SIZE] = byte;
        }
        prop_assert!(drive::peer(&frame) <= 1);
    }
}

#[test]
fn a_question_is_byte_exact() {
    let question = Inquiry::Question { id: 0x0807_0605_0403_0201, body: b"{}".to_vec() };
    let mut expected = [0; HEADER_SIZE + 2];
    expected[..9].copy_from_slice(&[b'C', b'A', b'R', b'D', VERSION, 3, 0, 0, 2]);
    expected[32..40].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    expected[HEADER_SIZE..].copy_from_slice(b"{}");
    assert_eq!(encode_inquiry(&question).unwrap(), expected);
}

#[test]
fn lengths_are_judged_before_anything_follows() {
    assert!(judge(3, 0, MAX_QUESTION).is_ok() && judge(4, 0, MAX_ANSWER).is_ok());
    assert!(matches!(judge(3, 0, MAX_QUESTION + 1), Err(FrameError::TooLong { what: "question", .. })));
    assert!(matches!(judge(4, 1, MAX_ANSWER + 1), Err(FrameError::TooLong { what: "answer", .. })));
    let body = vec![0; MAX_QUESTION as usize + 1];
    let long = encode_inquiry(&Inquiry::Question { id: 1, body: body.clone() });
    assert!(matches!(long, Err(FrameError::TooLong { .. })));
    assert!(encode_inquiry(&Inquiry::Answer { id: 1, body: Ok(body) }).is_ok());
}

#[test]
fn what_an_inquiry_does_not_use_is_zero() {
    assert!(matches!(judge(3, 1, 0), Err(FrameError::Field { .. })));
    assert!(matches!(judge(4, 2, 0), Err(FrameError::Field { .. })));
    let mut frame = encode_inquiry(&Inquiry::Answer { id: 1, body: Ok(vec![]) }).unwrap();
    frame[14] = 1;
    assert!(matches!(decode(&frame), Err(FrameError::Field { .. })));
}
