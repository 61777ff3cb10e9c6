//! What is measured, and how people choose a part of it.

use serde::Serialize;

use crate::load::{Access, Mode};
use crate::peers::{Peer, Transport};

/// Who generates the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// This crate's batching generator.
    Own,
    /// fio with its NBD engine.
    Fio,
}

impl Client {
    /// The name in tables and filters.
    pub fn name(self) -> &'static str {
        match self {
            Client::Own => "own",
            Client::Fio => "fio",
        }
    }
}

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The name in tables and filters.
    pub name: &'static str,
    /// Reads or writes.
    pub mode: Mode,
    /// The order of offsets.
    pub access: Access,
    /// Bytes per request.
    pub block: u32,
    /// Requests in flight per connection.
    pub depth: usize,
}

/// The loads of a comparison.
pub const LOADS: [Load; 5] = [
    Load { name: "4k-read-qd1", mode: Mode::Read, access: Access::Random, block: 4 << 10, depth: 1 },
    Load { name: "4k-read-qd32", mode: Mode::Read, access: Access::Random, block: 4 << 10, depth: 32 },
    Load { name: "4k-write-qd32", mode: Mode::Write, access: Access::Random, block: 4 << 10, depth: 32 },
    Load { name: "128k-read-qd8", mode: Mode::Read, access: Access::Sequential, block: 128 << 10, depth: 8 },
    Load {
        name: "128k-write-qd8",
        mode: Mode::Write,
        access: Access::Sequential,
        block: 128 << 10,
        depth: 8,
    },
];

/// The numbers of connections of a comparison.
pub const CONNECTIONS: [usize; 2] = [1, 4];

/// One line of conditions under which all servers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// How clients reach the server.
    pub transport: Transport,
    /// Who generates the load.
    pub client: Client,
    /// The load.
    pub load: Load,
    /// Connections.
    pub connections: usize,
}

impl Cell {
    /// `unix/own/4k-read-qd1/c1`
    pub fn name(&self) -> String {
        format!("{}/{}/{}/c{}", self.transport.name(), self.client.name(), self.load.name, self.connections)
    }
}

/// The parts of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// NBD servers side by side.
    Peers,
    /// A remote hit against a bare round trip.
    Remote,
    /// The CARDs paper's Table 1.
    Table1,
    /// The CARDs paper's figures 2 to 5.
    Coop,
    /// What it costs that several nodes may write one volume.
    Sharing,
}

impl Part {
    const ALL: [Part; 5] = [Part::Peers, Part::Remote, Part::Sharing, Part::Table1, Part::Coop];

    /// The name in filters.
    pub fn name(self) -> &'static str {
        match self {
            Part::Peers => "peers",
            Part::Remote => "remote",
            Part::Table1 => "table1",
            Part::Coop => "coop",
            Part::Sharing => "sharing",
        }
    }
}

/// A choice by words. Words of one kind widen, words of different kinds narrow; no word of a kind means
/// all of that kind.
#[derive(Debug, Clone, Default)]
pub struct Filter(Vec<String>);

impl Filter {
    /// Checks every word.
    ///
    /// # Errors
    /// Names the first unknown word and all known ones.
    pub fn new(words: &[String]) -> Result<Filter, crate::Error> {
        let known: Vec<String> = kinds().concat();
        match words.iter().find(|word| !known.contains(word)) {
            Some(word) => {
                let remedy = format!("no such word; known are {}", known.join(", "));
                Err(crate::Error::Option { option: "only", value: word.clone(), remedy })
            }
            None => Ok(Filter(words.to_vec())),
        }
    }

    fn admits(&self, kind: &[String], name: &str) -> bool {
        let mut chosen = self.0.iter().filter(|word| kind.contains(word)).peekable();
        chosen.peek().is_none() || chosen.any(|word| word == name)
    }

    /// The servers to compare.
    pub fn peers(&self) -> Vec<Peer> {
        let [peers, ..] = kinds();
        Peer::ALL.into_iter().filter(|peer| self.admits(&peers, peer.name())).collect()
    }

    /// The cells to measure, grouped by transport.
    pub fn cells(&self) -> Vec<Cell> {
        let [_, transports, clients, loads, connections, _] = kinds();
        let mut cells = Vec::new();
        for transport in [Transport::Unix, Transport::Tcp] {
            for load in LOADS {
                for count in CONNECTIONS {
                    for client in [Client::Own, Client::Fio] {
                        cells.push(Cell { transport, client, load, connections: count });
                    }
                }
            }
        }
        cells.retain(|cell| {
            self.admits(&transports, cell.transport.name())
                && self.admits(&clients, cell.client.name())
                && self.admits(&loads, cell.load.name)
                && self.admits(&connections, &format!("c{}", cell.connections))
        });
        cells
    }

    /// Whether to run this part at all.
    pub fn part(&self, part: Part) -> bool {
        let [.., parts] = kinds();
        self.admits(&parts, part.name())
    }
}

/// All words by kind: servers, transports, clients, loads, connections, parts.
fn kinds() -> [Vec<String>; 6] {
    let words = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    [
        words(Peer::ALL.map(Peer::name).to_vec()),
        words([Transport::Unix, Transport::Tcp].map(Transport::name).to_vec()),
        words([Client::Own, Client::Fio].map(Client::name).to_vec()),
        words(LOADS.map(|load| load.name).to_vec()),
        CONNECTIONS.map(|count| format!("c{count}")).to_vec(),
        words(Part::ALL.map(Part::name).to_vec()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(words: &[&str]) -> Filter {
        Filter::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn no_word_is_everything() {
        let all = filter(&[]);
        assert_eq!(all.peers().len(), 6);
        assert_eq!(all.cells().len(), 2 * 2 * 5 * 2);
        assert!(all.part(Part::Table1) && all.part(Part::Coop));
    }

    #[test]
    fn words_of_a_kind_widen_and_kinds_narrow() {
        let some = filter(&["own", "unix", "4k-read-qd1", "4k-read-qd32", "bare", "peers", "c1"]);
        assert_eq!(some.peers(), [Peer::Bare]);
        let names: Vec<String> = some.cells().iter().map(Cell::name).collect();
        assert_eq!(names, ["unix/own/4k-read-qd1/c1", "unix/own/4k-read-qd32/c1"]);
        assert!(some.part(Part::Peers) && !some.part(Part::Remote));
    }

    #[test]
    fn an_unknown_word_lists_the_known_ones() {
        let error = Filter::new(&["nbdkit".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--only nbdkit") && error.contains("nbdkit-memory"), "{error}");
    }
}
