//! Wrong journals.

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, future::ready, stream};
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, EncodedEvent, Epoch, ErrorKind,
    EventStream, Incarnation, Journal, JournalError, JournalInfo, Operation, Outcome, PersistenceId, Record,
    ReplayRange, SequenceNr, WriterId,
};
use tokio::task::yield_now;

use crate::{
    faults::simulated::{SimulatedJournal, SimulatedJournals, locked},
    journal::Damage,
};

type Stored = Result<Appended, JournalError>;

/// What one fault does instead of the right journal; by default nothing else.
#[async_trait]
pub(crate) trait WrongJournal: Send + Sync + Debug + 'static {
    /// What is left when the process comes back.
    async fn restarted(&self, _right: &SimulatedJournal) {}

    async fn claim(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        writer: WriterId,
    ) -> Result<Claim, JournalError> {
        right.claim(id, writer).await
    }

    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        right.append(claim, expected, writes).await
    }

    /// As the trait's default does it.
    async fn append_group(&self, right: &SimulatedJournal, parts: &mut [AppendPart]) {
        for part in parts {
            let stored = self.append(right, &mut part.claim, part.expected, part.writes.clone());
            part.result = Some(stored.await);
        }
    }

    async fn bounds(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<Bounds, JournalError> {
        right.bounds(id).await
    }

    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        right.replay(id, range)
    }

    async fn delete_to(
        &self,
        right: &SimulatedJournal,
        id: &PersistenceId,
        deletion: Deletion,
    ) -> Result<SequenceNr, JournalError> {
        right.delete_to(id, deletion).await
    }

    async fn purge(&self, right: &SimulatedJournal, id: &PersistenceId) -> Result<(), JournalError> {
        right.purge(id).await
    }

    async fn shutdown(&self, right: &SimulatedJournal) -> Result<(), JournalError> {
        right.shutdown().await
    }
}

/// No fault: the control.
#[derive(Debug)]
pub(crate) struct Right;

impl WrongJournal for Right {}

#[derive(Debug)]
pub(crate) struct FaultyJournal {
    pub(crate) right: SimulatedJournal,
    pub(crate) wrong: Arc<dyn WrongJournal>,
}

