//! One directory, actors of two frameworks in turn: what one wrote the other recovers, with snapshots, deletions,
//! deliveries and fresh starts.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failing test panics, and prints what repeats it"
)]

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use actor_journal::{
    AskError, Command, Delivers, DeliveryId, Effect, Effects, Event, EventSourced, Handles, Journal,
    PersistError, Persistence, PersistenceId, SelectionCriteria, Signal, SnapshotStore,
    actix::{Durable, PersistentActor, PersistentAddr, SpawnPersistent as _},
    embedded::EmbeddedJournal,
    persistent,
    ractor::{PersistentRef, SpawnPersistent as _},
};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::JoinSet};

const ID: &str = "depot|1";
const SNAPSHOT_EVERY: u64 = 7;
const KEEP: usize = 2;
const ROUNDS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(30);

// The model: knows neither framework --------------------------------------------------------------------------------

struct Depot(Arc<Seen>);

/// What left the actor, in one life.
#[derive(Default)]
struct Seen {
    /// By id, each once.
    sent: watch::Sender<BTreeMap<DeliveryId, u64>>,
    signals: Mutex<Vec<Signal>>,
}

impl Seen {
    fn no_failure(&self) {
        let signals = self.signals.lock().unwrap();
        let failure = signals.iter().find(|signal| signal.is_failure());
        assert!(failure.is_none(), "{failure:?}");
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, Event)]
#[event(manifest = "depot-event", version = 1)]
enum DepotEvent {
    Stored { weight: u64 },
    Emptied,
}

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(manifest = "parcel", version = 1)]
struct Parcel {
    weight: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Stock {
    pieces: u64,
    weight: u64,
}

impl EventSourced for Depot {
    type Event = DepotEvent;
    type State = Stock;
    const STATE_MANIFEST: &'static str = "stock";
    const STATE_VERSION: u32 = 1;

    fn apply(stock: &mut Stock, event: &DepotEvent) {
        match event {
            DepotEvent::Stored { weight } => {
                stock.pieces += 1;
                stock.weight += weight;
            }
            DepotEvent::Emptied => *stock = Stock::default(),
        }
    }

    fn signal(&self, signal: &Signal) {
        self.0.signals.lock().unwrap().push(signal.clone());
    }
}

impl Delivers for Depot {
    type Delivery = Parcel;

    fn send(&self, id: DeliveryId, parcel: Parcel) {
        self.0.sent.send_modify(|sent| {
            sent.insert(id, parcel.weight);
        });
    }
}

struct Store {
    weight: u64,
    is_sent_on: bool,
}
struct Confirm(DeliveryId);
struct Empty;
struct Inspect;

type Reply = Result<Stock, PersistError>;

impl Command for Store {
    type Reply = Reply;
}
impl Command for Confirm {
    type Reply = Reply;
}
impl Command for Empty {
    type Reply = Reply;
}
impl Command for Inspect {
    type Reply = Reply;
}

impl Handles<Store> for Depot {
    fn handle(&self, _: &Stock, store: Store) -> Effect<Self, Reply> {
        let weight = store.weight;
        let stored = self.persist(DepotEvent::Stored { weight });
        let stored = if store.is_sent_on {
            stored.then_deliver(Parcel { weight })
        } else {
            stored
        };
        stored.then_reply(|stock| Ok(stock.clone()))
    }
}
impl Handles<Confirm> for Depot {
    fn handle(&self, _: &Stock, Confirm(id): Confirm) -> Effect<Self, Reply> {
        self.none().then_confirm(id).then_reply(|stock| Ok(stock.clone()))
    }
}
impl Handles<Empty> for Depot {
    fn handle(&self, _: &Stock, Empty: Empty) -> Effect<Self, Reply> {
        self.persist(DepotEvent::Emptied)
            .then_restart_from_here()
            .then_reply(|stock| Ok(stock.clone()))
    }
}
impl Handles<Inspect> for Depot {
    fn handle(&self, stock: &Stock, Inspect: Inspect) -> Effect<Self, Reply> {
        self.reply(Ok(stock.clone()))
    }
}

// The same model as an actor of either --------------------------------------------------------------------------------

#[derive(PersistentActor)]
#[persistent(id = "depot|1", snapshot_every = 7, keep = 2, delete_events, delivers)]
struct DepotActor {
    #[persistent(state)]
    depot: Durable<Depot>,
}

#[derive(Debug, Clone, Copy)]
enum Framework {
    Actix,
    Ractor,
}

#[derive(Clone)]
enum Live {
    Actix(PersistentAddr<DepotActor>),
    Ractor(PersistentRef<Depot>),
}

impl Live {
    async fn spawn(framework: Framework, depot: Depot, persistence: &Persistence) -> Self {
        match framework {
            Framework::Actix => {
                let depot = Durable::of(Arc::new(depot), persistence);
                Self::Actix(DepotActor { depot }.spawn().await.unwrap())
            }
            Framework::Ractor => {
                let depot = persistent(depot, ID)
                    .snapshot_every(SNAPSHOT_EVERY)
                    .keep(KEEP)
                    .delete_events()
                    .delivers();
                Self::Ractor(depot.spawn(persistence).await.unwrap())
            }
        }
    }

