//! Wrong at claims and appends, and at what is left of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures_util::{TryStreamExt, future::ready};
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Claim, EncodedEvent, Epoch, ErrorKind, EventStream,
    Incarnation, Journal, JournalError, Operation, Outcome, PersistenceId, Record, ReplayRange, SequenceNr,
    WriterId,
};
use tokio::task::yield_now;

use crate::faults::{
    journal::{Append, Stored, WrongJournal},
    simulated::{SimulatedJournal, locked},
};

fn alone(event: &EncodedEvent) -> Arc<[AtomicWrite]> {
    Arc::from([AtomicWrite::from(event.clone())])
}

/// Claims in the place of a writer that is fenced, and appends.
async fn append_in_spite(call: Append<'_>) -> Stored {
    let mut stolen = call.right.claim(call.claim.id(), call.claim.writer()).await?;
    let highest = stolen.highest();
    let stored = call.right.append(&mut stolen, highest, call.writes).await;
    *call.claim = stolen;
    stored
}

/// Replaces what is stored of `id` by `records`, one write each.
async fn rewrite(
    right: &SimulatedJournal,
    id: &PersistenceId,
    records: Vec<Record>,
) -> Result<(), JournalError> {
    right.purge(id).await?;
    let Some(first) = records.first() else {
        return Ok(());
    };
    let mut claim = right.claim(id, first.writer).await?;
    for record in &records {
        let highest = claim.highest();
        right.append(&mut claim, highest, alone(&record.event)).await?;
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct SplitsWrites;

#[async_trait]
impl WrongJournal for SplitsWrites {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let (mut first, mut last) = (None, call.expected);
        for event in call.writes.iter().flat_map(|write| &write.events) {
            let appended = call.right.append(call.claim, last, alone(event)).await?;
            first = first.or(Some(appended.first));
            last = appended.last;
            yield_now().await;
        }
        match first {
            Some(first) => Ok(Appended { first, last }),
            None => call.stored().await,
        }
    }
}

/// The first number of the last append of each id.
type LastAppends = Mutex<HashMap<PersistenceId, SequenceNr>>;

async fn lose(right: &SimulatedJournal, appends: &LastAppends) {
    let lost = std::mem::take(&mut *locked(appends));
    for (id, first) in lost {
        let kept = right.replay(&id, ReplayRange::ALL);
        let kept: Result<Vec<Record>, _> = kept
            .try_filter(|record| ready(record.sequence_nr < first))
            .try_collect()
            .await;
        if let Ok(kept) = kept {
            // A purged id has nothing to lose.
            let _ = rewrite(right, &id, kept).await;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct LosesTheLastAppend(pub(super) LastAppends);

#[async_trait]
impl WrongJournal for LosesTheLastAppend {
    async fn restarted(&self, right: &SimulatedJournal) {
        lose(right, &self.0).await;
    }

    async fn append(&self, mut call: Append<'_>) -> Stored {
        let appended = call.stored().await?;
        locked(&self.0).insert(call.claim.id().clone(), appended.first);
        Ok(appended)
    }
}

#[derive(Debug, Default)]
pub(super) struct LosesGroups(pub(super) LastAppends);

#[async_trait]
impl WrongJournal for LosesGroups {
    async fn restarted(&self, right: &SimulatedJournal) {
        lose(right, &self.0).await;
    }

    async fn append_group(&self, right: &SimulatedJournal, parts: &mut [AppendPart]) {
        right.append_group(parts).await;
        for part in parts {
            if let Some(Ok(appended)) = &part.result {
                locked(&self.0).insert(part.claim.id().clone(), appended.first);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ShowsAppendsLate(pub(super) LastAppends);

#[async_trait]
impl WrongJournal for ShowsAppendsLate {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let appended = call.stored().await?;
        locked(&self.0).insert(call.claim.id().clone(), appended.first);
        Ok(appended)
    }

    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let late = locked(&self.0).get(id).copied().unwrap_or(SequenceNr::MAX);
        let to = range.to.min(late.previous());
        right.replay(id, ReplayRange { to, ..range })
    }
}

/// As a store does that keeps ids in a column without regard to case.
#[derive(Debug)]
pub(super) struct AliasesIds;

impl AliasesIds {
    fn alias(id: &PersistenceId) -> PersistenceId {
        PersistenceId::new(id.as_str().to_ascii_lowercase()).unwrap_or_else(|_| id.clone())
    }
}

#[async_trait]
impl WrongJournal for AliasesIds {
    async fn claim(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        writer: WriterId,
    ) -> Result<Claim, JournalError> {
        right.claim(&Self::alias(id), writer).await
    }

    async fn bounds(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<Bounds, JournalError> {
        right.bounds(&Self::alias(id)).await
    }

    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        right.replay(&Self::alias(id), range)
    }
}

#[derive(Debug)]
pub(super) struct IgnoresShutdown;

#[async_trait]
impl WrongJournal for IgnoresShutdown {
    async fn shutdown(&self, _right: &SimulatedJournal) -> Result<(), JournalError> {
        Ok(())
    }
}

/// What Akka's test kit asks for: the writes beside a rejected one are stored.
#[derive(Debug)]
pub(super) struct StoresTheRest;

#[async_trait]
impl WrongJournal for StoresTheRest {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let stored = call.stored().await;
        let rejected = stored.as_ref().err().and_then(JournalError::write_index);
        if let Some(rejected) = rejected {
            let rest: Arc<[AtomicWrite]> = call.writes.iter().take(rejected).cloned().collect();
            if !rest.is_empty() {
                call.right.append(call.claim, call.expected, rest).await?;
            }
        }
        stored
    }
}

#[derive(Debug)]
pub(super) struct ConsumesNumbers;

#[async_trait]
impl WrongJournal for ConsumesNumbers {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let stored = call.stored().await;
        if stored
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Rejected)
        {
            let first = call.claim.highest().next();
            call.claim.stored(Appended { first, last: first });
        }
        stored
    }
}

#[derive(Debug)]
pub(super) struct AcceptsEmptyAppends;

#[async_trait]
impl WrongJournal for AcceptsEmptyAppends {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        if call.writes.is_empty() {
            return Ok(Appended {
                first: call.expected.next(),
                last: call.expected,
            });
        }
        call.stored().await
    }
}

#[derive(Debug)]
pub(super) struct LeavesTheIdOut;

#[async_trait]
impl WrongJournal for LeavesTheIdOut {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let stored = call.stored().await;
        stored.map_err(|error| JournalError::not_stored(error.kind(), Operation::Append, "failed"))
    }
}

#[derive(Debug)]
pub(super) struct CallsTroubleRejection;

#[async_trait]
impl WrongJournal for CallsTroubleRejection {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        call.stored().await.map_err(|error| match error.kind() {
            ErrorKind::Timeout => JournalError::rejected(None, "the engine does not answer"),
            _ => error,
        })
    }
}