#[async_trait]
impl Journal for FaultyJournal {
    fn info(&self) -> JournalInfo {
        self.right.info()
    }
    fn capabilities(&self) -> Capabilities {
        self.right.capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.wrong.claim(&self.right, id, writer).await
    }
    async fn append(&self, claim: &mut Claim, expected: SequenceNr, writes: Arc<[AtomicWrite]>) -> Stored {
        self.wrong.append(&self.right, claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        self.wrong.append_group(&self.right, parts).await;
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.wrong.bounds(&self.right, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.wrong.replay(&self.right, id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.wrong.delete_to(&self.right, id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.wrong.purge(&self.right, id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.right.flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        self.wrong.shutdown(&self.right).await
    }
}

/// A way to be wrong.
#[derive(Clone, Copy)]
pub struct JournalFault {
    /// What it does.
    pub name: &'static str,
    /// Which guarantee of the contract, 1 to 9, it breaks.
    pub guarantee: u8,
    make: fn() -> Arc<dyn WrongJournal>,
}

impl JournalFault {
    /// A store on which every journal does this.
    #[must_use]
    pub fn fixture(&self) -> SimulatedJournals {
        SimulatedJournals::wrong((self.make)())
    }
}

impl Debug for JournalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (breaks guarantee {})", self.name, self.guarantee)
    }
}

macro_rules! faults {
    ($($guarantee:literal $name:ident $wrong:expr;)*) => {
        /// All of them.
        #[must_use]
        pub fn journal_faults() -> Vec<JournalFault> {
            vec![$(JournalFault {
                name: stringify!($name),
                guarantee: $guarantee,
                make: || Arc::new($wrong),
            },)*]
        }
    };
}

faults! {
    1 splits_atomic_writes SplitsWrites;
    2 acknowledges_before_flushing LosesTheLastAppend::default();
    2 acknowledges_groups_before_flushing LosesGroups::default();
    2 shows_appends_late ShowsAppendsLate::default();
    2 alters_metadata Alters(|event| event.metadata = Bytes::new());
    2 alters_tags Alters(|event| event.tags.reverse());
    2 alters_payloads Alters(|event| event.payload.truncate(1 << 19));
    2 aliases_ids AliasesIds;
    2 goes_on_after_a_shutdown IgnoresShutdown;
    3 stores_the_rest_of_a_rejected_append StoresTheRest;
    3 consumes_numbers_on_rejection ConsumesNumbers;
    3 accepts_appends_without_writes AcceptsEmptyAppends;
    3 leaves_the_id_out_of_errors LeavesTheIdOut;
    3 calls_trouble_a_rejection CallsTroubleRejection;
    3 mixes_up_group_results MixesUpResults;
    3 fails_a_group_as_one FailsAsOne;
    4 ignores_the_fence IgnoresTheFence;
    4 acknowledges_fenced_writers AcknowledgesFenced;
    4 keeps_the_claim_after_unknown KeepsTheClaim;
    4 ignores_the_expected_number IgnoresExpected;
    4 gives_all_claims_one_epoch OneEpoch;
    5 shows_another_incarnation ShowsAnotherIncarnation;
    5 stores_after_a_later_claim StoresLate;
    5 reuses_numbers_after_deleting_everything ReusesNumbers;
    5 loses_the_highest_on_restart LosesTheHighest::default();
    5 purges_by_deleting PurgesByDeleting;
    5 leaves_claims_alive_after_a_purge IgnoresPurges;
    5 shows_claims_to_readers ShowsClaims::default();
    6 stops_before_the_upper_bound OtherRange(|range| ReplayRange { to: range.to.previous(), ..range });
    6 starts_after_the_lower_bound OtherRange(|range| ReplayRange { from: range.from.max(SequenceNr::FIRST).next(), ..range });
    6 ignores_max OtherRange(|range| range.max(u64::MAX));
    6 refuses_to_start_from_zero Refuses(|range| range.from == SequenceNr::ZERO);
    6 refuses_crossed_bounds Refuses(|range| range.from > range.to);
    6 delivers_backwards Backwards;
    6 replays_deleted_events ReplaysDeleted;
    6 ends_a_replay_silently OtherEnd(|events| EventStream::new(events.map_ok(|record| vec![record]).take(256)));
    6 skips_missing_events SkipsDamage;
    6 ends_silently_at_damage EndsAtDamage;
    6 takes_silence_for_the_end TakesSilenceForTheEnd;
    6 hangs_on_silence HangsOnSilence;
    6 reads_the_whole_stream_into_memory OtherEnd(collected);
    7 deletes_in_advance Logical::deleting(|deletion, _| deletion.to);
    7 deletes_up_to_but_not_including OtherDeletion(|deletion| Deletion { to: deletion.to.previous(), ..deletion });
    7 deletes_whole_writes DeletesWholeWrites;
    7 moves_deletions_back Logical::moving_back();
    7 deletes_in_any_life DeletesInAnyLife;
    7 forgets_fresh_starts OtherDeletion(|deletion| Deletion { fresh_start: false, ..deletion });
    7 revives_deleted_events_on_restart Logical::volatile();
    7 reads_what_was_deleted Logical::deleting(|deletion, highest| deletion.to.min(highest));
    8 leaves_the_claim_usable_when_dropped BeginsLate;
    9 skips_unknown_events SkipsUnknown;
}

fn alone(event: &EncodedEvent) -> Arc<[AtomicWrite]> {
    Arc::from([AtomicWrite::from(event.clone())])
}

/// Claims in the place of a writer that is fenced, and appends.
async fn append_in_spite(right: &SimulatedJournal, claim: &mut Claim, writes: Arc<[AtomicWrite]>) -> Stored {
    let mut stolen = right.claim(claim.id(), claim.writer()).await?;
    let highest = stolen.highest();
    let stored = right.append(&mut stolen, highest, writes).await;
    *claim = stolen;
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
struct SplitsWrites;

#[async_trait]
impl WrongJournal for SplitsWrites {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let (mut first, mut last) = (None, expected);
        for event in writes.iter().flat_map(|write| &write.events) {
            let appended = right.append(claim, last, alone(event)).await?;
            first = first.or(Some(appended.first));
            last = appended.last;
            yield_now().await;
        }
        match first {
            Some(first) => Ok(Appended { first, last }),
            None => right.append(claim, expected, writes).await,
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
struct LosesTheLastAppend(LastAppends);

#[async_trait]
impl WrongJournal for LosesTheLastAppend {
    async fn restarted(&self, right: &SimulatedJournal) {
        lose(right, &self.0).await;
    }

    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let appended = right.append(claim, expected, writes).await?;
        locked(&self.0).insert(claim.id().clone(), appended.first);
        Ok(appended)
    }
}

#[derive(Debug, Default)]
struct LosesGroups(LastAppends);

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
struct ShowsAppendsLate(LastAppends);

#[async_trait]
impl WrongJournal for ShowsAppendsLate {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let appended = right.append(claim, expected, writes).await?;
        locked(&self.0).insert(claim.id().clone(), appended.first);
        Ok(appended)
    }

    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let late = locked(&self.0).get(id).copied().unwrap_or(SequenceNr::MAX);
        let to = range.to.min(late.previous());
        right.replay(id, ReplayRange { to, ..range })
    }
}

#[derive(Debug)]
struct Alters(fn(&mut EncodedEvent));

impl WrongJournal for Alters {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let alter = self.0;
        EventStream::new(right.replay(id, range).map_ok(move |mut record| {
            alter(&mut record.event);
            vec![record]
        }))
    }
}

/// As a store does that keeps ids in a column without regard to case.
#[derive(Debug)]
struct AliasesIds;

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
struct IgnoresShutdown;

#[async_trait]
impl WrongJournal for IgnoresShutdown {
    async fn shutdown(&self, _right: &SimulatedJournal) -> Result<(), JournalError> {
        Ok(())
    }
}

/// What Akka's test kit asks for: the writes beside a rejected one are stored.
#[derive(Debug)]
struct StoresTheRest;

#[async_trait]
impl WrongJournal for StoresTheRest {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let stored = right.append(claim, expected, writes.clone()).await;
        let rejected = stored.as_ref().err().and_then(JournalError::write_index);
        if let Some(rejected) = rejected {
            let rest: Arc<[AtomicWrite]> = writes.iter().take(rejected).cloned().collect();
            if !rest.is_empty() {
                right.append(claim, expected, rest).await?;
            }
        }
        stored
    }
}

#[derive(Debug)]
struct ConsumesNumbers;

#[async_trait]
impl WrongJournal for ConsumesNumbers {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let stored = right.append(claim, expected, writes).await;
        if stored
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Rejected)
        {
            let first = claim.highest().next();
            claim.stored(Appended { first, last: first });
        }
        stored
    }
}

