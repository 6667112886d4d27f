//! An append of unknown outcome: the next claim finds out, replies wait for it, but not for ever.

use std::{sync::Arc, time::Duration};

use journal_core::{Operation, Outcome, PersistError, Persistence, adapter::Halt};
use tokio::{runtime::Handle, time::Instant};

use crate::common::*;

fn is_unknown<T: std::fmt::Debug>(reply: Reply<T>) {
    let Failure(error) = reply.unwrap_err();
    assert!(matches!(error, PersistError::Unknown(_)), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

fn is_not_stored<T: std::fmt::Debug>(reply: Reply<T>) {
    let Failure(error) = reply.unwrap_err();
    assert!(matches!(error, PersistError::NotStored(_)), "{error}");
    assert_eq!(error.outcome(), Outcome::NotStored);
}

#[tokio::test]
async fn a_stored_one_is_answered_with_its_own_reply() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    assert_eq!(actor.ask(AddAll(vec![1, 2])).await.unwrap(), 3);
    assert_eq!(*journal.claims.lock().unwrap(), 2);
    assert_eq!(actor.ask(Get).await.unwrap(), 3);
}

#[tokio::test]
async fn a_lost_one_is_answered_not_stored() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::LostButUnknown);
    is_not_stored(actor.ask(Add(1)).await);
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
}

#[tokio::test]
async fn one_overwritten_by_another_writer_is_answered_not_stored() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::OverwrittenButUnknown(Happened::Added(100)));
    is_not_stored(actor.ask(Add(1)).await);
    assert_eq!(actor.ask(Get).await.unwrap(), 100);
}

#[tokio::test]
async fn one_deleted_before_the_claim_is_answered_unknown() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Slow(Duration::from_millis(50)));
    let reply = actor.send(Add(1));
    while journal.bounds_of("a").await.highest.get() == 0 {
        tokio::task::yield_now().await;
    }
    journal.delete(&pid("a"), 1, false).await;
    is_unknown(reply.await.unwrap());
}

#[tokio::test]
async fn one_deleted_between_claim_and_reading_is_answered_unknown() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn_with(&persistence, "a", |options| options.accept_deleted_prefix())
        .await
        .unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::ThenDeletes);
    is_unknown(actor.ask(Add(1)).await);
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
}

#[tokio::test]
async fn one_that_a_snapshot_covers_is_read_all_the_same() {
    let journal = Controlled::open();
    let snapshots = Snapshots::new();
    let persistence = with_snapshots(&journal, &snapshots);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    actor.ask(Add(1)).await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Slow(Duration::from_millis(50)));
    let reply = actor.send(Add(2));
    while journal.bounds_of("a").await.highest.get() < 2 {
        tokio::task::yield_now().await;
    }
    // As a successor in another process would have saved it.
    let incarnation = journal.bounds_of("a").await.incarnation.unwrap();
    let payload = state_of(Sum { total: 3, notes: 0 }).await;
    snapshots.plant("a", 2, incarnation, payload).await;
    assert_eq!(reply.await.unwrap().unwrap(), 3);
    assert_eq!(actor.ask(Get).await.unwrap(), 3);
}

#[tokio::test]
async fn what_came_behind_was_never_sent() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let (behind, read) = (actor.send(Add(10)), actor.send(Get));
    handled(&actor).await;
    journal.fate(Fate::StoredButUnknown);
    journal.let_through(10);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    is_not_stored(behind.await.unwrap());
    is_not_stored(read.await.unwrap());
    assert_eq!(actor.ask(Get).await.unwrap(), 1);
    assert_eq!(journal.stored("a").await, [(1, Happened::Added(1))]);
}

#[tokio::test]
async fn a_read_on_an_undurable_event_shares_its_outcome() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let read = actor.send(Get);
    handled(&actor).await;
    journal.fate(Fate::StoredButUnknown);
    journal.let_through(10);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(read.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_journal_that_panics_leaves_the_outcome_unknown() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::Panic);
    is_not_stored(actor.ask(Add(1)).await);
    assert_eq!(actor.ask(Add(2)).await.unwrap(), 2);
}

