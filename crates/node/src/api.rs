//! The HTTP API: lock groups for programs (`docs/reference/locks.md`).
//!
//! It is served on a thread of its own, which is also where the timer of the lock service runs: on a unix socket
//! that only the daemon's user may open, and, if the configuration says so, over TCP to whoever has the token.
//!
//! | file | noun |
//! |---|---|
//! | `listen` | sockets and connections |
//! | `opening` | how a connection over TCP begins |
//! | `patient` | a connection whose client must take what it is sent |
//! | `token` | who may ask over TCP |
//! | `visitors` | who may look without one |
//! | `route` | what a request asks for |
//! | `read` | the routes that change nothing |
//! | `page` | the files of the dashboard |
//! | `past` | the last hour |
//! | `map` | what is cached of a volume |
//! | `why` | the way of a read |
//! | `answer` | how it is answered |
//! | `locks` | what the lock service does for it |
//! | `spans` | traces |
//! | `ids` | names of sessions and groups of locks |
//! | `names` | what it tells, in the words of the API |

mod answer;
mod ids;
mod listen;
mod locks;
mod map;
mod names;
mod opening;
mod page;
mod past;
mod patient;
mod read;
mod route;
mod spans;
mod token;
mod visitors;
mod why;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use cards_config::Config;
use tokio::sync::Notify;

use crate::answers;
use crate::error::ServeError;
use crate::front;
use crate::history;
use crate::identity;
use crate::node::Node;
use crate::starting::Starting;

use cards_tls::Service;
use listen::{Behind, Listener};
use opening::Opening;
use token::Token;
use visitors::Hosts;

/// The sockets of the API, bound before anything of the daemon answers: whoever finds one of its doors open finds all.
pub(crate) struct Doors {
    unix: std::os::unix::net::UnixListener,
    tcp: Option<(std::net::TcpListener, Token)>,
    web: Option<std::net::TcpListener>,
}

impl Doors {
    /// Binds them. The unix socket is at [`Config::api_socket`].
    ///
    /// # Errors
    /// A socket cannot be bound or the token not be read.
    pub(crate) fn bind(config: &Config) -> Result<Self, ServeError> {
        let tcp = match &config.api {
            None => None,
            Some(api) => {
                let token = Token::read(&api.token_file)?;
                Some((front::bind_tcp("api.listen", &api.listen)?, token))
            }
        };
        let web = match &config.web {
            None => None,
            Some(web) => Some(front::bind_tcp("web.listen", &web.listen)?),
        };
        Ok(Self { unix: front::bind_unix("runtime_dir", &config.api_socket(), 0o600)?, tcp, web })
    }

    fn try_clone(&self) -> io::Result<Self> {
        let tcp = self.tcp.as_ref().map(|(tcp, token)| Ok::<_, io::Error>((tcp.try_clone()?, token.clone())));
        let web = self.web.as_ref().map(std::net::TcpListener::try_clone);
        Ok(Self { unix: self.unix.try_clone()?, tcp: tcp.transpose()?, web: web.transpose()? })
    }

    /// The sockets as they are served. Needs a runtime.
    fn listeners(self, config: &Config, own: Option<&Arc<identity::Own>>) -> io::Result<Vec<Listener>> {
        let Self { unix, tcp, web } = self;
        let service = own.map(|own| Service::for_http(own));
        let opening = |key| Opening::new(config.tls(key), service.clone());
        let tcp =
            tcp.map(|(listener, token)| Listener::tcp(listener, token, opening("api.listen"))).transpose()?;
        let hosts = Hosts::of(config);
        let web = web.map(|listener| Listener::web(listener, hosts, opening("web.listen"))).transpose()?;
        Ok([Some(Listener::unix(unix)?), tcp, web].into_iter().flatten().collect())
    }
}

/// The running API of a daemon. It ends with this value.
pub(crate) struct Server {
    thread: Option<JoinHandle<()>>,
    ended: Arc<Notify>,
}

/// Starts the thread.
///
/// # Errors
/// It cannot be had; nothing runs then.
pub(crate) fn start(node: &Arc<Node>, doors: Doors) -> Result<Server, ServeError> {
    if let Some(address) = doors.web.as_ref().map(std::net::TcpListener::local_addr).transpose()? {
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "everybody who can reach this address can look at this node: see [web]");
        }
        let _ = node.web.set(address);
    }
    let ended = Arc::new(Notify::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = {
        let _runtime = runtime.enter();
        doors.listeners(&node.config, node.identity.as_ref())?
    };
    let (node, end) = (Arc::clone(node), Arc::clone(&ended));
    let run = move || {
        runtime.block_on(async {
            for listener in listeners {
                tokio::spawn(listener.serve(Behind::Node(Arc::clone(&node))));
            }
            tokio::spawn(answers::serve(Arc::clone(&node)));
            tokio::select! {
                () = node.locks.run_timer() => {}
                () = history::keep(&node) => {}
                () = identity::keep(node.identity.as_deref()) => {}
                () = end.notified() => {}
            }
        });
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("cards-api".into()).spawn(run)?;
    Ok(Server { thread: Some(thread), ended })
}

/// Answers at the sockets while the daemon starts: with what it waits for.
///
/// # Errors
/// The thread cannot be had.
pub(crate) fn start_early(
    doors: &Doors,
    config: &Config,
    own: Option<&Arc<identity::Own>>,
    starting: &Arc<Starting>,
) -> Result<Server, ServeError> {
    let ended = Arc::new(Notify::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listeners = {
        let _runtime = runtime.enter();
        doors.try_clone()?.listeners(config, own)?
    };
    let (starting, end) = (Arc::clone(starting), Arc::clone(&ended));
    let run = move || {
        runtime.block_on(async {
            for listener in listeners {
                tokio::spawn(listener.serve(Behind::Start(Arc::clone(&starting))));
            }
            end.notified().await;
        });
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("cards-api-early".into()).spawn(run)?;
    Ok(Server { thread: Some(thread), ended })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
