//! Wrong at deleting and purging.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use journal_core::{
    Bounds, Deletion, EventStream, Journal, JournalError, PersistenceId, ReplayRange, SequenceNr,
};

use crate::faults::{
    journal::WrongJournal,
    simulated::{SimulatedJournal, locked},
};

#[derive(Debug)]
pub(super) struct ReusesNumbers;

#[async_trait]
impl WrongJournal for ReusesNumbers {
    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        let reached = right.delete_to(id, deletion).await?;
        if reached == right.bounds(id).await?.highest {
            right.purge(id).await?;
        }
        Ok(reached)
    }
}

/// As a store does that looks at its events for the highest number.
#[derive(Debug, Default)]
pub(super) struct LosesTheHighest(pub(super) Mutex<Vec<PersistenceId>>);

#[async_trait]
impl WrongJournal for LosesTheHighest {
    async fn restarted(&self, right: &SimulatedJournal) {
        let deleted = std::mem::take(&mut *locked(&self.0));
        for id in deleted {
            let empty = right
                .bounds(&id)
                .await
                .is_ok_and(|bounds| bounds.deleted_to == bounds.highest);
            if empty {
                // Nothing is silent during a restart.
                let _ = right.purge(&id).await;
            }
        }
    }

    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        locked(&self.0).push(id.clone());
        right.delete_to(id, deletion).await
    }
}

#[derive(Debug)]
pub(super) struct PurgesByDeleting;

#[async_trait]
impl WrongJournal for PurgesByDeleting {
    async fn purge(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<(), JournalError> {
        if let Some(incarnation) = right.bounds(id).await?.incarnation {
            let everything = Deletion {
                to: SequenceNr::MAX,
                incarnation,
                fresh_start: false,
            };
            right.delete_to(id, everything).await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct ReplaysDeleted;

#[async_trait]
impl WrongJournal for ReplaysDeleted {
    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        Ok(deletion.to.min(right.bounds(id).await?.highest))
    }
}

/// Deletes nothing, but remembers how far it was asked to, and filters at reading.
#[derive(Debug)]
pub(super) struct Logical {
    deleted: Mutex<HashMap<PersistenceId, SequenceNr>>,
    deletes_to: fn(Deletion, SequenceNr) -> SequenceNr,
    is_monotonic: bool,
    is_durable: bool,
}

impl Logical {
    pub(super) fn deleting(deletes_to: fn(Deletion, SequenceNr) -> SequenceNr) -> Self {
        Self {
            deleted: Mutex::default(),
            deletes_to,
            is_monotonic: true,
            is_durable: true,
        }
    }

    pub(super) fn moving_back() -> Self {
        Self {
            is_monotonic: false,
            ..Self::deleting(|deletion, highest| deletion.to.min(highest))
        }
    }

    pub(super) fn volatile() -> Self {
        Self {
            is_durable: false,
            ..Self::deleting(|deletion, highest| deletion.to.min(highest))
        }
    }

    fn deleted_to(&self, id: &PersistenceId) -> SequenceNr {
        locked(&self.deleted).get(id).copied().unwrap_or_default()
    }
}

#[async_trait]
impl WrongJournal for Logical {
    async fn restarted(&self, _right: &SimulatedJournal) {
        if !self.is_durable {
            locked(&self.deleted).clear();
        }
    }

    async fn bounds(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<Bounds, JournalError> {
        let bounds = right.bounds(id).await?;
        Ok(Bounds {
            deleted_to: self.deleted_to(id).min(bounds.highest),
            ..bounds
        })
    }

    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let deleted_to = self.deleted_to(id);
        EventStream::new(right.replay(id, range).map_ok(move |record| {
            let left = (record.sequence_nr > deleted_to).then_some(record);
            left.into_iter().collect()
        }))
    }

    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        let highest = right.bounds(id).await?.highest;
        let former = self.deleted_to(id);
        let asked = (self.deletes_to)(deletion, highest);
        let to = if self.is_monotonic {
            asked.max(former)
        } else {
            asked
        };
        locked(&self.deleted).insert(id.clone(), to);
        Ok(to.min(highest))
    }
}

#[derive(Debug)]
pub(super) struct OtherDeletion(pub(super) fn(Deletion) -> Deletion);

#[async_trait]
impl WrongJournal for OtherDeletion {
    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        right.delete_to(id, (self.0)(deletion)).await
    }
}

#[derive(Debug)]
pub(super) struct DeletesWholeWrites;

#[async_trait]
impl WrongJournal for DeletesWholeWrites {
    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        let records = right.replay_unchecked(id, ReplayRange::ALL);
        let write_of = |number| records.iter().find(|(record, _)| record.sequence_nr == number);
        let cut = write_of(deletion.to).and_then(|(record, _)| record.commit_order);
        let same_write = records.iter().filter(|(record, _)| record.commit_order == cut);
        let end = same_write.map(|(record, _)| record.sequence_nr).max();
        let to = end.filter(|_| cut.is_some()).unwrap_or(deletion.to);
        right.delete_to(id, Deletion { to, ..deletion }).await
    }
}

#[derive(Debug)]
pub(super) struct DeletesInAnyLife;

#[async_trait]
impl WrongJournal for DeletesInAnyLife {
    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        let alive = right.bounds(id).await?.incarnation;
        let incarnation = alive.unwrap_or(deletion.incarnation);
        right
            .delete_to(
                id,
                Deletion {
                    incarnation,
                    ..deletion
                },
            )
            .await
    }
}
