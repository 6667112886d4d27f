//! The model of all cases of the adapter contract, and what a case hears of it.

use std::sync::Arc;

use journal_core::{
    Command, Delivers, DeliveryId, Effect, Effects, EncodedEvent, Event, EventSerializer, EventSourced,
    Handles, MessagePack, PersistError, PersistenceId, Persistent, Record, RecoveryError, SequenceNr, Signal,
    Timestamp, persistent,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Adds up numbers, with commands for all that an actor can do.
#[derive(Debug)]
pub struct Tally {
    signals: UnboundedSender<Signal>,
    effects: UnboundedSender<i64>,
    handled: UnboundedSender<u32>,
    deliveries: UnboundedSender<(u64, Parcel)>,
    once_recovered: OnceRecovered,
}

/// What a [`Tally`] does after each recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnceRecovered {
    Nothing,
    /// It adds this.
    Adds(i64),
    Panics,
}

/// What happened to a [`Tally`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tallied {
    /// The number was added.
    Added(i64),
    /// It starts from zero.
    Cleared,
    /// `apply` panics.
    Poison,
    /// Cannot be encoded.
    #[serde(serialize_with = "cannot_be_encoded")]
    Unencodable,
}

fn cannot_be_encoded<S: serde::Serializer>(_: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("this event cannot be encoded"))
}

impl Event for Tallied {
    const MANIFEST: &'static str = "conformance-tallied";
    const VERSION: u32 = 1;
}

/// The state of a [`Tally`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// What was added.
    pub total: i64,
}

impl EventSourced for Tally {
    type Event = Tallied;
    type State = Sum;
    const STATE_VERSION: u32 = 1;

    fn apply(state: &mut Sum, event: &Tallied) {
        match event {
            Tallied::Added(number) => state.total += number,
            Tallied::Cleared => *state = Sum::default(),
            Tallied::Poison => panic!("apply panics, as the case wants"),
            Tallied::Unencodable => {}
        }
    }

    fn recovered(&self, _: &Sum) -> Effect<Self> {
        match self.once_recovered {
            OnceRecovered::Nothing => self.none(),
            OnceRecovered::Adds(number) => self.persist(Tallied::Added(number)),
            OnceRecovered::Panics => panic!("recovered panics, as the case wants"),
        }
    }

    fn signal(&self, signal: &Signal) {
        // The case may have heard enough.
        drop(self.signals.send(signal.clone()));
    }
}

/// What a [`Tally`] delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parcel {
    /// A number.
    Holding(i64),
    /// Sending it panics.
    Fragile,
}

impl Event for Parcel {
    const MANIFEST: &'static str = "conformance-parcel";
    const VERSION: u32 = 1;
}

impl Delivers for Tally {
    type Delivery = Parcel;

    fn send(&self, id: DeliveryId, parcel: Parcel) {
        // The case may have heard enough.
        let _ = self.deliveries.send((id.get(), parcel));
        assert_ne!(parcel, Parcel::Fragile, "sending panics, as the case wants");
    }
}

pub(crate) type Reply = Result<i64, PersistError>;

/// An error of the application.
#[derive(Debug)]
pub(crate) enum Refusal {
    Invalid,
    Persist(PersistError),
}

impl From<PersistError> for Refusal {
    fn from(error: PersistError) -> Self {
        Self::Persist(error)
    }
}

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $( ( $($field:ty),* ) )? -> $reply:ty
        = |$model:ident, $state:ident, $command:pat_param| $effect:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name $( ( $(pub(crate) $field),* ) )?;
            impl Command for $name {
                type Reply = $reply;
            }
            impl Handles<$name> for Tally {
                fn handle(&self, $state: &Sum, $command: $name) -> Effect<Self, $reply> {
                    let $model = self;
                    $effect
                }
            }
        )*
    };
}

