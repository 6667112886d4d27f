//! What a case of the adapter contract drives.

mod history;
mod model;

use std::{
    any::type_name,
    env, fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;
use journal_core::{
    AtomicWrite, Claim, Command, Fencing, Handles, Journal, JournalError, Persistence, PersistenceBuilder,
    Persistent, RecoveryError, ReplayRange, SelectionCriteria, SnapshotStore, testing::FaultySnapshots,
};

pub(crate) use history::{Answer, History, Stores};
pub(crate) use model::*;
pub use model::{Parcel, Sum, Tallied, Tally};

use crate::{
    cases::adapter::adapter_cases,
    controlled::ControlledJournal,
    journal::{Driven, id},
    runner::{self, Absent, Case, NotApplicable, Outcome, Subject, Verdict},
};

/// The actor ended, or failed and starts again, before it handled a command: nothing of it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// An adapter as the cases use it; each case gets a harness of its own. The cases run on a tokio runtime of several
/// threads, and nothing is assumed about where the actors run.
pub trait AdapterHarness: 'static {
    /// A reference to a persistent actor over all its lives: it stays good when the actor restarts.
    type Ref: Clone + Send + Sync + 'static;

    /// Starts an actor and waits for its recovery.
    ///
    /// # Errors
    /// Why it could not recover; then nothing of it is left, and it is not tried again.
    fn spawn(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
    ) -> impl Future<Output = Result<Self::Ref, RecoveryError>>;

    /// Starts an actor without waiting for its recovery; commands sent meanwhile wait. A recovery that fails is tried
    /// again under the backoff.
    fn spawn_instant(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
    ) -> impl Future<Output = Self::Ref>;

    /// Sends a command and waits for its reply. The command is in the mailbox when the future was polled once; it is
    /// not taken back where the future is dropped.
    fn ask<C>(actor: Self::Ref, command: C) -> impl Future<Output = Result<C::Reply, Closed>> + 'static
    where
        C: Command,
        Tally: Handles<C>;

    /// Sends a command that nobody waits for, behind everything sent before.
    fn tell<C>(actor: &Self::Ref, command: C)
    where
        C: Command,
        Tally: Handles<C>;

    /// Stops it from outside; returns when everything that it handled is durable or has failed.
    fn stop(actor: Self::Ref) -> impl Future<Output = ()> + 'static;

    /// Ends it wherever it stands, as a panic of its framework would; returns when it is gone, which is not to say that
    /// what it handled is written. The verdict says why, where the framework cannot do that.
    fn kill(actor: Self::Ref) -> impl Future<Output = Verdict> + 'static;

    /// Returns when it has ended for good.
    fn ended(actor: Self::Ref) -> impl Future<Output = ()> + 'static;

    /// How long a case may take, 60 seconds unless overridden; ten times as long with `JOURNAL_FULL=1`.
    #[must_use]
    fn deadline() -> Duration {
        Duration::from_secs(60)
    }
}

/// Where the actors of one case are persisted; dropped after it, so that it can own a temporary directory.
#[async_trait]
pub trait AdapterStores: Send + Sync + 'static {
    /// Empty stores.
    ///
    /// # Errors
    /// [`Absent`] if the engine is not there.
    async fn create() -> Result<Self, Absent>
    where
        Self: Sized;

    /// Opens them: at first, and again when the former journal is shut down.
    async fn open(&self) -> (Arc<dyn Journal>, Arc<dyn SnapshotStore>);
}

/// An adapter on opened stores.
#[expect(missing_debug_implementations, reason = "harnesses need not implement Debug")]
pub struct AdapterUnderTest<H: AdapterHarness> {
    harness: H,
    stores: Box<dyn AdapterStores>,
    opened: Opened,
}

struct Opened {
    journal: Arc<ControlledJournal>,
    snapshots: Arc<FaultySnapshots>,
    persistence: Persistence,
}

