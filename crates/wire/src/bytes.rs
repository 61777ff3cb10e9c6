//! A cursor that takes numbers off the front of a slice and never reads past its end.

/// Takes fixed-size fields off the front of `rest`. Each method is `None`, and takes nothing, when too few
/// bytes are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(length)?;
        self.rest = tail;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    pub(crate) fn be16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn be32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn be64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn le16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn le32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn le64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string of the NBD protocol: a 32-bit length, then that many bytes.
    pub(crate) fn be32_prefixed(&mut self) -> Option<&'a [u8]> {
        let mut probe = *self;
        let length = usize::try_from(probe.be32()?).ok()?;
        let bytes = probe.take(length)?;
        *self = probe;
        Some(bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Moves bytes from the front of `input` to `buffer` until `buffer` holds `want` bytes; true when it does.
/// The caller has compared `want` with its limit.
pub(crate) fn fill(buffer: &mut Vec<u8>, want: usize, input: &mut &[u8]) -> bool {
    let missing = want.saturating_sub(buffer.len());
    let (head, tail) = input.split_at(missing.min(input.len()));
    buffer.extend_from_slice(head);
    *input = tail;
    buffer.len() >= want
}

/// The longest prefix of `text` that is at most `limit` bytes and ends between two characters.
pub(crate) fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefixed_string_longer_than_its_message_takes_nothing() {
        let mut cursor = Cursor::new(&[0, 0, 0, 9, b'x']);
        assert_eq!(cursor.be32_prefixed(), None);
        assert_eq!(cursor.rest().len(), 5);
    }

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clip("aé", 2), "a");
        assert_eq!(clip("aé", 3), "aé");
    }
}
