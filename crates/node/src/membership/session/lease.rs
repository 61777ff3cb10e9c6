//! The lease of the membership: renewed, and begun again after it was lost.

use std::rc::Rc;
use std::time::Instant;

use cards_coordinator::{BootTime, Coordinator, Error, Lease, Refusal, WallClock};

use super::join::join;
use super::silence::{cause, clock_off, remedy};
use super::{REMIND, Session, remembered, store};
use crate::alarm::Alarm;
use crate::membership::home::RETRY;
use crate::membership::state::State;
use crate::membership::{Trouble, renewal};

/// How wrong a clock may run, in millionths: that is what the holder of a lease takes off.
pub(super) const DRIFT_PPM: u32 = 10_000;

impl Session {
    /// Lets the registry know of a key that has taken the place of another.
    pub(super) async fn certify(&self) -> Result<(), Error> {
        let key = self.own.as_ref().and_then(|own| own.shown().key());
        if *self.shown.borrow() != key {
            renewal::certify(self.own.as_deref(), &self.coordinator).await?;
            *self.shown.borrow_mut() = key;
        }
        Ok(())
    }

    /// Renews the lease three times in its length; joins again when the membership is over.
    pub(super) async fn renew(self: Rc<Self>) {
        let mut silent = false;
        let mut answered = Instant::now();
        let mut said = Instant::now();
        // What the log has last heard of a membership that is over, and when.
        let mut over: Option<Instant> = None;
        // The clock is known to be off.
        let mut off = false;
        let alarm = Alarm::new();
        loop {
            let length = self.view.borrow().lease;
            let pause = if silent { RETRY.min(length / 3) } else { length / 3 };
            tokio::select! {
                () = alarm.sleep(pause) => {}
                () = self.lost.notified() => {}
            }
            if self.left.get() {
                return;
            }
            self.tell_part();
            let seat = self.seat.borrow().clone();
            let clock = WallClock::now();
            let result = match self.certify().await {
                Ok(()) => self.coordinator.renew(&seat, clock).await,
                Err(error) => Err(error),
            };
            if matches!(result, Ok(_) | Err(Error::Refused(_))) {
                answered = Instant::now();
                if std::mem::replace(&mut silent, false) {
                    tracing::info!("the coordinator answers again");
                    self.answers.notify_one();
                }
            }
            match result {
                Ok(membership) => {
                    over = None;
                    self.own.iter().for_each(|own| own.set_refusal(None));
                    self.has_lease(membership.lease);
                    let problem = membership.applied.coordinator_clock.map(|other| clock_off(clock, other));
                    match (&problem, off) {
                        (Some(problem), false) => tracing::warn!("{problem}"),
                        (None, true) => tracing::info!("the clock of this node is right again"),
                        _ => {}
                    }
                    off = problem.is_some();
                    self.say(problem.map(Trouble::Said));
                }
                // It is no member any more, as it wished; whoever leaves must not join again by that.
                Err(Error::Refused(_)) if self.leaving.get() || self.left.get() => {}
                Err(Error::Refused(refusal)) => {
                    if let (Refusal::Revoked { .. }, Some(own)) = (&refusal, &self.own) {
                        own.set_refusal(Some(refusal.to_string()));
                    }
                    match refusal {
                        _ if over.is_some() => {}
                        Refusal::LeaseEnded { .. } => tracing::warn!(
                            "this node was silent for longer than its lease and was declared dead; it joins again by \
                             itself"
                        ),
                        _ => tracing::warn!("the membership of this node is over: {refusal}"),
                    }
                    match self.return_to_cluster().await {
                        Ok(()) => over = None,
                        Err(error) => {
                            if over.is_none_or(|said| said.elapsed() > REMIND) {
                                over = Some(Instant::now());
                                tracing::warn!("this node cannot join again: {error}");
                            }
                            self.say(Some(Trouble::Said(error)));
                        }
                    }
                }
                Err(error) => {
                    let slow = match &self.coordinator {
                        Coordinator::Local(local) => local.slow(),
                        _ => None,
                    };
                    let cause = cause(&error) + &slow.map(|slow| format!("; {slow}")).unwrap_or_default();
                    self.say(Some(Trouble::Silent {
                        coordinator: self.describe(),
                        answered,
                        cause: cause.clone(),
                        remedy: remedy(&self.coordinator),
                    }));
                    if !std::mem::replace(&mut silent, true) || said.elapsed() > REMIND {
                        said = Instant::now();
                        tracing::warn!("the coordinator {} does not answer: {cause}", self.describe());
                    }
                }
            }
        }
    }

    pub(super) fn has_lease(&self, lease: Lease) {
        self.until.set(lease.ends(DRIFT_PPM));
        self.tell_lease();
    }

    pub(super) fn tell_membership(&self) {
        if let Some(node) = &*self.node.borrow() {
            let number = self.seat.borrow().incarnation.0;
            node.membership.membership.store(number, std::sync::atomic::Ordering::SeqCst);
        }
    }

    pub(super) fn tell_lease(&self) {
        if let Some(node) = &*self.node.borrow() {
            let left = self.until.get().since(BootTime::now());
            node.locks.member_until(node.now() + left);
        }
    }

    /// The cluster has gone on without this node. Its clients go on, too: each card has its own lease.
    pub(super) async fn return_to_cluster(&self) -> Result<(), String> {
        let before = self.state.borrow().state();
        let joined = join(&self.coordinator, &self.config, &self.home, &before, None).await;
        let (seat, lease, number) = joined.map_err(|error| error.to_string())?;
        if number != self.number {
            return Err(format!(
                "the coordinator gave this node another number ({}, it had {}): it was forgotten meanwhile; restart \
                 this daemon",
                number.0, self.number.0
            ));
        }
        let remembered = remembered(&self.coordinator, State { membership: seat.incarnation.0, ..before });
        store(&mut self.state.borrow_mut(), remembered);
        *self.seat.borrow_mut() = seat;
        self.tell_membership();
        self.has_lease(lease);
        let view = self.coordinator.view().await.map_err(|error| error.to_string())?;
        tracing::info!(epoch = %view.epoch, "joined again");
        self.heard(view);
        Ok(())
    }
}
