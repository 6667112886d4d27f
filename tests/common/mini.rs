//! The smallest adapter, right or with one fault. Its actors live on one thread and never leave it, as an arbiter's.

use std::{
    collections::VecDeque,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use actor_journal::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Command, Deletion, EventStream, Handles, Journal,
    JournalError, JournalInfo, Persistence, PersistenceId, Persistent, RecoveryError, ReplayRange,
    SequenceNr, WriterId,
    adapter::{Admission, BoxedCommand, Engine, Halt, NoPort, Restart, Restarts, Step},
};
use async_trait::async_trait;
use journal_conformance::{AdapterHarness, Closed, Tally, Verdict};
use tokio::{
    runtime::{self, Handle},
    sync::{mpsc, oneshot, watch},
    task::{AbortHandle, LocalSet, spawn_local},
    time::Interval,
};

/// What a wrong adapter does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Lets the engine take writes for durable that are still under way.
    AcknowledgesEarly,
    /// Drops its mailbox when the engine must recover in place.
    LosesQueuedCommands,
    /// Begins a new life where the engine would recover in place.
    RestartsInsteadOfRecovering,
    /// Takes the loss of its id for any other failure.
    RestartsAfterFencing,
    /// Knows no backoff.
    RestartsAtOnce,
    /// Tries a recovery again although somebody waits for its result.
    HidesFailedRecoveries,
    /// Ends without waiting for writes.
    StopsWithoutWaiting,
    /// Does not look whether a command stopped it.
    IgnoresHandledStops,
    /// Takes a kill for a failure.
    RestartsAfterKill,
    /// Keeps its engine when it ends.
    KeepsItsId,
    /// Does not look at the engine unless a command comes.
    SleepsThroughWakes,
    /// Bounds nothing.
    TakesAnyFlood,
    /// Handles the last command first where several waited for the recovery.
    ReversesWhatWaited,
    /// Gives each actor a registry and permits of its own.
    SharesNothing,
    /// Keeps what waited for a recovery that failed until one succeeds.
    KeepsWhatWaited,
    /// Hears of a stop only once it is recovered.
    RecoversToTheEnd,
    /// Goes on recovering when it is killed.
    RecoversOnItsOwn,
    /// Lets a command cut its recovery short, and begins another one.
    RecoversAnewWithEachCommand,
    /// Takes options that do not fit together for a failure that may pass.
    TriesWhatCannotWork,
    /// Ends after a few failures.
    GivesUp,
    /// Ends when it is idle, and its reference with it.
    PassivatesForGood,
    /// Keeps idle actors.
    PassivatesNever,
    /// Takes an actor for idle that has put commands aside, or is just used seldom.
    PassivatesTheBusy,
    /// Drops what came while it was on its way out.
    LosesWhatRacesWithPassivation,
}

impl Fault {
    pub(crate) const ALL: [Self; 24] = [
        Self::AcknowledgesEarly,
        Self::LosesQueuedCommands,
        Self::RestartsInsteadOfRecovering,
        Self::RestartsAfterFencing,
        Self::RestartsAtOnce,
        Self::HidesFailedRecoveries,
        Self::StopsWithoutWaiting,
        Self::IgnoresHandledStops,
        Self::RestartsAfterKill,
        Self::KeepsItsId,
        Self::SleepsThroughWakes,
        Self::TakesAnyFlood,
        Self::ReversesWhatWaited,
        Self::SharesNothing,
        Self::KeepsWhatWaited,
        Self::RecoversToTheEnd,
        Self::RecoversOnItsOwn,
        Self::RecoversAnewWithEachCommand,
        Self::TriesWhatCannotWork,
        Self::GivesUp,
        Self::PassivatesForGood,
        Self::PassivatesNever,
        Self::PassivatesTheBusy,
        Self::LosesWhatRacesWithPassivation,
    ];
}

