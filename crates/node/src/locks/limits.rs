//! What bounds the lock service of a node.
//!
//! Together they keep the longest message, all that a node knows of another one's locks, within what the wire
//! takes: (copies + parts of a home) times the longest part.

use std::time::Duration;

use cards_locks::{HomeLimits, TableLimits};
use cards_wire::peer::{MAX_LOCKS_BODY, MAX_PARTS, MAX_RANGES};

/// Bytes of a region, the unit in which locks have a home.
pub(crate) const REGION_BYTES: u64 = 64 << 20;
/// Sessions of clients at one node.
pub(crate) const SESSIONS: usize = 4_096;
/// Groups of one session, held and waiting.
pub(crate) const GROUPS: usize = 64;
/// Parts of one group: ranges, counted once for each region they touch.
pub(crate) const GROUP_PARTS: usize = 256;
/// How long a session may be silent.
pub(crate) const TTL: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// The same, if its client does not say.
pub(crate) const TTL_DEFAULT: Duration = Duration::from_secs(10);
/// Bytes of the name of a session.
pub(crate) const NAME_BYTES: usize = 255;
/// The lease of locks, in leases of cards. A session renews when a third of its lease is gone; the other two must
/// outlast the time until a home that died is found dead and another node has taken over. Membership is taken to
/// have the lease of cards, or a shorter one, and a clock may be a third fast.
pub(crate) const LEASES: u32 = 3;
/// When a message that is not answered is sent again.
pub(crate) const RESEND: Duration = Duration::from_millis(200);

/// The home of a node.
pub(crate) const HOME: HomeLimits = HomeLimits {
    sessions: 8_192,
    parts: 4_096,
    copies: 8_192,
    table: TableLimits { records: 1_024, ranges: MAX_RANGES },
};

/// Bytes of the longest part on the wire: names, token, and its ranges.
const PART_BYTES: usize = 42 + 17 * MAX_RANGES;
const _: () = assert!((HOME.copies + HOME.parts) * PART_BYTES <= MAX_LOCKS_BODY as usize);
const _: () = assert!(GROUPS * GROUP_PARTS <= MAX_PARTS && HOME.copies <= MAX_PARTS);
