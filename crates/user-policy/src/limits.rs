//! What a module may use.

/// Bytes of a module at most: in base 64 it fits into one answer of a node to another.
pub const MODULE_BYTES: usize = 512 << 10;

/// Bytes of the memory of one instance at most. Each shard of a node has an instance for each volume with the policy.
pub const MEMORY_BYTES: usize = 16 << 20;

/// Elements of a module's tables at most.
pub const TABLE_ELEMENTS: usize = 1 << 12;

/// Fuel of one call: about as many instructions, in well under a millisecond.
pub const CALL_FUEL: u64 = 100_000;

/// Fuel of the first call, in which a module prepares its memory.
pub const FIRST_FUEL: u64 = 10_000_000;

/// Nested calls of functions at most.
pub const CALL_DEPTH: usize = 256;

/// Milliseconds from a call to the next `tick` at least.
pub const WAKE_MS: u64 = 10;
