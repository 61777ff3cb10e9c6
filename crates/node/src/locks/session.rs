//! One client of the lock service: its groups, and who waits for them.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_core::Instant;
use cards_locks::{ClientOutput, GroupKey, LockClient, LockError, Part, SessionId, Want};
use tokio::sync::oneshot;

/// Who waits for a group to be granted.
pub(super) type Answer = oneshot::Sender<Result<(), LockError>>;

/// See the module's head.
pub(super) struct Session {
    pub(super) client: LockClient,
    pub(super) name: String,
    /// How long its client may be silent ...
    pub(super) ttl: Duration,
    /// ... which it is too long then.
    pub(super) expires: Instant,
    /// Its groups are being given up; it is gone when they are.
    pub(super) closing: bool,
    pub(super) last_group: u64,
    pub(super) groups: BTreeMap<u64, Group>,
    /// When it wants to be woken, as the service has noted it.
    pub(super) wake: Instant,
}

/// A group that is wanted, held or being given up.
pub(super) struct Group {
    pub(super) wants: Vec<Want>,
    pub(super) stage: Stage,
    /// Who waits until the homes know that it only reads.
    pub(super) downgraded: Vec<oneshot::Sender<()>>,
    /// Who waits until it is given up.
    pub(super) released: Vec<oneshot::Sender<()>>,
}

/// How far a group is.
pub(super) enum Stage {
    Waiting(Answer),
    Held,
    Releasing,
}

impl Group {
    pub(super) const fn new(wants: Vec<Want>, stage: Stage) -> Self {
        Self { wants, stage, downgraded: Vec::new(), released: Vec::new() }
    }
}

impl Session {
    pub(super) fn new(client: LockClient, name: String, ttl: Duration, now: Instant) -> Self {
        Self {
            client,
            name,
            ttl,
            expires: now + ttl,
            closing: false,
            last_group: 0,
            groups: BTreeMap::new(),
            wake: Instant::NEVER,
        }
    }

    /// When it wants to be woken.
    pub(super) fn next_timeout(&self) -> Instant {
        let own = if self.closing { Instant::NEVER } else { self.expires };
        self.client.next_timeout().map_or(own, |at| at.min(own))
    }

    /// What the client machine tells of a group, and who waits for that hears it. Gives the group's number if
    /// nobody is there any more to have what was granted.
    pub(super) fn tell(&mut self, output: ClientOutput) -> Option<u64> {
        match output {
            ClientOutput::Granted { group } => {
                let known = self.groups.get_mut(&group)?;
                if let Stage::Waiting(answer) = std::mem::replace(&mut known.stage, Stage::Held) {
                    return answer.send(Ok(())).is_err().then_some(group);
                }
            }
            ClientOutput::Refused { group, error } => {
                if let Some(Group { stage: Stage::Waiting(answer), .. }) = self.groups.remove(&group) {
                    // Whoever has gone does not need to know.
                    let _ = answer.send(Err(error));
                }
            }
            ClientOutput::Downgraded { group } => {
                let known = self.groups.get_mut(&group)?;
                for waits in known.downgraded.drain(..) {
                    let _ = waits.send(());
                }
            }
            ClientOutput::Lost { group } | ClientOutput::Released { group } => {
                let gone = self.groups.remove(&group);
                for waits in gone.into_iter().flat_map(|gone| gone.released) {
                    let _ = waits.send(());
                }
            }
            ClientOutput::Send { .. } => {}
        }
        None
    }
}

/// A session, for its client.
#[derive(Clone, Debug)]
pub(crate) struct SessionInfo {
    pub(crate) id: SessionId,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    /// How long it may still be silent.
    pub(crate) left: Duration,
    pub(crate) groups: Vec<GroupInfo>,
}

/// A group, for its client.
#[derive(Clone, Debug)]
pub(crate) struct GroupInfo {
    pub(crate) key: GroupKey,
    /// What was asked for.
    pub(crate) wants: Vec<Want>,
    /// How long it may be relied upon, and what it has; none while it waits or is being given up.
    pub(crate) held: Option<(Duration, Vec<Part>)>,
    pub(crate) releasing: bool,
}
