//! Web servers that read documents from a disk: their own, that of another node through the remote disk driver, or that of a file server.
//!
//! A process opens a document and reads it from its first byte on; what it has read goes to its client. What costs time:
//!
//! - A block in the memory of the reader's node costs a copy to the process. What is missing is asked for at once, together with what
//!   is read ahead (RDD-8): of the queue of an own disk, or with a message for each block.
//! - The remote disk driver costs both nodes the startups and copies of the machine, and the node with the disk its `service`. Nothing stays there
//!   (RDD-1); what its own server has cached is sent at once (RDD-10).
//! - The disk has a queue that is sorted by place, where neighbours are read together. How the node with it answers says [`Delivery`].
//! - A file server has a cache, reads ahead itself, and works on as many blocks as it has threads. It is reached through [`Ethernet`].
//! - Interrupts and copies come before what processes compute, and take that time from them.

mod disk;
mod document;
mod pages;
#[cfg(test)]
mod tests;
mod thread;
mod volume;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use cards_core::Instant;
use cards_trace::Op;

pub use volume::{Attachment, Delivery, Ethernet, Heads, RemoteDisk};

use crate::engine::{Counts, Engine};
use crate::kernel::{Io, IoToken, Kernel};
use crate::machine::Machine;
use crate::model::Model;
use crate::setup::{Setup, SetupError};
use disk::{Disk, Wanted};
use document::{Ahead, Document, Places};
use pages::{Found, Pages};
use thread::{Step, Thread};
use volume::Link;

/// Something that happens to a remote disk.
#[derive(Debug)]
pub struct RemoteEvent(Happens);

#[derive(Debug)]
enum Happens {
    /// A question has come to the node with the disk.
    Asked(Wanted),
    /// It has been looked at there.
    Begins(Wanted),
    /// A disk has read something.
    Read(usize),
    /// Its node has taken it in.
    Loaded(usize, Vec<Wanted>),
    /// The thread has sent a block.
    Sent,
    /// An answer has come to a server.
    Arrives(Wanted),
    /// It is in the server's memory.
    Ready(Wanted),
    /// A process has what it wanted, and its client gets it.
    Answers(IoToken, u64),
}

/// Servers and a disk at work.
#[derive(Debug)]
pub struct RemoteEngine {
    remote: RemoteDisk,
    nodes: u16,
    block_bytes: u32,
    /// Of each node.
    pages: Vec<Pages>,
    disks: Vec<Disk>,
    places: Vec<Places>,
    thread: Option<Thread>,
    nfs: Option<FileServer>,
    /// To the clients.
    clients: Link,
    open: HashMap<u32, Open>,
    /// The document that a block belongs to, while it is read.
    documents: HashMap<u32, Document>,
    readers: Vec<Option<Reader>>,
    counts: Counts,
}

/// What a process reads.
#[derive(Clone, Copy, Debug)]
struct Open {
    document: Document,
    ahead: Ahead,
}

/// A request that waits for blocks.
#[derive(Clone, Copy, Debug)]
struct Reader {
    io: Io,
    missing: u32,
}

/// What a file server has beside its pages.
#[derive(Debug)]
struct FileServer {
    free_threads: u16,
    waiting: VecDeque<Wanted>,
    /// How far a server's document is read ahead here.
    ahead: HashMap<(u16, u32), Ahead>,
    /// From it to the servers.
    link: Link,
}

impl RemoteEngine {
    /// Idle servers with empty caches.
    ///
    /// # Errors
    /// What makes no sense together.
    pub fn new(setup: &Setup, remote: &RemoteDisk) -> Result<Self, SetupError> {
        remote.check(setup)?;
        let model = Model::new(setup.machine.clone(), setup.nodes);
        let partition_blocks = remote.partition_bytes / u64::from(setup.block_bytes);
        let disk = |number| Disk::new(number, remote.heads, &model, partition_blocks, setup.block_bytes);
        let places = |number: u16| Places {
            partition_blocks,
            fragmented: remote.fragmented_at(number),
            seed: setup.seed ^ u64::from(number) << 32,
        };
        let disks = setup.machine.disks;
        let (thread, nfs) = match remote.attachment {
            Attachment::Local => (None, None),
            Attachment::Computer(delivery) | Attachment::Network(delivery) => (Thread::new(delivery), None),
            Attachment::Nfs(threads) => (None, Some(FileServer::new(threads))),
        };
        Ok(Self {
            remote: remote.clone(),
            nodes: setup.nodes,
            block_bytes: setup.block_bytes,
            pages: (0..setup.nodes).map(|node| Pages::new(setup.cache_of(node))).collect(),
            disks: (0..disks.into()).map(disk).collect(),
            places: (0..disks).map(places).collect(),
            thread,
            nfs,
            clients: Link::default(),
            open: HashMap::new(),
            documents: HashMap::new(),
            readers: Vec::new(),
            counts: Counts::default(),
        })
    }

