//! A connection whose other end asks the registry.

use std::future::pending;
use std::pin::Pin;

use cards_tls::{Adrift, Shown};

use super::answer::Caller;

/// A connection that somebody has accepted, and who is at its other end.
pub struct Visit {
    pub(super) wire: Adrift,
    pub(super) caller: Caller,
    /// When this comes, the connection is dropped.
    pub(super) has_to_go: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Visit {
    /// Of whoever comes, where nobody proves anything.
    #[must_use]
    pub fn of_anybody(wire: Adrift) -> Self {
        Self { wire, caller: Caller::Anybody, has_to_go: Box::pin(pending()) }
    }

    /// Of a node that has shown this.
    #[must_use]
    pub fn of_node(wire: Adrift, shown: Shown) -> Self {
        Self { wire, caller: Caller::Node(shown), has_to_go: Box::pin(pending()) }
    }

    /// Of a machine that wants to be a node, and has shown nothing: it stays a stranger, and may have to make way for
    /// others. It gets a certificate if it has a token, and nothing else.
    #[must_use]
    pub fn of_machine(wire: Adrift, has_to_go: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { wire, caller: Caller::Machine, has_to_go: Box::pin(has_to_go) }
    }

    /// The same, of whoever may have to make way for others all the same.
    #[must_use]
    pub fn until(self, has_to_go: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { has_to_go: Box::pin(has_to_go), ..self }
    }
}
