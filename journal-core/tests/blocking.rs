//! `Blocking`: what it adds to a blocking store. That it keeps the contract is the business of `memory_model.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test, and panics are what it is about"
)]

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    task::{Context, Waker},
};

use bytes::Bytes;
use futures_util::StreamExt;
use journal_core::{
    Appended, AtomicWrite, Blocking, Bounds, Capabilities, Claim, CodecId, Deletion, EncodedEvent, ErrorKind,
    Journal, JournalError, JournalInfo, Manifest, MemoryJournal, Operation, Outcome, PersistenceId, Record,
    ReplayRange, SequenceNr, SyncJournal, Timestamp, WriterId,
};

type Hook = Box<dyn FnMut(Operation) + Send>;

/// A memory journal that calls a hook before each operation, and whose chunks can be spoilt.
struct Hooked {
    memory: MemoryJournal,
    hook: Mutex<Hook>,
    spoil: fn(&mut Vec<Record>),
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.memory.fmt(f)
    }
}

impl Hooked {
    /// Calls the hook; the guard keeps other calls out until this one is done.
    fn before(&self, operation: Operation) -> MutexGuard<'_, Hook> {
        // A hook may panic: that is no reason to refuse the next call.
        let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        (*hook)(operation);
        hook
    }
}

impl SyncJournal for Hooked {
    fn info(&self) -> JournalInfo {
        SyncJournal::info(&self.memory)
    }
    fn capabilities(&self) -> Capabilities {
        SyncJournal::capabilities(&self.memory)
    }
    fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        let _alone = self.before(Operation::Claim);
        SyncJournal::claim(&self.memory, id, writer)
    }
    fn append(
        &self,
        claim: &mut Claim,
        appended: Appended,
        writes: &[AtomicWrite],
    ) -> Result<(), JournalError> {
        let _alone = self.before(Operation::Append);
        SyncJournal::append(&self.memory, claim, appended, writes)
    }
    fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        let _alone = self.before(Operation::Bounds);
        SyncJournal::bounds(&self.memory, id)
    }
    fn read_chunk(
        &self,
        id: &PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
    ) -> Result<Vec<Record>, JournalError> {
        let _alone = self.before(Operation::Replay);
        let mut records = self.memory.read_chunk(id, first, last)?;
        (self.spoil)(&mut records);
        Ok(records)
    }
    fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        let _alone = self.before(Operation::DeleteTo);
        SyncJournal::delete_to(&self.memory, id, deletion)
    }
    fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        let _alone = self.before(Operation::Purge);
        SyncJournal::purge(&self.memory, id)
    }
    fn flush(&self) -> Result<(), JournalError> {
        let _alone = self.before(Operation::Flush);
        SyncJournal::flush(&self.memory)
    }
    fn shutdown(&self) -> Result<(), JournalError> {
        let _alone = self.before(Operation::Shutdown);
        SyncJournal::shutdown(&self.memory)
    }
}

fn hooked(hook: impl FnMut(Operation) + Send + 'static) -> Blocking<Hooked> {
    spoilt(hook, |_| {})
}

fn spoilt(hook: impl FnMut(Operation) + Send + 'static, spoil: fn(&mut Vec<Record>)) -> Blocking<Hooked> {
    Blocking::new(Hooked {
        memory: MemoryJournal::new(),
        hook: Mutex::new(Box::new(hook)),
        spoil,
    })
}

/// Panics at the first call of `operation`.
fn panics_once_at(operation: Operation) -> Blocking<Hooked> {
    let mut armed = true;
    hooked(move |called| {
        if called == operation && std::mem::take(&mut armed) {
            panic!("disk on fire");
        }
    })
}

fn id() -> PersistenceId {
    PersistenceId::new("a").unwrap()
}

fn writes(count: usize) -> Arc<[AtomicWrite]> {
    let event = EncodedEvent {
        payload: Bytes::from_static(b"1"),
        codec: CodecId::JSON,
        manifest: Manifest::from_static("e"),
        schema_version: 1,
        timestamp: Timestamp(0),
        tags: Vec::new(),
        metadata: Bytes::new(),
    };
    (0..count)
        .map(|_| vec![event.clone(), event.clone()].into())
        .collect()
}

async fn written(journal: &dyn Journal, count: usize) -> Claim {
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    journal
        .append(&mut claim, SequenceNr::ZERO, writes(count))
        .await
        .unwrap();
    claim
}

