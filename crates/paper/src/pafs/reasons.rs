//! Why statements do not hold, where they do not. Empty: the statement holds.

pub(super) const DYNAMIC: &str = "reads that miss decide the mean: a disk takes 11 ms, a remote hit .05 ms, so that each percent of \
    misses weighs more than all that remote hits cost. PAFS misses more often here.";
pub(super) const LIMITS: &str = "the order depends on the extent and the interval, as the third table of Figure 2 shows: with \
    large extents few servers have work, and to get their buffers one by one takes them too long.";
pub(super) const WRITES: &str = "";
pub(super) const HITS: &str = "replicas displace less here than in the paper.";
pub(super) const READ_GAP: &str = "remote hits cross the network and local hits do not, and PAFS has three times as many of them \
    (Figure 2), so that it pays more for a slow network.";
pub(super) const WRITE_GAP: &str = "xFS forwards a block for nine of ten remote hits, and those copies of whole blocks cross the network, too: a \
    slow network makes its writes slower by as much as those of PAFS.";
pub(super) const LARGE: &str = "a buffer that is handed over at once takes a cached block with it. By the table, Limited misses .7 points more \
    of the block reads than Lazy-and-limited even with large caches.";
pub(super) const SMALL: &str = "";
pub(super) const EQUATIONS: &str = "5.0 is the ratio for requests of 5,400 bytes of a block. The mean read of Table 1 asks for 7,552 bytes of \
    each of its blocks, so that the block that xFS copies beside them weighs less.";
pub(super) const FIXED_READS: &str = "sixteen partitions of extents of 1 MiB, by hash, are balanced: no server has too few buffers for long. With \
    extents of 16 MiB, larger than nearly all files of the trace, Fixed reads more slowly than xFS (third table).";
pub(super) const NOW_FIXED: &str = "";
pub(super) const NOW_NOT_LIMITED: &str = "";
pub(super) const NOW_LIMITED: &str = "a server may gain what all disks can read in an interval, 7,060 blocks in 10 s. That is far more than partitions \
    change on NOW, so that the limit hardly ever holds anything back.";
pub(super) const NOW_WRITE_GAP: &str = "";
pub(super) const WRITE_SIZE: &str = "from 1 MB on it has little: 8 %. Caches of 512 KB do not hold the working sets, and a write of a part of a block \
    that is not cached waits for a disk.";
pub(super) const LEVEL_C: &str =
    "writes are faster, reads are not, for they are not at level A either (Figure 2).";
pub(super) const LEVELS: &str = "";
pub(super) const LEVEL_READS: &str = "";
pub(super) const NOW_READS: &str = "the caches of NOW hold nearly all that the trace touches. Both systems miss on what nobody has \
    read before and hardly on anything else, so that xFS's local hits decide.";
pub(super) const NOW_WRITES: &str = "nine tenths of a write's mean time are reads of blocks of which a part is written; the \
    simulator does not know that blocks of new files are empty. What remains differs by little, and by the size of the \
    caches xFS hardly ever has to forward or clean a block.";
pub(super) const CROSSOVER: &str = "the crossover is where equations 1 to 6 without forwarding and cleaning have it: a remote \
    copy of 8,000 bytes against a local one and two messages, near a ratio of 2. In the paper xFS pays more for each write, in \
    waiting for servers and in making room; here its caches have room.";
pub(super) const NOW_SMALL: &str = "with the smallest caches both systems wait for disks most of the time, so that what PAFS hits more weighs less. \
    From 8 MB on it is as the paper says.";
pub(super) const NOW_LARGE: &str = "as on PM, Limited throws away what it hands over: its hits stay 3 points below those of \
    Lazy-and-limited.";
pub(super) const NOW_LEVELS: &str = "";
pub(super) const FORWARDS: &str = "";
pub(super) const CLEANS: &str = "xFS has a syncer of 30 s here (the paper names one for PAFS only), and the trace has its times: 34 block writes \
    a second for 128 caches of 128 buffers, so that at most a sixteenth of the buffers can be dirty at once. The \
    paper's traces have compute demands and no times (section 5.1). With a syncer every hour pd is .51, and without \
    any time but that of requests .50: see the last table.";
pub(super) const LOCALITY: &str = "it hangs on the local hits of xFS: with 3.3 it would have about 63 %.";
