//! A journal and a snapshot store under the test's control, a small model, and the smallest adapter: a task that owns
//! the engine.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use journal_core::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Command, Deletion, Delivers, DeliveryId,
    Durability, Effect, Effects, EncodedEvent, ErrorKind, Event, EventSerializer, EventSourced, EventStream,
    FromFailure, Handles, Incarnation, Journal, JournalError, JournalInfo, Loaded, MemoryJournal,
    MessagePack, Operation, PersistError, Persistence, PersistenceBuilder, PersistenceId, Persistent, Record,
    RecoveryError, ReplayRange, SelectionCriteria, SequenceNr, Signal, SkippedSnapshot, Snapshot,
    SnapshotError, SnapshotMetadata, SnapshotStore, Timestamp, Upcasters, WriterId,
    adapter::{Admission, BoxedCommand, Halt},
    persistent,
};
use serde::{Deserialize, Serialize};
use snapshot_store::MemorySnapshotStore;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

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
    /// Another writer stores this instead, and the answer is lost.
    OverwrittenButUnknown(Happened),
    /// The journal rejects this write of it, or all of it.
    Reject(Option<usize>),
    /// Another writer claims just before.
    FencedBefore,
    /// It is stored, another writer claims just after, and the journal knows.
    StoredThenFenced,
    /// Another writer claims just after, and the journal does not know whether it is stored.
    FencedUnknown,
    /// In a group: no answer at all.
    NoAnswer,
    /// `Ok` with numbers that are not those asked for.
    WrongNumbers,
    /// The journal panics.
    Panic,
    /// It takes for ever.
    Hangs,
}

/// What happens to one claim, replay or deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Fails,
    Hangs,
    Panics,
    /// Each event of a replay comes alone, after this long.
    Slow(Duration),
    /// A claim, after which everything is deleted.
    ThenDeletes,
    /// A replay ends silently.
    Ends,
}

