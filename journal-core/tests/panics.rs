//! A panic of a model's own (de)serialization or `Drop` is caught like one of its handlers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::manual_assert,
    missing_docs,
    reason = "a test that panics fails"
)]

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering},
};

use journal_core::{
    Command, Effect, Effects, Event, EventSourced, Handles, MemoryJournal, PersistError, Persistence,
    Persistent, RecoveryError,
    adapter::{Admission, BoxedCommand, Engine},
    persistent,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use snapshot_store::MemorySnapshotStore;
use tokio::{
    runtime::Handle,
    sync::{Mutex, oneshot},
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
static EVENT_READ: AtomicBool = AtomicBool::new(false);
static STATE_READ: AtomicBool = AtomicBool::new(false);
static STATE_WRITTEN: AtomicBool = AtomicBool::new(false);
static EVENT_DROPPED: AtomicBool = AtomicBool::new(false);

/// A trap that panics once armed.
fn trap(trap: &AtomicBool) {
    if trap.load(Ordering::SeqCst) {
        panic!("it panics");
    }
}

#[derive(Serialize)]
struct Added(i64);

impl<'de> Deserialize<'de> for Added {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        trap(&EVENT_READ);
        i64::deserialize(deserializer).map(Self)
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        if EVENT_DROPPED.swap(false, Ordering::SeqCst) {
            panic!("it panics");
        }
    }
}

impl Event for Added {
    const MANIFEST: &'static str = "added";
    const VERSION: u32 = 1;
}

#[derive(Default)]
struct Sum(i64);

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        trap(&STATE_WRITTEN);
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        trap(&STATE_READ);
        i64::deserialize(deserializer).map(Self)
    }
}

struct Model;

impl EventSourced for Model {
    type Event = Added;
    type State = Sum;
    const STATE_VERSION: u32 = 1;
    fn apply(sum: &mut Sum, added: &Added) {
        sum.0 += added.0;
    }
}

struct Add;

impl Command for Add {
    type Reply = Result<i64, PersistError>;
}

impl Handles<Add> for Model {
    fn handle(&self, _: &Sum, _: Add) -> Effect<Self, Result<i64, PersistError>> {
        self.persist(Added(1)).then_reply(|sum| Ok(sum.0))
    }
}

struct Save;

impl Command for Save {
    type Reply = Result<(), PersistError>;
}

impl Handles<Save> for Model {
    fn handle(&self, _: &Sum, _: Save) -> Effect<Self, Result<(), PersistError>> {
        self.reply(Ok(())).then_snapshot()
    }
}

fn store() -> Persistence {
    Persistence::builder(MemoryJournal::new())
        .snapshots(MemorySnapshotStore::new())
        .build()
        .unwrap()
}

async fn recover(described: &Persistent<Model>, on: &Persistence) -> Result<Engine<Model>, RecoveryError> {
    described.recover(on, Admission::new(100), || {}).await
}

async fn ask<C: Command>(engine: &mut Engine<Model>, command: C) -> C::Reply
where
    Model: Handles<C>,
{
    let (port, reply) = oneshot::channel();
    engine.push(BoxedCommand::new(command, port));
    engine.run(&Model).await.unwrap();
    reply.await.unwrap()
}

/// An engine with three events, stopped again.
async fn three_events(described: &Persistent<Model>, on: &Persistence, snapshot: bool) {
    let mut engine = recover(described, on).await.unwrap();
    for _ in 0..3 {
        ask(&mut engine, Add).await.unwrap();
    }
    if snapshot {
        ask(&mut engine, Save).await.unwrap();
    }
    engine.concluded().await;
}

#[tokio::test]
async fn an_event_whose_deserialization_panics_fails_the_recovery() {
    let _one = ONE_AT_A_TIME.lock().await;
    let (described, on) = (persistent(Model, "a"), store());
    three_events(&described, &on, false).await;
    EVENT_READ.store(true, Ordering::SeqCst);
    let (again, with) = (persistent(Model, "a"), on.clone());
    let recovered = Handle::current()
        .spawn(async move { recover(&again, &with).await.err() })
        .await;
    EVENT_READ.store(false, Ordering::SeqCst);
    let error = recovered.expect("the panic is caught").unwrap();
    let RecoveryError::Panicked { sequence_nr, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(sequence_nr.get(), 1);
    assert_eq!(recover(&described, &on).await.unwrap().state().0, 3);
}

#[tokio::test]
async fn a_snapshot_whose_deserialization_panics_gives_way_to_the_events() {
    let _one = ONE_AT_A_TIME.lock().await;
    let (described, on) = (persistent(Model, "a"), store());
    three_events(&described, &on, true).await;
    STATE_READ.store(true, Ordering::SeqCst);
    let (again, with) = (persistent(Model, "a"), on.clone());
    let recovered =
        Handle::current().spawn(async move { recover(&again, &with).await.map(|engine| engine.state().0) });
    let recovered = recovered.await;
    STATE_READ.store(false, Ordering::SeqCst);
    assert_eq!(recovered.expect("the panic is caught").unwrap(), 3);
}

#[tokio::test]
async fn a_snapshot_due_at_recovery_that_cannot_be_written_keeps_nobody_from_recovering() {
    let _one = ONE_AT_A_TIME.lock().await;
    let on = store();
    three_events(&persistent(Model, "a"), &on, false).await;
    STATE_WRITTEN.store(true, Ordering::SeqCst);
    let again = persistent(Model, "a").snapshot_every(NonZeroU64::MIN.get());
    let recovered =
        Handle::current().spawn(async move { recover(&again, &on).await.map(|engine| engine.state().0) });
    let recovered = recovered.await;
    STATE_WRITTEN.store(false, Ordering::SeqCst);
    assert_eq!(recovered.expect("the panic is caught").unwrap(), 3);
}

#[tokio::test]
async fn an_event_whose_drop_panics_takes_nothing_along() {
    let _one = ONE_AT_A_TIME.lock().await;
    let on = store();
    let answered = Handle::current().spawn(async move {
        let mut engine = recover(&persistent(Model, "a"), &on).await.unwrap();
        EVENT_DROPPED.store(true, Ordering::SeqCst);
        let first = ask(&mut engine, Add).await;
        (first.is_ok(), ask(&mut engine, Add).await.unwrap())
    });
    assert_eq!(answered.await.expect("the panic is caught"), (true, 2));
}