/// A thread for actors.
pub(crate) struct Mini {
    jobs: mpsc::UnboundedSender<Job>,
    fault: Option<Fault>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Default for Mini {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Mini {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        let (jobs, mut todo) = mpsc::unbounded_channel::<Job>();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            LocalSet::new().block_on(&runtime, async {
                while let Some(job) = todo.recv().await {
                    job();
                }
            });
        });
        Self { jobs, fault }
    }

    async fn start(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
        caller: Option<Caller>,
    ) -> Ref {
        let persistence = match self.fault {
            Some(Fault::AcknowledgesEarly) => alike(persistence, WriteBehind(persistence.journal().clone())),
            Some(Fault::SharesNothing) => alike(persistence, persistence.journal().clone()),
            _ => persistence.clone(),
        };
        let admission = match self.fault {
            Some(Fault::TakesAnyFlood) => Admission::new(usize::MAX),
            _ => persistent.options().admission(),
        };
        let (mailbox, messages) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(());
        let (alive, ended) = watch::channel(());
        let wakes = mailbox.downgrade();
        let fault = self.fault;
        let (task, started) = oneshot::channel();
        let job = move || {
            let actor = Actor {
                persistent,
                persistence,
                admission,
                messages,
                wakes,
                stopped,
                woken: Arc::default(),
                first: VecDeque::new(),
                fault,
                stays_here: Rc::new(()),
            };
            let _ = task.send(spawn_local(actor.run(caller, alive)).abort_handle());
        };
        assert!(self.jobs.send(Box::new(job)).is_ok(), "the thread lives");
        let task = started.await.unwrap();
        Ref(Arc::new(Address {
            mailbox,
            stop,
            task,
            ended,
            crashes: self.fault == Some(Fault::RestartsAfterKill),
        }))
    }
}

/// Whoever waits for a recovery.
type Caller = oneshot::Sender<Result<(), RecoveryError>>;

fn alike(persistence: &Persistence, journal: impl Journal) -> Persistence {
    let snapshots = persistence.snapshots().unwrap().clone();
    Persistence::builder(journal)
        .snapshots(snapshots)
        .runtime(Handle::current())
        .build()
        .unwrap()
}

#[derive(Clone)]
pub(crate) struct Ref(Arc<Address>);

struct Address {
    mailbox: mpsc::UnboundedSender<Message>,
    stop: watch::Sender<()>,
    task: AbortHandle,
    /// Closed with the actor.
    ended: watch::Receiver<()>,
    crashes: bool,
}

enum Message {
    Command(BoxedCommand<Tally>),
    Wake,
    /// Only with [`Fault::RestartsAfterKill`].
    Crash,
}

impl AdapterHarness for Mini {
    type Ref = Ref;

    async fn spawn(
        &self,
        persistent: Persistent<Tally>,
        persistence: &Persistence,
    ) -> Result<Ref, RecoveryError> {
        let (caller, recovered) = oneshot::channel();
        let actor = self.start(persistent, persistence, Some(caller)).await;
        recovered.await.unwrap().map(|()| actor)
    }

    async fn spawn_instant(&self, persistent: Persistent<Tally>, persistence: &Persistence) -> Ref {
        self.start(persistent, persistence, None).await
    }

