//! The state machine: bytes in, bytes and questions out.

use std::mem;

use super::option::{BASE_ALLOCATION_ID, InfoRequest, MetaRequest, Replies, name};
use super::{Closed, MAX_OPTION, MAX_OPTIONS, Question, Ready, Step, Tls};
use crate::bytes::{Cursor, fill};
use crate::nbd::consts::*;
use crate::nbd::export::{ExportInfo, Refusal, Session};
use crate::nbd::{MAX_PAYLOAD, MAX_STRING};

/// Bytes of an option before its payload.
const OPTION_HEADER: usize = 16;
/// Zeroes after the answer to `NBD_OPT_EXPORT_NAME`, for clients that did not decline them.
const EXPORT_NAME_ZEROES: usize = 124;

/// One handshake with one client. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Handshake {
    state: State,
    /// Bytes of the element under way: flags, an option's header, or its payload.
    partial: Vec<u8>,
    out: Vec<u8>,
    tls: Tls,
    /// What is received comes through TLS.
    sealed: bool,
    client_flags: u32,
    options: u32,
    structured_replies: bool,
    /// The export for which `base:allocation` was selected last.
    base_allocation: Option<String>,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Header,
    Payload { option: u32, length: usize },
    StartTls,
    Asked(Pending),
    Ready(Box<Ready>),
    Closed(Closed),
}

/// The option that waits for an answer.
#[derive(Debug)]
enum Pending {
    List,
    Info(InfoRequest),
    Go(InfoRequest),
    ExportName(String),
    ListMeta(MetaRequest),
    SetMeta(MetaRequest),
}

impl Pending {
    fn option(&self) -> u32 {
        match self {
            Pending::List => NBD_OPT_LIST,
            Pending::Info(_) => NBD_OPT_INFO,
            Pending::Go(_) => NBD_OPT_GO,
            Pending::ExportName(_) => NBD_OPT_EXPORT_NAME,
            Pending::ListMeta(_) => NBD_OPT_LIST_META_CONTEXT,
            Pending::SetMeta(_) => NBD_OPT_SET_META_CONTEXT,
        }
    }

    fn question(&self) -> Question {
        match self {
            Pending::List => Question::List,
            Pending::Info(request) => Question::Describe(request.export.clone()),
            Pending::ListMeta(request) | Pending::SetMeta(request) => {
                Question::Describe(request.export.clone())
            }
            Pending::Go(request) => Question::Open(request.export.clone()),
            Pending::ExportName(name) => Question::Open(name.clone()),
        }
    }
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

impl Handshake {
    /// A handshake with a client that has just connected; the greeting is ready to be sent. There is no TLS.
    pub fn new() -> Self {
        Self::with(Tls::Never)
    }

    /// The same, with TLS or without.
    pub fn with(tls: Tls) -> Self {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&INIT_PASSWD.to_be_bytes());
        out.extend_from_slice(&OPTS_MAGIC.to_be_bytes());
        out.extend_from_slice(&(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES).to_be_bytes());
        Self {
            state: State::ClientFlags,
            partial: Vec::new(),
            out,
            tls,
            sealed: false,
            client_flags: 0,
            options: 0,
            structured_replies: false,
            base_allocation: None,
        }
    }

    /// The bytes to send now.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Reports that the first `bytes` of [`output`](Self::output) were sent.
    ///
    /// # Panics
    /// If that is more than there was.
    pub fn sent(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    /// Goes on as far as possible with what has been received, taking from the front of `input` what it uses:
    /// after [`Step::Ready`] the rest belongs to the requests. Call it again after every step but the last
    /// two; a question that is still open is asked again.
    pub fn advance(&mut self, input: &mut &[u8]) -> Step {
        loop {
            if !self.out.is_empty() {
                return Step::Send;
            }
            let want = match &self.state {
                State::ClientFlags => 4,
                State::Header => OPTION_HEADER,
                State::Payload { length, .. } => *length,
                // Whoever is in between has sent it, to have it taken for what the client says later (CVE-2021-3716).
                State::StartTls if !input.is_empty() => {
                    self.state = State::Closed(Closed::Injected);
                    continue;
                }
                State::StartTls => return Step::StartTls,
                State::Asked(pending) => return Step::Ask(pending.question()),
                State::Ready(ready) => return Step::Ready(ready.clone()),
                State::Closed(reason) => return Step::Closed(reason.clone()),
            };
            if !fill(&mut self.partial, want, input) {
                return Step::Receive;
            }
            let element = mem::take(&mut self.partial);
            self.state = match self.state {
                State::Payload { option, .. } => self.option(option, &element),
                State::Header => self.header(&element),
                _ => self.client_flags(&element),
            };
        }
    }

    /// TLS has begun, after [`Step::StartTls`]: what is received from now on has come through it. Nothing that was
    /// negotiated before is kept but the client's flags, which are not sent again.
    ///
    /// # Panics
    /// If it was not to begin.
    pub fn secured(&mut self) {
        assert!(matches!(self.state, State::StartTls), "TLS begins where it was asked for");
        let (client_flags, options) = (self.client_flags, self.options);
        let fresh =
            Self { sealed: true, state: State::Header, client_flags, options, ..Self::with(self.tls) };
        *self = Self { out: Vec::new(), ..fresh };
    }

    /// Answers [`Question::List`] with names and descriptions.
    ///
    /// # Panics
    /// If that is not the open question.
    pub fn answer_list<'a>(&mut self, exports: impl IntoIterator<Item = (&'a str, &'a str)>) {
        assert!(matches!(self.state, State::Asked(Pending::List)), "a list was answered but not asked for");
        let mut replies = Replies { out: &mut self.out, option: NBD_OPT_LIST };
        for (name, description) in exports {
            replies.server(name, description);
        }
        replies.ack();
        self.state = State::Header;
    }

