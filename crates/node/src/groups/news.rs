//! What the registry says of groups, and what the core hears of that.

use std::rc::Rc;
use std::sync::Arc;

use cards_array::group::{Group, GroupTiming, Map, Message, Size};
use cards_array::store::ColumnKey;
use cards_config::size;
use cards_coordinator::{AttachMode, GroupVolume, StripedVolume, View};
use cards_core::{Coherence, ControlInput, Duration, Handover, Instant, NodeId, PgId, VolumeSpec};
use cards_disk::{Column, ManagedError};
use cards_policies::policy::normalize;

use crate::damage::UNIT;
use crate::node::groups::{Hosted, Known};
use crate::node::history::event::{Event as Happened, Kind};
use crate::node::{Event, Local, Node};

/// Bytes that are copied at a time from a column to another: what comes behind them on a link waits for no more.
const COPY_BYTES: u64 = 256 << 10;

impl Node {
    /// The registry has these groups.
    pub(crate) fn groups_are(self: &Arc<Self>, view: &View) {
        let known = view.groups.values().map(|record| Known {
            record: record.clone(),
            map: view.maps.get(&record.number).and_then(|map| self.readable(record, map.decode().ok()?)),
        });
        let known: Vec<Known> = known.collect();
        known.iter().for_each(|known| self.note_forced(known));
        self.note_growth(view);
        let is_news = self.groups.replace_striped(view.striped.values().cloned());
        for of in self.groups.replace(known) {
            self.at_home(of, move |local| local.group_news(of));
        }
        // Of its parts all may be known already.
        if is_news {
            self.threads[0].post(Event::ResolveCards);
        }
    }

    /// Tells that a person has given up a history, when that is first heard.
    fn note_forced(&self, known: &Known) {
        let generation = |known: &Known| known.map.as_ref().map(|map| map.term.generation);
        let before = self.groups.get(known.record.pg()).and_then(|before| generation(&before));
        if let (Some(before), Some(map)) = (before, &known.map)
            && before < map.term.generation
        {
            tracing::warn!(
                volume = known.record.described(),
                node = self.name(map.primary.node),
                generation = map.term.generation,
                "the copy at that node was forced: what others had beyond it is given up, and they are filled from it"
            );
        }
    }

    /// Tells that a volume has become larger, when that is first heard; one node notes it as an event.
    fn note_growth(&self, view: &View) {
        let whole = view.groups.values().filter(|group| group.part.is_none());
        let whole = whole.map(|group| (&group.name, group.number, group.bytes));
        let first = |striped: &StripedVolume| striped.groups.first().copied().unwrap_or_default();
        let striped = view.striped.values().map(|striped| (&striped.name, first(striped), striped.bytes));
        for (name, number, bytes) in whole.chain(striped) {
            let Some((_, before)) =
                self.groups.size_of(name).filter(|(of, before)| *of == number && *before < bytes)
            else {
                continue;
            };
            let text = format!("the volume has grown from {} to {}", size::human(before), size::human(bytes));
            tracing::info!(volume = name, bytes, "{text}");
            let primary =
                view.maps.get(&number).and_then(|map| map.decode().ok()).map(|map| map.primary.node);
            if primary == Some(self.me) {
                let now_ms = self.clock.now_and_utc_us().1 / 1_000;
                let event = Happened::new(Kind::Grown, &self.config.node, &self.config.node, now_ms);
                let event = Happened { subject: Some(name.clone()), reason: Some(text), ..event };
                self.history.happened(vec![event]);
            }
        }
    }

    /// A map that this node can go by: with numbers that nodes can have, and of blocks as it has them.
    fn readable(&self, record: &GroupVolume, map: Map) -> Option<Map> {
        let nodes = map.columns.iter().map(|column| column.node).chain([map.primary.node]);
        let is_known = nodes.into_iter().all(|node| usize::from(node.0) < NodeId::MAX_NODES);
        let fits = record.block_bytes == self.arena.block() as u64 && record.bytes > 0;
        let blocks = record.bytes.div_ceil(record.block_bytes.max(1));
        let is_volume = map.volume == record.uuid && !record.pg().is_plain() && u32::try_from(blocks).is_ok();
        let is_known = is_known && map.since < SINCE_MAX;
        (is_known && fits && is_volume).then_some(map)
    }
}