#[derive(Debug)]
pub(super) struct MixesUpResults;

#[async_trait]
impl WrongJournal for MixesUpResults {
    async fn append_group(&self, right: &SimulatedJournal, parts: &mut [AppendPart]) {
        right.append_group(parts).await;
        let mut results: Vec<_> = parts.iter_mut().map(|part| part.result.take()).collect();
        results.reverse();
        for (part, result) in parts.iter_mut().zip(results) {
            part.result = result;
        }
    }
}

#[derive(Debug)]
pub(super) struct FailsAsOne;

#[async_trait]
impl WrongJournal for FailsAsOne {
    async fn append_group(&self, right: &SimulatedJournal, parts: &mut [AppendPart]) {
        let bad = |part: &AppendPart| part.writes.iter().any(AtomicWrite::is_empty);
        if !parts.iter().any(bad) {
            return right.append_group(parts).await;
        }
        for part in parts {
            part.result = Some(Err(JournalError::rejected(None, "a part of the group is empty")));
        }
    }
}

#[derive(Debug)]
pub(super) struct IgnoresTheFence;

#[async_trait]
impl WrongJournal for IgnoresTheFence {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        match call.stored().await {
            Err(error) if error.kind() == ErrorKind::Fenced => append_in_spite(call).await,
            stored => stored,
        }
    }
}