impl Trouble {
    async fn strike(self, operation: Operation) -> Result<(), JournalError> {
        match self {
            Self::Fails => Err(JournalError::not_stored(
                ErrorKind::Unavailable,
                operation,
                "the test's journal is unavailable",
            )),
            Self::Hangs => pending().await,
            Self::Panics => panic!("the test's journal panics"),
            Self::Slow(wait) => {
                sleep(wait).await;
                Ok(())
            }
            Self::ThenDeletes | Self::Ends => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Controlled {
    pub(crate) inner: MemoryJournal,
    pub(crate) fates: Mutex<VecDeque<Fate>>,
    pub(crate) troubles: Mutex<HashMap<Operation, VecDeque<Trouble>>>,
    /// Each append takes one.
    pub(crate) gate: Semaphore,
    /// How long each append takes.
    pub(crate) takes: Duration,
    /// All that was ever stored in the life of an id, whatever was deleted since.
    pub(crate) history: Mutex<HashMap<PersistenceId, Vec<Happened>>>,
    /// The sizes of the writes, in events, of each append that was let through.
    pub(crate) appends: Mutex<Vec<Vec<usize>>>,
    /// Gets one from each append.
    pub(crate) entered: Semaphore,
    pub(crate) claims: Mutex<u32>,
    pub(crate) flushes: Mutex<u32>,
    pub(crate) durability: Durability,
    pub(crate) group_commit: bool,
}

impl Controlled {
    pub(crate) fn open() -> Arc<Self> {
        Arc::new(Self::new(MemoryJournal::new()))
    }

    pub(crate) fn new(inner: MemoryJournal) -> Self {
        Self {
            inner,
            fates: Mutex::default(),
            troubles: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            takes: Duration::ZERO,
            history: Mutex::default(),
            appends: Mutex::default(),
            entered: Semaphore::new(0),
            claims: Mutex::default(),
            flushes: Mutex::default(),
            durability: Durability::Memory,
            group_commit: false,
        }
    }

    /// A journal whose appends wait until [`Controlled::let_through`].
    pub(crate) fn gated() -> Arc<Self> {
        Arc::new(Self::new(MemoryJournal::new()).closed())
    }

    pub(crate) fn closed(self) -> Self {
        Self {
            gate: Semaphore::new(0),
            ..self
        }
    }

    pub(crate) fn let_through(&self, appends: usize) {
        self.gate.add_permits(appends);
    }

    /// Waits until one more append is in flight.
    pub(crate) async fn append_entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    pub(crate) fn fate(&self, fate: Fate) {
        self.fates.lock().unwrap().push_back(fate);
    }

    pub(crate) fn trouble(&self, operation: Operation, trouble: Trouble) {
        self.troubles
            .lock()
            .unwrap()
            .entry(operation)
            .or_default()
            .push_back(trouble);
    }

    fn next_trouble(&self, operation: Operation) -> Option<Trouble> {
        self.troubles.lock().unwrap().get_mut(&operation)?.pop_front()
    }

    async fn strike(&self, operation: Operation) -> Result<(), JournalError> {
        match self.next_trouble(operation) {
            Some(trouble) => trouble.strike(operation).await,
            None => Ok(()),
        }
    }

    async fn pass(&self, writes: &[AtomicWrite]) -> Fate {
        self.entered.add_permits(1);
        self.gate.acquire().await.unwrap().forget();
        if !self.takes.is_zero() {
            sleep(self.takes).await;
        }
        let sizes = writes.iter().map(AtomicWrite::len).collect();
        self.appends.lock().unwrap().push(sizes);
        self.fates.lock().unwrap().pop_front().unwrap_or(Fate::Stored)
    }

    async fn store(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let appended = Journal::append(&self.inner, claim, expected, writes.clone()).await?;
        let mut history = self.history.lock().unwrap();
        let history = history.entry(claim.id().clone()).or_default();
        assert_eq!(appended.first.get(), history.len() as u64 + 1);
        for event in writes.iter().flat_map(|write| &write.events) {
            history.push(happened(event));
        }
        assert_eq!(appended.last.get(), history.len() as u64);
        Ok(appended)
    }

    async fn decide(
        &self,
        fate: Fate,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let inner = &self.inner;
        let lost = |kind| JournalError::unknown(kind, Operation::Append, "the test lost the answer");
        match fate {
            Fate::Stored => self.store(claim, expected, writes).await,
            Fate::NotStored(kind) => Err(JournalError::not_stored(
                kind,
                Operation::Append,
                "the test refused it",
            )),
            Fate::StoredButUnknown => {
                self.store(claim, expected, writes).await?;
                claim.spend();
                Err(lost(ErrorKind::Timeout))
            }
            Fate::LostButUnknown => {
                claim.spend();
                Err(lost(ErrorKind::Timeout))
            }
            Fate::OverwrittenButUnknown(event) => {
                self.another_writes(claim.id(), event).await;
                claim.spend();
                Err(lost(ErrorKind::Timeout))
            }
            Fate::Reject(index) => Err(JournalError::rejected(index, "the test rejected it")),
            Fate::FencedBefore => {
                Journal::claim(inner, &claim.id().clone(), WriterId::random()).await?;
                self.store(claim, expected, writes).await
            }
            Fate::StoredThenFenced => {
                let appended = self.store(claim, expected, writes).await?;
                Journal::claim(inner, claim.id(), WriterId::random()).await?;
                claim.spend();
                Ok(appended)
            }
            Fate::FencedUnknown => {
                self.store(claim, expected, writes).await?;
                Journal::claim(inner, claim.id(), WriterId::random()).await?;
                claim.spend();
                Err(lost(ErrorKind::Fenced))
            }
            Fate::NoAnswer => panic!("only a group can be without an answer"),
            Fate::WrongNumbers => {
                self.store(claim, expected, writes).await?;
                Ok(Appended {
                    first: SequenceNr::FIRST,
                    last: SequenceNr::MAX,
                })
            }
            Fate::Panic => panic!("the test's journal panics"),
            Fate::Hangs => pending().await,
        }
    }

    /// Another process claims the id and writes.
    pub(crate) async fn another_writes(&self, id: &PersistenceId, event: Happened) {
        let mut claim = Journal::claim(&self.inner, id, WriterId::random()).await.unwrap();
        let highest = claim.highest();
        let writes = Arc::new([AtomicWrite::from(encoded(&event))]);
        self.store(&mut claim, highest, writes).await.unwrap();
    }

    pub(crate) async fn delete(&self, id: &PersistenceId, to: u64, fresh_start: bool) {
        let incarnation = Journal::bounds(&self.inner, id).await.unwrap().incarnation;
        let deletion = Deletion {
            to: SequenceNr::new(to),
            incarnation: incarnation.unwrap(),
            fresh_start,
        };
        Journal::delete_to(&self.inner, id, deletion).await.unwrap();
    }

    pub(crate) async fn bounds_of(&self, id: &str) -> Bounds {
        Journal::bounds(&self.inner, &pid(id)).await.unwrap()
    }

    /// The stored events from the first that is not deleted, and its number.
    pub(crate) async fn stored(&self, id: &str) -> Vec<(u64, Happened)> {
        let records = Journal::replay(&self.inner, &pid(id), ReplayRange::ALL);
        records
            .map(|record| {
                let record = record.unwrap();
                (record.sequence_nr.get(), happened(&record.event))
            })
            .collect()
            .await
    }

    pub(crate) fn sizes(&self) -> Vec<Vec<usize>> {
        self.appends.lock().unwrap().clone()
    }
}

/// Events of the engine too, by their documented layout.
fn happened(event: &EncodedEvent) -> Happened {
    let payload = &event.payload[..];
    match event.manifest.as_str() {
        "actor-journal/deliver" => {
            let manifest = usize::from(u16::from_le_bytes(payload[6..8].try_into().unwrap()));
            Happened::Owed(rmp_serde::from_slice(&payload[8 + manifest..]).unwrap())
        }
        "actor-journal/confirm" => Happened::Confirmed(u64::from_le_bytes(payload.try_into().unwrap())),
        _ => rmp_serde::from_slice(payload).unwrap(),
    }
}

pub(crate) fn encoded(event: &Happened) -> EncodedEvent {
    let events = EventSerializer::new(Arc::new(MessagePack)).unwrap();
    events.encode(event, Timestamp(0)).unwrap()
}

pub(crate) fn pid(id: &str) -> PersistenceId {
    PersistenceId::new(id).unwrap()
}

#[async_trait]
impl Journal for Controlled {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.inner)
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
        let trouble = self.next_trouble(Operation::Claim);
        if let Some(trouble) = trouble {
            trouble.strike(Operation::Claim).await?;
        }
        let claim = Journal::claim(&self.inner, id, writer).await?;
        if trouble == Some(Trouble::ThenDeletes) {
            self.delete(id, claim.highest().get(), false).await;
        }
        Ok(claim)
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let fate = self.pass(&writes).await;
        self.decide(fate, claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        for part in parts {
            let fate = self.pass(&part.writes).await;
            if !matches!(fate, Fate::NoAnswer) {
                let writes = part.writes.clone();
                part.result = Some(self.decide(fate, &mut part.claim, part.expected, writes).await);
            }
        }
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        self.strike(Operation::Bounds).await?;
        Journal::bounds(&self.inner, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        let records = Journal::replay(&self.inner, id, range);
        let Some(trouble) = self.next_trouble(Operation::Replay) else {
            return records;
        };
        if trouble == Trouble::Ends {
            return EventStream::new(records.take(1).map(|record| Ok(vec![record?])));
        }
        // One event comes, then the trouble, then the rest.
        EventStream::new(records.enumerate().then(
            move |(index, record): (usize, Result<Record, JournalError>)| async move {
                if index > 0 {
                    trouble.strike(Operation::Replay).await?;
                }
                Ok(vec![record?])
            },
        ))
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.strike(Operation::DeleteTo).await?;
        Journal::delete_to(&self.inner, id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        self.history.lock().unwrap().remove(id);
        Journal::purge(&self.inner, id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        self.strike(Operation::Flush).await?;
        *self.flushes.lock().unwrap() += 1;
        Journal::flush(&self.inner).await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.inner).await
    }
}

/// What happens to one call of the snapshot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Fails,
    Hangs,
    Panics,
    /// A load gives the newest with a payload that does not decode.
    Garbles,
    /// A load skips the newest as damaged.
    Skips,
    /// Waits for a permit of the gate.
    Waits,
    /// A load waits for a permit of the gate once it has loaded.
    WaitsLoaded,
}

/// A call of the snapshot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Save,
    Load,
    List,
    Delete,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(crate) inner: MemorySnapshotStore,
    pub(crate) faults: Mutex<HashMap<Call, VecDeque<Fault>>>,
    pub(crate) gate: Semaphore,
    /// The numbers handed over to be saved.
    pub(crate) saves: Mutex<Vec<u64>>,
}

impl Snapshots {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemorySnapshotStore::new(),
            faults: Mutex::default(),
            gate: Semaphore::new(0),
            saves: Mutex::default(),
        })
    }

    pub(crate) fn fault(&self, call: Call, fault: Fault) {
        self.faults
            .lock()
            .unwrap()
            .entry(call)
            .or_default()
            .push_back(fault);
    }

    async fn strike(&self, call: Call) -> Result<Fault, SnapshotError> {
        let fault = self
            .faults
            .lock()
            .unwrap()
            .get_mut(&call)
            .and_then(VecDeque::pop_front)
            .unwrap_or(Fault::None);
        match fault {
            Fault::Fails => Err(SnapshotError::new("call", "the test's store fails")),
            Fault::Hangs => pending().await,
            Fault::Panics => panic!("the test's store panics"),
            Fault::Waits => {
                self.gate.acquire().await.unwrap().forget();
                Ok(fault)
            }
            fault => Ok(fault),
        }
    }

    /// Waits until a snapshot was handed over.
    pub(crate) async fn save_entered(&self) {
        while self.saves.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// The numbers of the saved snapshots, newest first.
    pub(crate) async fn saved(&self, id: &str) -> Vec<u64> {
        let all = self.inner.list(&pid(id), SelectionCriteria::ALL).await.unwrap();
        all.iter().map(|snapshot| snapshot.sequence_nr.get()).collect()
    }

    /// Puts a snapshot there that no actor saved.
    pub(crate) async fn plant(&self, id: &str, sequence_nr: u64, incarnation: Incarnation, payload: Bytes) {
        let metadata = SnapshotMetadata {
            persistence_id: pid(id),
            sequence_nr: SequenceNr::new(sequence_nr),
            incarnation,
            timestamp: Timestamp(0),
        };
        self.inner.save(Snapshot { metadata, payload }).await.unwrap();
    }
}

