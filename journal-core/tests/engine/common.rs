//! A journal under the test's control, a small model, and the smallest adapter: a task that owns the engine.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use journal_core::{
    Appended, AtomicWrite, Bounds, BoxedCommand, Capabilities, Claim, Command, Deletion, Durability, Effect,
    Effects, Engine, ErrorKind, Event, EventSourced, EventStream, Halt, Handles, Journal, JournalError,
    JournalInfo, MemoryJournal, Operation, PersistError, Persistence, PersistenceId, Persistent,
    RecoveryError, ReplayRange, SequenceNr, Signal, WriterId, persistent,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

/// What happens to one append.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// It is stored.
    Stored,
    /// It fails, certainly not stored; transient ones are repeated by the engine.
    NotStored(ErrorKind),
    /// It is stored, but the answer is lost.
    StoredButUnknown,
    /// It is not stored, and the answer is lost.
    LostButUnknown,
    /// The journal rejects this write of it.
    RejectWrite(usize),
    /// Another writer claims just before.
    FencedBefore,
    /// The journal panics.
    Panic,
}

#[derive(Debug)]
pub(crate) struct Controlled {
    pub(crate) inner: MemoryJournal,
    pub(crate) fates: Mutex<VecDeque<Fate>>,
    /// Each append takes one; `usize::MAX >> 3` = never waits.
    pub(crate) gate: Semaphore,
    /// Sizes, in events, of the appends that were let through, with the number of writes.
    pub(crate) appends: Mutex<Vec<(usize, usize)>>,
    pub(crate) entered: Notify,
    pub(crate) claims: Mutex<u32>,
    pub(crate) flushes: Mutex<u32>,
    pub(crate) durability: Durability,
    pub(crate) group_commit: bool,
}

impl Controlled {
    pub(crate) fn open() -> Arc<Self> {
        Self::with(MemoryJournal::new(), true)
    }

    pub(crate) fn with(inner: MemoryJournal, open: bool) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fates: Mutex::default(),
            gate: Semaphore::new(if open { Semaphore::MAX_PERMITS / 2 } else { 0 }),
            appends: Mutex::default(),
            entered: Notify::new(),
            claims: Mutex::default(),
            flushes: Mutex::default(),
            durability: Durability::Memory,
            group_commit: false,
        })
    }

    /// A journal whose appends wait until [`Controlled::let_through`].
    pub(crate) fn gated() -> Arc<Self> {
        Self::with(MemoryJournal::new(), false)
    }

    pub(crate) fn let_through(&self, appends: usize) {
        self.gate.add_permits(appends);
    }

    pub(crate) fn fate(&self, fate: Fate) {
        self.fates.lock().unwrap().push_back(fate);
    }
}

