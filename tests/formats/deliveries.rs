//! Deliveries: their events and the engine section of a snapshot, an addition to format 1.

use std::{
    fs,
    path::Path,
    sync::{Arc, OnceLock},
};

use actor_journal::{
    AtomicWrite, CodecId, Command, Deletion, Delivers, DeliveryId, Effect, Effects, EncodedEvent, Event,
    EventSourced, Handles, Journal, Manifest, MemoryJournal, MemorySnapshotStore, PersistError, Persistence,
    Persistent, ReplayRange, SelectionCriteria, SequenceNr, Snapshot, SnapshotMetadata, SnapshotStore,
    WriterId, persistent, ractor::SpawnPersistent,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{collect, fixture, id};

/// To be kept as it is.
struct Shop {
    sent: UnboundedSender<(DeliveryId, Ship)>,
}

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "ordered", version = 1)]
struct Ordered;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, Event)]
#[event(manifest = "ship", version = 3)]
struct Ship {
    article: String,
}

impl EventSourced for Shop {
    type Event = Ordered;
    type State = u64;

    fn apply(orders: &mut u64, Ordered: &Ordered) {
        *orders += 1;
    }
}

impl Delivers for Shop {
    type Delivery = Ship;

    fn send(&self, id: DeliveryId, ship: Ship) {
        self.sent.send((id, ship)).unwrap();
    }
}

struct Order(&'static str);

impl Command for Order {
    type Reply = Result<u64, PersistError>;
}

impl Handles<Order> for Shop {
    fn handle(&self, _: &u64, Order(article): Order) -> Effect<Self, Result<u64, PersistError>> {
        let article = article.to_owned();
        self.persist(Ordered)
            .then_deliver(Ship { article })
            .then_reply(|orders| Ok(*orders))
    }
}

struct Arrived(u64);

impl Command for Arrived {
    type Reply = Result<u64, PersistError>;
}

impl Handles<Arrived> for Shop {
    fn handle(&self, _: &u64, Arrived(id): Arrived) -> Effect<Self, Result<u64, PersistError>> {
        self.none()
            .then_confirm(DeliveryId::new(id))
            .then_reply(|orders| Ok(*orders))
    }
}

fn shop(name: &str) -> (Persistent<Shop>, UnboundedReceiver<(DeliveryId, Ship)>) {
    let (sent, was_sent) = unbounded_channel();
    (persistent(Shop { sent }, name).delivers(), was_sent)
}

/// The names of the fixtures: the payloads of an actor's five events, in order, and its snapshot's.
const EVENTS: [&str; 5] = ["1-ordered", "2-deliver", "3-ordered", "4-deliver", "5-confirm"];
const SNAPSHOT: &str = "snapshot-at-5";

#[tokio::main(flavor = "current_thread")]
async fn write(directory: &Path) {
    let (journal, snapshots) = (MemoryJournal::new(), MemorySnapshotStore::new());
    let persistence = Persistence::builder(journal.clone())
        .snapshots(snapshots.clone())
        .build()
        .unwrap();
    let (shop, _sent) = shop("shop");
    let shop = shop.snapshot_every(5).spawn(&persistence).await.unwrap();
    shop.ask(Order("größer")).await.unwrap().unwrap();
    shop.ask(Order("b")).await.unwrap().unwrap();
    shop.ask(Arrived(4)).await.unwrap().unwrap();
    shop.stop().await;
    persistence.shutdown().await.unwrap();
    fs::create_dir_all(directory).unwrap();
    let records = collect(Journal::replay(&journal, &id("shop"), ReplayRange::ALL)).await;
    for (name, record) in EVENTS.iter().zip(records.unwrap()) {
        fs::write(directory.join(name), record.event.payload).unwrap();
    }
    let loaded = snapshots.load(&id("shop"), SelectionCriteria::ALL).await.unwrap();
    fs::write(directory.join(SNAPSHOT), loaded.snapshot.unwrap().payload).unwrap();
}

/// The fixtures, read.
fn read(name: &str) -> Bytes {
    static WRITTEN: OnceLock<()> = OnceLock::new();
    let directory = fixture::root().join("deliveries");
    WRITTEN.get_or_init(|| {
        if fixture::is_to_be_written(&directory) {
            let directory = directory.clone();
            std::thread::spawn(move || write(&directory)).join().unwrap();
        }
    });
    fs::read(directory.join(name)).unwrap().into()
}

async fn persistence_of_the_fixtures(only_the_snapshot: bool) -> Persistence {
    let (journal, snapshots) = (MemoryJournal::new(), MemorySnapshotStore::new());
    let events = EVENTS.map(|name| {
        let (manifest, codec) = match name {
            "2-deliver" | "4-deliver" => ("actor-journal/deliver", CodecId(0)),
            "5-confirm" => ("actor-journal/confirm", CodecId(0)),
            _ => ("ordered", CodecId::MESSAGE_PACK),
        };
        EncodedEvent {
            payload: read(name),
            codec,
            manifest: Manifest::from_static(manifest),
            schema_version: 1,
            timestamp: fixture::TIME,
            tags: Vec::new(),
            metadata: Bytes::new(),
        }
    });
    let mut claim = Journal::claim(&journal, &id("shop"), WriterId::random())
        .await
        .unwrap();
    let write = Arc::new([AtomicWrite::from(events.to_vec())]);
    Journal::append(&journal, &mut claim, SequenceNr::ZERO, write)
        .await
        .unwrap();
    if only_the_snapshot {
        let metadata = SnapshotMetadata {
            persistence_id: id("shop"),
            sequence_nr: SequenceNr::new(5),
            incarnation: claim.incarnation(),
            timestamp: fixture::TIME,
        };
        let payload = read(SNAPSHOT);
        snapshots.save(Snapshot { metadata, payload }).await.unwrap();
        let deletion = Deletion {
            to: SequenceNr::new(5),
            incarnation: claim.incarnation(),
            fresh_start: false,
        };
        Journal::delete_to(&journal, &id("shop"), deletion).await.unwrap();
    }
    Persistence::builder(journal)
        .snapshots(snapshots)
        .build()
        .unwrap()
}

#[tokio::test]
async fn deliveries_are_read_from_events_and_from_a_snapshot() {
    for only_the_snapshot in [false, true] {
        let persistence = persistence_of_the_fixtures(only_the_snapshot).await;
        let (shop, mut sent) = shop("shop");
        let shop = shop.spawn(&persistence).await.unwrap();
        assert_eq!(shop.ask(Arrived(4)).await.unwrap().unwrap(), 2);
        let article = "größer".to_owned();
        let unconfirmed = (DeliveryId::new(2), Ship { article });
        assert_eq!(sent.recv().await, Some(unconfirmed));
        shop.stop().await;
        assert!(sent.is_empty());
    }
}

#[tokio::test]
async fn deliveries_are_written_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let written = directory.path().join("deliveries");
    let path = written.clone();
    std::thread::spawn(move || write(&path)).join().unwrap();
    for name in EVENTS.into_iter().chain([SNAPSHOT]) {
        assert_eq!(fs::read(written.join(name)).unwrap(), read(name), "{name}");
    }
}