    fn host(&self, server: u16) -> u16 {
        self.remote.host(server, self.nodes)
    }

    /// The disk that has what a server reads.
    fn disk_for(&self, server: u16) -> usize {
        if self.remote.attachment == Attachment::Local { server.into() } else { 0 }
    }

    /// A node's processor is taken from what processes compute there.
    fn interrupt<T>(
        &self,
        kernel: &mut Kernel<RemoteEvent>,
        node: u16,
        work: impl FnOnce(Instant, &mut Model) -> T,
    ) -> T {
        let (now, model) = (kernel.now(), &mut kernel.model);
        let before = model.traffic().cpus_busy;
        let done = work(now, model);
        let taken = model.traffic().cpus_busy - before;
        if node < self.remote.servers(self.nodes) {
            model.compute(now, node, Duration::from_nanos(taken));
        }
        done
    }

    fn read(&mut self, kernel: &mut Kernel<RemoteEvent>, io: Io) {
        let Some(Open { document, mut ahead }) = self.open.get(&io.process).copied() else {
            return kernel.complete(io.token, kernel.now());
        };
        let (server, first) = (io.node, io.first as u32);
        let blocks = first..first + io.blocks;
        let mut missing = 0;
        let mut wanted = Vec::new();
        for block in blocks.clone() {
            match self.pages[usize::from(server)].find(block) {
                Found::Here => self.counts.local_hits += 1,
                found => {
                    missing += 1;
                    self.pages[usize::from(server)].wait(block, io.token);
                    if found == Found::Absent {
                        wanted.push(block);
                    }
                }
            }
        }
        let start = document.first;
        let window = ahead.on_read(&(blocks.start - start..blocks.end - start), document.blocks);
        for block in start + window.start..start + window.end {
            if self.pages[usize::from(server)].find(block) == Found::Absent {
                self.pages[usize::from(server)].expect(block);
                wanted.push(block);
            }
        }
        self.open.insert(io.process, Open { document, ahead });
        self.fetch(kernel, server, document, &wanted);
        let place = io.token as usize;
        if self.readers.len() <= place {
            self.readers.resize(place + 1, None);
        }
        self.readers[place] = Some(Reader { io, missing });
        if missing == 0 {
            self.copy_out(kernel, place);
        }
    }

    /// Asks for blocks that a server misses.
    fn fetch(&mut self, kernel: &mut Kernel<RemoteEvent>, server: u16, document: Document, blocks: &[u32]) {
        let host = self.host(server);
        for &block in blocks {
            let wanted = Wanted { server, block };
            self.documents.insert(block, document);
            if host == server {
                self.push(wanted);
                continue;
            }
            let at = match self.nfs {
                None => self.interrupt(kernel, server, |now, model| model.send(now, server, host)),
                Some(_) => {
                    let Ethernet { startup, latency, .. } = self.remote.ethernet;
                    self.interrupt(kernel, server, |now, model| model.work(now, server, startup)) + latency
                }
            };
            kernel.at(at, RemoteEvent(Happens::Asked(wanted)));
        }
        if host == server && !blocks.is_empty() {
            self.go_on(kernel, self.disk_for(server));
        }
    }

    /// A block is put into the queue of its disk.
    fn push(&mut self, wanted: Wanted) {
        let disk = self.disk_for(wanted.server);
        let place = self.places[disk].of(self.documents[&wanted.block], wanted.block);
        self.disks[disk].push(place, wanted);
    }

    fn go_on(&mut self, kernel: &mut Kernel<RemoteEvent>, disk: usize) {
        if let Some(at) = self.disks[disk].go_on(kernel.now(), &mut kernel.model) {
            kernel.at(at, RemoteEvent(Happens::Read(disk)));
        }
    }

    fn asked(&mut self, kernel: &mut Kernel<RemoteEvent>, wanted: Wanted) {
        let host = self.host(wanted.server);
        let startup = self.remote.ethernet.startup;
        let is_nfs = self.nfs.is_some();
        let at = self.interrupt(kernel, host, |now, model| {
            let taken = if is_nfs { model.work(now, host, startup) } else { model.receive(now, host) };
            let service = model.machine().service;
            model.work(taken, host, service)
        });
        kernel.at(at, RemoteEvent(Happens::Begins(wanted)));
    }

