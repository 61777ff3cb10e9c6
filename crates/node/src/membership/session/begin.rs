//! The first membership of a process: the registry is found, and joined when the node may.

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;

use cards_config::{Config, Coordinator as Home, Origin};
use cards_coordinator::{Coordinator, View, Visit};
use cards_tls::Identity;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::join::join;
use super::lease::DRIFT_PPM;
use super::{Joined, Session, Turn, remembered, store};
use crate::groups::Registers;
use crate::identity::Own;
use crate::membership::home::{self, Found, HomeError};
use crate::membership::patience::Patience;
use crate::membership::state::{State, StateFile};
use crate::membership::whose::{Brought, Whose};
use crate::membership::{Members, registrar, renewal};
use crate::net;
use crate::starting::Starting;

/// Ends with its owner.
struct Vestibule(JoinHandle<()>);

impl Vestibule {
    fn open(port: &[TcpListener], own: Option<&Arc<Own>>, visits: mpsc::Sender<Visit>) -> Self {
        let identity = own.map(|own| Identity::clone(own));
        let port = port.iter().filter_map(|listener| listener.try_clone().ok()).collect();
        Self(tokio::task::spawn_local(net::attend(port, identity, visits)))
    }
}

impl Drop for Vestibule {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the node may join: what it contributes is there, and in the configuration.
async fn await_turn(
    turn: &mut Option<oneshot::Receiver<Turn>>,
    config: &mut Config,
    managed: &mut Vec<Brought>,
) {
    // If it never comes, whoever would give it does not wait for the first membership any more.
    if let Some(turn) = turn.take()
        && let Ok(complete) = turn.await
    {
        (*config, *managed) = (complete.config, complete.managed);
    }
}

impl Session {
    pub(super) async fn begin(
        mut config: Config,
        home: Home,
        own: Option<Arc<Own>>,
        mut state: StateFile,
        (port, turn): (Vec<TcpListener>, oneshot::Receiver<Turn>),
        starting: &Starting,
    ) -> Result<(Rc<Self>, Joined), HomeError> {
        let before = state.state();
        let node = config.node.clone();
        let patience = Patience { home: &home, node: &node, starting, part: None };
        let identity = own.as_ref().map(|own| Identity::clone(own));
        let found = home::find(&config, &home, identity.as_ref(), &before).await?;
        let has_part = matches!(found, Found::Part(_));
        let (mut turn, mut managed) = (Some(turn), Vec::new());
        if !has_part {
            // Nobody is answered by this node yet.
            let (visits, _) = mpsc::channel(1);
            let _vestibule = Vestibule::open(&port, own.as_ref(), visits);
            await_turn(&mut turn, &mut config, &mut managed).await;
        }
        let coordinator = home::open(&config, &patience, &before, found).await?;
        let office = home::office(&config, identity.as_ref(), &coordinator)?;
        // The certificate of a keeper that was off for long may have ended, and other nodes would refuse it; and the address is not
        // known yet when the first is made.
        let address = config.address.as_deref();
        let is_old = |own: &&Arc<Own>| own.due_in().is_zero() || !own.names(address);
        if let Some(own) = own.as_ref().filter(|own| own.renews && office.is_some()).filter(is_old) {
            let _ = renewal::renew(own, address, office.as_ref(), &coordinator).await;
        }
        let registry = home::answer(&home, identity, office.clone(), &coordinator);
        let part = match &coordinator {
            Coordinator::Local(local) => Some(local.clone()),
            _ => None,
        };
        let keeps = has_part || part.as_ref().is_some_and(|local| local.kept().arbiters.len() > 1);
        let patience = Patience { part, ..patience };
        // Others cannot elect a leader without this node, perhaps, and it joins when there is one; or they tell it who keeps the registry.
        let _vestibule = registry
            .as_ref()
            .filter(|_| keeps)
            .map(|registry| Vestibule::open(&port, own.as_ref(), registry.visits.clone()));
        await_turn(&mut turn, &mut config, &mut managed).await;
        let failed = |source| HomeError::Coordinator { home: home.describe(), source };
        patience
            .wait(|| async { renewal::certify(own.as_deref(), &coordinator).await.map_err(failed) })
            .await?;
        let view = patience.wait(|| async { coordinator.view().await.map_err(failed) }).await?;
        check_disks(&view, &config, &managed)?;
        let (seat, lease, number) = patience
            .wait(|| {
                let (coordinator, config, home, before) = (&coordinator, &config, &home, &before);
                async move { join(coordinator, config, home, before, Some(starting)).await }
            })
            .await?;
        let view = patience.wait(|| async { coordinator.view().await.map_err(failed) }).await?;
        let membership = seat.incarnation.0;
        let epoch = view.epoch.0.max(before.epoch);
        store(&mut state, remembered(&coordinator, State { membership, epoch, ..before }));
        let members = Members::of(&view);
        let since = members.get(number).map_or(view.epoch.0, |me| me.since);
        tracing::info!(epoch = %view.epoch, members = view.joined().count(), "joined as member {}", number.0);
        let joined = Joined { number, membership, members, registry };
        own.iter().for_each(|own| own.revoke(view.revoked()));
        let session = Self {
            shown: RefCell::new(own.as_ref().and_then(|own| own.shown().key())),
            own,
            office,
            config,
            home,
            coordinator,
            state: RefCell::new(state),
            seat: RefCell::new(seat),
            number,
            joined: Cell::new(since),
            until: Cell::new(lease.ends(DRIFT_PPM)),
            node: RefCell::new(None),
            view: RefCell::new(view),
            look: Notify::new(),
            columns: Notify::new(),
            answers: Notify::new(),
            lost: Notify::new(),
            leaving: Cell::new(false),
            left: Cell::new(false),
            registers: Registers::default(),
        };
        Ok((Rc::new(session), joined))
    }
}

/// No live member has a disk, and the cluster no volume with copies, that is called as one of this node's.
fn check_disks(view: &View, config: &Config, managed: &[Brought]) -> Result<(), HomeError> {
    for disk in &config.disks {
        if let Some(group) = view.groups.values().find(|group| group.volume() == disk.name) {
            let nodes: Vec<&str> = group.columns.iter().map(|column| column.node.as_str()).collect();
            return Err(HomeError::VolumeElsewhere { volume: disk.name.clone(), nodes: nodes.join(", ") });
        }
        let volume = view.volumes.get(&disk.name);
        let member = volume.and_then(|volume| registrar::live_node_of(view, volume));
        if let Some(other) = member.filter(|other| other.name != config.node) {
            let (node, address) = (other.name.clone(), other.address.clone());
            let volume = disk.name.clone();
            return Err(match &disk.origin {
                Origin::Managed(path) => {
                    let brought = managed.iter().find(|brought| brought.path == *path);
                    let whose = Box::new(
                        brought.map_or(Whose::Unknown, |disk| Whose::find(view, &config.node, disk)),
                    );
                    HomeError::ManagedElsewhere { volume, disk: path.clone(), node, address, whose }
                }
                _ => HomeError::DiskElsewhere { volume, node, address },
            });
        }
    }
    Ok(())
}
