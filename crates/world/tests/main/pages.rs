//! The pages of a local device, step by step: they are used until they are withdrawn, and a write waits for that.

use cards_core::{
    Access, BlockId, Coherence, CommandKind, DiskWork, Duration, Handover, Instant, Limits, NodeId, PgId,
    PlacementKind, Token, VolumeSpec,
};
use cards_policies::Replacement;
use cards_world::models::{Delivery, Disk, DiskTiming, Host, Kernel, Network, Parcel, Why};
use cards_world::{Action, NodeConfig, Outcome, PageEvent, Request, World, WorldConfig, initial_tag};

const DISK: NodeId = NodeId(0);
const READER: NodeId = NodeId(1);
const V: PgId = PgId::plain(DISK, 0);
const BLOCK: BlockId = BlockId::new(V, 3);
const LEASE: Duration = Duration::from_millis(400);
/// How long pages take to go.
const WITHDRAWAL: Duration = Duration::from_millis(30);
const STEP: Duration = Duration::from_micros(100);

/// Everything takes a step, but pages go slowly.
struct Steady;

impl Network for Steady {
    fn deliver(&mut self, _: Instant, _: NodeId, _: NodeId, _: Parcel<'_>, deliveries: &mut Vec<Delivery>) {
        deliveries.push(Delivery { delay: STEP, transfer: STEP, broken: false });
    }
}

impl Disk for Steady {
    fn start(&mut self, _: Instant, _: PgId, _: &DiskWork) -> DiskTiming {
        DiskTiming { halves: [Some(STEP), Some(STEP)], done: STEP, result: Ok(()), lie: None }
    }
}

impl Host for Steady {
    fn send(&mut self, _: Instant, _: NodeId, _: u32) -> Duration {
        STEP
    }

    fn reply(&mut self, _: Instant, _: NodeId, _: u32) -> Duration {
        STEP
    }
}

impl Kernel for Steady {
    fn word(&mut self, _: NodeId, _: PgId) -> Duration {
        STEP
    }

    fn answer(&mut self, _: NodeId, _: PgId) -> Duration {
        STEP
    }

    fn withdraw(&mut self, _: NodeId, _: PgId, _: Why) -> Duration {
        WITHDRAWAL
    }

    fn notice(&mut self, _: NodeId, _: PgId) -> Duration {
        STEP
    }
}

struct Bench {
    world: World<Steady>,
    events: Vec<PageEvent>,
    answers: Vec<(Token, Instant, Outcome)>,
}

impl Bench {
    /// Two nodes that know each other, the volume of the first, attached at both, and a device of it at `device`.
    fn new(device: NodeId) -> Self {
        Self::with(device, Vec::new())
    }

    /// The same, with a medium that both reach.
    fn shared(device: NodeId) -> Self {
        Self::with(device, vec![V])
    }

    fn with(device: NodeId, shared: Vec<PgId>) -> Self {
        let node = NodeConfig { capacity_blocks: 16, replacement: Replacement::Lru, park: true };
        let spec = VolumeSpec {
            id: V,
            primary: V.disk_node(),
            epoch: 1,
            name: "volume".to_owned(),
            size_bytes: 16 * 4096,
            block_bytes: 4096,
            policy: "rd".to_owned(),
            read_only: false,
            content: 0,
            network_attached: false,
            coherence: Coherence::Confirmed,
            handover: Handover::Cache,
        };
        let config = WorldConfig {
            nodes: vec![node; 2],
            shards: 1,
            block_bytes: 4096,
            sectors: 2,
            volumes: vec![spec],
            shared,
            mirrors: Vec::new(),
            devices: vec![(device, V)],
            exclusive: Vec::new(),
            strangers: Vec::new(),
            placement: PlacementKind::Rendezvous,
            peer_timeout: Duration::from_millis(50),
            hedge: false,
            disk_wait: Duration::from_secs(5),
            lease: LEASE,
            seal_after: Duration::ZERO,
            seed: 1,
            limits: Limits::default(),
            module: None,
            check: true,
        };
        let mut bench =
            Self { world: World::new(config, Steady, None), events: Vec::new(), answers: Vec::new() };
        bench.act(Action::Boot(DISK));
        bench.act(Action::OpenDevice(device, V));
        bench.join();
        bench
    }

    /// The reader starts, or starts again.
    fn join(&mut self) {
        self.act(Action::Boot(READER));
        for (at, peer) in [(DISK, READER), (READER, DISK)] {
            let proof = Some(self.world.life(peer));
            self.act(Action::PeerUp { at, peer, proof });
        }
        for node in [DISK, READER] {
            let request =
                Request::Attach { volume: V, policy: String::new(), access: Access::Write, takeover: false };
            let answer = self.ask(node, request);
            assert!(matches!(answer, Outcome::Attached(_)), "{answer:?}");
        }
    }