commands! {
    Add(i64) -> Reply = |model, _state, Add(number)|
        model.persist(Tallied::Added(number)).then_reply(|sum| Ok(sum.total));
    AddAll(Vec<i64>) -> Reply = |model, _state, AddAll(numbers)|
        model.persist_all(numbers.into_iter().map(Tallied::Added)).then_reply(|sum| Ok(sum.total));
    /// Nobody waits for it.
    Give(i64) -> () = |model, _state, Give(number)| model.persist(Tallied::Added(number));
    Read -> Reply = |model, state, Read| model.reply(Ok(state.total));
    /// The case hears when it is handled, which is before anything of it is durable.
    Note(u32) -> () = |model, _state, Note(label)| {
        model.note(label);
        model.none()
    };
    /// The case hears of the effect.
    Announce(i64) -> Reply = |model, _state, Announce(number)| {
        let effects = model.effects.clone();
        model
            .persist(Tallied::Added(number))
            .then_run(move |sum| {
                let total = sum.total;
                move || {
                    // The case may have heard enough.
                    let _ = effects.send(total);
                }
            })
            .then_reply(|sum| Ok(sum.total))
    };
    /// Runs this when durable.
    Do(Box<dyn FnOnce() + Send>) -> Reply = |model, _state, Do(run)|
        model.persist(Tallied::Added(1)).then_run(move |_| run).then_reply(|sum| Ok(sum.total));
    /// Adds 1, and delivers these.
    Deliver(Vec<Parcel>) -> Reply = |model, _state, Deliver(parcels)|
        parcels.into_iter().fold(model.persist(Tallied::Added(1)), Effect::then_deliver).then_reply(|sum| Ok(sum.total));
    Confirm(u64) -> Reply = |model, _state, Confirm(id)|
        model.none().then_confirm(DeliveryId::new(id)).then_reply(|sum| Ok(sum.total));
    Refuse -> Result<(), Refusal> = |model, _state, Refuse| model.reply(Err(Refusal::Invalid));
    Unencodable -> Reply = |model, _state, Unencodable|
        model.persist_all([Tallied::Added(1_000), Tallied::Unencodable]).then_reply(|sum| Ok(sum.total));
    PanicInHandle -> Reply = |_model, _state, PanicInHandle| panic!("handle panics, as the case wants");
    PanicInApply -> Reply = |model, _state, PanicInApply|
        model.persist_all([Tallied::Added(1_000), Tallied::Poison]).then_reply(|sum| Ok(sum.total));
    PanicInReply -> Reply = |model, _state, PanicInReply|
        model.persist(Tallied::Added(1_000)).then_reply(|_| panic!("the reply panics, as the case wants"));
    Stop -> Reply = |model, _state, Stop|
        model.persist(Tallied::Added(0)).then_stop().then_reply(|sum| Ok(sum.total));
    AddAndStop(i64) -> Reply = |model, _state, AddAndStop(number)|
        model.persist(Tallied::Added(number)).then_stop().then_reply(|sum| Ok(sum.total));
    Unknown -> () = |model, _state, Unknown| model.unhandled();
    /// Stashed until the total is reached; the case hears whenever it is looked at.
    WaitFor(u32, i64) -> Reply = |model, state, WaitFor(label, total)| {
        model.note(label);
        if state.total < total { model.stash(WaitFor(label, total)) } else { model.reply(Ok(state.total)) }
    };
    /// Stashed when it is looked at for the first time.
    AddLater(i64, bool) -> Reply = |model, _state, AddLater(number, again)| {
        if again {
            model.persist(Tallied::Added(number)).then_reply(|sum| Ok(sum.total))
        } else {
            model.stash(AddLater(number, true))
        }
    };
    AddAndUnstash(i64) -> Reply = |model, _state, AddAndUnstash(number)|
        model.persist(Tallied::Added(number)).then_unstash_all().then_reply(|sum| Ok(sum.total));
    TakeSnapshot -> Reply = |model, _state, TakeSnapshot|
        model.none().then_snapshot().then_reply(|sum| Ok(sum.total));
    DeleteTo(u64) -> Reply = |model, _state, DeleteTo(number)|
        model.none().then_delete_to(SequenceNr::new(number)).then_reply(|sum| Ok(sum.total));
    StartOver -> Reply = |model, _state, StartOver|
        model.persist(Tallied::Cleared).then_restart_from_here().then_reply(|sum| Ok(sum.total));
    StartOverAnyhow -> Reply = |model, _state, StartOverAnyhow|
        model.persist(Tallied::Added(1)).then_restart_from_here().then_reply(|sum| Ok(sum.total));
}

impl Tally {
    fn note(&self, label: u32) {
        let _ = self.handled.send(label);
    }
}

/// What all lives of one described actor tell, each kind in its order.
pub(crate) struct Hears {
    signals: UnboundedReceiver<Signal>,
    effects: UnboundedReceiver<i64>,
    handled: UnboundedReceiver<u32>,
    deliveries: UnboundedReceiver<(u64, Parcel)>,
}

