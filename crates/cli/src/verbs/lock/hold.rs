//! A lock that is held while a command runs, or until somebody says that it is enough.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

use cards_client::{Group, Session};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Acquire;
use super::error::LockError;
use super::show;
use crate::error::Error;
use crate::{output, signals};

/// What is printed of a lock that is held.
#[derive(Serialize)]
struct Held<'a> {
    group: &'a str,
    session: &'a str,
    token: String,
    parts: &'a [cards_client::Part],
}

pub(super) async fn run(acquire: &Acquire) -> Result<ExitCode, Error> {
    let session = acquire.api.client()?.session(&acquire.name, acquire.ttl).await?;
    let end = lock(acquire, &session).await;
    // It is over after its ttl even if the node cannot be told.
    let _ = session.close().await;
    end
}

async fn lock(acquire: &Acquire, session: &Session) -> Result<ExitCode, Error> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::EventLoop)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::EventLoop)?;
    let range = [acquire.range()];
    let group = tokio::select! {
        group = session.lock(&range, acquire.wait) => group?,
        _ = interrupt.recv() => return Ok(ended_by(libc::SIGINT)),
        _ = terminate.recv() => return Ok(ended_by(libc::SIGTERM)),
    };
    let end = match acquire.command.is_empty() {
        true => until_told(acquire, session, &group, &mut interrupt, &mut terminate).await,
        false => during_command(acquire, session, &group, &mut interrupt, &mut terminate).await,
    };
    // It goes with its session even if the node cannot be told.
    let _ = group.release().await;
    end
}

async fn until_told(
    acquire: &Acquire,
    session: &Session,
    group: &Group,
    interrupt: &mut Signal,
    terminate: &mut Signal,
) -> Result<ExitCode, Error> {
    let token = group.token().to_string();
    if acquire.json {
        let (group, parts) = (group.id(), group.parts());
        output::print_json(&Held { group, session: session.id(), token, parts })?;
    } else {
        output::print(&show::held(group.id(), session.id(), group.parts()))?;
    }
    let input = tokio::task::spawn_blocking(|| {
        let mut some = [0; 1024];
        while std::io::stdin().lock().read(&mut some).is_ok_and(|read| read > 0) {}
    });
    tokio::select! {
        () = group.lost() => Err(lost(acquire)),
        _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        _ = input => Ok(ExitCode::SUCCESS),
    }
}

async fn during_command(
    acquire: &Acquire,
    session: &Session,
    group: &Group,
    interrupt: &mut Signal,
    terminate: &mut Signal,
) -> Result<ExitCode, Error> {
    let (program, arguments) = acquire.command.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let failed = |source| LockError::Command { command: program.into(), source };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("CARDS_LOCK_TOKEN", group.token().to_string())
        .env("CARDS_LOCK_GROUP", group.id())
        .env("CARDS_LOCK_SESSION", session.id());
    // When this program is killed, nobody would know that the lock is lost.
    let mut child = signals::with_parent(&mut command, libc::SIGTERM).spawn().map_err(failed)?;
    let pid = child.id();
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    let mut is_lost = false;
    loop {
        tokio::select! {
            status = &mut ended => {
                let status = status.map_err(std::io::Error::other).and_then(|status| status).map_err(failed)?;
                return if is_lost { Err(lost(acquire)) } else { Ok(code(status)) };
            }
            () = group.lost(), if !is_lost => {
                is_lost = true;
                eprintln!("cards: the lock on {} is lost: SIGTERM to {program}", acquire.volume);
                signals::send(pid, libc::SIGTERM);
            }
            // The terminal sends it to the command as well.
            _ = interrupt.recv() => {}
            _ = terminate.recv() => signals::send(pid, libc::SIGTERM),
        }
    }
}

fn lost(acquire: &Acquire) -> Error {
    LockError::Lost { volume: acquire.volume.clone() }.into()
}

fn code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, Some(signal)) => ended_by(signal),
        (None, None) => ExitCode::FAILURE,
    }
}

fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}
