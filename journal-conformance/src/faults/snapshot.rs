//! Wrong snapshot stores.

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    future,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use journal_core::{
    Incarnation, Loaded, PersistenceId, SelectionCriteria, Snapshot, SnapshotError, SnapshotMetadata,
    SnapshotStore,
};

use crate::faults::simulated::{SimulatedSnapshotStore, SimulatedSnapshots, locked};

type Store = SimulatedSnapshotStore;

/// What one fault does instead of the right store; by default nothing else.
#[async_trait]
pub(crate) trait WrongSnapshots: Send + Sync + Debug + 'static {
    /// What is left when the process comes back.
    async fn restarted(&self, _right: &Store) {}

    async fn save(&self, right: &Store, snapshot: Snapshot) -> Result<(), SnapshotError> {
        right.save(snapshot).await
    }

    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        right.load(id, criteria).await
    }

    async fn list(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        right.list(id, criteria).await
    }

    async fn delete(&self, right: &Store, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        right.delete(snapshot).await
    }

    async fn delete_matching(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        right.delete_matching(id, criteria).await
    }

    async fn keep_newest(
        &self,
        right: &Store,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        right.keep_newest(id, incarnation, count).await
    }
}

/// No fault: the control.
#[derive(Debug)]
pub(crate) struct RightSnapshots;

impl WrongSnapshots for RightSnapshots {}

#[derive(Debug)]
pub(crate) struct FaultySnapshots {
    pub(crate) right: Store,
    pub(crate) wrong: Arc<dyn WrongSnapshots>,
}

#[async_trait]
impl SnapshotStore for FaultySnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.wrong.save(&self.right, snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.wrong.load(&self.right, id, criteria).await
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.wrong.list(&self.right, id, criteria).await
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.wrong.delete(&self.right, snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.wrong.delete_matching(&self.right, id, criteria).await
    }
    async fn keep_newest(
        &self,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        self.wrong.keep_newest(&self.right, id, incarnation, count).await
    }
}

/// A way to be wrong.
#[derive(Clone, Copy)]
pub struct SnapshotFault {
    /// What it does.
    pub name: &'static str,
    make: fn() -> Arc<dyn WrongSnapshots>,
}

impl SnapshotFault {
    /// A disk on which every store does this.
    #[must_use]
    pub fn fixture(&self) -> SimulatedSnapshots {
        SimulatedSnapshots::wrong((self.make)())
    }
}

impl Debug for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! faults {
    ($($name:ident $wrong:expr;)*) => {
        /// All of them.
        #[must_use]
        pub fn snapshot_faults() -> Vec<SnapshotFault> {
            vec![$(SnapshotFault {
                name: stringify!($name),
                make: || Arc::new($wrong),
            },)*]
        }
    };
}

const ALL: SelectionCriteria = SelectionCriteria::ALL;

faults! {
    keeps_the_first_snapshot KeepsTheFirst;
    ignores_the_highest_number OtherCriteria(|c| SelectionCriteria { max_sequence_nr: ALL.max_sequence_nr, ..c });
    stops_before_the_highest_number OtherCriteria(|c| SelectionCriteria { max_sequence_nr: c.max_sequence_nr.previous(), ..c });
    ignores_the_lowest_number OtherCriteria(|c| SelectionCriteria { min_sequence_nr: ALL.min_sequence_nr, ..c });
    ignores_timestamps OtherCriteria(|c| SelectionCriteria { min_timestamp: ALL.min_timestamp, max_timestamp: ALL.max_timestamp, ..c });
    ignores_the_life OtherCriteria(|c| SelectionCriteria { incarnation: None, ..c });
    prefers_the_latest_timestamp PrefersTimestamps;
    keeps_the_former_of_equal_numbers KeepsTheFormer;
    replaces_other_lives ReplacesLives;
    cuts_payloads CutsPayloads;
    returns_damaged_payloads ReturnsDamaged;
    takes_damage_for_none TakesDamageForNone;
    fails_at_damage FailsAtDamage;
    hides_what_it_skipped HidesSkipped;
    deletes_by_timestamp DeletesByTimestamp;
    deletes_by_number_only OtherDeletion(|c| SelectionCriteria { min_timestamp: ALL.min_timestamp, max_timestamp: ALL.max_timestamp, ..c });
    deletes_from_all_lives OtherDeletion(|c| SelectionCriteria { incarnation: None, ..c });
    keeps_the_oldest KeepsTheOldest;
    keeps_one_too_few KeepsOneTooFew;
    lists_oldest_first ListsOldestFirst;
    aliases_snapshot_ids AliasesIds;
    loses_the_newest_on_restart LosesTheNewest::default();
    hangs_on_an_unknown_id HangsOnUnknown;
}

#[derive(Debug)]
struct KeepsTheFirst;

#[async_trait]
impl WrongSnapshots for KeepsTheFirst {
    async fn save(&self, right: &Store, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let kept = right.list(&snapshot.metadata.persistence_id, ALL).await?;
        if kept.is_empty() {
            right.save(snapshot).await?;
        }
        Ok(())
    }
}

/// Reads by other criteria than it is given.
#[derive(Debug)]
struct OtherCriteria(fn(SelectionCriteria) -> SelectionCriteria);

#[async_trait]
impl WrongSnapshots for OtherCriteria {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        right.load(id, (self.0)(criteria)).await
    }
}

/// Deletes by other criteria than it is given.
#[derive(Debug)]
struct OtherDeletion(fn(SelectionCriteria) -> SelectionCriteria);

#[async_trait]
impl WrongSnapshots for OtherDeletion {
    async fn delete_matching(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        right.delete_matching(id, (self.0)(criteria)).await
    }
}

#[derive(Debug)]
struct PrefersTimestamps;