#[derive(Debug)]
struct AcceptsEmptyAppends;

#[async_trait]
impl WrongJournal for AcceptsEmptyAppends {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        if writes.is_empty() {
            return Ok(Appended {
                first: expected.next(),
                last: expected,
            });
        }
        right.append(claim, expected, writes).await
    }
}

#[derive(Debug)]
struct LeavesTheIdOut;

#[async_trait]
impl WrongJournal for LeavesTheIdOut {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let stored = right.append(claim, expected, writes).await;
        stored.map_err(|error| JournalError::not_stored(error.kind(), Operation::Append, "failed"))
    }
}

#[derive(Debug)]
struct CallsTroubleRejection;

#[async_trait]
impl WrongJournal for CallsTroubleRejection {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        right
            .append(claim, expected, writes)
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::Timeout => JournalError::rejected(None, "the engine does not answer"),
                _ => error,
            })
    }
}

#[derive(Debug)]
struct MixesUpResults;

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
struct FailsAsOne;

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
struct IgnoresTheFence;

#[async_trait]
impl WrongJournal for IgnoresTheFence {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        match right.append(claim, expected, writes.clone()).await {
            Err(error) if error.kind() == ErrorKind::Fenced => append_in_spite(right, claim, writes).await,
            stored => stored,
        }
    }
}

/// As a store does in which the last write of a number wins.
#[derive(Debug)]
struct AcknowledgesFenced;

#[async_trait]
impl WrongJournal for AcknowledgesFenced {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        match right.append(claim, expected, writes).await {
            Err(error) if error.kind() == ErrorKind::Fenced => Ok(Appended {
                first: expected.next(),
                last: expected.next(),
            }),
            stored => stored,
        }
    }
}

#[derive(Debug)]
struct KeepsTheClaim;

#[async_trait]
impl WrongJournal for KeepsTheClaim {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let stored = right.append(claim, expected, writes).await;
        if stored
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::Unknown)
        {
            claim.not_stored();
        }
        stored
    }
}

#[derive(Debug)]
struct IgnoresExpected;

#[async_trait]
impl WrongJournal for IgnoresExpected {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        _expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let highest = claim.highest();
        right.append(claim, highest, writes).await
    }
}

/// Hands out claims of its own and keeps the right ones in them.
#[derive(Debug)]
struct OneEpoch;

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

    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        let appended = claim.begin(expected, &writes, &right.capabilities())?;
        let kept = claim.backend_mut::<Claim>().expect("put there by claim");
        let stored = right.append(kept, expected, writes).await.map(drop);
        claim.settle(appended, stored)
    }
}

#[derive(Debug)]
struct ShowsAnotherIncarnation;

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
struct StoresLate;

#[async_trait]
impl WrongJournal for StoresLate {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        for _ in 0..50 {
            yield_now().await;
        }
        IgnoresTheFence.append(right, claim, expected, writes).await
    }
}

#[derive(Debug)]
struct ReusesNumbers;

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
struct LosesTheHighest(Mutex<Vec<PersistenceId>>);

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
struct PurgesByDeleting;

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
struct IgnoresPurges;

