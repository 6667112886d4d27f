//! An account that is its own model and tells the test what happens.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    thread::{self, ThreadId},
    time::Duration,
};

use actix::prelude::*;
use journal_actix::{Ask, Durable, PersistentHooks};
use journal_conformance::controlled::ControlledJournal;
use journal_core::{
    Backoff, Command, Effect, Effects, EventSourced, Handles, Journal, MemoryJournal, Options, PersistError,
    Persistence, RecoveryError, Signal, WriterId,
};
use journal_derive::{Event, PersistentActor};
use serde::{Deserialize, Serialize};
use snapshot_store::MemorySnapshotStore;
use tokio::sync::mpsc;

pub(crate) const ID: &str = "a";

/// A store under the test's control.
pub(crate) struct Store {
    pub(crate) journal: Arc<ControlledJournal>,
    pub(crate) persistence: Persistence,
}

impl Store {
    pub(crate) fn open() -> Self {
        let journal = Arc::new(ControlledJournal::new(Arc::new(MemoryJournal::new())));
        let persistence = persistence(journal.clone());
        Self { journal, persistence }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.persistence.is_live(&ID.parse().unwrap())
    }

    pub(crate) async fn gone(&self) {
        eventually(|| !self.is_live()).await;
    }

    /// What is stored, by another writer, which has the id from now on.
    pub(crate) async fn claimed_elsewhere(&self) -> u64 {
        let id = ID.parse().unwrap();
        let claim = self.journal.inner().claim(&id, WriterId::random());
        claim.await.unwrap().highest().get()
    }
}

pub(crate) fn persistence(journal: impl Journal) -> Persistence {
    Persistence::builder(journal)
        .snapshots(MemorySnapshotStore::new())
        .build()
        .unwrap()
}

/// Waits for what is certain to come.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    within(async {
        while !condition() {
            actix::clock::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// What hangs fails.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work)
        .await
        .expect("it does not hang")
}

/// Nothing more is to come of what must not happen.
pub(crate) async fn a_while() {
    actix::clock::sleep(Duration::from_millis(60)).await;
}

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(manifest = "deposited", version = 1, crate = journal_core)]
pub(crate) struct Deposited(i64);

pub(crate) type Reply = Result<i64, PersistError>;

/// What a test does at a turn of an account's life.
pub(crate) type Turn = Box<dyn FnMut(&mut Account, &mut Context<Account>) + Send>;

#[derive(PersistentActor)]
#[persistent(hooks, crate = journal_actix)]
pub(crate) struct Account {
    #[persistent(id)]
    pub(crate) id: String,
    #[persistent(state)]
    pub(crate) balance: Durable<Self>,
    told: mpsc::UnboundedSender<Told>,
    /// Makes it neither `Send` nor `Sync`.
    pub(crate) pings: Rc<Cell<i64>>,
    pub(crate) starting: Option<Turn>,
    pub(crate) recovered: Option<Turn>,
    pub(crate) lives: usize,
}

/// What a test hears of an account.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Signal(Signal, ThreadId),
    Note(String),
    RecoveryFailed(RecoveryError),
}

impl Account {
    pub(crate) fn note(&self, note: impl Into<String>) {
        drop(self.told.send(Told::Note(note.into())));
    }

    /// Options of this one.
    pub(crate) fn with(mut self, options: impl Fn(Options<Self>) -> Options<Self> + Send + 'static) -> Self {
        self.balance = self.balance.options(options);
        self
    }

    pub(crate) fn at_start(
        mut self,
        turn: impl FnMut(&mut Self, &mut Context<Self>) + Send + 'static,
    ) -> Self {
        self.starting = Some(Box::new(turn));
        self
    }

    pub(crate) fn when_recovered(
        mut self,
        turn: impl FnMut(&mut Self, &mut Context<Self>) + Send + 'static,
    ) -> Self {
        self.recovered = Some(Box::new(turn));
        self
    }
}

pub(crate) fn account(persistence: &Persistence) -> (Account, Hears) {
    account_in(Durable::new(persistence))
}

pub(crate) fn account_in(balance: Durable<Account>) -> (Account, Hears) {
    let (told, hears) = mpsc::unbounded_channel();
    let account = Account {
        id: ID.to_owned(),
        balance,
        told,
        pings: Rc::default(),
        starting: None,
        recovered: None,
        lives: 0,
    };
    (account, Hears(hears))
}

/// Waits that a test can wait for.
pub(crate) fn quick(options: Options<Account>) -> Options<Account> {
    options.backoff(Backoff {
        shortest: Duration::from_millis(20),
        longest: Duration::from_millis(80),
    })
}

impl EventSourced for Account {
    type Event = Deposited;
    type State = i64;
    const STATE_VERSION: u32 = 1;

    fn apply(balance: &mut i64, event: &Deposited) {
        *balance += event.0;
    }

    fn signal(&self, signal: &Signal) {
        drop(
            self.told
                .send(Told::Signal(signal.clone(), thread::current().id())),
        );
        if let Signal::Unhandled = signal {
            panic!("signal panics");
        }
    }
}

