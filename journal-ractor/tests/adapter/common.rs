//! A journal under the test's control and an account that tells the test what happens.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use journal_core::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Command, Deletion, Effect, Effects, ErrorKind, Event,
    EventSourced, EventStream, Handles, Journal, JournalError, JournalInfo, MemoryJournal, Operation,
    PersistError, Persistence, PersistenceBuilder, PersistenceId, Persistent, ReplayRange, SequenceNr,
    Signal, WriterId, persistent,
};
use journal_ractor::{AskError, PersistentRef, ractor};
use serde::{Deserialize, Serialize};
use snapshot_store::MemorySnapshotStore;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::Instant,
};

/// What happens to one append.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// It fails, certainly not stored, and nobody need try again.
    NotStored,
    /// It is stored, but the answer is lost.
    StoredButUnknown,
    /// It is not stored, and the answer is lost.
    LostButUnknown,
    /// Another writer claims just before.
    Fenced,
}

/// A memory journal with gates and faults.
#[derive(Debug)]
pub(crate) struct Controlled {
    inner: MemoryJournal,
    fates: Mutex<VecDeque<Fate>>,
    /// Each append takes one.
    appends: Semaphore,
    /// Each claim takes one.
    claims: Semaphore,
    /// Has one for each append that reached the gate.
    entered: Semaphore,
    /// Claims fail.
    down: AtomicBool,
    /// When somebody tried to claim.
    pub(crate) claimed: Mutex<Vec<Instant>>,
    claiming: AtomicUsize,
    pub(crate) most_claiming: AtomicUsize,
    /// Atomic writes of each append.
    pub(crate) sizes: Mutex<Vec<usize>>,
}

const OPEN: usize = Semaphore::MAX_PERMITS / 2;

