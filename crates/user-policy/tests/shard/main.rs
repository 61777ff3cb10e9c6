//! Modules at work at shards that talk to each other.

#[path = "../../../core/tests/shard/cluster.rs"]
#[allow(dead_code)]
mod cluster;
mod refused;

use std::sync::Arc;

use cards_core::*;
use cards_policies::{BuiltIn, Replacement};
use cards_user_policy::{Failure, Module, ModuleError, Modules};
use cluster::{Cluster, SETUP, Setup, V};

/// A module with the exports that it must have, all void, and what else is given instead.
struct Text {
    memory: &'static str,
    globals: &'static str,
    begin: &'static str,
    route: &'static str,
    handle_eviction: &'static str,
    more: &'static str,
}

const VOID: Text = Text {
    memory: "(memory (export \"memory\") 1)",
    globals: "",
    begin: "(func (export \"cards_policy_1\") (result i32) (i32.const 0))",
    route: "(i32.const -1)",
    handle_eviction: "(i32.const -1)",
    more: "",
};

impl Text {
    fn bytes(&self) -> Vec<u8> {
        let Self { memory, globals, begin, route, handle_eviction, more } = self;
        let text = format!(
            "(module {memory} {globals} {begin}
               (func (export \"route\") (param i32 i32 i32 i32) (result i32) {route})
               (func (export \"handle_eviction\") (result i32) {handle_eviction})
               (func (export \"keep_consistency\") (param i32))
               (func (export \"offered\") (param i32 i32 i32 i32 i32 i32) (result i64) (i64.const 0))
               {more})"
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn module(&self) -> Module {
        Module::new(&self.bytes()).unwrap()
    }
}

fn module(text: &str) -> Module {
    Module::new(&wat::parse_str(text).unwrap()).unwrap()
}

/// Nodes with the module, and what they know of modules. (All of them together, as the shards of one node do.)
fn cluster(module: &Module, setup: Setup) -> (Cluster, Arc<Modules>) {
    let modules = Arc::new(Modules::beside(BuiltIn::with(Replacement::Lru)));
    modules.add(module.clone());
    let algorithms: Arc<dyn Algorithms> = modules.clone();
    let algorithms = Some(&*Box::leak(Box::new(algorithms)));
    let policy = Box::leak(module.spec().into_boxed_str());
    (Cluster::new(Setup { algorithms, policy, ..setup }), modules)
}

fn failure(module: &Module, modules: &Modules) -> Option<Failure> {
    modules.fallbacks().reason(V, module.digest())
}

/// What a plain remote disk does: one question to the disk node.
fn reads_as_rd(c: &mut Cluster, index: u32) {
    let expected = [format!("n1->n0 read {index} for n1"), format!("n0->n1 data {index} from Disk")];
    assert_eq!(c.read(1, index), expected);
}

#[test]
fn a_module_routes_a_read() {
    // To node 2, but at node 2.
    let route = "(select (i32.const -1) (i32.const 2) (i32.eq (i32.load16_u (i32.const 40)) (i32.const 2)))";
    let module = Text { route, ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    assert_eq!(c.read(1, 5), ["n1->n2 read 5 for n1", "n2->n0 read 5 for n1", "n0->n1 data 5 from Disk"]);
    c.read(2, 7);
    assert_eq!(c.read(1, 7), ["n1->n2 read 7 for n1", "n2->n1 data 7 from Cache"]);
    assert_eq!(failure(&module, &modules), None);
}

#[test]
fn a_node_that_is_no_member_is_the_disk_node() {
    let module = Text { route: "(i32.const 1000)", ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    reads_as_rd(&mut c, 5);
    assert_eq!(failure(&module, &modules), None);
}

#[test]
fn effects_are_carried_out() {
    // What is asked for at the disk node is said to node 2, with kind 9 and the value 77.
    let more = "(func (export \"asked\") (param i32 i32 i32 i32 i32)
        (i32.store16 (i32.const 58) (i32.const 1))
        (i32.store (i32.const 128) (i32.const 0x00020901))
        (i32.store (i32.const 132) (i32.load (i32.const 16)))
        (i64.store (i32.const 136) (i64.const 77)))";
    let module = Text { more, ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    let log = c.read(1, 5);
    assert!(log.contains(&"n0->n2 note 5 Note { kind: 9, value: 77 }".to_string()), "{log:?}");
    assert_eq!(failure(&module, &modules), None);
}

#[test]
fn an_evicted_block_is_offered_and_kept() {
    let more = "";
    let text = Text { handle_eviction: "(i32.const 0x00010002)", more, ..VOID };
    // Evicted blocks go to node 2, which keeps them where there is room.
    let bytes = wat::parse_str(
        "(module (memory (export \"memory\") 1)
           (func (export \"cards_policy_1\") (result i32) (i32.const 0))
           (func (export \"route\") (param i32 i32 i32 i32) (result i32) (i32.const -1))
           (func (export \"handle_eviction\") (result i32) (i32.const 0x00010002))
           (func (export \"keep_consistency\") (param i32))
           (func (export \"offered\") (param i32 i32 i32 i32 i32 i32) (result i64) (i64.const 3)))",
    )
    .unwrap();
    let module = Module::new(&bytes).unwrap();
    let (mut c, modules) = cluster(&module, Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..5 {
        c.read(1, index);
    }
    assert!(c.has(2, 0), "{:?}", c.log);
    assert_eq!(c.stats(2).stored_for_others, 1);
    assert_eq!(failure(&module, &modules), None);
    // Without the word of node 2 it is dropped.
    let (mut c, _) = cluster(&text.module(), Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..5 {
        c.read(1, index);
    }
    assert!(!c.has(2, 0));
}

/// Each ends as a plain remote disk at once and for good, and says why.
#[test]
fn a_module_that_fails_is_not_asked_again() {
    let endless = "(loop $l (br $l)) (i32.const -1)";
    let huge = "(i32.store16 (i32.const 58) (i32.const 65)) (i32.const -1)";
    let grow = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        (i32.store (i32.const 0x7fffffff) (i32.const 1)) (i32.const -1)";
    for (route, reason) in [
        (endless, "`route` used more than 100000 units of fuel"),
        ("(i32.load (i32.const 65536))", "`route` failed: out of bounds memory access"),
        ("(unreachable)", "`route` failed: wasm `unreachable` instruction executed"),
        ("(i32.div_u (i32.const 1) (i32.const 0))", "`route` failed: integer divide by zero"),
        ("(i32.const 1023)", "`route` answered 1023: want a node, 0 to 1022, or -1"),
        ("(i32.const -2)", "`route` answered -2: want a node, 0 to 1022, or -1"),
        // Memory costs fuel, too.
        (grow, "`route` used more than 100000 units of fuel"),
    ] {
        let module = Text { route, ..VOID }.module();
        let (mut c, modules) = cluster(&module, SETUP);
        reads_as_rd(&mut c, 5);
        assert_eq!(failure(&module, &modules).unwrap().to_string(), reason);
        reads_as_rd(&mut c, 6);
    }
    for (handle_eviction, reason) in [
        (huge, "`handle_eviction` answered 65: want at most 64 effects"),
        (
            "(i32.const 0x03ff)",
            "`handle_eviction` answered 1023: want -1, or a node from 0 to 1022 with class and depth",
        ),
    ] {
        let module = Text { handle_eviction, ..VOID }.module();
        let (mut c, modules) = cluster(&module, Setup { capacity: 4, network_attached: true, ..SETUP });
        (0..5).for_each(|index| _ = c.read(1, index));
        assert_eq!(failure(&module, &modules).unwrap().to_string(), reason);
        reads_as_rd(&mut c, 9);
    }
}

#[test]
fn a_recursion_without_end_is_a_trap() {
    let more = "(func $again (result i32) (i32.add (call $again) (i32.const 1)))";
    let module = Text { route: "(call $again)", more, ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    reads_as_rd(&mut c, 5);
    assert!(matches!(failure(&module, &modules), Some(Failure::Trap { operation: "route", .. })));
}

/// Memory cannot grow beyond its bound; the module sees that and goes on.
#[test]
fn memory_is_bounded() {
    let route =
        "(if (i32.ne (memory.grow (i32.const 256)) (i32.const -1)) (then (unreachable))) (i32.const -1)";
    let module = Text { route, ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    reads_as_rd(&mut c, 5);
    assert_eq!(failure(&module, &modules), None);
}

#[test]
fn a_module_that_never_returns_serves_reads() {
    let module = module(include_str!("../modules/endless.wat"));
    let (mut c, modules) = cluster(&module, SETUP);
    for index in 0..20 {
        c.read(1, index);
        c.read(2, index);
    }
    let reason = failure(&module, &modules).unwrap().to_string();
    assert_eq!(reason, "`asked` used more than 100000 units of fuel");
}

#[test]
fn a_module_that_answers_at_random_serves_reads_and_writes() {
    let module = module(include_str!("../modules/random.wat"));
    let run = || {
        let (mut c, modules) = cluster(&module, Setup { nodes: 4, capacity: 6, ..SETUP });
        let mut log = Vec::new();
        for step in 0..600_u32 {
            let (node, index) = ((step % 4) as u16, mix(step.into()) as u32 % 24);
            log.extend(c.read(node, index));
            if step % 7 == 0 {
                c.write(node, index);
                c.finish_reads();
            }
        }
        assert_eq!(failure(&module, &modules), None);
        assert!(c.stats(1).forwarded > 0 && c.stats(1).remote_hits > 0, "{:?}", c.stats(1));
        log
    };
    assert_eq!(run(), run(), "the same answers in every run");
}

/// Each note is answered by one: they come to an end.
#[test]
fn notes_in_a_circle_come_to_an_end() {
    let say = "(i32.store16 (i32.const 58) (i32.const 2))
        (i32.store (i32.const 128) (i32.const 0x00010001))
        (i32.store (i32.const 144) (i32.const 0x00020001))";
    let text = format!(
        "(func $say {say})
        (func (export \"asked\") (param i32 i32 i32 i32 i32) (call $say))
        (func (export \"note\") (param i32 i32 i64) (call $say))"
    );
    let module = Text { more: Box::leak(text.into_boxed_str()), ..VOID }.module();
    let (mut c, modules) = cluster(&module, SETUP);
    c.read(1, 5);
    let notes = c.log.iter().filter(|line| line.contains("note")).count();
    assert!((1000..1_000_000).contains(&notes), "{notes}");
    assert_eq!(failure(&module, &modules), None);
}

#[test]
fn a_node_without_the_module_says_so() {
    let module = VOID.module();
    let modules = Arc::new(Modules::beside(BuiltIn::with(Replacement::Lru)));
    let algorithms: Arc<dyn Algorithms> = modules.clone();
    let algorithms = Some(&*Box::leak(Box::new(algorithms)));
    let policy = Box::leak(module.spec().into_boxed_str());
    let mut c = Cluster::new(Setup { algorithms, policy, ..SETUP });
    reads_as_rd(&mut c, 5);
    let reason = failure(&module, &modules).unwrap();
    assert_eq!(reason, Failure::Absent { digest: module.digest() });
}

#[test]
fn what_a_module_needs_is_in_its_record() {
    // Answers with the home where it is shown.
    let route = "(select (i32.load16_u (i32.const 44)) (i32.const -1)
        (i32.ne (i32.load16_u (i32.const 44)) (i32.const 0xffff)))";
    let begin = "(func (export \"cards_policy_1\") (result i32)
        (i32.store16 (i32.const 62) (i32.const 1)) (i32.const 0))";
    let (mut c, _) = cluster(&Text { route, begin, ..VOID }.module(), SETUP);
    let block = c.homed_at(2);
    assert_eq!(c.read(1, block)[0], format!("n1->n2 read {block} for n1"));
    let (mut c, _) = cluster(&Text { route, ..VOID }.module(), SETUP);
    assert_eq!(c.read(1, block)[0], format!("n1->n0 read {block} for n1"));
}

/// What is cached stays, what is read meanwhile comes, and the new policy begins at once.
#[test]
fn a_policy_is_chosen_while_reads_are_under_way() {
    let route = "(select (i32.const -1) (i32.const 2) (i32.eq (i32.load16_u (i32.const 40)) (i32.const 2)))";
    let module = Text { route, ..VOID }.module();
    let modules = Arc::new(Modules::beside(BuiltIn::with(Replacement::Lru)));
    modules.add(module.clone());
    let algorithms: Arc<dyn Algorithms> = modules.clone();
    let algorithms = Some(&*Box::leak(Box::new(algorithms)));
    let mut c = Cluster::new(Setup { algorithms, policy: "gms", capacity: 16, ..SETUP });
    for index in 0..4 {
        c.read(1, index);
    }
    let chosen =
        |policy: Option<String>| policy.map(|policy| ("disk".to_owned(), policy)).into_iter().collect();
    let choose = |c: &mut Cluster, policy: Option<String>| {
        modules.choose(chosen(policy));
        (0..3).for_each(|node| c.give(node, Input::PolicyChosen { volume: V }));
    };
    c.hold_disk = true;
    c.read(1, 5);
    choose(&mut c, Some(module.spec()));
    c.hold_disk = false;
    c.run();
    c.finish_reads();
    assert!(c.has(1, 5), "the read that was under way has come");
    for index in 0..4 {
        assert!(c.read(1, index).is_empty(), "block {index} is still here");
    }
    assert_eq!(c.read(1, 7)[0], "n1->n2 read 7 for n1");
    // And back to what its spec says, or to another one.
    choose(&mut c, Some("rd".to_owned()));
    assert_eq!(c.read(1, 8)[0], "n1->n0 read 8 for n1");
    choose(&mut c, None);
    assert!(c.read(1, 7).is_empty());
}
