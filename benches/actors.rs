//! `cargo bench --bench actors`: persistent ractor actors beside the journal alone, in the same run.
//!
//! - end to end: command in, durable reply out, at 1, 64 and 1 024 actors, as a ratio to `append` alone on the same
//!   embedded journal, with the CPU time per command;
//! - pipelining: one actor with 1 000 commands in flight beside strict mode, on a journal that acknowledges after 1 ms;
//! - recovery: replay of one id's events alone, with decoding, and with decoding and applying.
//!
//! Everything is measured in turns, so that what else the machine does hits all rows; medians are printed.
//! `JOURNAL_BENCH_DIR` names another directory than the system's temporary one, `JOURNAL_BENCH_ROUNDS` the rounds.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use actor_journal::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, Command, Deletion, Effect, Effects, Event,
    EventSerializer, EventSourced, EventStream, Handles, Journal, JournalError, JournalInfo, MemoryJournal,
    MessagePack, PersistError, Persistence, PersistenceId, ReplayRange, SequenceNr, Timestamp, WriterId,
    actix::{Durable, PersistentActor, PersistentAddr, SpawnPersistent as _, actix as ax},
    embedded::EmbeddedJournal,
    persistent,
    ractor::{PersistentRef, SpawnPersistent as _},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, task::JoinHandle};

const ROUND: Duration = Duration::from_millis(500);

/// About 200 bytes as MessagePack with field names.
#[derive(Serialize, Deserialize, Event)]
#[event(manifest = "account-event", version = 1)]
struct Deposited {
    cents: u64,
    text: String,
}

impl Deposited {
    fn new(cents: u64) -> Self {
        Self {
            cents,
            text: "x".repeat(180),
        }
    }
}

struct Account;

#[derive(Default, Serialize, Deserialize)]
struct Balance {
    cents: u64,
}

impl EventSourced for Account {
    type Event = Deposited;
    type State = Balance;
    fn apply(state: &mut Balance, event: &Deposited) {
        state.cents += event.cents;
    }
}

struct Deposit(u64);

impl Command for Deposit {
    type Reply = Result<u64, PersistError>;
}

impl Handles<Deposit> for Account {
    fn handle(&self, _: &Balance, Deposit(cents): Deposit) -> Effect<Self, Result<u64, PersistError>> {
        self.persist(Deposited::new(cents))
            .then_reply(|state| Ok(state.cents))
    }
}

/// The same on actix, as its own model.
#[derive(PersistentActor)]
struct AccountActor {
    #[persistent(id)]
    id: String,
    #[persistent(state)]
    durable: Durable<Self>,
}
impl EventSourced for AccountActor {
    type Event = Deposited;
    type State = Balance;
    fn apply(state: &mut Balance, event: &Deposited) {
        state.cents += event.cents;
    }
}
impl Handles<Deposit> for AccountActor {
    fn handle(&self, _: &Balance, Deposit(cents): Deposit) -> Effect<Self, Result<u64, PersistError>> {
        self.persist(Deposited::new(cents))
            .then_reply(|state| Ok(state.cents))
    }
}
impl ax::Message for Deposit {
    type Result = Result<u64, PersistError>;
}
/// Acknowledges each append after a millisecond, whatever its size.
#[derive(Debug)]
struct Slow(MemoryJournal);

#[async_trait]
impl Journal for Slow {
    fn info(&self) -> JournalInfo {
        Journal::info(&self.0)
    }
    fn capabilities(&self) -> Capabilities {
        Journal::capabilities(&self.0)
    }
    async fn claim(&self, id: &PersistenceId, writer: WriterId) -> Result<Claim, JournalError> {
        Journal::claim(&self.0, id, writer).await
    }
    async fn append(
        &self,
        claim: &mut Claim,
        expected: SequenceNr,
        writes: Arc<[AtomicWrite]>,
    ) -> Result<Appended, JournalError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Journal::append(&self.0, claim, expected, writes).await
    }
    async fn bounds(&self, id: &PersistenceId) -> Result<Bounds, JournalError> {
        Journal::bounds(&self.0, id).await
    }
    fn replay(&self, id: &PersistenceId, range: ReplayRange) -> EventStream {
        Journal::replay(&self.0, id, range)
    }
    async fn delete_to(&self, id: &PersistenceId, deletion: Deletion) -> Result<SequenceNr, JournalError> {
        Journal::delete_to(&self.0, id, deletion).await
    }
    async fn purge(&self, id: &PersistenceId) -> Result<(), JournalError> {
        Journal::purge(&self.0, id).await
    }
    async fn flush(&self) -> Result<(), JournalError> {
        Journal::flush(&self.0).await
    }
    async fn shutdown(&self) -> Result<(), JournalError> {
        Journal::shutdown(&self.0).await
    }
}

