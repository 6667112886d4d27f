//! A journal under a test's control: the faults of [`journal_core::testing`], gates that hold calls and
//! acknowledgements back, and a record of what came. It wraps any backend, so that what is stored is really stored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, ErrorKind, EventStream,
    Journal, JournalError, JournalInfo, Operation, PersistenceId, ReplayRange, SequenceNr, WriterId,
    testing::{Call, Fault, FaultyJournal, Gate},
};

/// What happens to one append instead of being stored and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It fails with this kind, certainly not stored.
    NotStored(ErrorKind),
    /// It is stored, but the answer is lost.
    StoredButUnknown,
    /// It is not stored, and the answer is lost.
    LostButUnknown,
    /// The journal rejects the atomic write of this index, and with it the append.
    Rejected(usize),
}

impl From<Fate> for Fault {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::NotStored(kind) => Self::not_stored(Operation::Append, kind),
            Fate::StoredButUnknown => Self::stored_but_unknown(),
            Fate::LostButUnknown => Self::lost_but_unknown(),
            Fate::Rejected(index) => Self::rejected(index),
        }
    }
}

/// A journal whose appends and claims the test decides.
#[derive(Debug)]
pub struct ControlledJournal {
    faulty: FaultyJournal,
    /// Each append passes it, before its fate is decided.
    pub appends: Gate,
    /// Each append that is stored passes it, before it is acknowledged.
    pub acknowledgements: Gate,
    /// Each claim passes it.
    pub claims: Gate,
    /// Whose events are durable up to where, as far as anyone was told.
    durable: Mutex<HashMap<PersistenceId, SequenceNr>>,
    /// What was read.
    replays: Mutex<Vec<ReplayRange>>,
}

impl ControlledJournal {
    /// As `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Journal>) -> Self {
        let controlled = Self {
            faulty: FaultyJournal::shared(inner),
            appends: Gate::opened(),
            acknowledgements: Gate::opened(),
            claims: Gate::opened(),
            durable: Mutex::default(),
            replays: Mutex::default(),
        };
        controlled.put_gates();
        controlled
    }

    fn put_gates(&self) {
        for (operation, gate) in [
            (Operation::Append, &self.appends),
            (Operation::Claim, &self.claims),
        ] {
            self.faulty.next(Fault::held(operation, gate).always());
        }
    }

    /// The journal behind it, for another writer.
    pub fn inner(&self) -> &dyn Journal {
        &**self.faulty.inner()
    }

    /// The journal behind it, to be put under the control of another.
    pub fn shared(&self) -> Arc<dyn Journal> {
        self.faulty.inner().clone()
    }

    /// What happens to the next append that has no fate yet.
    pub fn fate(&self, fate: Fate) {
        self.faulty.next(fate.into());
    }

    /// While it is down, claims fail, and appends that have no fate.
    pub fn set_down(&self, down: bool) {
        for operation in [Operation::Claim, Operation::Append] {
            let fault = Fault::not_stored(operation, ErrorKind::Unavailable).always();
            self.faulty.withdraw(&fault);
            if down {
                self.faulty.next(fault);
            }
        }
    }

    /// The next `deletions` fail.
    pub fn fail_deletions(&self, deletions: usize) {
        let fault = Fault::not_stored(Operation::DeleteTo, ErrorKind::Unavailable);
        self.faulty.next(fault.times(deletions));
    }

    /// Nothing is held back any more, and nothing fails.
    pub fn calm(&self) {
        self.faulty.heal();
        self.put_gates();
        for gate in [&self.appends, &self.acknowledgements, &self.claims] {
            gate.open();
        }
    }

    /// The newest event of `id` that was acknowledged, or that a claim has found: nothing beyond it may be seen.
    pub fn durable(&self, id: &PersistenceId) -> SequenceNr {
        locked(&self.durable).get(id).copied().unwrap_or(SequenceNr::ZERO)
    }

    fn is_durable(&self, id: &PersistenceId, up_to: SequenceNr) {
        let mut durable = locked(&self.durable);
        let newest = durable.entry(id.clone()).or_insert(up_to);
        *newest = up_to.max(*newest);
    }

    /// The ranges that were replayed so far.
    pub fn replays(&self) -> Vec<ReplayRange> {
        locked(&self.replays).clone()
    }

    fn calls_of(&self, operation: Operation) -> impl Iterator<Item = Call> {
        let calls = self.faulty.calls().into_iter();
        calls.filter(move |call| call.operation == operation)
    }

    /// How many claims were asked for.
    pub fn claims_made(&self) -> usize {
        self.calls_of(Operation::Claim).count()
    }

    /// The times between them.
    pub fn claim_waits(&self) -> Vec<Duration> {
        let claimed: Vec<_> = self.calls_of(Operation::Claim).map(|call| call.at).collect();
        let pairs = claimed.iter().zip(claimed.iter().skip(1));
        pairs.map(|(former, next)| *next - *former).collect()
    }

    /// How many atomic writes each append had that passed the gate.
    pub fn sizes(&self) -> Vec<usize> {
        self.calls_of(Operation::Append).map(|call| call.writes).collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Journal for ControlledJournal {
    fn info(&self) -> JournalInfo {
        self.faulty.info()
    }
    fn capabilities(&self) -> Capabilities {
        self.faulty.capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        let claim = self.faulty.claim(id, writer).await?;
        self.is_durable(id, claim.highest());
        Ok(claim)
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let appended = self.faulty.append(claim, expected, writes).await?;
        self.acknowledgements.pass().await;
        self.is_durable(claim.id(), appended.last);
        Ok(appended)
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        self.faulty.append_group(parts).await;
        let stored = |part: &AppendPart| matches!(part.result, Some(Ok(_)));
        if parts.iter().any(stored) {
            self.acknowledgements.pass().await;
        }
        for part in parts {
            if let Some(Ok(appended)) = &part.result {
                self.is_durable(part.claim.id(), appended.last);
            }
        }
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.faulty.bounds(id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        locked(&self.replays).push(range);
        self.faulty.replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.faulty.delete_to(id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.faulty.purge(id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.faulty.flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        self.faulty.shutdown().await
    }
}
