//! What a node begins with.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cards_register::{AcceptorState, Led};
use cards_wire::register::StoreState;
use tokio::sync::watch;

use crate::arbiter::{ArbiterStore, StoreProblem, beside};
use crate::error::Error;
use crate::ids::History;
use crate::kept::{Kept, Route};
use crate::record::{Damage, Head, Record};
use crate::refusal::Refusal;
use crate::registry::{Registry, Terms, records_in};
use crate::remote::{Remote, Seen};

use super::actor::{Actor, Message};
use super::lookout::{self, Found};
use super::{Local, LocalConfig, Published, Shared, courier, import, mailbox, own_route};

/// Nodes that are asked by the way of a store that is not used any more.
const OTHERS_MAX: usize = 8;

/// What a node has of a registry.
#[derive(Debug)]
pub enum Opened {
    /// It keeps a part of one, or has.
    Keeps(Local),
    /// It has a store, and nothing of a registry in it.
    Blank(Blank),
    /// It has no store.
    Missing(Blank),
}

/// A node that keeps no part of a registry yet.
#[derive(Debug)]
pub struct Blank {
    config: LocalConfig,
    store: Option<(ArbiterStore, StoreState)>,
    problem: Option<String>,
    /// Who keeps it, as was found by the way.
    kept: Kept,
    aside: Option<Aside>,
}

/// A part of a registry that was put aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Aside {
    /// Length of a lease in that registry.
    lease: Duration,
    /// Which registry it is.
    history: Option<History>,
    /// Where its members are, but for this node.
    others: Vec<Route>,
    /// What it is and what to do, for an operator.
    pub(super) says: String,
}

/// Why a part was put aside.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// It is a copy of another file.
    Copy,
    /// Others keep a later registry.
    Old,
}

impl Reason {
    /// What the name of the file ends with from then on.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Copy => ".copy",
            Self::Old => ".old",
        }
    }

    fn says(self, file: &Path, is_lone: bool) -> String {
        let (aside, moved) = (beside(file, self.suffix()), beside(file, ".moved"));
        let rename = format!("stop the daemon, rename that file to {}, and start it", moved.display());
        let remedy = match (self, is_lone) {
            (Self::Old, _) => {
                return super::outdated(&format!(
                    "others keep a later one (this one is {} now)",
                    aside.display()
                ));
            }
            (Self::Copy, true) => format!(
                "Are there other nodes that keep the registry by now, the node goes on as soon as it finds one: name one of them in \
                 [coordinator.embedded]. If this node alone keeps it, and this is its latest state, {rename}"
            ),
            (Self::Copy, false) => format!(
                "The node keeps a part of it under another name when it finds the other nodes that keep it. If the state_dirs of most of \
                 them were moved to other disks with nothing lost, do this on each: {rename}"
            ),
        };
        format!(
            "this node's part of the registry, {}, is a copy of another file, perhaps an old one, and is not used. It is {} now. {remedy}",
            file.display(),
            aside.display()
        )
    }
}

impl Aside {
    /// What was put aside at the last start for a reason, if it can be read.
    fn find(config: &LocalConfig, reason: Reason) -> Option<Self> {
        let (_, state) = ArbiterStore::open(&beside(&config.file, reason.suffix())).ok()?;
        Self::of(config, &state, reason).ok().flatten()
    }

    /// Of the state of a store; none if there is no registry in it.
    fn of(config: &LocalConfig, state: &StoreState, reason: Reason) -> Result<Option<Self>, Error> {
        let Some(accepted) = &state.accepted else { return Ok(None) };
        let (head, others) = described(&accepted.value.content.content, config)?;
        let says = reason.says(&config.file, is_lone(state));
        Ok(Some(Self { lease: head.lease(), history: head.history, others, says }))
    }
}

/// A store with a registry, and what is known of it.
struct Begun {
    store: (ArbiterStore, StoreState),
    cluster: String,
    lease: Duration,
    is_free: bool,
    problem: Option<String>,
    aside: Option<Aside>,
}