/// Lets each worker work for a round; operations per second, CPU microseconds per operation, and the workers.
fn round<W: Send + 'static>(
    runtime: &Runtime,
    workers: Vec<W>,
    spawn: impl Fn(W, Arc<Round>) -> JoinHandle<W>,
) -> (Rate, Vec<W>) {
    let round = Arc::new(Round::default());
    let (started, cpu) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|worker| spawn(worker, round.clone()))
        .collect();
    std::thread::sleep(ROUND);
    round.over.store(true, Ordering::Relaxed);
    let workers = runtime.block_on(async {
        let mut workers = Vec::new();
        for task in tasks {
            workers.push(task.await.unwrap());
        }
        workers
    });
    let done = round.done.load(Ordering::Relaxed) as f64;
    let rate = Rate {
        per_second: done / started.elapsed().as_secs_f64(),
        cpu_micros: (cpu_time() - cpu).as_secs_f64() * 1e6 / done,
    };
    (rate, workers)
}

#[derive(Default)]
struct Round {
    over: AtomicBool,
    done: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    per_second: f64,
    cpu_micros: f64,
}

fn median(mut rates: Vec<Rate>) -> Rate {
    rates.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rates[rates.len() / 2]
}

/// User and system time of this process, where the system tells.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the command's name in parentheses, utime and stime are fields 12 and 13; in ticks of 10 ms.
    let ticks: u64 = stat
        .rsplit(')')
        .next()
        .map(|rest| {
            rest.split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|field| field.parse::<u64>().ok())
                .sum()
        })
        .unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

fn append_round(runtime: &Runtime, journal: &EmbeddedJournal, claims: Vec<Claim>) -> (Rate, Vec<Claim>) {
    let serializer = Arc::new(EventSerializer::new(Arc::new(MessagePack)).unwrap());
    round(runtime, claims, |mut claim, round| {
        let (journal, serializer) = (journal.clone(), serializer.clone());
        runtime.spawn(async move {
            let mut done = 0;
            while !round.over.load(Ordering::Relaxed) {
                let event = serializer.encode(&Deposited::new(1), Timestamp(0)).unwrap();
                let highest = claim.highest();
                journal
                    .append(&mut claim, highest, Arc::new([AtomicWrite::from(event)]))
                    .await
                    .unwrap();
                done += 1;
            }
            round.done.fetch_add(done, Ordering::Relaxed);
            claim
        })
    })
}