#[async_trait]
impl WrongJournal for IgnoresPurges {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        match right.append(claim, expected, writes.clone()).await {
            Err(error)
                if error.kind() == ErrorKind::Fenced
                    && right.bounds(claim.id()).await?.incarnation != Some(claim.incarnation()) =>
            {
                append_in_spite(right, claim, writes).await
            }
            stored => stored,
        }
    }
}

#[derive(Debug, Default)]
struct ShowsClaims(Mutex<HashMap<PersistenceId, Bounds>>);

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
struct OtherRange(fn(ReplayRange) -> ReplayRange);

impl WrongJournal for OtherRange {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        right.replay(id, (self.0)(range))
    }
}

#[derive(Debug)]
struct Refuses(fn(ReplayRange) -> bool);

impl WrongJournal for Refuses {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if (self.0)(range) {
            let error = JournalError::not_stored(ErrorKind::Config, Operation::Replay, "an illegal range");
            return EventStream::failed(error.with_id(id));
        }
        right.replay(id, range)
    }
}

#[derive(Debug)]
struct Backwards;

impl WrongJournal for Backwards {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let backwards = records.into_iter().rev().map(|(record, _)| record).collect();
        EventStream::new(stream::iter([Ok(backwards)]))
    }
}

#[derive(Debug)]
struct ReplaysDeleted;

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

#[derive(Debug)]
struct OtherEnd(fn(EventStream) -> EventStream);

impl WrongJournal for OtherEnd {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        (self.0)(right.replay(id, range))
    }
}

/// As a store does that reads from a disk: into memory of its own, all at once.
fn collected(events: EventStream) -> EventStream {
    EventStream::new(stream::once(events.try_fold(
        Vec::new(),
        |mut all, mut record| {
            record.event.payload = Bytes::copy_from_slice(&record.event.payload);
            all.push(record);
            ready(Ok(all))
        },
    )))
}

#[derive(Debug)]
struct SkipsDamage;

impl WrongJournal for SkipsDamage {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let undamaged = records.into_iter().filter(|(_, damage)| damage.is_none());
        EventStream::new(stream::iter([Ok(undamaged.map(|(record, _)| record).collect())]))
    }
}

#[derive(Debug)]
struct EndsAtDamage;

impl WrongJournal for EndsAtDamage {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = right.replay_unchecked(id, range);
        let undamaged = records
            .into_iter()
            .take_while(|(_, damage): &(Record, Option<Damage>)| damage.is_none());
        EventStream::new(stream::iter([Ok(undamaged.map(|(record, _)| record).collect())]))
    }
}

#[derive(Debug)]
struct TakesSilenceForTheEnd;

impl WrongJournal for TakesSilenceForTheEnd {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if right.is_silent() {
            return EventStream::empty();
        }
        right.replay(id, range)
    }
}

#[derive(Debug)]
struct HangsOnSilence;

impl WrongJournal for HangsOnSilence {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        if right.is_silent() {
            return EventStream::new(stream::pending());
        }
        right.replay(id, range)
    }
}

/// Deletes nothing, but remembers how far it was asked to, and filters at reading.
#[derive(Debug)]
struct Logical {
    deleted: Mutex<HashMap<PersistenceId, SequenceNr>>,
    deletes_to: fn(Deletion, SequenceNr) -> SequenceNr,
    is_monotonic: bool,
    is_durable: bool,
}

impl Logical {
    fn deleting(deletes_to: fn(Deletion, SequenceNr) -> SequenceNr) -> Self {
        Self {
            deleted: Mutex::default(),
            deletes_to,
            is_monotonic: true,
            is_durable: true,
        }
    }

    fn moving_back() -> Self {
        Self {
            is_monotonic: false,
            ..Self::deleting(|deletion, highest| deletion.to.min(highest))
        }
    }

    fn volatile() -> Self {
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
struct OtherDeletion(fn(Deletion) -> Deletion);

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
struct DeletesWholeWrites;

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
struct DeletesInAnyLife;

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

#[derive(Debug)]
struct BeginsLate;

#[async_trait]
impl WrongJournal for BeginsLate {
    async fn append(
        &self,
        right: &SimulatedJournal,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Stored {
        yield_now().await;
        right.append(claim, expected, writes).await
    }
}

/// As a store does that decodes, and leaves out what it cannot: whatever is of another type than the first event.
#[derive(Debug)]
struct SkipsUnknown;

impl WrongJournal for SkipsUnknown {
    fn replay(&self, right: &SimulatedJournal, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let mut known = None;
        EventStream::new(right.replay(id, range).map_ok(move |record| {
            let event = &record.event;
            let this = (event.codec, event.manifest.clone(), event.schema_version);
            let is_known = *known.get_or_insert_with(|| this.clone()) == this;
            is_known.then_some(record).into_iter().collect()
        }))
    }
}
