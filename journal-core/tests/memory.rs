//! The memory journal where it is more than the model test can show: other handles, and replays that are overtaken.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use futures_util::StreamExt;
use journal_core::{
    AppendPart, AtomicWrite, Bounds, Claim, CodecId, Deletion, EncodedEvent, ErrorKind, Journal, Manifest,
    MemoryJournal, Outcome, PersistenceId, ReplayRange, SequenceNr, Timestamp, WriterId,
};

fn id(name: &str) -> PersistenceId {
    PersistenceId::new(name).unwrap()
}

fn event(payload: usize) -> EncodedEvent {
    EncodedEvent {
        payload: vec![0; payload].into(),
        codec: CodecId::JSON,
        manifest: Manifest::from_static("e"),
        schema_version: 1,
        timestamp: Timestamp(0),
        tags: Vec::new(),
        metadata: bytes::Bytes::new(),
    }
}

fn writes(count: usize) -> Arc<[AtomicWrite]> {
    (0..count).map(|_| event(8).into()).collect()
}

async fn claim(journal: &dyn Journal, name: &str) -> Claim {
    journal.claim(&id(name), WriterId::random()).await.unwrap()
}

async fn append(journal: &dyn Journal, claim: &mut Claim, count: usize) {
    let expected = claim.highest();
    journal.append(claim, expected, writes(count)).await.unwrap();
}

fn deletion(claim: &Claim, to: u64) -> Deletion {
    Deletion {
        to: SequenceNr::new(to),
        incarnation: claim.incarnation(),
        fresh_start: false,
    }
}

#[tokio::test]
async fn a_claim_through_a_clone_fences_the_original() {
    let journal = MemoryJournal::new();
    let mut first = claim(&journal, "a").await;
    append(&journal, &mut first, 1).await;
    let other = journal.clone();
    let mut second = claim(&other, "a").await;
    assert_eq!(second.highest(), SequenceNr::new(1));
    let fenced = journal
        .append(&mut first, SequenceNr::new(1), writes(1))
        .await
        .unwrap_err();
    assert_eq!(
        (fenced.kind(), fenced.outcome()),
        (ErrorKind::Fenced, Outcome::NotStored)
    );
    assert!(first.is_spent());
    append(&other, &mut second, 1).await;
}

#[tokio::test]
async fn shutdown_closes_one_handle_and_no_other() {
    let journal = MemoryJournal::new();
    let other = journal.clone();
    let mut claimed = claim(&journal, "a").await;
    journal.shutdown().await.unwrap();
    journal.shutdown().await.unwrap();
    let a = id("a");
    let closed = ErrorKind::Closed;
    let refused = journal
        .append(&mut claimed, SequenceNr::ZERO, writes(1))
        .await
        .unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (closed, Outcome::NotStored));
    assert!(!claimed.is_spent());
    assert_eq!(
        journal.claim(&a, WriterId::random()).await.unwrap_err().kind(),
        closed
    );
    assert_eq!(journal.bounds(&a).await.unwrap_err().kind(), closed);
    assert_eq!(
        journal
            .delete_to(&a, deletion(&claimed, 1))
            .await
            .unwrap_err()
            .kind(),
        closed
    );
    assert_eq!(journal.purge(&a).await.unwrap_err().kind(), closed);
    assert_eq!(journal.flush().await.unwrap_err().kind(), closed);
    let mut replay = journal.replay(&a, ReplayRange::ALL);
    assert_eq!(replay.next().await.unwrap().unwrap_err().kind(), closed);
    let mut parts = [AppendPart {
        claim: claimed,
        expected: SequenceNr::ZERO,
        writes: writes(1),
        result: None,
    }];
    journal.append_group(&mut parts).await;
    assert_eq!(parts[0].result.take().unwrap().unwrap_err().kind(), closed);
    assert_eq!(other.bounds(&a).await.unwrap(), Bounds::default());
}

#[tokio::test]
async fn a_reopened_journal_keeps_events_and_ends_claims() {
    let journal = MemoryJournal::new();
    let mut written = claim(&journal, "written").await;
    append(&journal, &mut written, 2).await;
    let mut unwritten = claim(&journal, "unwritten").await;
    let journal = journal.reopen();
    for claimed in [&mut written, &mut unwritten] {
        let expected = claimed.highest();
        let fenced = journal.append(claimed, expected, writes(1)).await.unwrap_err();
        assert_eq!(fenced.kind(), ErrorKind::Fenced);
    }
    let again = claim(&journal, "written").await;
    assert_eq!(
        (again.highest(), again.incarnation()),
        (SequenceNr::new(2), written.incarnation())
    );
    assert!(again.epoch() > unwritten.epoch());
}

#[tokio::test]
async fn a_purge_between_claim_and_first_append_fences() {
    let journal = MemoryJournal::new();
    let mut before = claim(&journal, "a").await;
    journal.purge(&id("a")).await.unwrap();
    let after = claim(&journal, "a").await;
    assert_ne!(before.incarnation(), after.incarnation());
    let fenced = journal
        .append(&mut before, SequenceNr::ZERO, writes(1))
        .await
        .unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced);
}

