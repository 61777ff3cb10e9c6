//! What the core asks of a group at its primary.

use std::rc::Rc;

use cards_array::group::{Client, Command, CommandError, Extent, Member, Origin, Token};
use cards_coordinator::MemberState;
use cards_core::{
    CommandKind, CommandOrigin, ControlInput, DiskJournal, DiskWork, Exclusivity, Input, IoError, KnownCards,
    Loss, OpId, Payload, Persistence, PgId, Term,
};

use super::{damage, news};
use crate::failures::Asked as Operation;
use crate::node::buffers::Bytes;
use crate::node::groups::{Asked, Hosted, Wanted};
use crate::node::{Event, Local};
use crate::traffic::Traffic;

/// The longest write that links carry.
const WRITE_MAX: u32 = 1 << 20;

impl Local {
    /// Carries out a shard's operation on the medium of a group.
    pub(crate) fn group_disk(self: &Rc<Self>, shard: u16, op: OpId, of: PgId, work: DiskWork) {
        let done = |result| {
            let now = self.node.now();
            self.shard(shard, |state| state.handle(now, Input::DiskDone { op, result }));
        };
        let wanted = match work {
            DiskWork::Read { block, slot, .. } => {
                let size = self.node.groups.get(of).map_or(0, |known| known.record.column_bytes());
                let length = self.node.arena.block() as u64;
                let offset = u64::from(block) * length;
                let length = size.saturating_sub(offset).min(length);
                if length == 0 {
                    return done(Err(IoError::Invalid));
                }
                Wanted::Read { slot, extent: Extent { offset, length } }
            }
            DiskWork::Command { kind: CommandKind::Write, offset, fua, payload, origin, .. } => {
                let bytes = match payload {
                    Payload::Buffer(id) => self.node.buffers.get(id),
                    Payload::None | Payload::Slot(_) => None,
                };
                let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
                    return done(Err(IoError::Invalid));
                };
                let extent = Extent { offset, length: bytes.len() as u64 };
                Wanted::Write { extent, bytes, hardens: fua, origin: origin.map(origin_of) }
            }
            // Who asks writes them instead.
            DiskWork::Command { kind: CommandKind::Zero { .. }, length, .. } if length > WRITE_MAX => {
                return done(Err(IoError::NotSupported));
            }
            // Copies have no holes yet: zeroes are written.
            DiskWork::Command { kind: CommandKind::Zero { .. }, offset, length, fua, origin, .. }
                if length > 0 =>
            {
                let extent = Extent { offset, length: length.into() };
                let bytes = Bytes::new(vec![0; length as usize]);
                Wanted::Write { extent, bytes, hardens: fua, origin: origin.map(origin_of) }
            }
            // What is trimmed may stay what it was.
            DiskWork::Command { kind: CommandKind::Trim | CommandKind::Zero { .. }, fua: false, .. } => {
                return done(Ok(()));
            }
            DiskWork::Command { .. } => Wanted::Flush,
        };
        let asked = Asked { shard, op, wanted };
        self.at_home(of, move |local| local.ask_group(of, asked));
    }

    fn ask_group(self: &Rc<Self>, of: PgId, asked: Asked) {
        let now = self.node.now();
        let mut asked = Some(asked);
        self.hosted(of, |hosted| {
            let Some(asked) = asked.take() else { return };
            if hosted.group.map().is_some() && !hosted.reigns() {
                // Of a term that is over.
                hosted.parked.push(asked);
            } else {
                command(hosted, now, asked);
            }
        });
        // A group that is not here (any more) does nothing.
        if let Some(asked) = asked {
            self.disk_op_done(&asked, Err(IoError::NotAttached));
        }
        self.carry_out_wishes();
    }

    /// What a group was asked for that is not here any more.
    pub(super) fn not_attached(&self, asked: &Asked) {
        self.disk_op_done(asked, Err(IoError::NotAttached));
    }

    pub(super) fn disk_op_done(&self, asked: &Asked, result: Result<(), IoError>) {
        let (now, op) = (self.node.now(), asked.op);
        self.node.probe.disk_done(asked.shard, op, result.is_err(), now);
        self.shard(asked.shard, |state| state.handle(now, Input::DiskDone { op, result }));
    }

    /// A command of a group has ended.
    pub(super) fn group_done(
        self: &Rc<Self>,
        of: PgId,
        token: Token,
        result: Result<Option<Bytes>, CommandError>,
    ) {
        let now = self.node.now();
        if let Some(scrub) = self.hosted(of, |hosted| hosted.scrubs.remove(&token)).flatten() {
            if result.is_ok() {
                damage::answer(scrub);
            }
            return;
        }
        let ended = self.hosted(of, |hosted| {
            if result.is_err() || hosted.group.serves(now) {
                return Some((hosted.open.remove(&token)?, result));
            }
            hosted.held.push_back((token, result));
            None
        });
        if let Some((asked, result)) = ended.flatten() {
            self.end_command(of, asked, result);
        }
    }

    /// Tells results that came when the right was over, if it is there again.
    pub(super) fn tell_held(self: &Rc<Self>, of: PgId) {
        let now = self.node.now();
        let take = |hosted: &mut Hosted| {
            let serves = hosted.group.serves(now);
            let (token, result) = hosted.held.pop_front().filter(|_| serves)?;
            Some((hosted.open.remove(&token)?, result))
        };
        let serves = |hosted: &mut Hosted| hosted.group.serves(now);
        while self.hosted(of, serves) == Some(true)
            && let Some((asked, result)) = self.hosted(of, take).flatten()
        {
            self.end_command(of, asked, result);
        }
    }

    fn end_command(self: &Rc<Self>, of: PgId, asked: Asked, result: Result<Option<Bytes>, CommandError>) {
        if let (Ok(_), Wanted::Write { extent: Extent { offset, length }, .. }) = (&result, &asked.wanted) {
            let written = Operation { name: "write", offset: *offset, length: *length };
            self.node.groups.damage(of).known.was_done(&written);
        }
        let result = match (result, &asked.wanted) {
            (Err(CommandError::NotPrimary), _) => {
                self.hosted(of, |hosted| hosted.parked.push(asked));
                return self.end_if_over(of);
            }
            (Err(CommandError::InDoubt), _) => Err(IoError::OutcomeUnknown),
            (Err(CommandError::Damaged), _) => Err(IoError::Io),
            // Nobody waits for it.
            (Err(CommandError::Answered), _) => Err(IoError::NoAnswer),
            (Ok(Some(bytes)), &Wanted::Read { slot, extent }) if bytes.len() as u64 == extent.length => {
                // SAFETY: the core has made this read the slot's one user until it is told of the end.
                let slot = unsafe { self.node.arena.bytes_mut(asked.shard, slot) };
                let (read, rest) = slot.split_at_mut(bytes.len());
                read.copy_from_slice(&bytes);
                rest.fill(0);
                Traffic::add(&self.node.traffic.bytes_copied, bytes.len());
                Ok(())
            }
            (Ok(_), Wanted::Read { .. }) => Err(IoError::Io),
            (Ok(_), Wanted::Write { hardens: true, .. }) => {
                return self.ask_group(of, Asked { wanted: Wanted::Flush, ..asked });
            }
            (Ok(_), Wanted::Write { .. } | Wanted::Flush) => Ok(()),
        };
        self.disk_op_done(&asked, result);
    }

    /// This node is the group's primary, or has begun another term of its map. The core's term begins when it is known who had the
    /// volume for itself.
    pub(super) fn group_serves(self: &Rc<Self>, of: PgId) {
        let now = self.node.now();
        let serves = |hosted: &mut Hosted| Some((hosted.group.map()?.since, hosted.reigns()));
        self.hosted(of, |hosted| hosted.stopped = None);
        match self.hosted(of, serves).flatten() {
            Some((_, true)) => drop(self.hosted(of, |hosted| {
                for asked in std::mem::take(&mut hosted.parked) {
                    command(hosted, now, asked);
                }
            })),
            Some((since, false)) => self.read_exclusivity(of, since),
            None => {}
        }
    }

    /// The core's term begins: the group's map has this `since`. Earlier primaries may have taken commands up to `bytes`.
    pub(super) fn begin_reign(self: &Rc<Self>, of: PgId, since: u64, exclusivity: Exclusivity, bytes: u64) {
        let begins = |hosted: &mut Hosted| {
            let group = &hosted.group;
            Some((group.life()?, group.is_new_life(), group.outlived()))
        };
        let (Some((life, held, outlived)), Some(known)) =
            (self.hosted(of, begins).flatten(), self.node.groups.get(of))
        else {
            return;
        };
        let members = self.node.members();
        let acquainted = members
            .all()
            .filter(|(node, member)| member.state != MemberState::Left && Some(*node) != outlived);
        let (persistence, loss) = (Persistence(life), Loss::Power);
        let term = Term {
            journal: DiskJournal { volume: of, persistence, loss, held },
            cards: KnownCards::Exclusivity(exclusivity),
            acquainted: acquainted.map(|(node, _)| node).collect(),
        };
        tracing::info!(
            volume = known.record.described(),
            epoch = since,
            "this node is the primary of a mirrored volume"
        );
        self.hosted(of, |hosted| {
            (hosted.reign, hosted.noting, hosted.right) = (Some(since), None, None);
        });
        let spec = self.at_least(news::spec(&known.record, self.node.me, since), bytes);
        self.control(ControlInput::Group { spec, term: Some(term) });
        self.tell_rights();
        self.node.threads[0].post(Event::ResolveCards);
        self.end_parked(of);
    }

    /// It is it no more. What is open waits until it is again, or the core hears who is; or for `disk_wait`.
    pub(super) fn group_stopped(self: &Rc<Self>, of: PgId) {
        let now = self.node.now();
        self.hosted(of, |hosted| {
            hosted.stopped = Some(now);
            hosted.held.clear();
            hosted.scrubs.clear();
            hosted.parked.extend(std::mem::take(&mut hosted.open).into_values());
        });
        self.end_if_over(of);
    }

    fn end_if_over(self: &Rc<Self>, of: PgId) {
        if self.hosted(of, |hosted| hosted.reign.is_none()) == Some(true) {
            self.end_parked(of);
        }
    }

    /// The core's term is over: what it has asked for in it is done by nobody. Its cards ask again.
    pub(super) fn end_parked(self: &Rc<Self>, of: PgId) {
        let parked = self.hosted(of, |hosted| std::mem::take(&mut hosted.parked)).unwrap_or_default();
        for asked in parked {
            self.disk_op_done(&asked, Err(IoError::NotAttached));
        }
    }
}

/// A command as groups know it.
const fn origin_of(origin: CommandOrigin) -> Origin {
    let CommandOrigin { node, life, shard, number, oldest, first_epoch } = origin;
    let client = Client { member: Member { node, incarnation: life }, shard };
    Origin { client, request: number, oldest, first_epoch: first_epoch >> news::APART }
}

/// Gives a group a command of the core.
fn command(hosted: &mut Hosted, now: cards_core::Instant, asked: Asked) {
    let token = Token(hosted.next_token);
    hosted.next_token += 1;
    let wanted = match &asked.wanted {
        Wanted::Read { extent, .. } => Command::Read { extent: *extent },
        Wanted::Write { extent, bytes, origin, .. } => {
            Command::Write { extent: *extent, payload: bytes.clone(), origin: *origin }
        }
        Wanted::Flush => Command::Flush,
    };
    hosted.open.insert(token, asked);
    hosted.group.command(now, token, wanted);
}
