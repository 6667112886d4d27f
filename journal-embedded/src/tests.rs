//! What needs to reach behind the journal: commits that fail or wait, rows that are damaged.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_executor::block_on;
use futures_util::{FutureExt, StreamExt, future::join_all};
use journal_core::{
    AppendPart, AtomicWrite, Claim, CodecId, Deletion, EncodedEvent, ErrorKind, Journal, JournalError,
    Manifest, Outcome, PersistenceId, Record, ReplayRange, SelectionCriteria, SequenceNr, Snapshot,
    SnapshotMetadata, SnapshotStore, Timestamp, WriterId,
};

use crate::{
    EmbeddedJournal,
    keys::{self, SnapshotRow},
    store::{Fault, Flush, Store, Table},
};

fn id(text: &str) -> PersistenceId {
    PersistenceId::new(text).unwrap()
}

fn at(number: u64) -> SequenceNr {
    SequenceNr::new(number)
}

fn write(events: usize) -> Arc<[AtomicWrite]> {
    let event = EncodedEvent {
        payload: Bytes::from_static(b"payload"),
        codec: CodecId::JSON,
        manifest: Manifest::from_static("event"),
        schema_version: 1,
        timestamp: Timestamp(0),
        tags: Vec::new(),
        metadata: Bytes::new(),
    };
    [AtomicWrite::from(vec![event; events])].into()
}

fn snapshot(claim: &Claim, number: u64) -> Snapshot {
    Snapshot {
        metadata: SnapshotMetadata {
            persistence_id: claim.id().clone(),
            sequence_nr: at(number),
            incarnation: claim.incarnation(),
            timestamp: Timestamp(number),
        },
        payload: format!("state {number}").into(),
    }
}

struct Fixture {
    folder: tempfile::TempDir,
    journal: EmbeddedJournal,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = block_on(EmbeddedJournal::open(folder.path())).unwrap();
        Self { folder, journal }
    }

    fn store(&self) -> Store {
        self.journal.shared.store.read().unwrap().clone().unwrap()
    }

    fn claim(&self, text: &str) -> Claim {
        block_on(self.journal.claim(&id(text), WriterId::random())).unwrap()
    }

    fn claims(&self, count: usize) -> Vec<Claim> {
        (0..count).map(|number| self.claim(&number.to_string())).collect()
    }

    fn replay(&self, id: &PersistenceId) -> Vec<Result<Record, JournalError>> {
        block_on(self.journal.replay(id, ReplayRange::ALL).collect())
    }

    /// The next commit waits until the sender goes, and what is queued meanwhile is the group after it; then these
    /// faults follow.
    fn block_then(&self, faults: impl IntoIterator<Item = Fault>) -> Sender<()> {
        let (release, waiting) = channel();
        self.store().inject([Fault::Wait(waiting)]);
        self.store().inject(faults);
        release
    }

    fn reopen(self) -> Self {
        drop(self.journal);
        let journal = block_on(EmbeddedJournal::open(self.folder.path())).unwrap();
        Self {
            folder: self.folder,
            journal,
        }
    }
}

fn is_poisoned<T: std::fmt::Debug>(result: Result<T, JournalError>, outcome: Outcome) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Poisoned, outcome),
        "{error}"
    );
    assert!(error.to_string().contains("reopen"), "{error}");
}

#[test]
fn everything_that_gathers_during_a_flush_shares_the_next_one() {
    let fixture = Fixture::new();
    let mut first = fixture.claim("first");
    let mut claims = fixture.claims(64);
    let before = fixture.store().commits();
    let release = fixture.block_then([]);
    let mut blocked = fixture.journal.append(&mut first, at(0), write(1));
    assert!(blocked.as_mut().now_or_never().is_none());
    let appends = claims
        .iter_mut()
        .map(|claim| fixture.journal.append(claim, at(0), write(2)));
    let mut appends = join_all(appends);
    while fixture.store().commits() == before {
        thread::yield_now();
    }
    assert!((&mut appends).now_or_never().is_none());
    drop(release);
    block_on(blocked).unwrap();
    for stored in block_on(appends) {
        assert_eq!(stored.unwrap().last, at(2));
    }
    assert_eq!(fixture.store().commits() - before, 2);
}

