//! Another writer has claimed the id: stop, with the outcome the journal knows, and do not come back by itself.

use journal_core::{ErrorKind, Outcome, PersistError, Signal, adapter::Halt};

use crate::common::*;

fn fenced<T: std::fmt::Debug>(reply: Reply<T>) -> Outcome {
    let Failure(error) = reply.unwrap_err();
    assert!(matches!(error, PersistError::Fenced(_)), "{error}");
    error.outcome()
}

#[tokio::test]
async fn a_fenced_append_is_answered_at_once_with_its_outcome_and_the_actor_halts() {
    for (fate, outcome, events) in [
        (Fate::FencedBefore, Outcome::NotStored, 0),
        (Fate::FencedUnknown, Outcome::Unknown, 1),
    ] {
        let journal = Controlled::gated();
        let persistence = persistence(&journal);
        let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
        let first = actor.send(Add(1));
        journal.append_entered().await;
        let (behind, read, run) = (actor.send(Add(2)), actor.send(Get), actor.send(Run("never")));
        let stashed = actor.send(StashUntil(100));
        handled(&actor).await;
        journal.fate(fate);
        journal.let_through(100);
        assert_eq!(fenced(first.await.unwrap()), outcome);
        assert_eq!(fenced(behind.await.unwrap()), Outcome::NotStored);
        assert_eq!(fenced(read.await.unwrap()), Outcome::NotStored);
        assert_eq!(fenced(run.await.unwrap()), Outcome::NotStored);
        assert_eq!(fenced(stashed.await.unwrap()), Outcome::NotStored);
        actor
            .signal(|signal| matches!(signal, Signal::PersistFailed(PersistError::Fenced(_))).then_some(()))
            .await;
        assert!(matches!(actor.task.await.unwrap(), Err(Halt::Fenced(_))));
        // It did not claim again: that would fence the other one in turn.
        assert_eq!(*journal.claims.lock().unwrap(), 1);
        assert_eq!(journal.stored("a").await.len(), events);
        gone(&persistence, "a").await;
    }
}

#[tokio::test]
async fn stored_with_a_spent_claim_is_answered_as_stored_and_halts() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let mut actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Run("stored"));
    journal.append_entered().await;
    let behind = actor.send(Add(2));
    handled(&actor).await;
    journal.fate(Fate::StoredThenFenced);
    journal.let_through(100);
    first.await.unwrap().unwrap();
    assert_eq!(actor.effect().await, "stored 1");
    assert_eq!(fenced(behind.await.unwrap()), Outcome::NotStored);
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::Fenced(_))));
    assert_eq!(journal.stored("a").await.len(), 1);
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test]
async fn an_actor_that_panics_while_it_is_fenced_halts_all_the_same() {
    let journal = Controlled::gated();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    let first = actor.send(Add(1));
    journal.append_entered().await;
    let panicking = actor.send(PanicInHandle);
    others_run().await;
    journal.fate(Fate::FencedBefore);
    journal.let_through(100);
    assert_eq!(fenced(first.await.unwrap()), Outcome::NotStored);
    assert!(panicking.await.unwrap().is_err());
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::Fenced(_))));
    assert_eq!(*journal.claims.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_repeat_that_is_fenced_halts() {
    let journal = Controlled::open();
    let persistence = persistence(&journal);
    let actor = Mini::spawn(&persistence, "a").await.unwrap();
    journal.fate(Fate::NotStored(ErrorKind::Unavailable));
    journal.fate(Fate::FencedBefore);
    assert_eq!(fenced(actor.ask(Add(1)).await), Outcome::NotStored);
    assert!(matches!(actor.task.await.unwrap(), Err(Halt::Fenced(_))));
}

#[tokio::test]
async fn a_later_actor_takes_over_again() {
    let journal = Controlled::open();
    let (here, there) = (persistence(&journal), persistence(&journal));
    let first = Mini::spawn(&here, "a").await.unwrap();
    assert_eq!(first.ask(Add(1)).await.unwrap(), 1);
    let second = Mini::spawn(&there, "a").await.unwrap();
    assert_eq!(second.ask(Add(1)).await.unwrap(), 2);
    assert_eq!(fenced(first.ask(Add(1)).await), Outcome::NotStored);
    assert!(matches!(first.task.await.unwrap(), Err(Halt::Fenced(_))));
    gone(&here, "a").await;
    let third = Mini::spawn(&here, "a").await.unwrap();
    assert_eq!(third.ask(Add(1)).await.unwrap(), 3);
    assert_eq!(fenced(second.ask(Add(1)).await), Outcome::NotStored);
    assert_eq!(third.ask(Get).await.unwrap(), 3);
}
