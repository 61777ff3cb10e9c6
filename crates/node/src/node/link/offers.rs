//! Links that a peer makes, lane by lane, until all are here.

use cards_tls::Adrift;
use cards_wire::peer::Hello;

/// A connection whose ends have introduced themselves: one lane of a link.
pub(crate) struct GreetedLane {
    pub(crate) wire: Adrift,
    pub(crate) hello: Hello,
    /// What the two speak.
    pub(crate) version: u8,
}

/// All lanes of a link, in order, and what the peer has said of itself on the first.
pub(crate) struct Greeted {
    pub(crate) wires: Vec<Adrift>,
    pub(crate) hello: Hello,
    /// What the two speak.
    pub(crate) version: u8,
}

/// What has become of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    /// Its link lacks others; so many are here.
    Waiting(usize),
    /// It was the last one.
    Complete,
    /// It is of no link that is being made.
    Stray,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Offers {
    making: Option<Greeted>,
    complete: Option<Greeted>,
    /// The incarnation and the number of the last link that was begun.
    last: Option<(u64, u64)>,
}

impl Offers {
    /// Adds a lane of a link of `lanes` in all. The first one begins a link and ends what was being made; the others follow
    /// in order, since whoever dials does so one after the other.
    pub(crate) fn add(&mut self, lane: GreetedLane, lanes: u16) -> Offered {
        let GreetedLane { wire, hello, version } = lane;
        let (incarnation, number) = (hello.incarnation, hello.link);
        if hello.lane == 0 {
            // A late one, of a link that the peer has given up since.
            if self.last.is_some_and(|last| last.0 == incarnation && last.1 >= number) {
                return Offered::Stray;
            }
            self.last = Some((incarnation, number));
            self.making = Some(Greeted { wires: vec![wire], hello, version });
        } else {
            match &mut self.making {
                Some(making)
                    if self.last == Some((incarnation, number))
                        && making.wires.len() == usize::from(hello.lane) =>
                {
                    making.wires.push(wire);
                }
                _ => return Offered::Stray,
            }
        }
        let here = self.making.as_ref().map_or(0, |making| making.wires.len());
        if here < usize::from(lanes) {
            return Offered::Waiting(here);
        }
        self.complete = self.making.take();
        Offered::Complete
    }

    /// Forgets link `number` if it has no more than `lanes` lanes.
    pub(crate) fn forget(&mut self, number: u64, lanes: usize) {
        self.making.take_if(|making| making.hello.link == number && making.wires.len() <= lanes);
    }

    pub(crate) fn take(&mut self) -> Option<Greeted> {
        self.complete.take()
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.complete.is_some()
    }
}

#[cfg(test)]
mod tests;
