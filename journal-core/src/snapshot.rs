//! Snapshots: states at a sequence number, an optimisation and never the truth. The trait stands here because recovery
//! needs it; the stores are in the `snapshot-store` crate and in the backends.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Incarnation, PersistenceId, SequenceNr, Timestamp};

/// Which snapshot: of whom, at which number, in which life.
///
/// A snapshot is identified by id, incarnation and number; the timestamp only helps to select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// Whose state.
    pub persistence_id: PersistenceId,
    /// The number of the last event in the state.
    pub sequence_nr: SequenceNr,
    /// The life the number belongs to.
    pub incarnation: Incarnation,
    /// When the state was encoded.
    pub timestamp: Timestamp,
}

/// A snapshot as a store sees it. The payload is the engine's envelope (codec, manifest, version, engine section,
/// state); a store keeps it bit for bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Which snapshot.
    pub metadata: SnapshotMetadata,
    /// The envelope.
    pub payload: Bytes,
}

/// Which snapshots of an id to load, list or delete. All bounds are inclusive and must all hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectionCriteria {
    /// The lowest number.
    pub min_sequence_nr: SequenceNr,
    /// The highest number.
    pub max_sequence_nr: SequenceNr,
    /// The earliest timestamp.
    pub min_timestamp: Timestamp,
    /// The latest timestamp.
    pub max_timestamp: Timestamp,
    /// Only this life; `None` for any.
    pub incarnation: Option<Incarnation>,
}

impl SelectionCriteria {
    /// All snapshots of an id.
    pub const ALL: Self = Self {
        min_sequence_nr: SequenceNr::ZERO,
        max_sequence_nr: SequenceNr::MAX,
        min_timestamp: Timestamp(0),
        max_timestamp: Timestamp(u64::MAX),
        incarnation: None,
    };

    /// Only up to this number.
    #[must_use]
    pub const fn up_to(self, sequence_nr: SequenceNr) -> Self {
        Self {
            max_sequence_nr: sequence_nr,
            ..self
        }
    }

    /// Only from this number on.
    #[must_use]
    pub const fn down_to(self, sequence_nr: SequenceNr) -> Self {
        Self {
            min_sequence_nr: sequence_nr,
            ..self
        }
    }

    /// Only of this life.
    #[must_use]
    pub const fn of(self, incarnation: Incarnation) -> Self {
        Self {
            incarnation: Some(incarnation),
            ..self
        }
    }

    /// True if the snapshot is selected.
    #[must_use]
    pub fn matches(&self, snapshot: &SnapshotMetadata) -> bool {
        (self.min_sequence_nr..=self.max_sequence_nr).contains(&snapshot.sequence_nr)
            && (self.min_timestamp..=self.max_timestamp).contains(&snapshot.timestamp)
            && self
                .incarnation
                .is_none_or(|incarnation| incarnation == snapshot.incarnation)
    }
}

/// The answer to [`SnapshotStore::load`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// The newest snapshot that matches and can be read.
    pub snapshot: Option<Snapshot>,
    /// Newer ones that match but are damaged, newest first.
    pub skipped: Vec<SkippedSnapshot>,
}

/// A snapshot that exists but cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedSnapshot {
    /// Where it is: a file, a row.
    pub location: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// Keeps snapshots.
#[async_trait]
pub trait SnapshotStore: Send + Sync + Debug + 'static {
    /// Saves a snapshot.
    ///
    /// # Obligations
    /// - `Ok` means that it survives what the store's journal survives.
    /// - Replaces a snapshot of the same id, incarnation and number; a failure leaves the former one readable.
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError>;

    /// Loads the newest snapshot that matches: the one with the highest number, of equal ones that with the latest
    /// timestamp.
    ///
    /// # Obligations
    /// - A half-written or damaged one is skipped in favour of an older one, and reported.
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError>;

    /// The snapshots that match, newest first, without their payloads.
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError>;

    /// Deletes one snapshot, whatever its timestamp. Idempotent.
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError>;

    /// Deletes all that match. Idempotent.
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError>;

    /// Deletes all of this life but the newest `count`.
    async fn keep_newest(
        &self,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        let all = self.list(id, SelectionCriteria::ALL.of(incarnation)).await?;
        for older in all.iter().skip(count) {
            self.delete(older).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl<S: SnapshotStore + ?Sized> SnapshotStore for Arc<S> {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        (**self).save(snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        (**self).load(id, criteria).await
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        (**self).list(id, criteria).await
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        (**self).delete(snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        (**self).delete_matching(id, criteria).await
    }
    async fn keep_newest(
        &self,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        (**self).keep_newest(id, incarnation, count).await
    }
}

/// Why a snapshot store failed. A failed save may or may not have stored the snapshot; the journal does not depend on
/// either.
#[derive(Debug, thiserror::Error)]
#[error("{operation} of a snapshot{}: {message}", .persistence_id.as_ref().map(|id| format!(" of {id}")).unwrap_or_default())]
pub struct SnapshotError {
    operation: &'static str,
    persistence_id: Option<PersistenceId>,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SnapshotError {
    /// `message` says what happened and what to do.
    pub fn new(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            operation,
            persistence_id: None,
            message: message.into(),
            source: None,
        }
    }

    /// Adds whose snapshot it was.
    #[must_use]
    pub fn with_id(mut self, id: &PersistenceId) -> Self {
        self.persistence_id = Some(id.clone());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The call that failed, for example `save`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Whose snapshot it was, if of one id.
    #[must_use]
    pub fn persistence_id(&self) -> Option<&PersistenceId> {
        self.persistence_id.as_ref()
    }
}
