//! A snapshot is of the state right after its own command, is handed over only once that is durable and flushed, and
//! one round is in flight.

use std::sync::Arc;

use journal_core::{
    Durability, ErrorKind, MemoryJournal, Operation, SelectionCriteria, Signal, SnapshotStore,
};

use crate::common::*;

fn saved(signal: &Signal) -> Option<u64> {
    match signal {
        Signal::SnapshotSaved(metadata) => Some(metadata.sequence_nr.get()),
        _ => None,
    }
}

fn failed(signal: &Signal) -> Option<String> {
    match signal {
        Signal::SnapshotFailed(error) => Some(error.to_string()),
        _ => None,
    }
}

fn round_over(signal: &Signal) -> Option<()> {
    matches!(signal, Signal::SnapshotsDeleted).then_some(())
}

#[tokio::test]
async fn one_is_taken_whenever_the_number_passes_a_multiple() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.snapshot_every(3))
        .await
        .unwrap();
    for (events, at) in [(2, None), (2, Some(4)), (1, None), (3, Some(8)), (1, Some(9))] {
        actor.ask(AddAll(vec![1; events])).await.unwrap();
        if let Some(at) = at {
            assert_eq!(actor.signal(saved).await, at);
            actor.signal(round_over).await;
        }
    }
    assert_eq!(*snapshots.saves.lock().unwrap(), [4, 8, 9]);
}

#[tokio::test]
async fn its_state_is_that_of_its_number_and_life_whatever_came_later() {
    let (journal, snapshots) = (Controlled::gated(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    drop(actor.send(TakeSnapshot));
    let later = actor.send(Add(10));
    handled(&actor).await;
    assert!(snapshots.saves.lock().unwrap().is_empty());
    journal.let_through(1);
    first.await.unwrap().unwrap();
    assert_eq!(actor.signal(saved).await, 1);
    let loaded = snapshots
        .inner
        .load(&pid("a"), SelectionCriteria::ALL)
        .await
        .unwrap();
    let snapshot = loaded.snapshot.unwrap();
    assert_eq!(snapshot.payload, state_of(Sum { total: 1, notes: 0 }).await);
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    assert_eq!(snapshot.metadata.incarnation, incarnation);
    journal.let_through(1);
    later.await.unwrap().unwrap();
}

#[tokio::test]
async fn one_of_events_that_fail_is_never_handed_over() {
    let (journal, snapshots) = (Controlled::gated(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let failing = actor.send(Add(1));
    journal.append_entered().await;
    drop(actor.send(TakeSnapshot));
    handled(&actor).await;
    journal.fate(Fate::NotStored(ErrorKind::Closed));
    journal.let_through(100);
    assert!(failing.await.unwrap().is_err());
    // The round is free again.
    actor.ask(Add(2)).await.unwrap();
    actor.ask(TakeSnapshot).await.unwrap();
    assert_eq!(actor.signal(saved).await, 1);
    assert_eq!(*snapshots.saves.lock().unwrap(), [1]);
}

#[tokio::test]
async fn the_journal_is_flushed_first_where_ok_does_not_mean_the_disk() {
    for (durability, flushes) in [
        (Durability::OsBuffer, 1),
        (Durability::Disk, 0),
        (Durability::Memory, 0),
    ] {
        let journal = Arc::new(Controlled {
            durability,
            ..Controlled::new(MemoryJournal::new())
        });
        let snapshots = Snapshots::new();
        let persistence = with_snapshots(&journal, &snapshots);
        let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
        actor.ask(Add(1)).await.unwrap();
        actor.ask(TakeSnapshot).await.unwrap();
        actor.signal(saved).await;
        assert_eq!(*journal.flushes.lock().unwrap(), flushes);
    }
}

#[tokio::test]
async fn without_a_flush_it_is_not_saved() {
    let journal = Arc::new(Controlled {
        durability: Durability::OsBuffer,
        ..Controlled::new(MemoryJournal::new())
    });
    let snapshots = Snapshots::new();
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    for trouble in [Trouble::Fails, Trouble::Panics] {
        journal.trouble(Operation::Flush, trouble);
        actor.ask(TakeSnapshot).await.unwrap();
        actor.signal(failed).await;
    }
    assert!(snapshots.saves.lock().unwrap().is_empty());
    actor.ask(TakeSnapshot).await.unwrap();
    assert_eq!(actor.signal(saved).await, 1);
}

#[tokio::test]
async fn while_a_round_is_in_flight_a_due_one_is_skipped() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.snapshot_every(2))
        .await
        .unwrap();
    snapshots.fault(Call::Save, Fault::Waits);
    for _ in 0..7 {
        actor.ask(Add(1)).await.unwrap();
    }
    snapshots.save_entered().await;
    assert_eq!(*snapshots.saves.lock().unwrap(), [2]);
    snapshots.gate.add_permits(1);
    assert_eq!(actor.signal(saved).await, 2);
    actor.signal(round_over).await;
    actor.ask(Add(1)).await.unwrap();
    assert_eq!(actor.signal(saved).await, 8);
}

#[tokio::test]
async fn a_failed_one_deletes_nothing_and_the_next_round_works() {
    for fault in [Fault::Fails, Fault::Panics] {
        let (journal, snapshots) = (Controlled::open(), Snapshots::new());
        let persistence = with_snapshots(&journal, &snapshots);
        let mut actor = Mini::spawn_with(&persistence, "a", |options| {
            options.snapshot_every(2).keep(1).delete_events()
        })
        .await
        .unwrap();
        snapshots.fault(Call::Save, fault);
        actor.ask(AddAll(vec![1, 1])).await.unwrap();
        actor.signal(failed).await;
        assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
        actor.ask(AddAll(vec![1, 1])).await.unwrap();
        actor.signal(round_over).await;
        assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 4);
        assert_eq!(snapshots.saved("a").await, [4]);
    }
}

#[tokio::test]
async fn a_save_that_hangs_delays_no_command() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.snapshot_every(1))
        .await
        .unwrap();
    snapshots.fault(Call::Save, Fault::Hangs);
    for total in 1..20 {
        assert_eq!(actor.ask(Add(1)).await.unwrap(), total);
    }
    snapshots.save_entered().await;
    assert_eq!(*snapshots.saves.lock().unwrap(), [1]);
}

#[tokio::test]
async fn asked_for_without_a_store_it_is_a_signal() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    actor.ask(TakeSnapshot).await.unwrap();
    assert!(actor.signal(failed).await.contains("no snapshot store"));
}

#[tokio::test]
async fn asked_for_before_the_first_event_there_is_none() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(TakeSnapshot).await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    actor.ask(TakeSnapshot).await.unwrap();
    assert_eq!(actor.signal(saved).await, 1);
    assert_eq!(*snapshots.saves.lock().unwrap(), [1]);
}

#[tokio::test]
async fn a_long_replay_is_followed_by_one() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1; 10])).await.unwrap();
    actor.end().await.unwrap();
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.snapshot_every(10))
        .await
        .unwrap();
    assert_eq!(actor.signal(saved).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_save_that_never_ends_fails_and_neither_keeps_the_id_nor_the_next_round() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = on_this_runtime(builder_with(&journal, &snapshots));
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    snapshots.fault(Call::Save, Fault::Hangs);
    actor.ask(TakeSnapshot).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotFailed(_)).then_some(()))
        .await;
    actor.ask(TakeSnapshot).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotSaved(_)).then_some(()))
        .await;
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
}
