//! Drives a recovery against journal and snapshot store.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    Bounds, Claim, ErrorKind, EventSerializer, EventSourced, Journal, JournalError, Operation, Options,
    PersistenceId, Record, RecoveryError, ReplayRange, SequenceNr, Signal, SkippedSnapshot, SnapshotError,
    SnapshotMetadata, SnapshotStore, WriterId,
    cell::{Cell, Found},
    command::panic_message,
    deliveries::{Deliveries, DeliveryEvent},
    delivery::Deliverer,
    effect_task::Actor,
    recovery::{Base, Recovery, Step},
    state_snapshot::StateSerializer,
};

/// Deletions that may overtake one recovery before it gives up.
const OVERTAKEN: u32 = 8;

/// How an actor's events and snapshots become bytes and back.
pub(crate) struct Serializers<A: EventSourced> {
    pub(crate) events: EventSerializer<A::Event>,
    pub(crate) states: StateSerializer<A::State>,
    /// Of an actor that delivers.
    pub(crate) deliverer: Option<Arc<dyn Deliverer<A>>>,
}

impl<A: EventSourced> Serializers<A> {
    /// Adds a stored event.
    pub(crate) fn fold(
        &self,
        id: &PersistenceId,
        folded: &mut Folded<A::State>,
        record: &Record,
    ) -> Result<(), RecoveryError> {
        if record.event.manifest.is_reserved() {
            let event = DeliveryEvent::decode(&record.event).map_err(|unreadable| {
                let message = format!(
                    "the event {:?} of the engine: {unreadable}",
                    record.event.manifest
                );
                JournalError::not_stored(ErrorKind::Undecodable, Operation::Replay, message)
                    .with_id(id)
                    .with_sequence_nr(record.sequence_nr)
                    .with_source(unreadable)
            })?;
            folded.deliveries.apply(record.sequence_nr, event);
            return Ok(());
        }
        // Reading it, and letting go of it, is user code too.
        guarded(id, record.sequence_nr, || {
            let event = self.events.decode(id, record)?;
            A::apply(&mut folded.state, &event);
            Ok(())
        })
    }

