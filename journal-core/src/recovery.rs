//! The recovery state machine: claim's bounds in, snapshot choice and replay range out, a ready state or an error at the
//! end. No I/O; `recover.rs` drives it.

use std::{sync::Arc, time::Duration};

use crate::{
    Bounds, Incarnation, InvalidPersistenceId, JournalError, PersistError, PersistenceId, SelectionCriteria,
    SequenceNr, SnapshotError, SnapshotMetadata,
};

/// Why an actor could not recover. A state that might be wrong is an error, never a guess. Cheap to clone: the caller and
/// the model both get it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The id is not acceptable.
    #[error(transparent)]
    InvalidId(#[from] InvalidPersistenceId),
    /// The options do not fit together or not the stores.
    #[error("{0}")]
    Config(String),
    /// The persistence was shut down.
    #[error("the persistence is shut down; build a new one")]
    Closed,
    /// Somebody stopped the actor before it was recovered.
    #[error("the actor was stopped before it was recovered")]
    Stopped,
    /// Another actor of this process has the id.
    #[error("{id} is live already in this process; use a reference to it, or stop it first")]
    #[non_exhaustive]
    AlreadyLive {
        /// The id.
        id: PersistenceId,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(Arc<JournalError>),
    /// The snapshot store failed; without its answer the state might be wrong.
    #[error(transparent)]
    Snapshots(Arc<SnapshotError>),
    /// Nothing came for too long.
    #[error("recovery of {id}: nothing came from {from} for {idle:?}; check that it is reachable")]
    #[non_exhaustive]
    TimedOut {
        /// The id.
        id: PersistenceId,
        /// What was waited for.
        from: &'static str,
        /// How long.
        idle: Duration,
    },
    /// Events are deleted that no usable snapshot covers.
    #[error(
        "recovery of {id}: events up to {deleted_to} are deleted, but the newest usable snapshot is at {snapshot}{}; \
         restore the snapshot, or, if the events were deleted on purpose by another program, \
         set `accept_deleted_prefix`",
        .unreadable.as_ref().map(|reason| format!(" (one was not usable: {reason})")).unwrap_or_default()
    )]
    #[non_exhaustive]
    SnapshotMissing {
        /// The id.
        id: PersistenceId,
        /// Events up to here are deleted.
        deleted_to: SequenceNr,
        /// The newest usable snapshot; zero without one.
        snapshot: SequenceNr,
        /// Why a newer snapshot was not usable.
        unreadable: Option<String>,
    },
    /// The replay did not reach the number the claim promised.
    #[error(
        "recovery of {id} ended at {reached}, but {highest} events are acknowledged; the journal is damaged"
    )]
    #[non_exhaustive]
    Incomplete {
        /// The id.
        id: PersistenceId,
        /// The last number replayed or covered by a snapshot.
        reached: SequenceNr,
        /// The claim's highest number.
        highest: SequenceNr,
    },
    /// Deliveries are not confirmed that the actor, as it is described now, cannot send.
    #[error(
        "recovery of {id}: {unconfirmed} deliveries are not confirmed, but the actor was not set up to deliver: add \
         `.delivers()` to its options"
    )]
    #[non_exhaustive]
    NotDelivering {
        /// The id.
        id: PersistenceId,
        /// How many deliveries.
        unconfirmed: usize,
    },
    /// The model panicked: in reading or `apply` of an event, or in `recovered` after the last one.
    #[error("recovery of {id}: the model panicked at {sequence_nr}: {message}")]
    #[non_exhaustive]
    Panicked {
        /// The id.
        id: PersistenceId,
        /// The event.
        sequence_nr: SequenceNr,
        /// The panic's text.
        message: Arc<str>,
    },
    /// What the model's `recovered` persisted was not stored, twice in a row.
    #[error("recovery of {id}: what `recovered` persisted after it was not stored: {cause}")]
    #[non_exhaustive]
    Unwritten {
        /// The id.
        id: PersistenceId,
        /// Why it was not stored.
        cause: PersistError,
    },
}

impl From<JournalError> for RecoveryError {
    fn from(error: JournalError) -> Self {
        Self::Journal(Arc::new(error))
    }
}

impl From<SnapshotError> for RecoveryError {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshots(Arc::new(error))
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Load the newest snapshot that matches.
    LoadSnapshot(SelectionCriteria),
    /// Replay from this number to the end, on the base state given.
    Replay { from: SequenceNr, base: Base },
}

