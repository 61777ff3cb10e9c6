//! Locks for people.

use std::collections::BTreeMap;

use cards_client::body::{GroupListing, GroupState, Holding, Listing, State};
use cards_client::{Part, Range, Token};

use crate::table::{Align, Table};

/// What is listed once, though session and home know of it: group, volume, offset.
type Name = (String, String, u64);

/// A line of a table.
struct Line {
    session: String,
    length: u64,
    mode: &'static str,
    state: &'static str,
    token: Option<Token>,
}

/// All that a node knows.
pub(super) fn listing(listing: &Listing) -> String {
    let groups = listing.sessions.iter().flat_map(|session| {
        let name = if session.name.is_empty() { &session.session } else { &session.name };
        session.groups.iter().map(move |group| (name.clone(), group))
    });
    let lines = lines(groups, &listing.holdings);
    let mut text = match lines.is_empty() {
        true => "No locks that this node knows of.\n".into(),
        false => table(lines).to_string(),
    };
    if !listing.elsewhere.is_empty() {
        text += &format!("Other parts of the range are looked after by: {}\n", listing.elsewhere.join(", "));
    }
    text
}

/// All that a node knows of a group.
pub(super) fn group(shown: &GroupListing) -> String {
    let groups = shown.group.iter().map(|group| (group.session.clone(), group));
    let mut text = table(lines(groups, &shown.holdings)).to_string();
    if let Some(left_ms) = shown.group.as_ref().and_then(|group| group.left_ms) {
        text += &format!("Good for {:.1} s unless it is renewed.\n", left_ms as f64 / 1000.0);
    }
    text
}

/// A group that has just been granted.
pub(super) fn held(group: &str, session: &str, parts: &[Part]) -> String {
    let mut text = format!("group    {group}\nsession  {session}\n");
    for part in parts {
        for Range { volume, offset, length, mode } in &part.ranges {
            text += &format!("token    {} for {} of {volume} {offset}+{length}\n", part.token, mode.name());
        }
    }
    text
}

fn lines<'a>(
    groups: impl Iterator<Item = (String, &'a GroupState)>,
    holdings: &[Holding],
) -> BTreeMap<Name, Line> {
    let mut lines = BTreeMap::new();
    let mut add = |group: &str, range: &Range, session: String, state: State, token: Option<Token>| {
        let name = (group.to_owned(), range.volume.clone(), range.offset);
        let (length, mode, state) = (range.length, range.mode.name(), state.name());
        lines.insert(name, Line { session, length, mode, state, token });
    };
    for holding in holdings {
        let session = format!("{} of {}", holding.session, holding.node);
        for range in &holding.ranges {
            add(&holding.group, range, session.clone(), holding.state, holding.token.clone());
        }
    }
    for (session, group) in groups {
        if group.parts.is_empty() {
            for range in &group.ranges {
                add(&group.group, range, session.clone(), group.state, None);
            }
        }
        for (part, range) in group.parts.iter().flat_map(|part| part.ranges.iter().map(move |r| (part, r))) {
            add(&group.group, range, session.clone(), group.state, Some(part.token.clone()));
        }
    }
    lines
}

fn table(lines: BTreeMap<Name, Line>) -> Table {
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("session", Align::Left),
        ("volume", Align::Left),
        ("offset", Align::Right),
        ("length", Align::Right),
        ("mode", Align::Left),
        ("state", Align::Left),
        ("token", Align::Left),
    ]);
    for ((group, volume, offset), line) in lines {
        table.row([
            group,
            line.session,
            volume,
            offset.to_string(),
            line.length.to_string(),
            line.mode.into(),
            line.state.into(),
            line.token.map_or_else(|| "-".into(), |token| token.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use cards_client::body::SessionState;

    use super::*;

    #[test]
    fn what_session_and_home_both_know_is_listed_once() {
        let range = Range::write("disk", 4096, 512);
        let token = Token { epoch: 3, count: 9 };
        let part = Part { region: 0, ranges: vec![range.clone()], token: token.clone() };
        let held = GroupState {
            group: "0.a.1".into(),
            session: "0.a".into(),
            state: State::Held,
            left_ms: Some(2_500),
            ranges: vec![range.clone()],
            parts: vec![part],
        };
        let waits = GroupState {
            group: "0.a.2".into(),
            state: State::Waiting,
            left_ms: None,
            parts: vec![],
            ..held.clone()
        };
        let holding = |group: &str, node: &str, state, token| Holding {
            group: group.into(),
            session: group.trim_end_matches(".1").into(),
            node: node.into(),
            state,
            region: 0,
            ranges: vec![range.clone()],
            token,
        };
        let session = SessionState {
            session: "0.a".into(),
            name: "indexer".into(),
            ttl_ms: 10_000,
            left_ms: 9_000,
            keep_alive_ms: 1_000,
            groups: vec![held, waits],
        };
        let known = Listing {
            sessions: vec![session],
            holdings: vec![
                holding("0.a.1", "n1", State::Held, Some(token)),
                holding("1.b.1", "n2", State::Waiting, None),
            ],
            elsewhere: vec!["n3".into()],
        };
        let expected = [
            "  group  session    volume  offset  length  mode   state    token",
            "  0.a.1  indexer    disk      4096     512  write  held     0000000000000003-0000000000000009",
            "  0.a.2  indexer    disk      4096     512  write  waiting  -",
            "  1.b.1  1.b of n2  disk      4096     512  write  waiting  -",
            "Other parts of the range are looked after by: n3",
        ];
        assert_eq!(listing(&known).lines().collect::<Vec<_>>(), expected);
    }
}
