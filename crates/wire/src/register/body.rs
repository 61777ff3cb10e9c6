//! The fields of a body.

use std::collections::BTreeSet;

use cards_register::{
    ARBITERS_MAX, Accepted, AcceptorState, Arbiters, Ballot, Led, ProposerId, Reply, ReplyBody, Request,
    RequestBody, StoreId, Value,
};

use super::{CONTENT_BYTES_MAX, RegisterError};
use crate::bytes::Cursor;

const PREPARE: u8 = 1;
const ACCEPT: u8 = 2;
const CONFIRM: u8 = 3;
const RELEASE: u8 = 4;
const PROMISE: u8 = 1;
const VOTE: u8 = 2;
const REJECT: u8 = 3;
const STRANGER: u8 = 4;
const CONFIRMED: u8 = 5;

/// A body that is being written.
#[derive(Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn request(&mut self, request: &Request<Led<Vec<u8>>>) -> Result<(), RegisterError> {
        self.store(request.store);
        match &request.body {
            RequestBody::Prepare(ballot) => {
                self.0.push(PREPARE);
                self.ballot(*ballot);
                Ok(())
            }
            RequestBody::Accept(accepted) => {
                self.0.push(ACCEPT);
                self.accepted(accepted)
            }
            RequestBody::Confirm { ballot, number } => {
                self.0.push(CONFIRM);
                self.ballot(*ballot);
                self.0.extend_from_slice(&number.to_le_bytes());
                Ok(())
            }
            RequestBody::Release(ballot) => {
                self.0.push(RELEASE);
                self.ballot(*ballot);
                Ok(())
            }
        }
    }

    pub(super) fn reply(&mut self, reply: &Reply<Led<Vec<u8>>>) -> Result<(), RegisterError> {
        self.store(reply.store);
        match &reply.body {
            ReplyBody::Promise { ballot, accepted } => {
                self.0.push(PROMISE);
                self.ballot(*ballot);
                self.perhaps(accepted.as_ref())?;
            }
            ReplyBody::Accept { ballot } => {
                self.0.push(VOTE);
                self.ballot(*ballot);
            }
            ReplyBody::Confirm { ballot, number } => {
                self.0.push(CONFIRMED);
                self.ballot(*ballot);
                self.0.extend_from_slice(&number.to_le_bytes());
            }
            ReplyBody::Reject { ballot, promised } => {
                self.0.push(REJECT);
                self.ballot(*ballot);
                self.ballot(*promised);
            }
            ReplyBody::Stranger { asked } => {
                self.0.push(STRANGER);
                self.store(*asked);
            }
        }
        Ok(())
    }

    pub(super) fn state(&mut self, state: &AcceptorState<Led<Vec<u8>>>) -> Result<(), RegisterError> {
        self.store(state.store);
        self.ballot(state.promised);
        self.perhaps(state.accepted.as_ref())
    }

    fn perhaps(&mut self, accepted: Option<&Accepted<Led<Vec<u8>>>>) -> Result<(), RegisterError> {
        self.0.push(u8::from(accepted.is_some()));
        accepted.map_or(Ok(()), |accepted| self.accepted(accepted))
    }

    fn accepted(&mut self, accepted: &Accepted<Led<Vec<u8>>>) -> Result<(), RegisterError> {
        let Accepted { ballot, value } = accepted;
        let Led { leader, epoch, content } = &value.content;
        if content.len() > CONTENT_BYTES_MAX {
            return Err(RegisterError::Field("content"));
        }
        self.ballot(*ballot);
        self.0.extend_from_slice(&value.version.to_le_bytes());
        self.ballot(value.origin);
        self.stores(value.arbiters.current());
        self.stores(value.arbiters.next());
        self.0.push(u8::from(leader.is_some()));
        leader.iter().for_each(|leader| self.store(*leader));
        self.0.extend_from_slice(&epoch.to_le_bytes());
        self.0.extend_from_slice(&(content.len() as u32).to_le_bytes());
        self.0.extend_from_slice(content);
        Ok(())
    }

    fn ballot(&mut self, ballot: Ballot) {
        for number in [ballot.round, ballot.proposer.0, ballot.step] {
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn store(&mut self, store: StoreId) {
        self.0.extend_from_slice(&store.0.to_le_bytes());
    }

    fn stores(&mut self, stores: &BTreeSet<StoreId>) {
        // At most `ARBITERS_MAX`.
        self.0.push(stores.len() as u8);
        stores.iter().for_each(|store| self.store(*store));
    }
}

/// A body that is being read.
pub(super) struct Fields<'a>(Cursor<'a>);