    fn begins(&mut self, kernel: &mut Kernel<RemoteEvent>, wanted: Wanted) {
        let host = self.host(wanted.server);
        if let Some(nfs) = &mut self.nfs {
            nfs.waiting.push_back(wanted);
            return self.serve_files(kernel, host);
        }
        if self.pages[usize::from(host)].find(wanted.block) == Found::Here {
            self.counts.remote_hits += 1;
            return self.send(kernel, wanted);
        }
        match &mut self.thread {
            Some(thread) => {
                thread.ask(wanted);
                self.run_thread(kernel, true);
            }
            None => {
                self.push(wanted);
                self.go_on(kernel, 0);
            }
        }
    }

    /// What its node does with what a disk has read.
    fn loaded(&mut self, kernel: &mut Kernel<RemoteEvent>, disk: usize, all: Vec<Wanted>) {
        self.counts.disk_reads += all.len() as u64;
        if self.remote.attachment == Attachment::Local || self.nfs.is_some() {
            return all.into_iter().for_each(|one| self.ready(kernel, disk, one));
        }
        let (own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| self.host(one.server) == one.server);
        own.into_iter().for_each(|one| self.ready(kernel, disk, one));
        if self.thread.is_none() {
            others.into_iter().for_each(|one| self.send(kernel, one));
        } else if let Some(thread) = &mut self.thread
            && !others.is_empty()
        {
            thread.read(others);
            self.run_thread(kernel, true);
        }
    }

    /// A block has come into the memory of the node with the disk.
    fn ready(&mut self, kernel: &mut Kernel<RemoteEvent>, disk: usize, wanted: Wanted) {
        if self.nfs.is_none() {
            return self.cached(kernel, disk as u16, wanted.block);
        }
        let host = self.host(wanted.server);
        for server in self.pages[usize::from(host)].arrived(wanted.block) {
            self.send(kernel, Wanted { server: server as u16, block: wanted.block });
            if let Some(nfs) = &mut self.nfs {
                nfs.free_threads += 1;
            }
        }
        self.serve_files(kernel, host);
    }

    /// The threads of a file server take what waits.
    fn serve_files(&mut self, kernel: &mut Kernel<RemoteEvent>, host: u16) {
        let cap = self.remote.read_ahead;
        while let Some(nfs) = &mut self.nfs
            && nfs.free_threads > 0
            && let Some(wanted) = nfs.waiting.pop_front()
        {
            let document = self.documents[&wanted.block];
            let ahead = nfs.ahead.entry((wanted.server, document.first)).or_insert_with(|| Ahead::new(cap));
            let index = wanted.block - document.first;
            let window = ahead.on_read(&(index..index + 1), document.blocks);
            if index + 1 == document.blocks {
                nfs.ahead.remove(&(wanted.server, document.first));
            }
            let pages = &mut self.pages[usize::from(host)];
            let found = pages.find(wanted.block);
            let more = (document.first + window.start..document.first + window.end)
                .filter(|&block| pages.find(block) == Found::Absent && block != wanted.block)
                .collect::<Vec<_>>();
            more.iter().for_each(|&block| pages.expect(block));
            if found != Found::Here {
                pages.wait(wanted.block, wanted.server.into());
                nfs.free_threads -= 1;
            }
            for block in more {
                self.documents.insert(block, document);
                self.push(Wanted { server: wanted.server, block });
            }
            match found {
                Found::Here => {
                    self.counts.remote_hits += 1;
                    self.send(kernel, wanted);
                }
                Found::Absent => self.push(wanted),
                Found::Coming => {}
            }
            self.go_on(kernel, 0);
        }
    }

    /// A block leaves the node with the disk.
    fn send(&mut self, kernel: &mut Kernel<RemoteEvent>, wanted: Wanted) {
        let (server, host) = (wanted.server, self.host(wanted.server));
        let bytes = u64::from(self.block_bytes);
        let Ethernet { bandwidth, startup, latency } = self.remote.ethernet;
        let at = if self.nfs.is_some() {
            let sent = self.interrupt(kernel, host, |now, model| {
                let copied = Machine::transfer(bytes, model.machine().staging_bandwidth);
                model.work(now, host, startup + copied)
            });
            let Some(nfs) = &mut self.nfs else { return };
            nfs.link.send(sent, bytes, bandwidth) + latency
        } else {
            self.interrupt(kernel, host, |now, model| model.send_data(now, host, server, bytes))
        };
        kernel.at(at, RemoteEvent(Happens::Arrives(wanted)));
    }

