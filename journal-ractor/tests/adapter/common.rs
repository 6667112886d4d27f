//! An account that tells the test what happens, on a journal that the test controls.

use std::sync::Arc;

pub(crate) use journal_conformance::controlled::{ControlledJournal, Fate};
use journal_core::{
    Command, Effect, Effects, Event, EventSourced, Handles, MemoryJournal, PersistError, Persistence,
    Persistent, Signal, WriterId, persistent,
};
use journal_ractor::{AskError, PersistentRef, ractor};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};

/// On a memory journal.
pub(crate) fn journal() -> Arc<ControlledJournal> {
    Arc::new(ControlledJournal::new(Arc::new(MemoryJournal::new())))
}

/// On the test's own runtime, so that a paused clock sees all that goes on.
pub(crate) fn persistence(journal: &Arc<ControlledJournal>) -> Persistence {
    let builder = Persistence::builder(journal.clone()).runtime(Handle::current());
    builder.build().unwrap()
}

/// Takes the id of the accounts over.
pub(crate) async fn another_writer(journal: &ControlledJournal) {
    let id = "a".parse().unwrap();
    drop(journal.inner().claim(&id, WriterId::random()).await.unwrap());
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum AccountEvent {
    Deposited(i64),
}

impl Event for AccountEvent {
    const MANIFEST: &'static str = "account-event";
    const VERSION: u32 = 1;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Balance {
    pub(crate) cents: i64,
}

#[derive(Debug)]
pub(crate) struct Account(mpsc::UnboundedSender<Signal>);

impl EventSourced for Account {
    type Event = AccountEvent;
    type State = Balance;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Balance, AccountEvent::Deposited(cents): &AccountEvent) {
        state.cents += cents;
    }

    fn signal(&self, signal: &Signal) {
        drop(self.0.send(signal.clone()));
    }
}

pub(crate) type Reply = Result<i64, PersistError>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Deposit(pub(crate) i64);

impl Command for Deposit {
    type Reply = Reply;
}

impl Handles<Deposit> for Account {
    fn handle(&self, _: &Balance, Deposit(cents): Deposit) -> Effect<Self, Reply> {
        self.persist(AccountEvent::Deposited(cents))
            .then_reply(|state| Ok(state.cents))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Read;

impl Command for Read {
    type Reply = Reply;
}

impl Handles<Read> for Account {
    fn handle(&self, state: &Balance, _: Read) -> Effect<Self, Reply> {
        self.reply(Ok(state.cents))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Close;

impl Command for Close {
    type Reply = Reply;
}

impl Handles<Close> for Account {
    fn handle(&self, _: &Balance, _: Close) -> Effect<Self, Reply> {
        self.persist(AccountEvent::Deposited(0))
            .then_stop()
            .then_reply(|state| Ok(state.cents))
    }
}

/// What is told of one account.
pub(crate) struct Hears(mpsc::UnboundedReceiver<Signal>);

impl Hears {
    pub(crate) async fn signal<T>(&mut self, pick: impl Fn(&Signal) -> Option<T>) -> T {
        loop {
            let signal = self.0.recv().await.expect("the signal comes");
            if let Some(picked) = pick(&signal) {
                return picked;
            }
        }
    }
}

/// An account that can be spawned, and what it tells.
pub(crate) fn account(id: &str) -> (Persistent<Account>, Hears) {
    let (told, hears) = mpsc::unbounded_channel();
    (persistent(Account(told), id), Hears(hears))
}

/// Goes on beside the test.
pub(crate) fn background<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    Handle::current().spawn(task)
}

/// Asks in a task of its own, so that many are under way.
pub(crate) fn asked<C: Command, M: ractor::Message>(
    account: &PersistentRef<Account, M>,
    command: C,
) -> JoinHandle<Result<C::Reply, AskError>>
where
    Account: Handles<C>,
{
    let account = account.clone();
    background(async move { account.ask(command).await })
}

/// Lets everything that can go on do so. Only on a runtime of one thread.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
