//! What a node begins with.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cards_register::{Accepted, AcceptorState, Led, Value};
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
use super::{Local, LocalConfig, Published, Shared, courier, import, own_route};

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
}

/// A store with a registry, and what is known of it.
struct Begun {
    store: (ArbiterStore, StoreState),
    cluster: String,
    lease: Duration,
    is_free: bool,
    problem: Option<String>,
}

impl Local {
    /// Opens what this node has. A store that is a copy of another one is put aside: what it has voted for since the copy was made is not
    /// known to it. If it is the only arbiter, it goes on from there under another name.
    ///
    /// # Errors
    /// The store is damaged, or the disk refuses.
    pub async fn open(config: LocalConfig) -> Result<Opened, Error> {
        let (file, moved) = (&config.file, beside(&config.file, ".moved"));
        let missing = |config: LocalConfig, problem| {
            Opened::Missing(Blank { config, store: None, problem, kept: Kept::default() })
        };
        // An operator says that it is no copy, but the store itself.
        let is_moved = !file.exists() && moved.exists();
        let from = if is_moved { &moved } else { file };
        let (mut store, mut state) = match ArbiterStore::open(from) {
            Ok(opened) => opened,
            Err(error) if matches!(error.problem, StoreProblem::Missing) => return Ok(missing(config, None)),
            Err(error) => return Err(error.into()),
        };
        let is_copy = store.is_copy() && !is_moved;
        let Some(accepted) = state.accepted.clone() else {
            if is_copy {
                store.set_aside(".copy")?;
                return Ok(missing(config, None));
            }
            let store = Some((store, state));
            return Ok(Opened::Blank(Blank { config, store, problem: None, kept: Kept::default() }));
        };
        let (head, others) = described(&accepted.value.content.content, &config)?;
        let is_lone = accepted.value.arbiters.stores().all(|one| one == state.store);
        if is_copy && !is_lone {
            let aside = store.set_aside(".copy")?;
            let problem = format!(
                "this node's part of the registry, {}, is a copy of another file, perhaps an old one, and is not used: the node keeps a \
                 part of it under another name now. It is {} now. If the state_dirs of most arbiters were moved to other disks with nothing \
                 lost, stop their daemons, rename that file to {} on each, remove {}, and start them",
                config.file.display(),
                aside.display(),
                moved.display(),
                config.file.display()
            );
            tracing::warn!("{problem}");
            let kept = Kept { history: head.history, ..Kept::default() };
            let mut config = config;
            config.remote.others.extend(others.into_iter().take(OTHERS_MAX));
            return Ok(Opened::Blank(Blank { config, store: None, problem: Some(problem), kept }));
        }
        if is_moved || is_copy {
            if is_copy {
                // An operator has brought it back. Should others count on the store that it was, they find it gone.
                tracing::warn!(
                    "{} is a copy of another file: the registry goes on from it, in a store of another name",
                    file.display()
                );
                state = again(accepted.value);
            }
            store = ArbiterStore::at(file);
            store.keep(&state)?;
        }
        if is_moved {
            let _ = std::fs::remove_file(&moved);
        }
        let mut silent = Vec::new();
        if is_lone && !others.is_empty() {
            let version = version_of(&state);
            match lookout::look(&config.remote, &others, head.history, version, lookout::LOOK).await {
                Found::Later(kept) => {
                    let aside = store.set_aside(".old")?;
                    let problem = super::outdated(&format!(
                        "others keep a later one (this one is {} now)",
                        aside.display()
                    ));
                    tracing::warn!("{problem}");
                    return Ok(Opened::Blank(Blank { config, store: None, problem: Some(problem), kept }));
                }
                Found::Silent(left) => silent = left,
            }
        }
        let seen = config.remote.seen;
        if is_lone && head.epoch < seen {
            let name = config.node.clone();
            return Err(Refusal::RegistryBehind { name, seen, epoch: head.epoch }.into());
        }
        let (history, version) = (head.history, version_of(&state));
        let (cluster, lease) = (head.cluster.clone(), head.lease());
        let is_free = is_lone && is_pledged_to_nobody(&state);
        let begun = Begun { store: (store, state), cluster, lease, is_free, problem: None };
        let local = Self::begin(config, begun)?;
        local.look_out(silent, history, version);
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
        Self::begin(config, Begun { store: (store, state), cluster, lease, is_free: true, problem: None })
    }

    fn begin(config: LocalConfig, begun: Begun) -> Result<Self, Error> {
        let Begun { store: (store, state), cluster, lease, is_free, problem } = begun;
        let own = own_route(&config);
        let id = state.store;
        let remote = Remote::new(config.remote.clone())?;
        let (publish, published) = watch::channel(Published::default());
        let (parcels, to_carry) = tokio::sync::mpsc::unbounded_channel();
        let (actor, messages) = mpsc::channel();
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
            actor,
            published,
            remote,
            stranger: Mutex::new(None),
            thread: Mutex::new(Some(thread)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Goes on asking those that have not answered whether they know a later registry.
    fn look_out(&self, silent: Vec<Route>, history: Option<History>, version: u64) {
        let (actor, remote) = (self.shared.actor.clone(), self.shared.remote.clone());
        tokio::spawn(async move {
            if let Some(kept) = lookout::watch(remote.config(), silent, history, version).await {
                remote.learn(&kept, Seen::default());
                let _ = actor.send(Message::Outdated(kept));
            }
        });
    }
}

impl Blank {
    /// How the others are reached.
    #[must_use]
    pub fn config(&self) -> &LocalConfig {
        &self.config
    }

    /// The node was found to know of others that keep the registry.
    #[must_use]
    pub fn has_others(&self) -> bool {
        !self.config.remote.others.is_empty() || !self.kept.arbiters.is_empty()
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
        let Self { config, store, problem, kept } = self;
        let is_free = store.is_none();
        let store = match store {
            Some(store) => store,
            None => {
                let state = AcceptorState::blank(ArbiterStore::new_id());
                (ArbiterStore::create(&config.file, &state)?, state)
            }
        };
        let cluster = config.remote.cluster.clone();
        let local = Local::begin(config, Begun { store, cluster, lease, is_free, problem })?;
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

/// A value as the first one of a store that is new and the only one.
fn again(value: Value<Led<Vec<u8>>>) -> StoreState {
    let store = ArbiterStore::new_id();
    let founder = AcceptorState::founder(store, Led { leader: None, ..value.content });
    let accepted = founder.accepted.map(|Accepted { ballot, value: first }| Accepted {
        ballot,
        value: Value { version: value.version + 1, ..first },
    });
    AcceptorState { accepted, ..founder }
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
