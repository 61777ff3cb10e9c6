//! The one place that decides whether a request may be served.

use super::consts::*;
use super::{Command, Errno, MAX_PAYLOAD, Request, Session};

/// Checks one request against what the handshake settled. What passes lies within the export, is allowed,
/// and asks for nothing that was not announced; what fails is answered with the error (after skipping the
/// payload of a WRITE) and the connection lives on. DISC always passes.
///
/// The rules, after the protocol document:
/// - unknown commands, flags that do not belong to the command, and commands whose transmission flag was
///   not announced: `EINVAL`. FUA is valid on every command where it was announced.
/// - anything that would change a read-only export: `EPERM`.
/// - past the end, with the sum checked against overflow: `ENOSPC` for WRITE and WRITE_ZEROES, else `EINVAL`.
/// - READ longer than [`MAX_PAYLOAD`]: `EOVERFLOW` if it must not be fragmented, else `EINVAL`. Commands
///   without payload (TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS) may name up to 4 GiB - 1.
/// - a range of no bytes does nothing and passes, but has no extent to report: BLOCK_STATUS gives `EINVAL`.
/// - FLUSH has no range: `EINVAL` unless offset and length are 0.
///
/// # Errors
/// The error to reply with.
pub fn validate(request: &Request, session: &Session) -> Result<(), Errno> {
    if request.command == Command::Disc {
        return Ok(());
    }
    if request.flags & !valid_flags(request.command, session) != 0 || !announced(request.command, session) {
        return Err(Errno::Inval);
    }
    if request.command.writes() && session.read_only() {
        return Err(Errno::Perm);
    }
    if request.command == Command::Flush {
        return if request.offset == 0 && request.length == 0 { Ok(()) } else { Err(Errno::Inval) };
    }
    let end = request.offset.checked_add(u64::from(request.length));
    if end.is_none_or(|end| end > session.size) {
        return Err(match request.command {
            Command::Write | Command::WriteZeroes => Errno::NoSpc,
            _ => Errno::Inval,
        });
    }
    match request.command {
        Command::Read if request.length > MAX_PAYLOAD => {
            Err(if request.has(NBD_CMD_FLAG_DF) { Errno::Overflow } else { Errno::Inval })
        }
        Command::BlockStatus if request.length == 0 => Err(Errno::Inval),
        _ => Ok(()),
    }
}

/// The flags `command` may carry as negotiated.
fn valid_flags(command: Command, session: &Session) -> u16 {
    let when = |transmission: u16, flag: u16| if session.flags & transmission != 0 { flag } else { 0 };
    let own = match command {
        Command::Read => when(NBD_FLAG_SEND_DF, NBD_CMD_FLAG_DF),
        Command::WriteZeroes => NBD_CMD_FLAG_NO_HOLE | when(NBD_FLAG_SEND_FAST_ZERO, NBD_CMD_FLAG_FAST_ZERO),
        Command::BlockStatus => NBD_CMD_FLAG_REQ_ONE,
        Command::Write
        | Command::Disc
        | Command::Flush
        | Command::Trim
        | Command::Cache
        | Command::Other(_) => 0,
    };
    own | when(NBD_FLAG_SEND_FUA, NBD_CMD_FLAG_FUA)
}