    /// That what is unconfirmed can be sent: it must not be forgotten silently.
    pub(crate) fn check_deliveries(
        &self,
        id: &PersistenceId,
        unconfirmed: &Deliveries,
    ) -> Result<(), RecoveryError> {
        match &self.deliverer {
            None if unconfirmed.is_empty() => {}
            None => {
                return Err(RecoveryError::NotDelivering {
                    id: id.clone(),
                    unconfirmed: unconfirmed.len(),
                });
            }
            Some(deliverer) => {
                for (number, delivery) in unconfirmed.iter() {
                    guarded(id, SequenceNr::new(number.get()), || {
                        Ok(deliverer.check(id, number, delivery)?)
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// A panic of the model's is an error that names the event.
fn guarded<T>(
    id: &PersistenceId,
    sequence_nr: SequenceNr,
    user_code: impl FnOnce() -> Result<T, RecoveryError>,
) -> Result<T, RecoveryError> {
    catch_unwind(AssertUnwindSafe(user_code)).unwrap_or_else(|panic| {
        Err(RecoveryError::Panicked {
            id: id.clone(),
            sequence_nr,
            message: panic_message(&*panic),
        })
    })
}

/// What one recovery is about.
pub(crate) struct Recover<A: EventSourced> {
    actor: Arc<Actor>,
    serializers: Arc<Serializers<A>>,
    idle_timeout: Duration,
    accept_deleted_prefix: bool,
}

/// What a recovery ends with.
pub(crate) struct Rebuilt<S> {
    pub(crate) claim: Claim,
    pub(crate) folded: Folded<S>,
}

/// What snapshot and events add up to.
#[derive(Default)]
pub(crate) struct Folded<S> {
    pub(crate) state: S,
    pub(crate) deliveries: Deliveries,
    /// The number of the snapshot it started from.
    pub(crate) snapshot: SequenceNr,
    pub(crate) replayed: u64,
}

impl<A: EventSourced> Recover<A> {
    pub(crate) fn new(actor: &Arc<Actor>, serializers: &Arc<Serializers<A>>, options: &Options<A>) -> Self {
        Self {
            actor: actor.clone(),
            serializers: serializers.clone(),
            idle_timeout: options.recovery_idle_timeout,
            accept_deleted_prefix: options.accept_deleted_prefix,
        }
    }

    /// Permit, claim, what is unresolved of the former claim's ledger, snapshot, replay.
    pub(crate) async fn run(&self, former: Option<&Cell>) -> Result<Rebuilt<A::State>, RecoveryError> {
        let persistence = &self.actor.persistence;
        let _permit = persistence.permit().await;
        let journal = &**persistence.journal();
        let claim = self.claim(journal).await?;
        if let Some(former) = former {
            self.resolve(journal, claim.bounds().highest, former).await;
        }
        let mut bounds = *claim.bounds();
        let mut overtaken = 0;
        loop {
            let recovery = Recovery::new(
                self.actor.id.clone(),
                bounds,
                claim.incarnation(),
                self.accept_deleted_prefix,
            );
            let error = match self.rebuild(journal, recovery, bounds.highest).await {
                Ok(folded) => return Ok(Rebuilt { claim, folded }),
                Err(error) => error,
            };
            // A former actor's retention may delete what this recovery was about to read; then there is a newer
            // snapshot too.
            let Ok(Ok(now)) = self.wait("the journal", journal.bounds(&self.actor.id)).await else {
                return Err(error);
            };
            overtaken += 1;
            if now.deleted_to == bounds.deleted_to || overtaken == OVERTAKEN {
                return Err(error);
            }
            bounds = Bounds {
                deleted_to: now.deleted_to,
                fresh_start: now.fresh_start,
                ..bounds
            };
        }
    }

    async fn claim(&self, journal: &dyn Journal) -> Result<Claim, RecoveryError> {
        let started = Instant::now();
        let claim = journal.claim(&self.actor.id, WriterId::random());
        let claim = self.wait("the journal's claim", claim).await?;
        Ok(claim.map_err(|error| error.since(started).with_id(&self.actor.id))?)
    }

    async fn rebuild(
        &self,
        journal: &dyn Journal,
        mut recovery: Recovery,
        highest: SequenceNr,
    ) -> Result<Folded<A::State>, RecoveryError> {
        let (step, snapshot) = match self.actor.persistence.snapshots() {
            None => (recovery.without_snapshot()?, None),
            Some(store) => self.load_snapshot(&**store, &mut recovery).await?,
        };
        let Step::Replay { from, base } = step else {
            return Err(RecoveryError::Config("no replay after the snapshot".to_owned()));
        };
        let mut folded = match (base, snapshot) {
            (Base::Snapshot, Some(folded)) => folded,
            _ => Folded::default(),
        };
        let started = Instant::now();
        let mut events = journal.replay(&self.actor.id, ReplayRange::between(from, highest));
        while let Some(chunk) = self.wait("the journal's replay", events.next_chunk()).await? {
            for record in chunk.map_err(|error| error.since(started).with_id(&self.actor.id))? {
                recovery.replayed(record.sequence_nr)?;
                self.serializers.fold(&self.actor.id, &mut folded, &record)?;
                folded.replayed += 1;
            }
        }
        recovery.finish()?;
        self.serializers
            .check_deliveries(&self.actor.id, &folded.deliveries)?;
        Ok(folded)
    }

    async fn load_snapshot(
        &self,
        store: &dyn SnapshotStore,
        recovery: &mut Recovery,
    ) -> Result<(Step, Option<Folded<A::State>>), RecoveryError> {
        let mut step = recovery.start();
        while let Step::LoadSnapshot(criteria) = step {
            let loaded = self
                .wait("the snapshot store", store.load(&self.actor.id, criteria))
                .await??;
            for skipped in loaded.skipped {
                recovery.skipped(&skipped.reason);
                self.actor.signal(Signal::SnapshotIgnored(skipped));
            }
            let Some(snapshot) = loaded.snapshot else {
                step = recovery.without_snapshot()?;
                break;
            };
            let metadata = &snapshot.metadata;
            if !criteria.matches(metadata) {
                let unasked =
                    SnapshotError::new("load", "the store returned a snapshot that was not asked for");
                return Err(unasked.with_id(&self.actor.id).into());
            }
            if let Some(reason) = recovery.unusable(metadata) {
                self.ignore(metadata, reason.to_owned());
                step = recovery.next_snapshot(metadata, None);
                continue;
            }
            let decoded = catch_unwind(AssertUnwindSafe(|| {
                let decoded = self.serializers.states.decode(&snapshot.payload);
                decoded.map_err(|error| error.to_string())
            }));
            let decoded = decoded.unwrap_or_else(|panic| {
                Err(format!(
                    "the state's decoding panicked: {}",
                    panic_message(&*panic)
                ))
            });
            match decoded {
                Ok((state, deliveries)) => {
                    let folded = Folded {
                        state,
                        deliveries,
                        snapshot: metadata.sequence_nr,
                        replayed: 0,
                    };
                    return Ok((recovery.with_snapshot(metadata)?, Some(folded)));
                }
                Err(error) => {
                    self.ignore(metadata, error.clone());
                    step = recovery.next_snapshot(metadata, Some(error));
                }
            }
        }
        Ok((step, None))
    }

    fn ignore(&self, metadata: &SnapshotMetadata, reason: String) {
        let location = format!(
            "the snapshot of {} at {}",
            metadata.persistence_id, metadata.sequence_nr
        );
        self.actor
            .signal(Signal::SnapshotIgnored(SkippedSnapshot { location, reason }));
    }

    /// Finds out what the new claim made final: numbers above its highest were not stored; of the others, a record that
    /// carries the spent claim's writer and epoch was, and one that is another's was not; where there is none, it was
    /// deleted or cannot be read, and nobody will ever know.
    ///
    /// Until the answer is known the replies stay with the ledger, which bounds their wait and answers them if this
    /// recovery is dropped.
    async fn resolve(&self, journal: &dyn Journal, highest: SequenceNr, former: &Cell) {
        let Some(append) = former.unknown_append() else {
            return;
        };
        let mut ours = HashMap::new();
        let range = ReplayRange::between(append.first, append.last.min(highest));
        let mut events = journal.replay(&self.actor.id, range);
        while let Ok(Some(Ok(records))) = self.wait("the journal's replay", events.next_chunk()).await {
            ours.extend(records.iter().map(|record| {
                let is_ours = record.writer == append.writer && record.epoch == append.epoch;
                (record.sequence_nr, is_ours)
            }));
        }
        former.resolve_unknown(|number| match ours.get(&number) {
            Some(true) => Found::Stored,
            Some(false) => Found::NotStored,
            None if number > highest => Found::NotStored,
            None => Found::Nothing,
        });
    }

    async fn wait<T>(&self, from: &'static str, answer: impl Future<Output = T>) -> Result<T, RecoveryError> {
        tokio::time::timeout(self.idle_timeout, answer)
            .await
            .map_err(|_| RecoveryError::TimedOut {
                id: self.actor.id.clone(),
                from,
                idle: self.idle_timeout,
            })
    }
}