/// An actor to be spawned, and what is heard of it.
pub(crate) fn tally(id: &str) -> (Persistent<Tally>, Hears) {
    tally_that(OnceRecovered::Nothing, id)
}

/// One that does this after each recovery.
pub(crate) fn tally_that(once_recovered: OnceRecovered, id: &str) -> (Persistent<Tally>, Hears) {
    let (signals, hears_signals) = unbounded_channel();
    let (effects, hears_effects) = unbounded_channel();
    let (handled, hears_handled) = unbounded_channel();
    let (deliveries, hears_deliveries) = unbounded_channel();
    let model = Tally {
        signals,
        effects,
        handled,
        once_recovered,
        deliveries,
    };
    let hears = Hears {
        signals: hears_signals,
        effects: hears_effects,
        handled: hears_handled,
        deliveries: hears_deliveries,
    };
    (persistent(model, id), hears)
}

impl Hears {
    /// The next signal that `pick` wants.
    pub(crate) async fn signal<T>(&mut self, mut pick: impl FnMut(&Signal) -> Option<T>) -> T {
        loop {
            let signal = self.signals.recv().await.expect("the actor gives the signal");
            if let Some(picked) = pick(&signal) {
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

    /// The number of the next snapshot.
    pub(crate) async fn snapshot(&mut self) -> u64 {
        self.signal(|signal| match signal {
            Signal::SnapshotSaved(metadata) => Some(metadata.sequence_nr.get()),
            _ => None,
        })
        .await
    }

    /// Returns when the next snapshot is saved, and what it makes obsolete deleted.
    pub(crate) async fn round(&mut self) {
        self.signal(|signal| matches!(signal, Signal::SnapshotsDeleted).then_some(()))
            .await;
    }

    /// The number of the next deletion.
    pub(crate) async fn deletion(&mut self) -> u64 {
        self.signal(|signal| match signal {
            Signal::EventsDeleted(to) => Some(to.get()),
            _ => None,
        })
        .await
    }

    /// Why the next recovery failed.
    pub(crate) async fn failed_recovery(&mut self) -> Arc<RecoveryError> {
        self.signal(|signal| match signal {
            Signal::RecoveryFailed(error) => Some(error.clone()),
            _ => None,
        })
        .await
    }

    /// All signals so far.
    pub(crate) fn signals(&mut self) -> Vec<Signal> {
        std::iter::from_fn(|| self.signals.try_recv().ok()).collect()
    }

    /// The next deliveries.
    pub(crate) async fn sent(&mut self, number: usize) -> Vec<(u64, Parcel)> {
        let mut sent = Vec::new();
        while sent.len() < number {
            sent.push(self.deliveries.recv().await.expect("the actor delivers"));
        }
        sent
    }

    /// All deliveries so far.
    pub(crate) fn deliveries(&mut self) -> Vec<(u64, Parcel)> {
        std::iter::from_fn(|| self.deliveries.try_recv().ok()).collect()
    }

    /// All effects so far.
    pub(crate) fn effects(&mut self) -> Vec<i64> {
        std::iter::from_fn(|| self.effects.try_recv().ok()).collect()
    }

    /// The commands that were looked at so far.
    pub(crate) fn labels(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.handled.try_recv().ok()).collect()
    }

    /// The next commands that were looked at, up to this one.
    pub(crate) async fn handled(&mut self, last: u32) -> Vec<u32> {
        let mut labels = Vec::new();
        while labels.last() != Some(&last) {
            labels.push(self.handled.recv().await.expect("the actor handles"));
        }
        labels
    }
}

/// The numbers that were added, in order.
pub(crate) fn decoded(id: &PersistenceId, records: &[Record]) -> Vec<i64> {
    let events = EventSerializer::new(Arc::new(MessagePack)).expect("the event has a version");
    let decoded = records.iter().map(|record| match events.decode(id, record) {
        Ok(Tallied::Added(number)) => number,
        other => panic!("{id} has stored at {}: {other:?}", record.sequence_nr),
    });
    decoded.collect()
}

/// As an actor stores it.
pub(crate) fn encoded(event: &Tallied) -> EncodedEvent {
    let events = EventSerializer::new(Arc::new(MessagePack)).expect("the event has a version");
    events
        .encode(event, Timestamp(1_700_000_000_000))
        .expect("the event can be encoded")
}
