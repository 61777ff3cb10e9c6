//! Requests of clients.

use cards_core::{BlockId, Instant, NodeId, PgId};
use cards_pafs::{Access, AccessKind, Found, Frame};
use cards_trace::Op;

use super::{Mail, Pafs, PafsEvent, Step};
use crate::kernel::{Io, IoToken, Kernel};

/// The requests that are not done.
#[derive(Debug, Default)]
pub(super) struct Requests {
    all: Vec<Option<Request>>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    io: Io,
    /// Blocks, or answers of servers, that it waits for.
    left: u32,
    /// When the last of them was done.
    last: Instant,
    /// The server that has to say that it is done, if some of its writes were covered.
    answers: Option<u16>,
}

impl Requests {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn begin(&mut self, io: Io, left: u32, now: Instant) {
        if self.all.len() <= io.token as usize {
            self.all.resize(io.token as usize + 1, None);
        }
        self.all[io.token as usize] = Some(Request { io, left, last: now, answers: None });
        self.count += 1;
    }

    fn end(&mut self, token: IoToken) {
        self.all[token as usize] = None;
        self.count -= 1;
    }

    fn get(&mut self, token: IoToken) -> &mut Request {
        let Some(request) = &mut self.all[token as usize] else {
            unreachable!("request {token} is under way");
        };
        request
    }
}

impl Pafs {
    /// One message to each server that a request concerns, and that is all that passes between them and the client,
    /// but for the data (and the answers to covered writes and to requests without data).
    pub(super) fn submit_parts(&mut self, kernel: &mut Kernel<PafsEvent>, io: Io) {
        if io.op.is_data() && io.blocks == 0 {
            kernel.complete(io.token, kernel.now());
            return;
        }
        let extents = self.owners.extent_blocks();
        let size = u64::from(self.block_bytes);
        let (first, last) = match io.op {
            Op::Read | Op::Write | Op::Trim if io.blocks > 0 => {
                (io.first, io.first + u64::from(io.blocks) - 1)
            }
            // Metadata: the server of where the range begins.
            _ => (io.offset / size, io.offset / size),
        };
        let first_server = self.owners.owner(io.volume.into(), first);
        if first / extents == last / extents {
            self.requests.begin(io, if io.op.is_data() { io.blocks } else { 1 }, kernel.now());
            self.request(kernel, &io, first_server);
            return;
        }
        let owner = |extent: u64| self.owners.owner(io.volume.into(), extent * extents);
        let mut servers: Vec<u16> = (first / extents..=last / extents).map(owner).collect();
        servers.sort_unstable();
        servers.dedup();
        let parts = if io.op.is_data() { io.blocks } else { servers.len() as u32 };
        self.requests.begin(io, parts, kernel.now());
        servers.into_iter().for_each(|server| self.request(kernel, &io, server));
    }

    fn request(&mut self, kernel: &mut Kernel<PafsEvent>, io: &Io, server: u16) {
        let mail = Mail::Request { token: io.token, server };
        self.post(kernel, io.node, self.node_of(server), mail);
    }

    /// A server has a request, or its part of one.
    pub(super) fn serve(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16, token: IoToken) {
        let io = self.requests.get(token).io;
        match io.op {
            Op::Read | Op::Write => self.access(kernel, server, &io),
            Op::Trim => {
                // Files begin at the start of a block: one whose first part is kept belongs to another file.
                let first = io.offset.div_ceil(self.block_bytes.into());
                let end = io.first + u64::from(io.blocks);
                self.call(kernel, server, |s, out| s.discard(PgId(io.volume.into()), first, end, out));
                self.reply(kernel, token, server);
            }
            Op::Flush | Op::Open | Op::Close | Op::Send { .. } => self.reply(kernel, token, server),
        }
    }

    fn access(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16, io: &Io) {
        let extents = self.owners.extent_blocks();
        let end = io.first + u64::from(io.blocks);
        let mut index = io.first;
        while index < end {
            let extent_end = ((index / extents + 1) * extents).min(end);
            if self.owners.owner(io.volume.into(), index) == server {
                self.access_extent(kernel, server, io, index..extent_end);
            }
            index = extent_end;
        }
    }

    fn access_extent(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        server: u16,
        io: &Io,
        blocks: std::ops::Range<u64>,
    ) {
        let size = self.block_bytes;
        self.call(kernel, server, |s, out| {
            for index in blocks {
                let kind = match io.op {
                    Op::Read => AccessKind::Read,
                    _ if io.covers(index, size) => AccessKind::WriteWhole,
                    _ => AccessKind::WritePart,
                };
                let block = BlockId::new(PgId(io.volume.into()), index as u32);
                s.access(Access { token: io.token, client: NodeId(io.node), block, kind }, out);
            }
        });
    }

    /// The requested bytes go from the buffer to the client; nothing stays at the client's node (PAFS-4, PAFS-5).
    pub(super) fn deliver(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        node: u16,
        access: &Access,
        frame: Frame,
        found: Found,
    ) {
        match found {
            Found::Cached if frame.node == access.client => self.counts.local_hits += 1,
            Found::Cached => self.counts.remote_hits += 1,
            Found::OnDisk | Found::Absent => self.counts.disk_reads += 1,
        }
        let io = &self.requests.get(access.token).io;
        let bytes = io.bytes_in(access.block.index.into(), self.block_bytes);
        let at = kernel.model.copy(kernel.now(), node, frame.node.0, access.client.0, bytes);
        self.part_done(kernel, access.token, at);
    }

    /// The client's bytes for a block go to a node, as a server on `node` says.
    pub(super) fn copy_from_client(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        node: u16,
        token: IoToken,
        block: BlockId,
        to: u16,
    ) -> Instant {
        let io = &self.requests.get(token).io;
        let bytes = io.bytes_in(block.index.into(), self.block_bytes);
        kernel.model.copy(kernel.now(), node, io.node, to, bytes)
    }

    pub(super) const fn count_write(&mut self, found: Found) {
        self.counts.writes += 1;
        match found {
            Found::Cached => self.counts.write_hits += 1,
            Found::OnDisk => self.counts.write_fills += 1,
            Found::Absent => {}
        }
    }

    /// A block of a request, or a server's answer, is done.
    pub(super) fn part_done(&mut self, kernel: &mut Kernel<PafsEvent>, token: IoToken, at: Instant) {
        let request = self.requests.get(token);
        request.left -= 1;
        request.last = request.last.max(at);
        if request.left > 0 {
            return;
        }
        let last = request.last;
        match request.answers.take() {
            Some(server) => {
                request.left = 1;
                self.wait(kernel, last, Step::Acknowledge { token, server });
            }
            None => {
                kernel.complete(token, last);
                self.requests.end(token);
            }
        }
    }

    /// A covered write of a block is done. When all blocks of the request are, the server says so (PAFS-16, step 5).
    pub(super) fn covered_part_done(&mut self, kernel: &mut Kernel<PafsEvent>, token: IoToken, server: u16) {
        self.requests.get(token).answers = Some(server);
        self.part_done(kernel, token, kernel.now());
    }

    /// A server tells a client that its request, or the server's part of it, is done.
    pub(super) fn reply(&mut self, kernel: &mut Kernel<PafsEvent>, token: IoToken, server: u16) {
        let client = self.requests.get(token).io.node;
        self.post(kernel, self.node_of(server), client, Mail::Reply { token });
    }
}
