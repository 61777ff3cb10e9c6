//! A daemon in a process of its own, until a signal or a request ends it.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use cards_config::Config;

use super::Daemon;
use crate::error::ServeError;
use crate::service_manager::{ServiceManager, Turns};
use crate::starting::Starting;

/// How often the service manager is told what a start waits for.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Runs a daemon until SIGTERM or SIGINT, or a request over the admin socket; then drains. A second signal
/// ends the process at once.
///
/// # Errors
/// The daemon does not start.
pub fn serve(config: Config) -> Result<(), ServeError> {
    use tokio::signal::unix::{SignalKind, signal};
    let manager = ServiceManager::of_process();
    let tell = |what: &dyn Fn(&ServiceManager)| manager.iter().for_each(what);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        // Of a terminal that is closed it is the end, and else what asks daemons to read their files again.
        let has_terminal = io::stdin().is_terminal();
        let mut signal = async move || {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return libc::SIGTERM,
                    _ = interrupt.recv() => return libc::SIGINT,
                    _ = hang_up.recv() => match has_terminal {
                        true => return libc::SIGHUP,
                        false => tracing::info!(
                            "SIGHUP: files of certificates are looked at every two seconds anyhow; what else has changed is read when \
                             the daemon starts"
                        ),
                    },
                }
            }
        };
        let starting = Arc::new(Starting::new(config.clone()));
        let mut start = tokio::task::spawn_blocking({
            let starting = Arc::clone(&starting);
            move || Daemon::start_telling(config, &starting)
        });
        let mut asked = None;
        let mut turns = Turns::default();
        let period = manager.as_ref().and_then(ServiceManager::period);
        let mut watch = tokio::time::interval(period.unwrap_or(TELL_EVERY).min(TELL_EVERY));
        let daemon = loop {
            tokio::select! {
                started = &mut start => break started.map_err(io::Error::other)??,
                number = signal() => {
                    if asked.is_none() && starting.is_open() {
                        asked = Some(number);
                        continue;
                    }
                    starting.remove_sockets();
                    // It may wait for the coordinator, and then there is nothing to drain.
                    let status = if asked.is_none() { 0 } else { 128 + number };
                    tracing::info!("a signal: the daemon ends before it has served");
                    std::process::exit(status);
                }
                // A start that waits is alive.
                _ = watch.tick() => {
                    tell(&|manager| manager.starting(&starting.state().to_string()));
                    tell(&ServiceManager::alive);
                }
            }
        };
        tell(&ServiceManager::ready);
        let reason = match asked {
            Some(number) => Some(number),
            None => loop {
                tokio::select! {
                    number = signal() => break Some(number),
                    () = daemon.shutdown_requested() => break None,
                    _ = watch.tick(), if period.is_some() => {
                        if turns.all(&daemon.node.threads) {
                            tell(&ServiceManager::alive);
                        }
                    }
                }
            },
        };
        tell(&ServiceManager::stopping);
        match reason {
            Some(libc::SIGTERM) => tracing::info!("SIGTERM: draining"),
            Some(libc::SIGHUP) => tracing::info!("SIGHUP of a terminal: draining"),
            Some(_) => tracing::info!("SIGINT: draining"),
            None => tracing::info!("shutdown requested: draining"),
        }
        let drained = tokio::task::spawn_blocking(move || daemon.drain());
        tokio::select! {
            _ = drained => Ok(()),
            number = signal() => std::process::exit(128 + number),
        }
    })
}
