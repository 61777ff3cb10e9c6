//! The story of a run: what its trace says of one volume, or of one node, so that a person can read it.
//!
//! A trace has a line for each input and output of each core. Here what every shard of a node is told is one line, a
//! message is one line where it is sent and one where it arrives, and what a client asks for is not told again by the
//! core that gets it.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

/// Lines of a story that is not asked for in full.
pub(super) const LAST: usize = 24;

/// A longer line is cut.
const LINE_MAX: usize = 200;

/// A volume (`v0.1`) or a node (`n2`), as traces name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct About(String);

impl About {
    /// The first volume that `text` names; else the first node.
    pub(super) fn named_in(text: &str) -> Option<Self> {
        let named: Vec<&str> = words(text).filter(|word| parse(word).is_ok()).collect();
        let first = named.iter().find(|word| word.starts_with('v')).or(named.first())?;
        Some(Self((*first).to_owned()))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    fn is_node(&self) -> bool {
        self.0.starts_with('n')
    }
}

/// What [`About`] can be.
pub(super) fn parse(text: &str) -> Result<About, String> {
    let number = |text: &str| text.parse::<u16>().is_ok();
    let is_one = match text.split_at_checked(1) {
        Some(("v", rest)) => rest.split_once('.').is_some_and(|(node, disk)| number(node) && number(disk)),
        Some(("n", rest)) => number(rest),
        _ => false,
    };
    if is_one {
        Ok(About(text.to_owned()))
    } else {
        Err(format!("`{text}` is neither a volume, like v0.1, nor a node, like n2"))
    }
}

/// Words as traces have them: `v0.1/7` has the volume in it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').map(|word| word.trim_end_matches('.'))
}

/// Takes the lines of a trace and keeps those of the story.
#[derive(Debug)]
pub(super) struct Story {
    about: Option<About>,
    /// Seconds.
    from: f64,
    last: usize,
    shards: usize,
    lines: VecDeque<String>,
    /// Lines of the story, and of the whole trace.
    pub(super) told: u64,
    pub(super) seen: u64,
    /// Lines of the same time that are not in the story yet.
    moment: Vec<String>,
    /// Requests and operations of the story whose answers do not name the volume.
    open: BTreeSet<String>,
}

impl Story {
    pub(super) fn new(about: Option<About>, from: f64, last: usize, shards: u16) -> Self {
        Self {
            about,
            from,
            last,
            shards: usize::from(shards),
            lines: VecDeque::new(),
            told: 0,
            seen: 0,
            moment: Vec::new(),
            open: BTreeSet::new(),
        }
    }

    /// The next line of the trace.
    pub(super) fn line(&mut self, line: &str) {
        self.seen += 1;
        if self.seen == 1 {
            return; // the options
        }
        let time = |line: &str| line.split(' ').next().map(str::to_owned);
        if self.moment.first().is_some_and(|first| time(first) != time(line)) {
            self.end_moment();
        }
        if self.concerns(line) {
            self.moment.push(line.to_owned());
        }
    }

    /// The lines, when the trace has ended.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.end_moment();
        mem::take(&mut self.lines).into()
    }

    fn concerns(&mut self, line: &str) -> bool {
        let Some((time, what)) = line.split_once(' ') else { return false };
        if is_slot(what) {
            return false;
        }
        let Some(about) = &self.about else { return time.parse().is_ok_and(|time: f64| time >= self.from) };
        let unit = what.split(' ').next().unwrap_or_default();
        // An operation is named within its shard, a request everywhere.
        let names = |what: &str| -> Vec<String> {
            let token = between(what, "Token(").map(|number| format!("Token({number})"));
            let op = between(what, "OpId(").map(|number| format!("{unit} OpId({number})"));
            token.into_iter().chain(op).collect()
        };
        let life = [" boots, life ", " crashes", " pauses until "].iter().any(|event| what.contains(event));
        let mut concerns = life || !what.contains(' ') || words(what).any(|word| word == about.0);
        if about.is_node() {
            concerns |= unit.split('.').next() == Some(&about.0);
        } else if concerns {
            self.open.extend(names(what));
        } else {
            concerns = names(what).iter().any(|name| self.open.remove(name));
        }
        concerns && time.parse().is_ok_and(|time: f64| time >= self.from)
    }

    fn end_moment(&mut self) {
        let lines = mem::take(&mut self.moment);
        let mut before = String::new();
        for (number, line) in lines.iter().enumerate() {
            let (time, what) = line.split_once(' ').unwrap_or_default();
            if is_told_again(what, &before) {
                continue;
            }
            what.clone_into(&mut before);
            let Some(what) = self.to_all_shards(what, &lines, number) else { continue };
            self.told += 1;
            self.lines.push_back(told(time, &what));
            if self.lines.len() > self.last {
                self.lines.pop_front();
            }
        }
    }

    /// The line, or the one for all shards in place of the first of them, and none in place of the others.
    fn to_all_shards(&self, what: &str, lines: &[String], number: usize) -> Option<String> {
        if what.contains(" < Shards { input: ") {
            return None; // the shards have it
        }
        let Some((node, input)) = shard_input(what) else { return Some(what.to_owned()) };
        let same = |line: &String| {
            line.split_once(' ').and_then(|(_, what)| shard_input(what)) == Some((node, input))
        };
        let all = lines.iter().filter(|line| same(line)).count();
        if all != self.shards {
            return Some(what.to_owned());
        }
        lines[..number].iter().all(|line| !same(line)).then(|| format!("{node}.* > {input}"))
    }
}