#[async_trait]
impl Journal for Controlled {
    fn info(&self) -> JournalInfo {
        self.inner.info()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            group_commit: self.group_commit,
            durability: self.durability,
            ..Journal::capabilities(&self.inner)
        }
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        *self.claims.lock().unwrap() += 1;
        Journal::claim(&self.inner, id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        self.entered.notify_one();
        self.gate.acquire().await.unwrap().forget();
        let events = writes.iter().map(AtomicWrite::len).sum();
        self.appends.lock().unwrap().push((events, writes.len()));
        let fate = self.fates.lock().unwrap().pop_front().unwrap_or(Fate::Stored);
        let lost = |kind| JournalError::unknown(kind, Operation::Append, "the test lost the answer");
        match fate {
            Fate::Stored => Journal::append(&self.inner, claim, expected, writes).await,
            Fate::NotStored(kind) => Err(JournalError::not_stored(
                kind,
                Operation::Append,
                "the test refused it",
            )),
            Fate::StoredButUnknown => {
                Journal::append(&self.inner, claim, expected, writes).await?;
                claim.spend();
                Err(lost(ErrorKind::Timeout))
            }
            Fate::LostButUnknown => {
                claim.spend();
                Err(lost(ErrorKind::Timeout))
            }
            Fate::RejectWrite(index) => Err(JournalError::rejected(Some(index), "the test rejected it")),
            Fate::FencedBefore => {
                Journal::claim(&self.inner, &claim.id().clone(), WriterId::random()).await?;
                Journal::append(&self.inner, claim, expected, writes).await
            }
            Fate::Panic => panic!("the test's journal panics"),
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
        *self.flushes.lock().unwrap() += 1;
        Journal::flush(&self.inner).await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.inner).await
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Happened {
    Added(i64),
    Noted(String),
    Reset,
    ApplyPanics,
}

impl Event for Happened {
    const MANIFEST: &'static str = "happened";
    const VERSION: u32 = 1;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) total: i64,
    pub(crate) notes: u64,
}

/// Sums up; tells its signals and effects to the test.
#[derive(Debug)]
pub(crate) struct Summing {
    pub(crate) told: mpsc::UnboundedSender<Told>,
}

#[derive(Debug, Clone)]
pub(crate) enum Told {
    Signal(Signal),
    Effect(String),
}

impl EventSourced for Summing {
    type Event = Happened;
    type State = Sum;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Sum, event: &Happened) {
        match event {
            Happened::Added(amount) => state.total += amount,
            Happened::Noted(_) => state.notes += 1,
            Happened::Reset => *state = Sum::default(),
            Happened::ApplyPanics => panic!("apply panics"),
        }
    }