fn ask_round(
    runtime: &Runtime,
    actors: Vec<PersistentRef<Account>>,
    in_flight: usize,
) -> (Rate, Vec<PersistentRef<Account>>) {
    round(runtime, actors, |actor, round| {
        runtime.spawn(async move {
            let clients: Vec<_> = (0..in_flight)
                .map(|_| {
                    let (actor, round) = (actor.clone(), round.clone());
                    tokio::spawn(async move {
                        let mut done = 0;
                        while !round.over.load(Ordering::Relaxed) {
                            actor.ask(Deposit(1)).await.unwrap().unwrap();
                            done += 1;
                        }
                        round.done.fetch_add(done, Ordering::Relaxed);
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            actor
        })
    })
}

/// Arbiters for actix actors, and the clients of each beside it.
struct Arbiters {
    system: ax::System,
    arbiters: Vec<ax::Arbiter>,
}

/// An actix actor and the number of its arbiter.
type Placed = (usize, PersistentAddr<AccountActor>);

impl Arbiters {
    fn start(number: usize) -> Self {
        let (started, arbiters) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runner = ax::System::new();
            let arbiters = runner.block_on(async move { (0..number).map(|_| ax::Arbiter::new()).collect() });
            started
                .send(Self {
                    system: ax::System::current(),
                    arbiters,
                })
                .ok();
            runner.run().unwrap();
        });
        arbiters.recv().unwrap()
    }

    /// As an actix application would build it: on no multi-threaded runtime.
    fn persistence(journal: impl Journal) -> Persistence {
        std::thread::spawn(|| Persistence::builder(journal).build().unwrap())
            .join()
            .unwrap()
    }

    async fn spawn(&self, number: usize, id: String, persistence: &Persistence, strict: bool) -> Placed {
        let place = number % self.arbiters.len();
        let durable: Durable<AccountActor> = Durable::new(persistence);
        let durable = if strict {
            durable.options(|options| options.strict())
        } else {
            durable
        };
        let (done, spawned) = tokio::sync::oneshot::channel();
        self.arbiters[place].spawn(async move {
            done.send(AccountActor { id, durable }.spawn().await).ok();
        });
        (place, spawned.await.unwrap().unwrap())
    }

    fn ask_round(&self, runtime: &Runtime, actors: Vec<Placed>, in_flight: usize) -> (Rate, Vec<Placed>) {
        round(runtime, actors, |(place, actor), round| {
            let (done, worked) = tokio::sync::oneshot::channel();
            self.arbiters[place].spawn(async move {
                let clients: Vec<_> = (0..in_flight)
                    .map(|_| {
                        let (actor, round) = (actor.addr().clone(), round.clone());
                        ax::spawn(async move {
                            let mut done = 0;
                            while !round.over.load(Ordering::Relaxed) {
                                actor.send(Deposit(1)).await.unwrap().unwrap();
                                done += 1;
                            }
                            round.done.fetch_add(done, Ordering::Relaxed);
                        })
                    })
                    .collect();
                for client in clients {
                    client.await.unwrap();
                }
                done.send((place, actor)).ok();
            });
            runtime.spawn(async move { worked.await.unwrap() })
        })
    }
}

fn end_to_end(runtime: &Runtime, arbiters: &Arbiters, directory: &Path, rounds: usize) {
    println!("end to end on the embedded journal, {rounds} rounds of {ROUND:?}, 200-byte events");
    println!(
        "{:>7} {:>12} {:>12} {:>12} {:>16} {:>14} {:>14} {:>14} {:>14}",
        "actors",
        "append/s",
        "ractor/s",
        "actix/s",
        "ractor/append",
        "actix/ractor",
        "CPU µs append",
        "CPU µs ractor",
        "CPU µs actix"
    );
    for actors in [1, 64, 1_024] {
        let directory = directory.join(format!("actors-{actors}"));
        let journal = runtime.block_on(EmbeddedJournal::open(&directory)).unwrap();
        let persistence = Persistence::builder(journal.clone()).build().unwrap();
        let actix_persistence = Arbiters::persistence(journal.clone());
        let mut claims = Vec::new();
        let mut refs = Vec::new();
        let mut addresses = Vec::new();
        runtime.block_on(async {
            for number in 0..actors {
                let id = PersistenceId::new(format!("append|{number}")).unwrap();
                claims.push(journal.claim(&id, WriterId::random()).await.unwrap());
                refs.push(
                    persistent(Account, format!("account|{number}"))
                        .spawn(&persistence)
                        .await
                        .unwrap(),
                );
                let id = format!("actix|{number}");
                addresses.push(arbiters.spawn(number, id, &actix_persistence, false).await);
            }
        });
        let (mut appends, mut commands, mut on_actix) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (rate, back) = append_round(runtime, &journal, std::mem::take(&mut claims));
            claims = back;
            appends.push(rate);
            let (rate, back) = ask_round(runtime, std::mem::take(&mut refs), 1);
            refs = back;
            commands.push(rate);
            let (rate, back) = arbiters.ask_round(runtime, std::mem::take(&mut addresses), 1);
            addresses = back;
            on_actix.push(rate);
        }
        let (append, command, on_actix) = (median(appends), median(commands), median(on_actix));
        println!(
            "{actors:>7} {:>12.0} {:>12.0} {:>12.0} {:>16.2} {:>14.2} {:>14.2} {:>14.2} {:>14.2}",
            append.per_second,
            command.per_second,
            on_actix.per_second,
            command.per_second / append.per_second,
            on_actix.per_second / command.per_second,
            append.cpu_micros,
            command.cpu_micros,
            on_actix.cpu_micros
        );
        runtime.block_on(async {
            for actor in refs {
                actor.stop().await;
            }
            for (_, actor) in addresses {
                actor.stop().await;
            }
            actix_persistence.shutdown().await.unwrap();
        });
    }
}

fn pipelining(runtime: &Runtime, arbiters: &Arbiters, rounds: usize) {
    let persistence = Persistence::builder(Slow(MemoryJournal::new())).build().unwrap();
    let (mut pipelined, mut strict) = runtime.block_on(async {
        let pipelined = persistent(Account, "pipelined")
            .spawn(&persistence)
            .await
            .unwrap();
        let strict = persistent(Account, "strict")
            .strict()
            .spawn(&persistence)
            .await
            .unwrap();
        (vec![pipelined], vec![strict])
    });
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (rate, back) = ask_round(runtime, std::mem::take(&mut pipelined), 1_000);
        pipelined = back;
        fast.push(rate);
        let (rate, back) = ask_round(runtime, std::mem::take(&mut strict), 1_000);
        strict = back;
        slow.push(rate);
    }
    println!("\none actor, 1 000 commands in flight, acknowledged after 1 ms");
    let tell = |framework, fast, slow| {
        let (fast, slow) = (median(fast), median(slow));
        println!(
            "{framework}: pipelined {:.0}/s ({:.2} CPU µs), strict {:.0}/s, ratio {:.0}",
            fast.per_second,
            fast.cpu_micros,
            slow.per_second,
            fast.per_second / slow.per_second
        );
    };
    tell("ractor", fast, slow);
    let persistence = Arbiters::persistence(Slow(MemoryJournal::new()));
    let (mut pipelined, mut strict) = runtime.block_on(async {
        let pipelined = arbiters
            .spawn(0, "pipelined".to_owned(), &persistence, false)
            .await;
        let strict = arbiters.spawn(0, "strict".to_owned(), &persistence, true).await;
        (vec![pipelined], vec![strict])
    });
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (rate, back) = arbiters.ask_round(runtime, std::mem::take(&mut pipelined), 1_000);
        pipelined = back;
        fast.push(rate);
        let (rate, back) = arbiters.ask_round(runtime, std::mem::take(&mut strict), 1_000);
        strict = back;
        slow.push(rate);
    }
    tell("actix", fast, slow);
}

