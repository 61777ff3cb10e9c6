//! What a node records.

use std::time::Duration;

use cards_trace::{Op, Options, RecordWriter, Request, open};
use proptest::prelude::*;

use crate::support::{content, drain, read, request, sample};

fn recorded(requests: &[Request]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), 1_700_000_000_000_000).unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    writer.finish().unwrap()
}

fn any_request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![
        Just(Op::Read),
        Just(Op::Write),
        Just(Op::Trim),
        Just(Op::Flush),
        Just(Op::Open),
        Just(Op::Close),
        any::<u32>().prop_map(|to| Op::Send { to }),
    ];
    let numbers = (0..1u64 << 40, 0..1u64 << 30, any::<u32>(), 0..1_000_000u32, any::<u16>());
    (numbers, op, 0..1u64 << 43, 1..1u32 << 30).prop_map(|(numbers, op, offset, bytes)| {
        let (time, compute, process, node, volume) = numbers;
        // A message has no place.
        let offset = if matches!(op, Op::Send { .. }) { 0 } else { offset };
        let (time, compute) = (Duration::from_nanos(time), Duration::from_nanos(compute));
        Request { time, compute, process, node, volume, op, offset, bytes }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(mut requests in proptest::collection::vec(any_request(), 1..40)) {
        requests.sort_by_key(|request| request.time);
        let (read, skipped) = content(&recorded(&requests), &Options::default()).unwrap();
        prop_assert_eq!(read, requests);
        prop_assert_eq!(skipped.total(), 0);
    }
}

#[test]
fn the_layout_stays_as_it_is() {
    assert_eq!(recorded(&read("same.cards")), std::fs::read(sample("same.cards")).unwrap());
}

#[test]
fn a_recording_that_is_cut_is_read_up_to_there() {
    let requests = [request(5, Op::Read, 0, 4096), request(9, Op::Write, 4096, 4096)];
    let bytes = recorded(&requests);
    for cut in 65..96 {
        let (read, skipped) = content(&bytes[..cut], &Options::default()).unwrap();
        assert_eq!(read, requests[..1]);
        assert_eq!(skipped.to_string(), "1 cut at the end of the recording");
    }
    let mut padded = bytes.clone();
    padded.resize(bytes.len() + 100, 0);
    let (read, skipped) = content(&padded, &Options::default()).unwrap();
    assert_eq!(read, requests);
    assert_eq!(skipped.get("never written (zeros)"), 3);
}

#[test]
fn a_cut_header_and_another_version_are_errors() {
    let bytes = recorded(&[request(0, Op::Read, 0, 1)]);
    let cut = content(&bytes[..20], &Options::default()).unwrap_err();
    assert!(cut.contains("20 bytes, not the 32 of a header"), "{cut}");
    let mut newer = bytes;
    newer[8] = 2;
    let error = content(&newer, &Options::default()).unwrap_err();
    assert!(error.contains("version 2 of the recording format; this program reads 1"), "{error}");
}

#[test]
fn times_count_from_the_start_of_the_recording() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), recorded(&[request(500, Op::Read, 0, 1)])).unwrap();
    let mut source = open(&file.path().to_string_lossy(), &Options::default()).unwrap();
    assert_eq!(source.started_us(), Some(1_700_000_000_000_000));
    assert_eq!(drain(&mut *source).unwrap()[0].time, Duration::from_micros(500));
}