    fn run_thread(&mut self, kernel: &mut Kernel<RemoteEvent>, has_slept: bool) {
        let Some(thread) = &mut self.thread else { return };
        match thread.next(has_slept) {
            Step::Sleep => {}
            Step::Launch(batch) => {
                batch.into_iter().for_each(|one| self.push(one));
                self.go_on(kernel, 0);
            }
            Step::Send { wanted, has_slept } => {
                let host = self.host(wanted.server);
                if has_slept {
                    self.interrupt(kernel, host, |now, model| {
                        let switch = model.machine().local_port;
                        model.work(now, host, switch)
                    });
                }
                self.send(kernel, wanted);
                let now = kernel.now();
                let sent = kernel.model.work(now, host, Duration::ZERO);
                kernel.at(sent, RemoteEvent(Happens::Sent));
            }
        }
    }

    fn arrives(&mut self, kernel: &mut Kernel<RemoteEvent>, wanted: Wanted) {
        let (server, bytes) = (wanted.server, u64::from(self.block_bytes));
        let startup = self.nfs.is_some().then_some(self.remote.ethernet.startup);
        let at = self.interrupt(kernel, server, |now, model| match startup {
            None => model.receive_data(now, server, bytes),
            Some(startup) => {
                let copied = Machine::transfer(bytes, model.machine().staging_bandwidth);
                model.work(now, server, startup + copied)
            }
        });
        kernel.at(at, RemoteEvent(Happens::Ready(wanted)));
    }

    /// A block is in a server's memory: who waits for it goes on.
    fn cached(&mut self, kernel: &mut Kernel<RemoteEvent>, server: u16, block: u32) {
        for token in self.pages[usize::from(server)].arrived(block) {
            let place = token as usize;
            let Some(reader) = &mut self.readers[place] else { continue };
            reader.missing -= 1;
            if reader.missing == 0 {
                self.copy_out(kernel, place);
            }
        }
    }

    /// A process gets what it has asked for.
    fn copy_out(&mut self, kernel: &mut Kernel<RemoteEvent>, place: usize) {
        let Some(Reader { io, .. }) = self.readers[place].take() else { return };
        let bytes = u64::from(io.bytes);
        let at = self.interrupt(kernel, io.node, |now, model| model.local_copy(now, io.node, bytes));
        kernel.at(at, RemoteEvent(Happens::Answers(io.token, bytes)));
    }
}

impl FileServer {
    fn new(threads: u16) -> Self {
        Self { free_threads: threads, waiting: VecDeque::new(), ahead: HashMap::new(), link: Link::default() }
    }
}

impl Engine for RemoteEngine {
    type Event = RemoteEvent;

    /// A request that does not read is an open, whose range is the document, or does nothing here.
    fn submit(&mut self, kernel: &mut Kernel<RemoteEvent>, io: Io) {
        match io.op {
            Op::Read => return self.read(kernel, io),
            Op::Open => {
                let block = u64::from(self.block_bytes);
                let first = io.offset / block;
                let end = (io.offset + u64::from(io.bytes)).div_ceil(block);
                let document = Document { first: first as u32, blocks: (end - first) as u32 };
                let ahead = Ahead::new(self.remote.read_ahead);
                self.open.insert(io.process, Open { document, ahead });
            }
            Op::Write | Op::Flush | Op::Trim | Op::Close | Op::Send { .. } => {}
        }
        kernel.complete(io.token, kernel.now());
    }

    fn event(&mut self, kernel: &mut Kernel<RemoteEvent>, RemoteEvent(event): RemoteEvent) {
        match event {
            Happens::Asked(wanted) => self.asked(kernel, wanted),
            Happens::Begins(wanted) => self.begins(kernel, wanted),
            Happens::Read(disk) => {
                let all = self.disks[disk].done();
                let node = all.first().map_or(0, |one| self.host(one.server));
                let at = self.interrupt(kernel, node, |now, model| {
                    let service = model.machine().service;
                    model.work(now, node, service)
                });
                kernel.at(at, RemoteEvent(Happens::Loaded(disk, all)));
                self.go_on(kernel, disk);
            }
            Happens::Loaded(disk, all) => self.loaded(kernel, disk, all),
            Happens::Sent => {
                if let Some(thread) = &mut self.thread {
                    thread.sent();
                }
                self.run_thread(kernel, false);
            }
            Happens::Arrives(wanted) => self.arrives(kernel, wanted),
            Happens::Ready(Wanted { server, block }) => self.cached(kernel, server, block),
            Happens::Answers(token, bytes) => {
                let at = self.clients.send(kernel.now(), bytes, self.remote.ethernet.bandwidth);
                kernel.complete(token, at);
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn is_idle(&self) -> bool {
        self.disks.iter().all(Disk::is_idle) && self.thread.as_ref().is_none_or(Thread::is_idle)
    }

    fn table_bytes(&self) -> usize {
        0
    }

    fn cached_blocks(&self) -> u64 {
        self.pages.iter().map(|pages| pages.len() as u64).sum()
    }
}
