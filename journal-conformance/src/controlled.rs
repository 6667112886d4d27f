//! A journal and a snapshot store under a test's control: gates that hold calls back, faults for the next calls, and a
//! record of what came. They wrap any backend, so that what is stored is really stored.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, ErrorKind, EventStream,
    Journal, JournalError, JournalInfo, Loaded, Operation, PersistenceId, ReplayRange, SelectionCriteria,
    SequenceNr, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore, WriterId,
};
use tokio::sync::Semaphore;

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

/// Holds calls back while it is closed; open at first.
#[derive(Debug)]
pub struct Gate {
    permits: Semaphore,
    /// One for each call that came and was not yet asked for.
    arrivals: Semaphore,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// More calls than a test makes.
const OPEN: usize = Semaphore::MAX_PERMITS / 2;

impl Gate {
    fn new() -> Self {
        Self {
            permits: Semaphore::new(OPEN),
            arrivals: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        }
    }

    /// Calls from now on wait; [`arrival`](Gate::arrival) counts from here.
    pub fn close(&self) {
        self.permits.forget_permits(Semaphore::MAX_PERMITS);
        self.arrivals.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Whoever waits goes on, and nobody waits any more.
    pub fn open(&self) {
        self.permits
            .add_permits(OPEN.saturating_sub(self.permits.available_permits()));
    }

    /// This many calls go on, present ones first.
    pub fn let_through(&self, calls: usize) {
        self.permits.add_permits(calls);
    }

    /// Returns when one more call has come since the gate was closed.
    pub async fn arrival(&self) {
        take(&self.arrivals).await;
    }

    /// The most calls that waited at the same time.
    pub fn most_waiting(&self) -> usize {
        self.most_waiting.load(Ordering::SeqCst)
    }

    async fn pass(&self) {
        /// Counts down also where the call is dropped.
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        let _waiting = Waiting(&self.waiting);
        self.most_waiting.fetch_max(waiting, Ordering::SeqCst);
        self.arrivals.add_permits(1);
        take(&self.permits).await;
    }
}

async fn take(permits: &Semaphore) {
    permits
        .acquire()
        .await
        .expect("the semaphore is never closed")
        .forget();
}

/// A journal whose appends and claims the test decides.
#[derive(Debug)]
pub struct ControlledJournal {
    inner: Arc<dyn Journal>,
    /// Each append passes it, before its fate is decided.
    pub appends: Gate,
    /// Each append that is stored passes it, before it is acknowledged.
    pub acknowledgements: Gate,
    /// Each claim passes it.
    pub claims: Gate,
    down: AtomicBool,
    fates: Mutex<VecDeque<Fate>>,
    failing_deletions: AtomicUsize,
    /// When each claim was asked for.
    claimed: Mutex<Vec<Instant>>,
    /// The atomic writes of each append.
    sizes: Mutex<Vec<usize>>,
    /// Whose events are durable up to where, as far as anyone was told.
    durable: Mutex<HashMap<PersistenceId, SequenceNr>>,
    /// What was read.
    replays: Mutex<Vec<ReplayRange>>,
}

impl ControlledJournal {
    /// As `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Journal>) -> Self {
        Self {
            inner,
            appends: Gate::new(),
            acknowledgements: Gate::new(),
            claims: Gate::new(),
            down: AtomicBool::new(false),
            fates: Mutex::default(),
            failing_deletions: AtomicUsize::new(0),
            claimed: Mutex::default(),
            sizes: Mutex::default(),
            durable: Mutex::default(),
            replays: Mutex::default(),
        }
    }

    /// The journal behind it, for another writer.
    pub fn inner(&self) -> &dyn Journal {
        &*self.inner
    }

    /// The journal behind it, to be put under the control of another.
    pub fn shared(&self) -> Arc<dyn Journal> {
        self.inner.clone()
    }

    /// What happens to the next append that has no fate yet.
    pub fn fate(&self, fate: Fate) {
        locked(&self.fates).push_back(fate);
    }

    /// While it is down, claims fail, and appends that have no fate.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The next `deletions` fail.
    pub fn fail_deletions(&self, deletions: usize) {
        self.failing_deletions.store(deletions, Ordering::SeqCst);
    }

