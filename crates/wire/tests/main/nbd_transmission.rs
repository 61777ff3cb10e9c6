//! Requests and replies on the server's hot path.

use cards_wire::nbd::consts::NBD_FLAG_READ_ONLY;
use cards_wire::nbd::{Command, Errno, Request, Session, reply, validate};
use proptest::prelude::*;

use crate::allocations::measure;
use crate::drive;

#[test]
fn parsing_judging_and_answering_allocates_nothing() {
    let session = Session {
        size: 1 << 30,
        flags: !NBD_FLAG_READ_ONLY,
        structured_replies: true,
        base_allocation: Some(1),
    };
    let read =
        |cookie| Request { flags: 0, command: Command::Read, cookie, offset: cookie << 12, length: 4096 };
    let received: Vec<u8> = (0..32).flat_map(|cookie| read(cookie).encode()).collect();
    let mut out = [0; 256];
    let (served, _, allocations) = measure(|| {
        let mut input = received.as_slice();
        let mut served = 0;
        while let Ok(Some(request)) = Request::take(&mut input) {
            validate(&request, &session).unwrap();
            let header = reply::offset_data(request.cookie, request.offset, request.length, true);
            out[..header.len()].copy_from_slice(&header);
            reply::error(&mut out, request.cookie, Errno::Io, "words");
            served += 1;
        }
        served
    });
    assert_eq!((served, allocations), (32, 0));
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused_without_memory(bytes: Vec<u8>) {
        let (_, _, allocations) = measure(|| drive::requests(&bytes));
        prop_assert_eq!(allocations, 0);
    }
}