#[async_trait]
impl SnapshotStore for Snapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        self.saves
            .lock()
            .unwrap()
            .push(snapshot.metadata.sequence_nr.get());
        self.strike(Call::Save).await?;
        self.inner.save(snapshot).await
    }

    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        let fault = self.strike(Call::Load).await?;
        let mut loaded = self.inner.load(id, criteria).await?;
        if let Some(snapshot) = &mut loaded.snapshot {
            match fault {
                Fault::Garbles => snapshot.payload = Bytes::from_static(b"garbled"),
                Fault::Skips => {
                    let before = snapshot.metadata.sequence_nr.previous();
                    loaded = self.inner.load(id, criteria.up_to(before)).await?;
                    loaded.skipped.push(SkippedSnapshot {
                        location: "the newest".to_owned(),
                        reason: "half-written".to_owned(),
                    });
                }
                _ => {}
            }
        }
        if fault == Fault::WaitsLoaded {
            self.gate.acquire().await.unwrap().forget();
        }
        Ok(loaded)
    }

    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        self.strike(Call::List).await?;
        self.inner.list(id, criteria).await
    }

    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.strike(Call::Delete).await?;
        self.inner.delete(snapshot).await
    }

    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.strike(Call::Delete).await?;
        self.inner.delete_matching(id, criteria).await
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Happened {
    Added(i64),
    Noted(String),
    Reset,
    ApplyPanics,
    #[serde(serialize_with = "cannot_be_encoded")]
    Unencodable,
    /// A delivery is recorded.
    #[serde(skip)]
    Owed(Parcel),
    /// It is confirmed.
    #[serde(skip)]
    Confirmed(u64),
}