#[test]
fn a_flush_that_fails_fails_all_that_wait_as_unknown_and_what_comes_later_is_refused() {
    for (fault, stored) in [(Fault::Lose, 0), (Fault::StoreAndFail, 2)] {
        let fixture = Fixture::new();
        let journal = &fixture.journal;
        let mut first = fixture.claim("first");
        let mut claims = fixture.claims(10);
        let mut parts: Vec<AppendPart> = (10..20)
            .map(|number| AppendPart {
                claim: fixture.claim(&number.to_string()),
                expected: at(0),
                writes: write(2),
                result: None,
            })
            .collect();
        let before = fixture.store().commits();
        let release = fixture.block_then([fault]);
        let mut blocked = journal.append(&mut first, at(0), write(1));
        assert!(blocked.as_mut().now_or_never().is_none());
        while fixture.store().commits() == before {
            thread::yield_now();
        }
        // These gather behind the blocked one, and share the flush that fails.
        let mut appends = join_all(
            claims
                .iter_mut()
                .map(|claim| journal.append(claim, at(0), write(2))),
        );
        assert!((&mut appends).now_or_never().is_none());
        let mut group = journal.append_group(&mut parts);
        assert!(group.as_mut().now_or_never().is_none());
        let mut claiming = journal.claim(appends_id(), WriterId::from_bytes([0; 16]));
        assert!(claiming.as_mut().now_or_never().is_none());
        drop(release);

        block_on(blocked).unwrap();
        for result in block_on(appends) {
            is_poisoned(result, Outcome::Unknown);
        }
        block_on(group);
        is_poisoned(block_on(claiming), Outcome::Unknown);
        for part in &mut parts {
            is_poisoned(part.result.take().unwrap(), Outcome::Unknown);
            assert!(part.claim.is_spent());
        }
        assert!(claims.iter().all(Claim::is_spent));

        // Nothing is written any more.
        let deletion = Deletion {
            to: at(1),
            incarnation: first.incarnation(),
            fresh_start: false,
        };
        is_poisoned(
            block_on(journal.append(&mut first, at(1), write(1))),
            Outcome::NotStored,
        );
        assert!(!first.is_spent(), "nothing happened to it");
        is_poisoned(
            block_on(journal.claim(first.id(), WriterId::random())),
            Outcome::NotStored,
        );
        is_poisoned(
            block_on(journal.delete_to(first.id(), deletion)),
            Outcome::NotStored,
        );
        is_poisoned(block_on(journal.purge(first.id())), Outcome::NotStored);
        let unsaved = block_on(journal.snapshots().save(snapshot(&first, 1)));
        assert!(unsaved.unwrap_err().to_string().contains("reopen"));

        // Reads go on.
        assert_eq!(fixture.replay(first.id()).len(), 1);
        assert_eq!(block_on(journal.bounds(first.id())).unwrap().highest, at(1));
        block_on(journal.snapshots().load(first.id(), SelectionCriteria::ALL)).unwrap();

        // A reopen shows what was stored, and the numbers go on behind it.
        let fixture = fixture.reopen();
        for number in 0..20 {
            let mut claim = fixture.claim(&number.to_string());
            assert_eq!(claim.bounds().highest, at(stored));
            block_on(fixture.journal.append(&mut claim, at(stored), write(1))).unwrap();
            assert_eq!(fixture.replay(claim.id()).len() as u64, stored + 1);
        }
    }
}

fn appends_id() -> &'static PersistenceId {
    static ID: std::sync::OnceLock<PersistenceId> = std::sync::OnceLock::new();
    ID.get_or_init(|| id("claimed meanwhile"))
}