impl Opened {
    async fn open(stores: &dyn AdapterStores) -> Self {
        let (journal, snapshots) = stores.open().await;
        let journal = Arc::new(ControlledJournal::new(journal));
        let snapshots = Arc::new(FaultySnapshots::shared(snapshots));
        let builder = Persistence::builder(journal.clone()).snapshots(snapshots.clone());
        Self {
            journal,
            snapshots,
            persistence: built(builder),
        }
    }
}

fn built(builder: PersistenceBuilder) -> Persistence {
    builder.build().expect("the hub starts")
}

/// The id of the actor of most cases.
pub(crate) const ID: &str = "tally|1";

/// Given to a wrong adapter to do what it must not.
const A_WHILE: Duration = Duration::from_millis(100);

impl<H: AdapterHarness> AdapterUnderTest<H> {
    /// Opens the stores.
    pub async fn open(harness: H, stores: impl AdapterStores) -> Self {
        let opened = Opened::open(&stores).await;
        Self {
            harness,
            stores: Box::new(stores),
            opened,
        }
    }

    pub(crate) fn journal(&self) -> &ControlledJournal {
        &self.opened.journal
    }

    pub(crate) fn snapshots(&self) -> &FaultySnapshots {
        &self.opened.snapshots
    }

    /// A restart of the process, after all actors have ended.
    pub(crate) async fn restart(&mut self) {
        self.opened
            .persistence
            .shutdown()
            .await
            .expect("it can be shut down");
        self.opened = Opened::open(&*self.stores).await;
    }

    /// From now on, this many actors recover at once.
    pub(crate) fn permit_recoveries(&mut self, permits: usize) {
        self.opened.persistence = self.another_persistence(permits);
    }

    /// Of the same stores, with an own registry and own permits.
    pub(crate) fn another_persistence(&self, permits: usize) -> Persistence {
        let Opened {
            journal, snapshots, ..
        } = &self.opened;
        let builder = Persistence::builder(journal.clone()).snapshots(snapshots.clone());
        built(builder.recovery_permits(permits))
    }

    /// From now on, nobody can keep a snapshot.
    pub(crate) fn without_snapshots(&mut self) {
        self.opened.persistence = built(Persistence::builder(self.opened.journal.clone()));
    }

    /// Puts the stores, with what they hold, under new control.
    pub(crate) fn renew(&mut self, permits: usize) {
        self.opened.journal = Arc::new(ControlledJournal::new(self.opened.journal.shared()));
        self.opened.snapshots = Arc::new(FaultySnapshots::shared(self.opened.snapshots.inner().clone()));
        self.permit_recoveries(permits);
    }

    pub(crate) fn available_permits(&self) -> usize {
        self.opened.persistence.available_permits()
    }

