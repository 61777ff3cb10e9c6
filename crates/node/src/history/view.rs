//! What a node sees of the cluster and of itself, and what has happened between two looks.

use std::collections::{BTreeMap, BTreeSet};

use cards_admin::{MemberState, Status, VolumeState};

use crate::node::history::event::{Event, Kind};

/// What there is at a look.
#[derive(Debug, Default)]
pub(super) struct View {
    members: BTreeMap<String, (MemberState, Option<String>)>,
    /// Members of which it has been said that they are away.
    away: BTreeSet<String>,
    /// Volumes that are attached here, and how.
    attached: BTreeMap<String, &'static str>,
    /// Where the disk of each volume is.
    disk_nodes: BTreeMap<String, String>,
    /// What has failed since the start, by what has failed and how that is called.
    failed: BTreeMap<(Option<String>, &'static str), u64>,
}

impl View {
    pub(super) fn of(status: &Status) -> Self {
        let members = status.members.iter();
        let volumes = status.volumes.iter();
        // What the disk node refuses is asked for, and not attached.
        let attached = volumes.clone().filter(|volume| volume.state != VolumeState::Refused);
        let attached = attached.filter_map(|volume| {
            volume.attached.as_ref().map(|card| (volume.name.clone(), card.mode.name()))
        });
        let disk_nodes =
            volumes.filter_map(|volume| volume.disk_node.clone().map(|node| (volume.name.clone(), node)));
        let disks =
            status.disks.iter().map(|disk| ((Some(disk.name.clone()), "errors of the disk"), disk.errors));
        let damaged = status
            .disks
            .iter()
            .map(|disk| ((Some(disk.name.clone()), "damaged data were found"), disk.damaged));
        let losses = status.losses.iter().map(|lost| {
            // Its time grows when it happens again.
            ((Some(lost.volume.clone()), "a flush failed: writes may be lost"), lost.time_ms)
        });
        let links = members.clone().map(|member| {
            (
                (Some(member.name.clone()), "blocks that did not come as they were sent"),
                member.checksum_errors,
            )
        });
        let own = ((None, "requests of clients failed"), status.counters.failed);
        Self {
            attached: attached.collect(),
            disk_nodes: disk_nodes.collect(),
            failed: disks.chain(damaged).chain(losses).chain(links).chain([own]).collect(),
            members: members
                .map(|member| (member.name.clone(), (member.state, member.reason.clone())))
                .collect(),
            away: BTreeSet::new(),
        }
    }

    /// What has happened until the look `now`, which is that of the node `me` at `now_ms`.
    pub(super) fn then(&self, mut now: Self, me: &str, now_ms: u64) -> (Self, Vec<Event>) {
        now.away = self.away.clone();
        let mut events = Vec::new();
        let mut note = |kind, node: &str, subject: Option<&str>, reason: Option<String>| {
            let subject = subject.map(Into::into);
            events.push(Event { subject, reason, ..Event::new(kind, node, me, now_ms) });
        };
        for (name, (state, reason)) in &now.members {
            let before = self.members.get(name).map(|(state, _)| *state);
            // Before the first view of the coordinator's, a node knows of nobody.
            if before.is_none() && self.members.len() > 1 && *state != MemberState::Left {
                note(Kind::Joined, name, None, None);
            }
            match state {
                _ if before == Some(*state) => {}
                MemberState::Dead => {
                    note(Kind::Died, name, None, reason.clone());
                    now.away.insert(name.clone());
                }
                MemberState::Down | MemberState::Refused if before.is_some() => {
                    note(Kind::Down, name, None, reason.clone());
                    now.away.insert(name.clone());
                }
                MemberState::Left if before.is_some() => {
                    note(Kind::Left, name, None, None);
                    now.away.remove(name);
                }
                MemberState::Up | MemberState::Here if now.away.remove(name) => {
                    note(Kind::Returned, name, None, None);
                }
                _ => {}
            }
        }
        for (name, (state, _)) in &self.members {
            if !now.members.contains_key(name) {
                now.away.remove(name);
                if *state != MemberState::Left {
                    note(Kind::Left, name, None, Some("it was forgotten".into()));
                }
            }
        }
        for (volume, mode) in &now.attached {
            if self.attached.get(volume) != Some(mode) {
                note(Kind::Attached, me, Some(volume), Some((*mode).into()));
            }
        }
        for volume in self.attached.keys().filter(|volume| !now.attached.contains_key(*volume)) {
            note(Kind::Detached, me, Some(volume), None);
        }
        for (volume, node) in &now.disk_nodes {
            if let Some(before) = self.disk_nodes.get(volume).filter(|before| *before != node) {
                note(Kind::Moved, node, Some(volume), Some(format!("from {before}")));
            }
        }
        for ((subject, what), total) in &now.failed {
            let before = self.failed.get(&(subject.clone(), *what)).copied().unwrap_or_default();
            if *total > before {
                note(Kind::Error, me, subject.as_deref(), Some((*what).into()));
            }
        }
        (now, events)
    }
}

#[cfg(test)]
mod tests {
    use cards_admin::Reply;
    use cards_config::Config;

