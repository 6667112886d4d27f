//! `restart_from_here` asserts that the state is the initial one again; it never resets anything.

use journal_core::{Operation, PersistError, Signal};

use crate::common::*;

fn deleted(signal: &Signal) -> Option<u64> {
    match signal {
        Signal::EventsDeleted(to) => Some(to.get()),
        _ => None,
    }
}

#[tokio::test]
async fn in_the_initial_state_all_events_go_and_recovery_needs_no_snapshot() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1, 2, 3])).await.unwrap();
    actor.ask(Restart).await.unwrap();
    assert_eq!(actor.signal(deleted).await, 4);
    let bounds = journal.bounds_of("a").await;
    assert_eq!(
        (
            bounds.highest.get(),
            bounds.deleted_to.get(),
            bounds.fresh_start.get()
        ),
        (4, 4, 4)
    );
    assert_eq!(actor.ask(Add(5)).await.unwrap(), 5);
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
    assert_eq!(journal.stored("a").await, [(5, Happened::Added(5))]);
}

#[tokio::test]
async fn in_another_state_the_command_is_refused_and_changes_nothing() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    let refused = actor.ask(RestartWrongly).await.unwrap_err().0;
    assert!(matches!(refused, PersistError::NotInitialState), "{refused}");
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 2);
    let bounds = journal.bounds_of("a").await;
    assert_eq!((bounds.highest.get(), bounds.fresh_start.get()), (2, 0));
}

#[tokio::test]
async fn before_the_deletion_a_crash_changes_nothing() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1, 2, 3])).await.unwrap();
    journal.trouble(Operation::DeleteTo, Trouble::Fails);
    actor.ask(Restart).await.unwrap();
    actor
        .signal(|signal| matches!(signal, Signal::EventsNotDeleted(_)).then_some(()))
        .await;
    drop(actor.send(Add(7)));
    handled(&actor).await;
    actor.kill().await;
    gone(&persistence, "a").await;
    assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 7);
}

#[tokio::test]
async fn with_its_events_lost_nothing_is_deleted() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1, 2, 3])).await.unwrap();
    journal.fate(Fate::LostButUnknown);
    assert!(actor.ask(Restart).await.is_err());
    assert_eq!(actor.ask(Get).await.unwrap(), 6);
    assert_eq!(journal.bounds_of("a").await.deleted_to.get(), 0);
}

#[tokio::test]
async fn obsolete_snapshots_go_too_and_none_of_them_is_used() {
    for fault in [Fault::None, Fault::Fails] {
        let (journal, snapshots) = (Controlled::open(), Snapshots::new());
        let persistence = with_snapshots(&journal, &snapshots);
        let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
        actor.ask(AddAll(vec![1, 2, 3])).await.unwrap();
        actor.ask(TakeSnapshot).await.unwrap();
        actor
            .signal(|signal| matches!(signal, Signal::SnapshotsDeleted).then_some(()))
            .await;
        snapshots.fault(Call::Delete, fault);
        actor.ask(Restart).await.unwrap();
        assert_eq!(actor.signal(deleted).await, 4);
        actor.ask(Add(5)).await.unwrap();
        actor.end().await.unwrap();
        gone(&persistence, "a").await;
        let left = if fault == Fault::None { vec![] } else { vec![3] };
        assert_eq!(snapshots.saved("a").await, left);
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        assert_eq!(actor.ask(Get).await.unwrap(), 5);
    }
}

#[tokio::test]
async fn a_snapshot_under_way_at_a_restart_is_not_used_later() {
    let (journal, snapshots) = (Controlled::open(), Snapshots::new());
    let persistence = with_snapshots(&journal, &snapshots);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(AddAll(vec![1, 2, 3])).await.unwrap();
    snapshots.fault(Call::Save, Fault::Waits);
    actor.ask(TakeSnapshot).await.unwrap();
    // So that the end of the deletion can be told.
    snapshots.fault(Call::Delete, Fault::Fails);
    actor.ask(Restart).await.unwrap();
    assert_eq!(actor.signal(deleted).await, 4);
    actor
        .signal(|signal| matches!(signal, Signal::SnapshotsNotDeleted(_)).then_some(()))
        .await;
    snapshots.gate.add_permits(1);
    actor.ask(Add(5)).await.unwrap();
    actor.end().await.unwrap();
    gone(&persistence, "a").await;
    assert_eq!(snapshots.saved("a").await, [3]);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 5);
}

#[tokio::test]
async fn before_the_first_event_there_is_nothing_to_delete() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(RestartUnchanged).await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    actor.ask(Restart).await.unwrap();
    assert_eq!(actor.signal(deleted).await, 2);
}