    /// Answers [`Question::Describe`] or [`Question::Open`].
    ///
    /// # Panics
    /// If neither is the open question.
    pub fn answer_export(&mut self, answer: Result<ExportInfo, Refusal>) {
        let pending = match mem::replace(&mut self.state, State::Header) {
            State::Asked(pending) if !matches!(pending, Pending::List) => pending,
            state => panic!("an export was answered but not asked for (state {state:?})"),
        };
        self.state = match answer {
            Ok(info) => self.accept(pending, info),
            Err(refusal) => self.refuse(&pending, refusal),
        };
    }

    fn client_flags(&mut self, element: &[u8]) -> State {
        let flags = Cursor::new(element).be32().unwrap_or_default();
        if flags & !(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES) != 0 {
            return State::Closed(Closed::ClientFlags(flags));
        }
        self.client_flags = flags;
        State::Header
    }

    fn header(&mut self, element: &[u8]) -> State {
        let mut cursor = Cursor::new(element);
        let (Some(magic), Some(option), Some(length)) = (cursor.be64(), cursor.be32(), cursor.be32()) else {
            return State::Header;
        };
        self.options += 1;
        if magic != OPTS_MAGIC {
            return State::Closed(Closed::Magic(magic));
        }
        if option != NBD_OPT_EXPORT_NAME && self.client_flags & NBD_FLAG_C_FIXED_NEWSTYLE == 0 {
            return State::Closed(Closed::NotFixedNewstyle(option));
        }
        if self.options > MAX_OPTIONS {
            return State::Closed(Closed::TooManyOptions);
        }
        if length > MAX_OPTION {
            if option != NBD_OPT_EXPORT_NAME {
                let message = format!("an option may have at most {MAX_OPTION} bytes");
                self.replies(option).error(NBD_REP_ERR_TOO_BIG, &message);
            }
            return State::Closed(Closed::OptionTooLong { option, length });
        }
        State::Payload { option, length: length as usize }
    }

    fn option(&mut self, option: u32, payload: &[u8]) -> State {
        if self.tls == Tls::Required && !self.sealed {
            match option {
                NBD_OPT_STARTTLS | NBD_OPT_ABORT => {}
                // It cannot be told.
                NBD_OPT_EXPORT_NAME => return State::Closed(Closed::NoTls),
                _ => {
                    let message =
                        "this server speaks TLS only: connect with nbds:// and the certificate of a client";
                    self.replies(option).error(NBD_REP_ERR_TLS_REQD, message);
                    return State::Header;
                }
            }
        }
        let pending = match option {
            NBD_OPT_STARTTLS if self.tls != Tls::Never => {
                if self.sealed {
                    Err("TLS has begun already")
                } else if !payload.is_empty() {
                    Err("NBD_OPT_STARTTLS has no data")
                } else {
                    self.replies(option).ack();
                    return State::StartTls;
                }
            }
            NBD_OPT_EXPORT_NAME => match name(payload) {
                Some(name) => Ok(Pending::ExportName(name)),
                None => return State::Closed(Closed::BadName),
            },
            NBD_OPT_ABORT => {
                self.replies(option).ack();
                return State::Closed(Closed::Aborted);
            }
            NBD_OPT_LIST if payload.is_empty() => Ok(Pending::List),
            NBD_OPT_LIST => Err("NBD_OPT_LIST has no data"),
            NBD_OPT_INFO | NBD_OPT_GO => match InfoRequest::parse(payload) {
                Some(request) if option == NBD_OPT_GO => Ok(Pending::Go(request)),
                Some(request) => Ok(Pending::Info(request)),
                None => {
                    Err("malformed request: expected an export name (at most 4096 bytes) and a list of kinds")
                }
            },
            NBD_OPT_STRUCTURED_REPLY if payload.is_empty() => {
                self.structured_replies = true;
                self.replies(option).ack();
                return State::Header;
            }
            NBD_OPT_STRUCTURED_REPLY => Err("NBD_OPT_STRUCTURED_REPLY has no data"),
            NBD_OPT_LIST_META_CONTEXT | NBD_OPT_SET_META_CONTEXT => self.meta(option, payload),
            _ => {
                self.replies(option).error(NBD_REP_ERR_UNSUP, "this server does not support the option");
                return State::Header;
            }
        };
        match pending {
            Ok(pending) => State::Asked(pending),
            Err(message) => {
                self.replies(option).error(NBD_REP_ERR_INVALID, message);
                State::Header
            }
        }
    }

