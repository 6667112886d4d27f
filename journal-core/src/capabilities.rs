//! What a backend declares about itself. Few, semantic, without defaults: each author decides each one.

/// How a journal keeps a second writer out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// A claim ends every earlier one: at most one writer is acknowledged.
    Claims,
    /// Not at all; the application must ensure a single writer.
    None,
}

/// What an acknowledged append survives, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it is gone with the process.
    Memory,
    /// The death of the process; a power loss may take it. `flush` makes it [`Durability::Disk`].
    OsBuffer,
    /// A power loss.
    Disk,
    /// The loss of a machine.
    Replicated,
}

/// What a replay does at a missing number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapPolicy {
    /// It ends with an error.
    Refuse,
    /// It goes on and counts: the data was written by others, where gaps are legal.
    Accept,
}

/// The abilities of one journal; constant for the life of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// True if `append_group` commits many ids at the cost of one.
    pub group_commit: bool,
    /// How a second writer is kept out.
    pub fencing: Fencing,
    /// What `Ok` of an append survives.
    pub durability: Durability,
    /// The largest event, as [`EncodedEvent::size`](crate::EncodedEvent::size) counts it.
    pub largest_event: usize,
    /// The largest atomic write and the largest append, as the sum of the events' sizes.
    pub largest_append: usize,
    /// What a replay does at a missing number.
    pub gaps: GapPolicy,
    /// True if tags are stored and returned.
    pub tags: bool,
    /// True if several processes may use the same data at once.
    pub cross_process: bool,
}

/// What a journal is called, for errors and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalInfo {
    /// The backend, for example `embedded`.
    pub backend: &'static str,
    /// Which data: a directory, a keyspace, a topic.
    pub namespace: String,
}
