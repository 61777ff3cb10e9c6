//! Names of sessions and groups of locks, as they are given out.

use cards_client::body::ErrorKind;
use cards_core::NodeId;
use cards_locks::{GroupKey, SessionId};

use super::answer::Failure;

/// A session's name: `NODE.NUMBER`, as it was given out.
pub(super) fn session(name: &str) -> Result<SessionId, Failure> {
    let id = name.split_once('.').and_then(|(node, number)| {
        Some(SessionId { node: NodeId(node.parse().ok()?), number: u64::from_str_radix(number, 16).ok()? })
    });
    id.filter(|id| crate::locks::session_name(*id) == name).ok_or_else(|| {
        let message = format!("{:?} is no name of a session: use it as the API has given it", clip(name));
        Failure::new(ErrorKind::NoSession, message)
    })
}

/// A group's name: that of its session, and its number there.
pub(super) fn group(name: &str) -> Result<GroupKey, Failure> {
    let key = name
        .rsplit_once('.')
        .and_then(|(id, number)| Some(GroupKey { session: session(id).ok()?, group: number.parse().ok()? }));
    key.filter(|key| crate::locks::group_name(*key) == name).ok_or_else(|| {
        let message = format!("{:?} is no name of a group: use it as the API has given it", clip(name));
        Failure::new(ErrorKind::NoGroup, message)
    })
}

/// A group by its name, which begins with that of the lock session `id`.
pub(super) fn group_of(id: &str, name: &str) -> Result<GroupKey, Failure> {
    let (session, key) = (session(id)?, group(name)?);
    if key.session != session {
        let message = format!("group {name:?} is none of session {id:?}: its name begins with the session's");
        return Err(Failure::new(ErrorKind::NoGroup, message));
    }
    Ok(key)
}

/// As much of what somebody sent as can be shown.
pub(super) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_given_and_not_otherwise() {
        let id = SessionId { node: NodeId(7), number: 0xab_cdef };
        assert_eq!(session("7.abcdef").unwrap(), id);
        assert_eq!(group("7.abcdef.12").unwrap(), GroupKey { session: id, group: 12 });
        for wrong in
            ["", "7", "7.", ".a", "7.ABCDEF", "07.abcdef", "7.+abcdef", "7.abcdef.", "-7.a", "70000.a"]
        {
            assert!(session(wrong).is_err(), "{wrong}");
            assert!(group(&format!("{wrong}.1")).is_err(), "{wrong}");
        }
        for wrong in ["7.abcdef", "7.abcdef.012", "7.abcdef.-1", "7.abcdef.99999999999999999999"] {
            assert!(group(wrong).is_err(), "{wrong}");
        }
    }
}