#[test]
fn the_last_handle_may_go_on_the_committers_own_thread() {
    /// A task whose executor is gone: waking it drops it, and with it the journal.
    struct Task(Mutex<Option<EmbeddedJournal>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().take();
        }
    }

    let Fixture { folder, journal } = Fixture::new();
    let mut claim = block_on(journal.claim(&id("a"), WriterId::random())).unwrap();
    let (release, waiting) = channel();
    journal
        .shared
        .store
        .read()
        .unwrap()
        .clone()
        .unwrap()
        .inject([Fault::Wait(waiting)]);
    let task = Arc::new(Task(Mutex::new(None)));
    let waker = Waker::from(task.clone());
    {
        let mut append = journal.append(&mut claim, at(0), write(1));
        assert!(matches!(
            append.as_mut().poll(&mut Context::from_waker(&waker)),
            Poll::Pending
        ));
        // The future borrows the handle that goes; forgotten, it holds its answer's receiver and nothing else.
        std::mem::forget(append);
    }
    *task.0.lock().unwrap() = Some(journal);
    drop(release);

    let deadline = Instant::now() + Duration::from_secs(30);
    let journal = loop {
        match block_on(EmbeddedJournal::open(folder.path())) {
            Ok(journal) => break journal,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::yield_now();
    };
    assert_eq!(block_on(journal.bounds(&id("a"))).unwrap().highest, at(1));
}

fn damage(store: &Store, table: Table, key: Bytes, row: Option<Bytes>) {
    let mut batch = store.batch();
    match row {
        Some(row) => batch.put(table, key, row),
        None => batch.remove(table, key),
    }
    store.commit(batch, Flush::Disk).unwrap();
}

#[test]
fn a_replay_ends_at_a_damaged_or_missing_row_with_its_number() {
    for row in [None, Some(Bytes::new()), Some(Bytes::from_static(b"\x01garbage"))] {
        let fixture = Fixture::new();
        let mut claim = fixture.claim("a");
        for number in 0..5 {
            block_on(fixture.journal.append(&mut claim, at(2 * number), write(2))).unwrap();
        }
        damage(
            &fixture.store(),
            Table::Events,
            keys::event(claim.id(), at(5)),
            row,
        );
        for range in [ReplayRange::ALL, ReplayRange::from(at(6))] {
            let replayed: Vec<_> = block_on(fixture.journal.replay(claim.id(), range).collect());
            let (error, before) = replayed.split_last().unwrap();
            let error = error.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert_eq!(error.persistence_id(), Some(claim.id()));
            assert!(
                [Some(at(5)), Some(range.from)].contains(&error.sequence_nr()),
                "{error}"
            );
            assert!(error.to_string().contains("backup"), "{error}");
            assert!(before.iter().all(Result::is_ok));
        }
        // Events before it and behind it can be read.
        let before = fixture
            .journal
            .replay(claim.id(), ReplayRange::between(at(1), at(4)));
        let behind = fixture.journal.replay(claim.id(), ReplayRange::from(at(7)));
        let all: Vec<_> = block_on(before.chain(behind).collect());
        assert_eq!(all.into_iter().filter(Result::is_ok).count(), 8);
    }
}

#[test]
fn a_damaged_head_is_an_error_of_every_call_that_needs_it_and_a_purge_cannot_hide_it() {
    let fixture = Fixture::new();
    let mut claim = fixture.claim("a");
    block_on(fixture.journal.append(&mut claim, at(0), write(2))).unwrap();
    let key = keys::head(claim.id());
    damage(
        &fixture.store(),
        Table::Heads,
        key,
        Some(Bytes::from_static(b"?")),
    );
    let fixture = fixture.reopen();
    let journal = &fixture.journal;
    let errors = [
        block_on(journal.bounds(claim.id())).err(),
        block_on(journal.claim(claim.id(), WriterId::random())).err(),
        block_on(journal.purge(claim.id())).err(),
        fixture.replay(claim.id()).remove(0).err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.persistence_id(), Some(claim.id()));
    }
}