    fn act(&mut self, action: Action) {
        let now = self.world.now();
        self.world.schedule(now, action);
        self.run(STEP * 2);
    }

    fn run(&mut self, time: Duration) {
        let end = self.world.now() + time;
        self.world.schedule(end, Action::Wake(0));
        while self.world.step().is_none() {}
        while let Some(event) = self.world.page_event() {
            self.events.push(event);
        }
        while let Some(done) = self.world.completion() {
            self.answers.push((done.token, done.at, done.outcome));
        }
    }

    /// The answer, if there is one yet.
    fn answer(&mut self, token: Token) -> Option<(Instant, Outcome)> {
        let at = self.answers.iter().position(|(answered, ..)| *answered == token)?;
        let (_, at, outcome) = self.answers.remove(at);
        Some((at, outcome))
    }

    fn ask(&mut self, node: NodeId, request: Request) -> Outcome {
        let token = self.world.submit(node, request);
        self.run(Duration::from_millis(10));
        self.answer(token).expect("it takes no longer").1
    }

    /// What the first sector of the block holds for the device, and what happened to pages.
    fn read(&mut self, device: NodeId) -> (u64, Vec<PageEvent>) {
        self.events.clear();
        match self.ask(device, Request::ReadDevice { block: BLOCK }) {
            Outcome::Read { tags, .. } => (tags[0], std::mem::take(&mut self.events)),
            outcome => panic!("{outcome:?}"),
        }
    }

    fn write(&mut self, node: NodeId, tag: u64) -> Token {
        let sector = u64::from(BLOCK.index) * 2;
        let (kind, tags) = (CommandKind::Write, vec![tag, tag]);
        self.world.submit(node, Request::Command { volume: V, kind, sector, count: 2, fua: false, tags })
    }
}

#[test]
fn a_page_is_used_until_it_is_withdrawn_and_a_write_waits_for_that() {
    for device in [DISK, READER] {
        for writer in [DISK, READER] {
            let mut bench = Bench::new(device);
            let old = initial_tag(V, u64::from(BLOCK.index) * 2);
            assert_eq!(bench.read(device), (old, vec![PageEvent::Filled(device, BLOCK)]));
            assert_eq!(bench.read(device), (old, vec![PageEvent::Used(device, BLOCK)]));
            let begun = bench.world.now();
            let write = bench.write(writer, 7);
            bench.run(Duration::from_millis(5));
            // The kernel does not know better, and nobody has been told that the write is done.
            assert_eq!(bench.read(device), (old, vec![PageEvent::Used(device, BLOCK)]));
            assert_eq!(bench.answer(write), None);
            bench.run(WITHDRAWAL);
            let (done, outcome) = bench.answer(write).expect("the pages are gone");
            assert_eq!(outcome, Outcome::Done);
            assert!(done >= begun + WITHDRAWAL, "device at {device:?}, writer at {writer:?}: {done:?}");
            assert_eq!(bench.read(device), (7, vec![PageEvent::Filled(device, BLOCK)]));
            assert_eq!(bench.world.withdrawals(device), 0);
        }
    }
}

#[test]
fn without_a_lease_pages_go_and_reads_wait() {
    let mut bench = Bench::new(READER);
    bench.read(READER);
    for (at, peer) in [(DISK, READER), (READER, DISK)] {
        bench.act(Action::PeerDown { at, peer });
    }
    bench.events.clear();
    bench.run(LEASE + WITHDRAWAL);
    assert_eq!(bench.events, [PageEvent::Cleared(READER, V, Why::Lapsed, 1)]);
    let read = bench.world.submit(READER, Request::ReadDevice { block: BLOCK });
    bench.run(LEASE);
    assert_eq!(bench.answer(read), None);
    for (at, peer) in [(DISK, READER), (READER, DISK)] {
        let proof = Some(bench.world.life(peer));
        bench.act(Action::PeerUp { at, peer, proof });
    }
    bench.run(LEASE);
    assert!(bench.answer(read).is_some());
}

#[test]
fn a_device_outlives_its_node_and_its_pages_do_not() {
    let mut bench = Bench::new(READER);
    let (old, _) = bench.read(READER);
    bench.events.clear();
    bench.act(Action::Crash(READER));
    let read = bench.world.submit(READER, Request::ReadDevice { block: BlockId::new(V, 4) });
    assert_eq!(bench.read(READER), (old, vec![PageEvent::Used(READER, BLOCK)]));
    assert!(bench.world.has_orphans(READER));
    bench.run(WITHDRAWAL);
    assert_eq!(bench.events, [PageEvent::Cleared(READER, V, Why::Orphaned, 1)]);
    assert!(!bench.world.has_orphans(READER));
    assert_eq!(bench.answer(read), None);
    bench.join();
    bench.run(LEASE);
    assert!(matches!(bench.answer(read), Some((_, Outcome::Read { .. }))));
}

