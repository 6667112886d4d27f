//! The fixtures: how they were written, and copies of them to be opened.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use actor_journal::{
    AtomicWrite, Bincode, Clock, Codec, Deletion, EncodedEvent, EventSerializer, FileSnapshotStore,
    Incarnation, Journal, Json, MemoryJournal, MemorySnapshotStore, MessagePack, Persistence, Persistent,
    SelectionCriteria, SequenceNr, SharedCodec, Snapshot, SnapshotMetadata, SnapshotStore, Timestamp,
    WriterId, embedded::EmbeddedJournal, ractor::SpawnPersistent,
};
use bytes::Bytes;

use crate::{
    account::{Account, AccountEvent, Balance, Persist, account},
    id,
};

pub(crate) const TIME: Timestamp = Timestamp(1_700_000_000_123);
const LIFE: Incarnation = Incarnation::from_bytes(*b"sixteen bytes...");
/// Directories without files, which git does not keep; one a line.
const EMPTY: &str = "empty-directories";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-v1")
}

/// A copy of a directory of the fixtures: opening writes.
pub(crate) fn copy(name: &str) -> tempfile::TempDir {
    let fixture = fixtures().join(name);
    let directory = tempfile::tempdir().unwrap();
    copy_files(&fixture, directory.path());
    let empty = fs::read_to_string(fixtures().join(EMPTY)).unwrap();
    for path in empty.lines() {
        if let Ok(below) = Path::new(path).strip_prefix(name) {
            fs::create_dir_all(directory.path().join(below)).unwrap();
        }
    }
    directory
}

/// The snapshot payload of a state with -123456 cents, by the name of its codec.
pub(crate) fn envelopes() -> Vec<(&'static str, Bytes)> {
    read_envelopes(&fixtures())
}

fn read_envelopes(root: &Path) -> Vec<(&'static str, Bytes)> {
    ["message-pack", "json", "bincode"]
        .map(|name| {
            let file = root.join("envelopes").join(name);
            (name, fs::read(file).unwrap().into())
        })
        .into()
}

pub(crate) fn snapshot(name: &str, number: u64, payload: Bytes) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: id(name),
            sequence_nr: SequenceNr::new(number),
            incarnation: LIFE,
            timestamp: TIME,
        },
        payload,
    }
}

/// A journal of seven deleted events, and the snapshot that covers them.
pub(crate) async fn only_a_snapshot(
    journal: &MemoryJournal,
    snapshots: &MemorySnapshotStore,
    name: &str,
    envelope: Bytes,
) {
    let incarnation = append(journal, name, &[&[500; 7]]).await;
    delete(journal, name, 7, incarnation, false).await;
    let mut snapshot = snapshot(name, 7, envelope);
    snapshot.metadata.incarnation = incarnation;
    snapshots.save(snapshot).await.unwrap();
}

/// Deposits of these cents, one atomic write for each list; the life they belong to.
async fn append(journal: &impl Journal, name: &str, deposits: &[&[i64]]) -> Incarnation {
    let mut claim = journal.claim(&id(name), WriterId::random()).await.unwrap();
    let serializer = EventSerializer::new(Arc::new(MessagePack) as SharedCodec<AccountEvent>).unwrap();
    let deposit = |cents: &i64| {
        serializer
            .encode(&AccountEvent::Deposited { cents: *cents }, TIME)
            .unwrap()
    };
    let writes: Arc<[AtomicWrite]> = deposits
        .iter()
        .map(|write| AtomicWrite::from(write.iter().map(deposit).collect::<Vec<EncodedEvent>>()))
        .collect();
    let expected = claim.highest();
    journal.append(&mut claim, expected, writes).await.unwrap();
    claim.incarnation()
}

async fn delete(journal: &impl Journal, name: &str, to: u64, incarnation: Incarnation, fresh_start: bool) {
    let deletion = Deletion {
        to: SequenceNr::new(to),
        incarnation,
        fresh_start,
    };
    journal.delete_to(&id(name), deletion).await.unwrap();
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_files(&path, &copy);
        } else {
            fs::copy(&path, &copy).unwrap();
        }
    }
}

/// Where the fixtures are; writes them first where that was asked for.
fn fixtures() -> PathBuf {
    static WRITTEN: OnceLock<()> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        if is_to_be_written(&root()) {
            std::thread::spawn(|| write(&root())).join().unwrap();
        }
    });
    root()
}

pub(crate) fn is_to_be_written(fixtures: &Path) -> bool {
    let asked_for = env::var_os("JOURNAL_WRITE_FIXTURES").is_some_and(|asked| asked == "1");
    asked_for && !fixtures.exists()
}

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        TIME
    }
}

