//! What an operation becomes in the session that was negotiated.

use cards_wire::nbd::Command;
use cards_wire::nbd::client::Ready;
use cards_wire::nbd::consts::*;

use super::link::Payload;
use crate::error::JobError;
use crate::exec::ZEROES;
use crate::job::{Extent, ExtentKind, Op, Outcome};

/// Longest range of a request without payload, in bytes; a multiple of every block size.
const RANGE_MAX: u64 = 1 << 30;

/// What to do next for a job.
pub(super) enum Plan {
    Answer(Result<Outcome, JobError>),
    Ask { command: Command, flags: u16, offset: u64, length: u32, payload: Payload },
}

/// The next request of `op`, of which `done` bytes are done, in a session.
pub(super) fn plan(ready: &Ready, op: &Op, done: u64) -> Plan {
    let can = |flag| ready.session.flags & flag != 0;
    let unsupported = Plan::Answer(Err(JobError::Os { errno: libc::EOPNOTSUPP }));
    let (offset, len) = op.range().unwrap_or((0, 0));
    let (at, rest) = (offset + done, len - done);
    if op.range().is_some() && rest == 0 {
        let empty = matches!(op, Op::Extents { .. });
        return Plan::Answer(Ok(if empty { Outcome::Extents(Vec::new()) } else { Outcome::Done }));
    }
    let minimum = u64::from(ready.minimum_block.max(1));
    if (at | rest) % minimum != 0 && !matches!(op, Op::Trim { .. } | Op::Extents { .. }) {
        return Plan::Answer(Err(JobError::Os { errno: libc::EINVAL }));
    }
    let ask = |command, flags, max: u64, payload: fn(&Op, u64, u64) -> Payload| {
        // Whole minimum blocks, and never more than 32 bits.
        let length = rest.min(max.min(RANGE_MAX) / minimum * minimum);
        let payload = payload(op, done, length);
        Plan::Ask { command, flags, offset: at, length: length as u32, payload }
    };
    let none = |_: &Op, _: u64, _: u64| Payload::None;
    let maximum = u64::from(ready.maximum_block).max(minimum);
    match *op {
        Op::Read { .. } => ask(Command::Read, 0, maximum, none),
        Op::Write { .. } => ask(Command::Write, 0, maximum, |op, done, length| match *op {
            Op::Write { buf, .. } => Payload::Bytes(buf.skip(done as usize).first(length as usize)),
            _ => Payload::None,
        }),
        Op::Flush if can(NBD_FLAG_SEND_FLUSH) => {
            Plan::Ask { command: Command::Flush, flags: 0, offset: 0, length: 0, payload: Payload::None }
        }
        Op::Flush => Plan::Answer(Ok(Outcome::Done)),
        Op::Zero { fast: true, .. } if !can(NBD_FLAG_SEND_WRITE_ZEROES) || !can(NBD_FLAG_SEND_FAST_ZERO) => {
            unsupported
        }
        Op::Zero { no_hole, fast, .. } if can(NBD_FLAG_SEND_WRITE_ZEROES) => {
            let flags = if no_hole { NBD_CMD_FLAG_NO_HOLE } else { 0 }
                | if fast { NBD_CMD_FLAG_FAST_ZERO } else { 0 };
            ask(Command::WriteZeroes, flags, RANGE_MAX, none)
        }
        Op::Zero { .. } => ask(Command::Write, 0, maximum.min(ZEROES.len() as u64), |_, _, length| {
            Payload::Zeroes(length as usize)
        }),
        // Advice: not worth an error where a server cannot, or only in whole blocks.
        Op::Trim { .. } if !can(NBD_FLAG_SEND_TRIM) || (at | rest) % minimum != 0 => {
            Plan::Answer(Ok(Outcome::Done))
        }
        Op::Trim { .. } => ask(Command::Trim, 0, RANGE_MAX, none),
        Op::Extents { .. } if ready.session.base_allocation.is_none() || (at | rest) % minimum != 0 => {
            let all = Extent { len, kind: ExtentKind::Data };
            Plan::Answer(Ok(Outcome::Extents(vec![all])))
        }
        Op::Extents { .. } => ask(Command::BlockStatus, 0, RANGE_MAX, none),
    }
}

#[cfg(test)]
mod tests {
    use cards_wire::nbd::Session;

    use super::*;

    fn ready(flags: u16, minimum_block: u32) -> Ready {
        let session = Session { size: 1 << 40, flags, structured_replies: false, base_allocation: None };
        Ready { session, minimum_block, preferred_block: 4096, maximum_block: 32 << 20 }
    }

    /// Command, offset, length.
    type Asked = (Command, u64, u32);

    /// The requests of `op`, and the answer after them.
    fn requests(ready: &Ready, op: Op) -> (Vec<Asked>, Result<Outcome, JobError>) {
        let (mut asked, mut done) = (Vec::new(), 0);
        loop {
            match plan(ready, &op, done) {
                Plan::Answer(result) => return (asked, result),
                Plan::Ask { command, offset, length, .. } => {
                    assert!(length > 0, "it must get on");
                    asked.push((command, offset, length));
                    done += u64::from(length);
                }
            }
        }
    }

    #[test]
    fn long_ranges_take_several_requests() {
        let trim = Op::Trim { offset: 512, len: (5 << 30) + 7 };
        let (asked, result) = requests(&ready(NBD_FLAG_SEND_TRIM, 1), trim);
        assert_eq!((asked.len(), result), (6, Ok(Outcome::Done)));
        assert_eq!(asked[0], (Command::Trim, 512, 1 << 30));
        assert_eq!(asked[5], (Command::Trim, 512 + (5 << 30), 7));
    }

    #[test]
    fn a_server_that_cannot_zero_is_sent_zeroes() {
        let zero = |fast| Op::Zero { offset: 4096, len: 300 << 10, no_hole: false, fast };
        let (asked, result) = requests(&ready(0, 4096), zero(false));
        let expected = [(4096, 128 << 10), (4096 + (128 << 10), 128 << 10), (4096 + (256 << 10), 44 << 10)];
        assert_eq!(asked, expected.map(|(offset, length)| (Command::Write, offset, length)));
        assert_eq!(result, Ok(Outcome::Done));
        let refused = Err(JobError::Os { errno: libc::EOPNOTSUPP });
        assert_eq!(requests(&ready(NBD_FLAG_SEND_WRITE_ZEROES, 1), zero(true)), (vec![], refused));
    }

    #[test]
    fn a_server_without_flush_trim_or_map_does_without() {
        let ready = ready(0, 1);
        assert_eq!(requests(&ready, Op::Flush), (vec![], Ok(Outcome::Done)));
        assert_eq!(requests(&ready, Op::Trim { offset: 0, len: 9 }), (vec![], Ok(Outcome::Done)));
        let all = vec![Extent { len: 9, kind: ExtentKind::Data }];
        assert_eq!(requests(&ready, Op::Extents { offset: 0, len: 9 }), (vec![], Ok(Outcome::Extents(all))));
    }

    #[test]
    fn what_a_server_wants_aligned_is_not_sent_otherwise() {
        let ready = ready(NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_TRIM, 512);
        let zero = Op::Zero { offset: 512, len: 100, no_hole: false, fast: false };
        assert_eq!(requests(&ready, zero), (vec![], Err(JobError::Os { errno: libc::EINVAL })));
        assert_eq!(requests(&ready, Op::Trim { offset: 1, len: 512 }), (vec![], Ok(Outcome::Done)));
    }
}