    /// Nothing is held back any more, and nothing fails.
    pub fn calm(&self) {
        locked(&self.fates).clear();
        self.fail_deletions(0);
        self.set_down(false);
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

    /// How many claims were asked for.
    pub fn claims_made(&self) -> usize {
        locked(&self.claimed).len()
    }

    /// The times between them.
    pub fn claim_waits(&self) -> Vec<Duration> {
        let claimed = locked(&self.claimed);
        let pairs = claimed.iter().zip(claimed.iter().skip(1));
        pairs.map(|(former, next)| *next - *former).collect()
    }

    /// How many atomic writes each append had that passed the gate.
    pub fn sizes(&self) -> Vec<usize> {
        locked(&self.sizes).clone()
    }

    async fn pass(&self, writes: &[AtomicWrite]) -> Option<Fate> {
        self.appends.pass().await;
        locked(&self.sizes).push(writes.len());
        locked(&self.fates).pop_front()
    }

    async fn meet(
        &self,
        fate: Option<Fate>,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let lost = JournalError::unknown(ErrorKind::Timeout, Operation::Append, "the test lost the answer");
        match fate {
            None if self.down.load(Ordering::SeqCst) => Err(down(Operation::Append)),
            None => {
                let appended = self.inner.append(claim, expected, writes).await?;
                self.acknowledgements.pass().await;
                self.is_durable(claim.id(), appended.last);
                Ok(appended)
            }
            Some(Fate::NotStored(kind)) => Err(JournalError::not_stored(
                kind,
                Operation::Append,
                "the test refused it",
            )),
            Some(Fate::StoredButUnknown) => {
                self.inner.append(claim, expected, writes).await?;
                claim.spend();
                Err(lost)
            }
            Some(Fate::LostButUnknown) => {
                claim.spend();
                Err(lost)
            }
            Some(Fate::Rejected(index)) => Err(JournalError::rejected(Some(index), "the test rejected it")),
        }
    }
}

fn down(operation: Operation) -> JournalError {
    JournalError::not_stored(
        ErrorKind::Unavailable,
        operation,
        "the test took the journal down",
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Journal for ControlledJournal {
    fn info(&self) -> JournalInfo {
        self.inner.info()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        locked(&self.claimed).push(Instant::now());
        self.claims.pass().await;
        if self.down.load(Ordering::SeqCst) {
            return Err(down(Operation::Claim));
        }
        let claim = self.inner.claim(id, writer).await?;
        self.is_durable(id, claim.highest());
        Ok(claim)
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let fate = self.pass(&writes).await;
        self.meet(fate, claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        let fates = join_all(parts.iter().map(|part| self.pass(&part.writes))).await;
        if fates.iter().all(Option::is_none) && !self.down.load(Ordering::SeqCst) {
            self.inner.append_group(parts).await;
            self.acknowledgements.pass().await;
            for part in parts {
                if let Some(Ok(appended)) = &part.result {
                    self.is_durable(part.claim.id(), appended.last);
                }
            }
            return;
        }
        for (part, fate) in parts.iter_mut().zip(fates) {
            let writes = part.writes.clone();
            part.result = Some(self.meet(fate, &mut part.claim, part.expected, writes).await);
        }
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.inner.bounds(id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        locked(&self.replays).push(range);
        self.inner.replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        let one_less = |failing: usize| failing.checked_sub(1);
        if self
            .failing_deletions
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .is_ok()
        {
            return Err(down(Operation::DeleteTo));
        }
        self.inner.delete_to(id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.inner.purge(id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.inner.flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        self.inner.shutdown().await
    }
}

/// What happens to one call of a snapshot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotTrouble {
    /// A save fails; nothing is saved.
    SaveFails,
    /// A deletion fails; nothing is deleted.
    DeleteFails,
    /// A load fails.
    LoadFails,
    /// A load gives the newest with a payload that is not what was saved.
    LoadIsGarbled,
}

/// A snapshot store whose answers the test decides.
#[derive(Debug)]
pub struct ControlledSnapshots {
    inner: Arc<dyn SnapshotStore>,
    troubles: Mutex<Vec<SnapshotTrouble>>,
}

impl ControlledSnapshots {
    /// As `inner` until told otherwise.
    pub fn new(inner: Arc<dyn SnapshotStore>) -> Self {
        Self {
            inner,
            troubles: Mutex::default(),
        }
    }

    /// The store behind it, to be put under the control of another.
    pub fn shared(&self) -> Arc<dyn SnapshotStore> {
        self.inner.clone()
    }

    /// What happens to the next call that this can happen to.
    pub fn trouble(&self, trouble: SnapshotTrouble) {
        locked(&self.troubles).push(trouble);
    }

    fn strikes(&self, trouble: SnapshotTrouble) -> bool {
        let mut troubles = locked(&self.troubles);
        let found = troubles.iter().position(|next| *next == trouble);
        found.map(|at| troubles.remove(at)).is_some()
    }
}

#[async_trait]
impl SnapshotStore for ControlledSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        if self.strikes(SnapshotTrouble::SaveFails) {
            return Err(SnapshotError::new("save", "the test refused it"));
        }
        self.inner.save(snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        if self.strikes(SnapshotTrouble::LoadFails) {
            return Err(SnapshotError::new("load", "the test refused it"));
        }
        let mut loaded = self.inner.load(id, criteria).await?;
        if let Some(snapshot) = &mut loaded.snapshot
            && self.strikes(SnapshotTrouble::LoadIsGarbled)
        {
            snapshot.payload = Bytes::from_static(b"garbled");
        }
        Ok(loaded)
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.inner.list(id, criteria).await
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.inner.delete(snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        if self.strikes(SnapshotTrouble::DeleteFails) {
            return Err(SnapshotError::new("delete", "the test refused it"));
        }
        self.inner.delete_matching(id, criteria).await
    }
}
