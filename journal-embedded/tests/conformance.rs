//! The contract of every journal and snapshot store, on this one: through the concrete type and through
//! `Arc<dyn Journal>`, with a flush per group and without.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a panic is how a test fails"
)]

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bytes::BufMut;
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use journal_conformance::{
    Absent, Damage, JournalFixture, NotApplicable, SnapshotFixture, Through, Verdict, journal_suite,
    snapshot_suite,
};
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, EventStream, Journal,
    JournalError, JournalInfo, Loaded, PersistenceId, ReplayRange, SelectionCriteria, SequenceNr, Snapshot,
    SnapshotError, SnapshotMetadata, SnapshotStore, WriterId,
};
use journal_embedded::{Durability, EmbeddedJournal};

/// A directory, and the journal that is open in it as long as somebody has a handle.
struct Embedded {
    folder: tempfile::TempDir,
    durability: Durability,
    opened: RwLock<std::sync::Weak<Opened>>,
}

/// A journal that can be closed and opened again behind its user's back.
#[derive(Debug)]
struct Opened(RwLock<Option<EmbeddedJournal>>);

impl Opened {
    fn journal(&self) -> EmbeddedJournal {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .unwrap()
    }
}

impl Embedded {
    fn new(durability: Durability) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            durability,
            opened: RwLock::default(),
        }
    }

    async fn opening(&self) -> EmbeddedJournal {
        EmbeddedJournal::builder(self.folder.path())
            .durability(self.durability)
            .open()
            .await
            .unwrap()
    }

    async fn handle(&self) -> Arc<Opened> {
        let opened = Arc::new(Opened(RwLock::new(Some(self.opening().await))));
        *self.opened.write().unwrap() = Arc::downgrade(&opened);
        opened
    }

    /// Changes a row while nobody has the directory open: `None` removes it.
    async fn change(&self, table: &str, key: Vec<u8>, row: Option<&[u8]>) {
        let opened = self.opened.read().unwrap().upgrade().unwrap();
        let journal = opened.0.write().unwrap().take().unwrap();
        journal.shutdown().await.unwrap();
        {
            let database = Database::builder(self.folder.path().join("store"))
                .open()
                .unwrap();
            let rows = database.keyspace(table, KeyspaceCreateOptions::default).unwrap();
            assert!(rows.contains_key(&key).unwrap(), "{key:?} is no row of {table}");
            match row {
                Some(row) => rows.insert(key, row).unwrap(),
                None => rows.remove(key).unwrap(),
            }
            database.persist(PersistMode::SyncAll).unwrap();
        }
        let journal = self.opening().await;
        *opened.0.write().unwrap() = Some(journal);
    }
}

fn key_of(id: &PersistenceId) -> Vec<u8> {
    let mut key = Vec::new();
    key.put_u16(u16::try_from(id.as_str().len()).unwrap());
    key.put_slice(id.as_str().as_bytes());
    key
}

#[async_trait]
impl JournalFixture for Embedded {
    async fn create() -> Result<Self, Absent> {
        Ok(Self::new(Durability::Disk))
    }

    async fn open(&self) -> Arc<dyn Journal> {
        self.handle().await
    }

    async fn damage(&self, id: &PersistenceId, at: SequenceNr, damage: Damage) -> Verdict {
        let journal = self.opened.read().unwrap().upgrade().unwrap().journal();
        let last = journal.bounds(id).await.unwrap().highest;
        drop(journal);
        if damage == Damage::Missing && at == last {
            return NotApplicable::because(
                "the highest number is that of the last row, so that an append writes one row; the engine's checksums \
                 guard it",
            );
        }
        let mut key = key_of(id);
        key.put_u64(at.get());
        let row = match damage {
            Damage::Missing => None,
            Damage::Corrupt => Some(&b"\x01not a row"[..]),
        };
        self.change("events", key, row).await;
        Ok(())
    }
}

/// The same journal without a flush per group.
struct OsBuffer(Embedded);

#[async_trait]
impl JournalFixture for OsBuffer {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(Embedded::new(Durability::OsBuffer)))
    }

    async fn open(&self) -> Arc<dyn Journal> {
        JournalFixture::open(&self.0).await
    }

    async fn damage(&self, id: &PersistenceId, at: SequenceNr, damage: Damage) -> Verdict {
        JournalFixture::damage(&self.0, id, at, damage).await
    }
}

struct Snapshots<const FLUSHED: bool>(Embedded);

#[async_trait]
impl<const FLUSHED: bool> SnapshotFixture for Snapshots<FLUSHED> {
    async fn create() -> Result<Self, Absent> {
        Ok(Self(Embedded::new(if FLUSHED {
            Durability::Disk
        } else {
            Durability::OsBuffer
        })))
    }

    async fn open(&self) -> Arc<dyn SnapshotStore> {
        self.0.handle().await
    }

    async fn damage(&self, snapshot: &SnapshotMetadata) -> Verdict {
        let mut key = vec![1];
        key.extend(key_of(&snapshot.persistence_id));
        key.put_slice(&snapshot.incarnation.to_bytes());
        key.put_u64(snapshot.sequence_nr.get());
        self.0.change("snapshots", key, Some(b"damaged")).await;
        Ok(())
    }
}

mod disk {
    use super::*;
    journal_suite!(Embedded);
}

mod disk_through_a_trait_object {
    use super::*;
    journal_suite!(Through<Embedded>);
}

mod os_buffer {
    use super::*;
    journal_suite!(OsBuffer);
}

mod os_buffer_through_a_trait_object {
    use super::*;
    journal_suite!(Through<OsBuffer>);
}

mod snapshots {
    use super::*;
    snapshot_suite!(Snapshots<true>);
}

mod snapshots_os_buffer {
    use super::*;
    snapshot_suite!(Snapshots<false>);
}

#[async_trait]
impl Journal for Opened {
    fn info(&self) -> JournalInfo {
        self.journal().info()
    }
    fn capabilities(&self) -> Capabilities {
        self.journal().capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.journal().claim(id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        self.journal().append(claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        self.journal().append_group(parts).await;
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.journal().bounds(id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.journal().replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.journal().delete_to(id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.journal().purge(id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.journal().flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        self.journal().shutdown().await
    }
}

#[async_trait]
impl SnapshotStore for Opened {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.journal().snapshots().save(snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.journal().snapshots().load(id, criteria).await
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.journal().snapshots().list(id, criteria).await
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.journal().snapshots().delete(snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.journal().snapshots().delete_matching(id, criteria).await
    }
}