/// The state that the replay starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The state before the first event.
    Initial,
    /// The snapshot accepted last.
    Snapshot,
}

#[derive(Debug)]
pub(crate) struct Recovery {
    id: PersistenceId,
    bounds: Bounds,
    incarnation: Incarnation,
    accept_deleted_prefix: bool,
    /// The last number in the state.
    reached: SequenceNr,
    unreadable: Option<String>,
}

impl Recovery {
    pub(crate) fn new(
        id: PersistenceId,
        bounds: Bounds,
        incarnation: Incarnation,
        accept_deleted_prefix: bool,
    ) -> Self {
        Self {
            id,
            bounds,
            incarnation,
            accept_deleted_prefix,
            reached: SequenceNr::ZERO,
            unreadable: None,
        }
    }

    /// The first step where there is a snapshot store: whatever is newest, so that one that must be ignored is seen
    /// and reported.
    pub(crate) fn start(&self) -> Step {
        Step::LoadSnapshot(SelectionCriteria::ALL)
    }

    /// Why a snapshot must not be used, if so.
    pub(crate) fn unusable(&self, snapshot: &SnapshotMetadata) -> Option<&'static str> {
        if snapshot.incarnation != self.incarnation {
            Some("it belongs to another life of this id")
        } else if snapshot.sequence_nr > self.bounds.highest {
            Some("it is ahead of the journal")
        } else if snapshot.sequence_nr <= self.bounds.fresh_start {
            Some("a fresh start was declared after it")
        } else {
            None
        }
    }

    /// The snapshot loaded was of no use: look for the next one.
    pub(crate) fn next_snapshot(&mut self, refused: &SnapshotMetadata, reason: Option<String>) -> Step {
        if reason.is_some() {
            self.unreadable = reason;
        }
        let usable = SelectionCriteria::ALL
            .of(self.incarnation)
            .down_to(self.bounds.fresh_start.next())
            .up_to(self.bounds.highest);
        match self.unusable(refused) {
            Some(_) => Step::LoadSnapshot(usable),
            None => Step::LoadSnapshot(usable.up_to(refused.sequence_nr.previous())),
        }
    }

    /// The store skipped a damaged snapshot.
    pub(crate) fn skipped(&mut self, reason: &str) {
        self.unreadable = Some(reason.to_owned());
    }

    /// The snapshot's state is the base.
    pub(crate) fn with_snapshot(&mut self, snapshot: &SnapshotMetadata) -> Result<Step, RecoveryError> {
        self.replay_on(Base::Snapshot, snapshot.sequence_nr)
    }

    /// There is no usable snapshot.
    pub(crate) fn without_snapshot(&mut self) -> Result<Step, RecoveryError> {
        self.replay_on(Base::Initial, SequenceNr::ZERO)
    }

    fn replay_on(&mut self, base: Base, at: SequenceNr) -> Result<Step, RecoveryError> {
        let Bounds {
            deleted_to,
            fresh_start,
            ..
        } = self.bounds;
        if deleted_to <= at {
            self.reached = at;
            return Ok(Step::Replay {
                from: at.next(),
                base,
            });
        }
        if fresh_start == deleted_to || self.accept_deleted_prefix {
            self.reached = deleted_to;
            return Ok(Step::Replay {
                from: deleted_to.next(),
                base: Base::Initial,
            });
        }
        Err(RecoveryError::SnapshotMissing {
            id: self.id.clone(),
            deleted_to,
            snapshot: at,
            unreadable: self.unreadable.take(),
        })
    }

    /// An event is about to be applied.
    pub(crate) fn replayed(&mut self, number: SequenceNr) -> Result<(), RecoveryError> {
        if number != self.reached.next() {
            return Err(self.incomplete());
        }
        self.reached = number;
        Ok(())
    }

    /// The replay ended.
    pub(crate) fn finish(&self) -> Result<SequenceNr, RecoveryError> {
        if self.reached == self.bounds.highest {
            Ok(self.reached)
        } else {
            Err(self.incomplete())
        }
    }

    fn incomplete(&self) -> RecoveryError {
        RecoveryError::Incomplete {
            id: self.id.clone(),
            reached: self.reached,
            highest: self.bounds.highest,
        }
    }
}
