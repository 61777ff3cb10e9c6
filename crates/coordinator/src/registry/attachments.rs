//! Which node has which volume, and how.

use crate::record::{AttachMode, Attachment, GroupState, Record, Write};
use crate::refusal::Refusal;
use crate::seat::Seat;

use super::draft::Draft;
use super::{ATTACHMENTS_MAX, REMOVALS_MAX, Registry, check_name};

pub(super) fn attach(
    draft: &mut Draft<'_>,
    seat: &Seat,
    volume: &str,
    mode: AttachMode,
    takes_over: bool,
) -> Result<(), Refusal> {
    let registry = draft.registry;
    draft.joined(seat)?;
    check_name("volume", volume)?;
    let group = registry.groups.get(volume);
    if let Some(group) = group.filter(|group| group.state != GroupState::Ready) {
        return Err(Refusal::NotReady { volume: volume.to_owned(), state: group.state });
    }
    let striped = registry.striped.get(volume);
    if let Some(striped) = striped.filter(|striped| striped.state != GroupState::Ready) {
        return Err(Refusal::NotReady { volume: volume.to_owned(), state: striped.state });
    }
    let modes = registry.volumes.get(volume).map(|volume| &volume.modes).or(group.map(|group| &group.modes));
    let modes = modes.or(striped.map(|striped| &striped.modes));
    let Some(modes) = modes else {
        return Err(Refusal::UnknownVolume { volume: volume.to_owned() });
    };
    if !modes.contains(&mode) {
        return Err(Refusal::ModeNotAllowed { volume: volume.to_owned(), mode });
    }
    let others = registry.attachments.values().filter(|held| held.volume == volume && held.node != seat.name);
    let conflicts: Vec<&Attachment> = others.filter(|held| excludes(held.mode, mode)).collect();
    if let Some(held) = conflicts.first().filter(|_| !takes_over) {
        let (node, held) = (held.node.clone(), held.mode);
        return Err(Refusal::AttachConflict { volume: volume.to_owned(), mode, node, held });
    }
    for held in conflicts.iter().take(REMOVALS_MAX) {
        draft.write(Write::DeleteAttachment { node: held.node.clone(), volume: volume.to_owned() });
    }
    if conflicts.len() > REMOVALS_MAX {
        return Ok(());
    }
    let attachment = Attachment { node: seat.name.clone(), volume: volume.to_owned(), mode };
    match registry.attachments.get(&(seat.name.clone(), volume.to_owned())) {
        Some(before) if *before == attachment => return Ok(()),
        Some(_) => {}
        None if registry.attachments.len() >= ATTACHMENTS_MAX => {
            return Err(Refusal::TooMany { kind: "attachments".to_owned(), max: ATTACHMENTS_MAX });
        }
        None => {}
    }
    draft.write(Write::Put(Record::Attachment(attachment)));
    Ok(())
}

pub(super) fn detach(draft: &mut Draft<'_>, seat: &Seat, volume: &str) -> Result<(), Refusal> {
    draft.live(seat)?;
    check_name("volume", volume)?;
    let (node, volume) = (seat.name.clone(), volume.to_owned());
    if draft.registry.attachments_of(&node).any(|held| held.volume == volume) {
        draft.write(Write::DeleteAttachment { node, volume });
    }
    Ok(())
}

/// Whether two nodes cannot have one volume in these modes.
pub(super) const fn excludes(one: AttachMode, other: AttachMode) -> bool {
    matches!(one, AttachMode::Exclusive) || matches!(other, AttachMode::Exclusive)
}

impl Registry {
    pub(super) fn attachments_of(&self, node: &str) -> impl Iterator<Item = &Attachment> {
        let from = (node.to_owned(), String::new());
        self.attachments.range(from..).map(|(_, held)| held).take_while(move |held| held.node == node)
    }
}
