//! Why statements do not hold, where they do not: what was found when it was looked into.

pub(super) const DYNAMIC: &str = "reads that miss decide the mean: a disk takes 11 ms, a remote hit .05 ms, so that each percent of \
    misses weighs more than all that remote hits cost. See PAFS-F2.5 for why PAFS misses more often. Not-limited and Limited \
    also write many dirty buffers at once when partitions change, and reads queue behind them.";
pub(super) const LIMITS: &str = "the order depends on the extent and the interval, as the second table of Figure 2 shows: with \
    large extents few servers have work, and to get their buffers one by one takes them too long.";
pub(super) const WRITES: &str = "when partitions change at once, dirty buffers are written and blocks are lost; a part of such a \
    block that is written again needs a read first.";
pub(super) const HITS: &str = "one LRU over all memory hits 95 % of these traces, so the memory is there, but partitions \
    are not where the load is: it moves to other servers in seconds, and a server loses a tenth of its buffers per interval at \
    most. xFS wastes little on replicas, because N-Chance drops duplicates first.";
pub(super) const READ_GAP: &str = "the gap is small against both times, and what remains of it are misses and the queues at the \
    disks, which shift a little with everything else.";
pub(super) const WRITE_GAP: &str = "xFS sends whole blocks over the network, too, when it forwards, fetches or cleans; that \
    grows as much as the writes of PAFS do.";
pub(super) const LARGE: &str = "even in large caches, Limited writes many dirty buffers at once when partitions change, and reads \
    queue behind them; what it loses otherwise is of little importance.";
pub(super) const SMALL: &str =
    "small caches take as many hits from PAFS's lagging partitions as from xFS's replicas.";
pub(super) const WRITE_SIZE: &str = "in small caches a block is often gone before its next part is written, and is read from \
    the disk first: the paper excepts that case.";
pub(super) const LEVEL_C: &str = "writes are faster, reads are not: see PAFS-F2.2.";
pub(super) const LEVELS: &str = "a write waits for the parity server only a few messages and copies, less than what the \
    misses of different runs differ by.";
pub(super) const LEVEL_READS: &str =
    "parity buffers take their share of the caches: one in as many as a line has nodes.";
pub(super) const NOW_READS: &str = "the caches of NOW hold nearly all that the trace touches. Both systems miss on what nobody has \
    read before and hardly on anything else, so that xFS's local hits decide.";
pub(super) const NOW_WRITES: &str = "nine tenths of a write's mean time are reads of blocks of which a part is written; the \
    simulator does not know that blocks of new files are empty. What remains differs by little, and by the size of the \
    caches xFS hardly ever has to forward or clean a block.";
pub(super) const CROSSOVER: &str = "the crossover is where equations 1 to 6 without forwarding and cleaning have it: a remote \
    copy of 8,000 bytes against a local one and two messages, near a ratio of 2. In the paper xFS pays more for each write, in \
    waiting for servers and in making room; here its caches have room.";
pub(super) const NOW_SMALL: &str =
    "in small caches the replicas cost xFS no more hits than its local hits save time.";
pub(super) const NOW_LARGE: &str = "Limited moves buffers as long as working sets differ, however large the caches are; one that \
    is moved has lost its block, and the trace has few blocks that are not needed again.";
pub(super) const NOW_LEVELS: &str = "few blocks lie on their writer's node in PAFS, whatever the size of its cache: the tip of \
    the queue (5 %) prefers them only when something is replaced, and that is rare in large caches.";
pub(super) const FORWARDS: &str = "it hangs on how much of the caches are only copies, which the paper does not tell of its \
    trace.";
pub(super) const CLEANS: &str = "the syncer has written most blocks before they are replaced: the traces' writes stay in the cache for longer than its 30 seconds.";
pub(super) const LOCALITY: &str = "it hangs on the local hits of xFS: with 3.3 it would have about 63 %.";
