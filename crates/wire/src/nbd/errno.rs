//! The errors a reply can carry.

use std::fmt;

use super::consts::*;

/// An error number of the protocol. These are fixed by the protocol, not the platform's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Errno {
    /// The export is read-only, or the client may not do this.
    Perm,
    /// The disk, or every way to it, failed.
    Io,
    /// No memory now; worth a retry.
    NoMem,
    /// The request itself is wrong. Also what an unknown number is read as, as the protocol demands.
    Inval,
    /// The disk is full, or a write reaches past the end.
    NoSpc,
    /// A read too long to send unfragmented.
    Overflow,
    /// Not served here, e.g. a fast zero that would be slow.
    NotSup,
    /// The server is going down.
    Shutdown,
}

impl Errno {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        match self {
            Errno::Perm => NBD_EPERM,
            Errno::Io => NBD_EIO,
            Errno::NoMem => NBD_ENOMEM,
            Errno::Inval => NBD_EINVAL,
            Errno::NoSpc => NBD_ENOSPC,
            Errno::Overflow => NBD_EOVERFLOW,
            Errno::NotSup => NBD_ENOTSUP,
            Errno::Shutdown => NBD_ESHUTDOWN,
        }
    }

    /// The error behind a number other than 0.
    pub fn from_code(code: u32) -> Self {
        match code {
            NBD_EPERM => Errno::Perm,
            NBD_EIO => Errno::Io,
            NBD_ENOMEM => Errno::NoMem,
            NBD_ENOSPC => Errno::NoSpc,
            NBD_EOVERFLOW => Errno::Overflow,
            NBD_ENOTSUP => Errno::NotSup,
            NBD_ESHUTDOWN => Errno::Shutdown,
            _ => Errno::Inval,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Errno::Perm => "operation not permitted",
            Errno::Io => "input/output error",
            Errno::NoMem => "out of memory",
            Errno::Inval => "invalid argument",
            Errno::NoSpc => "no space left",
            Errno::Overflow => "value too large",
            Errno::NotSup => "operation not supported",
            Errno::Shutdown => "server is shutting down",
        })
    }
}
