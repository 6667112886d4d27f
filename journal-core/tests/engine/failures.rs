//! Appends that are certainly not stored: repeated, then answered; and rejected writes.

use std::{sync::Arc, time::Duration};

use journal_core::{ErrorKind, MemoryJournal, Outcome, PersistError, Persistence, Signal};
use tokio::time::Instant;

use crate::common::*;

const UNAVAILABLE: Fate = Fate::NotStored(ErrorKind::Unavailable);

fn kind_of<T: std::fmt::Debug>(reply: Reply<T>) -> &'static str {
    match reply {
        Ok(_) => "stored",
        Err(Failure(error)) => {
            assert_eq!(error.outcome(), Outcome::NotStored);
            match error {
                PersistError::Rejected(_) => "rejected",
                PersistError::NotStored(_) => "not stored",
                other => panic!("{other}"),
            }
        }
    }
}

#[tokio::test]
async fn an_append_that_is_not_stored_is_repeated_under_the_same_claim() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    for _ in 0..3 {
        journal.fate(UNAVAILABLE);
    }
    assert_eq!(actor.ask(Add(1)).await.unwrap(), 1);
    assert_eq!(journal.sizes(), [[1], [1], [1], [1]]);
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_says_whose_call_took_how_long() {
    for fate in [
        Fate::NotStored(ErrorKind::Poisoned),
        Fate::LostButUnknown,
        Fate::Panic,
    ] {
        let mut journal = Controlled::new(MemoryJournal::new());
        journal.takes = Duration::from_secs(7);
        let journal = Arc::new(journal);
        let persistence = on_this_runtime(Persistence::builder(journal.clone()));
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        journal.fate(fate);
        let Failure(failed) = actor.ask(Add(1)).await.unwrap_err();
        let (PersistError::NotStored(error) | PersistError::Unknown(error)) = failed else {
            panic!("{failed}")
        };
        assert_eq!(error.elapsed(), Some(Duration::from_secs(7)), "{error}");
        assert!(error.to_string().starts_with("append of a"), "{error}");
        assert!(error.to_string().contains("after 7s"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_wait_longer_each_time_and_start_anew_with_each_append() {
    let journal = Controlled::open();
    let persistence = on_this_runtime(Persistence::builder(journal.clone()));
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    for _ in 0..2 {
        let started = Instant::now();
        for _ in 0..3 {
            journal.fate(UNAVAILABLE);
        }
        actor.ask(Add(1)).await.unwrap();
        let waited = started.elapsed();
        let expected = Duration::from_millis(50 + 100 + 200);
        assert!(waited >= expected && waited < expected * 2, "{waited:?}");
    }
}

#[tokio::test]
async fn after_the_last_repeat_it_and_all_behind_it_are_answered_and_the_actor_recovers() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let failing = actor.send(Add(1));
    journal.append_entered().await;
    let (behind, read, runs) = (actor.send(Add(2)), actor.send(Get), actor.send(Run("lost")));
    handled(&actor).await;
    for _ in 0..4 {
        journal.fate(UNAVAILABLE);
    }
    journal.let_through(100);
    assert_eq!(kind_of(failing.await.unwrap()), "not stored");
    assert_eq!(kind_of(behind.await.unwrap()), "not stored");
    assert_eq!(kind_of(read.await.unwrap()), "not stored");
    assert_eq!(kind_of(runs.await.unwrap()), "not stored");
    assert_eq!(journal.sizes().len(), 4);
    assert_eq!(actor.ask(Get).await.unwrap(), 0);
    assert_eq!(*journal.claims.lock().unwrap(), 2);
    let failed = actor
        .signal(|signal| match signal {
            Signal::PersistFailed(error) => Some(error.clone()),
            _ => None,
        })
        .await;
    assert!(matches!(failed, PersistError::NotStored(_)), "{failed}");
    actor
        .signal(|signal| matches!(signal, Signal::RecoveryCompleted { .. }).then_some(()))
        .await;
}

#[tokio::test]
async fn what_will_never_work_is_not_repeated() {
    for kind in [
        ErrorKind::Conflict,
        ErrorKind::Spent,
        ErrorKind::Closed,
        ErrorKind::Poisoned,
    ] {
        let journal = Controlled::open();
        let persistence = persistence(&journal);
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        journal.fate(Fate::NotStored(kind));
        assert_eq!(kind_of(actor.ask(Add(1)).await), "not stored");
        assert_eq!(journal.sizes().len(), 1);
        assert_eq!(actor.ask(Add(2)).await.unwrap(), 2);
    }
}

#[tokio::test]
async fn commands_queued_behind_a_failure_are_handled_on_the_recovered_state() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    for _ in 0..20 {
        journal.fate(Fate::NotStored(ErrorKind::Closed));
        let replies: Vec<_> = (0..8).map(|_| actor.send(Add(1))).collect();
        let before = journal.stored("a").await.len();
        let mut stored = 0;
        for reply in replies {
            if reply.await.unwrap().is_ok() {
                stored += 1;
            }
        }
        assert_eq!(journal.stored("a").await.len(), before + stored);
    }
}

/// An append of a lone write is in flight, then one of four writes is rejected as told while two more gather behind.
async fn rejected(index: Option<usize>) -> (Vec<&'static str>, Vec<(u64, Happened)>, Vec<Vec<usize>>) {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let mut replies = vec![actor.send(Add(1))];
    journal.append_entered().await;
    for amount in [10, 20, 30, 40] {
        replies.push(actor.send(Add(amount)));
        replies.push(actor.send(Get));
    }
    handled(&actor).await;
    journal.let_through(1);
    journal.append_entered().await;
    replies.push(actor.send(Add(50)));
    replies.push(actor.send(Get));
    handled(&actor).await;
    journal.fate(Fate::Reject(index));
    journal.let_through(100);
    let mut kinds = Vec::new();
    for reply in replies {
        kinds.push(kind_of(reply.await.unwrap()));
    }
    let stored = journal.stored("a").await;
    let sum: i64 = stored
        .iter()
        .map(|(_, event)| match event {
            Happened::Added(amount) => *amount,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(actor.ask(Get).await.unwrap(), sum);
    assert_eq!(*journal.claims.lock().unwrap(), 2);
    (kinds, stored, journal.sizes())
}

async fn assert_only_the_first_are_stored(index: Option<usize>, kept: usize) {
    let (kinds, stored, sizes) = rejected(index).await;
    let mut expected = vec!["stored"; 1 + 2 * kept];
    expected.resize(kinds.len(), "rejected");
    assert_eq!(kinds, expected);
    let amounts = [1, 10, 20, 30, 40];
    let events: Vec<_> = amounts.iter().map(|amount| Happened::Added(*amount)).collect();
    let numbered: Vec<_> = (1..).zip(events.into_iter().take(kept + 1)).collect();
    assert_eq!(stored, numbered);
    let mut appends = vec![vec![1], vec![1; 4]];
    appends.extend((kept > 0).then(|| vec![1; kept]));
    assert_eq!(sizes, appends);
}

#[tokio::test]
async fn a_rejected_first_write_takes_all_behind_it_along() {
    assert_only_the_first_are_stored(Some(0), 0).await;
}

#[tokio::test]
async fn writes_before_a_rejected_one_are_appended_again() {
    assert_only_the_first_are_stored(Some(2), 2).await;
}

#[tokio::test]
async fn a_rejected_last_write_takes_what_gathered_along() {
    assert_only_the_first_are_stored(Some(3), 3).await;
}

#[tokio::test]
async fn an_append_rejected_as_a_whole_takes_all_of_it_along() {
    assert_only_the_first_are_stored(None, 0).await;
}

#[tokio::test]
async fn a_rejection_of_a_write_that_is_not_there_is_one_of_the_whole_append() {
    assert_only_the_first_are_stored(Some(4), 0).await;
}

#[tokio::test]
async fn writes_appended_again_may_fail_too() {
    for (fate, kind) in [
        (Fate::NotStored(ErrorKind::Closed), "not stored"),
        (Fate::LostButUnknown, "not stored"),
        (Fate::StoredButUnknown, "stored"),
        (Fate::Reject(Some(0)), "rejected"),
    ] {
        let journal = Controlled::gated();
        let persistence = persistence(&journal);
        let actor = Mini::spawn(&persistence, "a").await.unwrap();
        let first = actor.send(Add(1));
        journal.append_entered().await;
        let (kept, lost) = (actor.send(Add(2)), actor.send(Add(3)));
        handled(&actor).await;
        journal.fate(Fate::Stored);
        journal.fate(Fate::Reject(Some(1)));
        journal.fate(fate);
        journal.let_through(100);
        assert_eq!(kind_of(first.await.unwrap()), "stored");
        assert_eq!(kind_of(kept.await.unwrap()), kind);
        assert_eq!(kind_of(lost.await.unwrap()), "rejected");
        assert_eq!(
            actor.ask(Get).await.unwrap(),
            if kind == "stored" { 3 } else { 1 }
        );
    }
}

#[tokio::test]
async fn a_panic_enqueues_nothing_and_lets_earlier_writes_finish() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let second = actor.send(Add(10));
    let panicking = [
        actor.send(PanicInApply),
        actor.send(PanicInHandle),
        actor.send(PanicInReply),
        actor.send(PanicInOuter),
    ];
    let behind = actor.send(Add(100));
    others_run().await;
    journal.let_through(100);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(second.await.unwrap().unwrap(), 11);
    for reply in panicking {
        let error = reply.await.unwrap().unwrap_err().0;
        assert!(matches!(error, PersistError::Panicked(_)), "{error}");
    }
    assert_eq!(behind.await.unwrap().unwrap(), 111);
    let events = [1, 10, 100].map(Happened::Added);
    assert_eq!(journal.stored("a").await, (1..).zip(events).collect::<Vec<_>>());
}
