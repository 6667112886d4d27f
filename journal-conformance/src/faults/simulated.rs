//! Stores whose restarts, damage and silence are simulated: right ones, which faults wrap.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use journal_core::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, Durability, ErrorKind, EventStream,
    Incarnation, Journal, JournalError, JournalInfo, Loaded, MemoryJournal, Operation, PersistenceId, Record,
    ReplayRange, SelectionCriteria, SequenceNr, SkippedSnapshot, Snapshot, SnapshotError, SnapshotMetadata,
    SnapshotStore, WriterId,
};
use snapshot_store::MemorySnapshotStore;

use crate::{
    faults::{
        journal::{FaultyJournal, Right, WrongJournal},
        snapshot::{FaultySnapshots, RightSnapshots, WrongSnapshots},
    },
    journal::{Damage, JournalFixture},
    runner::{Absent, Verdict},
    snapshot::SnapshotFixture,
};

/// What outlives a simulated process.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    memory: MemoryJournal,
    damaged: Mutex<HashMap<(PersistenceId, SequenceNr), Damage>>,
    silent: AtomicBool,
}

/// No step under these locks leaves anything half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right journal: [`MemoryJournal`] on a simulated disk.
#[derive(Debug)]
pub(crate) struct SimulatedJournal {
    disk: Arc<Disk>,
    memory: MemoryJournal,
}

impl SimulatedJournal {
    pub(crate) fn is_silent(&self) -> bool {
        self.disk.silent.load(Ordering::SeqCst)
    }

    fn damage(&self, id: &PersistenceId, record: &Record) -> Option<Damage> {
        let key = (id.clone(), record.sequence_nr);
        locked(&self.disk.damaged).get(&key).copied()
    }

    /// The events without the check for damage: what a store finds that does not look for it.
    pub(crate) fn replay_unchecked(
        &self,
        id: &PersistenceId,
        range: ReplayRange,
    ) -> Vec<(Record, Option<Damage>)> {
        let records = self.memory.replay(id, range).collect::<Vec<_>>().now_or_never();
        records
            .expect("what is in memory is there at once")
            .into_iter()
            .filter_map(Result::ok)
            .map(|record| {
                let damage = self.damage(id, &record);
                (record, damage)
            })
            .collect()
    }

    /// The simulated time-out of a silent engine.
    fn answered(&self, operation: Operation, id: &PersistenceId) -> Result<(), JournalError> {
        if !self.is_silent() {
            return Ok(());
        }
        let message = "the engine does not answer; see whether it runs";
        Err(JournalError::unknown(ErrorKind::Timeout, operation, message).with_id(id))
    }
}

#[async_trait]
impl Journal for SimulatedJournal {
    fn info(&self) -> JournalInfo {
        JournalInfo {
            backend: "simulated",
            ..Journal::info(&self.memory)
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durability: Durability::Disk,
            cross_process: true,
            ..Journal::capabilities(&self.memory)
        }
    }

    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.answered(Operation::Claim, id)?;
        Journal::claim(&self.memory, id, writer).await
    }

    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        // The harder case: the engine stores, its answer is lost.
        let appended = Journal::append(&self.memory, claim, expected, writes).await?;
        self.answered(Operation::Append, claim.id())
            .inspect_err(|_| claim.spend())?;
        Ok(appended)
    }

    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.answered(Operation::Bounds, id)?;
        Journal::bounds(&self.memory, id).await
    }

    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if let Err(silent) = self.answered(Operation::Replay, id) {
            return EventStream::failed(silent);
        }
        let (disk, replayed) = (self.disk.clone(), id.clone());
        let checked = self.memory.replay(id, range).map(move |record| {
            let record = record?;
            let key = (replayed.clone(), record.sequence_nr);
            match locked(&disk.damaged).get(&key) {
                None => Ok(vec![record]),
                Some(damage) => {
                    let message = format!("the event is damaged ({damage:?}); restore a backup");
                    let error = JournalError::not_stored(ErrorKind::Corrupt, Operation::Replay, message);
                    Err(error.with_id(&replayed).with_sequence_nr(record.sequence_nr))
                }
            }
        });
        EventStream::new(checked)
    }

    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.answered(Operation::DeleteTo, id)?;
        Journal::delete_to(&self.memory, id, deletion).await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.answered(Operation::Purge, id)?;
        Journal::purge(&self.memory, id).await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        Journal::flush(&self.memory).await
    }

    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.memory).await
    }
}

/// A simulated disk and the journals that are opened on it, right or all wrong in the same way.
#[derive(Debug)]
pub struct SimulatedJournals {
    disk: Arc<Disk>,
    wrong: Arc<dyn WrongJournal>,
    opened: Mutex<Weak<FaultyJournal>>,
}

