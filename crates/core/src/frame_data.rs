//! What some policies keep with every cached block: when it was used last, and a word of their own.
//!
//! Eight bytes a slot besides the 21 of its frame, and only at nodes that run such a policy
//! ([`crate::policy::Policy::needs_frame_data`]).

use alloc::vec::Vec;

use crate::ids::Slot;
use crate::time::Instant;

/// Empty until a policy needs it.
#[derive(Default)]
pub(crate) struct FrameData {
    of_slot: Vec<Data>,
}

#[derive(Clone, Copy, Default)]
struct Data {
    /// Milliseconds since the driver's origin; wraps after 49 days.
    used_ms: u32,
    tag: u32,
}

impl FrameData {
    pub(crate) fn enable(&mut self, slots: u32) {
        self.of_slot.resize(slots as usize, Data::default());
    }

    pub(crate) fn is_enabled(&self) -> bool {
        !self.of_slot.is_empty()
    }

    /// The slot has a new block, last used so many milliseconds ago.
    pub(crate) fn inserted(&mut self, slot: Slot, now: Instant, age_ms: u32) {
        if let Some(data) = self.of_slot.get_mut(slot.0 as usize) {
            *data = Data { used_ms: ms(now).wrapping_sub(age_ms), tag: 0 };
        }
    }

    pub(crate) fn used(&mut self, slot: Slot, now: Instant) {
        if let Some(data) = self.of_slot.get_mut(slot.0 as usize) {
            data.used_ms = ms(now);
        }
    }

    /// Milliseconds since the last use.
    pub(crate) fn age_ms(&self, slot: Slot, now: Instant) -> u32 {
        self.of_slot.get(slot.0 as usize).map_or(0, |data| ms(now).wrapping_sub(data.used_ms))
    }

    pub(crate) fn tag(&self, slot: Slot) -> u32 {
        self.of_slot.get(slot.0 as usize).map_or(0, |data| data.tag)
    }

    pub(crate) fn set_tag(&mut self, slot: Slot, tag: u32) {
        if let Some(data) = self.of_slot.get_mut(slot.0 as usize) {
            data.tag = tag;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.of_slot.len() * size_of::<Data>()
    }
}

const fn ms(at: Instant) -> u32 {
    (at.0 / 1_000_000) as u32
}