impl PersistentHooks for Account {
    fn starting(&mut self, context: &mut Context<Self>) {
        self.lives += 1;
        self.note(format!("starting at {}", *self.balance));
        if let Some(mut turn) = self.starting.take() {
            turn(self, context);
            self.starting = Some(turn);
        }
    }
    fn recovered(&mut self, context: &mut Context<Self>) {
        self.note(format!("recovered at {}", *self.balance));
        if let Some(mut turn) = self.recovered.take() {
            turn(self, context);
            self.recovered = Some(turn);
        }
    }
    fn recovery_failed(&mut self, error: &RecoveryError, _: &mut Context<Self>) {
        drop(self.told.send(Told::RecoveryFailed(error.clone())));
    }
    fn stopped(&mut self, _: &mut Context<Self>) {
        self.note(format!("stopped at {}", *self.balance));
    }
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $( ( $field:ty ) )? -> $reply:ty = |$model:ident, $state:ident, $command:pat_param| $effect:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone)]
            pub(crate) struct $name $( ( pub(crate) $field ) )?;
            impl Command for $name { type Reply = $reply; }
            impl Message for $name { type Result = $reply; }
            impl Handles<$name> for Account {
                fn handle(&self, $state: &i64, $command: $name) -> Effect<Self, $reply> {
                    let $model = self;
                    $effect
                }
            }
        )*
    };
}

commands! {
    Deposit(i64) -> Reply = |model, _state, Deposit(cents)|
        model.persist(Deposited(cents)).then_reply(|balance| Ok(*balance));
    /// Nobody waits for it.
    Gift(i64) -> () = |model, _state, Gift(cents)| model.persist(Deposited(cents));
    Read -> Reply = |model, state, Read| model.reply(Ok(*state));
    Close -> Reply = |model, _state, Close|
        model.persist(Deposited(0)).then_stop().then_reply(|balance| Ok(*balance));
    PanicInHandle(&'static str) -> Reply = |_model, _state, PanicInHandle(message)| panic!("{message}");
    /// `signal` panics of it.
    Strange -> () = |model, _state, Strange| model.unhandled();
}

/// A message that persists nothing.
#[derive(Message)]
#[rtype(result = "i64")]
pub(crate) struct Ping;

impl Handler<Ping> for Account {
    type Result = i64;
    fn handle(&mut self, _: Ping, _: &mut Context<Self>) -> i64 {
        self.pings.set(self.pings.get() + 1);
        self.pings.get()
    }
}

type Job = Box<dyn FnOnce(&mut Account, &mut Context<Account>) + Send>;

/// Whatever a plain handler may do.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Do(Job);

/// A plain handler's body.
pub(crate) fn act(job: impl FnOnce(&mut Account, &mut Context<Account>) + Send + 'static) -> Do {
    Do(Box::new(job))
}

impl Handler<Do> for Account {
    type Result = ();
    fn handle(&mut self, Do(job): Do, context: &mut Context<Self>) {
        job(self, context);
    }
}

impl StreamHandler<i64> for Account {
    fn handle(&mut self, cents: i64, context: &mut Context<Self>) {
        context.notify(Deposit(cents));
    }
    fn finished(&mut self, _: &mut Context<Self>) {
        self.note("the stream ended");
    }
}

/// What is told of one account.
pub(crate) struct Hears(pub(crate) mpsc::UnboundedReceiver<Told>);

impl Hears {
    /// Waits for the first that fits.
    pub(crate) async fn until<T>(&mut self, pick: impl Fn(Told) -> Option<T>) -> T {
        within(async {
            loop {
                let told = self
                    .0
                    .recv()
                    .await
                    .expect("it is told before the account is gone");
                if let Some(picked) = pick(told) {
                    return picked;
                }
            }
        })
        .await
    }

    pub(crate) async fn note(&mut self, expected: &str) {
        self.until(|told| matches!(told, Told::Note(note) if note == expected).then_some(()))
            .await;
    }

    pub(crate) async fn failed_recovery(&mut self) -> RecoveryError {
        self.until(|told| match told {
            Told::RecoveryFailed(error) => Some(error),
            _ => None,
        })
        .await
    }

    pub(crate) async fn signal<T>(&mut self, pick: impl Fn(&Signal) -> Option<T>) -> T {
        self.until(|told| match told {
            Told::Signal(signal, _) => pick(&signal),
            _ => None,
        })
        .await
    }

    /// All until the account is dropped.
    pub(crate) async fn rest(mut self) -> Vec<Told> {
        let mut all = Vec::new();
        within(async {
            while let Some(told) = self.0.recv().await {
                all.push(told);
            }
        })
        .await;
        all
    }

    /// Returns once the account is dropped.
    pub(crate) async fn dropped(self) {
        self.rest().await;
    }
}

pub(crate) fn notes(told: &[Told]) -> Vec<&str> {
    told.iter()
        .filter_map(|told| match told {
            Told::Note(note) => Some(note.as_str()),
            _ => None,
        })
        .collect()
}

/// A model that knows nothing of actix.
pub(crate) struct Counter {
    pub(crate) step: i64,
}

impl EventSourced for Counter {
    type Event = Deposited;
    type State = i64;
    fn apply(count: &mut i64, event: &Deposited) {
        *count += event.0;
    }
}

pub(crate) struct Count;
impl Command for Count {
    type Reply = Reply;
}
impl Handles<Count> for Counter {
    fn handle(&self, _: &i64, _: Count) -> Effect<Self, Reply> {
        self.persist(Deposited(self.step)).then_reply(|count| Ok(*count))
    }
}

#[derive(PersistentActor)]
#[persistent(crate = journal_actix)]
pub(crate) struct CounterActor {
    #[persistent(id)]
    id: &'static str,
    #[persistent(state)]
    count: Durable<Counter>,
}

impl CounterActor {
    pub(crate) fn new(id: &'static str, model: &Arc<Counter>, persistence: &Persistence) -> Self {
        Self {
            id,
            count: Durable::of(model.clone(), persistence),
        }
    }
}

pub(crate) async fn count(counter: &Addr<CounterActor>) -> i64 {
    counter.send(Ask(Count)).await.unwrap().unwrap()
}
