//! `cargo bench --bench embedded`: the embedded journal's appends beside two limits behind the same hand-over, bare fjall
//! and a preallocated file with fdatasync; then recovery, replay and its memory.
//!
//! All write the same bytes on the same disk, in turns, so that what else the machine does hits all. `JOURNAL_BENCH_DIR`
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
    fs::{self, File},
    mem,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use actor_journal::embedded::{Durability, EmbeddedJournal};
use actor_journal::{
    AtomicWrite, Claim, CodecId, EncodedEvent, Journal, Manifest, PersistenceId, ReplayRange, SequenceNr,
    Timestamp, WriterId,
};
use bytes::{BufMut, Bytes, BytesMut};
use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use futures_channel::oneshot;
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

/// A row, ready to be written.
type Row = (Bytes, Bytes);

/// The committer of the journal without a journal: rows that are ready, one write and one flush for all that gathered.
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
    rows: Vec<Row>,
    done: Vec<oneshot::Sender<()>>,
    idle: bool,
    closed: bool,
}

impl Bare {
    /// A batch of fjall and SyncData.
    fn fjall(path: &Path) -> Self {
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
        Self::start(move |rows| {
            let mut batch = database.batch().durability(Some(PersistMode::SyncData));
            for (key, row) in rows.drain(..) {
                batch.insert(&events, key, row);
            }
            batch.commit().unwrap();
        })
    }

    /// A file that was fully written before, and fdatasync: no index, no checksums, from the start again at its end.
    fn file(path: &Path) -> Self {
        const SIZE: u64 = 64 << 20;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; SIZE as usize]).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.sync_all().unwrap();
        let mut at = 0;
        let mut buffer = Vec::new();
        Self::start(move |rows| {
            buffer.clear();
            for (key, row) in rows.drain(..) {
                buffer.extend_from_slice(&key);
                buffer.extend_from_slice(&row);
            }
            if at + buffer.len() as u64 > SIZE {
                at = 0;
            }
            file.write_all_at(&buffer, at).unwrap();
            file.sync_data().unwrap();
            at += buffer.len() as u64;
        })
    }

    fn start(mut write: impl FnMut(&mut Vec<Row>) + Send + 'static) -> Self {
        let queue = Arc::new(BareQueue::default());
        let thread = thread::spawn({
            let queue = queue.clone();
            move || {
                let (mut rows, mut answers) = (Vec::new(), Vec::new());
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
                    mem::swap(&mut waiting.rows, &mut rows);
                    mem::swap(&mut waiting.done, &mut answers);
                    drop(waiting);
                    write(&mut rows);
                    for done in answers.drain(..) {
                        done.send(()).ok();
                    }
                }
            }
        });
        Self {
            queue,
            thread: Some(thread),
        }
    }

    fn append(&self, key: Bytes, row: Bytes) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        let mut waiting = self.queue.waiting.lock().unwrap();
        let wake = mem::take(&mut waiting.idle);
        waiting.rows.push((key, row));
        waiting.done.push(done);
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
        "{:>8} {:>12} {:>12} {:>12} {:>10} {:>10}",
        "writers", "journal 1/s", "fjall 1/s", "file 1/s", "to fjall", "to file"
    );
    for writers in [1_usize, 64, 1024] {
        let folder = folder.join(writers.to_string());
        let journal = runtime
            .block_on(EmbeddedJournal::open(folder.join("journal")))
            .unwrap();
        let limits = [
            Arc::new(Bare::fjall(&folder.join("fjall"))),
            Arc::new(Bare::file(&folder.join("bare/file"))),
        ];
        let mut claims: Vec<Claim> = runtime.block_on(async {
            let mut claims = Vec::new();
            for writer in 0..writers {
                claims.push(journal.claim(&id(writer), WriterId::random()).await.unwrap());
            }
            claims
        });
        let mut numbers: Vec<(usize, u64)> = (0..writers).map(|writer| (writer, 0)).collect();
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        let mut ratios = [Vec::new(), Vec::new()];
        // The first round of each creates files and is not counted.
        for counted in (0..=rounds).map(|round| round > 0) {
            let (journal_rate, kept) = journal_round(runtime, &journal, claims);
            claims = kept;
            let limit_rates = limits.each_ref().map(|limit| {
                let (rate, kept) = bare_round(runtime, limit, mem::take(&mut numbers));
                numbers = kept;
                rate
            });
            if counted {
                rates[0].push(journal_rate);
                for (place, rate) in limit_rates.into_iter().enumerate() {
                    rates[place + 1].push(rate);
                    ratios[place].push(journal_rate / rate);
                }
            }
        }
        let [ours, fjall, file] = rates.each_mut().map(|rates| median(rates));
        let [to_fjall, to_file] = ratios.each_mut().map(|ratios| median(ratios));
        println!("{writers:>8} {ours:>12.0} {fjall:>12.0} {file:>12.0} {to_fjall:>10.2} {to_file:>10.2}");
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
