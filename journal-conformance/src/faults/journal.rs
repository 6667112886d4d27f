//! Wrong journals.

mod append;
mod delete;
mod replay;

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, EventStream, Journal,
    JournalError, JournalInfo, PersistenceId, ReplayRange, SequenceNr, WriterId,
};

use self::{
    append::{
        AcceptsEmptyAppends, AcknowledgesFenced, AliasesIds, BeginsLate, CallsTroubleRejection,
        ConsumesNumbers, FailsAsOne, IgnoresExpected, IgnoresPurges, IgnoresShutdown, IgnoresTheFence,
        KeepsTheClaim, LeavesTheIdOut, LosesGroups, LosesTheLastAppend, MixesUpResults, OneEpoch,
        ShowsAnotherIncarnation, ShowsAppendsLate, ShowsClaims, SplitsWrites, StoresLate, StoresTheRest,
    },
    delete::{
        DeletesInAnyLife, DeletesWholeWrites, Logical, LosesTheHighest, OtherDeletion, PurgesByDeleting,
        ReplaysDeleted, ReusesNumbers,
    },
    replay::{
        Alters, Backwards, EndsAtDamage, HangsOnSilence, OtherEnd, OtherRange, Refuses, SkipsDamage,
        SkipsUnknown, TakesSilenceForTheEnd, collected,
    },
};
use crate::faults::simulated::{SimulatedJournal, SimulatedJournals};

type Stored = Result<Appended, JournalError>;

/// One append, as the wrong journal is asked for it.
pub(crate) struct Append<'a> {
    right: &'a SimulatedJournal,
    claim: &'a mut Claim,
    expected: SequenceNr,
    writes: Arc<[AtomicWrite]>,
}

impl Append<'_> {
    /// What the right journal makes of it.
    async fn stored(&mut self) -> Stored {
        let writes = self.writes.clone();
        self.right.append(self.claim, self.expected, writes).await
    }
}

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

    async fn append(&self, mut call: Append<'_>) -> Stored {
        call.stored().await
    }

    /// As the trait's default does it.
    async fn append_group(&self, right: &SimulatedJournal, parts: &mut [AppendPart]) {
        for part in parts {
            let append = Append {
                right,
                claim: &mut part.claim,
                expected: part.expected,
                writes: part.writes.clone(),
            };
            part.result = Some(self.append(append).await);
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
        let right = &self.right;
        self.wrong
            .append(Append {
                right,
                claim,
                expected,
                writes,
            })
            .await
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