/// The core's terms of a group are so far apart: each has 2^40 stamps for its writes before those of the next.
pub(super) const APART: u32 = 20;
/// More changes of a map than there are numbers for.
const SINCE_MAX: u64 = 1 << (64 - 20 - APART);

/// A group volume as the core knows it, with this primary since that epoch.
pub(super) fn spec(record: &GroupVolume, primary: NodeId, since: u64) -> VolumeSpec {
    VolumeSpec {
        id: record.pg(),
        primary,
        epoch: since << APART,
        name: record.name.clone(),
        size_bytes: record.served_bytes(),
        block_bytes: u32::try_from(record.block_bytes).unwrap_or(u32::MAX),
        policy: normalize(&record.policy).unwrap_or_else(|_| record.policy.clone()),
        read_only: record.modes.iter().all(|mode| *mode == AttachMode::Ro),
        content: 0,
        network_attached: false,
        coherence: Coherence::Confirmed,
        handover: Handover::Cache,
    }
}

/// How long cards of an earlier primary may be valid that this node has not heard.
pub(super) fn grace(node: &Node) -> Duration {
    Duration::from_nanos((node.config.lease * 3 / 2).as_nanos() as u64)
}

impl Local {
    /// The registry says something else of a group than before.
    fn group_news(self: &Rc<Self>, of: PgId) {
        let known = self.node.groups.get(of);
        let Some((known, map)) = known.as_ref().and_then(|known| Some((known, known.ready()?))) else {
            // Its column is removed, or not made yet.
            self.node.copies.end(of);
            self.node.groups.copy_is_gone(of);
            self.groups.borrow_mut().remove(&of);
            return;
        };
        // Of its own terms the group tells, and of an earlier process of this node nobody can be asked.
        // (Who named this process may know it by a later membership than its first one: it takes over then.)
        if map.primary.node == self.node.me {
            self.lead_group(of, map);
        } else {
            // One that is alone in sync, and has not heard that a person gave up its history, would go on.
            self.group(of, |group, now| group.overtaken(now, map.term));
            self.hear_of_primary(of, spec(&known.record, map.primary.node, map.since), map.since);
        }
        self.end_left(of, known, map);
        self.host(of, known, map);
        let own = map.column_at(self.node.me);
        self.hosted(of, |hosted| own.map(|own| hosted.column.has_copy(map.has_copy_of(own))));
        self.note_put_back(of, map);
        self.place_group(of);
    }

    /// A process of this node is a group's primary, by the registry's word.
    fn lead_group(self: &Rc<Self>, of: PgId, map: &Map) {
        let (me, map) = (self.node.me, Box::new(map.clone()));
        self.group(of, |group, now| group.receive(now, me, Message::HandOver(map)));
    }

    /// Another node is a group's primary.
    fn hear_of_primary(self: &Rc<Self>, of: PgId, spec: VolumeSpec, since: u64) {
        let spec = self.at_least(spec, 0);
        let epoch = spec.epoch;
        let before = self.node.control().volume(of).cloned();
        if before.is_none_or(|before| before != spec && before.epoch <= epoch) {
            self.control(ControlInput::Group { spec, term: None });
            self.node.threads[0].post(Event::ResolveCards);
        }
        let is_over = self.hosted(of, |hosted| hosted.reign.take_if(|reign| *reign < since).is_some());
        if is_over == Some(true) {
            self.end_parked(of);
        }
        self.carry_out_wishes();
    }

    /// A group as the core is to know it: at least as large as the core knows it, and as `bytes`. The registry may have said more of its size to
    /// a primary than this node has heard by now.
    pub(super) fn at_least(&self, spec: VolumeSpec, bytes: u64) -> VolumeSpec {
        let known = self.node.control().volume(spec.id).map_or(0, |before| before.size_bytes);
        VolumeSpec { size_bytes: spec.size_bytes.max(known).max(bytes), ..spec }
    }

