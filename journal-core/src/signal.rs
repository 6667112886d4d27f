//! What an actor is told beside its commands.

use std::sync::Arc;

use crate::{
    DeliveryId, JournalError, PersistError, RecoveryError, SequenceNr, SkippedSnapshot, SnapshotError,
    SnapshotMetadata,
};

/// Something that happened outside of a command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Signal {
    /// The actor is ready.
    #[non_exhaustive]
    RecoveryCompleted {
        /// Its newest number.
        highest: SequenceNr,
        /// The snapshot it started from; zero without one.
        snapshot: SequenceNr,
        /// How many events were replayed after it.
        replayed: u64,
    },
    /// The actor could not recover.
    RecoveryFailed(Arc<RecoveryError>),
    /// A snapshot was not used in recovery.
    SnapshotIgnored(SkippedSnapshot),
    /// An append failed; its commands are answered, and the actor recovers or, if fenced, stops.
    PersistFailed(PersistError),
    /// A command that nobody waits for failed.
    CommandFailed(PersistError),
    /// A command was answered with `unhandled`.
    Unhandled,
    /// A `handle`, `apply` or the outer stage of a `then_run` panicked; the actor recovers.
    HandlerPanicked(Arc<str>),
    /// A `then_run` closure, a failure's conversion, `send` of a delivery or `signal` itself panicked.
    EffectPanicked(Arc<str>),
    /// A delivery was sent as often as it may be and is not confirmed. It is kept, and sent again after the next
    /// recovery.
    #[non_exhaustive]
    DeliveryGivenUp {
        /// The delivery.
        id: DeliveryId,
        /// How often it was sent.
        attempts: u32,
    },
    /// A snapshot is saved.
    SnapshotSaved(SnapshotMetadata),
    /// A snapshot is not saved; nothing was deleted.
    SnapshotFailed(Arc<SnapshotError>),
    /// Events are deleted up to this number.
    EventsDeleted(SequenceNr),
    /// Events are not deleted.
    EventsNotDeleted(Arc<JournalError>),
    /// All snapshots but the kept ones are deleted.
    SnapshotsDeleted,
    /// Old snapshots are not deleted; the next round tries again.
    SnapshotsNotDeleted(Arc<SnapshotError>),
}

impl Signal {
    /// True if something failed that somebody should look at.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::RecoveryCompleted { .. }
            | Self::Unhandled
            | Self::SnapshotSaved(_)
            | Self::EventsDeleted(_)
            | Self::SnapshotsDeleted => false,
            Self::RecoveryFailed(_)
            | Self::SnapshotIgnored(_)
            | Self::PersistFailed(_)
            | Self::CommandFailed(_)
            | Self::HandlerPanicked(_)
            | Self::EffectPanicked(_)
            | Self::DeliveryGivenUp { .. }
            | Self::SnapshotFailed(_)
            | Self::EventsNotDeleted(_)
            | Self::SnapshotsNotDeleted(_) => true,
        }
    }
}
