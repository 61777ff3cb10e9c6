//! Counters of a node and of its disks. The names are an interface: `cards dev --json` and
//! `cards status --json` print them.

use cards_core::Stats;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*; $($(#[doc = $io_doc:literal])* $io:ident,)*) => {
        /// What a node counted since it started, in blocks unless said otherwise.
        ///
        /// The first part is the core's [`Stats`], summed over the shards; the second part is the driver's.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
            $($(#[doc = $io_doc])* pub $io: u64,)*
        }

        impl From<&Stats> for Counters {
            fn from(stats: &Stats) -> Self {
                Self { $($name: stats.$name,)* $($io: 0,)* }
            }
        }

        impl Counters {
            /// All of them: name, meaning, value.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [
                    $((stringify!($name), concat!($($doc),*), self.$name),)*
                    $((stringify!($io), concat!($($io_doc),*), self.$io),)*
                ]
                .into_iter()
            }

            /// The sum of both, for several nodes.
            #[must_use]
            pub const fn plus(&self, other: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_add(other.$name),)*
                    $($io: self.$io.saturating_add(other.$io),)*
                }
            }

            /// What was counted since `before`, an earlier reading; a daemon that restarted in between
            /// counts from 0.
            #[must_use]
            pub const fn since(&self, before: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(before.$name),)*
                    $($io: self.$io.saturating_sub(before.$io),)*
                }
            }
        }
    };
}

cards_core::with_stats!(counters {
    /// Bytes sent to peers, headers and data.
    bytes_sent,
    /// Bytes received from peers, headers and data.
    bytes_received,
    /// Bytes that clients of this node read.
    bytes_read,
    /// Bytes that clients of this node wrote.
    bytes_written,
    /// Bytes of blocks copied within the daemon.
    bytes_copied,
    /// Messages to peers that were dropped because the peer took them too slowly.
    messages_dropped,
});

/// What a physical disk was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written, in whole or in part; zeroing and trimming move no bytes and do not count.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl DiskCounters {
    /// The sum of both, for several disks.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
        }
    }
}
