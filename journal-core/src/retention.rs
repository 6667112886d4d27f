//! Snapshots and what may be deleted behind them: snapshot saved, then events up to the oldest *kept* snapshot, then
//! older snapshots. One round in flight per actor; a step that fails ends the round.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::{
    Deletion, Durability, ErrorKind, JournalError, Operation, SelectionCriteria, SequenceNr, Signal,
    Snapshot, SnapshotError, SnapshotStore, effect_task::Actor,
};

/// How long one call of the journal or the snapshot store may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

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

pub(crate) async fn snapshot_round(actor: Arc<Actor>, duty: Box<SnapshotDuty>) {
    let Some(store) = actor.persistence.snapshots() else {
        return;
    };
    let SnapshotDuty {
        snapshot,
        keep,
        delete_events,
        round,
    } = *duty;
    let end = run_round(&actor, &**store, snapshot, keep, delete_events).await;
    // Whoever hears of the end may ask for the next round.
    drop(round);
    actor.signal(end);
}

/// Returns the signal of its end.
async fn run_round(
    actor: &Arc<Actor>,
    store: &dyn SnapshotStore,
    snapshot: Snapshot,
    keep: usize,
    delete_events: bool,
) -> Signal {
    let metadata = snapshot.metadata.clone();
    if let Err(error) = guard("save", save(actor, store, snapshot)).await {
        return Signal::SnapshotFailed(Arc::new(error));
    }
    actor.signal(Signal::SnapshotSaved(metadata.clone()));
    // One with a higher number is none that recovery could use: it is ahead of the journal, or another writer's.
    let usable = SelectionCriteria::ALL
        .of(metadata.incarnation)
        .up_to(metadata.sequence_nr);
    let newest_first = match guard("list", store.list(&actor.id, usable)).await {
        Err(error) => return Signal::SnapshotsNotDeleted(Arc::new(error)),
        Ok(newest_first) => newest_first,
    };
    // Only once as many snapshots exist as are kept may anything go: each kept one is a fall-back.
    if let Some(oldest_kept) = newest_first.get(keep - 1) {
        let deletion = Deletion {
            to: oldest_kept.sequence_nr,
            incarnation: metadata.incarnation,
            fresh_start: false,
        };
        if delete_events {
            match delete(actor, deletion).await {
                Err(error) => return Signal::EventsNotDeleted(Arc::new(error)),
                Ok(to) => actor.signal(Signal::EventsDeleted(to)),
            }
        }
        let older = usable.up_to(oldest_kept.sequence_nr.previous());
        if let Err(error) = guard("delete", store.delete_matching(&actor.id, older)).await {
            return Signal::SnapshotsNotDeleted(Arc::new(error));
        }
    }
    Signal::SnapshotsDeleted
}

/// A deletion that a command asked for, to be made once the command is durable.
pub(crate) struct DeletionDuty {
    pub(crate) deletion: Deletion,
    /// Refuse it unless a snapshot up to this number covers the events, so that recovery stays possible.
    pub(crate) covered_up_to: Option<SequenceNr>,
}

pub(crate) async fn delete_events(actor: Arc<Actor>, duty: DeletionDuty) {
    let DeletionDuty {
        deletion,
        covered_up_to,
    } = duty;
    if let Some(newest) = covered_up_to
        && let Some(refusal) = uncovered(&actor, &deletion, newest).await
    {
        actor.signal(Signal::EventsNotDeleted(Arc::new(refusal)));
        return;
    }
    match delete(&actor, deletion).await {
        Err(error) => return actor.signal(Signal::EventsNotDeleted(Arc::new(error))),
        Ok(to) => actor.signal(Signal::EventsDeleted(to)),
    }
    // Recovery ignores snapshots up to a fresh start; they only take space.
    if deletion.fresh_start
        && let Some(store) = actor.persistence.snapshots()
    {
        let obsolete = SelectionCriteria::ALL.of(deletion.incarnation).up_to(deletion.to);
        if let Err(error) = guard("delete", store.delete_matching(&actor.id, obsolete)).await {
            actor.signal(Signal::SnapshotsNotDeleted(Arc::new(error)));
        }
    }
}

/// Why deleting events up to `to` would leave a state that cannot be recovered, if so.
async fn uncovered(actor: &Actor, deletion: &Deletion, newest: SequenceNr) -> Option<JournalError> {
    let to = deletion.to;
    let refused = |why: String| {
        JournalError::not_stored(ErrorKind::Rejected, Operation::DeleteTo, why)
            .with_id(&actor.id)
            .with_sequence_nr(to)
    };
    let covering = SelectionCriteria::ALL
        .of(deletion.incarnation)
        .down_to(to)
        .up_to(newest);
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
        let started = Instant::now();
        journal.flush().await.map_err(|error| {
            SnapshotError::new("save", "the journal could not be flushed")
                .with_id(&actor.id)
                .with_source(error.since(started))
        })?;
    }
    store.save(snapshot).await
}

async fn delete(actor: &Actor, deletion: Deletion) -> Result<SequenceNr, JournalError> {
    let started = Instant::now();
    let deleting = actor.persistence.journal().delete_to(&actor.id, deletion);
    let deleted = bounded(deleting).await.unwrap_or_else(|what| {
        let what = format!("the journal {what}; the next round deletes again");
        Err(JournalError::unknown(ErrorKind::Unavailable, Operation::DeleteTo, what).with_id(&actor.id))
    });
    deleted.map_err(|error| error.since(started))
}

async fn guard<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, SnapshotError>>,
) -> Result<T, SnapshotError> {
    bounded(call).await.unwrap_or_else(|what| {
        Err(SnapshotError::new(
            operation,
            format!("the snapshot store {what}"),
        ))
    })
}

/// A call that panics or never ends has failed: a round without an end would keep the id for ever.
async fn bounded<T>(call: impl Future<Output = T>) -> Result<T, &'static str> {
    match tokio::time::timeout(CALL_TIMEOUT, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(ended)) => Ok(ended),
        Ok(Err(_)) => Err("panicked"),
        Err(_) => Err("did not answer"),
    }
}