/// The node and what one of its shards gets.
fn shard_input(what: &str) -> Option<(&str, &str)> {
    let (unit, input) = what.split_once(" > ")?;
    Some((unit.split_once('.')?.0, input)).filter(|_| !unit.contains(' '))
}

/// Bookkeeping of memory. What lands in it arrives right after.
fn is_slot(what: &str) -> bool {
    [" landing from ", " unpin ", " < Release {", " < Unpin {", " < Pin {"]
        .iter()
        .any(|word| what.contains(word))
}

/// A core is told what a client asked for in the line `before`, or its answer is what the client gets.
fn is_told_again(what: &str, before: &str) -> bool {
    let token = |text: &str| between(text, "Token(").map(str::to_owned);
    let asked = before.contains(" client > ") && what.contains(" > ") && token(what) == token(before);
    let answer = [" < AttachDone {", " < ExtentsDone {", " < Ready {", " < Done {", " < Failed {"];
    let unasked = format!("Token({})", u64::MAX);
    asked || answer.iter().any(|word| what.contains(word)) && !what.contains(&unasked)
}

fn between<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(')').map(|(inside, _)| inside)
}

/// A line of the story: the time, and messages as arrows.
fn told(time: &str, what: &str) -> String {
    let arrow = |way: &str, sign: &str, end: &str| {
        let (unit, rest) = what.split_once(way)?;
        let (peer, message) = rest.split_once(", message: ")?;
        let message = message.strip_suffix(end).unwrap_or(message);
        Some(format!("{unit} {sign} {peer}  {}", body(message)))
    };
    let sent = arrow(" < Send { to: ", "->", " }");
    let line = sent.or_else(|| arrow(" > Message { from: ", "<-", " }")).unwrap_or_else(|| what.to_owned());
    let line = format!("  {time}  {line}");
    match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

/// Of a message between shards: the volume and the body.
fn body(message: &str) -> String {
    let volume = message.strip_prefix("Message { volume: ").and_then(|rest| rest.split_once(','));
    let inside = message.split_once("body: ").map(|(_, body)| body);
    match (volume, inside) {
        (Some((volume, _)), Some(body)) => {
            let body = body.split_once(" }, payload: ").map_or(body, |(body, _)| body);
            format!("{volume} {body}")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(about: &str, from: f64, last: usize, lines: &[&str]) -> Vec<String> {
        let mut story = Story::new(Some(parse(about).expect(about)), from, last, 2);
        story.line("0.000000 Options { volumes: [v0.0] }");
        lines.iter().for_each(|line| story.line(line));
        story.finish()
    }

    #[test]
    fn what_all_shards_are_told_is_one_line() {
        let lines = [
            "1.000000 n1 < Shards { input: Suspended { volume: v0.0 } }",
            "1.000000 n1.0 > Suspended { volume: v0.0 }",
            "1.000000 n1.0 < SyncFailed { volume: v0.0 }",
            "1.000000 n1.1 > Suspended { volume: v0.0 }",
            "2.000000 n1.1 > Suspended { volume: v0.0 }",
        ];
        let expected = [
            "  1.000000  n1.* > Suspended { volume: v0.0 }",
            "  1.000000  n1.0 < SyncFailed { volume: v0.0 }",
            "  2.000000  n1.1 > Suspended { volume: v0.0 }",
        ];
        assert_eq!(story("v0.0", 0.0, 9, &lines), expected);
    }

    #[test]
    fn a_request_is_told_once_and_so_is_its_answer() {
        let lines = [
            "1.000000 n0 client > Token(7) Attach { volume: v0.0, access: Exclusive }",
            "1.000000 n0 > Attach { token: Token(7), volume: v0.0, access: Exclusive }",
            "1.000000 n0 < AttachDone { token: Token(7), volume: v0.0, result: Ok(Generation(3)) }",
            "1.000000 Client(n0) < Token(7) Attached(Generation(3))",
            "1.100000 Client(n0) < Token(8) Attached(Generation(4))",
        ];
        let expected = [
            "  1.000000  n0 client > Token(7) Attach { volume: v0.0, access: Exclusive }",
            "  1.000000  Client(n0) < Token(7) Attached(Generation(3))",
        ];
        assert_eq!(story("v0.0", 0.0, 9, &lines), expected);
    }

    #[test]
    fn messages_are_arrows_and_other_volumes_are_left_out() {
        let lines = [
            "1.000000 n1 < Send { to: n0, message: Attach { volume: v0.0 } }",
            "1.000000 n1 < Send { to: n0, message: Attach { volume: v0.1 } }",
            "1.100000 n0 > Message { from: n1, message: Attach { volume: v0.0 } }",
            "1.200000 n0.0 < Send { to: n1, message: Message { volume: v0.0, shard: 0, floor: Stamp(1), free: 3, body: Nack { block: 4 } }, payload: None }",
            "1.300000 n0.0 < Disk { op: OpId(5), volume: v0.0 }",
            "1.300000 n0.0 unpin Slot(5)",
            "1.350000 n1.0 landing from n0 of Message { volume: v0.0, shard: 0, body: Data { block: 4 } }",
            "1.360000 n1.0 > Message { from: n0, message: Message { volume: v0.0, shard: 0, floor: Stamp(1), free: 3, body: Data { block: 4 } }, payload: Slot(Slot(7)) }",
            "1.400000 n0.1 > DiskDone { op: OpId(5), result: Ok(()) }",
            "1.500000 n0.0 > DiskDone { op: OpId(5), result: Ok(()) }",
            "1.600000 n1 crashes",
            "1.700000 calm",
        ];
        let expected = [
            "  1.000000  n1 -> n0  Attach { volume: v0.0 }",
            "  1.100000  n0 <- n1  Attach { volume: v0.0 }",
            "  1.200000  n0.0 -> n1  v0.0 Nack { block: 4 }",
            "  1.300000  n0.0 < Disk { op: OpId(5), volume: v0.0 }",
            "  1.360000  n1.0 <- n0  v0.0 Data { block: 4 }",
            "  1.500000  n0.0 > DiskDone { op: OpId(5), result: Ok(()) }",
            "  1.600000  n1 crashes",
            "  1.700000  calm",
        ];
        assert_eq!(story("v0.0", 0.0, 9, &lines), expected);
        assert_eq!(story("v0.0", 0.0, 2, &lines), expected[6..]);
        assert_eq!(story("v0.0", 1.55, 9, &lines), expected[6..]);
        assert_eq!(story("n1", 0.0, 9, &lines).len(), 7, "what it does, and what it is sent");
    }

    #[test]
    fn a_line_is_no_longer_than_a_person_can_read() {
        let long = format!("1.000000 n0 client > Token(1) {} v0.0", "x".repeat(1000));
        assert_eq!(story("v0.0", 0.0, 9, &[&long])[0].chars().count(), LINE_MAX + 4);
    }

    #[test]
    fn a_failure_names_what_its_story_is_about() {
        let about = |text| About::named_in(text).map(|about| about.name().to_owned());
        assert_eq!(about("n1 gets a card of v0.0, which n0 has for itself").as_deref(), Some("v0.0"));
        assert_eq!(about("what: Read(v12.1/1) }").as_deref(), Some("v12.1"));
        assert_eq!(about("n3 has 2 slots in use").as_deref(), Some("n3"));
        assert_eq!(about("no answer in 1.5 s"), None);
        for wrong in ["", "v", "v0", "v0.0/3", "n", "x1", "n-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