#[test]
fn a_purge_removes_rows_that_cannot_be_read() {
    let fixture = Fixture::new();
    let mut claim = fixture.claim("a");
    block_on(fixture.journal.append(&mut claim, at(0), write(2))).unwrap();
    block_on(fixture.journal.append(&mut claim, at(2), write(2))).unwrap();
    let key = keys::event(claim.id(), at(1));
    damage(
        &fixture.store(),
        Table::Events,
        key,
        Some(Bytes::from_static(b"?")),
    );
    block_on(fixture.journal.purge(claim.id())).unwrap();
    let store = fixture.store();
    for table in [Table::Heads, Table::Events] {
        let all = Bytes::new()..=Bytes::from_static(&[0xff; 64]);
        assert_eq!(store.scan(&store.view(), table, all).count(), 0, "{table:?}");
    }
}

#[test]
fn a_deletion_removes_rows_and_leaves_the_one_it_cuts() {
    let fixture = Fixture::new();
    let mut claim = fixture.claim("a");
    for number in 0..1_500 {
        block_on(fixture.journal.append(&mut claim, at(2 * number), write(2))).unwrap();
    }
    let deletion = Deletion {
        to: at(2_501),
        incarnation: claim.incarnation(),
        fresh_start: false,
    };
    block_on(fixture.journal.delete_to(claim.id(), deletion)).unwrap();
    let store = fixture.store();
    let all = Bytes::new()..=Bytes::from_static(&[0xff; 64]);
    let rows: Vec<_> = store
        .scan(&store.view(), Table::Events, all)
        .map(|row| keys::first_of(&row.unwrap().0).unwrap().get())
        .collect();
    assert_eq!(rows, (2_501..3_000).step_by(2).collect::<Vec<_>>());
}

#[test]
fn a_damaged_snapshot_is_skipped_for_an_older_one_and_reported() {
    for (row, damaged) in [
        (SnapshotRow::Description, Some(Bytes::from_static(b"?"))),
        (SnapshotRow::Payload, Some(Bytes::from_static(b"state 4"))),
        (SnapshotRow::Payload, None),
    ] {
        let fixture = Fixture::new();
        let claim = fixture.claim("a");
        let snapshots = fixture.journal.snapshots();
        for number in 1..=3 {
            block_on(snapshots.save(snapshot(&claim, number))).unwrap();
        }
        let key = keys::snapshot(row, claim.id(), claim.incarnation(), at(3));
        damage(&fixture.store(), Table::Snapshots, key, damaged);
        let loaded = block_on(snapshots.load(claim.id(), SelectionCriteria::ALL)).unwrap();
        assert_eq!(loaded.snapshot, Some(snapshot(&claim, 2)));
        assert_eq!(loaded.skipped.len(), 1);
        assert!(
            loaded.skipped[0].location.contains("number 3"),
            "{:?}",
            loaded.skipped
        );
        if matches!(row, SnapshotRow::Description) {
            // It does not take the place of one that can be loaded.
            block_on(snapshots.keep_newest(claim.id(), claim.incarnation(), 2)).unwrap();
            let kept = block_on(snapshots.list(claim.id(), SelectionCriteria::ALL)).unwrap();
            assert_eq!(kept, [2, 1].map(|number| snapshot(&claim, number).metadata));
        }
        block_on(snapshots.delete_matching(claim.id(), SelectionCriteria::ALL.down_to(at(2)))).unwrap();
        let loaded = block_on(snapshots.load(claim.id(), SelectionCriteria::ALL)).unwrap();
        assert_eq!(loaded.snapshot, Some(snapshot(&claim, 1)));
        assert!(loaded.skipped.is_empty());
    }
}