impl Local {
    /// Opens what this node has. A store that is a copy of another one is put aside, also that of the only arbiter: what it has
    /// voted for since the copy was made is not known to it, nor who may keep a later registry. An operator who knows that it is the
    /// latest state gives it the name with `.moved`.
    ///
    /// # Errors
    /// The store is damaged, or the disk refuses.
    pub async fn open(mut config: LocalConfig) -> Result<Opened, Error> {
        let (file, moved) = (&config.file, beside(&config.file, ".moved"));
        let mut opened = match ArbiterStore::open(file) {
            Ok(opened) => Some(opened),
            Err(error) if matches!(error.problem, StoreProblem::Missing) => None,
            Err(error) => return Err(error.into()),
        };
        // A copy that has never voted is worth nothing, and must not take the place of one that was put aside before.
        if let Some((store, StoreState { accepted: None, .. })) = &opened
            && store.is_copy()
        {
            store.remove()?;
            opened = None;
        }
        let has_voted = opened.as_ref().is_some_and(|(_, state)| state.accepted.is_some());
        // An operator says that it is no copy, but the store itself.
        let is_moved = !has_voted && moved.exists();
        if is_moved {
            opened = Some(ArbiterStore::open(&moved)?);
        } else if let (Some((_, state)), Ok((left, earlier))) = (&opened, ArbiterStore::open(&moved))
            && state.store == earlier.store
        {
            // The last start was interrupted before it was removed.
            left.remove()?;
        }
        let Some((mut store, state)) = opened else { return Ok(Opened::Missing(Blank::of(config, None))) };
        let Some(accepted) = &state.accepted else {
            return Ok(Opened::Blank(Blank::of(config, Some((store, state)))));
        };
        let (head, others) = described(&accepted.value.content.content, &config)?;
        let is_lone = is_lone(&state);
        if config.remote.history.is_some_and(|before| head.succeeds.contains(&before)) {
            // It was recovered at this node since.
            config.remote.history = head.history;
        }
        if is_moved {
            // Under its own name first: a power cut leaves it with at least one.
            let mut own = ArbiterStore::at(file);
            own.keep(&state)?;
            store.remove()?;
            store = own;
        } else if store.is_copy() {
            let aside = Aside::of(&config, &state, Reason::Copy)?;
            store.set_aside(Reason::Copy.suffix())?;
            return Ok(Opened::Blank(Blank::put_aside(config, aside, Kept::default())));
        }
        let own = Kept {
            history: head.history,
            version: version_of(&state),
            leader: None,
            arbiters: vec![own_route(&config)],
            changes: false,
            succeeds: head.succeeds.clone(),
        };
        let mut silent = Vec::new();
        if is_lone && !others.is_empty() {
            match lookout::look(&config.remote, &others, &own, lookout::LOOK).await {
                Found::Later(kept) => {
                    let aside = Aside::of(&config, &state, Reason::Old)?;
                    store.set_aside(Reason::Old.suffix())?;
                    return Ok(Opened::Blank(Blank::put_aside(config, aside, kept)));
                }
                Found::Silent(left) => silent = left,
            }
        }
        let seen = config.remote.seen;
        if is_lone && head.epoch < seen {
            let name = config.node.clone();
            return Err(Refusal::RegistryBehind { name, seen, epoch: head.epoch }.into());
        }
        let (cluster, lease) = (head.cluster.clone(), head.lease());
        let is_free = is_lone && is_pledged_to_nobody(&state);
        let begun = Begun { store: (store, state), cluster, lease, is_free, problem: None, aside: None };
        let local = Self::begin(config, begun)?;
        local.look_out(silent, own);
        Ok(Opened::Keeps(local))
    }

    /// Makes a new registry, of which this node is the only arbiter.
    ///
    /// # Errors
    /// There is a store already, the terms are none, or the disk refuses.
    pub fn found(config: LocalConfig, terms: &Terms) -> Result<Self, Error> {
        Self::of(config, vec![Record::Head(terms.head()?)])
    }

