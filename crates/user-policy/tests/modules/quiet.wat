;; Sends reads to the node with the disk, and has nothing done: no copy goes because of it.
(module
  (memory (export "memory") 1)
  (func (export "cards_policy_1") (result i32) (i32.const 0))
  (func (export "route") (param i32 i32 i32 i32) (result i32) (i32.const -1))
  (func (export "handle_eviction") (result i32) (i32.const -1))
  (func (export "keep_consistency") (param i32))
  (func (export "offered") (param i32 i32 i32 i32 i32 i32) (result i64) (i64.const 0)))