#[tokio::main(flavor = "current_thread")]
async fn write(root: &Path) {
    write_embedded(&root.join("embedded")).await;
    write_envelope(root, "message-pack", MessagePack).await;
    write_envelope(root, "json", Json).await;
    write_envelope(root, "bincode", Bincode).await;
    let store = FileSnapshotStore::open(root.join("snapshot-files"))
        .await
        .unwrap();
    for (name, envelope) in read_envelopes(root) {
        store.save(snapshot(name, 3, envelope.clone())).await.unwrap();
        store.save(snapshot(name, 7, envelope)).await.unwrap();
    }
    let mut empty = Vec::new();
    find_empty(root, &mut empty);
    let lines: Vec<String> = empty
        .iter()
        .map(|path| format!("{}\n", path.strip_prefix(root).unwrap().display()))
        .collect();
    fs::write(root.join(EMPTY), lines.concat()).unwrap();
}

async fn persist(actor: Persistent<Account>, persistence: &Persistence, writes: Vec<Vec<AccountEvent>>) {
    let actor = actor.spawn(persistence).await.unwrap();
    for events in writes {
        actor.ask(Persist(events)).await.unwrap().unwrap();
    }
    actor.stop().await;
}

async fn write_embedded(directory: &Path) {
    let journal = EmbeddedJournal::open(directory).await.unwrap();
    let persistence = Persistence::builder(journal.clone())
        .snapshots(journal.snapshots())
        .clock(FixedClock)
        .build()
        .unwrap();
    let each_kind = || {
        let withdrawn = AccountEvent::Withdrawn {
            cents: 56,
            to: "größer".to_owned(),
        };
        vec![
            vec![AccountEvent::Deposited { cents: 500 }],
            vec![withdrawn, AccountEvent::Deposited { cents: 1 }],
            vec![AccountEvent::Noted(vec![None, Some(1.5), Some(-0.0)])],
        ]
    };
    persist(account("message-pack"), &persistence, each_kind()).await;
    persist(account("json").event_codec(Json), &persistence, each_kind()).await;
    persist(account("bincode").event_codec(Bincode), &persistence, each_kind()).await;

    let deposit = |cents| vec![AccountEvent::Deposited { cents }];
    let retained = account("retained").snapshot_every(4).keep(1).delete_events();
    let five = [100, 200, 300, 400, 500].map(deposit).into();
    persist(retained, &persistence, five).await;
    persist(account("Zürich\0|42"), &persistence, vec![deposit(1)]).await;
    persistence.shutdown().await.unwrap();

    let journal = EmbeddedJournal::open(directory).await.unwrap();
    let life = append(&journal, "restarted", &[&[5], &[-5]]).await;
    delete(&journal, "restarted", 2, life, true).await;
    append(&journal, "restarted", &[&[7]]).await;
    let life = append(&journal, "cut", &[&[1, 2, 3]]).await;
    delete(&journal, "cut", 2, life, false).await;
    append(&journal, "purged", &[&[1]]).await;
    journal.purge(&id("purged")).await.unwrap();
    append(&journal, "reborn", &[&[1], &[2]]).await;
    journal.purge(&id("reborn")).await.unwrap();
    append(&journal, "reborn", &[&[9]]).await;
    journal.shutdown().await.unwrap();
}

/// The payload that an actor gives to its snapshot store.
async fn write_envelope(root: &Path, name: &str, codec: impl Codec<Balance>) {
    let snapshots = MemorySnapshotStore::new();
    let persistence = Persistence::builder(MemoryJournal::new())
        .snapshots(snapshots.clone())
        .build()
        .unwrap();
    let actor = account(name).state_codec(codec).snapshot_every(7);
    let events = (0..6).map(|_| AccountEvent::Deposited { cents: 0 });
    let last = AccountEvent::Deposited { cents: -123_456 };
    persist(actor, &persistence, vec![events.chain([last]).collect()]).await;
    persistence.shutdown().await.unwrap();
    let loaded = snapshots.load(&id(name), SelectionCriteria::ALL).await.unwrap();
    fs::create_dir_all(root.join("envelopes")).unwrap();
    fs::write(
        root.join("envelopes").join(name),
        loaded.snapshot.unwrap().payload,
    )
    .unwrap();
}

fn find_empty(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    if entries.is_empty() {
        found.push(directory.to_owned());
    }
    for entry in entries.iter().filter(|entry| entry.is_dir()) {
        find_empty(entry, found);
    }
}
