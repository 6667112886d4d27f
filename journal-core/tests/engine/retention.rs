//! Snapshot saved, then events up to the oldest kept one deleted, then older snapshots; a step that fails ends the round.

use journal_core::{Operation, PersistError, Signal};

use crate::common::*;

const KEEP_TWO: Describe = |options| options.snapshot_every(2).keep(2).delete_events();

fn round_over(signal: &Signal) -> Option<()> {
    matches!(signal, Signal::SnapshotsDeleted).then_some(())
}

fn deleted(signal: &Signal) -> Option<u64> {
    match signal {
        Signal::EventsDeleted(to) => Some(to.get()),
        _ => None,
    }
}

fn not_deleted(signal: &Signal) -> Option<String> {
    match signal {
        Signal::EventsNotDeleted(error) => Some(error.to_string()),
        Signal::SnapshotsNotDeleted(error) => Some(error.to_string()),
        _ => None,
    }
}

#[tokio::test]
async fn events_go_up_to_the_oldest_kept_snapshot_then_older_snapshots() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", KEEP_TWO).await.unwrap();
    for (round, deleted_to, kept) in [(1, 0, vec![2]), (2, 2, vec![4, 2]), (3, 4, vec![6, 4])] {
        actor.ask(AddAll(vec![1, 1])).await.unwrap();
        actor.signal(round_over).await;
        assert_eq!(
            journal.bounds_of("a").await.deleted_to.get(),
            deleted_to,
            "{round}"
        );
        assert_eq!(snapshots.saved("a").await, kept, "{round}");
    }
    actor.ask(Add(1)).await.unwrap();
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    // The older kept one is a fall-back.
    snapshots.fault(Call::Load, Fault::Garbles);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let recovered = actor
        .signal(|signal| match signal {
            Signal::RecoveryCompleted {
                highest,
                snapshot,
                replayed,
                ..
            } => Some((highest.get(), snapshot.get(), *replayed)),
            _ => None,
        })
        .await;
    assert_eq!(recovered, (7, 4, 3));
    assert_eq!(actor.ask(Get).await.unwrap(), 7);
}

#[tokio::test]
async fn a_step_that_fails_ends_the_round_and_the_next_one_catches_up() {
    for (fail, trouble) in [
        (Some(Call::List), None),
        (Some(Call::Delete), None),
        (None, Some(Trouble::Fails)),
        (None, Some(Trouble::Panics)),
    ] {
        for fault in [Fault::Fails, Fault::Panics] {
            let (journal, snapshots) = (Controlled::open(), Snapshots::new());
            let persistence = with_snapshots(&journal, &snapshots);
            let mut actor = Mini::spawn_with(&persistence, "a", |options| {
                options.snapshot_every(2).keep(1).delete_events()
            })
            .await
            .unwrap();
            if let Some(call) = fail {
                snapshots.fault(call, fault);
            }
            if let Some(trouble) = trouble {
                journal.trouble(Operation::DeleteTo, trouble);
            }
            actor.ask(AddAll(vec![1, 1])).await.unwrap();
            actor.signal(not_deleted).await;
            assert_eq!(snapshots.saved("a").await, [2]);
            actor.ask(AddAll(vec![1, 1])).await.unwrap();
            actor.signal(round_over).await;
            assert_eq!(snapshots.saved("a").await, [4]);
            assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 4);
        }
    }
}

#[tokio::test]
async fn a_snapshot_ahead_of_the_journal_counts_for_nothing() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| {
        options.snapshot_every(2).keep(1).delete_events()
    })
    .await
    .unwrap();
    actor.ask(Add(1)).await.unwrap();
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    // As a journal restored from an older backup leaves it.
    let payload = state_of(Sum { total: 99, notes: 0 }).await;
    snapshots.plant("a", 99, incarnation, payload).await;
    actor.ask(Add(1)).await.unwrap();
    drop(actor.send(Add(1)));
    actor.signal(round_over).await;
    actor.ask(DeleteTo(3)).await.unwrap();
    assert!(actor.signal(not_deleted).await.contains("no snapshot covers"));
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    assert_eq!(snapshots.saved("a").await, [99, 2]);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 3);
}

#[tokio::test]
async fn a_deletion_that_a_snapshot_covers_is_made() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1; 5])).await.unwrap();
    actor.ask(TakeSnapshot).await.unwrap();
    actor.signal(round_over).await;
    actor.ask(DeleteTo(3)).await.unwrap();
    assert_eq!(actor.signal(deleted).await, 3);
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
}

#[tokio::test]
async fn a_deletion_beyond_the_highest_or_without_a_snapshot_is_refused() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1; 5])).await.unwrap();
    actor.ask(DeleteTo(6)).await.unwrap();
    assert!(actor.signal(not_deleted).await.contains("only up to 5"));
    actor.ask(DeleteTo(5)).await.unwrap();
    assert!(actor.signal(not_deleted).await.contains("no snapshot covers"));
    snapshots.fault(Call::List, Fault::Fails);
    actor.ask(DeleteTo(5)).await.unwrap();
    assert!(actor.signal(not_deleted).await.contains("is unknown"));
    assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
}

#[tokio::test]
async fn a_deletion_that_the_journal_refuses_is_signalled() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    actor.ask(Add(1)).await.unwrap();
    journal.trouble(Operation::DeleteTo, Trouble::Fails);
    actor.ask(DeleteTo(1)).await.unwrap();
    let refused = actor.signal(not_deleted).await;
    assert!(
        refused.contains("unavailable") && refused.contains("after "),
        "{refused}"
    );
    actor.ask(DeleteTo(1)).await.unwrap();
    assert_eq!(actor.signal(deleted).await, 1);
}

#[tokio::test]
async fn a_deletion_decided_on_lost_state_is_dropped() {
    let (journal, snapshots) = (Controlled::gated(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    journal.let_through(1);
    actor.ask(Add(1)).await.unwrap();
    journal.append_entered().await;
    let failing = actor.send(Add(1));
    journal.append_entered().await;
    let deletion = actor.send(DeleteTo(1));
    handled(&actor).await;
    journal.fate(Fate::NotStored(journal_core::ErrorKind::Closed));
    journal.let_through(100);
    assert!(failing.await.unwrap().is_err());
    let refused = deletion.await.unwrap().unwrap_err();
    assert!(matches!(refused.0, PersistError::NotStored(_)), "{refused:?}");
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
}

#[tokio::test]
async fn a_deletion_of_another_life_deletes_nothing() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    actor.ask(Add(1)).await.unwrap();
    journal_core::Journal::purge(&journal, &pid("a")).await.unwrap();
    journal.another_writes(&pid("a"), Happened::Added(1)).await;
    actor.ask(DeleteTo(1)).await.unwrap();
    let refused = actor.signal(not_deleted).await;
    assert!(refused.contains("purged"), "{refused}");
    assert_eq!(journal.stored("a").await.len(), 1);
}
