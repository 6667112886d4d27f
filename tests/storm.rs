//! Everything at once: two owners of one journal fence each other, actors are killed and spawned again, appends, claims
//! and snapshots are slow and fail in every way, and clients go on all the while. Afterwards each answer is held against
//! what recovers: acknowledged is stored once and where the answer said, refused is not stored, all are answered, and
//! nothing stays taken.
//!
//! Repeat the faults of a run: `STORM_SEED=7 cargo test --test storm`. Longer: `STORM_COMMANDS=100000`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a panic is how a test fails; the seed"
)]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use actor_journal::{
    Appended, AtomicWrite, Backoff, Bounds, Capabilities, Claim, Command, Deletion, Effect, Effects,
    ErrorKind, Event, EventSourced, EventStream, Handles, Incarnation, Journal, JournalError, JournalInfo,
    Loaded, MemoryJournal, MemorySnapshotStore, Operation, Outcome, PersistError, Persistence, PersistenceId,
    Persistent, ReplayRange, SelectionCriteria, SequenceNr, Snapshot, SnapshotError, SnapshotMetadata,
    SnapshotStore, WriterId, persistent,
    ractor::{PersistentRef, SpawnPersistent},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::sleep};

const IDS: usize = 12;
const OWNERS: usize = 2;
const CLIENTS: u64 = 32;
const PATIENCE: Duration = Duration::from_secs(60);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What befalls journal and snapshot store.
#[derive(Debug)]
struct Weather {
    dice: Mutex<fastrand::Rng>,
    calm: AtomicBool,
}

impl Weather {
    /// A number below 100 after a short wait; from 50 on all is well.
    async fn strikes(&self) -> u8 {
        if self.calm.load(Ordering::Relaxed) {
            return 99;
        }
        let (wait, strike) = {
            let mut dice = self.dice.lock().unwrap();
            (dice.u64(0..2_000), dice.u8(0..100))
        };
        sleep(Duration::from_micros(wait)).await;
        strike
    }
}

#[derive(Debug, Clone)]
struct Stormy<S> {
    inner: S,
    weather: Arc<Weather>,
}

#[async_trait]
impl Journal for Stormy<MemoryJournal> {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.inner)
    }
    fn capabilities(&self) -> Capabilities {
        Journal::capabilities(&self.inner)
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        let strike = self.weather.strikes().await;
        let claim = Journal::claim(&self.inner, id, writer).await;
        match strike {
            0..3 => Err(JournalError::unknown(
                ErrorKind::Timeout,
                Operation::Claim,
                "lost",
            )),
            _ => claim,
        }
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        let operation = Operation::Append;
        match self.weather.strikes().await {
            0..5 => {
                return Err(JournalError::not_stored(
                    ErrorKind::Unavailable,
                    operation,
                    "down",
                ));
            }
            5..8 => return Err(JournalError::not_stored(ErrorKind::Corrupt, operation, "broken")),
            8..11 => return Err(JournalError::rejected(Some(writes.len() / 2), "too odd")),
            11..15 => {
                claim.spend();
                return Err(JournalError::unknown(ErrorKind::Timeout, operation, "lost"));
            }
            15..19 => {
                Journal::append(&self.inner, claim, expected, writes).await?;
                claim.spend();
                return Err(JournalError::unknown(
                    ErrorKind::Timeout,
                    operation,
                    "answer lost",
                ));
            }
            _ => {}
        }
        let appended = Journal::append(&self.inner, claim, expected, writes).await;
        self.weather.strikes().await;
        appended
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Journal::bounds(&self.inner, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.inner.replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        self.weather.strikes().await;
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

#[async_trait]
impl SnapshotStore for Stormy<MemorySnapshotStore> {
    async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let strike = self.weather.strikes().await;
        if strike < 5 {
            return Err(SnapshotError::new("save", "not now"));
        }
        self.inner.save(snapshot).await
    }
    async fn load(&self, id: &PersistenceId, criteria: SelectionCriteria) -> Result<Loaded, SnapshotError> {
        self.weather.strikes().await;
        self.inner.load(id, criteria).await
    }
    async fn list(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<Vec<SnapshotMetadata>, SnapshotError> {
        let listed = self.inner.list(id, criteria).await;
        self.weather.strikes().await;
        listed
    }
    async fn delete(&self, snapshot: &SnapshotMetadata) -> Result<(), SnapshotError> {
        self.inner.delete(snapshot).await
    }
    async fn delete_matching(
        &self,
        id: &PersistenceId,
        criteria: SelectionCriteria,
    ) -> Result<(), SnapshotError> {
        self.weather.strikes().await;
        self.inner.delete_matching(id, criteria).await
    }
    async fn keep_newest(
        &self,
        id: &PersistenceId,
        incarnation: Incarnation,
        count: usize,
    ) -> Result<(), SnapshotError> {
        self.inner.keep_newest(id, incarnation, count).await
    }
}

/// Keeps all it is given, in order.
struct Keeper;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "kept", version = 1)]
struct Kept(u64);

impl EventSourced for Keeper {
    type Event = Kept;
    type State = Vec<u64>;

    fn apply(state: &mut Vec<u64>, Kept(token): &Kept) {
        state.push(*token);
    }
}

/// Answers how many it has then.
struct Keep(u64);

impl Command for Keep {
    type Reply = Result<usize, PersistError>;
}

impl Handles<Keep> for Keeper {
    fn handle(&self, _: &Vec<u64>, Keep(token): Keep) -> Effect<Self, Result<usize, PersistError>> {
        assert!(!token.is_multiple_of(97), "it panics at times");
        let effect = self.persist(Kept(token));
        if token.is_multiple_of(41) {
            return effect.then_stop().then_reply(|state| Ok(state.len()));
        }
        effect.then_reply(|state| Ok(state.len()))
    }
}

