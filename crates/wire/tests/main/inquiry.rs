//! Questions and answers: each survives the wire, and no bytes do harm.

use cards_wire::peer::{
    Body, FrameError, HEADER_SIZE, Header, Inquiry, MAX_ANSWER, MAX_QUESTION, VERSION, decode_header,
    encode_inquiry, seal,
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

/// Of a frame that is not sealed.
fn decode(frame: &[u8]) -> Result<Inquiry, FrameError> {
    let mut frame = frame.to_vec();
    seal(&mut frame, VERSION);
    let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
    let Header::Body(header) = decode_header(header, VERSION)? else { panic!("{header:?}") };
    assert_eq!(header.length(), body.len());
    match header.decode(body.to_vec())? {
        Body::Inquiry(inquiry) => Ok(inquiry),
        other => panic!("{other:?}"),
    }
}

/// What a header of this kind and length is worth.
fn judge(kind: u8, detail: u8, length: u32) -> Result<Header, FrameError> {
    let mut header = vec![0; HEADER_SIZE];
    (header[5], header[7]) = (kind, detail);
    header[8..12].copy_from_slice(&length.to_le_bytes());
    seal(&mut header, VERSION);
    decode_header(header.first_chunk().unwrap(), VERSION)
}

proptest! {
    #[test]
    fn every_inquiry_survives_and_has_one_encoding(inquiry in inquiries(), noise: [(u8, u8); 2]) {
        let mut frame = encode_inquiry(&inquiry).unwrap();
        prop_assert_eq!(decode(&frame), Ok(inquiry));
        for (at, byte) in noise {
            frame[usize::from(at) % HEADER_SIZE] = byte;
        }
        seal(&mut frame, VERSION);
        prop_assert!(drive::peer(&frame) <= 1);
    }
}

#[test]
fn a_question_is_byte_exact() {
    let question = Inquiry::Question { id: 0x0807_0605_0403_0201, body: b"{}".to_vec() };
    let mut expected = [0; HEADER_SIZE + 2];
    expected[..9].copy_from_slice(&[b'C', b'A', b'R', b'D', 11, 3, 0, 0, 2]);
    expected[32..40].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    expected[HEADER_SIZE..].copy_from_slice(b"{}");
    let mut frame = encode_inquiry(&question).unwrap();
    seal(&mut frame, 11);
    assert_eq!(frame, expected);
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
