//! Options: parsing their payloads and writing their replies.

use std::str;

use super::super::MAX_STRING;
use super::super::consts::*;
use super::super::export::{ExportInfo, Refusal, RefusalKind};
use crate::bytes::{Cursor, clip};

/// The one metadata context served, and its identifier.
pub(super) const BASE_ALLOCATION: &str = "base:allocation";
pub(super) const BASE_ALLOCATION_ID: u32 = 1;

/// An export name: UTF-8 without NUL, at most [`MAX_STRING`] bytes.
pub(super) fn name(bytes: &[u8]) -> Option<String> {
    if bytes.len() > MAX_STRING || bytes.contains(&0) {
        return None;
    }
    str::from_utf8(bytes).ok().map(str::to_owned)
}

/// The payload of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InfoRequest {
    pub(super) export: String,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
}

impl InfoRequest {
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let export = name(cursor.be32_prefixed()?)?;
        let mut request = Self { export, wants_name: false, wants_description: false };
        for _ in 0..cursor.be16()? {
            match cursor.be16()? {
                NBD_INFO_NAME => request.wants_name = true,
                NBD_INFO_DESCRIPTION => request.wants_description = true,
                // Size, flags and block sizes are always sent; unknown kinds are to be ignored.
                _ => {}
            }
        }
        cursor.is_empty().then_some(request)
    }
}

/// The payload of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetaRequest {
    pub(super) export: String,
    /// `base:allocation` is among what the queries match.
    pub(super) base_allocation: bool,
}

impl MetaRequest {
    /// `list`: a missing query and `base:` match everything; to select, a context must be named in full.
    pub(super) fn parse(payload: &[u8], list: bool) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let export = name(cursor.be32_prefixed()?)?;
        let queries = cursor.be32()?;
        let mut base_allocation = list && queries == 0;
        // Each query takes four bytes or more of the payload, so this ends however many are announced.
        for _ in 0..queries {
            let query = cursor.be32_prefixed()?;
            base_allocation |= query == BASE_ALLOCATION.as_bytes() || (list && query == b"base:");
        }
        cursor.is_empty().then_some(Self { export, base_allocation })
    }
}

/// Appends option replies to an output buffer.
pub(super) struct Replies<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) option: u32,
}

impl Replies<'_> {
    pub(super) fn ack(&mut self) {
        self.reply(NBD_REP_ACK, &[]);
    }

    pub(super) fn error(&mut self, kind: u32, message: &str) {
        self.reply(kind, &[clip(message, MAX_STRING).as_bytes()]);
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        let kind = match refusal.kind {
            RefusalKind::Unknown => NBD_REP_ERR_UNKNOWN,
            RefusalKind::Policy => NBD_REP_ERR_POLICY,
            RefusalKind::Shutdown => NBD_REP_ERR_SHUTDOWN,
        };
        self.error(kind, &refusal.message);
    }

    pub(super) fn server(&mut self, name: &str, description: &str) {
        let name = clip(name, MAX_STRING);
        let length = (name.len() as u32).to_be_bytes();
        self.reply(NBD_REP_SERVER, &[&length, name.as_bytes(), clip(description, MAX_STRING).as_bytes()]);
    }

    pub(super) fn meta_context(&mut self, id: u32) {
        self.reply(NBD_REP_META_CONTEXT, &[&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()]);
    }

    /// Everything asked for about an export, and its acknowledgement. `flags` are the final ones.
    pub(super) fn export(&mut self, info: &ExportInfo, flags: u16, request: &InfoRequest, max_block: u32) {
        let kind = |kind: u16| kind.to_be_bytes();
        self.reply(NBD_REP_INFO, &[&kind(NBD_INFO_EXPORT), &info.size.to_be_bytes(), &flags.to_be_bytes()]);
        if request.wants_name {
            self.reply(NBD_REP_INFO, &[&kind(NBD_INFO_NAME), clip(&info.name, MAX_STRING).as_bytes()]);
        }
        if request.wants_description && !info.description.is_empty() {
            let description = clip(&info.description, MAX_STRING);
            self.reply(NBD_REP_INFO, &[&kind(NBD_INFO_DESCRIPTION), description.as_bytes()]);
        }
        self.reply(
            NBD_REP_INFO,
            &[
                &kind(NBD_INFO_BLOCK_SIZE),
                &1u32.to_be_bytes(),
                &info.preferred_block.to_be_bytes(),
                &max_block.to_be_bytes(),
            ],
        );
        self.ack();
    }

    fn reply(&mut self, kind: u32, parts: &[&[u8]]) {
        // Every part is a number or a string clipped to MAX_STRING, so the sum fits the field.
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.out.extend_from_slice(&REP_MAGIC.to_be_bytes());
        self.out.extend_from_slice(&self.option.to_be_bytes());
        self.out.extend_from_slice(&kind.to_be_bytes());
        self.out.extend_from_slice(&(length as u32).to_be_bytes());
        for part in parts {
            self.out.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut out = (name.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&(queries.len() as u32).to_be_bytes());
        for query in queries {
            out.extend_from_slice(&(query.len() as u32).to_be_bytes());
            out.extend_from_slice(query.as_bytes());
        }
        out
    }

    #[test]
    fn listing_matches_widely_and_selecting_exactly() {
        let matches =
            |queries: &[&str], list| MetaRequest::parse(&meta("x", queries), list).unwrap().base_allocation;
        assert!(matches(&[], true));
        assert!(!matches(&[], false));
        assert!(matches(&["base:"], true));
        assert!(!matches(&["base:"], false));
        assert!(matches(&["qemu:dirty", "base:allocation"], false));
    }

    #[test]
    fn announced_counts_beyond_the_payload_are_malformed() {
        let mut payload = meta("x", &["base:allocation"]);
        payload[5..9].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(MetaRequest::parse(&payload, false), None);
        assert_eq!(InfoRequest::parse(&[0, 0, 0, 0, 0xff, 0xff]), None);
        assert_eq!(InfoRequest::parse(&[0xff, 0xff, 0xff, 0xff, b'x', 0, 0]), None);
    }

    #[test]
    fn names_are_utf8_without_nul_and_bounded() {
        assert_eq!(name(b"disk").as_deref(), Some("disk"));
        assert_eq!(name(b"di\0sk"), None);
        assert_eq!(name(&[0xff]), None);
        assert!(name(&[b'x'; MAX_STRING]).is_some());
        assert_eq!(name(&[b'x'; MAX_STRING + 1]), None);
    }
}
