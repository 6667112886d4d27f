//! Journals on blocking stores.

use std::{
    any::Any,
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use async_trait::async_trait;

use crate::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, ErrorKind, EventStream, GapPolicy, Journal,
    JournalError, JournalInfo, Operation, PersistenceId, Record, ReplayRange, SequenceNr, WriterId,
};

/// The blocking variant of [`Journal`], for stores without an asynchronous interface. [`Blocking`] runs it as a
/// [`Journal`]. The obligations are those of the methods of the same name; calls come from many threads at once.
pub trait SyncJournal: Send + Sync + Debug + 'static {
    /// See [`Journal::info`].
    fn info(&self) -> JournalInfo;
    /// See [`Journal::capabilities`]. There is no group commit to declare, and gaps are always refused.
    fn capabilities(&self) -> Capabilities;
    /// See [`Journal::claim`].
    fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError>;
    /// See [`Journal::append`]. The caller has made the checks of [`Claim::begin`], which numbered the events
    /// `appended`, and [settles](Claim::settle) the claim by the result.
    fn append(
        &self,
        claim: &mut Claim,
        appended: Appended,
        writes: &[AtomicWrite],
    ) -> Result<(), JournalError>;
    /// See [`Journal::bounds`]. A deletion shows here before it takes the first event away.
    fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError>;
    /// Reads a chunk of the events `first` to `last`, which lay within the bounds when the replay began: from `first`
    /// on, as many as fit a bounded buffer, at least one. The caller finds out what was deleted meanwhile.
    fn read_chunk(
        &self,
        id: &PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
    ) -> Result<Vec<Record>, JournalError>;
    /// See [`Journal::delete_to`].
    fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError>;
    /// See [`Journal::purge`].
    fn purge(&self, id: &PersistenceId) -> Result<(), JournalError>;
    /// See [`Journal::flush`].
    fn flush(&self) -> Result<(), JournalError>;
    /// See [`Journal::shutdown`].
    fn shutdown(&self) -> Result<(), JournalError>;
}

/// Runs a [`SyncJournal`] as a [`Journal`]: each call on a thread of the `blocking` pool, whatever the runtime.
///
/// A panic of the store fails the call it happened in, as [`ErrorKind::Unavailable`] (of unknown
/// [outcome](crate::Outcome) where the call writes), and no later one.
#[derive(Debug)]
pub struct Blocking<J> {
    store: Arc<J>,
    capabilities: Capabilities,
}

impl<J: SyncJournal> Blocking<J> {
    /// Runs `store`.
    pub fn new(store: J) -> Self {
        let capabilities = Capabilities {
            group_commit: false,
            gaps: GapPolicy::Refuse,
            ..store.capabilities()
        };
        Self {
            store: Arc::new(store),
            capabilities,
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &J {
        &self.store
    }

    /// A task of the pool that is dropped before it starts never runs; one that runs goes on to its end. So a caller
    /// that drops this future tears no write.
    async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        call: impl FnOnce(&J) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let store = self.store.clone();
        blocking::unblock(move || catch_unwind(AssertUnwindSafe(|| call(&store))))
            .await
            .unwrap_or_else(|panic| Err(panicked(operation, &*panic)))
    }

    async fn run_for<T: Send + 'static>(
        &self,
        operation: Operation,
        id: &PersistenceId,
        call: impl FnOnce(&J, &PersistenceId) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let called = id.clone();
        self.run(operation, move |store| call(store, &called))
            .await
            .map_err(|error| error.with_id(id))
    }
}

fn panicked(operation: Operation, panic: &(dyn Any + Send)) -> JournalError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let message = format!("the store panicked: {text}; report it to the store's author");
    match operation {
        Operation::Bounds | Operation::Replay => {
            JournalError::not_stored(ErrorKind::Unavailable, operation, message)
        }
        _ => JournalError::unknown(ErrorKind::Unavailable, operation, message),
    }
}

impl<J> Clone for Blocking<J> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            capabilities: self.capabilities,
        }
    }
}

#[async_trait]
impl<J: SyncJournal> Journal for Blocking<J> {
    fn info(&self) -> JournalInfo {
        self.store.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.run_for(Operation::Claim, id, move |store, id| store.claim(id, writer))
            .await
    }

    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let appended = claim.begin(expected, &writes, &self.capabilities)?;
        let mut taken = claim.take();
        let (taken, result) = self
            .run_for(Operation::Append, &taken.id().clone(), move |store, _| {
                let result = store.append(&mut taken, appended, &writes);
                Ok((taken, result))
            })
            .await?;
        *claim = taken;
        claim.settle(appended, result)
    }

    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.run_for(Operation::Bounds, id, J::bounds).await
    }

    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let (journal, id) = (self.clone(), id.clone());
        EventStream::opened(async move {
            let started = journal.run_for(Operation::Replay, &id, J::bounds).await?;
            let Some((first, last)) = range.within(&started) else {
                return Ok(EventStream::empty());
            };
            let replayed = id.clone();
            Ok(EventStream::in_chunks(id, first, last, move |next| {
                let (journal, id) = (journal.clone(), replayed.clone());
                async move {
                    journal
                        .run_for(Operation::Replay, &id, move |store, id| {
                            // The bounds after the events: what they still hold then, they held while it was read.
                            let chunk = store.read_chunk(id, next, last);
                            started.check_replay(&store.bounds(id)?, id, next)?;
                            chunk
                        })
                        .await
                }
            }))
        })
    }

    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.run_for(Operation::DeleteTo, id, move |store, id| {
            store.delete_to(id, deletion)
        })
        .await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.run_for(Operation::Purge, id, J::purge).await
    }

    async fn flush(&self) -> Result<(), JournalError> {
        self.run(Operation::Flush, J::flush).await
    }

    async fn shutdown(&self) -> Result<(), JournalError> {
        self.run(Operation::Shutdown, J::shutdown).await
    }
}
