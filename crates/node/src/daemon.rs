//! The daemon from its start to its end.
//!
//! | file | noun |
//! |---|---|
//! | `disks` | disks and their journals, opened |
//! | `numbers` | the numbers of volumes, kept over restarts |
//! | `build` | a node, made of its parts |
//! | `run` | a daemon in the process of its own, until a signal ends it |

mod build;
mod disks;
mod numbers;
mod run;

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use cards_config::{Config, size};
use cards_core::NodeId;
use cards_policies::policy::normalize;

use crate::admin_server::AdminServer;
use crate::api;
use crate::credentials;
use crate::devices;
use crate::disk_watch::DiskWatch;
use crate::error::ServeError;
use crate::front;
use crate::groups;
use crate::identity;
use crate::keeper;
use crate::life::{Claim, InUse, Life};
use crate::membership::{Brought, Session};
use crate::net;
use crate::node::membership::Membership;
use crate::node::{Event, Local, Node};
use crate::starting::Starting;
use crate::thread;

use build::{Parts, build, fits_machine};
use disks::{OpenedDisk, open_disks, open_journals};

pub use disks::{examine_disk, examine_managed, object_source};
pub use run::serve;

/// A running daemon. Dropped without [`Daemon::drain`], it stops as if killed.
pub struct Daemon {
    pub(crate) node: Arc<Node>,
    threads: Vec<JoinHandle<()>>,
    journaling: Option<JoinHandle<()>>,
    disk_watch: Option<DiskWatch>,
    admin: AdminServer,
    api: Option<api::Server>,
    session: Option<Session>,
    _sockets: Sockets,
}