#[test]
fn a_device_that_nobody_uses_holds_up_nobody() {
    let mut bench = Bench::new(READER);
    bench.read(READER);
    bench.act(Action::CloseDevice(READER, V));
    let write = bench.write(DISK, 7);
    bench.run(Duration::from_millis(5));
    assert_eq!(bench.answer(write).map(|(_, outcome)| outcome), Some(Outcome::Done));
    bench.act(Action::OpenDevice(READER, V));
    assert_eq!(bench.read(READER).0, 7);
}

#[test]
fn words_of_a_device_keep_their_order_while_its_node_stands_still_again() {
    let mut bench = Bench::new(READER);
    let until = |bench: &Bench, millis| bench.world.now() + Duration::from_millis(millis);
    let first = until(&bench, 20);
    bench.act(Action::Pause(READER, first));
    bench.act(Action::CloseDevice(READER, V));
    let second = until(&bench, 40);
    bench.act(Action::Pause(READER, second));
    bench.act(Action::OpenDevice(READER, V));
    bench.run(Duration::from_millis(60));
    let (_, events) = bench.read(READER);
    assert_eq!(events, [PageEvent::Filled(READER, BLOCK)]);
}

/// A client that gives up what it has asked for must not have it afterwards.
#[test]
fn requests_keep_their_order_while_their_node_stands_still_again() {
    // The second pause ends after the first, or before it.
    for ends in [[20, 40], [40, 20]] {
        let mut bench = Bench::new(READER);
        let pause = |bench: &mut Bench, millis| {
            let until = bench.world.now() + Duration::from_millis(millis);
            bench.act(Action::Pause(READER, until));
        };
        let detached = |bench: &mut Bench| {
            bench.world.submit(READER, Request::Detach { volume: V });
        };
        detached(&mut bench);
        bench.run(Duration::from_millis(5));
        pause(&mut bench, ends[0]);
        let access = Access::Write;
        let attach = Request::Attach { volume: V, policy: String::new(), access, takeover: false };
        bench.world.submit(READER, attach);
        bench.run(STEP);
        pause(&mut bench, ends[1]);
        detached(&mut bench);
        bench.run(Duration::from_millis(60));
        let control = bench.world.control(READER).expect("it runs");
        assert_eq!(control.cards().count(), 0, "the last word was to give the card up");
    }
}

#[test]
fn who_reads_from_a_device_that_is_closed_waits_no_longer_than_until_it_is_closed_again() {
    let mut bench = Bench::new(READER);
    bench.act(Action::CloseDevice(READER, V));
    let read = bench.world.submit(READER, Request::ReadDevice { block: BLOCK });
    bench.run(STEP);
    assert_eq!(bench.answer(read), None, "it waits until the device is opened");
    bench.act(Action::CloseDevice(READER, V));
    assert_eq!(bench.answer(read).map(|(_, outcome)| outcome), Some(Outcome::Lost));
}

/// A primary needs no lease for what its kernel has. Who was one does.
#[test]
fn a_device_has_a_lease_again_when_its_node_is_the_primary_no_longer() {
    let mut bench = Bench::shared(DISK);
    bench.read(DISK);
    bench.run(LEASE * 2);
    assert!(matches!(bench.read(DISK).1[..], [PageEvent::Used(..)]));
    bench.act(Action::MovePrimary { volume: V, to: READER });
    bench.run(LEASE);
    assert!(matches!(bench.read(DISK).1[..], [PageEvent::Filled(..)]), "it has parted from its pages");
    let until = bench.world.now() + LEASE * 4;
    bench.act(Action::Pause(DISK, until));
    bench.events.clear();
    let write = bench.write(READER, 7);
    bench.run(LEASE * 2);
    assert_eq!(bench.events, [PageEvent::Cleared(DISK, V, Why::Lapsed, 1)]);
    assert_eq!(bench.answer(write).map(|(_, outcome)| outcome), Some(Outcome::Done));
}

#[test]
fn a_device_needs_no_lease_when_its_node_has_become_the_primary() {
    let mut bench = Bench::shared(READER);
    bench.read(READER);
    bench.act(Action::MovePrimary { volume: V, to: READER });
    bench.run(LEASE);
    assert!(matches!(bench.read(READER).1[..], [PageEvent::Filled(..)]));
    bench.run(LEASE * 3);
    assert!(matches!(bench.read(READER).1[..], [PageEvent::Used(..)]));
}
