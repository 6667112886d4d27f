//! Calls meet the faults that were meant for them, and no others.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use journal_core::{
    AppendPart, AtomicWrite, EncodedEvent, ErrorKind, EventSerializer, Journal, JournalError, MemoryJournal,
    MessagePack, Operation, Outcome, PersistenceId, ReplayRange, SequenceNr, Timestamp, WriterId,
    testing::{Fault, FaultyJournal, Gate},
};
use tokio::time::Instant;

use crate::model::Happened;

fn id(id: &str) -> PersistenceId {
    PersistenceId::new(id).unwrap()
}

fn journal() -> FaultyJournal {
    FaultyJournal::new(MemoryJournal::new())
}

fn writes(count: usize) -> Arc<[AtomicWrite]> {
    let events = EventSerializer::new(Arc::new(MessagePack)).unwrap();
    let event: EncodedEvent = events.encode(&Happened::Shipped, Timestamp(0)).unwrap();
    (0..count).map(|_| AtomicWrite::from(event.clone())).collect()
}

async fn append(journal: &FaultyJournal, of: &str) -> Result<(), JournalError> {
    let mut claim = journal.inner().claim(&id(of), WriterId::random()).await.unwrap();
    let expected = claim.highest();
    journal.append(&mut claim, expected, writes(1)).await.map(drop)
}

async fn stored(journal: &FaultyJournal, of: &str) -> usize {
    journal.inner().replay(&id(of), ReplayRange::ALL).count().await
}

#[tokio::test]
async fn the_next_n_calls_of_the_id_fail_and_no_others() {
    let journal = journal();
    journal.next(
        Fault::not_stored(Operation::Append, ErrorKind::Unavailable)
            .of("a")
            .times(2),
    );
    append(&journal, "b").await.unwrap();
    for left in [1, 0] {
        let error = append(&journal, "a").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Unavailable, Outcome::NotStored)
        );
        assert_eq!(journal.faults_left(), left);
    }
    append(&journal, "a").await.unwrap();
    assert_eq!((stored(&journal, "a").await, stored(&journal, "b").await), (1, 1));
}

#[tokio::test]
async fn an_unknown_append_is_stored_or_lost_as_asked_and_its_claim_is_spent() {
    for (fault, is_stored) in [(Fault::stored_but_unknown(), 1), (Fault::lost_but_unknown(), 0)] {
        let journal = journal();
        journal.next(fault);
        let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
        let error = journal
            .append(&mut claim, SequenceNr::ZERO, writes(1))
            .await
            .unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(claim.is_spent());
        assert_eq!(stored(&journal, "a").await, is_stored);
    }
}

#[tokio::test]
async fn a_rejected_append_names_its_write_and_leaves_the_claim() {
    let journal = journal();
    journal.next(Fault::rejected(1));
    let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
    let error = journal
        .append(&mut claim, SequenceNr::ZERO, writes(2))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.write_index()),
        (ErrorKind::Rejected, Some(1))
    );
    journal
        .append(&mut claim, SequenceNr::ZERO, writes(2))
        .await
        .unwrap();
}

