//! Snapshots and what may be deleted behind them: snapshot saved, then events up to the oldest *kept* snapshot, then
//! older snapshots. One round in flight per actor; a step that fails ends the round.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::FutureExt;

use crate::{
    Deletion, Durability, ErrorKind, Incarnation, JournalError, Operation, SelectionCriteria, SequenceNr,
    Signal, Snapshot, SnapshotError, SnapshotStore, effect_task::Actor,
};

/// A snapshot encoded at its number, to be saved once that number is durable.
pub(crate) struct SnapshotDuty {
    pub(crate) snapshot: Snapshot,
    pub(crate) keep: usize,
    pub(crate) delete_events: bool,
    pub(crate) round: Round,
}

/// The right to the one round in flight; given back when dropped, also where the snapshot never became durable.
pub(crate) struct Round(Arc<AtomicBool>);

impl Round {
    /// `None` while another round is in flight.
    pub(crate) fn begin(in_flight: &Arc<AtomicBool>) -> Option<Self> {
        (!in_flight.swap(true, Ordering::AcqRel)).then(|| Self(in_flight.clone()))
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(crate) async fn snapshot_round(actor: Arc<Actor>, duty: SnapshotDuty) {
    let Some(store) = actor.persistence.snapshots() else {
        return;
    };
    let SnapshotDuty {
        snapshot,
        keep,
        delete_events,
        round,
    } = duty;
    let metadata = snapshot.metadata.clone();
    let incarnation = metadata.incarnation;
    if let Err(error) = guard("save", save(&actor, &**store, snapshot)).await {
        actor.signal(Signal::SnapshotFailed(Arc::new(error)));
        return;
    }
    actor.signal(Signal::SnapshotSaved(metadata));
    if delete_events {
        match guard("list", oldest_kept(&actor, &**store, incarnation, keep)).await {
            Err(error) => {
                actor.signal(Signal::SnapshotsNotDeleted(Arc::new(error)));
                return;
            }
            Ok(None) => {}
            Ok(Some(to)) => {
                if !delete(
                    &actor,
                    Deletion {
                        to,
                        incarnation,
                        fresh_start: false,
                    },
                )
                .await
                {
                    return;
                }
            }
        }
    }
    actor.signal(
        match guard("delete", store.keep_newest(&actor.id, incarnation, keep)).await {
            Ok(()) => Signal::SnapshotsDeleted,
            Err(error) => Signal::SnapshotsNotDeleted(Arc::new(error)),
        },
    );
    drop(round);
}

/// A deletion that a command asked for, to be made once the command is durable.
pub(crate) struct DeletionDuty {
    pub(crate) deletion: Deletion,
    /// Refuse it unless a snapshot covers the events, so that recovery stays possible.
    pub(crate) must_be_covered: bool,
}

pub(crate) async fn delete_events(actor: Arc<Actor>, duty: DeletionDuty) {
    let DeletionDuty {
        deletion,
        must_be_covered,
    } = duty;
    if must_be_covered && let Some(refusal) = uncovered(&actor, deletion.to, deletion.incarnation).await {
        actor.signal(Signal::EventsNotDeleted(Arc::new(refusal)));
        return;
    }
    if !delete(&actor, deletion).await || !deletion.fresh_start {
        return;
    }
    // Recovery ignores snapshots up to a fresh start; they only take space.
    if let Some(store) = actor.persistence.snapshots() {
        let obsolete = SelectionCriteria::ALL.of(deletion.incarnation).up_to(deletion.to);
        if let Err(error) = guard("delete", store.delete_matching(&actor.id, obsolete)).await {
            actor.signal(Signal::SnapshotsNotDeleted(Arc::new(error)));
        }
    }
}

/// Why deleting events up to `to` would leave a state that cannot be recovered, if so.
async fn uncovered(actor: &Actor, to: SequenceNr, incarnation: Incarnation) -> Option<JournalError> {
    let refused = |why: String| {
        JournalError::not_stored(ErrorKind::Rejected, Operation::DeleteTo, why)
            .with_id(&actor.id)
            .with_sequence_nr(to)
    };
    let covering = SelectionCriteria::ALL.of(incarnation).down_to(to);
    let listed = match actor.persistence.snapshots() {
        None => Ok(Vec::new()),
        Some(store) => guard("list", store.list(&actor.id, covering)).await,
    };
    match listed {
        Ok(snapshots) if snapshots.is_empty() => Some(refused(
            "no snapshot covers these events; take one first".to_owned(),
        )),
        Ok(_) => None,
        Err(error) => Some(
            refused(format!(
                "whether a snapshot covers these events is unknown: {error}"
            ))
            .with_source(error),
        ),
    }
}

async fn save(actor: &Actor, store: &dyn SnapshotStore, snapshot: Snapshot) -> Result<(), SnapshotError> {
    let journal = actor.persistence.journal();
    if journal.capabilities().durability == Durability::OsBuffer {
        // A power loss must not leave a snapshot ahead of its events.
        journal.flush().await.map_err(|error| {
            SnapshotError::new("save", "the journal could not be flushed")
                .with_id(&actor.id)
                .with_source(error)
        })?;
    }
    store.save(snapshot).await
}

/// Only once as many snapshots exist as are kept may events go: each kept one is a fall-back.
async fn oldest_kept(
    actor: &Actor,
    store: &dyn SnapshotStore,
    incarnation: Incarnation,
    keep: usize,
) -> Result<Option<SequenceNr>, SnapshotError> {
    let newest_first = store
        .list(&actor.id, SelectionCriteria::ALL.of(incarnation))
        .await?;
    Ok(newest_first.get(keep - 1).map(|snapshot| snapshot.sequence_nr))
}

async fn delete(actor: &Arc<Actor>, deletion: Deletion) -> bool {
    let deleting = AssertUnwindSafe(actor.persistence.journal().delete_to(&actor.id, deletion));
    let deleted = deleting.catch_unwind().await.unwrap_or_else(|_| {
        Err(JournalError::unknown(
            ErrorKind::Unavailable,
            Operation::DeleteTo,
            "the journal panicked",
        ))
    });
    match deleted {
        Ok(to) => {
            actor.signal(Signal::EventsDeleted(to));
            true
        }
        Err(error) => {
            actor.signal(Signal::EventsNotDeleted(Arc::new(error)));
            false
        }
    }
}

/// A store that panics has failed.
async fn guard<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, SnapshotError>>,
) -> Result<T, SnapshotError> {
    AssertUnwindSafe(call)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(SnapshotError::new(operation, "the snapshot store panicked")))
}