/// What is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Parcel {
    Holding(i64),
    Large(String),
    /// Sending it panics.
    Fragile,
    #[serde(serialize_with = "cannot_be_encoded")]
    Unencodable,
    #[serde(deserialize_with = "cannot_be_decoded")]
    Undecodable,
}

impl Event for Parcel {
    const MANIFEST: &'static str = "parcel";
    const VERSION: u32 = 2;

    fn upcasters() -> Upcasters<Self> {
        Upcasters::new().register("parcel", 1, Parcel::Holding)
    }
}

fn cannot_be_encoded<S>(_: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
{
    Err(serde::ser::Error::custom("this event cannot be encoded"))
}

fn cannot_be_decoded<'de, D>(_: D) -> Result<(), D::Error>
where
    D: serde::Deserializer<'de>,
{
    Err(serde::de::Error::custom("this delivery cannot be decoded"))
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
pub(crate) struct Summing {
    pub(crate) told: mpsc::UnboundedSender<Told>,
    pub(crate) hooks: Hooks,
}

/// What a test puts into the model.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) recovered: Option<fn(&Summing, &Sum) -> Effect<Summing>>,
    pub(crate) signal: Option<fn(&Signal)>,
    pub(crate) send: Option<SendHook>,
}

pub(crate) type SendHook = Arc<dyn Fn(DeliveryId, &Parcel) + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) enum Told {
    Signal(Signal),
    Effect(String),
    Delivery(u64, Parcel),
}

