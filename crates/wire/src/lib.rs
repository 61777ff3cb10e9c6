//! Bytes on the wire: the NBD protocol and the protocol between nodes, without sockets.
//!
//! Everything here is sans-IO: a decoder is given the bytes that have arrived and says what they mean, an
//! encoder gives back the bytes to send. The caller owns sockets, deadlines and buffers. Two rules hold for
//! every decoder, because the other end may be broken or hostile:
//!
//! - a length is compared with its limit *before* memory is reserved for it, and what is too long is never
//!   drained: the connection ends;
//! - no input panics. The fuzz targets in `fuzz/` and the property tests here hold both.
//!
//! | module | what |
//! |---|---|
//! | [`nbd`] | the NBD protocol, both ends: handshake, requests, replies, URIs |
//! | [`object`] | URLs of objects of web servers and object stores |
//! | [`peer`] | the protocol between nodes: frame header, handshake, messages |
//! | [`register`] | the register of several arbiters: messages, and the state of a store |

mod bytes;
pub mod nbd;
pub mod object;
pub mod peer;
pub mod register;