struct All;

impl Command for All {
    type Reply = Result<Vec<u64>, PersistError>;
}

impl Handles<All> for Keeper {
    fn handle(&self, state: &Vec<u64>, _: All) -> Effect<Self, Result<Vec<u64>, PersistError>> {
        self.reply(Ok(state.clone()))
    }
}

fn keeper(id: usize) -> Persistent<Keeper> {
    persistent(Keeper, format!("keeper|{id}"))
        .snapshot_every(7)
        .keep(2)
        .delete_events()
        .append_limits(5, 1 << 20)
        .unknown_wait(Duration::from_millis(200))
        .backoff(Backoff {
            shortest: Duration::from_millis(1),
            longest: Duration::from_millis(20),
        })
}

/// What was said about a token.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// It is stored, as the so-manieth.
    Stored(usize),
    NotStored,
    Unknown,
}

type Actors = Arc<Mutex<HashMap<(usize, usize), PersistentRef<Keeper>>>>;

fn actor(actors: &Actors, owners: &[Persistence], owner: usize, id: usize) -> PersistentRef<Keeper> {
    let spawn = || keeper(id).spawn_instant(&owners[owner]).unwrap();
    actors
        .lock()
        .unwrap()
        .entry((owner, id))
        .or_insert_with(spawn)
        .clone()
}

async fn storm(seed: u64, commands: u64) {
    eprintln!("STORM_SEED={seed} STORM_COMMANDS={commands}");
    let weather = Arc::new(Weather {
        dice: Mutex::new(fastrand::Rng::with_seed(seed)),
        calm: AtomicBool::new(false),
    });
    let journal = MemoryJournal::new();
    let snapshots = MemorySnapshotStore::new();
    let owner = || {
        let journal = Stormy {
            inner: journal.clone(),
            weather: weather.clone(),
        };
        let snapshots = Stormy {
            inner: snapshots.clone(),
            weather: weather.clone(),
        };
        let owner = Persistence::builder(journal)
            .snapshots(snapshots)
            .recovery_permits(4);
        owner.build().unwrap()
    };
    let owners: Arc<[Persistence]> = (0..OWNERS).map(|_| owner()).collect();
    let actors = Actors::default();
    let tokens = Arc::new(AtomicU64::new(1));

    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (owners, actors, tokens) = (owners.clone(), actors.clone(), tokens.clone());
        let mut dice = fastrand::Rng::with_seed(seed ^ (client + 1));
        clients.spawn(async move {
            let mut said = Vec::new();
            loop {
                let token = tokens.fetch_add(1, Ordering::Relaxed);
                if token > commands {
                    return said;
                }
                let (owner, id) = (dice.usize(0..OWNERS), dice.usize(0..IDS));
                let keeper = actor(&actors, &owners, owner, id);
                let answer = tokio::time::timeout(PATIENCE, keeper.ask(Keep(token)))
                    .await
                    .unwrap_or_else(|_| panic!("token {token} of owner {owner}, id {id} was never answered"));
                let outcome = match &answer {
                    Ok(Ok(position)) => Said::Stored(*position),
                    Ok(Err(error)) if error.outcome() == Outcome::Unknown => Said::Unknown,
                    // The actor ended before it handled the command.
                    Ok(Err(_)) | Err(_) => Said::NotStored,
                };
                if answer.is_err() || dice.u8(0..200) == 0 {
                    let another = |_: &_, other: &mut PersistentRef<_>| other.get_cell() != keeper.get_cell();
                    actors.lock().unwrap().retain(another);
                    match dice.u8(0..3) {
                        0 => keeper.kill().await,
                        1 => keeper.stop().await,
                        _ => keeper.drain().await,
                    }
                }
                said.push((id, token, outcome));
            }
        });
    }
    let mut said = Vec::new();
    while let Some(client) = clients.join_next().await {
        said.extend(client.unwrap());
    }

    weather.calm.store(true, Ordering::Relaxed);
    let last: Vec<_> = actors.lock().unwrap().drain().map(|(_, actor)| actor).collect();
    for actor in last {
        tokio::time::timeout(PATIENCE, actor.stop())
            .await
            .expect("it stops");
    }
    for owner in &*owners {
        let shutdown = tokio::time::timeout(PATIENCE, owner.shutdown()).await;
        shutdown.expect("nothing keeps an id").unwrap();
        assert_eq!(owner.available_permits(), 4);
    }

    let reader = owner();
    let mut kept = Vec::new();
    for id in 0..IDS {
        let actor = keeper(id).spawn(&reader).await.unwrap();
        kept.push(actor.ask(All).await.unwrap().unwrap());
        actor.stop().await;
    }
    let mut stored = 0;
    for (id, token, said) in said {
        let places: Vec<_> = (1..).zip(&kept[id]).filter(|(_, kept)| **kept == token).collect();
        let places: Vec<usize> = places.into_iter().map(|(place, _)| place).collect();
        let right = match said {
            Said::Stored(place) => places == [place],
            Said::NotStored => places.is_empty(),
            Said::Unknown => places.len() <= 1,
        };
        assert!(
            right,
            "token {token} of {id}: said {said:?}, but it is at {places:?}"
        );
        stored += usize::from(matches!(said, Said::Stored(_)));
    }
    // Else this was no test of what is stored.
    assert!(
        stored as u64 > commands / 10,
        "only {stored} of {commands} were stored"
    );
    eprintln!("{stored} of {commands} were acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_answers_are_true_and_nothing_hangs_or_stays_taken() {
    storm(
        number("STORM_SEED", fastrand::u64(..)),
        number("STORM_COMMANDS", 4_000),
    )
    .await;
}
