//! `cargo bench -p journal-embedded`: appends beside bare fjall behind the same hand-over, then replay and its memory.
//!
//! Both write the same bytes on the same disk, in turns, so that what else the machine does hits both. `JOURNAL_BENCH_DIR`
//! names another directory than the one below `target`, `JOURNAL_BENCH_ROUNDS` the number of rounds.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a program that measures"
)]

use std::{
    fs, mem,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use futures_channel::oneshot;
use journal_core::{
    AtomicWrite, Claim, CodecId, EncodedEvent, Journal, Manifest, PersistenceId, ReplayRange, SequenceNr,
    Timestamp, WriterId,
};
use journal_embedded::{Durability, EmbeddedJournal};
use tokio::runtime::Runtime;

const PAYLOAD: usize = 200;
const ROUND: Duration = Duration::from_millis(400);
const REPLAYED: u64 = 2_000_000;
const LIMIT_MIB: u64 = 64;

fn event() -> EncodedEvent {
    EncodedEvent {
        payload: Bytes::from_static(&[b'x'; PAYLOAD]),
        codec: CodecId::MESSAGE_PACK,
        manifest: Manifest::from_static("account-event"),
        schema_version: 1,
        timestamp: Timestamp(1_700_000_000_000),
        tags: Vec::new(),
        metadata: Bytes::new(),
    }
}

fn id(writer: usize) -> PersistenceId {
    PersistenceId::new(format!("account|{writer:04}")).unwrap()
}

/// The length of the row of [`event`] alone: 53 for the write, 30 for the event, its manifest and payload.
const ROW: usize = 53 + 30 + "account-event".len() + PAYLOAD;

/// The committer of the journal without a journal: rows that are ready, one batch and one flush for all that gathered.
struct Bare {
    queue: Arc<BareQueue>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct BareQueue {
    waiting: Mutex<BareWaiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct BareWaiting {
    rows: Vec<(Bytes, Bytes, oneshot::Sender<()>)>,
    idle: bool,
    closed: bool,
}

impl Bare {
    fn open(path: &Path) -> Self {
        // As in the journal, where it says why.
        let database = Database::builder(path)
            .cache_size(16 << 20)
            .max_journaling_size(128 << 20)
            .manual_journal_persist(true)
            .open()
            .unwrap();
        let events = database
            .keyspace("events", || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(32 << 20)
                    .data_block_size_policy(fjall::config::BlockSizePolicy::all(16 << 10))
                    .filter_policy(fjall::config::FilterPolicy::disabled())
            })
            .unwrap();
        let queue = Arc::new(BareQueue::default());
        let thread = thread::spawn({
            let queue = queue.clone();
            move || Self::run(&queue, &database, &events)
        });
        Self {
            queue,
            thread: Some(thread),
        }
    }

    fn run(queue: &BareQueue, database: &Database, events: &Keyspace) {
        let mut group = Vec::new();
        let mut answers = Vec::new();
        loop {
            let mut waiting = queue.waiting.lock().unwrap();
            while waiting.rows.is_empty() {
                if waiting.closed {
                    return;
                }
                waiting.idle = true;
                waiting = queue.arrived.wait(waiting).unwrap();
            }
            waiting.idle = false;
            mem::swap(&mut waiting.rows, &mut group);
            drop(waiting);
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for (key, row, done) in group.drain(..) {
                batch.insert(events, key, row);
                answers.push(done);
            }
            batch.commit().unwrap();
            for done in answers.drain(..) {
                done.send(()).ok();
            }
        }
    }

    fn append(&self, key: Bytes, row: Bytes) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        let mut waiting = self.queue.waiting.lock().unwrap();
        let wake = mem::take(&mut waiting.idle);
        waiting.rows.push((key, row, done));
        drop(waiting);
        if wake {
            self.queue.arrived.notify_one();
        }
        answer
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.queue.waiting.lock().unwrap().closed = true;
        self.queue.arrived.notify_one();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A round: spawns a task per writer, lets them append for [`ROUND`], gives appends per second and the writers back.
fn round<W: Send + 'static>(
    runtime: &Runtime,
    writers: Vec<W>,
    spawn: impl Fn(W, Arc<Round>) -> tokio::task::JoinHandle<W>,
) -> (f64, Vec<W>) {
    let round = Arc::new(Round::default());
    let started = Instant::now();
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|writer| spawn(writer, round.clone()))
        .collect();
    thread::sleep(ROUND);
    round.over.store(true, Ordering::Relaxed);
    let writers = runtime.block_on(async {
        let mut writers = Vec::new();
        for task in tasks {
            writers.push(task.await.unwrap());
        }
        writers
    });
    let appends = round.appends.load(Ordering::Relaxed);
    (appends as f64 / started.elapsed().as_secs_f64(), writers)
}

#[derive(Default)]
struct Round {
    over: AtomicBool,
    appends: AtomicU64,
}

fn journal_round(runtime: &Runtime, journal: &EmbeddedJournal, claims: Vec<Claim>) -> (f64, Vec<Claim>) {
    round(runtime, claims, |mut claim, round| {
        let journal = journal.clone();
        runtime.spawn(async move {
            let mut appends = 0;
            while !round.over.load(Ordering::Relaxed) {
                let writes: Arc<[AtomicWrite]> = Arc::new([AtomicWrite::from(event())]);
                let highest = claim.highest();
                journal.append(&mut claim, highest, writes).await.unwrap();
                appends += 1;
            }
            round.appends.fetch_add(appends, Ordering::Relaxed);
            claim
        })
    })
}

fn bare_round(runtime: &Runtime, bare: &Arc<Bare>, writers: Vec<(usize, u64)>) -> (f64, Vec<(usize, u64)>) {
    let row = Bytes::from(vec![b'x'; ROW]);
    round(runtime, writers, |(writer, mut number), round| {
        let (bare, row) = (bare.clone(), row.clone());
        runtime.spawn(async move {
            let name = id(writer);
            let mut appends = 0;
            while !round.over.load(Ordering::Relaxed) {
                number += 1;
                let mut key = BytesMut::with_capacity(32);
                key.put_u16(name.as_str().len() as u16);
                key.put_slice(name.as_str().as_bytes());
                key.put_u64(number);
                bare.append(key.freeze(), row.clone()).await.unwrap();
                appends += 1;
            }
            round.appends.fetch_add(appends, Ordering::Relaxed);
            (writer, number)
        })
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn appends(runtime: &Runtime, folder: &Path, rounds: usize) {
    println!("append, 200-byte events, every one flushed; medians of {rounds} rounds in turns");
    println!(
        "{:>8} {:>14} {:>14} {:>7}",
        "writers", "journal 1/s", "bare fjall 1/s", "ratio"
    );
    for writers in [1_usize, 64, 1024] {
        let folder = folder.join(writers.to_string());
        let journal = runtime
            .block_on(EmbeddedJournal::open(folder.join("journal")))
            .unwrap();
        let bare = Arc::new(Bare::open(&folder.join("bare")));
        let mut claims: Vec<Claim> = runtime.block_on(async {
            let mut claims = Vec::new();
            for writer in 0..writers {
                claims.push(journal.claim(&id(writer), WriterId::random()).await.unwrap());
            }
            claims
        });
        let mut numbers: Vec<(usize, u64)> = (0..writers).map(|writer| (writer, 0)).collect();
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round of each creates files and is not counted.
        for counted in (0..=rounds).map(|round| round > 0) {
            let (journal_rate, kept) = journal_round(runtime, &journal, claims);
            claims = kept;
            let (bare_rate, kept) = bare_round(runtime, &bare, numbers);
            numbers = kept;
            if counted {
                ours.push(journal_rate);
                theirs.push(bare_rate);
                ratios.push(journal_rate / bare_rate);
            }
        }
        println!(
            "{writers:>8} {:>14.0} {:>14.0} {:>7.2}",
            median(&mut ours),
            median(&mut theirs),
            median(&mut ratios)
        );
    }
}

/// Writes [`REPLAYED`] events of one id, a row each.
fn fill(runtime: &Runtime, folder: &Path) {
    runtime.block_on(async {
        let journal = EmbeddedJournal::builder(folder)
            .durability(Durability::OsBuffer)
            .open()
            .await
            .unwrap();
        let mut claim = journal.claim(&id(0), WriterId::random()).await.unwrap();
        let writes: Arc<[AtomicWrite]> = (0..1_000).map(|_| AtomicWrite::from(event())).collect();
        for _ in 0..REPLAYED / 1_000 {
            let highest = claim.highest();
            journal.append(&mut claim, highest, writes.clone()).await.unwrap();
        }
        journal.shutdown().await.unwrap();
    });
}

fn status_mib(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1_024.0)
}

/// In a process of its own: opens, replays everything, tells its rate and how far its memory rose above what it had
/// after opening.
fn replay(folder: &Path) {
    let runtime = runtime();
    let journal = runtime.block_on(EmbeddedJournal::open(folder)).unwrap();
    let opened = status_mib("VmRSS");
    // Forgets the peak of the opening.
    fs::write("/proc/self/clear_refs", "5").ok();
    let mut rates = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        let events = runtime.block_on(async {
            let mut events = journal.replay(&id(0), ReplayRange::ALL);
            let mut count = 0;
            while let Some(chunk) = events.next_chunk().await {
                count += chunk.unwrap().len() as u64;
            }
            count
        });
        assert_eq!(events, REPLAYED);
        rates.push(events as f64 / started.elapsed().as_secs_f64());
    }
    let peak = status_mib("VmHWM");
    println!(
        "replay of {REPLAYED} events of one id, payloads not decoded: {:.2} M events/s (first {:.2})",
        rates.iter().copied().fold(0.0, f64::max) / 1e6,
        rates[0] / 1e6
    );
    println!(
        "memory: {opened:.0} MiB after opening, at most {:.0} MiB more while replaying (limit {LIMIT_MIB})",
        peak - opened
    );
}

/// 100 events of an id, one id after the other: what a start of many actors costs.
fn recoveries(runtime: &Runtime, folder: &Path) {
    const IDS: usize = 2_000;
    let journal = runtime
        .block_on(
            EmbeddedJournal::builder(folder)
                .durability(Durability::OsBuffer)
                .open(),
        )
        .unwrap();
    let writes: Arc<[AtomicWrite]> = (0..100).map(|_| AtomicWrite::from(event())).collect();
    runtime.block_on(async {
        for writer in 0..IDS {
            let mut claim = journal.claim(&id(writer), WriterId::random()).await.unwrap();
            journal
                .append(&mut claim, SequenceNr::ZERO, writes.clone())
                .await
                .unwrap();
        }
    });
    let started = Instant::now();
    runtime.block_on(async {
        for writer in 0..IDS {
            let claim = journal.claim(&id(writer), WriterId::random()).await.unwrap();
            let mut events = journal.replay(claim.id(), ReplayRange::ALL);
            let mut count = 0;
            while let Some(chunk) = events.next_chunk().await {
                count += chunk.unwrap().len();
            }
            assert_eq!(count, 100);
        }
    });
    println!(
        "claim and replay of 100 events, one id after the other: {:.0} ids/s",
        IDS as f64 / started.elapsed().as_secs_f64()
    );
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, folder] = arguments.as_slice()
        && command == "replay"
    {
        return replay(Path::new(folder));
    }
    let parent = std::env::var_os("JOURNAL_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let rounds = std::env::var("JOURNAL_BENCH_ROUNDS").map_or(9, |rounds| rounds.parse().unwrap());
    fs::create_dir_all(&parent).unwrap();
    let folder = tempfile::tempdir_in(parent).unwrap();
    let runtime = runtime();
    appends(&runtime, folder.path(), rounds);
    recoveries(&runtime, &folder.path().join("recoveries"));
    let filled = folder.path().join("replay");
    fill(&runtime, &filled);
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("replay")
        .arg(&filled)
        .status()
        .unwrap();
    assert!(child.success());
}
