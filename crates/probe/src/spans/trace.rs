//! The name of a traced request, and the choice of those that are traced.

use cards_core::{NodeId, OpId, PgId, RequestId, Stamp, mix};

use crate::names::Names;

/// A request: the node that has sent it, and its number there. No two lives of a node use a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trace {
    pub(crate) requester: NodeId,
    pub(crate) shard: u16,
    number: u64,
    kind: Kind,
}

/// What has the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The request, as it is sent to other nodes.
    Sent,
    /// An operation of the requester's own disk, of which no other node hears.
    Disk,
    /// A write to the requester's own disk, before which others void their copies.
    Write,
}

impl Trace {
    /// A request that is sent to other nodes.
    pub(crate) const fn of(requester: NodeId, shard: u16, request: RequestId) -> Self {
        Self { requester, shard, number: request.0, kind: Kind::Sent }
    }

    /// One that the requester's own disk answers at once.
    pub(crate) const fn of_disk(requester: NodeId, shard: u16, op: OpId) -> Self {
        Self { requester, shard, number: op.0, kind: Kind::Disk }
    }

    /// A write to a volume of the requester's own. Each volume counts its writes, so its number is made a part of it.
    pub(crate) const fn of_write(requester: NodeId, shard: u16, volume: PgId, stamp: Stamp) -> Self {
        let number = stamp.0.rotate_left(16) ^ volume.0 as u64;
        Self { requester, shard, number, kind: Kind::Write }
    }

    /// Whether it is among those that are traced: one in `one_in`, or none if that is zero. The same at all nodes.
    pub(crate) const fn is_traced(self, one_in: u32) -> bool {
        let salt = (self.requester.0 as u64) << 18 | (self.shard as u64) << 2 | self.kind as u64;
        one_in != 0 && mix(self.number ^ mix(salt)).is_multiple_of(one_in as u64)
    }

    /// How it is called: `n2:3.1a2b3c`, and `n1:3.op1a2b` or `n1:3.w1a2b` if the requester has the disk.
    pub(crate) fn name(self, names: &dyn Names) -> String {
        let Self { requester, shard, number, kind } = self;
        format!("{}:{shard:x}.{}{number:x}", names.node(requester), kind.prefix())
    }

    /// The request of that name; none if it is no name of any. Of a node that is no member, nothing is known.
    pub fn find(names: &dyn Names, name: &str) -> Option<Self> {
        let (requester, shard, number, kind) = split(name)?;
        let requester = names.find_node(requester)?;
        Some(Self { requester, shard, number, kind })
    }
}

impl Kind {
    /// What is before its number: no digits.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Sent => "",
            Self::Disk => "op",
            Self::Write => "w",
        }
    }
}

/// Whether this is how requests are called.
#[must_use]
pub fn is_name(name: &str) -> bool {
    split(name).is_some()
}

fn split(name: &str) -> Option<(&str, u16, u64, Kind)> {
    let (requester, rest) = name.split_once(':').filter(|(requester, _)| !requester.is_empty())?;
    let (shard, number) = rest.split_once('.')?;
    let (number, kind) = [Kind::Disk, Kind::Write]
        .into_iter()
        .find_map(|kind| Some((number.strip_prefix(kind.prefix())?, kind)))
        .unwrap_or((number, Kind::Sent));
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    if !hex(shard) || !hex(number) {
        return None;
    }
    Some((requester, u16::from_str_radix(shard, 16).ok()?, u64::from_str_radix(number, 16).ok()?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_traced_of_every_node_and_shard() {
        for (requester, shard) in [(0, 0), (0, 15), (2, 3), (1023, 63)] {
            let traced = |one_in: u32| {
                let of = |number: u64| Trace::of(NodeId(requester), shard, RequestId((77 << 20) + number));
                (0..100_000_u64).filter(|&number| of(number).is_traced(one_in)).count()
            };
            assert_eq!((traced(0), traced(1)), (0, 100_000));
            assert!((800..1_200).contains(&traced(100)), "{}", traced(100));
        }
    }

    #[test]
    fn names_are_taken_as_they_are_given_and_not_otherwise() {
        assert_eq!(split("n2:f.1a2b"), Some(("n2", 15, 0x1a2b, Kind::Sent)));
        assert_eq!(split("a-b.c:0.op7"), Some(("a-b.c", 0, 7, Kind::Disk)));
        assert_eq!(split("n1:0.wff"), Some(("n1", 0, 255, Kind::Write)));
        for wrong in [
            "",
            "n2",
            "n2:",
            "n2:1",
            "n2:1.",
            ":1.2",
            "n2:1.x",
            "n2:+1.2",
            "n2:1.opop2",
            "n2:1.wop2",
            "n2:10000.1",
            "n2:1.2 ",
        ] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
