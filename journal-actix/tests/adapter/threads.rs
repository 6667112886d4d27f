//! Which thread does what.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

use actix::prelude::*;
use async_trait::async_trait;
use journal_actix::SpawnPersistent;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Deletion, EventStream, Journal,
    JournalError, JournalInfo, Loaded, MemoryJournal, Persistence, PersistenceId, ReplayRange,
    SelectionCriteria, SequenceNr, Signal, Snapshot, SnapshotError, SnapshotMetadata, SnapshotStore,
    WriterId,
};
use snapshot_store::MemorySnapshotStore;

use crate::common::*;

type Calls = Arc<Mutex<BTreeMap<&'static str, HashSet<ThreadId>>>>;

/// A store that writes down which threads call it.
#[derive(Debug)]
struct Watched<S> {
    inner: S,
    calls: Calls,
}

impl<S> Watched<S> {
    fn called(&self, call: &'static str) -> &S {
        let mut calls = self.calls.lock().unwrap();
        calls.entry(call).or_default().insert(thread::current().id());
        &self.inner
    }
}

#[async_trait]
impl Journal for Watched<MemoryJournal> {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Journal::capabilities(&self.inner)
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        Journal::claim(self.called("claim"), id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        Journal::append(self.called("append"), claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        Journal::append_group(self.called("append"), parts).await;
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Journal::bounds(self.called("bounds"), id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        Journal::replay(self.called("replay"), id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        Journal::delete_to(self.called("delete_to"), id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        Journal::purge(&self.inner, id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        Journal::flush(&self.inner).await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.inner).await
    }
}

#[async_trait]
impl SnapshotStore for Watched<MemorySnapshotStore> {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        SnapshotStore::save(self.called("save"), snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        SnapshotStore::load(self.called("load"), id, criteria).await
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        SnapshotStore::list(self.called("list"), id, criteria).await
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        SnapshotStore::delete(self.called("delete"), snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        SnapshotStore::delete_matching(self.called("delete"), id, criteria).await
    }
}

/// On a persistence that is built on the arbiter's own runtime.
#[actix::test]
async fn journal_and_snapshot_store_are_never_called_on_the_arbiter() {
    let calls = Calls::default();
    let persistence = Persistence::builder(Watched {
        inner: MemoryJournal::new(),
        calls: calls.clone(),
    })
    .snapshots(Watched {
        inner: MemorySnapshotStore::new(),
        calls: calls.clone(),
    })
    .build()
    .unwrap();
    for _ in 0..3 {
        let (account, mut hears) = account(&persistence);
        let account = account.with(|options| options.snapshot_every(2).keep(1).delete_events());
        let account = account.spawn().await.unwrap();
        for _ in 0..5 {
            account.ask(Deposit(1)).await.unwrap().unwrap();
        }
        hears
            .signal(|signal| matches!(signal, Signal::EventsDeleted(_)).then_some(()))
            .await;
        // A recovery in place.
        account
            .ask(PanicInHandle("on purpose"))
            .await
            .unwrap()
            .unwrap_err();
        account.ask(Deposit(1)).await.unwrap().unwrap();
        account.stop().await;
    }
    let calls = calls.lock().unwrap();
    for call in ["claim", "append", "replay", "delete_to", "save", "load"] {
        assert!(calls.contains_key(call), "{call} was never called: {calls:?}");
    }
    for (call, threads) in &*calls {
        assert!(
            !threads.contains(&thread::current().id()),
            "{call} on the arbiter"
        );
    }
}

#[actix::test]
async fn actors_live_on_several_arbiters_and_are_asked_from_anywhere() {
    let store = Store::open();
    let arbiters: Vec<_> = (0..3).map(|_| Arbiter::new()).collect();
    let accounts: Vec<_> = (0..24)
        .map(|number: usize| {
            let persistence = store.persistence.clone();
            Account::start_in_arbiter(&arbiters[number % 3].handle(), move |_| {
                let (mut account, mut hears) = account(&persistence);
                // The account tells nobody.
                hears.0.close();
                account.id = format!("account|{number}");
                account
            })
        })
        .collect();
    let asks = accounts.iter().cloned().map(|account| {
        actix::spawn(async move {
            for balance in 1..=20 {
                assert_eq!(account.send(Deposit(1)).await.unwrap().unwrap(), balance);
            }
            let (sent, thread) = tokio::sync::oneshot::channel();
            account.do_send(act(|_, _| sent.send(thread::current().id()).unwrap()));
            thread.await.unwrap()
        })
    });
    let mut threads = HashSet::new();
    for ask in asks.collect::<Vec<_>>() {
        threads.insert(within(ask).await.unwrap());
    }
    assert_eq!(threads.len(), 3);
    assert!(!threads.contains(&thread::current().id()));
}

#[actix::test]
async fn a_supervised_account_lives_on_another_arbiter() {
    let store = Store::open();
    let arbiter = Arbiter::new();
    let persistence = store.persistence.clone();
    let account = Supervisor::start_in_arbiter(&arbiter.handle(), move |_| account(&persistence).0);
    for balance in [1, 2] {
        assert_eq!(account.send(Deposit(1)).await.unwrap().unwrap(), balance);
        account.send(act(|_, context| context.stop())).await.unwrap();
    }
    assert_eq!(account.send(Read).await.unwrap().unwrap(), 2);
}
