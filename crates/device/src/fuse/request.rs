//! What the kernel asks.

use super::Attributes;
use super::abi::*;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The kernel's name for it, which the answer carries back.
    pub(crate) unique: u64,
    /// What is asked.
    pub(crate) operation: Operation,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The first request.
    Init { major: u32, minor: u32, readahead_max: u32, flags: u32 },
    /// Attributes of the file.
    GetAttr,
    /// Change attributes.
    SetAttr(Change),
    /// Open with `open(2)` flags.
    Open { flags: i32 },
    /// Read; `direct`: not to fill pages of the kernel's cache.
    Read { handle: u64, offset: u64, length: u32, direct: bool },
    /// Write what follows [`Request::PAYLOAD`] in the buffer.
    Write { offset: u64, length: u32 },
    /// Make durable what was written.
    Fsync,
    /// `fallocate(2)`.
    Allocate { offset: u64, length: u64, mode: i32 },
    /// An open file is closed for good.
    Release { handle: u64 },
    /// `statfs(2)`.
    Statistics,
    /// The kernel forgets an inode; there is no answer.
    Forget,
    /// Anything else, not served.
    Other,
}

/// A change of attributes; of none that is not given, and never of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// An open file is named.
    pub(crate) open: bool,
    /// The new size.
    pub(crate) size: Option<u64>,
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Change {
    fn parse(at: &Fields<'_>) -> Option<Self> {
        let valid = at.u32(0)?;
        let number = |flag, offset| if valid & flag == 0 { None } else { at.u32(offset) };
        let size = if valid & FATTR_SIZE == 0 { None } else { Some(at.u64(16)?) };
        Some(Self {
            open: valid & FATTR_FH != 0,
            size,
            mode: number(FATTR_MODE, 68),
            uid: number(FATTR_UID, 76),
            gid: number(FATTR_GID, 80),
        })
    }

    /// Changes permissions and owners; not the size.
    pub(crate) fn apply(&self, file: &mut Attributes) {
        if let Some(mode) = self.mode {
            file.mode = file.mode & libc::S_IFMT | mode & !libc::S_IFMT;
        }
        file.uid = self.uid.unwrap_or(file.uid);
        file.gid = self.gid.unwrap_or(file.gid);
    }
}

impl Request {
    /// Where the payload of a WRITE starts in the buffer that it was received in.
    pub(crate) const PAYLOAD: usize = IN_HEADER + WRITE_IN;

    /// The request in `bytes`; none if it is shorter than its fields, which no kernel sends.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, arguments) = bytes.split_at_checked(IN_HEADER)?;
        let at = Fields(arguments);
        let operation = match Fields(header).u32(4)? {
            FUSE_INIT => Operation::Init {
                major: at.u32(0)?,
                minor: at.u32(4)?,
                readahead_max: at.u32(8).unwrap_or(0),
                flags: at.u32(12).unwrap_or(0),
            },
            FUSE_GETATTR => Operation::GetAttr,
            FUSE_SETATTR => Operation::SetAttr(Change::parse(&at)?),
            FUSE_OPEN => Operation::Open { flags: at.u32(0)? as i32 },
            FUSE_READ => Operation::Read {
                handle: at.u64(0)?,
                offset: at.u64(8)?,
                length: at.u32(16)?,
                direct: at.u32(20)? & FUSE_READ_LOCKOWNER != 0,
            },
            FUSE_WRITE => {
                let (offset, length) = (at.u64(8)?, at.u32(16)?);
                if arguments.len() - WRITE_IN.min(arguments.len()) < length as usize {
                    return None;
                }
                Operation::Write { offset, length }
            }
            FUSE_FSYNC => Operation::Fsync,
            FUSE_FALLOCATE => {
                Operation::Allocate { offset: at.u64(8)?, length: at.u64(16)?, mode: at.u32(24)? as i32 }
            }
            FUSE_RELEASE => Operation::Release { handle: at.u64(0)? },
            FUSE_STATFS => Operation::Statistics,
            FUSE_FORGET | FUSE_BATCH_FORGET => Operation::Forget,
            _ => Operation::Other,
        };
        Some(Self { unique: Fields(header).u64(8)?, operation })
    }
}

/// Numbers in the machine's byte order, at byte offsets.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; IN_HEADER];
        bytes[4..8].copy_from_slice(&opcode.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7u64.to_ne_bytes());
        bytes.extend_from_slice(arguments);
        bytes
    }

    #[test]
    fn a_write_is_no_longer_than_what_came_with_it() {
        let mut arguments = vec![0; WRITE_IN];
        arguments[8..16].copy_from_slice(&4096u64.to_ne_bytes());
        arguments[16..20].copy_from_slice(&3u32.to_ne_bytes());
        assert_eq!(Request::parse(&request(FUSE_WRITE, &arguments)), None);
        arguments.extend_from_slice(b"abc");
        let operation = Operation::Write { offset: 4096, length: 3 };
        assert_eq!(Request::parse(&request(FUSE_WRITE, &arguments)), Some(Request { unique: 7, operation }));
    }

    #[test]
    fn a_size_is_set_only_if_it_says_so() {
        let mut arguments = vec![0; 88];
        arguments[16..24].copy_from_slice(&512u64.to_ne_bytes());
        let parse =
            |arguments: &[u8]| match Request::parse(&request(FUSE_SETATTR, arguments)).unwrap().operation {
                Operation::SetAttr(change) => (change.size, change.open),
                other => panic!("{other:?}"),
            };
        assert_eq!(parse(&arguments), (None, false));
        arguments[0] = (FATTR_SIZE | FATTR_FH) as u8;
        assert_eq!(parse(&arguments), (Some(512), true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(opcode in 0..50u32, arguments: Vec<u8>, cut in 0..200usize) {
            let bytes = request(opcode, &arguments);
            let _ = Request::parse(&bytes[..cut.min(bytes.len())]);
        }
    }
}