    /// Makes one of what the file of an earlier release has, and puts that file aside.
    ///
    /// # Errors
    /// The file is damaged, there is a store already, or the disk refuses.
    pub fn import(config: LocalConfig, file: &Path) -> Result<Self, Error> {
        let local = Self::of(config, import::earlier_records(file)?)?;
        import::put_aside(file)?;
        Ok(local)
    }

    fn of(config: LocalConfig, records: Vec<Record>) -> Result<Self, Error> {
        let mut registry =
            Registry::load(records, |_, head| head.lease()).map_err(|damage| damaged(&config, damage))?;
        registry.begin_history(History::new_id());
        let (cluster, lease) = (registry.head().cluster.clone(), registry.head().lease());
        let content = Led { leader: None, epoch: 0, content: registry.content() };
        let state = AcceptorState::founder(ArbiterStore::new_id(), content);
        let store = ArbiterStore::create(&config.file, &state)?;
        let begun =
            Begun { store: (store, state), cluster, lease, is_free: true, problem: None, aside: None };
        Self::begin(config, begun)
    }

    fn begin(config: LocalConfig, begun: Begun) -> Result<Self, Error> {
        let Begun { store: (store, state), cluster, lease, is_free, problem, aside } = begun;
        let own = own_route(&config);
        let id = state.store;
        let remote = Remote::new(config.remote.clone())?;
        let (publish, published) = watch::channel(Published::default());
        let (parcels, to_carry) = tokio::sync::mpsc::unbounded_channel();
        let (actor, messages) = mailbox::mailbox();
        let machine = Actor::new((store, state), own, lease, is_free, config.lost_after, publish, parcels);
        let thread = std::thread::Builder::new()
            .name("cards-register".into())
            .spawn(move || machine.run(&messages))
            .map_err(|error| crate::arbiter::StoreError {
                file: config.file.clone(),
                problem: StoreProblem::Disk(error),
            })?;
        tokio::spawn(courier::carry(to_carry, config.remote, published.clone(), actor.clone()));
        remote.learn(&published.borrow().kept, Seen::default());
        let shared = Shared {
            cluster,
            lease,
            store: id,
            problem,
            aside,
            actor,
            published,
            remote,
            stranger: Mutex::new(None),
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Goes on asking those that have not answered whether they know a later registry.
    fn look_out(&self, silent: Vec<Route>, own: Kept) {
        let (actor, remote) = (self.shared.actor.clone(), self.shared.remote.clone());
        tokio::spawn(async move {
            if let Some(kept) = lookout::watch(remote.config(), silent, &own).await {
                remote.learn(&kept, Seen::default());
                let _ = actor.send(Message::Outdated(kept));
            }
        });
    }
}

impl Blank {
    fn of(config: LocalConfig, store: Option<(ArbiterStore, StoreState)>) -> Self {
        let aside = [Reason::Copy, Reason::Old].into_iter().find_map(|reason| Aside::find(&config, reason));
        Self { config, store, problem: None, kept: Kept::default(), aside }.led_by_aside()
    }

    /// A node whose part was put aside just now; `kept` is who keeps a later registry, if that is known.
    fn put_aside(config: LocalConfig, aside: Option<Aside>, kept: Kept) -> Self {
        let problem = aside.as_ref().map(|aside| aside.says.clone());
        problem.iter().for_each(|problem| tracing::warn!("{problem}"));
        Self { config, store: None, problem, kept, aside }.led_by_aside()
    }

    /// What was put aside says which registry it is and whom to ask.
    fn led_by_aside(mut self) -> Self {
        if let Some(Aside { history, others, .. }) = &self.aside {
            self.kept.history = self.kept.history.or(*history);
            self.config.remote.others.extend(others.iter().take(OTHERS_MAX).cloned());
        }
        self
    }

    /// Length of a lease in the registry of which this node had a part that was put aside. Its node can answer others with a new
    /// part at once, and hear from them who keeps the registry.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.aside.as_ref().map(|aside| aside.lease)
    }

    /// How the others are reached.
    #[must_use]
    pub fn config(&self) -> &LocalConfig {
        &self.config
    }

    /// The node has a store, with nothing of a registry in it.
    #[must_use]
    pub const fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The node was found to know of others that keep the registry.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.aside.is_some() || !self.config.remote.others.is_empty() || !self.kept.arbiters.is_empty()
    }