    async fn ask<C: Command>(&self, command: C) -> Result<C::Reply, AskError>
    where
        Depot: Handles<C>,
    {
        match self {
            Self::Actix(depot) => depot.ask(command).await,
            Self::Ractor(depot) => depot.ask(command).await,
        }
    }

    async fn stop(&self) {
        match self {
            Self::Actix(depot) => depot.stop().await,
            Self::Ractor(depot) => depot.stop().await,
        }
    }

    async fn kill(&self) {
        match self {
            Self::Actix(depot) => depot.kill().await,
            Self::Ractor(depot) => depot.kill().await,
        }
    }
}

/// What must be there, whoever wrote it.
#[derive(Default)]
struct Expected {
    highest: u64,
    stock: Stock,
    unconfirmed: BTreeMap<DeliveryId, u64>,
}

impl Expected {
    fn store(&mut self, weight: u64) {
        self.highest += 1;
        self.stock.pieces += 1;
        self.stock.weight += weight;
    }

    async fn step(&mut self, depot: &Live, random: &mut Rng) {
        let weight = random.u64(1..1_000);
        match random.u8(0..20) {
            0..9 => {
                self.store(weight);
                let is_sent_on = false;
                let stored = depot.ask(Store { weight, is_sent_on }).await.unwrap();
                assert_eq!(stored.unwrap(), self.stock);
            }
            9..13 => {
                self.store(weight);
                self.highest += 1;
                self.unconfirmed.insert(DeliveryId::new(self.highest), weight);
                let is_sent_on = true;
                let stored = depot.ask(Store { weight, is_sent_on }).await.unwrap();
                assert_eq!(stored.unwrap(), self.stock);
            }
            13..19 => {
                let ids: Vec<_> = self.unconfirmed.keys().copied().collect();
                if let Some(id) = random.choice(&ids) {
                    self.highest += 1;
                    self.unconfirmed.remove(id);
                    depot.ask(Confirm(*id)).await.unwrap().unwrap();
                }
            }
            _ => {
                let emptied = depot.ask(Empty).await.unwrap();
                if self.unconfirmed.is_empty() {
                    assert_eq!(emptied.unwrap(), Stock::default());
                    self.highest += 1;
                    self.stock = Stock::default();
                } else {
                    assert!(matches!(emptied, Err(PersistError::NotInitialState)));
                }
            }
        }
    }
}

/// What the rounds must have shown between them.
#[derive(Default)]
struct Shown {
    from_snapshot: usize,
    sent_again: usize,
    deleted: usize,
}

/// One life in one framework: recovers, works, ends.
async fn round(
    framework: Framework,
    directory: &Path,
    expected: &mut Expected,
    shown: &mut Shown,
    random: &mut Rng,
) {
    let persistence = actor_journal::embedded(directory).await.unwrap();
    let seen = Arc::new(Seen::default());
    let depot = Live::spawn(framework, Depot(seen.clone()), &persistence).await;
    assert_eq!(depot.ask(Inspect).await.unwrap().unwrap(), expected.stock);

    // The debts of the other framework's actor are this one's.
    let mut may_be_sent = expected.unconfirmed.clone();
    shown.sent_again += may_be_sent.len();
    all_sent(&seen, &may_be_sent).await;
    let recovered = seen.signals.lock().unwrap()[0].clone();
    let Signal::RecoveryCompleted {
        highest,
        snapshot,
        replayed,
        ..
    } = recovered
    else {
        panic!("{recovered:?} before the recovery");
    };
    assert_eq!(highest.get(), expected.highest);
    assert!(snapshot.get() == 0 || replayed == highest.get() - snapshot.get());
    shown.from_snapshot += usize::from(snapshot.get() > 0);

    for _ in 0..random.usize(1..40) {
        expected.step(&depot, random).await;
        may_be_sent.append(&mut expected.unconfirmed.clone());
    }

    // Some are under way at the end: done and answered, or not at all.
    let mut under_way = JoinSet::new();
    for weight in 1..random.u64(1..20) {
        let depot = depot.clone();
        under_way.spawn(async move {
            let is_sent_on = false;
            let stored = depot.ask(Store { weight, is_sent_on }).await;
            (weight, matches!(stored, Ok(Ok(_))))
        });
    }
    tokio::task::yield_now().await;
    if random.bool() {
        depot.stop().await;
    } else {
        depot.kill().await;
    }
    while let Some(answered) = under_way.join_next().await {
        if let (weight, true) = answered.unwrap() {
            expected.store(weight);
        }
    }
    persistence.shutdown().await.unwrap();

    all_sent(&seen, &expected.unconfirmed).await;
    for (id, weight) in &*seen.sent.borrow() {
        assert_eq!(may_be_sent.get(id), Some(weight), "delivery {id} was sent");
    }
    seen.no_failure();
    let deleted_to = look_at_stores(directory, expected).await;
    shown.deleted += usize::from(deleted_to > 0);
}

async fn all_sent(seen: &Seen, owed: &BTreeMap<DeliveryId, u64>) {
    let mut sent = seen.sent.subscribe();
    let all = sent.wait_for(|sent| owed.iter().all(|(id, weight)| sent.get(id) == Some(weight)));
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(all.is_ok(), "{owed:?} of {:?}", seen.sent.borrow());
}

/// Contiguous events behind the deleted ones, and no more snapshots than are kept. Returns up to where events are deleted.
async fn look_at_stores(directory: &Path, expected: &Expected) -> u64 {
    let id = PersistenceId::new(ID).unwrap();
    let journal = EmbeddedJournal::open(directory).await.unwrap();
    let bounds = journal.bounds(&id).await.unwrap();
    assert_eq!(bounds.highest.get(), expected.highest);
    let snapshots = journal.snapshots().list(&id, SelectionCriteria::ALL).await;
    assert!(snapshots.unwrap().len() <= KEEP);
    journal.shutdown().await.unwrap();
    bounds.deleted_to.get()
}

async fn rounds(first: Framework, second: Framework) {
    let seed = env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Expected::default();
    let mut shown = Shown::default();
    for framework in [first, second].into_iter().cycle().take(ROUNDS) {
        round(framework, folder.path(), &mut expected, &mut shown, &mut random).await;
    }
    assert!(shown.from_snapshot > 0, "no recovery began with a snapshot");
    assert!(
        shown.sent_again > 0,
        "no delivery was left to the other framework"
    );
    assert!(shown.deleted > 0, "no events were deleted");
}

/// Repeat a failure with `SEED=n cargo test --test cross_framework`.
#[actix::test]
async fn what_actix_wrote_ractor_recovers_and_back() {
    rounds(Framework::Actix, Framework::Ractor).await;
}

/// Repeat a failure with `SEED=n cargo test --test cross_framework`.
#[actix::test]
async fn what_ractor_wrote_actix_recovers_and_back() {
    rounds(Framework::Ractor, Framework::Actix).await;
}
