//! A replay's memory does not grow with the number of events. Many events with `JOURNAL_FULL=1`.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what was measured")]

#[path = "common/child.rs"]
mod child;
#[path = "common/resident.rs"]
mod resident;

use std::{env, path::Path, sync::Arc};

use actor_journal::{
    AtomicWrite, CodecId, EncodedEvent, Journal, Manifest, PersistenceId, ReplayRange, SequenceNr, Timestamp,
    WriterId,
    embedded::{Durability, EmbeddedJournal},
};
use bytes::Bytes;

const EVENTS: u64 = 200_000;
const EVENTS_FULL: u64 = 2_000_000;
const PAYLOAD: usize = 200;
const BOUND: u64 = 64 << 20;
const MEASURED: &str = "measured:";

fn id() -> PersistenceId {
    PersistenceId::new("account|42").unwrap()
}

#[test]
fn a_replay_of_any_length_stays_within_64_mib_of_the_memory_after_opening() {
    if let Some(role) = child::role() {
        let (holds, directory) = role.split_once(' ').unwrap();
        return replay(Path::new(directory), holds == "all");
    }
    if cfg!(not(target_os = "linux")) {
        eprintln!("not applicable: only Linux tells a process its peak of resident memory and resets it");
        return;
    }
    let full = env::var_os("JOURNAL_FULL").is_some_and(|full| full == "1");
    let events = if full { EVENTS_FULL } else { EVENTS };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), events);

    let (read, grown) = measure(directory.path(), "chunk");
    println!("replayed {read} events within {grown} bytes above the memory after opening");
    assert_eq!(read, events);
    assert!(grown <= BOUND, "{grown} bytes");

    // The same, by a consumer that holds what it read: the measure notices.
    if !full {
        let (read, grown) = measure(directory.path(), "all");
        assert_eq!(read, events);
        assert!(
            grown > BOUND,
            "the measure is blind: {grown} bytes for {read} events"
        );
    }
}

#[tokio::main(flavor = "current_thread")]
async fn write(directory: &Path, events: u64) {
    let journal = EmbeddedJournal::builder(directory)
        .durability(Durability::OsBuffer)
        .open()
        .await
        .unwrap();
    let mut claim = journal.claim(&id(), WriterId::random()).await.unwrap();
    let writes: Arc<[AtomicWrite]> = (0..2_000).map(|_| AtomicWrite::from(event())).collect();
    while claim.highest() < SequenceNr::new(events) {
        let expected = claim.highest();
        journal
            .append(&mut claim, expected, writes.clone())
            .await
            .unwrap();
    }
    journal.shutdown().await.unwrap();
}

fn event() -> EncodedEvent {
    EncodedEvent {
        payload: Bytes::from(vec![0x5a; PAYLOAD]),
        codec: CodecId::MESSAGE_PACK,
        manifest: Manifest::from_static("account-event"),
        schema_version: 1,
        timestamp: Timestamp(1_700_000_000_000),
        tags: Vec::new(),
        metadata: Bytes::new(),
    }
}

/// The events read by a fresh process, and by how many bytes its peak exceeds what it had after opening.
fn measure(directory: &Path, holds: &str) -> (u64, u64) {
    let role = format!("{holds} {}", directory.display());
    let name = "a_replay_of_any_length_stays_within_64_mib_of_the_memory_after_opening";
    let output = child::command(name, role).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{printed}{errors}", output.status);
    let measured = printed
        .lines()
        .find_map(|line| line.strip_prefix(MEASURED))
        .unwrap();
    let (read, grown) = measured.trim().split_once(' ').unwrap();
    (read.parse().unwrap(), grown.parse().unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn replay(directory: &Path, holds_all: bool) {
    let journal = EmbeddedJournal::open(directory).await.unwrap();
    let opened = resident::now();
    resident::forget_peak();
    let mut read = 0;
    let mut held = Vec::new();
    let mut events = journal.replay(&id(), ReplayRange::ALL);
    while let Some(chunk) = events.next_chunk().await {
        let chunk = chunk.unwrap();
        for record in &chunk {
            read += 1;
            assert_eq!(record.sequence_nr, SequenceNr::new(read));
            assert_eq!(record.event.payload.len(), PAYLOAD);
        }
        if holds_all {
            held.push(chunk);
        }
    }
    let grown = resident::peak().saturating_sub(opened);
    drop(held);
    // The test harness has begun this line.
    println!("\n{MEASURED} {read} {grown}");
}
