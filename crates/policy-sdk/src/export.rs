//! The exports of a module.

use core::cell::UnsafeCell;

use crate::{Asker, Context, Delivery, Fetched, Node, Note, Offer, Policy, Source, abi};

/// A policy and its record, as a static of a module.
#[derive(Debug)]
pub struct Instance<P> {
    parts: UnsafeCell<(Context, P)>,
}

// SAFETY: an instance of a module is used by one thread: WebAssembly without threads has no other, and nothing but the exports of
// [`export!`](crate::export) touches it.
unsafe impl<P> Sync for Instance<P> {}

impl<P: Policy> Instance<P> {
    /// The policy at its beginning.
    pub const fn new(policy: P) -> Self {
        Self { parts: UnsafeCell::new((Context::empty(), policy)) }
    }

    /// Runs one export.
    fn with<T>(&self, run: impl FnOnce(&mut Context, &mut P) -> T) -> T {
        // SAFETY: exports are called one at a time, and none calls another.
        let (cx, policy) = unsafe { &mut *self.parts.get() };
        run(cx, policy)
    }

    /// `cards_policy_1`.
    pub fn begin(&'static self) -> *const abi::Record {
        self.with(|cx, _| {
            let record = cx.record();
            (record.needs, record.reserved_percent) = (P::NEEDS, P::RESERVED_PERCENT);
            &raw const *record
        })
    }

    /// `route`.
    pub fn route(&self, requester: i32, via: i32, hops: i32, failed: i32) -> i32 {
        self.with(|cx, policy| policy.route(cx, asker(requester, via, hops, failed)).map_or(-1, i32::from))
    }

    /// `handle_eviction`.
    pub fn handle_eviction(&self) -> i32 {
        self.with(|cx, policy| abi::eviction(policy.handle_eviction(cx)))
    }

    /// `keep_consistency`.
    pub fn keep_consistency(&self, writer: i32) {
        self.with(|cx, policy| policy.keep_consistency(cx, writer as Node));
    }

    /// `offered`.
    pub fn offered(&self, offer: Offer) -> i64 {
        self.with(|cx, policy| abi::answer(policy.offered(cx, offer)))
    }

    /// `asked`.
    pub fn asked(&self, requester: i32, via: i32, hops: i32, failed: i32, to: i32) {
        let to = Node::try_from(to).ok();
        self.with(|cx, policy| policy.asked(cx, asker(requester, via, hops, failed), to));
    }

    /// `note`.
    pub fn note(&self, from: i32, kind: i32, value: i64) {
        let note = Note { kind: kind as u8, value: value as u64 };
        self.with(|cx, policy| policy.note(cx, from as Node, note));
    }

    /// `filled`.
    pub fn filled(&self, from: i32, source: i32, oldest_ms: i32, for_others: i32) {
        let (source, oldest_ms, for_others) = (self::source(source), oldest_ms as u32, for_others != 0);
        let delivery = Delivery { from: from as Node, source, oldest_ms, for_others };
        self.with(|cx, policy| policy.filled(cx, delivery));
    }

    /// `fetched`.
    pub fn fetched(&self, asked: i32, from: i32, source: i32, took_ns: i64) {
        let (source, took_ns) = (self::source(source), u64::try_from(took_ns).ok());
        let fetched = Fetched { asked: asked as Node, from: from as Node, source, took_ns };
        self.with(|cx, policy| policy.fetched(cx, fetched));
    }

    /// `stored`.
    pub fn stored(&self, depth: i32) {
        self.with(|cx, policy| policy.stored(cx, depth as u8));
    }

    /// `tick`.
    pub fn tick(&self) {
        self.with(|cx, policy| policy.tick(cx));
    }
}

const fn asker(requester: i32, via: i32, hops: i32, failed: i32) -> Asker {
    Asker { requester: requester as Node, via: via as Node, hops: hops as u8, failed: failed != 0 }
}

const fn source(code: i32) -> Source {
    if code == 0 { Source::Cache } else { Source::Disk }
}

/// Exports a policy from a module: its type, and a constant expression for it at its beginning.
///
/// Hooks that the policy leaves void are calls for nothing; `export!(Mine, Mine::new(), [asked, note])` exports only those
/// named.
#[macro_export]
macro_rules! export {
    ($policy:ty, $new:expr) => {
        $crate::export!($policy, $new, [asked, note, filled, fetched, stored, tick]);
    };
    ($policy:ty, $new:expr, [$($hook:ident),* $(,)?]) => {
        #[doc(hidden)]
        #[allow(unsafe_code)]
        mod cards_policy_exports {
            use super::*;

            static INSTANCE: $crate::Instance<$policy> = $crate::Instance::new($new);

            $crate::export!(@fn cards_policy_1() -> *const $crate::abi::Record { INSTANCE.begin() });
            $crate::export!(@fn route(requester: i32, via: i32, hops: i32, failed: i32) -> i32 {
                INSTANCE.route(requester, via, hops, failed)
            });
            $crate::export!(@fn handle_eviction() -> i32 { INSTANCE.handle_eviction() });
            $crate::export!(@fn keep_consistency(writer: i32) -> () { INSTANCE.keep_consistency(writer) });
            $crate::export!(@fn offered(
                class: i32, depth: i32, evictor: i32, previous: i32, age_ms: i32, oldest_ms: i32
            ) -> i64 {
                INSTANCE.offered($crate::Offer {
                    class: class as u8,
                    depth: depth as u8,
                    evictor: evictor as u16,
                    previous: previous as u16,
                    age_ms: age_ms as u32,
                    oldest_ms: oldest_ms as u32,
                })
            });
            $($crate::export!(@hook $hook);)*
        }
    };
    (@hook asked) => {
        $crate::export!(@fn asked(requester: i32, via: i32, hops: i32, failed: i32, to: i32) -> () {
            INSTANCE.asked(requester, via, hops, failed, to)
        });
    };
    (@hook note) => {
        $crate::export!(@fn note(from: i32, kind: i32, value: i64) -> () { INSTANCE.note(from, kind, value) });
    };
    (@hook filled) => {
        $crate::export!(@fn filled(from: i32, source: i32, oldest_ms: i32, for_others: i32) -> () {
            INSTANCE.filled(from, source, oldest_ms, for_others)
        });
    };
    (@hook fetched) => {
        $crate::export!(@fn fetched(asked: i32, from: i32, source: i32, took_ns: i64) -> () {
            INSTANCE.fetched(asked, from, source, took_ns)
        });
    };
    (@hook stored) => {
        $crate::export!(@fn stored(depth: i32) -> () { INSTANCE.stored(depth) });
    };
    (@hook tick) => {
        $crate::export!(@fn tick() -> () { INSTANCE.tick() });
    };
    (@fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        // The names are those of the module's exports, and mean something else to other programs' linkers.
        #[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
        #[allow(dead_code)]
        pub extern "C" fn $name($($argument: $type),*) -> $result $body
    };
}
