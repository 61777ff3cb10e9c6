//! A group's questions to the registry: asked by the thread that drives the group, and answered by the one that talks to the
//! coordinator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cards_array::group::{Answer, Map};
use cards_coordinator::{Coordinator, GroupRegister};
use cards_core::PgId;
use tokio::sync::Mutex;

use crate::node::Local;
use crate::node::membership::Order;

/// The registers of all groups of which this node has a column.
#[derive(Default)]
pub(crate) struct Registers(RefCell<BTreeMap<PgId, Rc<Mutex<GroupRegister>>>>);

impl Registers {
    /// Reads a map, or proposes one. In the order in which that is asked for.
    pub(crate) async fn ask(&self, registry: &Coordinator, of: PgId, proposal: Option<Map>) -> Answer {
        let register = Rc::clone(
            self.0
                .borrow_mut()
                .entry(of)
                .or_insert_with(|| Rc::new(Mutex::new(GroupRegister::new(registry.clone(), of.0)))),
        );
        let mut register = register.lock().await;
        match &proposal {
            None => register.read().await,
            Some(map) => register.propose(map).await,
        }
    }
}

impl Local {
    /// Asks the registry for a group.
    pub(super) fn ask_register(self: &Rc<Self>, of: PgId, proposal: Option<Map>) {
        let home = self.home();
        let Some(begun) = self.groups.borrow().get(&of).map(|hosted| hosted.begun) else { return };
        let done = move |answer| {
            home.call(move |local| local.same_group(of, begun, |group, now| group.register(now, answer)));
        };
        let order = Order::Register { of, proposal: proposal.map(Box::new), done: Box::new(done) };
        if let Err(Order::Register { done, .. }) = self.node.membership.order(order) {
            done(Answer::Unknown);
        }
    }
}