    use super::*;
    use crate::starting::Starting;

    fn view(members: &[(&str, MemberState)]) -> View {
        let members = members.iter().map(|(name, state)| ((*name).into(), (*state, None))).collect();
        View { members, ..View::default() }
    }

    fn told(events: &[Event]) -> Vec<(Kind, &str, Option<&str>)> {
        events.iter().map(|event| (event.kind, event.node.as_str(), event.subject.as_deref())).collect()
    }

    #[test]
    fn what_the_disk_node_refuses_is_not_attached() {
        let starting = Starting::new(Config::new("lab", "n1"));
        let Reply::Status(status) = starting.answer(br#"{"request":"status"}"#) else { panic!("a status") };
        let attached = |state: &str| {
            let card = serde_json::json!({"mode": "rw", "read_ahead": "off", "clients": 0});
            let volume = serde_json::json!({
                "name": "data", "disk_node": "n2", "size": 4096, "block": 4096, "policy": null, "coherence": null,
                "read_only": false, "state": state, "attached": card, "cached_blocks": 0
            });
            let volume = serde_json::from_value(volume).expect("a volume");
            View::of(&Status { volumes: vec![volume], ..(*status).clone() })
        };
        let (before, events) = View::default().then(attached("refused"), "n1", 1);
        assert_eq!(told(&events), []);
        let (_, events) = before.then(attached("ready"), "n1", 2);
        assert_eq!(told(&events), [(Kind::Attached, "n1", Some("data"))]);
    }

    #[test]
    fn members_come_go_and_return() {
        use MemberState::{Connecting, Dead, Down, Here, Left, Up};
        let looks = [
            (&[("n1", Here), ("n2", Connecting)][..], &[][..]),
            (&[("n1", Here), ("n2", Up)], &[]),
            (&[("n1", Here), ("n2", Up), ("n3", Connecting)], &[(Kind::Joined, "n3", None)]),
            (&[("n1", Here), ("n2", Down), ("n3", Up)], &[(Kind::Down, "n2", None)]),
            (&[("n1", Here), ("n2", Dead), ("n3", Up)], &[(Kind::Died, "n2", None)]),
            (&[("n1", Here), ("n2", Connecting), ("n3", Up)], &[]),
            (
                &[("n1", Here), ("n2", Up), ("n3", Left)],
                &[(Kind::Returned, "n2", None), (Kind::Left, "n3", None)],
            ),
            (&[("n1", Here), ("n2", Up)], &[]),
            (&[("n1", Here)], &[(Kind::Left, "n2", None)]),
        ];
        let mut seen = view(&[("n1", Here)]);
        for (members, wanted) in looks {
            let (next, events) = seen.then(view(members), "n1", 5_000);
            assert_eq!(told(&events), wanted, "{members:?}");
            seen = next;
        }
    }

    #[test]
    fn attachments_moves_and_errors_are_told_of_the_node_itself() {
        let mut before = View::default();
        before.attached.insert("a".into(), "rw");
        before.disk_nodes.insert("a".into(), "n2".into());
        before.failed.insert((None, "failed"), 3);
        let mut now = View::default();
        now.attached.insert("b".into(), "ro");
        now.disk_nodes.insert("a".into(), "n3".into());
        now.failed.insert((None, "failed"), 4);
        now.failed.insert((Some("d".into()), "errors"), 0);
        let (seen, events) = before.then(now, "n1", 7);
        assert_eq!(
            told(&events),
            [
                (Kind::Attached, "n1", Some("b")),
                (Kind::Detached, "n1", Some("a")),
                (Kind::Moved, "n3", Some("a")),
                (Kind::Error, "n1", None),
            ]
        );
        let again = View { attached: seen.attached.clone(), failed: seen.failed.clone(), ..View::default() };
        assert!(seen.then(again, "n1", 8).1.is_empty());
    }
}
