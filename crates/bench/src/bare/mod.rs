//! The practical floor: servers that do nothing but move bytes, in as few system calls as possible.
//!
//! [`disk`] is an NBD server over memory that parses everything one `read` brought and answers it with one
//! `writev` straight from that memory. [`pingpong`] is the request/response a remote fetch is measured
//! against: 64 bytes there, one block back, in the clear or under [`tls`].

mod caller;
pub mod disk;
pub mod pingpong;
pub mod tls;

use std::io::{self, IoSlice, Write};

/// Slices per `writev`; the kernel takes at most 1024.
const SLICES_MAX: usize = 1024;

/// Writes everything, in order, without copying it together. Blocks as `out` does.
fn write_all_vectored(out: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        let batch = slices.len().min(SLICES_MAX);
        match out.write_vectored(&slices[..batch]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => IoSlice::advance_slices(&mut slices, len),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
