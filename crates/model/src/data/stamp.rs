//! Stamps of writes, generations of cards, nodes, and what the block contains.

/// A node that has a card.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// The first writer.
    A,
    /// The second writer.
    B,
    /// The node that reads.
    Reader,
}

/// All nodes.
pub const NODES: [Node; 3] = [Node::A, Node::B, Node::Reader];

impl Node {
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nodes(u8);

impl Nodes {
    pub(crate) const ALL: Self = Self(0b111);

    /// Whether `node` is one of them.
    #[must_use]
    pub const fn contains(self, node: Node) -> bool {
        self.0 >> node.index() & 1 == 1
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn insert(&mut self, node: Node) {
        self.0 |= 1 << node.index();
    }

    pub(crate) const fn remove(&mut self, node: Node) {
        self.0 &= !(1 << node.index());
    }

    pub(crate) const fn without(mut self, node: Node) -> Self {
        self.remove(node);
        self
    }
}

/// The place of a write in the order of the primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp {
    /// Of the primary.
    pub epoch: u8,
    /// Of writes begun in the epoch.
    pub count: u8,
}

/// One attachment of a node: the epoch it was made in, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation {
    /// Of the primary that attached the card. Messages to a primary are addressed by it.
    pub epoch: u8,
    /// Among the cards of the epoch.
    pub count: u8,
}

/// One command: a write of the block by a client of `node`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId {
    /// The writer.
    pub node: Node,
    /// Its slot; each command of a node has one of its own.
    pub slot: u8,
}

impl CommandId {
    /// A number of its own among all commands.
    pub(crate) const fn index(self) -> usize {
        self.node.index() * 2 + self.slot as usize
    }
}

/// What the block contains: the command that wrote it last, or None before all writes.
pub type Contents = Option<CommandId>;