impl EventSourced for Summing {
    type Event = Happened;
    type State = Sum;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Sum, event: &Happened) {
        match event {
            Happened::Added(amount) => state.total += amount,
            Happened::Noted(_) | Happened::Unencodable => state.notes += 1,
            Happened::Owed(_) | Happened::Confirmed(_) => panic!("an event of the engine is applied"),
            Happened::Reset => *state = Sum::default(),
            Happened::ApplyPanics => panic!("apply panics"),
        }
    }

    fn recovered(&self, state: &Sum) -> Effect<Self> {
        match self.hooks.recovered {
            Some(recovered) => recovered(self, state),
            None => self.none(),
        }
    }

    fn signal(&self, signal: &Signal) {
        drop(self.told.send(Told::Signal(signal.clone())));
        if let Some(hook) = self.hooks.signal {
            hook(signal);
        }
    }
}

impl Delivers for Summing {
    type Delivery = Parcel;

    fn send(&self, id: DeliveryId, parcel: Parcel) {
        drop(self.told.send(Told::Delivery(id.get(), parcel.clone())));
        if let Some(hook) = &self.hooks.send {
            hook(id, &parcel);
        }
        assert_ne!(parcel, Parcel::Fragile, "sending panics");
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
    Refuse -> Result<(), Refusal> = |model, _state, Refuse| model.reply(Err(Refusal("validation")));
    Unencodable -> Reply<()> = |model, _state, Unencodable|
        model.persist_all([Happened::Added(1_000), Happened::Unencodable]).then_reply(|_| Ok(()));
    Run(&'static str) -> Reply<()> = |model, _state, Run(what)| {
        let told = model.told.clone();
        model.persist(Happened::Added(1)).then_run(move |s| {
            let total = s.total;
            move || drop(told.send(Told::Effect(format!("{what} {total}"))))
        }).then_reply(|_| Ok(()))
    };
    Do(Box<dyn FnOnce() + Send>) -> Reply<()> = |model, _state, Do(run)|
        model.persist(Happened::Added(1)).then_run(move |_| run).then_reply(|_| Ok(()));
    PanicInHandle -> Reply<()> = |_model, _state, PanicInHandle| panic!("handle panics");
    PanicInApply -> Reply<()> = |model, _state, PanicInApply|
        model.persist_all([Happened::Added(1), Happened::ApplyPanics]).then_reply(|_| Ok(()));
    PanicInReply -> Reply<()> = |model, _state, PanicInReply| model.persist(Happened::Added(1)).then_reply(|_| panic!("reply panics"));
    PanicInOuter -> Reply<()> = |model, _state, PanicInOuter|
        model.persist(Happened::Added(1)).then_run(|_| -> fn() { panic!("the outer stage panics") }).then_reply(|_| Ok(()));
    Stop -> Reply<()> = |model, _state, Stop| model.persist(Happened::Added(0)).then_stop().then_reply(|_| Ok(()));
    Quit -> Reply<()> = |model, _state, Quit| model.none().then_stop().then_reply(|_| Ok(()));
    RunAndStop -> Reply<()> = |model, _state, RunAndStop| {
        let told = model.told.clone();
        model.persist(Happened::Added(5)).then_stop()
            .then_run(move |_| move || drop(told.send(Told::Effect("stops".to_owned())))).then_reply(|_| Ok(()))
    };
    TakeSnapshot -> Reply<()> = |model, _state, TakeSnapshot| model.none().then_snapshot().then_reply(|_| Ok(()));
    DeleteTo(u64) -> Reply<()> = |model, _state, DeleteTo(to)| model.none().then_delete_to(SequenceNr::new(to)).then_reply(|_| Ok(()));
    Restart -> Reply<()> = |model, _state, Restart| model.persist(Happened::Reset).then_restart_from_here().then_reply(|_| Ok(()));
    RestartUnchanged -> Reply<()> = |model, _state, RestartUnchanged| model.none().then_restart_from_here().then_reply(|_| Ok(()));
    RestartWrongly -> Reply<()> = |model, _state, RestartWrongly| model.persist(Happened::Added(7)).then_restart_from_here().then_reply(|_| Ok(()));
    StashUntil(i64) -> Reply<i64> = |model, state, StashUntil(total)|
        if state.total < total { model.stash(StashUntil(total)) } else { model.reply(Ok(state.total)) };
    AddOnce(i64, i64) -> Reply<i64> = |model, state, AddOnce(total, amount)|
        if state.total < total { model.stash(AddOnce(total, amount)) } else { model.persist(Happened::Added(amount)).then_reply(|s| Ok(s.total)) };
    AddAndUnstash(i64) -> Reply<i64> = |model, _state, AddAndUnstash(amount)|
        model.persist(Happened::Added(amount)).then_unstash_all().then_reply(|s| Ok(s.total));
    Deliver(Vec<Parcel>) -> Reply<()> = |model, _state, Deliver(parcels)|
        parcels.into_iter().fold(model.none(), Effect::then_deliver).then_reply(|_| Ok(()));
    AddAndDeliver(i64, Parcel) -> Reply<i64> = |model, _state, AddAndDeliver(amount, parcel)|
        model.persist(Happened::Added(amount)).then_deliver(parcel).then_reply(|s| Ok(s.total));
    Confirm(Vec<u64>) -> Reply<()> = |model, _state, Confirm(ids)|
        ids.into_iter().map(DeliveryId::new).fold(model.none(), Effect::then_confirm).then_reply(|_| Ok(()));
    Exchange(Vec<u64>, Vec<Parcel>) -> Reply<()> = |model, _state, Exchange(ids, parcels)| {
        let confirming = ids.into_iter().map(DeliveryId::new).fold(model.none(), Effect::then_confirm);
        parcels.into_iter().fold(confirming, Effect::then_deliver).then_reply(|_| Ok(()))
    };
    DeliverAndSnapshot(Parcel) -> Reply<()> = |model, _state, DeliverAndSnapshot(parcel)|
        model.none().then_deliver(parcel).then_snapshot().then_reply(|_| Ok(()));
    ConfirmAndRestart(Vec<u64>, Vec<Parcel>) -> Reply<()> = |model, _state, ConfirmAndRestart(ids, parcels)| {
        let confirming = ids.into_iter().map(DeliveryId::new).fold(model.persist(Happened::Reset), Effect::then_confirm);
        parcels.into_iter().fold(confirming, Effect::then_deliver).then_restart_from_here().then_reply(|_| Ok(()))
    };
    DeliverWhen(i64, Parcel) -> Reply<()> = |model, state, DeliverWhen(total, parcel)|
        if state.total < total { model.stash(DeliverWhen(total, parcel)) } else { model.none().then_deliver(parcel).then_reply(|_| Ok(())) };
    Touch -> Touchy = |model, _state, Touch| model.persist(Happened::Added(1)).then_reply(|_| Touchy);
    Seen(oneshot::Sender<()>) -> () = |model, _state, Seen(seen)| { let _ = seen.send(()); model.none() };
    Odd -> () = |model, _state, Odd| model.unhandled();
}

/// An error of the application.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) &'static str);

impl From<PersistError> for Refusal {
    fn from(_: PersistError) -> Self {
        Self("not persisted")
    }
}

/// A reply whose conversion from a failure panics.
#[derive(Debug)]
pub(crate) struct Touchy;

impl FromFailure for Touchy {
    fn from_failure(_: PersistError) -> Option<Self> {
        panic!("the conversion panics")
    }
}

enum Message {
    Command(BoxedCommand<Summing>),
    Wake,
}

/// The smallest adapter.
pub(crate) struct Mini {
    mailbox: mpsc::UnboundedSender<Message>,
    pub(crate) admission: Admission,
    pub(crate) task: JoinHandle<Result<Sum, Halt>>,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
}

pub(crate) type Describe = fn(Persistent<Summing>) -> Persistent<Summing>;

impl Mini {
    pub(crate) async fn spawn(persistence: &Persistence, id: &str) -> Result<Self, RecoveryError> {
        Self::spawn_with(persistence, id, |persistent| persistent).await
    }