fn recovery(runtime: &Runtime, directory: &Path, rounds: usize) {
    const EVENTS: u64 = 500_000;
    let journal = runtime
        .block_on(EmbeddedJournal::open(directory.join("recovery")))
        .unwrap();
    let id = PersistenceId::new("one").unwrap();
    let serializer = EventSerializer::<Deposited>::new(Arc::new(MessagePack)).unwrap();
    runtime.block_on(async {
        let mut claim = journal.claim(&id, WriterId::random()).await.unwrap();
        while claim.highest().get() < EVENTS {
            let event = || AtomicWrite::from(serializer.encode(&Deposited::new(1), Timestamp(0)).unwrap());
            let highest = claim.highest();
            journal
                .append(&mut claim, highest, (0..1_000).map(|_| event()).collect())
                .await
                .unwrap();
        }
    });
    let replay = |decode: bool, apply: bool| {
        let started = Instant::now();
        let state = runtime.block_on(async {
            let mut state = Balance::default();
            let mut events = journal.replay(&id, ReplayRange::ALL);
            while let Some(chunk) = events.next_chunk().await {
                for record in chunk.unwrap() {
                    if decode {
                        let event = serializer.decode(&id, &record).unwrap();
                        if apply {
                            Account::apply(&mut state, &event);
                        }
                        std::hint::black_box(event);
                    }
                    std::hint::black_box(record);
                }
            }
            state
        });
        std::hint::black_box(state.cents);
        Rate {
            per_second: EVENTS as f64 / started.elapsed().as_secs_f64(),
            cpu_micros: 0.0,
        }
    };
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        rates[0].push(replay(false, false));
        rates[1].push(replay(true, false));
        rates[2].push(replay(true, true));
    }
    println!("\nreplay of {EVENTS} events of one id, from the page cache, events/s");
    let [alone, decoded, applied] = rates.map(|rates| median(rates).per_second);
    println!("alone {alone:.0}, decoded {decoded:.0}, decoded and applied {applied:.0}");
}

fn main() {
    let rounds = std::env::var("JOURNAL_BENCH_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(5);
    let directory = match std::env::var_os("JOURNAL_BENCH_DIR") {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let arbiters = Arbiters::start(2);
    end_to_end(&runtime, &arbiters, directory.path(), rounds);
    pipelining(&runtime, &arbiters, rounds);
    recovery(&runtime, directory.path(), rounds);
    arbiters.system.stop();
}
