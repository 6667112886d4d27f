//! A journal that fails, delays or holds back the calls that a test names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::fault::{self, Action, Failure, Fault, Wait};
use crate::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, ErrorKind, EventStream,
    Journal, JournalError, JournalInfo, Operation, PersistenceId, ReplayRange, SequenceNr, WriterId,
};

/// A journal whose next calls a test decides, around any other: what is stored is really stored there.
#[derive(Debug)]
pub struct FaultyJournal {
    inner: Arc<dyn Journal>,
    faults: Arc<Mutex<Vec<Fault>>>,
    calls: Mutex<Vec<Call>>,
}

/// One call that came to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// What was asked for.
    pub operation: Operation,
    /// Of whom; `None` for a flush and the shutdown.
    pub id: Option<PersistenceId>,
    /// The atomic writes of an append; 0 for the rest.
    pub writes: usize,
    /// When it came; an append: when it was let through.
    pub at: Instant,
}

impl FaultyJournal {
    /// As `inner` until told otherwise.
    pub fn new(inner: impl Journal) -> Self {
        Self::shared(Arc::new(inner))
    }

    /// As [`new`](Self::new), around a journal that others use too.
    pub fn shared(inner: Arc<dyn Journal>) -> Self {
        Self {
            inner,
            faults: Arc::default(),
            calls: Mutex::default(),
        }
    }

    /// The journal behind it, for another writer or to look at what is stored.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Journal> {
        &self.inner
    }

    /// What happens to the next call that meets it, behind the faults that are there.
    pub fn next(&self, fault: Fault) {
        if fault.times != Some(0) {
            locked(&self.faults).push(fault);
        }
    }

    /// Forgets a [lasting](Fault::always) fault, given as it was given before.
    pub fn withdraw(&self, fault: &Fault) {
        locked(&self.faults).retain(|next| next != fault);
    }

    /// Forgets the faults that are left; calls that a gate holds stay held.
    pub fn heal(&self) {
        locked(&self.faults).clear();
    }

    /// How many calls are still to meet a fault; those that last for ever count as one.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        locked(&self.faults)
            .iter()
            .map(|fault| fault.times.unwrap_or(1))
            .sum()
    }

    /// The calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }

    fn called(&self, operation: Operation, id: Option<&PersistenceId>, writes: usize) {
        locked(&self.calls).push(Call {
            operation,
            id: id.cloned(),
            writes,
            at: Instant::now(),
        });
    }

    /// Of everything but appends.
    async fn strike(&self, operation: Operation, id: Option<&PersistenceId>) -> Result<(), JournalError> {
        self.called(operation, id, 0);
        strike(&self.faults, operation, id).await
    }

    async fn pass(&self, id: &PersistenceId, writes: &[AtomicWrite]) -> Option<Failure> {
        wait(&self.faults, Operation::Append, Some(id)).await;
        self.called(Operation::Append, Some(id), writes.len());
        failure(&self.faults, Operation::Append, Some(id))
    }

    async fn meet(
        &self,
        failure: Option<Failure>,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        match failure {
            None => self.inner.append(claim, expected, writes).await,
            Some(Failure::StoredButUnknown) => {
                self.inner.append(claim, expected, writes).await?;
                claim.spend();
                Err(lost())
            }
            Some(Failure::LostButUnknown) => {
                claim.spend();
                Err(lost())
            }
            Some(Failure::NotStored(kind)) => {
                if kind == ErrorKind::Fenced {
                    claim.spend();
                }
                Err(refused(kind, Operation::Append))
            }
            Some(Failure::Rejected(index)) => Err(JournalError::rejected(index, "the test rejected it")),
        }
    }
}

async fn strike(
    faults: &Mutex<Vec<Fault>>,
    operation: Operation,
    id: Option<&PersistenceId>,
) -> Result<(), JournalError> {
    wait(faults, operation, id).await;
    match failure(faults, operation, id) {
        Some(Failure::NotStored(kind)) => Err(refused(kind, operation)),
        // The others are of appends only.
        _ => Ok(()),
    }
}

async fn wait(faults: &Mutex<Vec<Fault>>, operation: Operation, id: Option<&PersistenceId>) {
    let wait = fault::take(&mut locked(faults), operation, id, |action| match action {
        Action::Wait(wait) => Some(wait.clone()),
        Action::Fail(_) => None,
    });
    match wait {
        Some(Wait::Delay(by)) => sleep(by).await,
        Some(Wait::Gate(gate)) => gate.pass().await,
        None => {}
    }
}

fn failure(faults: &Mutex<Vec<Fault>>, operation: Operation, id: Option<&PersistenceId>) -> Option<Failure> {
    fault::take(&mut locked(faults), operation, id, |action| match action {
        Action::Fail(failure) => Some(*failure),
        Action::Wait(_) => None,
    })
}

fn refused(kind: ErrorKind, operation: Operation) -> JournalError {
    JournalError::not_stored(kind, operation, "the test refused it")
}

fn lost() -> JournalError {
    JournalError::unknown(ErrorKind::Timeout, Operation::Append, "the test lost the answer")
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Journal for FaultyJournal {
    fn info(&self) -> JournalInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.strike(Operation::Claim, Some(id)).await?;
        self.inner.claim(id, writer).await
    }

    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let failure = self.pass(claim.id(), &writes).await;
        self.meet(failure, claim, expected, writes).await
    }

    async fn append_group(&self, parts: &mut [AppendPart]) {
        let failures = join_all(parts.iter().map(|part| self.pass(part.claim.id(), &part.writes))).await;
        if failures.iter().all(Option::is_none) {
            return self.inner.append_group(parts).await;
        }
        for (part, failure) in parts.iter_mut().zip(failures) {
            let writes = part.writes.clone();
            part.result = Some(self.meet(failure, &mut part.claim, part.expected, writes).await);
        }
    }

    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.strike(Operation::Bounds, Some(id)).await?;
        self.inner.bounds(id).await
    }

    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.called(Operation::Replay, Some(id), 0);
        let (inner, faults, id) = (self.inner.clone(), self.faults.clone(), id.clone());
        EventStream::opened(async move {
            strike(&faults, Operation::Replay, Some(&id)).await?;
            Ok(inner.replay(&id, range))
        })
    }

    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.strike(Operation::DeleteTo, Some(id)).await?;
        self.inner.delete_to(id, deletion).await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.strike(Operation::Purge, Some(id)).await?;
        self.inner.purge(id).await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.strike(Operation::Flush, None).await?;
        self.inner.flush().await
    }

    async fn shutdown(&self) -> Result<(), JournalError> {
        self.strike(Operation::Shutdown, None).await?;
        self.inner.shutdown().await
    }
}
