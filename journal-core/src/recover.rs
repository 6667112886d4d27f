//! Drives a recovery against journal and snapshot store.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::{
    Bounds, Claim, EventSerializer, EventSourced, Journal, PersistError, RecoveryError, ReplayRange,
    SequenceNr, Signal, SkippedSnapshot, SnapshotError, SnapshotMetadata, SnapshotStore, WriterId,
    cell::UnknownAppend,
    command::panic_message,
    effect_task::Actor,
    recovery::{Base, Recovery, Step},
    state_snapshot::StateSerializer,
};

/// Deletions that may overtake one recovery before it gives up.
const OVERTAKEN: u32 = 8;

/// What one recovery is about.
pub(crate) struct Recover<'a, A: EventSourced> {
    pub(crate) actor: &'a Arc<Actor>,
    pub(crate) events: &'a EventSerializer<A::Event>,
    pub(crate) states: &'a StateSerializer<A::State>,
    pub(crate) idle_timeout: Duration,
    pub(crate) accept_deleted_prefix: bool,
}

/// An actor ready to go on.
pub(crate) struct Recovered<S> {
    pub(crate) claim: Claim,
    pub(crate) state: S,
    pub(crate) snapshot: SequenceNr,
    pub(crate) replayed: u64,
}

impl<A: EventSourced> Recover<'_, A> {
    /// Permit, claim, what is unresolved of the former claim, snapshot, replay.
    pub(crate) async fn run(
        &self,
        unknown: Option<UnknownAppend>,
    ) -> Result<Recovered<A::State>, RecoveryError> {
        let mut open = OpenQuestion {
            actor: self.actor,
            unknown,
        };
        let persistence = &self.actor.persistence;
        let _permit = persistence.permit().await;
        let journal = &**persistence.journal();
        let claim = self.claim(journal).await?;
        self.resolve(journal, claim.bounds(), &mut open).await;
        let mut bounds = *claim.bounds();
        for _ in 0..OVERTAKEN {
            let recovery = Recovery::new(
                self.actor.id.clone(),
                bounds,
                claim.incarnation(),
                self.accept_deleted_prefix,
            );
            match self.rebuild(journal, recovery, bounds.highest).await {
                Ok((state, snapshot, replayed)) => {
                    return Ok(Recovered {
                        claim,
                        state,
                        snapshot,
                        replayed,
                    });
                }
                Err(error) => {
                    // A former actor's retention may delete what this recovery was about to read; then there is a
                    // newer snapshot too.
                    let now = self.wait("the journal", journal.bounds(&self.actor.id)).await??;
                    if now.deleted_to == bounds.deleted_to {
                        return Err(error);
                    }
                    bounds = Bounds {
                        deleted_to: now.deleted_to,
                        fresh_start: now.fresh_start,
                        ..bounds
                    };
                }
            }
        }
        Err(RecoveryError::Incomplete {
            id: self.actor.id.clone(),
            reached: bounds.deleted_to,
            highest: bounds.highest,
        })
    }

    async fn claim(&self, journal: &dyn Journal) -> Result<Claim, RecoveryError> {
        let claim = journal.claim(&self.actor.id, WriterId::random());
        Ok(self.wait("the journal's claim", claim).await??)
    }

    async fn rebuild(
        &self,
        journal: &dyn Journal,
        mut recovery: Recovery,
        highest: SequenceNr,
    ) -> Result<(A::State, SequenceNr, u64), RecoveryError> {
        let (step, snapshot) = match self.actor.persistence.snapshots() {
            None => (recovery.without_snapshot()?, None),
            Some(store) => self.load_snapshot(&**store, &mut recovery).await?,
        };
        let Step::Replay { from, base } = step else {
            return Err(RecoveryError::Config("no replay after the snapshot".to_owned()));
        };
        let (mut state, at) = match (base, snapshot) {
            (Base::Snapshot, Some((state, at))) => (state, at),
            _ => (A::State::default(), SequenceNr::ZERO),
        };
        let mut replayed = 0;
        let mut events = journal.replay(&self.actor.id, ReplayRange::between(from, highest));
        while let Some(chunk) = self.wait("the journal's replay", events.next_chunk()).await? {
            for record in chunk? {
                recovery.replayed(record.sequence_nr)?;
                let event = self.events.decode(&self.actor.id, &record)?;
                catch_unwind(AssertUnwindSafe(|| A::apply(&mut state, &event))).map_err(|panic| {
                    RecoveryError::Panicked {
                        id: self.actor.id.clone(),
                        sequence_nr: record.sequence_nr,
                        message: panic_message(&*panic),
                    }
                })?;
                replayed += 1;
            }
        }
        recovery.finish()?;
        Ok((state, at, replayed))
    }

    async fn load_snapshot(
        &self,
        store: &dyn SnapshotStore,
        recovery: &mut Recovery,
    ) -> Result<(Step, Option<(A::State, SequenceNr)>), RecoveryError> {
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
            match self.states.decode(&snapshot.payload) {
                Ok(state) => {
                    let at = metadata.sequence_nr;
                    return Ok((recovery.with_snapshot(metadata)?, Some((state, at))));
                }
                Err(error) => {
                    self.ignore(metadata, error.to_string());
                    step = recovery.next_snapshot(metadata, Some(error.to_string()));
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

    /// Finds out what the new claim's bounds made final: a record that carries the spent claim's writer and epoch was
    /// stored; one that is missing or another's was not; one that is deleted cannot be told.
    async fn resolve(&self, journal: &dyn Journal, bounds: &Bounds, open: &mut OpenQuestion<'_>) {
        let Some((writer, epoch, range)) = open.unknown.as_ref().map(|unknown| {
            let range = ReplayRange::between(unknown.unresolved.first, unknown.unresolved.last);
            (unknown.writer, unknown.epoch, range)
        }) else {
            return;
        };
        let mut stored = HashSet::new();
        let mut readable = true;
        let mut events = journal.replay(&self.actor.id, range);
        loop {
            match self.wait("the journal's replay", events.next_chunk()).await {
                Ok(None) => break,
                Ok(Some(Ok(records))) => stored.extend(
                    records
                        .iter()
                        .filter(|record| record.writer == writer && record.epoch == epoch)
                        .map(|record| record.sequence_nr),
                ),
                Ok(Some(Err(_))) | Err(_) => {
                    readable = false;
                    break;
                }
            }
        }
        let Some(UnknownAppend {
            error, unresolved, ..
        }) = open.unknown.take()
        else {
            return;
        };
        for (needs, held) in unresolved.held {
            if stored.contains(&needs) {
                self.actor.release(held);
            } else if !readable || needs <= bounds.deleted_to {
                self.actor.fail(held, &PersistError::Unknown(error.clone()));
            } else {
                self.actor.fail(held, &PersistError::NotStored(error.clone()));
            }
        }
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

/// What nobody could resolve is answered so, also where the recovery is dropped half-way.
struct OpenQuestion<'a> {
    actor: &'a Arc<Actor>,
    unknown: Option<UnknownAppend>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(UnknownAppend {
            error, unresolved, ..
        }) = self.unknown.take()
        {
            let error = PersistError::Unknown(error);
            for (_, held) in unresolved.held {
                self.actor.fail(held, &error);
            }
        }
    }
}
