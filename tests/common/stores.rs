//! The stores that adapters are tested on.

use std::sync::Arc;

use actor_journal::{Journal, MemoryJournal, MemorySnapshotStore, SnapshotStore, embedded::EmbeddedJournal};
use async_trait::async_trait;
use journal_conformance::{Absent, AdapterStores};
use tempfile::TempDir;

pub(crate) struct Memory {
    journal: MemoryJournal,
    snapshots: MemorySnapshotStore,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            journal: MemoryJournal::new(),
            snapshots: MemorySnapshotStore::new(),
        }
    }
}

#[async_trait]
impl AdapterStores for Memory {
    async fn create() -> Result<Self, Absent> {
        Ok(Self::new())
    }

    async fn open(&self) -> (Arc<dyn Journal>, Arc<dyn SnapshotStore>) {
        (Arc::new(self.journal.reopen()), Arc::new(self.snapshots.clone()))
    }
}

/// Journal and snapshots in one directory.
pub(crate) struct Embedded(TempDir);

#[async_trait]
impl AdapterStores for Embedded {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(tempfile::tempdir().expect("a directory can be made")))
    }

    async fn open(&self) -> (Arc<dyn Journal>, Arc<dyn SnapshotStore>) {
        let journal = EmbeddedJournal::open(self.0.path()).await;
        let journal = journal.expect("the directory can be opened");
        let snapshots = Arc::new(journal.snapshots());
        (Arc::new(journal), snapshots)
    }
}