    fn signal(&self, signal: &Signal) {
        drop(self.told.send(Told::Signal(signal.clone())));
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Failure(pub(crate) PersistError);

impl From<PersistError> for Failure {
    fn from(error: PersistError) -> Self {
        Self(error)
    }
}

pub(crate) type Reply<T> = Result<T, Failure>;

macro_rules! commands {
    ($($name:ident $( ( $($field:ty),* ) )? -> $reply:ty = |$model:ident, $state:ident, $command:pat_param| $effect:expr;)*) => {
        $(
            #[derive(Debug, Clone)]
            pub(crate) struct $name $( ( $(pub(crate) $field),* ) )?;
            impl Command for $name { type Reply = $reply; }
            impl Handles<$name> for Summing {
                fn handle(&self, $state: &Sum, $command: $name) -> Effect<Self, $reply> {
                    let $model = self;
                    $effect
                }
            }
        )*
    };
}

commands! {
    Add(i64) -> Reply<i64> = |model, _state, Add(amount)| model.persist(Happened::Added(amount)).then_reply(|s| Ok(s.total));
    AddAll(Vec<i64>) -> Reply<i64> = |model, _state, AddAll(amounts)|
        model.persist_all(amounts.into_iter().map(Happened::Added)).then_reply(|s| Ok(s.total));
    Tell(i64) -> () = |model, _state, Tell(amount)| model.persist(Happened::Added(amount));
    Note(String) -> Reply<u64> = |model, _state, Note(text)| model.persist(Happened::Noted(text)).then_reply(|s| Ok(s.notes));
    Get -> Reply<i64> = |model, state, Get| model.reply(Ok(state.total));
    Run(&'static str) -> Reply<()> = |model, _state, Run(what)| {
        let told = model.told.clone();
        model.persist(Happened::Added(1)).then_run(move |s| {
            let total = s.total;
            move || drop(told.send(Told::Effect(format!("{what} {total}"))))
        }).then_reply(|_| Ok(()))
    };
    PanicInHandle -> Reply<()> = |_model, _state, PanicInHandle| panic!("handle panics");
    PanicInApply -> Reply<()> = |model, _state, PanicInApply| model.persist(Happened::ApplyPanics).then_reply(|_| Ok(()));
    Stop -> Reply<()> = |model, _state, Stop| model.persist(Happened::Added(0)).then_stop().then_reply(|_| Ok(()));
    TakeSnapshot -> Reply<()> = |model, _state, TakeSnapshot| model.none().then_snapshot().then_reply(|_| Ok(()));
    DeleteTo(u64) -> Reply<()> = |model, _state, DeleteTo(to)| model.none().then_delete_to(SequenceNr::new(to)).then_reply(|_| Ok(()));
    Restart -> Reply<()> = |model, _state, Restart| model.persist(Happened::Reset).then_restart_from_here().then_reply(|_| Ok(()));
    RestartWrongly -> Reply<()> = |model, _state, RestartWrongly| model.persist(Happened::Added(7)).then_restart_from_here().then_reply(|_| Ok(()));
    StashUntil(i64) -> Reply<i64> = |model, state, StashUntil(total)|
        if state.total < total { model.stash(StashUntil(total)) } else { model.reply(Ok(state.total)) };
    AddAndUnstash(i64) -> Reply<i64> = |model, _state, AddAndUnstash(amount)|
        model.persist(Happened::Added(amount)).then_unstash_all().then_reply(|s| Ok(s.total));
}

enum Message {
    Command(BoxedCommand<Summing>),
    Wake,
}

/// The smallest adapter.
pub(crate) struct Mini {
    mailbox: mpsc::UnboundedSender<Message>,
    pub(crate) task: tokio::task::JoinHandle<Result<Sum, Halt>>,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
}

impl Mini {
    pub(crate) async fn spawn(persistence: &Persistence, id: &str) -> Result<Self, RecoveryError> {
        Self::spawn_with(persistence, id, |persistent| persistent).await
    }

    pub(crate) async fn spawn_with(
        persistence: &Persistence,
        id: &str,
        options: impl FnOnce(Persistent<Summing>) -> Persistent<Summing>,
    ) -> Result<Self, RecoveryError> {
        let (told, hears) = mpsc::unbounded_channel();
        let persistent = options(persistent(Summing { told }, id));
        let (mailbox, mut messages) = mpsc::unbounded_channel();
        let wake = {
            let mailbox = mailbox.downgrade();
            move || {
                if let Some(mailbox) = mailbox.upgrade() {
                    drop(mailbox.send(Message::Wake));
                }
            }
        };
        let admission = persistent.admission();
        let mut engine = Engine::recover(persistent, persistence, admission, wake).await?;
        let task = tokio::task::spawn(async move {
            while let Some(message) = messages.recv().await {
                match message {
                    Message::Command(command) => engine.process(command).await?,
                    Message::Wake => engine.refresh().await?,
                }
                if engine.stop_is_due() {
                    break;
                }
            }
            engine.settled().await;
            Ok(engine.state().clone())
        });
        Ok(Self {
            mailbox,
            task,
            told: hears,
        })
    }

    /// Sends a command; the reply comes through the receiver.
    pub(crate) fn send<C: Command>(&self, command: C) -> oneshot::Receiver<C::Reply>
    where
        Summing: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        drop(
            self.mailbox
                .send(Message::Command(BoxedCommand::new(command, port))),
        );
        reply
    }

    pub(crate) async fn ask<C: Command>(&self, command: C) -> C::Reply
    where
        Summing: Handles<C>,
    {
        self.send(command).await.expect("the actor answers")
    }

    /// Ends the actor gracefully; its last state.
    pub(crate) async fn end(self) -> Result<Sum, Halt> {
        drop(self.mailbox);
        self.task.await.unwrap()
    }

    /// The next signal that `pick` wants.
    pub(crate) async fn signal<T>(&mut self, pick: impl Fn(&Signal) -> Option<T>) -> T {
        loop {
            if let Told::Signal(signal) = self.told.recv().await.expect("the signal comes")
                && let Some(picked) = pick(&signal)
            {
                return picked;
            }
        }
    }
}

pub(crate) fn persistence(journal: &Arc<Controlled>) -> Persistence {
    Persistence::builder(journal.clone()).build().unwrap()
}
