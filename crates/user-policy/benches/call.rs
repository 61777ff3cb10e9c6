//! What a call of a module costs: `cargo bench -p cards-user-policy [-- FILE.wasm ...]`.
//!
//! A shard says where a read of another node would go, with the policy `rd` and with each module: what that takes longer is a call
//! of `route`, with the record before it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use cards_core::policy::Asker;
use cards_core::*;
use cards_policies::{BuiltIn, Replacement};
use cards_user_policy::{Choice, Module, Modules};

const CALLS: u32 = 1_000_000;
const V: PgId = PgId::plain(NodeId(0), 0);

fn shard(nodes: u16, module: Option<&Module>) -> Shard {
    let named = BuiltIn::with(Replacement::Lru);
    let (algorithms, policy): (Arc<dyn Algorithms>, String) = match module {
        Some(module) => (Modules::with(named, module), module.spec()),
        None => (named, "rd".to_owned()),
    };
    let config = ShardConfig {
        node: NodeId(1),
        nodes,
        incarnation: 1,
        shard: 0,
        shards: 1,
        capacity_blocks: 1024,
        block_bytes: 4096,
        algorithms,
        placement: Placement::new(PlacementKind::Rendezvous, nodes),
        peer_timeout: Duration::from_secs(1),
        hedge: false,
        disk_wait: Duration::from_secs(30),
        marks: BTreeMap::new(),
        park: true,
        limits: Limits::default(),
    };
    let mut shard = Shard::new(config, 1);
    let spec = VolumeSpec {
        id: V,
        primary: NodeId(0),
        epoch: 1,
        name: "disk".to_owned(),
        size_bytes: 1 << 30,
        block_bytes: 4096,
        policy,
        read_only: true,
        content: 0,
        network_attached: false,
        coherence: Coherence::Confirmed,
        handover: Handover::Cache,
    };
    shard.handle(Instant(0), Input::Volume { spec });
    (0..nodes).filter(|&node| node != 1).for_each(|node| {
        shard.handle(Instant(0), Input::PeerUp { node: NodeId(node) });
    });
    while shard.poll().is_some() {}
    shard
}

/// Nanoseconds of a question, the least of five rounds.
fn ns(nodes: u16, module: Option<&Module>) -> f64 {
    let mut shard = shard(nodes, module);
    let asker = Asker { requester: NodeId(1), via: NodeId(1), hops: 0, failed: false };
    let round = |shard: &mut Shard| {
        let begin = Clock::now();
        for index in 0..CALLS {
            black_box(shard.explain_request(Instant(0), BlockId::new(V, index & 0xffff), asker));
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..5).map(|_| round(&mut shard)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let void = wat::parse_str(include_str!("../tests/modules/endless.wat")).expect("a module");
    let void = Module::new(&void).expect("a policy");
    let files = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let read = |file: String| {
        let module = Choice::read(Path::new(&file)).unwrap_or_else(|error| panic!("{error}"));
        (file, module)
    };
    let modules: Vec<(String, Module)> =
        std::iter::once(("void".to_owned(), void)).chain(files.map(read)).collect();
    for nodes in [4, 50, 1000] {
        let rd = ns(nodes, None);
        println!("{nodes} nodes: rd {rd:.0} ns");
        for (name, module) in &modules {
            println!("{nodes} nodes: {name} {:.0} ns more", ns(nodes, Some(module)) - rd);
        }
    }
}