#[async_trait]
impl WrongSnapshots for PrefersTimestamps {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        let listed = right.list(id, criteria).await?;
        let latest = listed.iter().max_by_key(|snapshot| snapshot.timestamp);
        Ok(Loaded {
            snapshot: match latest {
                Some(latest) => right.raw(latest).await,
                None => None,
            },
            skipped: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct KeepsTheFormer;

#[async_trait]
impl WrongSnapshots for KeepsTheFormer {
    async fn save(&self, right: &Store, snapshot: Snapshot) -> Result<(), SnapshotError> {
        if right.raw(&snapshot.metadata).await.is_none() {
            right.save(snapshot).await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct ReplacesLives;

#[async_trait]
impl WrongSnapshots for ReplacesLives {
    async fn save(&self, right: &Store, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let number = snapshot.metadata.sequence_nr;
        let of_any_life = ALL.down_to(number).up_to(number);
        right
            .delete_matching(&snapshot.metadata.persistence_id, of_any_life)
            .await?;
        right.save(snapshot).await
    }
}

#[derive(Debug)]
struct CutsPayloads;

#[async_trait]
impl WrongSnapshots for CutsPayloads {
    async fn save(&self, right: &Store, mut snapshot: Snapshot) -> Result<(), SnapshotError> {
        snapshot.payload.truncate(1 << 20);
        right.save(snapshot).await
    }
}

#[derive(Debug)]
struct ReturnsDamaged;

#[async_trait]
impl WrongSnapshots for ReturnsDamaged {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        Ok(Loaded {
            snapshot: match right.list(id, criteria).await?.first() {
                Some(newest) => right.raw(newest).await,
                None => None,
            },
            skipped: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct TakesDamageForNone;

#[async_trait]
impl WrongSnapshots for TakesDamageForNone {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        let loaded = right.load(id, criteria).await?;
        Ok(if loaded.skipped.is_empty() {
            loaded
        } else {
            Loaded::default()
        })
    }
}

#[derive(Debug)]
struct FailsAtDamage;

#[async_trait]
impl WrongSnapshots for FailsAtDamage {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        let loaded = right.load(id, criteria).await?;
        match loaded.skipped.first() {
            None => Ok(loaded),
            Some(skipped) => Err(SnapshotError::new("load", skipped.reason.clone()).with_id(id)),
        }
    }
}

#[derive(Debug)]
struct HidesSkipped;

#[async_trait]
impl WrongSnapshots for HidesSkipped {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        let snapshot = right.load(id, criteria).await?.snapshot;
        Ok(Loaded {
            snapshot,
            skipped: Vec::new(),
        })
    }
}

#[derive(Debug)]
struct DeletesByTimestamp;

#[async_trait]
impl WrongSnapshots for DeletesByTimestamp {
    async fn delete(&self, right: &Store, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        let stored = right.raw(snapshot).await;
        if stored.is_some_and(|stored| stored.metadata == *snapshot) {
            right.delete(snapshot).await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct KeepsTheOldest;

#[async_trait]
impl WrongSnapshots for KeepsTheOldest {
    async fn keep_newest(
        &self,
        right: &Store,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        let all = right.list(id, ALL.of(incarnation)).await?;
        for snapshot in all.iter().rev().skip(count) {
            right.delete(snapshot).await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct KeepsOneTooFew;

#[async_trait]
impl WrongSnapshots for KeepsOneTooFew {
    async fn keep_newest(
        &self,
        right: &Store,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        right.keep_newest(id, incarnation, count.saturating_sub(1)).await
    }
}

#[derive(Debug)]
struct ListsOldestFirst;

#[async_trait]
impl WrongSnapshots for ListsOldestFirst {
    async fn list(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        let mut listed = right.list(id, criteria).await?;
        listed.reverse();
        Ok(listed)
    }
}

/// As a store does that makes file names of ids.
#[derive(Debug)]
struct AliasesIds;

impl AliasesIds {
    fn alias(id: &PersistenceId) -> PersistenceId {
        let plain = |character: char| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '_'
            }
        };
        PersistenceId::new(id.as_str().chars().map(plain).collect::<String>()).unwrap_or_else(|_| id.clone())
    }
}

#[async_trait]
impl WrongSnapshots for AliasesIds {
    async fn save(&self, right: &Store, mut snapshot: Snapshot) -> Result<(), SnapshotError> {
        snapshot.metadata.persistence_id = Self::alias(&snapshot.metadata.persistence_id);
        right.save(snapshot).await
    }

    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        right.load(&Self::alias(id), criteria).await
    }

    async fn list(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        right.list(&Self::alias(id), criteria).await
    }
}

/// As a store does that does not flush: the last save of each id is gone.
#[derive(Debug, Default)]
struct LosesTheNewest(Mutex<HashMap<PersistenceId, SnapshotMetadata>>);

#[async_trait]
impl WrongSnapshots for LosesTheNewest {
    async fn restarted(&self, right: &Store) {
        let lost = std::mem::take(&mut *locked(&self.0));
        for snapshot in lost.values() {
            // The store is in memory: it does not fail.
            let _ = right.delete(snapshot).await;
        }
    }

    async fn save(&self, right: &Store, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let metadata = snapshot.metadata.clone();
        locked(&self.0).insert(metadata.persistence_id.clone(), metadata);
        right.save(snapshot).await
    }
}

#[derive(Debug)]
struct HangsOnUnknown;

#[async_trait]
impl WrongSnapshots for HangsOnUnknown {
    async fn load(
        &self,
        right: &Store,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Loaded, SnapshotError> {
        if right.list(id, ALL).await?.is_empty() {
            future::pending::<()>().await;
        }
        right.load(id, criteria).await
    }
}