    pub(crate) async fn spawn_with(
        persistence: &Persistence,
        id: &str,
        options: impl FnOnce(Persistent<Summing>) -> Persistent<Summing>,
    ) -> Result<Self, RecoveryError> {
        Self::spawn_hooked(persistence, id, Hooks::default(), options).await
    }

    pub(crate) async fn spawn_hooked(
        persistence: &Persistence,
        id: &str,
        hooks: Hooks,
        options: impl FnOnce(Persistent<Summing>) -> Persistent<Summing>,
    ) -> Result<Self, RecoveryError> {
        let (told, hears) = mpsc::unbounded_channel();
        Self::spawn_telling(persistence, id, hooks, options, told)
            .await
            .map(|mini| Self { told: hears, ..mini })
    }

    /// Tells also when it does not recover.
    pub(crate) async fn spawn_telling(
        persistence: &Persistence,
        id: &str,
        hooks: Hooks,
        options: impl FnOnce(Persistent<Summing>) -> Persistent<Summing>,
        told: mpsc::UnboundedSender<Told>,
    ) -> Result<Self, RecoveryError> {
        let persistent = options(persistent(Summing { told, hooks }, id));
        let (mailbox, mut messages) = mpsc::unbounded_channel();
        let wake = {
            let mailbox = mailbox.downgrade();
            move || {
                if let Some(mailbox) = mailbox.upgrade() {
                    drop(mailbox.send(Message::Wake));
                }
            }
        };
        let admission = persistent.options().admission();
        let mut engine = persistent.recover(persistence, admission.clone(), wake).await?;
        let task = Handle::current().spawn(async move {
            while let Some(message) = messages.recv().await {
                if let Message::Command(command) = message {
                    engine.push(command);
                }
                engine.run(persistent.model()).await?;
                if engine.stop_is_due() {
                    break;
                }
            }
            engine.settled().await;
            Ok(engine.state().clone())
        });
        Ok(Self {
            mailbox,
            admission,
            task,
            told: mpsc::unbounded_channel().1,
        })
    }