impl Daemon {
    /// Opens the disks, binds the sockets and starts the threads.
    ///
    /// # Errors
    /// The first thing that cannot be had; nothing runs then.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        let starting = Arc::new(Starting::new(config.clone()));
        Self::start_telling(config, &starting)
    }

    /// `starting` hears what the start waits for.
    fn start_telling(mut config: Config, starting: &Arc<Starting>) -> Result<Self, ServeError> {
        config.validate()?;
        fits_machine(config.cache)?;
        let identity = credentials::read(&config)?;
        let clients = credentials::clients(&config, identity.as_ref())?;
        let own = identity.map(|identity| identity::Own::new(identity, &config));
        let block = config.block as u32;
        for card in &config.attach {
            if let Some(policy) = &card.policy {
                let failed = |source| ServeError::Policy { what: "card", name: card.volume.clone(), source };
                normalize(&policy.to_string()).map_err(failed)?;
            }
        }
        std::fs::create_dir_all(&config.runtime_dir)
            .map_err(|source| ServeError::RuntimeDir { path: config.runtime_dir.clone(), source })?;
        let claim = Claim::take(&config.runtime_dir)
            .map_err(|InUse(holder)| ServeError::in_use(&config.runtime_dir, holder))?;
        // Before anything that the start may have to wait for: an operator can ask what it is.
        let sockets = Sockets(Arc::clone(starting));
        let admin = front::bind_unix("runtime_dir", &config.admin_socket(), 0o600)?;
        starting.sockets().push(config.admin_socket());
        let admin = AdminServer::start(admin, starting)?;
        // All that another process can have taken, before others hear of this node: they would see it die at once. They need its part of
        // the registry also while its disks are waited for.
        let listeners = bind_port(&config)?;
        let doors = api::Doors::bind(&config)?;
        starting.sockets().push(config.api_socket());
        let early = api::start_early(&doors, &config, own.as_ref(), starting)?;
        let joining = match &config.coordinator {
            None => None,
            Some(home) => Some(
                Session::begin(&config, home, own.clone(), &listeners, starting)
                    .map_err(|error| ServeError::joining(&config, error))?,
            ),
        };
        let opened = open_disks(&mut config, block, starting)?;
        let life = Life::begin(claim, &config.state_dir, &config.node);
        // Nobody gives a card up earlier than that for a life that may still be alive.
        devices::await_none(&config.runtime_dir, config.lease * 3 / 2, starting)?;
        let journals = open_journals(&config, &opened.disks, life.is_first, starting)?;
        let volumes: Vec<_> = opened.disks.iter().map(OpenedDisk::identity).collect();
        let numbers = numbers::assign(&config, &volumes, life.incarnation);
        // What another process has taken is found before others hear of this node. Until it serves, clients are refused, and do not wait without a
        // word.
        drop(front::bind(&config.nbd, &mut starting.sockets())?);
        let mut port = net::Port { listeners, registry: None };
        let (me, membership, session) = match joining {
            None => (NodeId(0), Membership::alone(&config.node), None),
            Some(joining) => {
                let brought = opened.managed.iter().map(|managed| Brought::of(managed)).collect();
                let (session, mut joined) =
                    joining.join(&config, brought).map_err(|error| ServeError::joining(&config, error))?;
                port.registry = joined.registry.take();
                (joined.number, session.membership(joined), Some(session))
            }
        };
        let endpoints = front::bind(&config.nbd, &mut starting.sockets())?;
        let node = Arc::new(build(Parts {
            config,
            identity: own,
            clients,
            me,
            membership,
            life,
            disks: opened.disks,
            numbers,
            managed: opened.managed,
            journals,
        })?);

        let mut daemon = Self {
            node,
            threads: Vec::new(),
            journaling: None,
            disk_watch: None,
            admin,
            api: None,
            session,
            _sockets: sockets,
        };
        groups::receive(&daemon.node);
        daemon.journaling = Some(keeper::start(&daemon.node)?);
        if !daemon.node.disks.is_empty() || daemon.node.membership.is_coordinated() {
            daemon.disk_watch = Some(DiskWatch::start(&daemon.node)?);
        }
        drop(early);
        starting.open();
        daemon.start_threads(port, endpoints)?;
        daemon.api = Some(api::start(&daemon.node, doors)?);
        if let Some(session) = &daemon.session {
            session.serve(&daemon.node);
        }
        daemon.say_what_runs();
        daemon.admin.serve(&daemon.node);
        Ok(daemon)
    }

    /// What runs, with what, and where: the first thing to look for in a log.
    fn say_what_runs(&self) {
        let Node { config, own, disks, .. } = &*self.node;
        tracing::info!(
            cluster = config.cluster,
            node = config.node,
            address = config.address.as_deref().unwrap_or("none"),
            nbd_unix = config.nbd.unix.as_ref().map(|path| path.display().to_string()),
            nbd_tcp = config.nbd.tcp,
            web = self.node.web.get().map(ToString::to_string),
            "cards {} runs",
            env!("CARGO_PKG_VERSION")
        );
        for (spec, disk) in own.iter().zip(disks) {
            let access = if spec.read_only { ", read-only" } else { "" };
            tracing::info!(disk = spec.name, "{disk}, {}{access}", size::human(spec.size_bytes));
        }
        for listener in config.listeners().iter().filter(|listener| listener.is_in_clear()) {
            tracing::warn!(
                "{} = {:?}: whoever is on the way of what is said there reads and changes it, {}; remove `tls` beside it",
                listener.key,
                listener.address,
                match listener.key {
                    "nbd.tcp" => "and everybody who reaches it can read and write the volumes of this node",
                    "api.listen" => "the token with it",
                    _ => "which is what this node shows of itself",
                }
            );
        }
    }

    fn start_threads(&mut self, port: net::Port, endpoints: Vec<front::Endpoint>) -> Result<(), ServeError> {
        let (ready, started) = mpsc::channel();
        let mut first = Some((port, endpoints));
        for index in 0..self.node.threads.len() {
            let (node, ready) = (Arc::clone(&self.node), ready.clone());
            let listeners = first.take();
            let thread =
                std::thread::Builder::new().name(format!("cards-data-{index}")).spawn(move || {
                    let _guard = AbortOnPanic;
                    let failed = ready.clone();
                    thread::run(
                        node,
                        index as u8,
                        |result| drop(ready.send(result)),
                        |local| {
                            let Some((port, endpoints)) = listeners else { return };
                            if let Err(error) = listen(local, port, endpoints) {
                                let _ = failed.send(Err(error));
                            }
                        },
                    );
                })?;
            self.threads.push(thread);
        }
        drop(ready);
        for result in started.iter().take(self.node.threads.len()) {
            result?;
        }
        Ok(())
    }

    /// Waits until somebody asks over the admin socket that the daemon shall end.
    pub async fn shutdown_requested(&self) {
        self.admin.shutdown_requested().await;
    }

    /// The path of the admin socket.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.node.config.admin_socket()
    }

    /// Takes no more work, finishes what is under way (for at most 10 s), and ends.
    pub fn drain(mut self) {
        self.node.draining.store(true, Ordering::SeqCst);
        self.node.threads.iter().for_each(|inbox| inbox.post(Event::Drain));
        self.join();
        keeper::close(&self.node);
    }

    /// Ends the session with the coordinator, and the coordinator if it is here.
    #[cfg(test)]
    pub(crate) fn stop_session(&mut self) {
        self.session = None;
    }

    fn join(&mut self) {
        self.api = None;
        self.disk_watch = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.node.changes.end();
        if let Some(journaling) = self.journaling.take() {
            let _ = journaling.join();
        }
        self.admin.end();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.node.threads.iter().for_each(|inbox| inbox.post(Event::Stop));
        self.join();
    }
}

/// A thread that panics has left a shard in an unknown state: the daemon must not go on serving it.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Sockets to remove at the end.
struct Sockets(Arc<Starting>);

impl Drop for Sockets {
    fn drop(&mut self) {
        self.0.remove_sockets();
    }
}

fn listen(local: &Rc<Local>, port: net::Port, endpoints: Vec<front::Endpoint>) -> io::Result<()> {
    port.open(local)?;
    front::serve(local, endpoints)?;
    local.begin();
    Ok(())
}

/// Where other nodes come: to this node's address, and at the keeper to the registry's, if that is another one.
fn bind_port(config: &Config) -> Result<Vec<std::net::TcpListener>, ServeError> {
    let own = config.address.as_deref().map(|address| ("address", address));
    let registry = config.registry_port().map(|address| ("coordinator.embedded.address", address));
    own.into_iter().chain(registry).map(|(key, address)| front::bind_tcp(key, address)).collect()
}
