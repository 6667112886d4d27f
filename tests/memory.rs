//! The contract on the stores in memory: as they are, through `Arc<dyn Journal>`, and through the blocking pool.

use std::sync::Arc;

use async_trait::async_trait;
use journal_conformance::{Absent, JournalFixture, NotApplicable, SnapshotFixture, Verdict};
use journal_core::{Blocking, Journal, MemoryJournal};
use snapshot_store::{MemorySnapshotStore, SnapshotStore};

struct Memory(MemoryJournal);

#[async_trait]
impl JournalFixture for Memory {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(MemoryJournal::new()))
    }

    async fn open(&self) -> Arc<dyn Journal> {
        Arc::new(self.0.reopen())
    }
}

struct OnThreads(MemoryJournal);

#[async_trait]
impl JournalFixture for OnThreads {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(MemoryJournal::new()))
    }

    async fn open(&self) -> Arc<dyn Journal> {
        Arc::new(Blocking::new(self.0.reopen()))
    }
}

struct MemorySnapshots(MemorySnapshotStore);

#[async_trait]
impl SnapshotFixture for MemorySnapshots {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(MemorySnapshotStore::new()))
    }

    async fn open(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(self.0.clone())
    }

    fn restarts(&self) -> Verdict {
        NotApplicable::because("the store ends with its process")
    }
}

mod concrete {
    journal_conformance::journal_suite!(super::Memory);
}

mod through_dyn {
    use journal_conformance::Through;

    journal_conformance::journal_suite!(Through<super::Memory>);
}

mod on_threads {
    journal_conformance::journal_suite!(super::OnThreads);
}

mod snapshots {
    journal_conformance::snapshot_suite!(super::MemorySnapshots);
}
