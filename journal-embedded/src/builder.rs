//! Opening an embedded journal with settings other than the default.

use std::path::PathBuf;

use journal_core::JournalError;

use crate::{
    EmbeddedJournal,
    config::{Config, Durability},
};

/// Collects the settings of an [`EmbeddedJournal`]; from [`EmbeddedJournal::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct EmbeddedBuilder {
    path: PathBuf,
    config: Config,
}

impl EmbeddedBuilder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            config: Config::default(),
        }
    }

    /// What an acknowledgement survives. Default: [`Durability::Disk`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.config.durability = durability;
        self
    }

    /// The largest event in bytes, as [`EncodedEvent::size`](journal_core::EncodedEvent::size) counts it. Default: 8
    /// MiB; at most 1 GiB.
    pub fn largest_event(mut self, bytes: usize) -> Self {
        self.config.largest_event = bytes;
        self
    }

    /// The largest append in bytes. A replay holds one atomic write in memory at a time. Default: 16 MiB; at most 1
    /// GiB.
    pub fn largest_append(mut self, bytes: usize) -> Self {
        self.config.largest_append = bytes;
        self
    }

    /// The largest snapshot in bytes. Default: 256 MiB; at most 1 GiB.
    pub fn largest_snapshot(mut self, bytes: usize) -> Self {
        self.config.largest_snapshot = bytes;
        self
    }

    /// The bytes of decoded file blocks kept in memory, beside what the operating system keeps. Default: 16 MiB.
    pub fn block_cache(mut self, bytes: u64) -> Self {
        self.config.block_cache = bytes;
        self
    }

    /// Opens the directory; creates it, and its missing parents, where it does not exist.
    ///
    /// # Errors
    /// - [`Config`](journal_core::ErrorKind::Config): the settings do not fit each other; the path is no directory, holds
    ///   other files, cannot be written, is in use, or holds a journal of a newer format. Nothing was changed.
    /// - [`Corrupt`](journal_core::ErrorKind::Corrupt): the files are damaged.
    pub async fn open(self) -> Result<EmbeddedJournal, JournalError> {
        self.config.check()?;
        blocking::unblock(move || EmbeddedJournal::open_blocking(&self.path, &self.config)).await
    }
}
