//! What becomes of the copies of a mirrored volume: a line in the log of the node that has decided it, and an event of its history.

use cards_array::group::{Change, DropCause, Member};
use cards_config::size::human;
use cards_coordinator::GroupVolume;
use cards_core::{Duration, NodeId, PgId};

use crate::node::history::event::{Event, Kind};
use crate::node::{Local, Node};

/// A change as people read it.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    kind: Kind,
    /// The node that it happened to.
    node: String,
    text: String,
    /// There are fewer copies than before, or the volume stood still.
    is_warning: bool,
}

fn told(record: &GroupVolume, change: &Change, me: Member, name: impl Fn(NodeId) -> String) -> Told {
    let column = |column: u8| record.columns.get(usize::from(column));
    let place = |number: u8| column(number).map_or_else(|| format!("{number}"), |column| column.place());
    let at = |number: u8| column(number).map_or_else(String::new, |column| column.node.clone());
    let own = name(me.node);
    let (kind, node, text, is_warning) = match *change {
        Change::Dropped { column, cause, rests } => (
            Kind::CopyDropped,
            at(column),
            format!("copy {} is out of sync, and gets no writes: {cause}{}", place(column), rest(rests)),
            !matches!(cause, DropCause::Restarted),
        ),
        Change::FillBegun { column, bytes } => (
            Kind::CopyFilling,
            at(column),
            format!("copy {} is being filled: {} to copy", place(column), human(bytes)),
            false,
        ),
        Change::FillEnded { column, bytes, took } => {
            let (place, bytes, seconds) = (place(column), human(bytes), took.as_secs_f64());
            let text = format!("copy {place} is in sync again: {bytes} copied in {seconds:.1} s");
            (Kind::CopyFilled, at(column), text, false)
        }
        Change::TookOver { from, .. } if from == me => (
            Kind::Moved,
            own.clone(),
            format!("{own}, whose disk had not answered, goes on as the primary: nobody has taken over"),
            true,
        ),
        Change::TookOver { from, .. } if from.node == me.node => {
            (Kind::Moved, own.clone(), format!("{own} was started anew, and goes on as the primary"), true)
        }
        Change::TookOver { from, silent } => {
            let cause = match silent {
                Some(silent) => format!("of which it has heard nothing for {:.1} s", silent.as_secs_f64()),
                None => "whose disk has failed or does not answer".into(),
            };
            let text = format!("{own} is the primary in the place of {}, {cause}", name(from.node));
            (Kind::Moved, own, text, true)
        }
        Change::BegunAnew { has_forgotten } => {
            let cause = match has_forgotten {
                true => "all copies were started anew, and which writes were done is not known",
                false => "a copy is back that may have what the others have lost",
            };
            (Kind::Moved, own.clone(), format!("{own}, the primary, begins anew: {cause}"), true)
        }
        Change::HandedOver { to, leaves } => {
            let ending = if leaves { " because it ends; its copy is out of sync" } else { "" };
            let to = name(to.node);
            let text = format!(
                "{to} is the primary in the place of {own}, which has handed the volume over{ending}"
            );
            (Kind::Moved, to, text, leaves)
        }
        Change::Added { column } => {
            (Kind::CopyAdded, at(column), format!("copy {} has joined, empty", place(column)), false)
        }
        Change::Retired { column, successor } => {
            let successor = successor.map(|by| format!("; {} has its place", place(by)));
            let text = format!("copy {} has left the volume{}", place(column), successor.unwrap_or_default());
            (Kind::CopyLeft, at(column), text, false)
        }
    };
    Told { kind, node, text, is_warning }
}

/// When a copy is let in again that was slow before.
fn rest(rests: Duration) -> String {
    match rests.as_secs() {
        0 => String::new(),
        seconds => format!("; that was so lately, too, and it is filled in {seconds} s at the earliest"),
    }
}

impl Local {
    /// A group of this node has decided a change of its map, which is the registry's now.
    pub(super) fn group_changed(&self, of: PgId, change: &Change) {
        let node: &Node = &self.node;
        let Some(known) = node.groups.get(of) else { return };
        let told = told(&known.record, change, node.member(), |number| node.name(number));
        let volume = known.record.described();
        match told.is_warning {
            true => tracing::warn!(volume, "{}", told.text),
            false => tracing::info!(volume, "{}", told.text),
        }
        let now_ms = node.clock.now_and_utc_us().1 / 1_000;
        let subject = Some(known.record.volume().to_owned());
        let event = Event::new(told.kind, &told.node, &node.config.node, now_ms);
        node.history.happened(vec![Event { subject, reason: Some(told.text), ..event }]);
    }
}

#[cfg(test)]
mod tests {
    use cards_coordinator::{ColumnState, GroupColumn, GroupState};
    use cards_disk::Uuid;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_change_names_the_copy_and_the_cause() {
        let column = |number: u8| GroupColumn {
            node: format!("n{number}"),
            disk: Uuid([number; 16]),
            disk_name: "fast".into(),
            state: ColumnState::Made,
            replaces: None,
            grown: false,
            kept: 0,
            put_back: None,
            failed: false,
        };
        let record = GroupVolume {
            part: None,
            name: "data".into(),
            number: 1 << 16,
            uuid: Uuid([9; 16]),
            bytes: 1 << 20,
            block_bytes: 1 << 16,
            policy: "hdc".into(),
            modes: BTreeSet::new(),
            state: GroupState::Ready,
            columns: vec![column(1), column(2)],
            grows: None,
        };
        let member = |node| Member { node: NodeId(node), incarnation: 1 };
        let seconds = Duration::from_secs_f64;
        let (bytes, took) = (3 << 20, seconds(1.25));
        let rows = [
            (
                Change::Dropped { column: 1, cause: DropCause::Silent(seconds(0.8)), rests: Duration::ZERO },
                Kind::CopyDropped,
                "n2",
                "copy n2:fast is out of sync, and gets no writes: its node said nothing for 0.8 s",
            ),
            (
                Change::Dropped {
                    column: 1,
                    cause: DropCause::Unconfirmed(seconds(2.0)),
                    rests: seconds(20.0),
                },
                Kind::CopyDropped,
                "n2",
                "copy n2:fast is out of sync, and gets no writes: it did not confirm a write for 2.0 s; its node answers; that was so lately, too, and \
                 it is filled in 20 s at the earliest",
            ),
            (
                Change::FillBegun { column: 1, bytes },
                Kind::CopyFilling,
                "n2",
                "copy n2:fast is being filled: 3 MiB to copy",
            ),
            (
                Change::FillEnded { column: 1, bytes, took },
                Kind::CopyFilled,
                "n2",
                "copy n2:fast is in sync again: 3 MiB copied in 1.2 s",
            ),
            (
                Change::TookOver { from: member(2), silent: Some(seconds(2.26)) },
                Kind::Moved,
                "n1",
                "n1 is the primary in the place of n2, of which it has heard nothing for 2.3 s",
            ),
            (
                Change::HandedOver { to: member(2), leaves: true },
                Kind::Moved,
                "n2",
                "n2 is the primary in the place of n1, which has handed the volume over because it ends; its copy is out of sync",
            ),
            (
                Change::Retired { column: 0, successor: Some(1) },
                Kind::CopyLeft,
                "n1",
                "copy n1:fast has left the volume; n2:fast has its place",
            ),
        ];
        for (change, kind, node, text) in rows {
            let told = told(&record, &change, member(1), |number| format!("n{}", number.0));
            assert_eq!((told.kind, told.node.as_str(), told.text.as_str()), (kind, node, text));
        }
    }
}