/// As a store does in which the last write of a number wins.
#[derive(Debug)]
pub(super) struct AcknowledgesFenced;

#[async_trait]
impl WrongJournal for AcknowledgesFenced {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        match call.stored().await {
            Err(error) if error.kind() == ErrorKind::Fenced => Ok(Appended {
                first: call.expected.next(),
                last: call.expected.next(),
            }),
            stored => stored,
        }
    }
}

#[derive(Debug)]
pub(super) struct KeepsTheClaim;

#[async_trait]
impl WrongJournal for KeepsTheClaim {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        let stored = call.stored().await;
        if stored
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::Unknown)
        {
            call.claim.not_stored();
        }
        stored
    }
}

#[derive(Debug)]
pub(super) struct IgnoresExpected;

#[async_trait]
impl WrongJournal for IgnoresExpected {
    async fn append(&self, call: Append<'_>) -> Stored {
        let highest = call.claim.highest();
        call.right.append(call.claim, highest, call.writes).await
    }
}

/// Hands out claims of its own and keeps the right ones in them.
#[derive(Debug)]
pub(super) struct OneEpoch;

#[async_trait]
impl WrongJournal for OneEpoch {
    async fn claim(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        writer: WriterId,
    ) -> Result<Claim, JournalError> {
        let claim = right.claim(id, writer).await?;
        let (incarnation, bounds) = (claim.incarnation(), *claim.bounds());
        let same = Claim::new(id.clone(), writer, Epoch::from_u64(1), incarnation, bounds);
        Ok(same.with_backend(claim))
    }

    async fn append(&self, call: Append<'_>) -> Stored {
        let appended = call
            .claim
            .begin(call.expected, &call.writes, &call.right.capabilities())?;
        let kept = call
            .claim
            .backend_mut::<Claim>()
            .expect("put there by call.claim");
        let stored = call
            .right
            .append(kept, call.expected, call.writes)
            .await
            .map(drop);
        call.claim.settle(appended, stored)
    }
}

#[derive(Debug)]
pub(super) struct ShowsAnotherIncarnation;

#[async_trait]
impl WrongJournal for ShowsAnotherIncarnation {
    async fn bounds(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<Bounds, JournalError> {
        let bounds = right.bounds(id).await?;
        Ok(Bounds {
            incarnation: bounds.incarnation.map(|_| Incarnation::from_bytes([1; 16])),
            ..bounds
        })
    }
}

/// As a store does whose queue of appends a claim does not wait for.
#[derive(Debug)]
pub(super) struct StoresLate;

#[async_trait]
impl WrongJournal for StoresLate {
    async fn append(&self, call: Append<'_>) -> Stored {
        for _ in 0..50 {
            yield_now().await;
        }
        IgnoresTheFence.append(call).await
    }
}

#[derive(Debug)]
pub(super) struct IgnoresPurges;

#[async_trait]
impl WrongJournal for IgnoresPurges {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        match call.stored().await {
            Err(error)
                if error.kind() == ErrorKind::Fenced
                    && call.right.bounds(call.claim.id()).await?.incarnation
                        != Some(call.claim.incarnation()) =>
            {
                append_in_spite(call).await
            }
            stored => stored,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ShowsClaims(pub(super) Mutex<HashMap<PersistenceId, Bounds>>);

#[async_trait]
impl WrongJournal for ShowsClaims {
    async fn claim(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        writer: WriterId,
    ) -> Result<Claim, JournalError> {
        let claim = right.claim(id, writer).await?;
        locked(&self.0).insert(id.clone(), *claim.bounds());
        Ok(claim)
    }

    async fn bounds(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<Bounds, JournalError> {
        let bounds = right.bounds(id).await?;
        let claimed = locked(&self.0).get(id).copied();
        Ok(match bounds.incarnation {
            None => claimed.unwrap_or_default(),
            Some(_) => bounds,
        })
    }
}

#[derive(Debug)]
pub(super) struct BeginsLate;

#[async_trait]
impl WrongJournal for BeginsLate {
    async fn append(&self, mut call: Append<'_>) -> Stored {
        yield_now().await;
        call.stored().await
    }
}