#[tokio::test]
async fn of_a_group_only_the_part_meant_fails() {
    let journal = journal();
    journal.next(Fault::not_stored(Operation::Append, ErrorKind::Poisoned).of("b"));
    let mut parts = Vec::new();
    for of in ["a", "b", "c"] {
        let claim = journal.claim(&id(of), WriterId::random()).await.unwrap();
        parts.push(AppendPart {
            claim,
            expected: SequenceNr::ZERO,
            writes: writes(1),
            result: None,
        });
    }
    journal.append_group(&mut parts).await;
    let answers: Vec<bool> = parts
        .iter()
        .map(|part| part.result.as_ref().unwrap().is_ok())
        .collect();
    assert_eq!(answers, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_takes_longer_and_can_fail_too() {
    let journal = journal();
    journal.next(Fault::delayed(Operation::Append, Duration::from_secs(5)));
    journal.next(Fault::not_stored(Operation::Append, ErrorKind::Timeout));
    let before = Instant::now();
    append(&journal, "a").await.unwrap_err();
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    append(&journal, "a").await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_held_call_hangs_until_it_is_let_through() {
    let journal = journal();
    let gate = Gate::closed();
    journal.next(Fault::held(Operation::Append, &gate).always());
    let mut first = Box::pin(append(&journal, "a"));
    let mut second = Box::pin(append(&journal, "b"));
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    gate.arrival().await;
    gate.arrival().await;
    assert!(gate.arrival().now_or_never().is_none());
    assert_eq!(gate.most_waiting(), 2);
    gate.let_through(1);
    first.await.unwrap();
    assert!((&mut second).now_or_never().is_none());
    gate.open();
    second.await.unwrap();
    append(&journal, "a").await.unwrap();
}

#[tokio::test]
async fn a_lasting_fault_lasts_until_the_journal_is_healed() {
    let journal = journal();
    journal.next(Fault::not_stored(Operation::Claim, ErrorKind::Unavailable).always());
    for _ in 0..3 {
        journal.claim(&id("a"), WriterId::random()).await.unwrap_err();
    }
    journal.heal();
    journal.claim(&id("a"), WriterId::random()).await.unwrap();
}

#[tokio::test]
async fn every_operation_can_fail() {
    let journal = journal();
    append(&journal, "a").await.unwrap();
    let a = id("a");
    let bounds = journal.bounds(&a).await.unwrap();
    let deletion = journal_core::Deletion {
        to: SequenceNr::FIRST,
        incarnation: bounds.incarnation.unwrap(),
        fresh_start: false,
    };
    use Operation::{Bounds, Claim, DeleteTo, Flush, Purge, Replay, Shutdown};
    for operation in [Claim, Bounds, Replay, DeleteTo, Purge, Flush, Shutdown] {
        journal.next(Fault::not_stored(operation, ErrorKind::Unavailable));
    }
    let errors = [
        journal.claim(&a, WriterId::random()).await.map(drop).unwrap_err(),
        journal.bounds(&a).await.map(drop).unwrap_err(),
        journal
            .replay(&a, ReplayRange::ALL)
            .next()
            .await
            .unwrap()
            .map(drop)
            .unwrap_err(),
        journal.delete_to(&a, deletion).await.map(drop).unwrap_err(),
        journal.purge(&a).await.unwrap_err(),
        journal.flush().await.unwrap_err(),
        journal.shutdown().await.unwrap_err(),
    ];
    let operations = errors.map(|error| error.operation());
    assert_eq!(
        operations,
        [Claim, Bounds, Replay, DeleteTo, Purge, Flush, Shutdown]
    );
    assert_eq!((journal.faults_left(), stored(&journal, "a").await), (0, 1));
    assert_eq!(journal.replay(&a, ReplayRange::ALL).count().await, 1);
}

#[tokio::test]
async fn the_calls_are_remembered() {
    let journal = journal();
    let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
    journal
        .append(&mut claim, SequenceNr::ZERO, writes(3))
        .await
        .unwrap();
    let calls = journal.calls().into_iter();
    let calls: Vec<_> = calls.map(|call| (call.operation, call.id, call.writes)).collect();
    assert_eq!(
        calls,
        [
            (Operation::Claim, Some(id("a")), 0),
            (Operation::Append, Some(id("a")), 3)
        ]
    );
}

#[tokio::test]
async fn a_counted_fault_comes_before_a_lasting_one_and_the_lasting_one_can_be_withdrawn() {
    let journal = journal();
    let lasting = Fault::not_stored(Operation::Append, ErrorKind::Unavailable).always();
    journal.next(lasting.clone());
    journal.next(Fault::not_stored(Operation::Append, ErrorKind::Poisoned));
    for kind in [
        ErrorKind::Poisoned,
        ErrorKind::Unavailable,
        ErrorKind::Unavailable,
    ] {
        assert_eq!(append(&journal, "a").await.unwrap_err().kind(), kind);
    }
    journal.withdraw(&lasting);
    append(&journal, "a").await.unwrap();
}

#[tokio::test]
async fn an_append_that_is_told_to_be_fenced_spends_its_claim_and_another_failure_does_not() {
    let journal = journal();
    for (kind, spends) in [(ErrorKind::Fenced, true), (ErrorKind::Unavailable, false)] {
        journal.next(Fault::not_stored(Operation::Append, kind));
        let mut claim = journal.claim(&id("a"), WriterId::random()).await.unwrap();
        let expected = claim.highest();
        let error = journal.append(&mut claim, expected, writes(1)).await.unwrap_err();
        assert_eq!((error.kind(), claim.is_spent()), (kind, spends));
    }
}