async fn numbers(journal: &dyn Journal) -> Vec<u64> {
    journal
        .replay(&id(), ReplayRange::ALL)
        .map(|record| record.unwrap().sequence_nr.get())
        .collect()
        .await
}

#[tokio::test]
async fn a_panic_during_an_append_leaves_its_outcome_unknown_and_the_journal_usable() {
    let journal = panics_once_at(Operation::Append);
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    let error = journal
        .append(&mut claim, SequenceNr::ZERO, writes(1))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unavailable, Outcome::Unknown)
    );
    assert_eq!(error.persistence_id(), Some(&id()));
    assert!(error.to_string().contains("disk on fire"), "{error}");
    assert!(claim.is_spent());
    let spent = journal
        .append(&mut claim, SequenceNr::ZERO, writes(1))
        .await
        .unwrap_err();
    assert_eq!(spent.kind(), ErrorKind::Spent);
    written(&journal, 1).await;
    assert_eq!(numbers(&journal).await, [1, 2]);
}

#[tokio::test]
async fn a_panic_of_any_call_is_a_typed_error_of_that_call() {
    let deletion = |claim: &Claim| Deletion {
        to: SequenceNr::new(1),
        incarnation: claim.incarnation(),
        fresh_start: false,
    };
    for operation in [
        Operation::Claim,
        Operation::Bounds,
        Operation::Replay,
        Operation::DeleteTo,
        Operation::Purge,
        Operation::Flush,
        Operation::Shutdown,
    ] {
        let journal = panics_once_at(operation);
        let error = match operation {
            Operation::Claim => journal.claim(&id(), WriterId::random()).await.map(drop),
            Operation::Bounds => journal.bounds(&id()).await.map(drop),
            Operation::Replay => {
                written(&journal, 1).await;
                journal
                    .replay(&id(), ReplayRange::ALL)
                    .next()
                    .await
                    .unwrap()
                    .map(drop)
            }
            Operation::DeleteTo => {
                let claim = written(&journal, 1).await;
                journal.delete_to(&id(), deletion(&claim)).await.map(drop)
            }
            Operation::Purge => journal.purge(&id()).await,
            Operation::Flush => journal.flush().await,
            _ => journal.shutdown().await,
        }
        .unwrap_err();
        let outcome = match operation {
            Operation::Bounds | Operation::Replay => Outcome::NotStored,
            _ => Outcome::Unknown,
        };
        assert_eq!(
            (error.kind(), error.operation(), error.outcome()),
            (ErrorKind::Unavailable, operation, outcome)
        );
        let claim = journal.claim(&id(), WriterId::random()).await.unwrap();
        let stored = claim.highest().get();
        assert_eq!(numbers(&journal).await.len() as u64, stored, "after {error}");
    }
}

/// A store whose appends report that they began and then wait for a permit.
fn gated() -> (Blocking<Hooked>, Receiver<()>, Sender<()>) {
    let ((began, begins), (permit, permits)) = (mpsc::channel(), mpsc::channel());
    let journal = hooked(move |called| {
        if called == Operation::Append {
            began.send(()).unwrap();
            permits.recv().unwrap();
        }
    });
    (journal, begins, permit)
}

