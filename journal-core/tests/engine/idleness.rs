//! When an actor may be passivated, and how it makes room.

use std::{pin::pin, time::Duration};

use futures_util::FutureExt;
use journal_core::{
    Command, Effects, Handles, Persistence, Persistent, Redelivery,
    adapter::{Admission, BoxedCommand, Direct, Engine, NoPort},
    persistent,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::common::*;

/// An engine in the hands of the test, which has looked at it since it recovered.
struct Looked {
    described: Persistent<Summing>,
    admission: Admission,
    engine: Engine<Summing>,
}

fn described() -> Persistent<Summing> {
    let summing = Summing {
        told: mpsc::unbounded_channel().0,
        hooks: Hooks::default(),
    };
    persistent(summing, "a").delivers()
}

impl Looked {
    async fn at(persistence: &Persistence) -> Self {
        Self::at_described(described(), persistence).await
    }

    async fn at_described(described: Persistent<Summing>, persistence: &Persistence) -> Self {
        let admission = described.options().admission();
        let recovered = described.recover(persistence, admission.clone(), || ());
        let mut engine = recovered.await.unwrap();
        assert!(!engine.was_idle(), "it has just recovered");
        assert!(engine.was_idle());
        Self {
            described,
            admission,
            engine,
        }
    }

    async fn handle<C: Command>(&mut self, command: C) -> oneshot::Receiver<C::Reply>
    where
        Summing: Handles<C>,
    {
        let (port, reply) = oneshot::channel();
        self.engine.push(BoxedCommand::new(command, port));
        self.engine.run(self.described.model()).await.unwrap();
        reply
    }

    /// However often one looks.
    fn assert_busy(&mut self) {
        for _ in 0..3 {
            assert!(!self.engine.was_idle());
        }
    }

    fn assert_idle_at_the_second_look(&mut self) {
        assert!(!self.engine.was_idle());
        assert!(self.engine.was_idle());
        assert!(self.engine.was_idle());
    }
}

#[tokio::test]
async fn an_engine_was_idle_if_it_handled_nothing_since_the_last_look() {
    let mut looked = Looked::at(&persistence(&Controlled::open())).await;
    for _ in 0..2 {
        looked.handle(Get).await.await.unwrap().unwrap();
        looked.assert_idle_at_the_second_look();
    }
    looked.handle(Add(1)).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_idle_at_the_second_look();
}

#[tokio::test]
async fn a_write_in_flight_is_no_idleness() {
    let journal = Controlled::gated();
    let mut looked = Looked::at(&persistence(&journal)).await;
    let add = looked.handle(Add(1)).await;
    journal.append_entered().await;
    looked.assert_busy();
    journal.let_through(1);
    add.await.unwrap().unwrap();
    looked.engine.settled().await;
    assert!(looked.engine.was_idle());
}

#[tokio::test]
async fn a_stashed_or_admitted_command_is_no_idleness() {
    let mut looked = Looked::at(&persistence(&Controlled::open())).await;
    let stashed = looked.handle(StashUntil(5)).await;
    looked.assert_busy();
    looked.handle(AddAndUnstash(5)).await.await.unwrap().unwrap();
    stashed.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_idle_at_the_second_look();

    let (port, _reply) = oneshot::channel();
    let on_its_way = BoxedCommand::<Summing>::new(Get, port).admit(&looked.admission);
    looked.assert_busy();
    drop(on_its_way);
    assert!(looked.engine.was_idle());
}

#[tokio::test]
async fn what_is_not_yet_stepped_is_no_idleness() {
    let persistence = persistence(&Controlled::open());
    let described = described();
    let model = described.model().clone();
    let recovered = Engine::recover(
        "a",
        described.options().clone(),
        &persistence,
        described.options().admission(),
        Direct::new(model, || ()),
    );
    let mut engine = recovered.await.unwrap();
    for _ in 0..3 {
        assert!(!engine.was_idle(), "`recovered` has not run");
    }
    engine.run(described.model()).await.unwrap();
    assert!(!engine.was_idle());
    assert!(engine.was_idle());
    engine.push(BoxedCommand::new(Get, NoPort));
    assert!(!engine.was_idle());
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_is_no_idleness() {
    let journal = Controlled::gated();
    let summing = Summing {
        told: mpsc::unbounded_channel().0,
        hooks: Hooks {
            recovered: Some(|summing, _| summing.persist(Happened::Added(1))),
            ..Hooks::default()
        },
    };
    let described = persistent(summing, "a");
    let persistence = persistence(&journal);
    let recovered = described.recover(&persistence, described.options().admission(), || ());
    let mut engine = recovered.await.unwrap();
    journal.append_entered().await;
    for _ in 0..3 {
        assert!(!engine.was_idle());
    }
    journal.let_through(1);
    engine.settled().await;
    assert!(engine.was_idle());
}

#[tokio::test]
async fn a_snapshot_that_is_being_saved_is_no_idleness() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut looked = Looked::at(&persistence).await;
    looked.handle(Add(1)).await.await.unwrap().unwrap();
    snapshots.fault(Call::Save, Fault::Waits);
    looked.handle(TakeSnapshot).await.await.unwrap().unwrap();
    snapshots.save_entered().await;
    looked.assert_busy();
    snapshots.gate.add_permits(1);
    while !looked.engine.was_idle() {
        others_run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_waited_for_is_no_idleness() {
    let persistence = on_this_runtime(Persistence::builder(Controlled::open()));
    let twice = Redelivery {
        attempts: 2,
        ..Redelivery::DEFAULT
    };
    let delivering = described().delivers().redelivery(twice);
    let mut looked = Looked::at_described(delivering, &persistence).await;
    let deliver = Deliver(vec![Parcel::Holding(1)]);
    looked.handle(deliver).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_busy();
    looked.handle(Confirm(vec![1])).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_idle_at_the_second_look();
    // Until it is given up: then only a recovery sends it again.
    let deliver = Deliver(vec![Parcel::Holding(2)]);
    looked.handle(deliver).await.await.unwrap().unwrap();
    sleep(Duration::from_secs(14)).await;
    looked.assert_busy();
    sleep(Duration::from_secs(2)).await;
    assert!(looked.engine.was_idle());
}

#[tokio::test]
async fn an_unconfirmed_delivery_is_no_idleness() {
    let mut looked = Looked::at(&persistence(&Controlled::open())).await;
    let deliver = Deliver(vec![Parcel::Holding(5)]);
    looked.handle(deliver).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_busy();
    looked.handle(Confirm(vec![1])).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_idle_at_the_second_look();
}

#[tokio::test]
async fn an_engine_that_must_recover_or_stop_is_not_idle() {
    let mut looked = Looked::at(&persistence(&Controlled::open())).await;
    let panicked = looked.handle(PanicInHandle).await;
    looked.assert_busy();
    assert!(panicked.await.unwrap().is_err());
    looked.assert_busy();
    looked.engine.run(looked.described.model()).await.unwrap();
    looked.assert_idle_at_the_second_look();
    looked.handle(Stop).await.await.unwrap().unwrap();
    looked.engine.settled().await;
    looked.assert_busy();
}

#[tokio::test]
async fn a_retired_engine_lets_its_successor_wait() {
    let persistence = persistence(&Controlled::open());
    let looked = Looked::at(&persistence).await;
    looked.engine.retire();
    let (described, admission) = (described(), looked.admission.clone());
    let mut successor = pin!(described.recover(&persistence, admission, || ()));
    assert!(successor.as_mut().now_or_never().is_none());
    others_run().await;
    assert!(successor.as_mut().now_or_never().is_none());
    drop(looked.engine);
    successor.await.unwrap();
}

/// Owes something as soon as it has recovered, behind a closure that takes its time.
struct Owing(std::sync::Mutex<Option<std::sync::mpsc::Receiver<()>>>);

impl journal_core::EventSourced for Owing {
    type Event = Happened;
    type State = ();
    fn apply((): &mut (), _: &Happened) {}
    fn recovered(&self, (): &()) -> journal_core::Effect<Self> {
        let gate = self.0.lock().unwrap().take();
        let wait = move || assert!(gate.is_none_or(|gate| gate.recv().is_err()));
        journal_core::Effect::none()
            .then_run(|()| wait)
            .then_deliver(Parcel::Holding(1))
    }
}

impl journal_core::Delivers for Owing {
    type Delivery = Parcel;
    fn send(&self, _: journal_core::DeliveryId, _: Parcel) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn what_recovered_owes_is_waited_for_before_it_is_sent_too() {
    let persistence = persistence(&Controlled::open());
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let described = persistent(Owing(std::sync::Mutex::new(Some(gate))), "a").delivers();
    let recovered = described.recover(&persistence, described.options().admission(), || ());
    let mut engine = recovered.await.unwrap();
    engine.settled().await;
    assert!(!engine.was_idle(), "it has just recovered");
    let was_idle = engine.was_idle();
    drop(open);
    assert!(!was_idle, "its closure runs, and its delivery is not sent");
}
