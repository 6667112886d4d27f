//! What can be chosen about an embedded journal.

use journal_core::{Capabilities, ErrorKind, Fencing, GapPolicy, JournalError, Operation};

/// What an acknowledgement of the embedded journal survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power loss: each group of writes is flushed to the disk before it is acknowledged.
    #[default]
    Disk,
    /// The death of the process. A power loss takes what the operating system has not written yet, always the newest
    /// writes and never part of a group; [`flush`](journal_core::Journal::flush) waits for the disk.
    OsBuffer,
}

impl From<Durability> for journal_core::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Disk => Self::Disk,
            Durability::OsBuffer => Self::OsBuffer,
        }
    }
}

/// The settings of a journal; each field says what its default is.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) durability: Durability,
    pub(crate) largest_event: usize,
    pub(crate) largest_append: usize,
    pub(crate) largest_snapshot: usize,
    pub(crate) block_cache: u64,
}

/// No limit may be above this: lengths in rows have 32 bits, and an append of many small events is encoded to several
/// times its size.
const LARGEST: usize = 1 << 30;

impl Default for Config {
    fn default() -> Self {
        Self {
            durability: Durability::Disk,
            largest_event: 8 << 20,
            largest_append: 16 << 20,
            largest_snapshot: 256 << 20,
            block_cache: 16 << 20,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        let limits = [self.largest_event, self.largest_append, self.largest_snapshot];
        if limits.iter().any(|limit| !(1..=LARGEST).contains(limit)) {
            return Err(JournalError::not_stored(
                ErrorKind::Config,
                Operation::Open,
                format!("each limit of the embedded journal must lie between 1 byte and {LARGEST} bytes"),
            ));
        }
        if self.largest_event > self.largest_append {
            return Err(JournalError::not_stored(
                ErrorKind::Config,
                Operation::Open,
                format!(
                    "the largest event ({}) is larger than the largest append ({}); raise the one or lower the other",
                    self.largest_event, self.largest_append
                ),
            ));
        }
        Ok(())
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            group_commit: true,
            fencing: Fencing::Claims,
            durability: self.durability.into(),
            largest_event: self.largest_event,
            largest_append: self.largest_append,
            gaps: GapPolicy::Refuse,
            tags: true,
            cross_process: false,
        }
    }
}