#[tokio::test]
async fn a_claim_of_another_journal_is_refused() {
    let (one, other) = (MemoryJournal::new(), MemoryJournal::new());
    let mut foreign = claim(&one, "a").await;
    let own = claim(&other, "a").await;
    assert_eq!(foreign.epoch(), own.epoch());
    let fenced = other
        .append(&mut foreign, SequenceNr::ZERO, writes(1))
        .await
        .unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced);
}

#[tokio::test]
async fn a_replay_reads_bounded_chunks() {
    let journal = MemoryJournal::new();
    let mut claimed = claim(&journal, "a").await;
    append(&journal, &mut claimed, 600).await;
    let large: Arc<[AtomicWrite]> = (0..4).map(|_| event(200 << 10).into()).collect();
    journal
        .append(&mut claimed, SequenceNr::new(600), large)
        .await
        .unwrap();
    let mut replay = journal.replay(&id("a"), ReplayRange::ALL);
    let mut sizes = Vec::new();
    while let Some(chunk) = replay.next_chunk().await {
        sizes.push(chunk.unwrap().len());
    }
    assert_eq!(sizes, [256, 256, 90, 2]);
}

#[tokio::test]
async fn a_replay_overtaken_by_a_deletion_ends_with_an_error() {
    let journal = MemoryJournal::new();
    let mut claimed = claim(&journal, "a").await;
    append(&journal, &mut claimed, 600).await;
    let a = id("a");
    let mut overtaken = journal.replay(&a, ReplayRange::ALL);
    let mut ahead = journal.replay(&a, ReplayRange::ALL);
    assert_eq!(overtaken.next_chunk().await.unwrap().unwrap().len(), 256);
    assert_eq!(ahead.next_chunk().await.unwrap().unwrap().len(), 256);
    journal.delete_to(&a, deletion(&claimed, 256)).await.unwrap();
    assert_eq!(ahead.next_chunk().await.unwrap().unwrap().len(), 256);
    journal.delete_to(&a, deletion(&claimed, 257)).await.unwrap();
    let error = overtaken.next_chunk().await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.sequence_nr()),
        (ErrorKind::Unavailable, Some(SequenceNr::new(257)))
    );
    assert!(overtaken.next_chunk().await.is_none());
    journal.delete_to(&a, deletion(&claimed, 600)).await.unwrap();
    assert_eq!(
        ahead.next_chunk().await.unwrap().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn a_replay_that_has_read_its_last_event_ends_whatever_is_deleted() {
    let journal = MemoryJournal::new();
    let mut claimed = claim(&journal, "a").await;
    append(&journal, &mut claimed, 3).await;
    let mut replay = journal.replay(&id("a"), ReplayRange::ALL);
    assert_eq!(replay.next_chunk().await.unwrap().unwrap().len(), 3);
    append(&journal, &mut claimed, 1).await;
    journal.delete_to(&id("a"), deletion(&claimed, 4)).await.unwrap();
    assert!(replay.next_chunk().await.is_none());
}

#[tokio::test]
async fn a_replay_never_continues_in_another_life() {
    let journal = MemoryJournal::new();
    let mut claimed = claim(&journal, "a").await;
    append(&journal, &mut claimed, 300).await;
    let mut replay = journal.replay(&id("a"), ReplayRange::ALL);
    assert_eq!(replay.next_chunk().await.unwrap().unwrap().len(), 256);
    journal.purge(&id("a")).await.unwrap();
    let mut next_life = claim(&journal, "a").await;
    append(&journal, &mut next_life, 300).await;
    assert_eq!(
        replay.next_chunk().await.unwrap().unwrap_err().kind(),
        ErrorKind::WrongIncarnation
    );
    assert!(replay.next_chunk().await.is_none());
}

#[tokio::test]
async fn limits_can_be_lowered() {
    let journal = MemoryJournal::new().with_limits(10, 30);
    assert_eq!(journal.capabilities().largest_event, 10);
    let mut claimed = claim(&journal, "a").await;
    let oversized: Arc<[AtomicWrite]> = [event(1).into(), event(10).into()].into();
    let rejected = journal
        .append(&mut claimed, SequenceNr::ZERO, oversized)
        .await
        .unwrap_err();
    assert_eq!(
        (rejected.kind(), rejected.write_index()),
        (ErrorKind::Rejected, Some(1))
    );
    let too_many: Arc<[AtomicWrite]> = (0..4).map(|_| event(8).into()).collect();
    let rejected = journal
        .append(&mut claimed, SequenceNr::ZERO, too_many)
        .await
        .unwrap_err();
    assert_eq!(
        (rejected.kind(), rejected.write_index()),
        (ErrorKind::Rejected, Some(3))
    );
    append(&journal, &mut claimed, 3).await;
}