/// Whether the client was told that it may send `command`. What writes is let through to a read-only
/// export's `EPERM`, the answer the protocol demands, since such exports announce no writing command.
fn announced(command: Command, session: &Session) -> bool {
    let flag = match command {
        Command::Read | Command::Write | Command::Disc => return true,
        Command::BlockStatus => return session.base_allocation.is_some(),
        Command::Other(_) => return false,
        Command::Trim | Command::WriteZeroes if session.read_only() => return true,
        Command::Flush => NBD_FLAG_SEND_FLUSH,
        Command::Trim => NBD_FLAG_SEND_TRIM,
        Command::Cache => NBD_FLAG_SEND_CACHE,
        Command::WriteZeroes => NBD_FLAG_SEND_WRITE_ZEROES,
    };
    session.flags & flag != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 20;

    fn session() -> Session {
        Session { size: SIZE, flags: !NBD_FLAG_READ_ONLY, structured_replies: true, base_allocation: Some(1) }
    }

    fn judge(command: Command, flags: u16, offset: u64, length: u32) -> Result<(), Errno> {
        validate(&Request { flags, command, cookie: 0, offset, length }, &session())
    }

    #[test]
    fn past_the_end_is_enospc_for_writes_and_einval_for_the_rest() {
        assert_eq!(judge(Command::Write, 0, SIZE, 1), Err(Errno::NoSpc));
        assert_eq!(judge(Command::WriteZeroes, 0, SIZE - 1, 2), Err(Errno::NoSpc));
        assert_eq!(judge(Command::Read, 0, SIZE, 1), Err(Errno::Inval));
        assert_eq!(judge(Command::Trim, 0, SIZE, 1), Err(Errno::Inval));
        assert_eq!(judge(Command::Read, 0, SIZE - 1, 1), Ok(()));
    }

    #[test]
    fn a_range_that_wraps_is_past_the_end() {
        assert_eq!(judge(Command::Read, 0, u64::MAX, 2), Err(Errno::Inval));
        assert_eq!(judge(Command::Write, 0, u64::MAX - 10, 11), Err(Errno::NoSpc));
        assert_eq!(judge(Command::BlockStatus, 0, 1 << 63, 512), Err(Errno::Inval));
    }

    #[test]
    fn a_read_only_export_refuses_every_change() {
        let session = Session { flags: NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY, ..session() };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            let request = Request { flags: 0, command, cookie: 0, offset: 0, length: 512 };
            assert_eq!(validate(&request, &session), Err(Errno::Perm));
        }
    }

    #[test]
    fn flags_belong_to_their_command() {
        assert_eq!(judge(Command::Read, NBD_CMD_FLAG_DF, 0, 512), Ok(()));
        assert_eq!(judge(Command::Write, NBD_CMD_FLAG_DF, 0, 512), Err(Errno::Inval));
        assert_eq!(judge(Command::Read, NBD_CMD_FLAG_FUA, 0, 512), Ok(()));
        assert_eq!(judge(Command::Read, 1 << 15, 0, 512), Err(Errno::Inval));
        let without = Session { flags: NBD_FLAG_HAS_FLAGS, ..session() };
        let fua =
            Request { flags: NBD_CMD_FLAG_FUA, command: Command::Write, cookie: 0, offset: 0, length: 1 };
        assert_eq!(validate(&fua, &without), Err(Errno::Inval));
    }

    #[test]
    fn block_status_needs_a_context_and_a_length() {
        assert_eq!(judge(Command::BlockStatus, NBD_CMD_FLAG_REQ_ONE, 0, 512), Ok(()));
        assert_eq!(judge(Command::BlockStatus, 0, 0, 0), Err(Errno::Inval));
        let none = Session { base_allocation: None, ..session() };
        let ask = Request { flags: 0, command: Command::BlockStatus, cookie: 0, offset: 0, length: 1 };
        assert_eq!(validate(&ask, &none), Err(Errno::Inval));
    }

    #[test]
    fn long_reads_are_refused_and_long_zeroes_are_not() {
        let large = Session { size: u64::MAX, ..session() };
        let ask = |command, flags| {
            validate(&Request { flags, command, cookie: 0, offset: 1 << 32, length: u32::MAX }, &large)
        };
        assert_eq!(ask(Command::Read, 0), Err(Errno::Inval));
        assert_eq!(ask(Command::Read, NBD_CMD_FLAG_DF), Err(Errno::Overflow));
        assert_eq!(ask(Command::WriteZeroes, NBD_CMD_FLAG_FAST_ZERO), Ok(()));
        assert_eq!(ask(Command::BlockStatus, 0), Ok(()));
    }

    #[test]
    fn unknown_commands_are_einval() {
        assert_eq!(judge(Command::Other(99), 0, 0, 0), Err(Errno::Inval));
    }

    proptest! {
        #[test]
        fn what_passes_lies_within_the_export(code in 0..9u16, flags: u16, offset: u64, length: u32, size: u64) {
            let session = Session { size, ..session() };
            let request = Request { flags, command: Command::from_code(code), cookie: 0, offset, length };
            if validate(&request, &session).is_ok() && request.command != Command::Disc {
                prop_assert!(u128::from(offset) + u128::from(length) <= u128::from(size));
            }
        }
    }
}
