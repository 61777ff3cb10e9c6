//! What is on the screen, and what the keys do to it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use cards_admin::Status;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::cluster::{Cluster, Node, VolumeRow};
use super::source::Source;
use super::tables::{self, Grid, Sort};

/// Looks back that are kept for the history.
pub(crate) const HISTORY: usize = 240;

/// Everything that the picture depends on, but the size of the terminal.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) cluster: Cluster,
    sources: Vec<Source>,
    /// Nodes that a daemon has told of.
    others: Vec<Source>,
    /// How often the daemons are asked.
    pub(crate) interval: Duration,
    /// Blocks read per second, and the percentage of them spared the disk, oldest first.
    pub(crate) history: VecDeque<(f64, Option<f64>)>,
    pub(crate) sort: Sorts,
    pub(crate) filter: String,
    /// The filter is being typed.
    pub(crate) typing: bool,
    pub(crate) selected: Option<Item>,
    pub(crate) zoom: Option<Item>,
    /// First line shown of what is zoomed into.
    pub(crate) scroll: usize,
    pub(crate) help: bool,
    pub(crate) paused: bool,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Node(String),
    Volume(String),
}

/// How each table is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorts {
    pub(crate) nodes: Sort,
    pub(crate) volumes: Sort,
}

/// What comes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Stay,
    Quit,
    /// Ctrl-Z.
    Stop,
}

impl Screen {
    pub(crate) fn new(sockets: Vec<PathBuf>, interval: Duration) -> Self {
        Self {
            cluster: Cluster::default(),
            sources: sockets.into_iter().map(Source::new).collect(),
            others: Vec::new(),
            interval,
            history: VecDeque::new(),
            sort: Sorts::default(),
            filter: String::new(),
            typing: false,
            selected: None,
            zoom: None,
            scroll: 0,
            help: false,
            paused: false,
        }
    }

    /// A daemon has answered, or not. Paused, the picture stays.
    pub(crate) fn heard(&mut self, number: usize, at: Duration, answer: Result<Status, String>) {
        if let Some(source) = self.sources.get_mut(number).filter(|_| !self.paused) {
            source.heard(at, answer);
        }
    }

    /// The daemon that alone is asked has told of other nodes: these, and no others.
    pub(crate) fn heard_of(&mut self, at: Duration, others: Vec<Status>) {
        if self.paused {
            return;
        }
        let told = |source: &Source| others.iter().any(|status| source.is_of(status));
        self.others.retain(told);
        for status in others {
            match self.others.iter_mut().find(|source| source.is_of(&status)) {
                Some(source) => source.heard(at, Ok(status)),
                None => {
                    let mut source = Source::new(PathBuf::from(&status.node));
                    source.heard(at, Ok(status));
                    self.others.push(source);
                }
            }
        }
    }

    /// All answers of one moment are in.
    pub(crate) fn update(&mut self) {
        if self.paused {
            return;
        }
        self.cluster = Cluster::of(self.sources.iter().chain(&self.others));
        if let Some(reads) = self.cluster.per_second(|c| c.reads) {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back((reads, self.cluster.answered_now().spared()));
        }
    }

    /// Does what `key` asks for on a terminal of `width` columns; a zoom can be scrolled down by `scroll_max` lines.
    pub(crate) fn key(&mut self, key: KeyEvent, width: usize, scroll_max: usize) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Next::Quit,
                KeyCode::Char('z') => Next::Stop,
                _ => Next::Stay,
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return Next::Stay;
        }
        if self.help {
            self.help = false;
            return if key.code == KeyCode::Char('q') { Next::Quit } else { Next::Stay };
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1, scroll_max),
            KeyCode::Down | KeyCode::Char('j') => self.go(1, scroll_max),
            KeyCode::PageUp => self.go(-10, scroll_max),
            KeyCode::PageDown => self.go(10, scroll_max),
            KeyCode::Esc if self.zoom.is_some() => self.zoom = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Backspace | KeyCode::Left => self.zoom = None,
            _ if self.zoom.is_some() => {}
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Enter | KeyCode::Right => {
                self.zoom = self.selected().or_else(|| self.items().into_iter().next());
                self.scroll = 0;
            }
            KeyCode::Tab | KeyCode::BackTab => self.change_table(),
            KeyCode::Char('s') => self.next_sort(width, 1),
            KeyCode::Char('S') => self.next_sort(width, -1),
            KeyCode::Char('r') => {
                let sort = self.sort_here();
                sort.reverse = !sort.reverse;
            }
            _ => {}
        }
        Next::Stay
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            // As long as the longest name.
            KeyCode::Char(c) if self.filter.len() < 64 => self.filter.push(c),
            _ => {}
        }
    }

    /// The nodes whose names pass the filter, sorted.
    pub(crate) fn nodes(&self) -> Grid<'_, Node> {
        tables::nodes(&self.cluster, &self.filter, self.sort.nodes)
    }

    /// The volumes whose names pass the filter, sorted.
    pub(crate) fn volumes(&self) -> Grid<'_, VolumeRow> {
        tables::volumes(&self.cluster, &self.filter, self.sort.volumes)
    }

    /// The rows in the order in which they are shown.
    fn items(&self) -> Vec<Item> {
        let nodes = self.nodes().rows.into_iter().map(|node| Item::Node(node.name.clone()));
        let volumes = self.volumes().rows.into_iter().map(|row| Item::Volume(row.volume.name.clone()));
        nodes.chain(volumes).collect()
    }

    /// The row that the keys are about, as long as it is shown.
    pub(crate) fn selected(&self) -> Option<Item> {
        self.selected.clone().filter(|item| self.items().contains(item))
    }

    fn go(&mut self, rows: isize, scroll_max: usize) {
        if self.zoom.is_some() {
            self.scroll = self.scroll.saturating_add_signed(rows).min(scroll_max);
            return;
        }
        let items = self.items();
        let at = self.selected.as_ref().and_then(|item| items.iter().position(|other| other == item));
        let to = match at {
            Some(at) => at.saturating_add_signed(rows).min(items.len().saturating_sub(1)),
            None => 0,
        };
        self.selected = items.into_iter().nth(to);
    }

    fn change_table(&mut self) {
        let to_volumes = !self.in_volumes();
        self.selected = self.items().into_iter().find(|item| matches!(item, Item::Volume(_)) == to_volumes);
    }

    /// Whether the keys are about the volumes.
    pub(crate) fn in_volumes(&self) -> bool {
        matches!(self.selected, Some(Item::Volume(_)))
    }

    fn sort_here(&mut self) -> &mut Sort {
        if self.in_volumes() { &mut self.sort.volumes } else { &mut self.sort.nodes }
    }

    /// Sorts by the next column that is shown.
    fn next_sort(&mut self, width: usize, by: isize) {
        let shown = if self.in_volumes() { self.volumes().fit(width) } else { self.nodes().fit(width) };
        let sort = self.sort_here();
        let at = shown.iter().position(|column| *column == sort.column).unwrap_or(0);
        let next = (at as isize + by).rem_euclid(shown.len().max(1) as isize);
        if let Some(column) = shown.get(next as usize) {
            *sort = Sort { column: *column, reverse: false };
        }
    }
}