#[tokio::test]
async fn an_append_whose_future_is_dropped_is_written_whole_and_spends_the_claim() {
    let (journal, begins, permit) = gated();
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    {
        let mut append = pin!(journal.append(&mut claim, SequenceNr::ZERO, writes(3)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(append.as_mut().poll(&mut context).is_pending());
        begins.recv().unwrap();
    }
    assert!(claim.is_spent());
    permit.send(()).unwrap();
    // This store makes one call at a time, so the claim waits for the append.
    let again = journal.claim(&id(), WriterId::random()).await.unwrap();
    assert_eq!(again.highest(), SequenceNr::new(6));
    assert_eq!(numbers(&journal).await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn an_append_whose_future_is_never_polled_did_not_happen() {
    let journal = hooked(|_| {});
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    drop(journal.append(&mut claim, SequenceNr::ZERO, writes(1)));
    assert!(!claim.is_spent());
    journal
        .append(&mut claim, SequenceNr::ZERO, writes(1))
        .await
        .unwrap();
    assert_eq!(numbers(&journal).await, [1, 2]);
}

#[tokio::test]
async fn a_blocked_store_blocks_no_asynchronous_thread() {
    let (journal, begins, permit) = gated();
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    let append = journal.append(&mut claim, SequenceNr::ZERO, writes(1));
    // On one thread: were the append to block it, nothing would ever give the permit.
    let release = async {
        while begins.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        permit.send(()).unwrap();
    };
    let (appended, ()) = tokio::join!(append, release);
    assert_eq!(appended.unwrap().last, SequenceNr::new(2));
}

#[tokio::test]
async fn refusals_leave_the_claim_usable_and_never_reach_the_store() {
    let journal = hooked(|called| assert_ne!(called, Operation::Append));
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    let rejected = journal
        .append(&mut claim, SequenceNr::ZERO, [].into())
        .await
        .unwrap_err();
    assert_eq!(rejected.kind(), ErrorKind::Rejected);
    let conflict = journal
        .append(&mut claim, SequenceNr::new(4), writes(1))
        .await
        .unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert!(!claim.is_spent());
}

#[tokio::test]
async fn a_store_that_is_shut_down_gives_the_claim_back_and_a_fenced_one_does_not() {
    let journal = Blocking::new(MemoryJournal::new());
    let mut fenced = written(&journal, 1).await;
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    let two = SequenceNr::new(2);
    let error = journal.append(&mut fenced, two, writes(1)).await.unwrap_err();
    assert_eq!((error.kind(), fenced.is_spent()), (ErrorKind::Fenced, true));
    journal.shutdown().await.unwrap();
    let error = journal.append(&mut claim, two, writes(1)).await.unwrap_err();
    assert_eq!((error.kind(), claim.is_spent()), (ErrorKind::Closed, false));
}

/// The kind and number of the error that ends a replay of events 1 to 4.
async fn replay_error(journal: &dyn Journal) -> (ErrorKind, Option<u64>) {
    let mut replay = journal.replay(&id(), ReplayRange::ALL);
    loop {
        match replay.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return (error.kind(), error.sequence_nr().map(SequenceNr::get)),
            None => panic!("the replay ended silently"),
        }
    }
}

#[tokio::test]
async fn a_store_that_loses_or_repeats_events_ends_the_replay_with_an_error() {
    let nothing = spoilt(|_| {}, Vec::clear);
    written(&nothing, 2).await;
    assert_eq!(replay_error(&nothing).await, (ErrorKind::Corrupt, Some(1)));
    let hole = spoilt(|_| {}, |records| drop(records.remove(1)));
    written(&hole, 2).await;
    assert_eq!(replay_error(&hole).await, (ErrorKind::Corrupt, Some(2)));
    let repeats = spoilt(|_| {}, |records| records.extend_from_within(..));
    written(&repeats, 2).await;
    assert_eq!(replay_error(&repeats).await, (ErrorKind::Corrupt, Some(5)));
}

/// Runs `interfere` on the store after its first chunk was read, before the bounds are checked.
async fn interfered(interfere: fn(&MemoryJournal, Bounds)) -> (ErrorKind, Option<u64>) {
    let memory = MemoryJournal::new();
    let (other, mut chunks) = (memory.clone(), 0);
    let journal = Blocking::new(Hooked {
        memory,
        hook: Mutex::new(Box::new(move |called| {
            if called == Operation::Replay {
                chunks += 1;
            } else if called == Operation::Bounds && chunks == 1 {
                chunks += 1;
                interfere(&other, SyncJournal::bounds(&other, &id()).unwrap());
            }
        })),
        spoil: |_| {},
    });
    written(&journal, 2).await;
    replay_error(&journal).await
}

#[tokio::test]
async fn a_replay_overtaken_by_a_deletion_or_a_purge_ends_with_an_error() {
    let deleted = interfered(|store, bounds| {
        let deletion = Deletion {
            to: SequenceNr::new(1),
            incarnation: bounds.incarnation.unwrap(),
            fresh_start: false,
        };
        SyncJournal::delete_to(store, &id(), deletion).unwrap();
    });
    assert_eq!(deleted.await, (ErrorKind::Unavailable, Some(1)));
    let purged = interfered(|store, _| SyncJournal::purge(store, &id()).unwrap());
    assert_eq!(purged.await, (ErrorKind::WrongIncarnation, Some(1)));
}