    async fn ask<C>(actor: Ref, command: C) -> Result<C::Reply, Closed>
    where
        C: Command,
        Tally: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        let command = Message::Command(BoxedCommand::new(command, port));
        actor.0.mailbox.send(command).map_err(|_| Closed)?;
        reply.await.map_err(|_| Closed)
    }

    fn tell<C>(actor: &Ref, command: C)
    where
        C: Command,
        Tally: Handles<C>,
    {
        let command = Message::Command(BoxedCommand::new(command, NoPort));
        // Nobody waits.
        drop(actor.0.mailbox.send(command));
    }

    async fn stop(actor: Ref) {
        actor.0.stop.send_replace(());
        Self::ended(actor).await;
    }

    async fn kill(actor: Ref) -> Verdict {
        if actor.0.crashes {
            drop(actor.0.mailbox.send(Message::Crash));
            return Ok(());
        }
        actor.0.task.abort();
        Self::ended(actor).await;
        Ok(())
    }

    async fn ended(actor: Ref) {
        let mut ended = actor.0.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

struct Actor {
    persistent: Persistent<Tally>,
    persistence: Persistence,
    admission: Admission,
    messages: mpsc::UnboundedReceiver<Message>,
    wakes: mpsc::WeakUnboundedSender<Message>,
    stopped: watch::Receiver<()>,
    /// The engine wants to be looked at.
    woken: Arc<AtomicBool>,
    /// What came before this life.
    first: VecDeque<Message>,
    fault: Option<Fault>,
    #[expect(dead_code, reason = "an actor that cannot be sent to another thread")]
    stays_here: Rc<()>,
}

/// How a life ended.
enum End {
    Stopped,
    Passive,
    Failed(Option<Halt>),
}

impl From<Halt> for End {
    fn from(halt: Halt) -> Self {
        Self::Failed(Some(halt))
    }
}

/// Never, for actors that stay.
async fn next(looks: &mut Option<Interval>) {
    match looks {
        Some(looks) => drop(looks.tick().await),
        None => std::future::pending().await,
    }
}

impl Actor {
    async fn run(mut self, mut caller: Option<Caller>, _alive: watch::Sender<()>) {
        let mut restarts = Restarts::new(self.persistent.options().restart_backoff());
        let mut failures = 0;
        loop {
            let end = match self.recover(&mut caller).await {
                Ok(engine) => {
                    restarts.healthy();
                    self.live(engine).await.err().unwrap_or(End::Stopped)
                }
                Err(end) => {
                    // What waited for it is told that nothing comes of it.
                    if !self.has(Fault::KeepsWhatWaited) {
                        self.first.clear();
                        while self.messages.try_recv().is_ok() {}
                    }
                    end
                }
            };
            let next = match end {
                End::Stopped => return,
                End::Passive if self.has(Fault::PassivatesForGood) => return,
                End::Passive => Restart::Rest,
                End::Failed(halt) => {
                    failures += 1;
                    self.next(restarts.after(halt.as_ref()), failures)
                }
            };
            let goes_on = match next {
                Restart::After(wait) => tokio::select! {
                    biased;
                    _ = self.stopped.changed() => false,
                    () = tokio::time::sleep(wait) => true,
                },
                Restart::Rest => self.rest().await,
                Restart::End => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// What is to follow a failure, or what a fault makes of it.
    fn next(&self, next: Restart, failures: u32) -> Restart {
        const SOON: Duration = Duration::from_millis(1);
        match (self.fault, next) {
            (Some(Fault::RestartsAfterFencing), Restart::Rest)
            | (Some(Fault::TriesWhatCannotWork), Restart::End) => Restart::After(SOON),
            (Some(Fault::RestartsAtOnce), Restart::After(_)) => Restart::After(Duration::ZERO),
            (Some(Fault::GivesUp), _) if failures > 5 => Restart::End,
            (_, next) => next,
        }
    }

    async fn recover(&mut self, caller: &mut Option<Caller>) -> Result<Engine<Tally>, End> {
        let recover = self.attempt();
        let recovered = match self.fault {
            Some(Fault::RecoversToTheEnd) => recover.await,
            Some(Fault::RecoversOnItsOwn) => spawn_local(recover).await.unwrap(),
            Some(Fault::RecoversAnewWithEachCommand) => loop {
                tokio::select! {
                    recovered = self.attempt() => break recovered,
                    Some(message) = self.messages.recv() => self.first.push_back(message),
                }
            },
            _ => tokio::select! {
                biased;
                _ = self.stopped.changed() => return Err(End::Stopped),
                recovered = recover => recovered,
            },
        };
        let (engine, told) = match recovered {
            Ok(engine) => (Ok(engine), Ok(())),
            Err(error) if caller.is_none() || self.has(Fault::HidesFailedRecoveries) => {
                return Err(Halt::RecoveryFailed(Arc::new(error)).into());
            }
            Err(error) => (Err(End::Stopped), Err(error)),
        };
        if let Some(caller) = caller.take() {
            // Whoever spawned it may have gone.
            drop(caller.send(told));
        }
        engine
    }

    fn attempt(&self) -> impl Future<Output = Result<Engine<Tally>, RecoveryError>> + use<> {
        let (wakes, woken) = (self.wakes.clone(), self.woken.clone());
        let wake = move || {
            woken.store(true, Ordering::SeqCst);
            if let Some(mailbox) = wakes.upgrade() {
                drop(mailbox.send(Message::Wake));
            }
        };
        let (persistent, admission) = (self.persistent.clone(), self.admission.clone());
        let persistence = self.persistence.clone();
        async move { persistent.recover(&persistence, admission, wake).await }
    }

    async fn live(&mut self, mut engine: Engine<Tally>) -> Result<(), End> {
        let mut looks = self.persistent.options().idle_limit().map(tokio::time::interval);
        let mut waiting = Vec::new();
        if self.has(Fault::ReversesWhatWaited) {
            waiting.extend(std::iter::from_fn(|| self.messages.try_recv().ok()));
        }
        self.pump(&mut engine).await?;
        loop {
            let message = match self.first.pop_front().or_else(|| waiting.pop()) {
                Some(message) => Some(message),
                None => tokio::select! {
                    biased;
                    _ = self.stopped.changed() => break,
                    message = self.messages.recv() => match message {
                        Some(message) => Some(message),
                        None => break,
                    },
                    () = next(&mut looks) => None,
                },
            };
            if self.has(Fault::RestartsInsteadOfRecovering) && matches!(engine.step(), Ok(Step::Recover(_))) {
                // Only what the engine has is lost.
                self.first.extend(message);
                return Err(End::Failed(None));
            }
            match message {
                Some(Message::Command(command)) => engine.push(command),
                Some(Message::Wake) if self.has(Fault::SleepsThroughWakes) => continue,
                Some(Message::Wake) => {}
                Some(Message::Crash) => return Err(End::Failed(None)),
                None if self.may_pass(&mut engine) => {
                    drop(engine);
                    if self.has(Fault::LosesWhatRacesWithPassivation) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        while self.messages.try_recv().is_ok() {}
                    }
                    return Err(End::Passive);
                }
                None => {}
            }
            self.pump(&mut engine).await?;
            if engine.stop_is_due() && !self.has(Fault::IgnoresHandledStops) {
                break;
            }
        }
        match self.fault {
            Some(Fault::StopsWithoutWaiting) => {}
            Some(Fault::KeepsItsId) => std::mem::forget(engine),
            _ => engine.settled().await,
        }
        Ok(())
    }

    fn may_pass(&self, engine: &mut Engine<Tally>) -> bool {
        match self.fault {
            Some(Fault::PassivatesNever) => false,
            Some(Fault::PassivatesTheBusy) => true,
            _ => engine.was_idle(),
        }
    }

    async fn pump(&mut self, engine: &mut Engine<Tally>) -> Result<(), End> {
        loop {
            match engine.step()? {
                Step::Command(command) => {
                    let decision = engine.decide(self.persistent.model(), command);
                    engine.enact(decision);
                }
                Step::Settle(settled) => settled.await,
                Step::Recover(recovered) => {
                    if self.has(Fault::LosesQueuedCommands) && self.woken.swap(false, Ordering::SeqCst) {
                        while self.messages.try_recv().is_ok() {}
                    }
                    engine.resume(recovered.await)?;
                }
                Step::Idle => return Ok(()),
            }
        }
    }

    /// Waits for a command to begin a new life for; false if none can come.
    async fn rest(&mut self) -> bool {
        loop {
            tokio::select! {
                biased;
                _ = self.stopped.changed() => return false,
                message = self.messages.recv() => match message {
                    None => return false,
                    Some(Message::Wake | Message::Crash) => {}
                    Some(command) => {
                        self.first.push_back(command);
                        return true;
                    }
                },
            }
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A journal that acknowledges what it has not yet written.
#[derive(Debug)]
struct WriteBehind(Arc<dyn Journal>);

#[async_trait]
impl Journal for WriteBehind {
    fn info(&self) -> JournalInfo {
        self.0.info()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        let mut claim = self.0.claim(id, writer).await?;
        let (behind, mut writes) = mpsc::unbounded_channel::<Arc<[AtomicWrite]>>();
        let shown = Claim::new(
            id.clone(),
            writer,
            claim.epoch(),
            claim.incarnation(),
            *claim.bounds(),
        );
        let journal = self.0.clone();
        Handle::current().spawn(async move {
            while let Some(writes) = writes.recv().await {
                let expected = claim.highest();
                drop(journal.append(&mut claim, expected, writes).await);
            }
        });
        Ok(shown.with_backend(behind))
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let appended = claim.begin(expected, &writes, &self.capabilities())?;
        let behind = claim.backend_mut::<mpsc::UnboundedSender<Arc<[AtomicWrite]>>>();
        behind.unwrap().send(writes).unwrap();
        claim.stored(appended);
        Ok(appended)
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.0.bounds(id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.0.replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.0.delete_to(id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.0.purge(id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.0.flush().await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        self.0.shutdown().await
    }
}