impl Controlled {
    fn new(appends: usize, claims: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryJournal::new(),
            fates: Mutex::default(),
            appends: Semaphore::new(appends),
            claims: Semaphore::new(claims),
            entered: Semaphore::new(0),
            down: AtomicBool::new(false),
            claimed: Mutex::default(),
            claiming: AtomicUsize::new(0),
            most_claiming: AtomicUsize::new(0),
            sizes: Mutex::default(),
        })
    }

    pub(crate) fn open() -> Arc<Self> {
        Self::new(OPEN, OPEN)
    }

    /// Appends wait until [`Controlled::let_through`].
    pub(crate) fn gated() -> Arc<Self> {
        Self::new(0, OPEN)
    }

    /// Claims wait until [`Controlled::let_claim`].
    pub(crate) fn with_gated_claims() -> Arc<Self> {
        Self::new(OPEN, 0)
    }

    pub(crate) fn let_through(&self, appends: usize) {
        self.appends.add_permits(appends);
    }

    pub(crate) fn let_all_through(&self) {
        self.appends.add_permits(OPEN);
    }

    pub(crate) fn let_claim(&self, claims: usize) {
        self.claims.add_permits(claims);
    }

    /// Returns when one more append is in flight.
    pub(crate) async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    /// From now on only appends to come count.
    pub(crate) fn forget_entered(&self) {
        self.entered.forget_permits(usize::MAX);
    }

    pub(crate) fn fate(&self, fate: Fate) {
        self.fates.lock().unwrap().push_back(fate);
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn claims_made(&self) -> usize {
        self.claimed.lock().unwrap().len()
    }

    /// On the test's own runtime, so that a paused clock sees all that goes on.
    pub(crate) fn persistence(self: &Arc<Self>) -> Persistence {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(self: &Arc<Self>) -> PersistenceBuilder {
        Persistence::builder(self.clone())
            .snapshots(MemorySnapshotStore::new())
            .runtime(Handle::current())
    }
}

#[async_trait]
impl Journal for Controlled {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Journal::capabilities(&self.inner)
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        self.claimed.lock().unwrap().push(Instant::now());
        let claiming = self.claiming.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_claiming.fetch_max(claiming, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.claims.acquire().await.unwrap().forget();
        self.claiming.fetch_sub(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(JournalError::not_stored(
                ErrorKind::Unavailable,
                Operation::Claim,
                "the test took the journal down",
            ));
        }
        Journal::claim(&self.inner, id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        self.entered.add_permits(1);
        self.appends.acquire().await.unwrap().forget();
        self.sizes.lock().unwrap().push(writes.len());
        let fate = self.fates.lock().unwrap().pop_front();
        let lost = JournalError::unknown(ErrorKind::Timeout, Operation::Append, "the test lost the answer");
        match fate {
            None => Journal::append(&self.inner, claim, expected, writes).await,
            Some(Fate::NotStored) => Err(JournalError::not_stored(
                ErrorKind::Poisoned,
                Operation::Append,
                "the test refused it",
            )),
            Some(Fate::StoredButUnknown) => {
                Journal::append(&self.inner, claim, expected, writes).await?;
                claim.spend();
                Err(lost)
            }
            Some(Fate::LostButUnknown) => {
                claim.spend();
                Err(lost)
            }
            Some(Fate::Fenced) => {
                Journal::claim(&self.inner, &claim.id().clone(), WriterId::random()).await?;
                Journal::append(&self.inner, claim, expected, writes).await
            }
        }
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Journal::bounds(&self.inner, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        Journal::replay(&self.inner, id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        Journal::delete_to(&self.inner, id, deletion).await
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum AccountEvent {
    Deposited(i64),
    /// `apply` panics on it.
    Poison,
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
pub(crate) struct Account {
    told: mpsc::UnboundedSender<Told>,
    /// How many times `recovered` panics before it does not.
    panics: AtomicUsize,
}

/// What a test hears of an account.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Signal(Signal),
    /// The effect of the [`Announce`] that led to this balance.
    Announced(i64),
}

impl EventSourced for Account {
    type Event = AccountEvent;
    type State = Balance;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Balance, event: &AccountEvent) {
        match event {
            AccountEvent::Deposited(cents) => state.cents += cents,
            AccountEvent::Poison => panic!("apply panics"),
        }
    }

    fn recovered(&self, _: &Balance) -> Effect<Self> {
        if self.panics.load(Ordering::SeqCst) > 0 {
            self.panics.fetch_sub(1, Ordering::SeqCst);
            panic!("recovered panics");
        }
        self.none()
    }

    fn signal(&self, signal: &Signal) {
        drop(self.told.send(Told::Signal(signal.clone())));
    }
}

pub(crate) type Reply = Result<i64, PersistError>;

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $( ( $field:ty ) )? -> $reply:ty = |$model:ident, $state:ident, $command:pat_param| $effect:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub(crate) struct $name $( ( pub(crate) $field ) )?;
            impl Command for $name { type Reply = $reply; }
            impl Handles<$name> for Account {
                fn handle(&self, $state: &Balance, $command: $name) -> Effect<Self, $reply> {
                    let $model = self;
                    $effect
                }
            }
        )*
    };
}

commands! {
    Deposit(i64) -> Reply = |model, _state, Deposit(cents)|
        model.persist(AccountEvent::Deposited(cents)).then_reply(|state| Ok(state.cents));
    Read -> Reply = |model, state, Read| model.reply(Ok(state.cents));
    Announce(i64) -> Reply = |model, _state, Announce(cents)| {
        let told = model.told.clone();
        model
            .persist(AccountEvent::Deposited(cents))
            .then_run(move |state| {
                let cents = state.cents;
                move || drop(told.send(Told::Announced(cents)))
            })
            .then_reply(|state| Ok(state.cents))
    };
    PanicInHandle -> Reply = |_model, _state, PanicInHandle| panic!("handle panics");
    PanicInApply -> Reply = |model, _state, PanicInApply|
        model.persist(AccountEvent::Poison).then_reply(|state| Ok(state.cents));
    Close -> Reply = |model, _state, Close|
        model.persist(AccountEvent::Deposited(0)).then_stop().then_reply(|state| Ok(state.cents));
    /// Waits for a balance.
    ReadOnceAt(i64) -> Reply = |model, state, ReadOnceAt(cents)|
        if state.cents < cents { model.stash(ReadOnceAt(cents)) } else { model.reply(Ok(state.cents)) };
    /// Lets the waiting ones look again.
    DepositAndCall(i64) -> Reply = |model, _state, DepositAndCall(cents)|
        model.persist(AccountEvent::Deposited(cents)).then_unstash_all().then_reply(|state| Ok(state.cents));
}

/// What is told of one account.
pub(crate) struct Hears(mpsc::UnboundedReceiver<Told>);

impl Hears {
    pub(crate) async fn signal<T>(&mut self, pick: impl Fn(&Signal) -> Option<T>) -> T {
        loop {
            if let Told::Signal(signal) = self.0.recv().await.expect("the signal comes")
                && let Some(picked) = pick(&signal)
            {
                return picked;
            }
        }
    }

    /// Snapshot and number of events of the next recovery.
    pub(crate) async fn recovery(&mut self) -> (u64, u64) {
        self.signal(|signal| match signal {
            Signal::RecoveryCompleted {
                snapshot, replayed, ..
            } => Some((snapshot.get(), *replayed)),
            _ => None,
        })
        .await
    }

    /// The balances announced so far.
    pub(crate) fn announced(&mut self) -> Vec<i64> {
        let mut announced = Vec::new();
        while let Ok(told) = self.0.try_recv() {
            if let Told::Announced(cents) = told {
                announced.push(cents);
            }
        }
        announced
    }
}

/// An account that can be spawned, and what it tells.
pub(crate) fn account(id: &str) -> (Persistent<Account>, Hears) {
    account_that_panics(id, 0)
}

/// An account whose first recoveries end in a panic.
pub(crate) fn account_that_panics(id: &str, panics: usize) -> (Persistent<Account>, Hears) {
    let (told, hears) = mpsc::unbounded_channel();
    let panics = AtomicUsize::new(panics);
    (persistent(Account { told, panics }, id), Hears(hears))
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
