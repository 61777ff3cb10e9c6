//! How many bytes of writes may be on a connection.

/// What one end of a connection says to the other about the payloads of Commands. Counts are in bytes, begin at zero with
/// the connection, and only grow: a frame that is lost or repeated changes nothing that the next one does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// So many the sender of this frame takes from the other end, all in all.
    pub granted: u64,
    /// So many it has for the other end, those that have left included.
    pub wanted: u64,
    /// So many of those that the other end takes it will not send: they count as sent.
    pub returned: u64,
}