    /// Returns once this many recoveries could start.
    pub(crate) async fn permits_are_back(&self, permits: usize) {
        while self.available_permits() != permits {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn try_spawn(&self, persistent: &Persistent<Tally>) -> Result<Actor<H>, RecoveryError> {
        let spawned = self.harness.spawn(persistent.clone(), &self.opened.persistence);
        spawned.await.map(Actor)
    }

    pub(crate) async fn spawn(&self, persistent: &Persistent<Tally>) -> Actor<H> {
        let spawned = self.try_spawn(persistent).await;
        spawned.unwrap_or_else(|error| panic!("a spawn failed: {error}"))
    }

    pub(crate) async fn spawn_instant(&self, persistent: &Persistent<Tally>) -> Actor<H> {
        let spawned = self
            .harness
            .spawn_instant(persistent.clone(), &self.opened.persistence);
        Actor(spawned.await)
    }

    /// On another persistence than the other actors.
    pub(crate) async fn spawn_instant_on(
        &self,
        persistence: &Persistence,
        persistent: &Persistent<Tally>,
    ) -> Actor<H> {
        Actor(self.harness.spawn_instant(persistent.clone(), persistence).await)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.opened.persistence.is_live(&id(ID))
    }

    /// Waits until nothing of the actor is left: it has ended, and all that it handed over is done.
    pub(crate) async fn gone(&self) {
        self.id_is_free(ID).await;
    }

    /// Waits until an actor has this id, though it may still recover.
    pub(crate) async fn is_taken(&self, of: &str) {
        while !self.opened.persistence.is_live(&id(of)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn id_is_free(&self, of: &str) {
        while self.opened.persistence.is_live(&id(of)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The numbers of the stored events.
    pub(crate) async fn numbers(&self) -> Vec<u64> {
        self.journal().inner().numbers(&id(ID), ReplayRange::ALL).await
    }

    /// The numbers of the saved snapshots, newest first.
    pub(crate) async fn saved(&self) -> Vec<u64> {
        let listed = self.snapshots().list(&id(ID), SelectionCriteria::ALL).await;
        let listed = listed.unwrap_or_else(|error| panic!("a list failed: {error}"));
        listed.iter().map(|snapshot| snapshot.sequence_nr.get()).collect()
    }

    /// Another writer takes the id over, behind the back of whoever has it.
    pub(crate) async fn another_writer(&self) -> Result<Claim, NotApplicable> {
        match self.journal().capabilities().fencing {
            Fencing::Claims => Ok(self.journal().inner().claimed(&id(ID)).await),
            other => NotApplicable::because(format!("the journal declares Fencing::{other:?}")),
        }
    }

    /// The other writer stores an event.
    pub(crate) async fn write(&self, claim: &mut Claim, event: &Tallied) -> Result<(), JournalError> {
        let writes = Arc::from([AtomicWrite::from(encoded(event))]);
        self.journal().inner().write(claim, writes).await.map(drop)
    }
}

/// A spawned actor.
pub(crate) struct Actor<H: AdapterHarness>(pub(crate) H::Ref);

impl<H: AdapterHarness> Actor<H> {
    /// Sends a command.
    pub(crate) fn asked<C: Command>(&self, command: C) -> Begun<Result<C::Reply, Closed>>
    where
        Tally: Handles<C>,
    {
        Begun::new(H::ask(self.0.clone(), command))
    }

    /// Sends a command that succeeds.
    pub(crate) async fn ask<C, T, E>(&self, command: C) -> T
    where
        C: Command<Reply = Result<T, E>>,
        E: fmt::Debug,
        Tally: Handles<C>,
    {
        self.asked(command).reply().await
    }

    /// Asks for the total, again where the actor failed or had not yet seen that it did.
    pub(crate) async fn read_again(&self) -> i64 {
        loop {
            if let Ok(Ok(total)) = self.asked(Read).await {
                return total;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn tell<C: Command>(&self, command: C)
    where
        Tally: Handles<C>,
    {
        H::tell(&self.0, command);
    }

    /// Returns when everything sent so far is handled.
    pub(crate) async fn handled(&self, hears: &mut Hears) {
        const LAST: u32 = u32::MAX;
        self.tell(Note(LAST));
        hears.handled(LAST).await;
    }

    pub(crate) fn ending(&self) -> Begun<()> {
        Begun::new(H::ended(self.0.clone()))
    }

    pub(crate) fn stopping(&self) -> Begun<()> {
        Begun::new(H::stop(self.0.clone()))
    }

    pub(crate) async fn stop(&self) {
        H::stop(self.0.clone()).await;
    }

    pub(crate) async fn kill(&self) -> Verdict {
        H::kill(self.0.clone()).await
    }

    pub(crate) async fn ended(&self) {
        H::ended(self.0.clone()).await;
    }

    pub(crate) async fn assert_closed(&self) {
        let outcome = self.asked(Read).await;
        assert!(matches!(outcome, Err(Closed)), "{outcome:?}");
    }
}

/// A future that was polled once, so that what it asks for is under way.
pub(crate) struct Begun<T> {
    future: Pin<Box<dyn Future<Output = T>>>,
    output: Option<T>,
}

impl<T> Begun<T> {
    fn new(future: impl Future<Output = T> + 'static) -> Self {
        let mut begun = Self {
            future: Box::pin(future),
            output: None,
        };
        begun.is_done();
        begun
    }

    pub(crate) fn is_done(&mut self) -> bool {
        if self.output.is_none()
            && let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            self.output = Some(output);
        }
        self.output.is_some()
    }

    /// It is not done although there is time.
    pub(crate) async fn assert_waits(&mut self) {
        tokio::time::sleep(A_WHILE).await;
        assert!(!self.is_done(), "it must wait");
    }
}

impl<T, E: fmt::Debug> Begun<Result<Result<T, E>, Closed>> {
    /// The reply of a command that succeeds.
    pub(crate) async fn reply(self) -> T {
        match self.await {
            Ok(Ok(reply)) => reply,
            Ok(Err(failure)) => panic!("a command failed: {failure:?}"),
            Err(Closed) => panic!("the actor is closed to a command that it must handle"),
        }
    }

    /// The reply of a command that fails.
    pub(crate) async fn failure(self) -> E {
        match self.await {
            Ok(Err(failure)) => failure,
            Ok(Ok(_)) => panic!("a command succeeded that must fail"),
            Err(Closed) => panic!("the actor is closed to a command that it must answer"),
        }
    }
}

/// The output is never pinned.
impl<T> Unpin for Begun<T> {}

impl<T> Future for Begun<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.output.take() {
            Some(output) => Poll::Ready(output),
            None => self.future.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for Begun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}

/// The actor never got to the command, and says so.
pub(crate) fn assert_not_done(answer: &Result<Reply, Closed>) {
    match answer {
        Err(Closed) => {}
        Ok(Err(error)) => assert_eq!(error.outcome(), journal_core::Outcome::NotStored, "{error}"),
        Ok(Ok(total)) => panic!("it was done: {total}"),
    }
}

/// Nothing more is to come of what must not happen; a wrong adapter has had the time.
pub(crate) async fn a_while() {
    tokio::time::sleep(A_WHILE).await;
}

/// Whether `JOURNAL_FULL=1` wants long rounds.
pub(crate) fn is_full() -> bool {
    env::var_os("JOURNAL_FULL").is_some_and(|full| full == "1")
}

type Creation<H> = Pin<Box<dyn Future<Output = Result<AdapterUnderTest<H>, Absent>>>>;

/// Runs one case on the harness and the stores that `create` makes; for tests of the suite itself.
pub fn check_adapter<H: AdapterHarness, S: AdapterStores>(
    case: Case<AdapterUnderTest<H>>,
    subject: &Subject,
    create: impl FnOnce() -> (H, S) + Send + 'static,
) -> Outcome {
    runner::check(case, subject, move || -> Creation<H> {
        Box::pin(async move {
            let (harness, stores) = create();
            Ok(AdapterUnderTest::open(harness, stores).await)
        })
    })
}

/// A harness and the stores that it is tested on.
pub trait Pairing {
    /// The adapter.
    type Harness: AdapterHarness + Default;
    /// The stores.
    type Stores: AdapterStores;
}

impl<H: AdapterHarness + Default, S: AdapterStores> Pairing for (H, S) {
    type Harness = H;
    type Stores = S;
}

/// Runs the case of this name as the test that the macro expanded.
pub fn test_adapter<P: Pairing>(case: &str, module_path: &str, test: &str) {
    let deadline = P::Harness::deadline() * if is_full() { 10 } else { 1 };
    let subject = Subject::new(
        type_name::<(P::Harness, P::Stores)>(),
        module_path,
        test,
        deadline,
    );
    let case = runner::find(&adapter_cases(), case);
    runner::require(case, &subject, || -> Creation<P::Harness> {
        Box::pin(async {
            let stores = P::Stores::create().await?;
            Ok(AdapterUnderTest::open(P::Harness::default(), stores).await)
        })
    });
}