    /// Whether a column lacks space that its group may have used: its disk was put back to what it was before it grew.
    fn is_small(&self, of: PgId, column: &Column) -> bool {
        let Some(known) = self.node.groups.get(of) else { return false };
        let (record, disk) = (&known.record, column.managed().uuid());
        let has_grown = record.there().any(|(_, known)| known.disk == disk && known.grown);
        let least = if has_grown { record.column_bytes() } else { record.served_bytes() };
        column.bytes() < least
    }

    /// The column of this node has grown on its disk.
    pub(crate) fn column_grown(self: &Rc<Self>, of: PgId) {
        match self.hosted(of, |hosted| hosted.group.grow(hosted.column.bytes())) {
            Some(()) => self.carry_out_wishes(),
            // It was too small for its group to begin on it.
            None => self.group_news(of),
        }
    }

    /// Has the core take commands of a group up to its new size, which all columns have. The epoch in which this process took over, if it leads
    /// the group and the core does so now.
    pub(crate) fn serve_size(self: &Rc<Self>, of: PgId, bytes: u64) -> Option<u64> {
        let leads = |hosted: &mut Hosted| {
            let is_ready = hosted.reigns() && hosted.group.bytes() >= bytes;
            hosted.group.map().map(|map| map.since).filter(|_| is_ready)
        };
        let since = self.hosted(of, leads).flatten();
        self.carry_out_wishes();
        let before = self.node.control().volume(of).cloned()?;
        let since = since.filter(|since| (before.primary, before.epoch) == (self.node.me, since << APART))?;
        if before.size_bytes < bytes {
            let spec = VolumeSpec { size_bytes: bytes, ..before };
            self.control(ControlInput::Group { spec, term: None });
        }
        Some(since)
    }

    /// Begins to drive a group, if this node has a column of it.
    fn host(self: &Rc<Self>, of: PgId, known: &Known, map: &Map) {
        if self.groups.borrow().contains_key(&of) || !self.hosting.borrow_mut().insert(of) {
            return;
        }
        let column = map.column_at(self.node.me).and_then(|number| Some((number, map.column(number)?)));
        let disk = column.and_then(|(number, column)| {
            let managed = self.node.managed.iter().find(|managed| managed.uuid() == column.disk)?;
            Some((number, Arc::clone(managed)))
        });
        let Some((column, managed)) = disk else {
            self.hosting.borrow_mut().remove(&of);
            return;
        };
        let (local, record, is_copy) = (Rc::clone(self), known.record.clone(), map.has_copy_of(column));
        let key = ColumnKey { volume: known.record.uuid.key(), group: known.record.group(), column };
        tokio::task::spawn_local(async move {
            let opened = managed.column(key, is_copy).await;
            local.hosting.borrow_mut().remove(&of);
            local.begin_group(of, &record, opened);
        });
    }

    fn begin_group(self: &Rc<Self>, of: PgId, record: &GroupVolume, opened: Result<Column, ManagedError>) {
        let name = record.described();
        let column = match opened {
            Ok(column) => column,
            Err(error) => {
                tracing::error!(volume = name, %error, "its copy cannot be used here");
                return;
            }
        };
        let node = &self.node;
        if self.is_small(of, &column) {
            return self.note_small(of, &column);
        }
        let size = Size { bytes: column.bytes(), copy_bytes: COPY_BYTES, unit_bytes: UNIT };
        let timing = GroupTiming { grace: grace(node), ..GroupTiming::default() };
        let group = Group::new(node.member(), column.found().clone(), size, timing, node.now());
        let hosted = Hosted {
            group,
            counts: node.copies.begin(
                of,
                record.volume(),
                column.managed().path(),
                node.arena.block() as u64,
            ),
            column,
            reign: None,
            reading: None,
            noting: None,
            right: None,
            is_outdated: false,
            awaited: Vec::new(),
            open: Default::default(),
            scrubs: Default::default(),
            parked: Vec::new(),
            stopped: None,
            held: Default::default(),
            next_token: 0,
            begun: self.groups_begun.replace(self.groups_begun.get() + 1),
            wake: Instant(0),
        };
        self.groups.borrow_mut().insert(of, hosted);
        tracing::info!(volume = name, "this node has a copy of a mirrored volume");
        self.group(of, Group::timeout);
        // It may have become the primary while its column was opened.
        self.group_news(of);
    }
}
