//! The contract on the journals in memory: as they are and through `Arc<dyn Journal>`.

use std::sync::Arc;

use async_trait::async_trait;
use journal_conformance::{Absent, JournalFixture};
use journal_core::{Journal, MemoryJournal};

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

mod concrete {
    journal_conformance::journal_suite!(super::Memory);
}

mod through_dyn {
    use journal_conformance::Through;

    journal_conformance::journal_suite!(Through<super::Memory>);
}
