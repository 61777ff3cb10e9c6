//! A group of locks that is held.

use std::sync::Arc;

use crate::Error;
use crate::body::{GroupState, Part, Token};
use crate::session::Shared;

/// Locks that were granted together. When it is dropped it is released, as soon as the daemon can be told.
#[derive(Debug)]
pub struct Group {
    shared: Arc<Shared>,
    state: GroupState,
    released: bool,
}

impl Group {
    pub(crate) fn new(shared: Arc<Shared>, state: GroupState) -> Self {
        Self { shared, state, released: false }
    }

    /// Its name in the API.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.group
    }

    /// The token of its first part, by volume and offset: higher than that of every earlier group whose first
    /// part was in the same region and conflicted with this one.
    ///
    /// A group in several regions has a token for each: see [`Self::parts`]. What is stored under a lock is to be
    /// checked with the token of the region whose lock protects it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.state.parts.first().map_or(Token { epoch: 0, count: 0 }, |part| part.token.clone())
    }

    /// What it has, by volume and offset, each with its token.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.state.parts
    }

    /// Whether it may be relied upon now. What is done after the answer is done at one's own risk: storage must
    /// check the token.
    #[must_use]
    pub fn still_held(&self) -> bool {
        self.shared.until(&self.state.group).is_some_and(|until| !until.left().is_zero())
    }

    /// Waits until it may not be relied upon any more.
    pub async fn lost(&self) {
        let mut known = self.shared.subscribe();
        loop {
            let until = known.borrow_and_update().until(&self.state.group);
            let left = until.map(|until| until.left()).filter(|left| !left.is_zero());
            let Some(left) = left else { return };
            // Either end is right: the loop looks for itself.
            let _ = tokio::time::timeout(left, known.changed()).await;
        }
    }

    /// Only reads from now on what it writes: other readers may have that, too, as soon as this is ready. Its tokens
    /// stay as they are. Nothing may be written from when this is called, whatever comes of it.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses, for instance because the group is lost.
    pub async fn downgrade(&mut self) -> Result<(), Error> {
        self.state = self.shared.client.downgrade(&self.shared.id, &self.state.group).await?;
        Ok(())
    }

    /// Releases it.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses; it is free after the session's ttl then.
    pub async fn release(mut self) -> Result<(), Error> {
        self.released = true;
        self.shared.forget(&self.state.group);
        self.shared.client.release(&self.shared.id, &self.state.group).await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.shared.forget(&self.state.group);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (shared, group) = (Arc::clone(&self.shared), self.state.group.clone());
            // If it fails, the group goes with its session.
            runtime.spawn(async move { shared.client.release(&shared.id, &group).await });
        }
    }
}
