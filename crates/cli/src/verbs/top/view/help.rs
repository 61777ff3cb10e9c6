//! What the keys do and what the words mean.

use super::super::line::{Line, Style};

const TEXT: &str = "\
cards top: what the nodes of a cluster do, from the counters of their daemons

  Up Down j k    select a row           Tab         nodes or volumes
  Enter          zoom into it           Esc         back; show all names
  s S            sort by another column r           the other way round
  /              only names with ...    p Space     hold the picture
  q Ctrl-C       quit                   h ?         this page

  own cache      reads answered from the memory of the node that was asked
  peers          ... from the memory of another node
  disk           ... from the disk. The rest is what the caches spared it
  evicted        left a cache for want of room; sent to another node, or dropped
  taken in       evicted blocks of other nodes; in vain if never used there
  given up       locks on ranges given up for another node's write
  invalidated    copies dropped because the block was written

  All rates are of the last interval, in blocks a second unless they say bytes.
  A node that is not asked (--socket, --dir) has no numbers: others speak of it.
  A dash is a number that no node has told.";

/// The page.
pub(super) fn lines() -> Vec<Line> {
    let line = |(number, text)| Line::of(if number == 0 { Style::Bold } else { Style::Plain }, text);
    TEXT.lines().enumerate().map(line).collect()
}