#[tokio::test]
async fn a_group_left_without_an_answer_is_unknown_and_its_neighbour_is_not() {
    let journal = Arc::new(Controlled {
        group_commit: true,
        ..Controlled::new(journal_core::MemoryJournal::new()).closed()
    });
    let persistence = persistence(&journal);
    let mut actors = Vec::new();
    for id in ["a", "b", "c", "d", "e", "f"] {
        actors.push(Mini::spawn(&persistence, id).await.unwrap());
    }
    // Four groups in flight: what the others have to append gathers to one.
    let mut first = Vec::new();
    for actor in &actors[..4] {
        first.push(actor.send(Add(1)));
        journal.append_entered().await;
    }
    let (fifth, sixth) = (actors[4].send(Add(3)), actors[5].send(Add(4)));
    handled(&actors[4]).await;
    handled(&actors[5]).await;
    journal.let_through(4);
    for reply in first {
        assert_eq!(reply.await.unwrap().unwrap(), 1);
    }
    journal.fate(Fate::NoAnswer);
    journal.let_through(100);
    is_not_stored(fifth.await.unwrap());
    assert_eq!(sixth.await.unwrap().unwrap(), 4);
    assert_eq!(actors[4].ask(Get).await.unwrap(), 0);
}

#[tokio::test]
async fn a_claim_that_fails_ends_the_actor_and_answers_unknown() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Fails);
    is_unknown(actor.ask(Add(1)).await);
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::RecoveryFailed(_))));
    assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS);
    gone(&persistence, "a").await;
}

#[tokio::test(start_paused = true)]
async fn replies_do_not_wait_longer_than_asked_for_a_permit() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()).recovery_permits(1));
    let actor = Mini::spawn_with(&persistence, "a", |options| {
        options.unknown_wait(Duration::from_secs(3))
    })
    .await
    .unwrap();
    journal.trouble(Operation::Claim, Trouble::Hangs);
    let other = {
        let persistence = persistence.clone();
        let describe: Describe = |options| options.recovery_idle_timeout(Duration::from_secs(1_000));
        Handle::current().spawn(async move { Mini::spawn_with(&persistence, "b", describe).await.err() })
    };
    while persistence.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    journal.fate(Fate::StoredButUnknown);
    let started = Instant::now();
    is_unknown(actor.ask(Add(1)).await);
    assert_eq!(started.elapsed().as_secs(), 3);
    other.abort();
    assert_eq!(actor.ask(Get).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn replies_do_not_wait_longer_than_asked_for_a_claim() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let actor = Mini::spawn_with(&persistence, "a", |options| {
        options.unknown_wait(Duration::from_secs(3))
    })
    .await
    .unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Slow(Duration::from_secs(10)));
    let started = Instant::now();
    is_unknown(actor.ask(Add(1)).await);
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(actor.ask(Get).await.unwrap(), 1);
}

#[tokio::test]
async fn a_killed_actor_leaves_nobody_without_an_answer() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let behind = actor.send(Add(2));
    handled(&actor).await;
    journal.fate(Fate::LostButUnknown);
    actor.kill().await;
    assert!(persistence.is_live(&pid("a")));
    journal.let_through(10);
    let (first, behind) = (first.await, behind.await);
    is_unknown(first.expect("it is answered"));
    is_not_stored(behind.expect("it is answered"));
    gone(&persistence, "a").await;
}

#[tokio::test]
async fn a_kill_during_the_recovery_leaves_nobody_without_an_answer() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::StoredButUnknown);
    journal.trouble(Operation::Claim, Trouble::Hangs);
    let reply = actor.send(Add(1));
    while *journal.claims.lock().unwrap() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS - 1);
    actor.kill().await;
    is_unknown(reply.await.expect("it is answered"));
    assert_eq!(persistence.available_permits(), Persistence::DEFAULT_PERMITS);
    gone(&persistence, "a").await;
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    assert_eq!(actor.ask(Get).await.unwrap(), 1);
}

#[tokio::test]
async fn an_answer_with_other_numbers_is_none() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::WrongNumbers);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
    assert_eq!(*journal.claims.lock().unwrap(), 2);
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 2);
}
