//! Limits that several crates share. Each has a reason; none is a tuning knob.

/// Nodes in a cluster. Ranks travel as 16 bits and a connection table of this size stays small.
pub const NODES_MAX: usize = 1024;

/// Workers on one node; a worker id travels as 16 bits.
pub const WORKERS_MAX: usize = 4096;

/// Channels of a node: more would mean more threads and connections than machines have cores.
pub const CHANNELS_MAX: usize = 64;

/// Latched shards of a store (see `intendant-store`): with 1,024, no two of 64 threads meet by chance in most
/// steps.
pub const SHARDS_DEFAULT: usize = 1024;

/// Maximum number of shards of a store; the padded latches of this many shards are 8 MiB.
pub const SHARDS_MAX: usize = 1 << 16;

/// Bytes of one value. A frame must be able to carry at least one value with room to spare.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// Bytes of one frame. A receiver refuses a peer's longer frame before it allocates memory.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Payload after which a sender starts a new frame, so that one huge call neither fills a frame nor delays
/// others.
pub const FRAME_PAYLOAD_BYTES_TARGET: usize = 1 << 20;

/// Keys of one frame; with this many, positions and counts easily fit into 32 bits.
pub const FRAME_KEYS_MAX: usize = 1 << 20;

/// Bytes that an outstanding key costs in addition to its value: bookkeeping at the worker, its channel and
/// the owner, and the key's share of frames. Counted with the values, because otherwise calls with tiny
/// values would not be bounded.
pub const OUTSTANDING_KEY_BYTES: usize = 64;

/// Key ranges of a layout; models have a handful.
pub const RANGES_MAX: usize = 1024;

/// Bytes of values that one worker may have outstanding before its next operation waits.
pub const OUTSTANDING_BYTES_DEFAULT: usize = 64 << 20;