impl<'a> Fields<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self(Cursor::new(body))
    }

    pub(super) fn end(&self) -> Result<(), RegisterError> {
        match self.0.rest().len() {
            0 => Ok(()),
            more => Err(RegisterError::Rest(more)),
        }
    }

    pub(super) fn request(&mut self) -> Result<Request<Led<Vec<u8>>>, RegisterError> {
        let store = self.store()?;
        let body = match self.byte("kind of request")? {
            PREPARE => RequestBody::Prepare(self.ballot()?),
            ACCEPT => RequestBody::Accept(self.accepted()?),
            CONFIRM => RequestBody::Confirm { ballot: self.ballot()?, number: self.number("number")? },
            RELEASE => RequestBody::Release(self.ballot()?),
            _ => return Err(RegisterError::Field("kind of request")),
        };
        Ok(Request { store, body })
    }

    pub(super) fn reply(&mut self) -> Result<Reply<Led<Vec<u8>>>, RegisterError> {
        let store = self.store()?;
        let body = match self.byte("kind of reply")? {
            PROMISE => ReplyBody::Promise { ballot: self.ballot()?, accepted: self.perhaps()? },
            VOTE => ReplyBody::Accept { ballot: self.ballot()? },
            REJECT => ReplyBody::Reject { ballot: self.ballot()?, promised: self.ballot()? },
            CONFIRMED => ReplyBody::Confirm { ballot: self.ballot()?, number: self.number("number")? },
            STRANGER => ReplyBody::Stranger { asked: self.store()? },
            _ => return Err(RegisterError::Field("kind of reply")),
        };
        Ok(Reply { store, body })
    }

    pub(super) fn state(&mut self) -> Result<AcceptorState<Led<Vec<u8>>>, RegisterError> {
        let (store, promised, accepted) = (self.store()?, self.ballot()?, self.perhaps()?);
        if accepted.as_ref().is_some_and(|accepted| accepted.ballot > promised) {
            return Err(RegisterError::Field("promise"));
        }
        Ok(AcceptorState { store, promised, accepted })
    }

    fn perhaps(&mut self) -> Result<Option<Accepted<Led<Vec<u8>>>>, RegisterError> {
        match self.byte("mark of a value")? {
            0 => Ok(None),
            1 => self.accepted().map(Some),
            _ => Err(RegisterError::Field("mark of a value")),
        }
    }

    fn accepted(&mut self) -> Result<Accepted<Led<Vec<u8>>>, RegisterError> {
        let (ballot, version, origin) = (self.ballot()?, self.number("version")?, self.ballot()?);
        if origin > ballot {
            return Err(RegisterError::Field("origin"));
        }
        let arbiters = self.arbiters()?;
        let leader = match self.byte("mark of a leader")? {
            0 => None,
            1 => Some(self.store()?),
            _ => return Err(RegisterError::Field("mark of a leader")),
        };
        let epoch = self.number("epoch")?;
        let length = self.0.le32().ok_or(RegisterError::Field("length of the content"))? as usize;
        if length > CONTENT_BYTES_MAX {
            return Err(RegisterError::Field("length of the content"));
        }
        let content = self.0.take(length).ok_or(RegisterError::Field("content"))?.to_vec();
        let content = Led { leader, epoch, content };
        Ok(Accepted { ballot, value: Value { version, origin, arbiters, content } })
    }

    fn arbiters(&mut self) -> Result<Arbiters, RegisterError> {
        let (current, next) = (self.stores()?, self.stores()?);
        let none = |_| RegisterError::Field("set of arbiters");
        let arbiters = Arbiters::new(current).map_err(none)?;
        if next.is_empty() { Ok(arbiters) } else { arbiters.changing_to(next).map_err(none) }
    }

    fn stores(&mut self) -> Result<BTreeSet<StoreId>, RegisterError> {
        let count = self.byte("number of arbiters")?;
        if usize::from(count) > ARBITERS_MAX {
            return Err(RegisterError::Field("number of arbiters"));
        }
        let mut stores = BTreeSet::new();
        for _ in 0..count {
            let store = self.store()?;
            if stores.last().is_some_and(|last| *last >= store) {
                return Err(RegisterError::Field("order of arbiters"));
            }
            stores.insert(store);
        }
        Ok(stores)
    }

    fn ballot(&mut self) -> Result<Ballot, RegisterError> {
        let (round, proposer, step) =
            (self.number("ballot")?, self.number("ballot")?, self.number("ballot")?);
        Ok(Ballot { round, proposer: ProposerId(proposer), step })
    }

    fn store(&mut self) -> Result<StoreId, RegisterError> {
        self.0.array().map(u128::from_le_bytes).map(StoreId).ok_or(RegisterError::Field("store"))
    }

    fn number(&mut self, what: &'static str) -> Result<u64, RegisterError> {
        self.0.le64().ok_or(RegisterError::Field(what))
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, RegisterError> {
        self.0.byte().ok_or(RegisterError::Field(what))
    }
}
