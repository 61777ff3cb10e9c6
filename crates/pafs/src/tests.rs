//! Cache servers alone, and with parity servers, disks and bytes.

mod cluster;
mod random;
mod single;
