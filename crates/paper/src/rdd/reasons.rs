//! Why statements do not hold, where they do not. Empty: the statement holds.

pub(super) const NFS_FEELS: &str = "the disk works all the time behind NFS too, and pieces cost it positionings. The file server's cache has mostly what \
    the web server's has: 110,718 pages are read from the fresh disk, and 112,267 through the event-driven driver, which caches nothing there.";
pub(super) const DRIVERS_FEEL: &str = "with 150 connections the disk already works all the time. What pieces cost it cannot be hidden behind anything; \
    it can where a processor decides: if a GET takes it 8 ms rather than 3, the drivers lose 4 % by pieces, and the local disk too.";
pub(super) const NO_GAP: &str = "the local disk has the same queue, with the requests of as many processes in it: 150 or 300 connections are \
    asynchronous enough without a driver. The driver overlaps messages with the work of the disk, which makes that no shorter. The paper's local driver \
    must have lost time that is not in this model.";
pub(super) const BATCH: &str = "a batch of all that waits is as long a queue to sort as that of event-driven delivery, and while it is sent the disk waits \
    for the last page only. It holds if the thread takes few at a time: event driven is 1.19 to 1.46 times as fast as batches of 4 to 64 pages \
    (see Batches). The paper says neither how many its thread launches nor how many requests its driver has room for.";
pub(super) const SAME_LOSS: &str =
    "the disk works all the time with 150 connections as with 300, and has the same pieces to read.";
pub(super) const FLAT: &str = "more than 31 pages cost nothing here and give nothing: a request has 31 at most, what is read ahead ends with the document, and \
    one in a hundred has more. Fewer are worse, as in the paper.";
pub(super) const PIECES_COST: &str = "pieces cost positionings whatever is read ahead, and a contiguous document never more than one in pieces. The paper \
    calls its finding counterintuitive and gives no mechanism.";
pub(super) const COMPUTER: &str = "the node with the disk reads it without messages, and its cache answers the other server too. Its \
    processor has time for both: the disk decides.";
pub(super) const NETWORK: &str = "each server sees half of the GETs, and reads for itself what the other one has already read: the disk has more to read. \
    Where processors decide it holds: with 8 ms for a GET two servers are 1.53 times as fast as one, with popularities of exponent 1.1, which caches serve \
    better, 1.05 times.";