impl SimulatedJournals {
    /// Right ones.
    #[must_use]
    pub fn right() -> Self {
        Self::wrong(Arc::new(Right))
    }

    pub(crate) fn wrong(wrong: Arc<dyn WrongJournal>) -> Self {
        Self {
            disk: Arc::default(),
            wrong,
            opened: Mutex::default(),
        }
    }
}

#[async_trait]
impl JournalFixture for SimulatedJournals {
    async fn create() -> Result<Self, Absent> {
        Ok(Self::right())
    }

    async fn open(&self) -> Arc<dyn Journal> {
        let right = SimulatedJournal {
            disk: self.disk.clone(),
            memory: self.disk.memory.clone(),
        };
        let former_is_alive = locked(&self.opened).upgrade().is_some();
        if !former_is_alive {
            self.wrong.restarted(&right).await;
        }
        let journal = Arc::new(FaultyJournal {
            right,
            wrong: self.wrong.clone(),
        });
        *locked(&self.opened) = Arc::downgrade(&journal);
        journal
    }

    async fn damage(&self, id: &PersistenceId, at: SequenceNr, damage: Damage) -> Verdict {
        locked(&self.disk.damaged).insert((id.clone(), at), damage);
        Ok(())
    }

    async fn silence(&self, silent: bool) -> Verdict {
        self.disk.silent.store(silent, Ordering::SeqCst);
        Ok(())
    }
}

type SnapshotKey = (PersistenceId, Incarnation, SequenceNr);

fn key(snapshot: &SnapshotMetadata) -> SnapshotKey {
    let SnapshotMetadata {
        persistence_id,
        sequence_nr,
        incarnation,
        ..
    } = snapshot.clone();
    (persistence_id, incarnation, sequence_nr)
}

/// The right snapshot store: [`MemorySnapshotStore`], in which snapshots can be damaged.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedSnapshotStore {
    memory: MemorySnapshotStore,
    damaged: Arc<Mutex<HashSet<SnapshotKey>>>,
}

impl SimulatedSnapshotStore {
    pub(crate) fn is_damaged(&self, snapshot: &SnapshotMetadata) -> bool {
        locked(&self.damaged).contains(&key(snapshot))
    }

    /// The snapshot as it is on the simulated disk, damaged or not.
    pub(crate) async fn raw(&self, snapshot: &SnapshotMetadata) -> Option<Snapshot> {
        let only = SelectionCriteria::ALL
            .down_to(snapshot.sequence_nr)
            .up_to(snapshot.sequence_nr)
            .of(snapshot.incarnation);
        let mut raw = self
            .memory
            .load(&snapshot.persistence_id, only)
            .await
            .ok()?
            .snapshot?;
        if self.is_damaged(snapshot) {
            raw.payload = Bytes::from_static(b"damaged");
        }
        Some(raw)
    }
}

#[async_trait]
impl SnapshotStore for SimulatedSnapshotStore {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        locked(&self.damaged).remove(&key(&snapshot.metadata));
        self.memory.save(snapshot).await
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        let mut loaded = Loaded::default();
        for metadata in self.memory.list(id, criteria).await? {
            if !self.is_damaged(&metadata) {
                loaded.snapshot = self.raw(&metadata).await;
                break;
            }
            loaded.skipped.push(SkippedSnapshot {
                location: format!("{metadata:?}"),
                reason: "damaged".to_owned(),
            });
        }
        Ok(loaded)
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.memory.list(id, criteria).await
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.memory.delete(snapshot).await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.memory.delete_matching(id, criteria).await
    }
}

/// A simulated disk of snapshots and the stores that are opened on it, right or all wrong in the same way.
#[derive(Debug)]
pub struct SimulatedSnapshots {
    right: SimulatedSnapshotStore,
    wrong: Arc<dyn WrongSnapshots>,
    opened: AtomicBool,
}

impl SimulatedSnapshots {
    /// Right ones.
    #[must_use]
    pub fn right() -> Self {
        Self::wrong(Arc::new(RightSnapshots))
    }

    pub(crate) fn wrong(wrong: Arc<dyn WrongSnapshots>) -> Self {
        Self {
            right: SimulatedSnapshotStore::default(),
            wrong,
            opened: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl SnapshotFixture for SimulatedSnapshots {
    async fn create() -> Result<Self, Absent> {
        Ok(Self::right())
    }

    async fn open(&self) -> Arc<dyn SnapshotStore> {
        if self.opened.swap(true, Ordering::SeqCst) {
            self.wrong.restarted(&self.right).await;
        }
        Arc::new(FaultySnapshots {
            right: self.right.clone(),
            wrong: self.wrong.clone(),
        })
    }

    async fn damage(&self, snapshot: &SnapshotMetadata) -> Verdict {
        locked(&self.right.damaged).insert(key(snapshot));
        Ok(())
    }
}
