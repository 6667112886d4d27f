//! More commands than a slow journal can store: what waits is bounded, the rest is answered `Overloaded` at once, and
//! everything admitted is answered in the end.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what was measured")]

#[path = "common/child.rs"]
mod child;
#[path = "common/resident.rs"]
mod resident;

use std::sync::Arc;

use actor_journal::{
    AppendPart, Appended, AtomicWrite, Bounds, Capabilities, Claim, Command, Deletion, Effect, Effects,
    Event, EventSourced, EventStream, Handles, Journal, JournalError, JournalInfo, MemoryJournal,
    PersistError, Persistence, PersistenceId, ReplayRange, SequenceNr, WriterId, persistent,
    ractor::{Envelope, PersistentRef, SpawnPersistent, TellError, ractor::rpc::CallResult},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};

/// A journal in memory that stores nothing until it is let.
#[derive(Debug, Clone)]
struct SlowJournal {
    memory: MemoryJournal,
    /// Appends that may go on.
    open: Arc<Semaphore>,
}

impl SlowJournal {
    fn new() -> Self {
        Self {
            memory: MemoryJournal::new(),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    /// From now on every append goes on.
    fn recover(&self) {
        self.open.close();
    }

    async fn wait(&self) {
        if let Ok(permit) = self.open.acquire().await {
            permit.forget();
        }
    }
}

#[async_trait]
impl Journal for SlowJournal {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.memory)
    }
    fn capabilities(&self) -> Capabilities {
        Journal::capabilities(&self.memory)
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        Journal::claim(&self.memory, id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        self.wait().await;
        Journal::append(&self.memory, claim, expected, writes).await
    }
    async fn append_group(&self, parts: &mut [AppendPart]) {
        self.wait().await;
        self.memory.append_group(parts).await;
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Journal::bounds(&self.memory, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        self.memory.replay(id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        Journal::delete_to(&self.memory, id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        Journal::purge(&self.memory, id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        Journal::flush(&self.memory).await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.memory).await
    }
}

struct Log;

#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "logged", version = 1)]
struct Logged {
    text: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Count {
    events: usize,
}

impl EventSourced for Log {
    type Event = Logged;
    type State = Count;

    fn apply(state: &mut Count, _: &Logged) {
        state.events += 1;
    }
}

#[derive(Debug)]
struct Failed(PersistError);

impl From<PersistError> for Failed {
    fn from(error: PersistError) -> Self {
        Self(error)
    }
}

/// Logs so many bytes.
struct Write(usize);

impl Command for Write {
    type Reply = Result<usize, Failed>;
}

impl Handles<Write> for Log {
    fn handle(&self, _: &Count, Write(bytes): Write) -> Effect<Self, Result<usize, Failed>> {
        let text = "x".repeat(bytes);
        self.persist(Logged { text }).then_reply(|state| Ok(state.events))
    }
}

fn persistence(journal: &SlowJournal) -> Persistence {
    Persistence::builder(journal.clone()).build().unwrap()
}

/// Asks for `writes` at once.
fn flood(log: &PersistentRef<Log>, writes: usize, bytes: usize) -> JoinSet<Result<usize, Failed>> {
    (0..writes)
        .map(|_| {
            let log = log.clone();
            async move { log.ask(Write(bytes)).await.unwrap() }
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_beyond_the_bound_are_refused_and_those_admitted_are_all_answered() {
    const LIMIT: usize = 100;
    const WRITES: usize = 5_000;
    let journal = SlowJournal::new();
    let persistence = persistence(&journal);
    let log = persistent(Log, "log")
        .max_waiting(LIMIT)
        .spawn(&persistence)
        .await
        .unwrap();

    let mut answers = flood(&log, WRITES, 10);
    for _ in 0..WRITES - LIMIT {
        // While nothing is stored only refusals come, exactly of those beyond the limit.
        match answers.join_next().await.unwrap().unwrap() {
            // Others that are being refused may be counted for a moment.
            Err(Failed(PersistError::Overloaded { waiting, .. })) => assert!(waiting >= LIMIT),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((answers.len(), log.waiting()), (LIMIT, LIMIT));

    journal.recover();
    let mut numbers = Vec::new();
    while let Some(answer) = answers.join_next().await {
        numbers.push(answer.unwrap().unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=LIMIT).collect::<Vec<_>>());
    // There is room again, and what was refused left no trace.
    assert_eq!(log.ask(Write(10)).await.unwrap().unwrap(), LIMIT + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_beyond_the_bound_are_refused_however_few_the_commands_are() {
    const EVENT: usize = 64 << 10;
    const LIMIT: usize = 1 << 20;
    let journal = SlowJournal::new();
    let persistence = persistence(&journal);
    let log = persistent(Log, "log")
        .max_waiting_bytes(LIMIT)
        .append_limits(1_000, LIMIT)
        .spawn(&persistence)
        .await
        .unwrap();

    let mut answers = flood(&log, 1_000, EVENT);
    let mut refused = 0;
    // An append in flight, and as much gathered; each may be passed by one event.
    let most = 2 * (LIMIT / EVENT + 1);
    while refused < 1_000 - most {
        match answers.join_next().await.unwrap().unwrap() {
            Err(Failed(PersistError::Overloaded { bytes, .. })) => {
                assert!(bytes <= LIMIT + EVENT + 1_000, "{bytes} bytes wait");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    journal.recover();
    let mut stored = 0;
    while let Some(answer) = answers.join_next().await {
        match answer.unwrap() {
            Ok(_) => stored += 1,
            Err(Failed(PersistError::Overloaded { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(
        (LIMIT / EVENT..=most).contains(&stored),
        "{stored} events were admitted"
    );
    assert_eq!(log.ask(Write(1)).await.unwrap().unwrap(), stored + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_ractor_messages_beyond_the_bound_are_refused_too() {
    const LIMIT: usize = 10;
    let journal = SlowJournal::new();
    let persistence = persistence(&journal);
    let log = persistent(Log, "log")
        .max_waiting(LIMIT)
        .spawn(&persistence)
        .await
        .unwrap();
    let mut calls: JoinSet<_> = (0..100)
        .map(|_| {
            let actor = log.actor_ref();
            async move {
                actor
                    .call(|port| Envelope::call(Write(10), port), None)
                    .await
                    .unwrap()
            }
        })
        .collect();
    for _ in 0..100 - LIMIT {
        match calls.join_next().await.unwrap().unwrap() {
            CallResult::Success(Err(Failed(PersistError::Overloaded { .. }))) => {}
            other => panic!("{other:?}"),
        }
    }
    journal.recover();
    while let Some(answer) = calls.join_next().await {
        assert!(matches!(answer.unwrap(), CallResult::Success(Ok(_))));
    }
}

#[test]
fn the_memory_of_a_flood_is_bounded() {
    const BYTES: usize = 1_000;
    const TELLS: usize = 500_000;
    const BOUND: u64 = 32 << 20;
    const MEASURED: &str = "measured:";
    if child::role().is_some() {
        let grown = flood_with_tells(TELLS, BYTES);
        // The test harness has begun this line.
        println!("\n{MEASURED}{grown}");
        return;
    }
    if cfg!(not(target_os = "linux")) {
        eprintln!("not applicable: only Linux tells a process its peak of resident memory and resets it");
        return;
    }
    let output = child::command("the_memory_of_a_flood_is_bounded", "flood")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{printed}{errors}", output.status);
    let grown = printed
        .lines()
        .find_map(|line| line.strip_prefix(MEASURED))
        .unwrap();
    let grown: u64 = grown.parse().unwrap();
    println!("{TELLS} commands of {BYTES} bytes took {grown} bytes");
    assert!(grown <= BOUND, "{grown} bytes");
}

/// By how much the resident memory grows at most.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn flood_with_tells(tells: usize, bytes: usize) -> u64 {
    let journal = SlowJournal::new();
    let persistence = persistence(&journal);
    let log = persistent(Log, "log").spawn(&persistence).await.unwrap();
    let before = resident::now();
    resident::forget_peak();
    let mut refused = 0_usize;
    for _ in 0..tells {
        match log.tell(Tell("x".repeat(bytes))) {
            Ok(()) => {}
            Err(TellError::Overloaded(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let grown = resident::peak().saturating_sub(before);
    assert!(refused > tells / 2, "only {refused} of {tells} were refused");
    journal.recover();
    log.drain().await;
    let log = persistent(Log, "log").spawn(&persistence).await.unwrap();
    let admitted = tells - refused;
    assert_eq!(log.ask(Write(1)).await.unwrap().unwrap(), admitted + 1);
    grown
}

/// A command with a text of its own that nobody waits for.
struct Tell(String);

impl Command for Tell {
    type Reply = ();
}

impl Handles<Tell> for Log {
    fn handle(&self, _: &Count, Tell(text): Tell) -> Effect<Self> {
        self.persist(Logged { text })
    }
}