    fn meta(&mut self, option: u32, payload: &[u8]) -> Result<Pending, &'static str> {
        let list = option == NBD_OPT_LIST_META_CONTEXT;
        if !list {
            // A new selection replaces the old one, also if it fails.
            self.base_allocation = None;
        }
        if !self.structured_replies {
            return Err("metadata contexts need structured replies; negotiate them first");
        }
        match MetaRequest::parse(payload, list) {
            Some(request) if list => Ok(Pending::ListMeta(request)),
            Some(request) => Ok(Pending::SetMeta(request)),
            None => {
                Err("malformed request: expected an export name (at most 4096 bytes) and a list of queries")
            }
        }
    }

    fn accept(&mut self, pending: Pending, info: ExportInfo) -> State {
        let option = pending.option();
        let flags = self.transmission_flags(&info);
        match pending {
            Pending::Info(request) => {
                self.replies(option).export(&info, flags, &request, MAX_PAYLOAD);
                State::Header
            }
            Pending::Go(request) => {
                self.replies(option).export(&info, flags, &request, MAX_PAYLOAD);
                self.ready(request.export, info, flags)
            }
            Pending::ExportName(name) => {
                self.out.extend_from_slice(&info.size.to_be_bytes());
                self.out.extend_from_slice(&flags.to_be_bytes());
                if !self.no_zeroes() {
                    self.out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
                }
                self.ready(name, info, flags)
            }
            Pending::ListMeta(request) => {
                let mut replies = self.replies(option);
                if request.base_allocation {
                    replies.meta_context(0); // the identifier is reserved in a list
                }
                replies.ack();
                State::Header
            }
            Pending::SetMeta(request) => {
                let mut replies = self.replies(option);
                if request.base_allocation {
                    replies.meta_context(BASE_ALLOCATION_ID);
                }
                replies.ack();
                self.base_allocation = request.base_allocation.then_some(request.export);
                State::Header
            }
            Pending::List => State::Header,
        }
    }

    fn refuse(&mut self, pending: &Pending, refusal: Refusal) -> State {
        if let Pending::ExportName(name) = pending {
            return State::Closed(Closed::Refused { name: name.clone(), message: refusal.message });
        }
        self.replies(pending.option()).refuse(&refusal);
        State::Header
    }

    fn ready(&mut self, export: String, info: ExportInfo, flags: u16) -> State {
        // A selection counts only for the export it was made for.
        let selected = self.base_allocation.as_ref() == Some(&export);
        let session = Session {
            size: info.size,
            flags,
            structured_replies: self.structured_replies,
            base_allocation: selected.then_some(BASE_ALLOCATION_ID),
        };
        let (client_flags, no_zeroes) = (self.client_flags, self.no_zeroes());
        State::Ready(Box::new(Ready { export, info, session, client_flags, no_zeroes }))
    }

    fn transmission_flags(&self, info: &ExportInfo) -> u16 {
        let df = if self.structured_replies { NBD_FLAG_SEND_DF } else { 0 };
        (info.flags & !NBD_FLAG_SEND_DF) | NBD_FLAG_HAS_FLAGS | df
    }

    fn no_zeroes(&self) -> bool {
        self.client_flags & NBD_FLAG_C_NO_ZEROES != 0
    }

    fn replies(&mut self, option: u32) -> Replies<'_> {
        Replies { out: &mut self.out, option }
    }
}

// A name that fits the protocol fits an option with room for its other fields.
const _: () = assert!(MAX_STRING + 256 <= MAX_OPTION as usize);
