//! What the lock service knows, in the words of the API.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_client::body;
use cards_core::PgId;
use cards_locks::{Holding, HoldingState, Locked, Mode, Part};

use crate::locks::{GroupInfo, SessionInfo, group_name, limits, session_name};
use crate::node::Node;

/// See the module's head.
pub(super) struct Names<'a> {
    node: &'a Node,
    /// What volumes are called.
    pub(super) volumes: BTreeMap<PgId, String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        let volumes = node.control().volumes().map(|spec| (spec.id, node.volume_name(spec))).collect();
        Self { node, volumes }
    }

    pub(super) fn session(&self, session: SessionInfo) -> body::SessionState {
        // The shorter of both ends first.
        let keep_alive = session.ttl.min(self.node.config.lease * limits::LEASES) / 3;
        body::SessionState {
            session: session_name(session.id),
            name: session.name,
            ttl_ms: milliseconds(session.ttl),
            left_ms: milliseconds(session.left),
            keep_alive_ms: milliseconds(keep_alive),
            groups: session.groups.into_iter().map(|group| self.group(group)).collect(),
        }
    }

    pub(super) fn group(&self, group: GroupInfo) -> body::GroupState {
        let state = match (&group.held, group.releasing) {
            (_, true) => body::State::Releasing,
            (Some(_), false) => body::State::Held,
            (None, false) => body::State::Waiting,
        };
        let held = group.held.filter(|_| !group.releasing);
        let (left, parts) = held.map_or((None, Vec::new()), |(left, parts)| (Some(left), parts));
        body::GroupState {
            group: group_name(group.key),
            session: session_name(group.key.session),
            state,
            left_ms: left.map(milliseconds),
            ranges: group.wants.iter().map(|want| self.range(want.volume, &want.locked)).collect(),
            parts: parts.iter().map(|part| self.part(part)).collect(),
        }
    }

    fn part(&self, part: &Part) -> body::Part {
        let Part { region, ranges, token, .. } = part;
        body::Part {
            region: region.index,
            ranges: self.ranges(region.volume, ranges),
            token: body::Token { epoch: token.epoch, count: token.count },
        }
    }

    pub(super) fn holding(&self, holding: &Holding) -> body::Holding {
        let (state, token) = match holding.state {
            HoldingState::Waiting => (body::State::Waiting, None),
            HoldingState::Copying => (body::State::Copying, None),
            HoldingState::Held(token) => (body::State::Held, Some(token)),
        };
        body::Holding {
            group: group_name(holding.key),
            session: session_name(holding.key.session),
            node: self.node.name(holding.key.session.node),
            state,
            region: holding.region.index,
            ranges: self.ranges(holding.region.volume, &holding.ranges),
            token: token.map(|token| body::Token { epoch: token.epoch, count: token.count }),
        }
    }

    fn ranges(&self, volume: PgId, ranges: &[Locked]) -> Vec<body::Range> {
        ranges.iter().map(|locked| self.range(volume, locked)).collect()
    }

    fn range(&self, volume: PgId, locked: &Locked) -> body::Range {
        let name = self.volumes.get(&volume).cloned().unwrap_or_else(|| format!("{volume:?}"));
        body::Range {
            volume: name,
            offset: locked.range.start(),
            length: locked.range.end() - locked.range.start(),
            mode: match locked.mode {
                Mode::Read => body::Mode::Read,
                Mode::Write => body::Mode::Write,
            },
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
