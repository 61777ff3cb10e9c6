//! The bodies of answers.

use super::abi::*;

/// What the file looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Preferred length of I/O in bytes.
    pub(crate) block: u32,
    /// Type and permissions, as in `st_mode`.
    pub(crate) mode: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Time stamps, in seconds since 1970: when the device started. Nothing changes them, since pages are dropped
    /// when the daemon says so and not when a time stamp says so.
    pub(crate) time: u64,
}

/// What is settled by the INIT request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    /// Minor version of the kernel.
    pub(crate) minor: u32,
    /// The longest read-ahead that it wants, in bytes.
    pub(crate) readahead_max: u32,
    /// What it can do.
    pub(crate) flags: u32,
}

/// How long the kernel may keep attributes, in seconds: for good, as they never change.
const ATTRIBUTES_VALID_S: u64 = 1 << 30;

/// Background requests at the kernel's discretion: all. One that the kernel held back would keep its pages locked
/// without the device knowing, and a withdrawal of these pages would wait for it, perhaps for ever.
const MAX_BACKGROUND: u16 = u16::MAX;

/// The answer to INIT of a kernel of `major` version; none if it is too old.
pub(crate) fn init(major: u32, kernel: Init) -> Option<Vec<u8>> {
    if major < FUSE_KERNEL_VERSION || major == FUSE_KERNEL_VERSION && kernel.minor < MINOR_VERSION_MIN {
        return None;
    }
    let wanted =
        FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES | FUSE_EXPLICIT_INVAL_DATA;
    let mut out = Vec::with_capacity(64);
    for number in [
        FUSE_KERNEL_VERSION,
        kernel.minor.min(FUSE_KERNEL_MINOR_VERSION),
        kernel.readahead_max.max(IO_MAX),
        wanted & kernel.flags,
    ] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    out.extend_from_slice(&MAX_BACKGROUND.to_ne_bytes());
    out.extend_from_slice(&(MAX_BACKGROUND / 4 * 3).to_ne_bytes());
    out.extend_from_slice(&IO_MAX.to_ne_bytes());
    // Granularity of time stamps, in nanoseconds.
    out.extend_from_slice(&1u32.to_ne_bytes());
    out.extend_from_slice(&((IO_MAX >> 12) as u16).to_ne_bytes());
    out.resize(64, 0);
    Some(out)
}

/// The answer to GETATTR and SETATTR.
pub(crate) fn attributes(file: &Attributes) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    let sectors = file.size.div_ceil(512);
    for number in [ATTRIBUTES_VALID_S, 0, FUSE_ROOT_ID, file.size, sectors, file.time, file.time, file.time] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    for number in [0, 0, 0, file.mode, 1, file.uid, file.gid, 0, file.block, 0] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    out
}

/// The answer to OPEN.
pub(crate) fn open(handle: u64, flags: u32) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&handle.to_ne_bytes());
    out[8..12].copy_from_slice(&flags.to_ne_bytes());
    out
}

/// The answer to WRITE.
pub(crate) fn write(length: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&length.to_ne_bytes());
    out
}

/// The answer to STATFS.
pub(crate) fn statistics(file: &Attributes) -> Vec<u8> {
    let mut out = Vec::with_capacity(80);
    for number in [file.size / 4096, 0, 0, 1, 0] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    for number in [4096u32, 255, 4096] {
        out.extend_from_slice(&number.to_ne_bytes());
    }
    out.resize(80, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_lengths_of_the_protocol() {
        let file = Attributes { size: 1, block: 4096, mode: 0o100_600, uid: 0, gid: 0, time: 0 };
        assert_eq!(init(7, Init { minor: 31, readahead_max: 0, flags: 0 }).map(|out| out.len()), Some(64));
        assert_eq!(attributes(&file).len(), 104);
        assert_eq!(statistics(&file).len(), 80);
    }

    #[test]
    fn init_promises_nothing_that_the_kernel_cannot_do() {
        assert_eq!(init(7, Init { minor: 27, readahead_max: 0, flags: 0 }), None);
        let out = init(7, Init { minor: 31, readahead_max: 131_072, flags: FUSE_ASYNC_READ }).unwrap();
        assert_eq!(out[4..8], 31u32.to_ne_bytes());
        assert_eq!(out[12..16], FUSE_ASYNC_READ.to_ne_bytes());
        assert_eq!(out[16..18], u16::MAX.to_ne_bytes());
    }
}