    /// Who keeps the registry, as was found when the store was opened.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Has this node keep a part of the registry as soon as it is asked to. Leases there have this length.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn enlist(self, lease: Duration) -> Result<Local, Error> {
        let Self { config, store, problem, kept, aside } = self;
        let is_free = store.is_none();
        let store = match store {
            Some(store) => store,
            None => {
                let state = AcceptorState::blank(ArbiterStore::new_id());
                (ArbiterStore::create(&config.file, &state)?, state)
            }
        };
        let cluster = config.remote.cluster.clone();
        let local = Local::begin(config, Begun { store, cluster, lease, is_free, problem, aside })?;
        local.shared.remote.learn(&kept, Seen::default());
        Ok(local)
    }

    /// The same of one that makes a new registry.
    ///
    /// # Errors
    /// As [`Local::found`].
    pub fn found(self, terms: &Terms) -> Result<Local, Error> {
        Local::found(self.config, terms)
    }

    /// The same of one that has that of an earlier release.
    ///
    /// # Errors
    /// As [`Local::import`].
    pub fn import(self, file: &Path) -> Result<Local, Error> {
        Local::import(self.config, file)
    }
}

/// Whether a store is the only arbiter, by what it says.
fn is_lone(state: &StoreState) -> bool {
    let accepted = state.accepted.as_ref();
    accepted.is_some_and(|accepted| accepted.value.arbiters.stores().all(|one| one == state.store))
}

/// Whether no other node can be in its term, if the store is the only arbiter. One that another leader has made the only one a moment
/// ago is pledged to that.
fn is_pledged_to_nobody(state: &StoreState) -> bool {
    let leader = state.accepted.as_ref().and_then(|accepted| accepted.value.content.leader);
    leader.is_none_or(|leader| leader == state.store)
}

/// The version of the value that a store has.
fn version_of(state: &StoreState) -> u64 {
    state.accepted.as_ref().map_or(0, |accepted| accepted.value.version)
}

fn damaged(config: &LocalConfig, damage: Damage) -> Error {
    crate::error::FileError::Record { file: config.file.clone(), damage }.into()
}

/// The head of a registry, and where its members are but for this one.
fn described(content: &[u8], config: &LocalConfig) -> Result<(Head, Vec<Route>), Error> {
    let mut head = None;
    let mut others = Vec::new();
    for record in records_in(content).map_err(|damage| damaged(config, damage))? {
        match record {
            Record::Head(found) => head = Some(found),
            Record::Member(member) if member.name != config.node && member.state.is_live() => {
                others.push(Route { node: member.name, address: member.address });
            }
            _ => {}
        }
    }
    let missing = || Damage { key: crate::record::HEAD.to_owned(), problem: "is missing".to_owned() };
    Ok((head.ok_or_else(|| damaged(config, missing()))?, others))
}

#[cfg(test)]
mod tests {
    use cards_register::StoreId;

    use super::*;

    #[test]
    fn the_only_arbiter_is_pledged_to_nobody_unless_another_node_has_led_last() {
        let led = |leader| Led { leader, epoch: 3, content: Vec::new() };
        let state = |leader| AcceptorState::founder(StoreId(1), led(leader));
        assert!(is_pledged_to_nobody(&state(None)));
        assert!(is_pledged_to_nobody(&state(Some(StoreId(1)))));
        assert!(!is_pledged_to_nobody(&state(Some(StoreId(2)))));
    }
}
