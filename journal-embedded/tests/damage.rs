//! Files that changed on the disk: nothing acknowledged is lost without a word, and a group that a power loss tore is no
//! damage.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod common;

use std::{
    fs::{self, File},
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use common::{at, collect, id, numbers, writes};
use futures_executor::block_on;
use journal_core::{ErrorKind, Journal, JournalError, ReplayRange, WriterId};
use journal_embedded::{Durability, EmbeddedJournal};

const EVENTS: u64 = 6;
const END: &[u8] = b"FJL\x03";

async fn append_one(journal: &EmbeddedJournal) {
    let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
    let highest = claim.highest();
    journal.append(&mut claim, highest, writes(&[1])).await.unwrap();
}

async fn stored(journal: &EmbeddedJournal) -> Vec<u64> {
    let stored = numbers(&collect(journal.replay(&id("a"), ReplayRange::ALL)).await.unwrap());
    let highest = journal.bounds(&id("a")).await.unwrap().highest;
    assert_eq!(highest, at(stored.len() as u64));
    stored
}

/// A directory whose log is put back before each use.
struct Damaged {
    folder: tempfile::TempDir,
    log: PathBuf,
    /// Without the zeros behind it.
    bytes: Vec<u8>,
}

impl Damaged {
    /// Each event is a group of its own.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let journal = EmbeddedJournal::open(folder.path()).await.unwrap();
            for _ in 0..EVENTS {
                append_one(&journal).await;
            }
        });
        let log = folder.path().join("store/0.jnl");
        let mut bytes = Vec::new();
        File::open(&log).unwrap().read_to_end(&mut bytes).unwrap();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        assert!(bytes.ends_with(END));
        Self { folder, log, bytes }
    }

    /// The bytes of the last event's group.
    fn last_group(&self) -> Range<usize> {
        let body = &self.bytes[..self.bytes.len() - END.len()];
        let former = body.windows(END.len()).rposition(|bytes| bytes == END).unwrap();
        former + END.len()..self.bytes.len()
    }

    fn open(&self, log: &[u8], durability: Durability) -> Result<EmbeddedJournal, JournalError> {
        fs::write(&self.log, log).unwrap();
        let opened = EmbeddedJournal::builder(self.folder.path())
            .durability(durability)
            .open();
        block_on(opened)
    }

    fn flipped(&self, at: usize) -> Vec<u8> {
        let mut log = self.bytes.clone();
        log[at] ^= 1 << (at % 8);
        log
    }
}

fn is_corrupt(opened: Result<EmbeddedJournal, JournalError>, what: &str) {
    let error = opened.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
}

/// The engine takes a changed bit for the end of its log and cuts off all that follows, or allocates what a changed
/// length says.
#[test]
fn a_changed_bit_before_the_last_group_is_an_error_and_nothing_is_cut() {
    let damaged = Damaged::new();
    for byte in 0..damaged.last_group().start {
        let log = damaged.flipped(byte);
        is_corrupt(damaged.open(&log, Durability::Disk), &format!("byte {byte}"));
        assert_eq!(fs::read(&damaged.log).unwrap(), log, "byte {byte}");
    }
    let journal = damaged.open(&damaged.bytes, Durability::Disk).unwrap();
    assert_eq!(block_on(stored(&journal)), (1..=EVENTS).collect::<Vec<_>>());
}

/// Its pages reach the disk in any order, so also its end without its middle. The engine opens no such log.
#[test]
fn a_last_group_that_a_power_loss_tore_anywhere_is_dropped_whole() {
    let damaged = Damaged::new();
    let group = damaged.last_group();
    let mut torn = vec![damaged.bytes[..group.start + 1].to_vec()];
    for at in group.clone().step_by(16) {
        // A page that is still what it was before: zeros.
        let mut log = damaged.bytes.clone();
        log[at..(at + 16).min(group.end)].fill(0);
        torn.push(log);
        torn.push(damaged.bytes[..at].to_vec());
    }
    for log in torn {
        let pristine = tempfile::tempdir().unwrap();
        copy(damaged.folder.path(), pristine.path());
        let damaged = Damaged {
            log: pristine.path().join("store/0.jnl"),
            folder: pristine,
            bytes: Vec::new(),
        };
        let journal = damaged.open(&log, Durability::Disk).unwrap();
        block_on(async {
            let former: Vec<_> = (1..EVENTS).collect();
            assert_eq!(stored(&journal).await, former);
            append_one(&journal).await;
            assert_eq!(stored(&journal).await, (1..=EVENTS).collect::<Vec<_>>());
        });
    }
}

/// Groups that were never flushed reach the disk in any order too.
#[test]
fn where_groups_were_not_flushed_those_before_the_first_torn_one_are_kept() {
    let damaged = Damaged::new();
    let middle = damaged.bytes.len() * 3 / 4;
    let log = damaged.flipped(middle);
    is_corrupt(damaged.open(&log, Durability::Disk), "flushed");
    let journal = damaged.open(&log, Durability::OsBuffer).unwrap();
    let kept = block_on(stored(&journal));
    assert!((1..EVENTS).contains(&(kept.len() as u64)), "{kept:?}");
    assert_eq!(kept, (1..=kept.len() as u64).collect::<Vec<_>>());
}

/// The engine starts a log or a table from nothing if its file is gone, and takes any length from a damaged manifest.
#[test]
fn a_lost_log_or_a_lost_or_damaged_manifest_is_an_error() {
    let damaged = Damaged::new();
    let store = damaged.folder.path().join("store");
    let mut files: Vec<_> = (0..5)
        .flat_map(|table| {
            let table = store.join(format!("keyspaces/{table}"));
            let current = table.join("current");
            let version = u64::from_le_bytes(*fs::read(&current).unwrap().first_chunk().unwrap());
            [current, table.join(format!("v{version}"))]
        })
        .collect();
    for manifest in &files {
        let whole = fs::read(manifest).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(manifest, changed).unwrap();
            let what = format!("{manifest:?} {at}");
            is_corrupt(damaged.open(&damaged.bytes, Durability::Disk), &what);
        }
        fs::write(manifest, whole).unwrap();
    }
    fs::write(&damaged.log, &damaged.bytes).unwrap();
    files.push(damaged.log.clone());
    for file in files {
        let away = damaged.folder.path().join("store/away");
        fs::rename(&file, &away).unwrap();
        let opened = block_on(EmbeddedJournal::open(damaged.folder.path()));
        is_corrupt(opened, &format!("{file:?} is gone"));
        fs::rename(&away, &file).unwrap();
    }
    let journal = damaged.open(&damaged.bytes, Durability::Disk).unwrap();
    assert_eq!(block_on(stored(&journal)), (1..=EVENTS).collect::<Vec<_>>());
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else if entry
            .path()
            .extension()
            .is_none_or(|extension| extension != "jnl")
        {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
