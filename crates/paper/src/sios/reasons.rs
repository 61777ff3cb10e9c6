//! Why statements do not hold, where they do not. Empty: the statement holds.

pub(super) const LINEAR: &str = "";
pub(super) const LARGE_GROWTH: &str = "RAID-10 saturates with 12 clients: what two copies on 16 disks can take is written, and with more clients more \
    writes are sent a second time because they are late.";
pub(super) const SMALL_HALF: &str = "a client has one write under way, so that 16 clients do not fill 16 disks: RAID-0 has 2.7 of the 4.9 MB/s that \
    disks of 13 ms can write in pieces of 4 KB. RAID-1 is nearest to it since each client's pair has few other writers.";
pub(super) const SMALL_GROWTH: &str = "the placement gives the first 8 of 16 mirrored volumes 16 different disks, and a disk two volumes only with more; \
    bandwidth is that until the last client is done, and of 12 some share a disk while others do not.";
pub(super) const SMALL_NFS: &str = "files of 4 KB, 64 for each client, are 4 MB at most: they never fill the memory of the server, so that its link \
    decides from two clients on. The paper does not say why its server slows down. With stable writes it has .3 MB/s, with any number of clients.";
pub(super) const SLOW_PROTOTYPE: &str = "the paper's arrays read .4 MB/s from each disk, as if each block of 4 KB waited 10 ms, and its server read ahead. \
    Here both read 256 KiB at a time, so that each disk gives 5 to 6 MB/s, the server's too, and there are 16 of them.";
pub(super) const WRITES_TO_NFS: &str = "as with reads, each disk of the array has pieces of 256 KiB to write, and gives as much as the server's; the \
    mirrors have half of what 16 of them give when clients meet at some while others are idle.";
pub(super) const WRITES_TO_READS: &str = "a mirror reads one copy and writes two, so that less than half is what the disks allow. The paper's \
    reads are as slow as its writes: something else than its disks has limited them.";
pub(super) const SMALL_TO_LARGE: &str = "a durable write of 4 KB costs a disk 13 ms of positioning: 16 disks with two copies cannot have more than 2.5 MB/s. \
    The paper's 5.95 MB/s must be those of a cache, in the disk or above it.";
pub(super) const READS_PAST_CACHES: &str = "";
pub(super) const WRITES_PAST_CACHES: &str = "";
