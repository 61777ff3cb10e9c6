;; Answers at random: whatever a policy may answer, and effects that nobody asked for.
(module
  (memory (export "memory") 1)
  (global $seed (mut i64) (i64.const 88172645463325252))

  (func (export "cards_policy_1") (result i32)
    ;; needs: everything
    (i32.store16 (i32.const 62) (i32.const 127))
    (i32.const 0))

  ;; A number below the bound.
  (func $draw (param $bound i32) (result i32)
    (global.set $seed
      (i64.add
        (i64.xor (i64.mul (global.get $seed) (i64.const 6364136223846793005)) (i64.load (i32.const 8)))
        (i64.const 1442695040888963407)))
    (i32.rem_u (i32.wrap_i64 (i64.shr_u (global.get $seed) (i64.const 33))) (local.get $bound)))

  (func $node (result i32) (call $draw (i32.load16_u (i32.const 52))))

  ;; Up to three effects, mostly of the block at hand.
  (func $stir
    (local $count i32) (local $place i32) (local $i i32)
    (local.set $count (call $draw (i32.const 4)))
    (i32.store16 (i32.const 58) (local.get $count))
    (i32.store8 (i32.const 60) (i32.const 1))
    (block $end
      (loop $next
        (br_if $end (i32.ge_u (local.get $i) (local.get $count)))
        (local.set $place (i32.add (i32.const 128) (i32.mul (local.get $i) (i32.const 16))))
        (i32.store8 (local.get $place) (i32.add (i32.const 1) (call $draw (i32.const 9))))
        (i32.store8 offset=1 (local.get $place) (call $draw (i32.const 256)))
        (i32.store16 offset=2 (local.get $place) (call $node))
        (i32.store offset=4 (local.get $place)
          (i32.add (i32.load (i32.const 16)) (call $draw (i32.const 2))))
        (i64.store offset=8 (local.get $place)
          (i64.add (i64.load (i32.const 0)) (i64.extend_i32_u (call $draw (i32.const 1000000000)))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next))))

  ;; A route changes nothing: it is drawn from what the node gives.
  (func (export "route") (param i32 i32 i32 i32) (result i32)
    (local $drawn i32)
    (local.set $drawn
      (i32.wrap_i64 (i64.shr_u (i64.xor (i64.load (i32.const 8)) (i64.load32_u (i32.const 16))) (i64.const 24))))
    (if (i32.eqz (i32.and (local.get $drawn) (i32.const 3))) (then (return (i32.const -1))))
    (i32.rem_u (i32.shr_u (local.get $drawn) (i32.const 2)) (i32.load16_u (i32.const 52))))

  (func (export "asked") (param i32 i32 i32 i32 i32) (call $stir))

  (func (export "handle_eviction") (result i32)
    (call $stir)
    (if (i32.eqz (call $draw (i32.const 3))) (then (return (i32.const -1))))
    (i32.or (call $node) (i32.shl (call $draw (i32.const 32768)) (i32.const 16))))

  (func (export "keep_consistency") (param i32) (call $stir))

  (func (export "offered") (param i32 i32 i32 i32 i32 i32) (result i64)
    (local $code i32)
    (call $stir)
    (local.set $code (call $draw (i32.const 8)))
    (if (i32.eq (local.get $code) (i32.const 2))
      (then (return (i64.or (i64.const 2) (i64.shl (i64.extend_i32_u (call $node)) (i64.const 32))))))
    (if (i32.eq (local.get $code) (i32.const 7))
      (then (return (i64.or (i64.const 7) (i64.shl (i64.load32_u (i32.const 64)) (i64.const 32))))))
    (i64.extend_i32_u (local.get $code)))

  (func (export "note") (param i32 i32 i64) (call $stir))
  (func (export "filled") (param i32 i32 i32 i32) (call $stir))
  (func (export "fetched") (param i32 i32 i32 i64) (call $stir))
  (func (export "stored") (param i32) (call $stir))
  (func (export "tick") (call $stir)))