    /// Sends a command; the reply comes through the receiver.
    pub(crate) fn send<C: Command>(&self, command: C) -> oneshot::Receiver<C::Reply>
    where
        Summing: Handles<C>,
    {
        self.sender().send(command)
    }

    pub(crate) fn deliver(&self, command: BoxedCommand<Summing>) {
        drop(self.mailbox.send(Message::Command(command)));
    }

    pub(crate) fn sender(&self) -> Sender {
        Sender(self.mailbox.downgrade())
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

    /// Ends the actor, gracefully unless it is dead already.
    pub(crate) async fn end_or_die(self) {
        drop(self.mailbox);
        drop(self.task.await);
    }

    /// The actor dies where it stands.
    pub(crate) async fn kill(self) -> mpsc::UnboundedReceiver<Told> {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        self.told
    }

    /// The next signal that `pick` wants.
    pub(crate) async fn signal<T>(&mut self, pick: impl FnMut(&Signal) -> Option<T>) -> T {
        next_signal(&mut self.told, pick).await
    }

    /// The next delivery.
    pub(crate) async fn delivery(&mut self) -> (u64, Parcel) {
        let next = async {
            loop {
                if let Told::Delivery(id, parcel) = self.told.recv().await.expect("the actor lives") {
                    return (id, parcel);
                }
            }
        };
        timeout(Duration::from_secs(30), next)
            .await
            .expect("the delivery comes")
    }

    /// The deliveries that were sent and not looked at yet.
    pub(crate) fn deliveries(&mut self) -> Vec<(u64, Parcel)> {
        deliveries(&mut self.told)
    }

    /// The next effect.
    pub(crate) async fn effect(&mut self) -> String {
        loop {
            if let Told::Effect(effect) = self.told.recv().await.expect("the effect comes") {
                return effect;
            }
        }
    }
}

pub(crate) fn deliveries(told: &mut mpsc::UnboundedReceiver<Told>) -> Vec<(u64, Parcel)> {
    std::iter::from_fn(|| told.try_recv().ok())
        .filter_map(|told| match told {
            Told::Delivery(id, parcel) => Some((id, parcel)),
            _ => None,
        })
        .collect()
}

pub(crate) async fn next_signal<T>(
    told: &mut mpsc::UnboundedReceiver<Told>,
    mut pick: impl FnMut(&Signal) -> Option<T>,
) -> T {
    loop {
        if let Told::Signal(signal) = told.recv().await.expect("the signal comes")
            && let Some(picked) = pick(&signal)
        {
            return picked;
        }
    }
}

/// Sends commands without keeping the actor alive.
#[derive(Clone)]
pub(crate) struct Sender(mpsc::WeakUnboundedSender<Message>);

impl Sender {
    pub(crate) fn send<C: Command>(&self, command: C) -> oneshot::Receiver<C::Reply>
    where
        Summing: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        if let Some(mailbox) = self.0.upgrade() {
            drop(mailbox.send(Message::Command(BoxedCommand::new(command, port))));
        }
        reply
    }
}

/// Waits until the actor has handled everything sent so far.
pub(crate) async fn handled(actor: &Mini) {
    let (seen, was_seen) = oneshot::channel();
    drop(actor.send(Seen(seen)));
    was_seen.await.expect("the actor handles");
}

/// Lets the other tasks of this test run until they wait.
pub(crate) async fn others_run() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn persistence(journal: &Arc<Controlled>) -> Persistence {
    Persistence::builder(journal.clone()).build().unwrap()
}

pub(crate) fn with_snapshots(journal: &Arc<Controlled>, snapshots: &Arc<Snapshots>) -> Persistence {
    builder_with(journal, snapshots).build().unwrap()
}

pub(crate) fn builder_with(journal: &Arc<Controlled>, snapshots: &Arc<Snapshots>) -> PersistenceBuilder {
    Persistence::builder(journal.clone()).snapshots(snapshots.clone())
}

/// On the test's own runtime, so that its paused clock is the hub's.
pub(crate) fn on_this_runtime(builder: PersistenceBuilder) -> Persistence {
    builder.runtime(Handle::current()).build().unwrap()
}

/// A snapshot's payload of this state, as an actor encodes it.
pub(crate) async fn state_of(sum: Sum) -> Bytes {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(sum.total)).await.unwrap();
    for _ in 0..sum.notes {
        actor.ask(Note(String::new())).await.unwrap();
    }
    actor.ask(TakeSnapshot).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotSaved(_)).then_some(()))
        .await;
    let loaded = snapshots.inner.load(&pid("a"), SelectionCriteria::ALL).await;
    loaded.unwrap().snapshot.unwrap().payload
}

/// Waits until nothing of the id is live any more.
pub(crate) async fn gone(persistence: &Persistence, id: &str) {
    while persistence.is_live(&pid(id)) {
        tokio::task::yield_now().await;
    }
}
