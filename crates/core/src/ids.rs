//! Newtypes for everything that is counted or named.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number, for use as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id!(
    /// The id of a parameter.
    Key(u64), "k"
);
id!(
    /// The rank of a node in its cluster, from 0.
    NodeId(u16), "n"
);
id!(
    /// The index of a worker within its node, from 0. Worker threads of different nodes may share an index.
    WorkerId(u16), "w"
);
id!(
    /// One of the disjoint partitions of the keys, each with its own thread and connections.
    ChannelId(u16), "c"
);
id!(
    /// A worker's own logical clock, in steps of its training loop.
    Clock(u32), "t"
);
id!(
    /// Time as passed to a component without I/O, in microseconds since an arbitrary start.
    Tick(u64), "us"
);

impl Tick {
    /// The time `micros` microseconds later.
    #[inline]
    #[must_use]
    pub const fn after(self, micros: u64) -> Self {
        Self(self.0 + micros)
    }
}
